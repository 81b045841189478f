"""The engine of a directory: a child process that this one starts, or that it shares with others."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from powerctx_core.errors import StoreUnavailable
from powerctx_oceanbase import unfinished
from powerctx_oceanbase.location import unusable

__all__ = ["Engine", "present", "started"]

_LOCK = threading.Lock()
_ENGINES: dict[Path, Engine] = {}
_OWN = frozenset({"etc", "log", "run", "store", "lost+found"})
"""What an engine makes in its directory before it has made its files, or a file system has at its top."""
_LAST_WAIT = 2.0
"""Seconds that an engine gets to end."""


class Engine:
    """The engine of one directory in this process; stores of the same directory share it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._instance: Any = None
        self._pid: int | None = None
        self._users = 0
        self._changing = threading.Lock()

    def options(self) -> dict[str, Any]:
        """Return where the driver connects to; the path of the socket is this process's own, and never stored.

        Waits for who starts the engine again just now, and does so itself when that has failed before.
        """
        with self._changing:
            if not self._users:
                raise StoreUnavailable(f"{self._directory}: the store is closed; open it again.")
            if self._instance is None:
                self._start()
            return dict(self._instance.connection_options())

    def restart(self, socket: str) -> None:
        """Start the engine again, if it is still that of *socket*: it was found dead."""
        with self._changing:
            if self._users and self._instance is not None and self._socket() == socket:
                self._stop()
                self._start()

    def _socket(self) -> object:
        return self._instance.connection_options()["unix_socket"]

    def take(self) -> None:
        """Count one more user, and start the engine for the first."""
        with self._changing:
            if self._instance is None:
                self._start()
            self._users += 1

    def release(self) -> None:
        """Count one user less, and let the engine end after the last."""
        with self._changing:
            self._users -= 1
            if not self._users:
                self._stop()

    def _start(self) -> None:
        # Read by the engine when it starts.
        os.environ.setdefault("TELEMETRY_ENABLED", "false")
        library = _library(self._directory)
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._instance = library.open(db_dir=os.fspath(self._directory))
        except OSError as error:
            raise unusable(self._directory, error) from error
        except library.SeekdbError as error:
            raise StoreUnavailable(
                f"The engine of {self._directory} did not start: {str(error).rstrip('.')}; see {self._directory}/log, "
                "and whether another program, or an engine of another version, uses the directory."
            ) from error
        self._pid = _pid(self._directory)
        unfinished.prevent(self._instance.connection_options())

    def _stop(self) -> None:
        instance, self._instance = self._instance, None
        if instance is not None:
            instance.close()
        if self._pid is not None:
            _reap(self._pid)
            self._pid = None


def started(directory: Path) -> Engine:
    """Return the engine of *directory*, with one more user; started when it is not running, which takes 2 seconds.

    Raises:
        StoreUnavailable: it cannot be started.
    """
    with _LOCK:
        engine = _ENGINES.setdefault(directory, Engine(directory))
    engine.take()
    return engine


def present(directory: Path) -> bool:
    """Whether *directory* holds an engine's files; one that does not is left alone.

    Raises:
        StoreUnavailable: it holds something else, or cannot be read.
    """
    try:
        if (directory / "store" / "sstable").is_dir():
            return True
        others = [each.name for each in directory.iterdir() if each.name not in _OWN and each.name[0] != "."]
    except FileNotFoundError:
        return False
    except OSError as error:
        raise unusable(directory, error) from error
    if others:
        shown = ", ".join(sorted(name.encode("utf-8", "backslashreplace").decode() for name in others)[:3])
        raise StoreUnavailable(
            f"{directory} holds no store but other files ({shown}); name an empty or a new directory."
        )
    return False


def _library(directory: Path) -> Any:
    try:
        import pylibseekdb
    except ImportError as error:
        raise StoreUnavailable(
            f"{directory} needs the embedded engine, which is not installed: pip install 'powerctx-oceanbase[seekdb]' "
            "(Linux and macOS on arm64), or name a server: oceanbase://user:password@host:2881/database."
        ) from error
    return pylibseekdb


def _pid(directory: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int((directory / "run" / "seekdb.pid").read_text())
    return None


def _reap(pid: int) -> None:
    """Wait for the engine to end, if it is our child and nobody else uses it: it holds the directory until then."""
    end = time.monotonic() + _LAST_WAIT
    with suppress(ChildProcessError):
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > end:
                # Other processes go on with it; it ends after the last of them.
                threading.Thread(target=_wait, args=(pid,), name="powerctx-seekdb", daemon=True).start()
                return
            time.sleep(0.01)


def _wait(pid: int) -> None:
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)
