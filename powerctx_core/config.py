"""How settings are read, and where each value came from.

A flag beats the environment, the environment beats the file, the file beats the default.  The file is the first
``powerctx.toml`` found from the working directory upward, else ``powerctx/powerctx.toml`` in the user's configuration
folder.  A string value ``$env:NAME`` or ``$file:PATH`` is replaced by what it names.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import attrs

from powerctx_core.errors import ConfigError, blanked, redacted, redacted_url, shown
from powerctx_core.secrecy import Keys, holds_secret, is_secret, is_secret_number, parsed, secrets_in
from powerctx_core.settings import (
    AssemblySettings,
    RecallSettings,
    RetrievalSettings,
    Settings,
    TokenSettings,
    TrimSettings,
)
from powerctx_core.toml_file import expanded, read_toml
from powerctx_core.wire.strict import HIDDEN, Mismatch, convert
from powerctx_core.wire.texts import RawSecret, RawText, Secret, Unresolved

__all__ = [
    "AssemblySettings",
    "Effective",
    "RecallSettings",
    "RetrievalSettings",
    "Settings",
    "TokenSettings",
    "TrimSettings",
    "default_store_url",
    "load",
    "part_settings",
    "show",
    "structure",
]

T = TypeVar("T")

FILE = "powerctx.toml"
PREFIX = "POWERCTX_"

_EMPTY: Mapping[Any, Any] = MappingProxyType({})
_ABSENT: Mapping[Keys, str] = MappingProxyType(
    {("plugins",): "all installed", ("recall", "policy"): "that of the gate, else powerctx.recall.v1"}
)
"""What a value that is not there stands for."""


@attrs.frozen(kw_only=True)
class Effective:
    """Settings as read.

    Attributes:
        settings: the values.
        written: every value that was given, as it was written (references are not resolved), in order.
        file: the settings file, if there is one.
    """

    settings: Settings
    written: Mapping[Keys, Any] = attrs.field(repr=False)
    file: Path | None


def load(
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    user_dir: Path | None = None,
) -> Effective:
    """Read all settings.

    Args:
        flags: dotted name -> value (``{"recall.policy": "…"}``) or nested tables; ``None`` values were not given.
        environ: the process's own when absent.
        cwd: where the search for ``powerctx.toml`` starts; the working directory when absent.
        user_dir: the user's configuration folder; asked from the platform when absent.

    Raises:
        ConfigError: one line for every bad value, with the place it came from.
    """
    environ = os.environ if environ is None else environ
    cwd = Path.cwd() if cwd is None else cwd
    file = _find(cwd, user_dir)
    layers: list[tuple[Keys, Any, str]] = []
    if file is not None:
        layers += [(keys, value, str(file)) for keys, value in _leaves(read_toml(file))]
    layers += _from_environment(environ)
    layers += [(keys, value, "flag") for keys, value in _given(flags or {})]
    return _effective(layers, environ, file, cwd)


def structure(values: Mapping[str, Any]) -> Settings:
    """Return settings given in a program: dotted name -> value, or nested tables; no file, no environment.

    Raises:
        ConfigError: *values* is no mapping of strings; else one line for every bad value.
    """
    return _effective([(keys, value, "argument") for keys, value in _given(values)], os.environ, None, Path()).settings


def _given(values: Mapping[str, Any]) -> Iterator[tuple[Keys, Any]]:
    if not isinstance(values, Mapping):
        raise ConfigError(f"settings must be a mapping such as {{'store': 'memory://'}}, not {type(values).__name__}.")
    _check_keys(values, "settings")
    for name, given in values.items():
        for keys, value in _leaves(given, tuple(name.split("."))):
            if value is not None:
                yield keys, value


def _check_keys(table: Mapping[Any, Any], where: str) -> None:
    for key, value in table.items():
        if not isinstance(key, str):
            raise ConfigError(f"{where} has the key {shown(key)}; keys must be strings.")
        if isinstance(value, Mapping):
            _check_keys(value, f"{where}.{key}")


def _effective(
    layers: list[tuple[Keys, Any, str]], environ: Mapping[str, str], file: Path | None, cwd: Path
) -> Effective:
    tree: dict[str, Any] = {}
    written: dict[Keys, Any] = {}
    origins: dict[str, str] = {}
    for keys, value, origin in layers:
        base = file.parent if file is not None and origin == str(file) else cwd
        _set(tree, keys, _resolved(keys, value, environ, base))
        written[keys] = value
        origins[".".join(keys)] = origin
    try:
        settings = convert(Settings, tree)
    except Mismatch as mismatch:
        raise ConfigError(_lines(mismatch, (), origins, tree)) from None
    settings = attrs.evolve(settings, recall=_placed(settings.recall, origins, file), origins=MappingProxyType(origins))
    return Effective(settings=settings, written=MappingProxyType(written), file=file)


def _placed(recall: RecallSettings, origins: Mapping[str, str], file: Path | None) -> RecallSettings:
    """Return the settings with paths that the settings file names counted from its folder."""
    if file is None or origins.get("recall.gate_files") != str(file):
        return recall
    return attrs.evolve(recall, gate_files=tuple(file.parent / expanded(each) for each in recall.gate_files))


def _find(cwd: Path, user_dir: Path | None) -> Path | None:
    folder = cwd.absolute()
    for candidate in (*(each / FILE for each in (folder, *folder.parents)), _user_file(user_dir)):
        try:
            if candidate.exists() and not candidate.is_dir():  # of a pipe, reading tells that it is none
                return candidate
        except OSError:  # a folder on the way that may not be read holds no settings of this user
            continue
    return None


def _user_file(user_dir: Path | None) -> Path:
    if user_dir is None:
        import platformdirs  # needed only when no file lies in or above the working directory

        user_dir = platformdirs.user_config_path()
    return user_dir / "powerctx" / FILE


def _leaves(value: Any, keys: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    """Give every value of nested tables with the keys that lead to it; an empty table is a value."""
    if isinstance(value, Mapping) and value:
        for key, each in value.items():
            yield from _leaves(each, (*keys, key))
    elif keys:
        yield keys, value


def _set(tree: dict[str, Any], keys: Keys, value: Any) -> None:
    for key in keys[:-1]:
        below = tree.get(key)
        if not isinstance(below, dict):
            below = tree[key] = {}
        tree = below
    if not (value == {} and isinstance(tree.get(keys[-1]), dict)):  # an empty table takes nothing away
        tree[keys[-1]] = value


def _from_environment(environ: Mapping[str, str]) -> Iterator[tuple[Keys, Any, str]]:
    defaults = {field.name: field.default for field in attrs.fields(Settings) if not field.metadata.get(HIDDEN)}
    sections = {name for name, default in defaults.items() if name == "parts" or attrs.has(type(default))}
    plain = defaults.keys() - sections
    for variable in sorted(environ):
        if not variable.startswith(PREFIX):
            continue
        name, value = variable.removeprefix(PREFIX).lower(), environ[variable]
        if "__" in name:
            keys = tuple(name.split("__"))
            if keys[0] in plain:
                raise ConfigError(
                    f"{variable} is not a setting; nothing lies below {keys[0]}, which is {PREFIX}{keys[0].upper()}."
                )
            if keys[0] == "parts" and len(keys) > 1:
                keys = ("parts", keys[1].replace("_", "-"), *keys[2:])
            yield keys, RawText(value), f"env {variable}"
        elif name in plain:
            # An empty list of plugins is safe mode; an empty text is what shells leave behind.
            if value or name == "plugins" or isinstance(defaults[name], tuple):
                yield (name,), RawText(value), f"env {variable}"
        elif name in sections:
            raise ConfigError(f"{variable} is not a setting; a setting of this section is {variable}__<NAME>.")
        else:
            _refuse_misspelt(variable, name, plain)


def _refuse_misspelt(variable: str, name: str, known: Iterable[str]) -> None:
    import difflib  # 7 ms that only an odd variable costs

    if close := difflib.get_close_matches(name, known, n=1, cutoff=0.75):
        raise ConfigError(f"{variable} is not a setting; did you mean {PREFIX}{close[0].upper()}?")


def _resolved(keys: Keys, value: Any, environ: Mapping[str, str], base: Path) -> Any:
    if isinstance(value, list | tuple):
        return [_resolved(keys, each, environ, base) for each in value]
    if isinstance(value, Mapping):  # a table inside a list
        return {key: _resolved((*keys, str(key)), each, environ, base) for key, each in value.items()}
    if not isinstance(value, str):
        return value
    kind, colon, name = value.partition(":")
    if colon and kind == "$env":
        found = environ.get(name)
        return Secret(found) if found is not None else _unresolved(value, f"the variable {name} is not set")
    if colon and kind == "$file":
        path = Path(name)
        try:
            path = base / path.expanduser()
            return Secret(path.read_text(encoding="utf-8-sig").rstrip("\r\n"))
        except UnicodeDecodeError:
            return _unresolved(value, f"{path} is not UTF-8 text")
        except OSError as error:
            return _unresolved(value, f"{path} cannot be read ({error.strerror})")
        except (RuntimeError, ValueError):  # it has no such user's home, or a NUL
            return _unresolved(value, f"{str(path)!r} is no path of a file")
    if isinstance(value, RawText):
        return RawSecret(value) if is_secret(keys) or holds_secret(keys, value) else value
    return Secret(value) if is_secret(keys) else value


def _unresolved(value: str, cause: str) -> Unresolved:
    unresolved = Unresolved(value)
    unresolved.problem = f"{str(value)!r} cannot be resolved: {cause}"
    return unresolved


def _lines(mismatch: Mismatch, prefix: Keys, origins: Mapping[str, str], tree: Mapping[str, Any]) -> str:
    hidden = {secret for key, each in tree.items() for secret in secrets_in((*prefix, key), each)}
    lines = []
    for problem in mismatch.problems:
        keys = (*prefix, *problem.path)
        place = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
        origin = _origin(".".join(map(str, keys)), origins)
        sentence = blanked(redacted(problem.sentence), hidden)  # a validator may quote its value
        lines.append(f"Bad setting @ ${place}{f' in {origin}' if origin else ''}: {sentence}.")
    return "\n".join(lines)


def _origin(dotted: str, origins: Mapping[str, str]) -> str | None:
    """Return where the value came from: the nearest name at or above it, else the last one below it."""
    name = dotted
    while name:
        if name in origins:
            return origins[name]
        name = name.rpartition(".")[0]
    return next((origins[each] for each in reversed([*origins]) if each.startswith(f"{dotted}.")), None)


def part_settings(cls: type[T], settings: Settings, name: str, foreign: frozenset[str] = frozenset()) -> T:
    """Return the settings of the part *name* as an instance of its own class.

    Args:
        cls: the frozen attrs class of its record.
        settings: all settings.
        name: of the part.
        foreign: keys of other parts of the same name, which share the table.

    Raises:
        ConfigError: a value does not fit, with the place it came from.
    """
    own = {field.name for field in attrs.fields(cls)}  # type: ignore[arg-type]  # the record was checked: an attrs class
    given = settings.parts.get(name, {})
    if not given and not any(field.default is attrs.NOTHING for field in attrs.fields(cls)):  # type: ignore[arg-type]  # as above
        return cls()
    try:
        return convert(cls, {key: value for key, value in given.items() if key in own or key not in foreign})
    except Mismatch as mismatch:
        raise ConfigError(_lines(mismatch, ("parts", name), settings.origins, given)) from None


def default_store_url() -> str:
    """Return the URL of the store that is used when none is set."""
    import platformdirs  # needed only without a setting

    path = platformdirs.user_data_path() / "powerctx" / "powerctx.db"
    return f"sqlite:///{path.as_posix()}"


def show(effective: Effective) -> list[tuple[str, str, str]]:
    """Return every effective value: dotted name, value as TOML with secrets masked, and where it came from."""
    values = {**dict(_leaves(_values(effective.settings))), **effective.written}
    for keys, value in effective.written.items():
        if isinstance(value, RawText) and keys[0] != "parts":
            values[keys] = _value(effective.settings, keys)
    return [
        (".".join(keys), _shown(keys, value), effective.settings.origins.get(".".join(keys), "default"))
        for keys, value in values.items()
        if value != {}
    ]


def _values(settings: Settings) -> dict[str, Any]:
    tree = {
        field.name: _table(getattr(settings, field.name))
        for field in attrs.fields(Settings)
        if field.name not in {"parts", "origins"}
    }
    tree["store"] = settings.store or default_store_url()
    return tree


def _table(value: Any, *, entry: bool = False) -> Any:
    """Return a value with tables for what is nested; an *entry* of a table shows what it sets alone."""
    if isinstance(value, Mapping):
        return {key: _table(each, entry=True) for key, each in value.items()}
    if attrs.has(type(value)):
        below = {field.name: _table(getattr(value, field.name)) for field in attrs.fields(type(value))}
        return {name: each for name, each in below.items() if each is not None} if entry else below
    return value


def _value(settings: Settings, keys: Keys) -> Any:
    value: Any = settings
    for key in keys:
        value = value[key] if isinstance(value, Mapping) else getattr(value, key)
    return value


def _shown(keys: Keys, value: Any) -> str:
    if value is None:
        return _ABSENT.get(keys, "none")
    if isinstance(value, RawText):
        value = parsed(value)
        if isinstance(value, RawText) and holds_secret(keys, value):
            return '"***"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(_shown(keys, each) for each in value)}]"
    if isinstance(value, Mapping):
        entries = (f"{_key(key)} = {_shown((*keys, str(key)), each)}" for key, each in value.items())
        return f"{{ {', '.join(entries)} }}" if value else "{}"
    if isinstance(value, str) and not value.startswith(("$env:", "$file:")):
        return '"***"' if is_secret(keys) else json.dumps(redacted_url(value), ensure_ascii=False)
    return '"***"' if is_secret_number(keys, value) else json.dumps(value, ensure_ascii=False, default=str)


def _key(key: object) -> str:
    return str(key) if re.fullmatch(r"[A-Za-z0-9_-]+", str(key)) else json.dumps(str(key), ensure_ascii=False)
