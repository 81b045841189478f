"""Transactions and statements that nobody ends, and the way out of each.

An engine that was ended in the middle of a transaction keeps its locks at every later start.  As soon as 16 KB of a
transaction have come together, the engine writes them to its log; what it finds there without an end when it starts, it
takes up again, and waits for an end that nobody tells it.  Rows of such a transaction cannot be changed any more, and
if it was to change tables, no table can be made.  That happens to any engine that is killed, and to the embedded one
also when its last user goes: it ends at once, even while it makes what it makes by itself a few seconds after its first
start.  So it is told to write nothing of a transaction before its commit.

And an engine whose client goes away at a certain moment of a statement that changes tables tries to end that statement
twice a second, for ever, and changes no table meanwhile.  Rows are read and written as before; a new start ends it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import pymysql

from powerctx_oceanbase.location import Location

__all__ = ["STATEMENTS", "TRANSACTIONS", "WAYS_OUT", "prevent"]

_LOGGER = logging.getLogger("powerctx")
_SHOW = "SHOW PARAMETERS LIKE '\\_private\\_buffer\\_size'"
_SET = "ALTER SYSTEM SET _private_buffer_size = '0B'"
_LIMIT_S = 10
TRANSACTIONS: Final = (
    "SELECT count(*) FROM oceanbase.__all_virtual_trans_stat "
    "WHERE session_id = 0 AND expired_time IS NULL AND is_decided = 0"
)
"""Counts transactions that nobody ends: unlike others they have neither session nor end."""
STATEMENTS: Final = (
    "SELECT count(*) FROM oceanbase.__all_virtual_processlist WHERE state = 'SESSION_KILLED' AND total_time > 2"
)
"""Counts statements without a client: others of that kind end at once."""


def prevent(options: dict[str, Any]) -> None:
    """Have the engine that *options* connect to write transactions when they commit; it keeps that.

    An engine that does not know how goes on as it is.
    """
    limited: dict[str, Any] = {
        **options,
        **dict.fromkeys(("connect_timeout", "read_timeout", "write_timeout"), _LIMIT_S),
        "ssl_disabled": True,
    }
    try:
        with pymysql.connect(**limited) as connection, connection.cursor() as cursor:
            cursor.execute(_SHOW)
            names = [column[0] for column in cursor.description]
            if [dict(zip(names, row, strict=True))["value"] for row in cursor.fetchall()] != ["0B"]:
                cursor.execute(_SET)
    except (pymysql.MySQLError, OSError) as error:
        _LOGGER.warning("The engine may keep locks when it is killed: _private_buffer_size was not set (%s).", error)


def _locked(location: Location) -> str:
    what = (
        "an engine that was killed left a transaction that nobody can end, and its locks; what is stored can still "
        "be read"
    )
    if location.directory is None:
        return f"{what}: copy it into another database with a tool of the server's, and use that"
    return (
        f"{what}: close all that uses the directory, copy it with `seekdb-dump {location.name} -o copy.sql` and "
        "`seekdb-restore NEW copy.sql`, and use NEW"
    )


def _hung(location: Location) -> str:
    what = (
        "its client went away while the engine changed a table, which hangs since then; what is stored can be read and "
        "changed, but no table made"
    )
    if location.directory is None:
        return f"{what}: have the server started again"
    return f"{what}: close all that uses the directory, which ends the engine, and open it again"


WAYS_OUT: Final[Mapping[str, Callable[[Location], str]]] = MappingProxyType({TRANSACTIONS: _locked, STATEMENTS: _hung})
"""What to tell who meets one, by what counts them: what holds, and what to do."""
