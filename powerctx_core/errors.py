"""The one exception tree.

Every message is a single sentence (or a few) that says what was wrong, where, which values are allowed and what to do
next.  Data a program may need stays on the exception as attributes.  Messages never hold secrets: URLs are passed
through :func:`redacted_url` first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import quote, unquote

__all__ = [
    "CapabilityError",
    "ConfigError",
    "InvalidRequest",
    "NotFound",
    "PlanInvariantError",
    "PluginError",
    "PoolInvariantError",
    "PowerctxError",
    "StoreError",
    "StoreUnavailable",
    "blanked",
    "cause",
    "kind",
    "made_safe",
    "redacted",
    "redacted_url",
    "safe_message",
    "said",
    "shown",
    "url_secrets",
]


class PowerctxError(Exception):
    """Base of everything this package raises on purpose."""


class InvalidRequest(PowerctxError, ValueError):
    """A request, item or address holds a value that is not allowed.

    Attributes:
        field: name of the offending field, as the caller wrote it.
    """

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class NotFound(PowerctxError, LookupError):
    """An address names nothing that is stored."""


class CapabilityError(PowerctxError):
    """Something was asked for that the installed parts cannot do; the message names what to install or change."""


class ConfigError(PowerctxError, ValueError):
    """A settings file, environment variable or flag holds a bad value."""


class PluginError(PowerctxError):
    """A plugin could not be used; the message names its distribution and version."""


class StoreError(PowerctxError):
    """A store refused or failed an operation; nothing of that operation was kept."""


class StoreUnavailable(StoreError):
    """A store could not be opened or reached; the message names URL (without secrets), cause and next step."""


class PoolInvariantError(PowerctxError):
    """A family returned a pool that breaks its contract; the family's outcome is ``invalid``."""


class PlanInvariantError(PowerctxError):
    """The planner or a renderer broke one of its promises; a wrong pack is never delivered instead."""


_SHOWN = 60
_LINE, _MESSAGE = 300, 2000
"""The most characters of a cause, and of a message that somebody else wrote."""
_READ = 8 * _MESSAGE
"""So much of a message is searched for secrets; the patterns take long on a long one."""
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # such as colours
    r"|\x1b[\]PX^_][^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"  # such as titles of windows
    r"|\x1b[ -/]*[0-~]?"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""What commands a terminal, turns the direction of text round, or is no character."""
_OWN_SCHEME = "powerctx://"
_SHORTEST_SECRET = 4
_TOKEN = 16
"""A user name of this length without password is a token."""
_URL = re.compile(r"://")
_AUTHORITY_END = re.compile(r"[/?#\s]")
_QUERY = re.compile(r"\?[\w.~-]+=")
_HOST = r"(?:\[[\w:.%]+\]|[\w.%-]+)(?::\d+)?"
_HOSTS = re.compile(rf"{_HOST}(?:,{_HOST})*(?=[/?#\s]|\Z)|(?=/|\Z)")
_SECRET_PARAMETER = re.compile(
    r"(?i)([?&;#](?:[^=&;#\s]*(?:pass|pwd|token|secret|key|auth|credential|bearer|private)[^=&;#\s]*"
    r"|(?:[^=&;#\s]*[-_.])?sig(?:nature)?)=)((?:[^&;\s]|;(?![\w.~-]+=))*)"
)
_HEADER = re.compile(
    r"(?i)(?<![.$\w])((?:proxy-)?authorization[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|digest|token|negotiate)\s+)?"
    r"|x-(?:api-key|auth-token)[\"']?\s*[:=]\s*[\"']?)[^\s\"',;]+"
)
_BEARER = re.compile(r"\b([Bb]earer|BEARER)\s+(?=\S*[0-9A-Z])[\w.~+/=-]{4,}")


def redacted_url(url: str) -> str:
    """Return *url* with user info and secret-looking query parameters replaced by ``***``.

    A password may hold any character, as people write it: user info ends at the last ``@`` that can end it.  What is
    no user info stays: that of a URL without host (``sqlite:///home/me@work/x.db``), and an ``@`` in path or query
    behind a host without port.
    """
    pieces: list[str] = []
    done = 0
    for start, end in _user_info(url):
        pieces += [url[done:start], "***@"]
        done = end
    return _SECRET_PARAMETER.sub(r"\1***", "".join([*pieces, url[done:]]))


def url_secrets(url: str) -> tuple[str, ...]:
    """Return what :func:`redacted_url` hides of *url*: passwords and secret parameters, as written and decoded."""
    found = [match[2] for match in _SECRET_PARAMETER.finditer(url)]
    for start, end in _user_info(url):
        user, *password = re.split("[:/]", url[start : end - 1], maxsplit=1)
        found += password or ([user] if len(user) >= _TOKEN else [])
    return tuple(dict.fromkeys(form for secret in found if secret for form in (secret, unquote(secret))))


def blanked(message: str, secrets: Iterable[str]) -> str:
    """Return *message* with each of *secrets* replaced by ``***``; a short one only where it stands alone."""
    written = {form for each in secrets if each.strip() for form in _written(each)}
    for secret in sorted(written, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            message = message.replace(secret, "***")
        else:
            message = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", "***", message)
    return message


def _written(secret: str) -> tuple[str, ...]:
    """Return a secret as it is, and as ``repr``, bytes, JSON and URLs write it."""
    if secret.isascii() and secret.isalnum():
        return (secret,)
    plain = secret.encode(errors="surrogatepass")
    return secret, repr(secret)[1:-1], repr(plain)[2:-1], json.dumps(secret)[1:-1], quote(plain), quote(plain, safe="")


def redacted(message: str) -> str:
    """Return *message* with the secrets of every URL and authorization header in it replaced by ``***``."""
    message = re.sub(r"\S+", lambda word: redacted_url(word[0]) if "://" in word[0] else word[0], message)
    return _BEARER.sub(r"\1 ***", _HEADER.sub(r"\1***", message))


def said(error: BaseException) -> str:
    """Return ``str(error)``, or nothing when its ``__str__`` raises: this never does."""
    return _spoken(str, error) or ""


def kind(error: BaseException) -> str:
    """Return the name of an error's class; never raises."""
    return _spoken(lambda each: type(each).__name__, error) or "an exception"


def cause(error: BaseException, secrets: Iterable[str] = ()) -> str:
    """Return one line that says what was raised, fit to be shown: as :func:`safe_message`, and at most 300 characters.

    Never raises, whatever the error does when it is asked for its text.
    """
    name, hidden = kind(error), tuple(secrets)
    if issubclass(type(error), SystemExit):
        code = _spoken(lambda each: repr(each.code), error)
        text = "it called sys.exit" if code is None else f"it called sys.exit({code})"
    else:
        words = _spoken(str, error)
        if words is None:
            return safe_message(f"{name} (its text cannot be shown)")
        # A secret may have several lines, so that it is looked for before the first is taken.
        lines = blanked(words, hidden).strip().splitlines()
        text = f"{name}: {lines[0]}" if lines else name
    return _cut(" ".join(safe_message(text, hidden).splitlines()), _LINE).removesuffix(": ")


def safe_message(text: str, hidden: Iterable[str] = ()) -> str:
    """Return a message that somebody else wrote, such as a part's own :class:`PowerctxError`, fit to be shown.

    Secrets of URLs and headers and the values in *hidden* become ``***``; what commands a terminal is taken out, line
    ends excepted; what is longer than 2000 characters is cut.  Who wrote it is the caller's to add.
    """
    hidden = tuple(hidden)
    text = _plain(blanked(str.__str__(text), hidden))
    # Once more: a secret may have been written with such characters, or hold some.
    text = blanked(text, {_plain(secret) for secret in hidden})
    if len(text) > _READ:
        # The end of a URL's password may be cut off: nothing of it is shown.
        start = max(text.rfind(" ", 0, _READ), text.rfind("\n", 0, _READ)) + 1
        scheme = text.find("://", start, _READ)
        text = text[: _READ if scheme < 0 else scheme] + "…"
    return _cut(redacted(text), _MESSAGE)


def made_safe(error: PowerctxError, hidden: Iterable[str] = (), part: object = "") -> PowerctxError:
    """Return what a part raised of this tree with a message as :func:`safe_message` gives it, to be raised instead.

    It is the same error, or one of the nearest class here when its own class may say something else.

    Args:
        error: what was raised.
        hidden: what no message may show.
        part: who raised it, for the end of a message that does not name it.
    """
    message = safe_message(said(error), hidden) or kind(error)
    who = str(part)
    if who and who not in message:
        message = f"{message.rstrip('.')} ({who})."
    own = next(each for each in type(error).__mro__ if each.__module__ == __name__)
    if own is type(error):
        error.args = (message,)
        return error
    safe: PowerctxError = own(message)
    safe.__cause__ = error
    return safe


def _spoken(speak: Callable[[Any], str], error: BaseException) -> str | None:
    """Return what somebody else's code says about *error*, as plain text, or ``None`` when it raises."""
    try:
        return str.__str__(speak(error))
    except BaseException:  # noqa: BLE001 - whatever it is, what is told of it must not be worse
        return None


def _plain(text: str) -> str:
    """Return *text* without what is no text, lines and words apart."""
    for end in ("\r\n", "\u2028", "\u2029"):
        text = text.replace(end, "\n")
    return _ESCAPES.sub("", text.replace("\t", " "))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _user_info(url: str) -> Iterator[tuple[int, int]]:
    """Yield where the user info of each URL in *url* starts and ends, its ``@`` included."""
    place = 0
    while (scheme := _URL.search(url, place)) is not None:
        place = scheme.end()
        if url.endswith(_OWN_SCHEME, 0, place):
            # An item's URI: its "@" stands before the revision.
            continue
        end = _user_info_end(url[place:])
        if end:
            yield place, place + end
            place += end


def _user_info_end(rest: str) -> int:
    """Return the length of the user info at the start of *rest*, what follows ``://``; 0 when there is none."""
    if "@" not in rest or rest[0] in "/?#":
        return 0
    last = rest.rfind("@") + 1
    query = _QUERY.search(rest)
    region = rest if query is None else rest[: query.start()]
    end = region.rfind("@") + 1
    authority = _authority(rest)
    if "@" not in authority and ":" not in authority:
        # A host and a path, or "user/password@host" as Oracle's tools write it.
        is_host = "." in authority or authority == "localhost" or rest[len(authority) :].startswith("/@")
        return 0 if is_host else end
    # What is left must begin with hosts, or else a query that ends the password early was none.  A port is one only
    # where no "@" follows it before the query: "u:123/45@host" has a password.
    return end if _HOSTS.match(rest, end) else last


def _authority(rest: str) -> str:
    end = _AUTHORITY_END.search(rest)
    return rest if end is None else rest[: end.start()]


def shown(value: object, most: int = _SHOWN) -> str:
    """Return *value* as an error message shows it: its ``repr``, cut to *most* characters."""
    try:
        text = str.__str__(repr(value))
    except Exception:  # noqa: BLE001 - somebody else's class, or a whole number of more digits than Python prints
        text = f"a number of {value.bit_length()} bits" if isinstance(value, int) else type(value).__name__
    return text if len(text) <= most else text[: most - 1] + "…"
