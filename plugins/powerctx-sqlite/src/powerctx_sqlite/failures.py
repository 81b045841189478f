"""What SQLite's errors mean for a user."""

from __future__ import annotations

import sqlite3

import sqlalchemy as sa

from powerctx_core.errors import StoreError

__all__ = ["code", "explained"]

_MEANINGS = {
    "SQLITE_FULL": "the disk is full (or the file may not grow); free some space and try again",
    "SQLITE_BUSY": "another process is writing, or holds the file locked, and did not finish in time; try again, or "
    "raise busy_timeout_ms",
    "SQLITE_LOCKED": "another connection holds a lock; try again",
    "SQLITE_READONLY": "the file or its directory is read-only; make both writable, or choose another store",
    "SQLITE_PERM": "access is not permitted; check owner and mode of the file and its directory",
    "SQLITE_AUTH": "access is not permitted; check owner and mode of the file and its directory",
    "SQLITE_NOTADB": "the file is not a SQLite database; choose another path",
    "SQLITE_CORRUPT": "the file is damaged; restore a backup, or recover what is left with `sqlite3 FILE .recover`",
    "SQLITE_CANTOPEN": "the file cannot be opened; check that it and its directory exist and are readable",
    "SQLITE_IOERR": "reading or writing failed; check the disk and its free space",
    "SQLITE_INTERRUPT": "the deadline was over before the statement had finished",
    "SQLITE_NOMEM": "there is not enough memory",
    "SQLITE_TOOBIG": "a value is larger than SQLite allows",
    "SQLITE_SCHEMA": "the schema changed; open the store again",
}
_DAMAGE = ("Could not decode to UTF-8", "vtable constructor failed", "malformed", "database disk image")
_READS = ("read", "search", "look", "list", "open", "bring", "check")


def code(error: Exception) -> str:
    """Return SQLite's name of an error of the driver or of SQLAlchemy, such as ``SQLITE_BUSY``, or nothing."""
    return getattr(_cause(error), "sqlite_errorname", None) or ""


def _cause(error: Exception) -> BaseException | None:
    return error.orig if isinstance(error, sa.exc.DBAPIError) else error


def explained(error: Exception, doing: str, location: str) -> StoreError:
    """Return the error to raise for what SQLAlchemy or the driver raised while *doing* something with *location*."""
    cause, name = _cause(error), code(error)
    # Extended codes (SQLITE_IOERR_WRITE) say no more to a user than the primary ones.
    meaning = _MEANINGS.get("_".join(name.split("_")[:2]))
    if meaning is None and isinstance(cause, sqlite3.ProgrammingError) and "closed" in str(cause):
        meaning = "the store was closed"
    # Whatever else the driver says of it: stored text that is not UTF-8 any more is quoted there at length.
    if name in ("", "SQLITE_ERROR") and str(cause).startswith(_DAMAGE):
        meaning = _MEANINGS["SQLITE_CORRUPT"]
    kept = "" if doing.startswith(_READS) else " Nothing of this batch was kept."
    return StoreError(f"{location}: could not {doing}: {meaning or f'{cause} ({name or type(cause).__name__})'}.{kept}")
