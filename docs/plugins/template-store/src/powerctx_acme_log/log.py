"""The file: one JSON object a line, made by the first write, locked, appended to, written anew by a purge alone."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from io import FileIO
from pathlib import Path
from typing import Any

from powerctx_core import StoreError, StoreUnavailable

__all__ = ["Log"]


class Log:
    """An append-only file of JSON lines.  Not thread-safe: its owner takes turns.

    Args:
        path: the file; where there is none yet, nothing is in it, and the first entry makes it.
        sync: wait until the disk has each line.

    Raises:
        StoreUnavailable: it cannot be opened, or somebody else has it open.
    """

    def __init__(self, path: Path, *, sync: bool) -> None:
        self.path = path
        self._sync = sync
        self._file = _locked(path, "r+") if _is_there(path) else None

    def read(self) -> Iterator[dict[str, Any]]:
        """Give every entry, oldest first; a last line that a crash left unfinished is cut off.

        Raises:
            StoreUnavailable: a line is damaged.
        """
        if self._file is None:
            return
        self._file.seek(0)
        content = self._file.readall()
        whole, _, torn = content.rpartition(b"\n")
        if torn:
            self._file.truncate(len(content) - len(torn))
        for number, line in enumerate(whole.split(b"\n") if whole else (), start=1):
            try:
                yield json.loads(line)
            except ValueError as error:
                raise StoreUnavailable(
                    f"{self.path}, line {number}, is damaged; restore the file from a backup, or remove the line."
                ) from error

    def append(self, entry: Mapping[str, Any]) -> None:
        """Write one entry: all of it or nothing.

        Raises:
            StoreUnavailable: the file cannot be made, or somebody else has made it meanwhile.
            StoreError: the disk refused.
        """
        if self._file is None:
            # Never a file that others have written to: nothing of it was read here.
            self._file = _locked(self.path, "x+")
        end = self._file.seek(0, os.SEEK_END)
        try:
            self._write(self._file, [entry])
        except OSError as error:
            self._file.truncate(end)
            raise StoreError(f"{self.path} cannot be written: {error}; nothing of this batch was kept.") from error

    def replace(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Write the whole file anew: the old one stands until the new one is complete.

        Raises:
            StoreError: the disk refused.
        """
        beside = self.path.with_name(f"{self.path.name}.new")
        file = _locked(beside, "a+")
        try:
            file.truncate(0)
            self._write(file, entries)
            beside.replace(self.path)
        except OSError as error:
            file.close()
            raise StoreError(f"{beside} cannot be written: {error}; nothing was purged.") from error
        self.close()
        self._file = file

    def close(self) -> None:
        """Close the file, which unlocks it; again is allowed."""
        if self._file is not None:
            self._file.close()

    def _write(self, file: FileIO, entries: Iterable[Mapping[str, Any]]) -> None:
        for entry in entries:
            line = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
            if file.write(line) != len(line):
                raise OSError("the disk is full")
        if self._sync:
            os.fsync(file.fileno())


def _is_there(path: Path) -> bool:
    try:
        path.stat()
    except FileNotFoundError:
        return False
    except OSError:  # opening says why
        return True
    return True


def _locked(path: Path, mode: str) -> FileIO:
    try:
        file = FileIO(path, mode)
    except FileExistsError as error:
        raise StoreUnavailable(f"{path} was made by somebody else meanwhile; open it again.") from error
    except OSError as error:
        raise StoreUnavailable(
            f"{path} cannot be opened: {error.strerror}; make its folder, or correct its permissions."
        ) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise StoreUnavailable(
            f"{path} is in use, and only one process at a time may have it; close that one."
        ) from error
    return file
