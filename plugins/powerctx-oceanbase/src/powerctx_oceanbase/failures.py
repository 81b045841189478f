"""What the engine's errors mean for a user."""

from __future__ import annotations

import socket
import ssl
from typing import Final

import pymysql
import sqlalchemy as sa

from powerctx_core.errors import StoreError

__all__ = ["CONNECTION", "LOCKED", "MISSING", "SERIALISATION", "TIMEOUT", "code", "explained", "timed_out"]

CONNECTION: Final = frozenset({0, 2002, 2003, 2006, 2013, 2014, 2055, 1053, 1927})
LOCKED: Final = 1205
"""Another transaction held a lock for too long."""
MISSING: Final = frozenset({1049, 1146})
"""There is no such database, or table."""
SERIALISATION: Final = frozenset({1213, 4138, 6002, 6235, 4023})
"""The transaction met another one and was undone; trying again succeeds."""
TIMEOUT: Final = frozenset({4012, 6210, 6211, 3024})

_LOST = "the connection to the engine was lost; see whether it runs, and try again"
_MEANINGS = {
    1040: "the server takes no more connections; close some, or lower `pool`",
    1044: "this user may not use the database; grant it, or name another one",
    1045: "user or password is wrong",
    1049: "there is no such database",
    1142: "this user lacks a privilege; grant SELECT, INSERT, UPDATE, DELETE, CREATE, DROP and INDEX on the database",
    1146: "a table is missing: something else changed the database; restore a backup",
    1153: "a statement is larger than the server's max_allowed_packet; raise it, or store fewer items at once",
    LOCKED: "another process is writing and did not finish in time; try again, or raise lock_timeout_ms",
    1290: "the server is read-only",
    4013: "the engine has not enough memory; raise its memory_budget (memory limit of the tenant)",
    4030: "the engine has not enough memory for writes just now; try again with smaller batches",
    4184: "the engine's disk is full; free some space and try again",
    4264: "the log disk of the engine is full; raise log_disk_size",
}


def code(error: BaseException) -> int | None:
    """Return the engine's number of an error, also of one that SQLAlchemy wrapped."""
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    if isinstance(cause, pymysql.MySQLError) and cause.args and isinstance(cause.args[0], int):
        return cause.args[0]
    # SQLAlchemy refuses whatever a transaction asks after its connection broke.
    lost = isinstance(cause, OSError | pymysql.InterfaceError | sa.exc.PendingRollbackError)
    return 0 if lost else None


def timed_out(error: BaseException) -> bool:
    """Whether nothing came of a statement in its time, by the engine's clock or by the driver's."""
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    # The driver calls it a lost connection.
    return code(error) in TIMEOUT or (cause is not None and isinstance(cause.__context__, TimeoutError))


def explained(error: Exception, doing: str, location: str) -> StoreError:
    """Return the error to raise for what SQLAlchemy or the driver raised while *doing* something with *location*."""
    number = code(error)
    reading = doing.startswith(("read", "search", "look", "list", "open", "count", "load"))
    kept = "" if reading else " Nothing of this batch was kept."
    if doing == "commit" and number in CONNECTION | TIMEOUT:
        kept = " Whether this batch was kept is not known: write it again, which changes nothing if it was."
    if number in CONNECTION:
        meaning = _unreached(error) or _LOST
    elif number in TIMEOUT:
        meaning = "the deadline was over before the statement had finished"
    elif number in SERIALISATION:
        meaning = "another process changed the same rows at the same time; try again"
    else:
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        meaning = _MEANINGS.get(number or -1) or f"{_text(cause)} ({number or type(cause).__name__})"
    return StoreError(f"{location}: could not {doing}: {meaning}.{kept}")


def _unreached(error: Exception) -> str | None:
    """Return why a server could not be reached at all."""
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    reason = getattr(cause, "original_exception", None)  # which the driver sets when it cannot connect
    if isinstance(reason, socket.gaierror):
        return "no host of that name is known; see how it is written"
    if isinstance(reason, ConnectionRefusedError):
        return "nothing answers on that port; see whether the server runs, and whether host and port are its own"
    if isinstance(reason, TimeoutError):
        return "the host did not answer in time; see whether it can be reached, or raise connect_timeout_s"
    if isinstance(reason, ssl.SSLError):
        return f"TLS could not be agreed on ({reason.reason}); see the parameter tls"
    if isinstance(reason, OSError):
        return f"the host cannot be reached ({reason.strerror}); see whether host and port are right"
    return None


def _text(cause: object) -> str:
    """Return the engine's words; values of a user's are not repeated."""
    if isinstance(cause, pymysql.MySQLError) and len(cause.args) > 1:
        return str(cause.args[1]).partition(" near ")[0].rstrip(".")
    return str(cause).partition("\n")[0].rstrip(".")
