"""Which values of settings are secrets: by name, by reference, or as part of a URL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from powerctx_core.errors import url_secrets
from powerctx_core.settings import Settings
from powerctx_core.toml_file import NotToml, parse_toml
from powerctx_core.wire.texts import RawSecret, RawText, Secret, Unresolved

__all__ = ["Keys", "holds_secret", "is_secret", "is_secret_number", "parsed", "secrets", "secrets_in"]

Keys = tuple[str, ...]

_SECRET = re.compile(r"(?i)key|token|secret|passw|passphrase|passcode|pwd|credential|auth|bearer|private")
_SECRET_NUMBER = re.compile(r"(?i)passw|passphrase|passcode|pwd")
"""Names whose numbers are secrets too; those of ``max_tokens`` are not."""


def is_secret(keys: Keys) -> bool:
    """Tell by its name whether a string is a secret; the names of sections and parts do not count."""
    return _named(keys, _SECRET)


def is_secret_number(keys: Keys, value: Any) -> bool:
    """Tell by its name whether a value is a number and a secret."""
    return isinstance(value, int | float) and not isinstance(value, bool) and _named(keys, _SECRET_NUMBER)


def _named(keys: Keys, pattern: re.Pattern[str]) -> bool:
    return any(pattern.search(key) for key in keys[2 if keys[0] == "parts" else 1 :])


def holds_secret(keys: Keys, text: RawText) -> bool:
    """Tell whether a variable holds lists or tables with a secret, as far as it can be read."""
    if not text.lstrip().startswith(("[", "{")):
        return False
    value = parsed(text)
    return bool(_SECRET.search(text)) if value is text else next(secrets_in(keys, value), None) is not None


def parsed(text: RawText) -> Any:
    """Return the list or table that a variable spells, or else *text* itself."""
    if not text.lstrip().startswith(("[", "{")):
        return text
    try:
        value = parse_toml(f"value = {text}")["value"]
    except NotToml:
        return text
    return value if isinstance(value, list | dict) else text


def secrets_in(keys: Keys, value: Any) -> Iterator[str]:
    """Give every secret in *value*, the setting of that name: by name, by reference, or as part of a URL."""
    if isinstance(value, RawText):
        value = parsed(value)
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from secrets_in((*keys, str(key)), each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from secrets_in(keys, each)
    elif isinstance(value, str) and not isinstance(value, Unresolved):
        if isinstance(value, Secret | RawSecret) or is_secret(keys):
            yield str(value)
        elif "://" in value:
            yield from url_secrets(value)
    elif is_secret_number(keys, value):
        yield str(value)


def secrets(settings: Settings, part: str | None = None) -> frozenset[str]:
    """Return every secret in the settings of *part*, or in all settings: what no message may show."""
    if part is not None:
        return frozenset(secrets_in(("parts", part), settings.parts.get(part, {})))
    store = url_secrets(settings.store) if settings.store else ()
    return frozenset((*store, *(secret for name in settings.parts for secret in secrets(settings, name))))
