"""Where a URL points to."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, unquote_to_bytes, urlsplit

import attrs

from powerctx_core.errors import StoreUnavailable, redacted_url
from powerctx_oceanbase.settings import OceanBaseSettings

__all__ = ["Location", "parsed", "unusable"]

_PARAMETERS = frozenset(
    "pool connect_timeout_s lock_timeout_ms write_timeout_s buckets rank_above exact_below tls database".split()
)
_DATABASE = re.compile(r"[A-Za-z0-9_$-]{1,64}\Z")
_DEFAULT = "powerctx"
_PORT = 2881
_FORMS = {
    "oceanbase": "oceanbase://user:password@host:2881/database",
    "seekdb": "seekdb:///directory (or seekdb:////absolute/directory)",
}
_SYSTEM = frozenset({"information_schema", "mysql", "oceanbase", "performance_schema", "sys", "test"})


@attrs.frozen(kw_only=True)
class Location:
    """A database of a server, or of the engine of a directory.

    Attributes:
        url: for messages, without secrets and parameters.
        database: its name.
        directory: absolute; ``None`` for a server.
        host, port, user: of the server.
    """

    url: str
    database: str
    directory: Path | None = None
    host: str = ""
    port: int = _PORT
    user: str = ""
    password: str = attrs.field(default="", repr=False)

    @property
    def name(self) -> str:
        """For messages."""
        if self.directory is None:
            return self.url
        where = os.fsencode(self.directory).decode("utf-8", "backslashreplace")
        return where if self.database == _DEFAULT else f"{where} (database {self.database})"


def parsed(url: str, settings: OceanBaseSettings) -> tuple[Location, OceanBaseSettings]:
    """Return what *url* names, and the settings with its parameters.

    Raises:
        StoreUnavailable: it cannot be meant.
    """
    scheme = url.partition(":")[0].lower()
    shown = redacted_url(url).partition("?")[0]
    try:
        parts = urlsplit(url)
        # Reading it is what checks it.
        _ = parts.port
    except ValueError as error:
        raise _refused(shown, scheme, "it is no URL") from error
    if parts.fragment:
        raise _refused(shown, scheme, "a # in it must be written %23")
    values = _values(parts.query, shown, scheme)
    named = values.pop("database", None)
    location = _server(parts, shown) if scheme == "oceanbase" else _embedded(parts, shown, named)
    if scheme == "oceanbase" and named is not None:
        raise _refused(shown, scheme, "the database stands behind the host")
    return location, _applied(settings, values, shown, scheme)


def _values(query: str, shown: str, scheme: str) -> dict[str, str]:
    values = dict(parse_qsl(query, keep_blank_values=True))
    unknown = [name for name in values if name not in _PARAMETERS]
    if unknown:
        told = f"the parameter {unknown[0]}" if unknown[0].isidentifier() else "a parameter"
        raise _refused(shown, scheme, f"{told} is not known; the parameters are {', '.join(sorted(_PARAMETERS))}")
    return values


def _applied(settings: OceanBaseSettings, values: dict[str, str], shown: str, scheme: str) -> OceanBaseSettings:
    for name, value in values.items():
        if name != "tls" and not (value.isascii() and value.isdecimal()):
            raise _refused(shown, scheme, f"{name} must be a whole number")
        try:
            changed: dict[str, Any] = {name: value if name == "tls" else int(value)}
            settings = attrs.evolve(settings, **changed)
        except ValueError as error:
            raise _refused(shown, scheme, f"{name} {str(error).partition(', not')[0]}") from error
    return settings


def _server(parts: SplitResult, shown: str) -> Location:
    database = unquote(parts.path.removeprefix("/"))
    if not parts.hostname or not parts.username:
        raise _refused(shown, "oceanbase", "user and host are missing" if not parts.hostname else "the user is missing")
    _check_database(database, shown, "oceanbase")
    return Location(
        url=f"oceanbase://{parts.hostname}:{parts.port or _PORT}/{database}",
        database=database,
        host=parts.hostname,
        port=parts.port or _PORT,
        user=unquote(parts.username),
        password=unquote(parts.password or ""),
    )


def _embedded(parts: SplitResult, shown: str, database: str | None) -> Location:
    if parts.netloc or not parts.path.strip("/"):
        raise _refused(shown, "seekdb", "it names no directory" if not parts.netloc else "it names a host")
    path = os.fsdecode(unquote_to_bytes(os.fsencode(parts.path.removeprefix("/"))))
    if "\0" in path:
        raise _refused(shown, "seekdb", "a path holds no NUL")
    try:
        directory = Path(os.path.realpath(path))
        usable = directory.is_dir() or not directory.exists()
    except OSError as error:
        raise unusable(shown, error) from error
    if not usable:
        raise StoreUnavailable(f"{shown} is not a directory; name a directory, which may not exist yet.")
    name = _DEFAULT if database is None else database
    _check_database(name, shown, "seekdb")
    return Location(url=shown, database=name, directory=directory, user="root")


def unusable(place: object, error: OSError) -> StoreUnavailable:
    """Return the error to raise when the system refuses a directory."""
    return StoreUnavailable(
        f"{place} cannot be used as a directory ({error.strerror}); name one that this user may make, read and write."
    )


def _check_database(name: str, shown: str, scheme: str) -> None:
    if not name:
        raise _refused(shown, scheme, "the name of a database is missing")
    if not _DATABASE.match(name):
        raise _refused(shown, scheme, "the name of a database is 1 to 64 of A-Z a-z 0-9 _ $ -")
    if name.lower() in _SYSTEM:
        raise _refused(shown, scheme, f"{name} is the server's own database")


def _refused(shown: str, scheme: str, why: str) -> StoreUnavailable:
    return StoreUnavailable(f"{shown} cannot be opened, since {why}; write {_FORMS.get(scheme, _FORMS['oceanbase'])}.")
