"""Where a URL points to: a directory, memory, or a server; and the companion."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, quote, unquote, unquote_to_bytes, urlsplit

import attrs

from powerctx_chroma.settings import ChromaSettings
from powerctx_core.errors import StoreUnavailable, redacted_url

__all__ = ["Location", "parsed"]

_PARAMETERS = {"chroma": ("companion",), "server": ("companion", "database", "tenant", "token")}
_COMPANION = "companion="
_PORTS = {"chroma+http": 8000, "chroma+https": 443}
_FORMS = {
    "chroma": "chroma:///directory, chroma:////absolute/directory, or chroma:// for a store in memory",
    "server": "chroma+http://host:8000?companion=URL, where URL is the store that keeps items and words, for example "
    "oceanbase://user@host:2881/powerctx or sqlite:///notes.db",
}
_DATA = "chroma.sqlite3"
"""Chroma's own file in its directory."""
_BESIDE = ".powerctx"


@attrs.frozen(kw_only=True)
class Location:
    """A place for vectors, and the companion.

    Attributes:
        url: for messages, without secrets and parameters.
        companion: URL of the companion; ``None`` for a temporary one.
        directory: absolute; ``None`` for memory or a server.
        host, port, tls, tenant, database, token: of the server; no host otherwise.
    """

    url: str
    companion: str | None
    directory: Path | None = None
    host: str = ""
    port: int = 0
    tls: bool = False
    tenant: str = ""
    database: str = ""
    token: str = attrs.field(default="", repr=False)

    @property
    def name(self) -> str:
        """For messages."""
        if self.directory is None:
            return self.url
        return os.fsencode(self.directory).decode("utf-8", "backslashreplace")

    @property
    def lock(self) -> Path | None:
        """The file by which a process keeps the directory to itself."""
        return None if self.directory is None else self.directory.with_name(f"{self.directory.name}{_BESIDE}.lock")

    @property
    def data(self) -> Path | None:
        """Chroma's own file in the directory."""
        return None if self.directory is None else self.directory / _DATA

    @property
    def shared(self) -> bool:
        """Whether other processes may use it at the same time."""
        return bool(self.host)


def parsed(url: str, settings: ChromaSettings) -> Location:
    """Return what *url* names; what it does not say comes from *settings*.

    Raises:
        StoreUnavailable: it cannot be meant.
    """
    scheme = url.partition(":")[0].lower()
    kind = "chroma" if scheme == "chroma" else "server"
    own, companion = _split(url)
    shown = redacted_url(own).partition("?")[0]
    try:
        parts = urlsplit(own)
        # Reading it is what checks it.
        _ = parts.port
    except ValueError as error:
        raise _refused(shown, kind, "it is no URL") from error
    if parts.fragment:
        raise _refused(shown, kind, "a # in it must be written %23")
    values = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in values:
        if name not in _PARAMETERS[kind] or name == "companion":
            told = f"the parameter {name}" if name.isidentifier() else "a parameter"
            known = ", ".join(_PARAMETERS[kind])
            raise _refused(shown, kind, f"{told} is not known; the parameters are {known}, of which companion is last")
    if kind == "chroma":
        return _embedded(parts, shown, companion)
    return _server(parts, shown, companion, values, settings)


def _split(url: str) -> tuple[str, str | None]:
    """Return the URL without its companion, and that: all that follows ``companion=``."""
    for mark in "?&":
        own, found, companion = url.partition(f"{mark}{_COMPANION}")
        if found:
            return own, companion
    return url, None


def _embedded(parts: SplitResult, shown: str, companion: str | None) -> Location:
    if parts.netloc:
        raise _refused(shown, "chroma", "it names a host; a server is chroma+http://host:8000?companion=URL")
    path = os.fsdecode(unquote_to_bytes(os.fsencode(parts.path.removeprefix("/"))))
    if not path:
        if parts.path or companion is not None:
            raise _refused(shown, "chroma", "it names no directory")
        return Location(url=shown, companion=None)
    if "\0" in path:
        raise _refused(shown, "chroma", "a path holds no NUL")
    directory = Path(os.path.realpath(path))
    _check_directory(directory, shown)
    if companion is None:
        beside = os.fsencode(directory.with_name(f"{directory.name}{_BESIDE}.db"))
        companion = f"sqlite:///{quote(beside)}"
    return Location(url=shown, companion=companion, directory=directory)


def _check_directory(directory: Path, shown: str) -> None:
    try:
        if directory.exists() and not directory.is_dir():
            raise StoreUnavailable(f"{shown} is not a directory; name a directory, which may not exist yet.")
        if directory.is_dir() and any(directory.iterdir()) and not (directory / _DATA).exists():
            raise StoreUnavailable(
                f"{shown} is a directory of something else: it holds files, and no {_DATA} of Chroma; name a directory "
                "of Chroma, an empty one, or one that does not exist yet."
            )
        if not directory.parent.is_dir():
            raise StoreUnavailable(f"The directory that {shown} is to lie in does not exist; create it.")
    except OSError as error:
        raise StoreUnavailable(f"{shown} cannot be looked at: {error.strerror}; choose another directory.") from error


def _server(
    parts: SplitResult, shown: str, companion: str | None, values: dict[str, str], settings: ChromaSettings
) -> Location:
    if not parts.hostname:
        raise _refused(shown, "server", "the host is missing")
    if parts.path.strip("/"):
        raise _refused(shown, "server", "it has a path; tenant and database are parameters")
    if parts.username or (parts.password and "token" in values):
        raise _refused(shown, "server", "it names a user; a token is written ?token=…")
    if not companion:
        raise _refused(
            shown,
            "server",
            "the companion is missing: Chroma keeps vectors alone, and another store has to keep the rest",
        )
    port = parts.port or _PORTS[parts.scheme.lower()]
    return Location(
        url=f"{parts.scheme.lower()}://{parts.hostname}:{port}",
        companion=companion,
        host=parts.hostname,
        port=port,
        tls=parts.scheme.lower() == "chroma+https",
        tenant=values.get("tenant") or settings.tenant,
        database=values.get("database") or settings.database,
        token=values.get("token") or unquote(parts.password or "") or settings.token,
    )


def _refused(shown: str, kind: str, why: str) -> StoreUnavailable:
    return StoreUnavailable(f"{shown} cannot be opened, since {why}. Write {_FORMS[kind]}.")
