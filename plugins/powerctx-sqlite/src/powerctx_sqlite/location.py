"""Where a URL points to, and what can be said about that place before it is opened."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote

import attrs

from powerctx_core.errors import StoreUnavailable, redacted_url
from powerctx_sqlite.settings import SqliteSettings

__all__ = ["Location", "network_type", "parsed"]

_NETWORK = frozenset("9p afs ceph cifs fuse.glusterfs fuse.sshfs nfs nfs4 smb2 smb3 smbfs".split())
_PARAMETERS = "synchronous=FULL|NORMAL, busy_timeout_ms=N, mode=ro, network=allow"


@attrs.frozen(kw_only=True)
class Location:
    """A file, or memory.

    Attributes:
        path: absolute; ``None`` for a private database in memory.
        url: for messages, without secrets.
        read_only: opened for reading whatever the file allows.
    """

    path: Path | None
    url: str
    read_only: bool = False

    @property
    def name(self) -> str:
        """For messages."""
        return self.url if self.path is None else str(self.path)

    def uri(self, mode: str) -> str:
        """Return the URI by which SQLite opens the file; *mode* is ``ro``, ``rw``, ``rwc`` or ``immutable``."""
        assert self.path is not None  # noqa: S101 - only asked of files
        query = "immutable=1" if mode == "immutable" else f"mode={mode}"
        return f"file:{quote(str(self.path))}?{query}"

    def writable(self) -> bool:
        """Whether this process may write the file and the files beside it."""
        path = self.path
        if self.read_only or path is None:
            return not self.read_only
        # The directory counts, too: SQLite writes its log beside the file.
        directory = next(parent for parent in path.parents if parent.is_dir() or parent == parent.parent)
        return _may_write(directory) and (_may_write(path) or not path.exists())

    def exists(self) -> bool:
        """Whether there is a file with content; SQLite makes an empty one before it writes."""
        if self.path is None:
            return True
        try:
            return self.path.stat().st_size > 0
        except OSError:
            return False


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def parsed(url: str, settings: SqliteSettings) -> tuple[Location, SqliteSettings]:
    """Return where *url* points to, and the settings with the URL's parameters.

    Raises:
        StoreUnavailable: not a URL of this store, or an unknown or bad parameter.
    """
    shown = redacted_url(url)
    scheme, separator, rest = url.partition("://")
    place, _, query = rest.partition("?")
    if scheme != "sqlite" or not separator or (place and not place.startswith("/")):
        raise StoreUnavailable(
            f"{shown} is not a URL of the SQLite store: use sqlite:///notes.db for a file in this directory, "
            "sqlite:////var/lib/notes.db for an absolute path, or sqlite:// for a private store in memory."
        )
    read_only = False
    for name, value in parse_qsl(query, keep_blank_values=True):
        if (name, value) == ("mode", "ro"):
            read_only = True
        elif name == "synchronous" and value.upper() in {"FULL", "NORMAL"}:
            settings = attrs.evolve(settings, synchronous=value.upper())
        elif name == "busy_timeout_ms" and value.isascii() and value.isdigit() and len(value) < 9:
            settings = attrs.evolve(settings, busy_timeout_ms=int(value))
        elif (name, value) == ("network", "allow"):
            settings = attrs.evolve(settings, network=True)
        else:
            raise StoreUnavailable(f"{shown}: {name}={value} is not understood; the parameters are {_PARAMETERS}.")
    name = unquote(place[1:])
    if name in {"", ":memory:"}:
        return Location(path=None, url=shown), settings
    if "\0" in name:
        raise StoreUnavailable(f"{shown} holds a NUL character, which no path can; remove it.")
    return Location(path=Path(os.path.abspath(name)), url=shown, read_only=read_only), settings  # noqa: PTH100 - resolve() follows links, which belong to the user


def network_type(path: Path) -> str | None:
    """Return the type of the network file system that *path* is on, or ``None``; known on Linux only."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    real = Path(os.path.realpath(path))
    return mounted_type(mounts, real)


def mounted_type(mounts: str, path: Path) -> str | None:
    """Return the network type in *mounts* (the text of ``/proc/mounts``) that holds *path*, if it is one."""
    best, found = -1, None
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ").replace("\\011", "\t")
        if len(point) >= best and path.is_relative_to(point):
            best, found = len(point), fields[2]
    return found if found in _NETWORK else None
