"""The write-ahead log beside a SQLite file: given, and kept short."""

from __future__ import annotations

import sqlite3

import sqlalchemy as sa

from powerctx_sqlite.direct import driver_of
from powerctx_sqlite.failures import code
from powerctx_sqlite.location import Location

__all__ = ["WriteAheadLog"]

LOG_BYTES = 20 << 20
"""A log that has outgrown its checkpoints: readers, one after the other, kept every writer from beginning it anew."""
_BRIEF_MS = 200
"""How long is waited for what can be done another time."""


class WriteAheadLog:
    """The log of one file; nothing of a store in memory.

    Args:
        location: of the file.
        busy_timeout_ms: how long other statements of a connection wait for another process.
    """

    def __init__(self, location: Location, busy_timeout_ms: int) -> None:
        self._location = location
        self._busy_timeout_ms = busy_timeout_ms
        self._given = location.path is None
        self._limit = LOG_BYTES

    def give(self, driver: sqlite3.Connection) -> None:
        """Give the file a write-ahead log unless it has one; while somebody reads it, it stays as it is for now."""
        if self._given:
            return
        driver.execute(f"PRAGMA busy_timeout = {_BRIEF_MS}")
        try:
            self._given = driver.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
        except sqlite3.OperationalError as error:
            if not code(error).startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                raise
        finally:
            driver.execute(f"PRAGMA busy_timeout = {self._busy_timeout_ms}")

    def shorten(self, engine: sa.Engine) -> None:
        """Move a log that has grown too long into the file, after a commit."""
        if self._location.path is not None and self._location.log() > self._limit:
            # Waits for the readers of now, briefly; those that begin meanwhile read the file and not the log.
            self.checkpoint(engine)
            # While one of them goes on for long, not every writer waits for it.
            self._limit = self._location.log() + LOG_BYTES

    def checkpoint(self, engine: sa.Engine) -> None:
        """Move the log into the file and cut it, when no reader is in the way; never waits long."""
        if self._location.path is None:
            return
        with engine.connect() as connection:
            driver = driver_of(connection)
            driver.execute(f"PRAGMA busy_timeout = {_BRIEF_MS}")
            try:
                driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except sqlite3.Error:
                pass  # Somebody reads: the next writer's checkpoint will do it.
            finally:
                driver.execute(f"PRAGMA busy_timeout = {self._busy_timeout_ms}")
