"""Reads past SQLAlchemy's execution, which costs more than most statements of a retrieval."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

__all__ = ["driver_of", "fetched"]

_DIALECT = sqlite.dialect(paramstyle="named")


def driver_of(connection: sa.Connection) -> sqlite3.Connection:
    """Return the driver's connection below an open one of SQLAlchemy."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)  # noqa: S101 - the connection is open
    return driver


def fetched(
    connection: sa.Connection,
    statement: sa.Select[Any] | sa.CompoundSelect[Any] | sa.TextClause,
    values: Mapping[str, Any],
) -> Sequence[Sequence[Any]]:
    """Return the rows of a SELECT as the driver has them: plain tuples of SQLite's own types.

    Where anybody listens to what SQLAlchemy executes (to count, trace or log statements), it executes this one too.
    """
    if connection.dispatch.before_cursor_execute or connection.dispatch.after_cursor_execute:
        return connection.execute(statement, values).all()
    driver = driver_of(connection)
    text, constants = _compiled(statement)
    found: list[tuple[Any, ...]] = driver.execute(text, {**constants, **values}).fetchall()
    return found


# Statements are made once each; those of filters are few.
@lru_cache(maxsize=512)
def _compiled(statement: sa.Select[Any] | sa.CompoundSelect[Any] | sa.TextClause) -> tuple[str, Mapping[str, Any]]:
    compiled = statement.compile(dialect=_DIALECT)
    return str(compiled), {name: value for name, value in compiled.params.items() if value is not None}
