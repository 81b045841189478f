"""Where a URL points to, and what can be said about that place before it is opened."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote_to_bytes

import attrs

from powerctx_core.errors import StoreUnavailable, redacted_url
from powerctx_sqlite.settings import MOST_BUSY_MS, SqliteSettings

__all__ = ["Location", "Stamp", "network_type", "parsed"]

_NETWORK = frozenset(
    "9p afs beegfs ceph cifs fuse.ceph fuse.glusterfs fuse.gcsfuse fuse.rclone fuse.s3fs fuse.sshfs gpfs lustre ncpfs "
    "nfs nfs4 orangefs smb2 smb3 smbfs".split()
)
MOUNTS = Path("/proc/mounts")
"""Where Linux tells what is mounted."""
_PARAMETERS = {
    "synchronous": "FULL or NORMAL",
    "busy_timeout_ms": f"0 to {MOST_BUSY_MS}",
    "mode": "ro alone (to read only; without it the file is read and written, and a store in memory is sqlite://)",
    "network": "allow",
}
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_BESIDE = len("-journal")
"""Bytes of the longest suffix of the files that SQLite makes beside its own."""
_TICK_NS, _COARSE_NS = 20_000_000, 2_000_000_000
"""File systems count time in steps: of the system's clock, or of whole seconds."""


class Stamp(NamedTuple):
    """By what a file is known; it differs when another file took the name, and when the file was changed."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int

    def same_file(self, other: Stamp | None) -> bool:
        """Whether both are of one file, changed or not."""
        return other is not None and self[:2] == other[:2]


@attrs.frozen(kw_only=True)
class Location:
    """A file, or memory.

    Attributes:
        path: absolute and without symbolic links, beside which SQLite keeps its logs; ``None`` for a private database
            in memory.
        url: for messages, without secrets and parameters.
        read_only: opened for reading whatever the file allows.
        inspected: looked at only: not even the index of the log is written.
    """

    path: Path | None
    url: str
    read_only: bool = False
    inspected: bool = False

    @property
    def name(self) -> str:
        """For messages."""
        return self.url if self.path is None else _printable(str(self.path))

    def uri(self, mode: str) -> str:
        """Return the URI by which SQLite opens the file; *mode* is ``ro``, ``rw``, ``rwc`` or ``immutable``."""
        assert self.path is not None  # noqa: S101 - only asked of files
        query = "immutable=1" if mode == "immutable" else f"mode={mode}"
        if self.inspected and mode == "ro":
            query += "&readonly_shm=1"
        return f"file:{quote(os.fsencode(self.path))}?{query}"

    def writable(self) -> bool:
        """Whether this process may write the file and the files beside it."""
        path = self.path
        if self.read_only or path is None:
            return not self.read_only
        # The directory counts, too: SQLite writes its log beside the file.
        return self.open_folder() and (_may_write(path) or not path.exists())

    def open_folder(self) -> bool:
        """Whether this process may make files beside the file."""
        assert self.path is not None  # noqa: S101 - only asked of files
        parents = self.path.parents
        return _may_write(next(parent for parent in parents if parent.is_dir() or parent == parent.parent))

    def exists(self) -> bool:
        """Whether there is a file with content; SQLite makes an empty one before it writes."""
        found = self.stamp()
        return self.path is None or (found is not None and found.size > 0)

    def stamp(self) -> Stamp | None:
        """Return the stamp of the file that has the name now, or ``None``."""
        if self.path is None:
            return None
        try:
            found = self.path.stat()
        except OSError:
            return None
        return Stamp(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    def settled(self) -> Stamp | None:
        """Return a stamp from which that of any later change differs; waits when the last one was just now."""
        found = self.stamp()
        if found is not None:
            newest = max(found.modified_ns, found.changed_ns)
            step = _TICK_NS if newest % 1_000_000_000 else _COARSE_NS
            if 0 <= (age := time.time_ns() - newest) < step:
                time.sleep((step - age) / 1e9)
                found = self.stamp()
        return found

    def log(self) -> int:
        """Return the size of the write-ahead log, which holds what is not in the file yet; 0 when there is none."""
        return self._beside("-wal") or 0

    def quiet(self) -> bool:
        """Whether nobody has the file open for writing, and the file alone holds all that was committed."""
        return self._beside("-shm") is None and not self.log() and not self._beside("-journal")

    def _beside(self, suffix: str) -> int | None:
        try:
            return os.stat(f"{self.path}{suffix}").st_size  # noqa: PTH116 - asked before every read of some stores
        except OSError:
            return None

    def refusal(self) -> str | None:
        """Return why there can be no store at this place, or ``None``."""
        path, name = self.path, self.name
        assert path is not None  # noqa: S101 - only asked of files
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            # The names of the files beside it are longer, and would fail its first write.
            return self._too_long() if len(os.fsencode(path.name)) > _name_bytes(path.parent) - _BESIDE else None
        except OSError as error:
            if error.errno == errno.ELOOP:
                return f"{name} is a symbolic link that leads to itself; name the file."
            if error.errno == errno.ENOTDIR:
                return f"{name}: a part of this path is a file, not a directory; correct it."
            if error.errno == errno.ENAMETOOLONG:
                return self._too_long()
            return f"{name} cannot be reached ({error.strerror}); choose another path, or correct its permissions."
        if stat.S_ISDIR(mode):
            return f"{name} is a directory; name a file in it, for example {self.url.rstrip('/')}/powerctx.db."
        if not stat.S_ISREG(mode):
            return f"{name} is {_KINDS.get(stat.S_IFMT(mode), 'no regular file')}, not a file; choose another path."
        return None

    def _too_long(self) -> str:
        """Return what to tell of a name that the file system does not take."""
        assert self.path is not None  # noqa: S101 - only asked of files
        length, most = len(os.fsencode(self.path.name)), _name_bytes(self.path.parent) - _BESIDE
        if length <= most:
            return f"{self.name} is too long for a path of this system, or a part of it is; choose a shorter one."
        return (
            f"{self.name}: the name of the file has {length} bytes, and may have {most} here, since SQLite makes files "
            "of longer names beside it; choose a shorter one."
        )


def _name_bytes(folder: Path) -> int:
    """Return how many bytes the name of a file in *folder* may have."""
    try:
        return os.pathconf(folder, "PC_NAME_MAX")
    except (OSError, ValueError, AttributeError):  # it is not there, or the system does not tell
        return 255


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _printable(text: str) -> str:
    """Return *text* with what no stream can print (bytes that are not UTF-8, lone surrogates) as escapes."""
    return os.fsencode(text).decode("utf-8", "backslashreplace")


def parsed(url: str, settings: SqliteSettings) -> tuple[Location, SqliteSettings]:
    """Return where *url* points to, and the settings with the URL's parameters.

    Raises:
        StoreUnavailable: not a URL of this store, or an unknown or bad parameter.
    """
    scheme, separator, rest = url.partition("://")
    place, _, query = rest.partition("?")
    # Without parameters: nobody knows what is in those that are unknown.
    shown = redacted_url(url.partition("?")[0]).encode("utf-8", "backslashreplace").decode("utf-8")
    if scheme != "sqlite" or not separator or (place and not place.startswith("/")):
        raise StoreUnavailable(
            f"{shown} is not a URL of the SQLite store: use sqlite:///notes.db for a file in this directory, "
            "sqlite:////var/lib/notes.db for an absolute path, or sqlite:// for a private store in memory."
        )
    given = parse_qsl(query, keep_blank_values=True)
    read_only = False
    for name, value in given:
        if (name, value) == ("mode", "ro"):
            read_only = True
        elif name == "synchronous" and value.upper() in {"FULL", "NORMAL"}:
            settings = attrs.evolve(settings, synchronous=value.upper())
        elif name == "busy_timeout_ms" and re.fullmatch("[0-9]{1,9}", value) and int(value) <= MOST_BUSY_MS:
            settings = attrs.evolve(settings, busy_timeout_ms=int(value))
        elif (name, value) == ("network", "allow"):
            settings = attrs.evolve(settings, network=True)
        elif name in _PARAMETERS:
            raise StoreUnavailable(f"{shown}: the parameter {name} takes {_PARAMETERS[name]}; correct or remove it.")
        else:
            which = f"the parameter {name}" if re.fullmatch("[A-Za-z_]{1,40}", name) else "a parameter"
            raise StoreUnavailable(f"{shown}: {which} is not known; the parameters are {', '.join(_PARAMETERS)}.")
    path = _path(place[1:], shown)
    location = Location(path=path, url=shown, read_only=read_only and path is not None, inspected=settings.inspect)
    return location, settings


def _path(quoted: str, shown: str) -> Path | None:
    """Return the file that a URL names, ``None`` for memory."""
    try:
        # Bytes, since names of files are bytes: what is not UTF-8 reaches the file system as it was written.
        name = os.fsdecode(unquote_to_bytes(os.fsencode(quoted)))
    except UnicodeError:
        raise StoreUnavailable(
            f"{shown} holds a character that no path of this system can (a lone surrogate, or bytes that are not "
            "text); write other bytes than those of UTF-8 as %XX."
        ) from None
    if name in {"", ":memory:"}:
        return None
    if "\0" in name:
        raise StoreUnavailable(f"{shown} holds a NUL character, which no path can; remove it.")
    if os.path.basename(name) in {"", ".", ".."}:  # noqa: PTH119 - Path() drops what is asked for
        raise StoreUnavailable(f"{shown} is the name of a directory, by its end; name a file.")
    path = Path(os.path.realpath(name))
    _check_link(Path(os.path.abspath(name)), path)  # noqa: PTH100 - the link itself
    return path


def _check_link(link: Path, target: Path) -> None:
    """Refuse a symbolic link to nothing: a write would make a file where, say, a disk is not mounted now."""
    try:
        target.stat()
    except FileNotFoundError:
        if os.path.islink(link):  # noqa: PTH114 - never raises
            raise StoreUnavailable(
                f"{_printable(str(link))} is a symbolic link to {_printable(str(target))}, which does not exist; "
                "correct the link, or name the file."
            ) from None
    except OSError:
        pass  # Told by refusal().


def network_type(path: Path) -> str | None:
    """Return the type of the network file system that *path* is on, or ``None``; known on Linux only."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        mounts = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
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
        # Spaces, tabs, line ends and backslashes stand there as octal numbers.
        point = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), fields[1])
        if len(point) >= best and path.is_relative_to(point):
            best, found = len(point), fields[2]
    return found if found in _NETWORK else None
