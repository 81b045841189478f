"""One process for a directory: the index of another one would go stale in silence."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO

from powerctx_core.errors import StoreUnavailable

__all__ = ["DirectoryLock"]


class DirectoryLock:
    """A lock on a file beside the directory, which ends with the process; its text is the holder's id."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._name = name
        self._file: IO[str] | None = None

    def acquire(self) -> None:
        """Take the lock, if this is not its holder already.

        Raises:
            StoreUnavailable: another store, of this process or another one, has it; or the file cannot be made.
        """
        if self._file is not None:
            return
        try:
            file = self._path.open("a+")
        except OSError as error:
            raise StoreUnavailable(
                f"{self._name} cannot be locked: {self._path.name} beside it cannot be written ({error.strerror}); "
                "make its folder writable, or use a Chroma server (chroma+http://)."
            ) from error
        try:
            _lock(file)
        except OSError as error:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            file.close()
            who = "this process" if holder == str(os.getpid()) else f"the process {holder}"
            raise StoreUnavailable(
                f"{self._name} is in use by {who}: a directory of Chroma is for one store at a time. Close that one, "
                "or run a Chroma server and use chroma+http://."
            ) from error
        file.seek(0)
        file.truncate()
        file.write(str(os.getpid()))
        file.flush()
        self._file = file

    def release(self) -> None:
        """Give the lock back; again is allowed."""
        file, self._file = self._file, None
        if file is not None:
            file.close()


if sys.platform == "win32":
    import msvcrt

    def _lock(file: IO[str]) -> None:
        # Far behind the text, which stays readable.
        file.seek(1 << 20)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(file: IO[str]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
