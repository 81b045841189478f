"""Column types whose spelling differs between dialects: text comes back as it was, and is compared by bytes."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

__all__ = ["BIG", "digest", "latest_first", "name", "text"]

_INDEXED = 2048
"""Longest VARBINARY that is declared; an index over several of them stays below the 16 KiB that OceanBase allows."""

# SQLite makes a column the row's own id only when its type is spelled INTEGER.
BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


class Utf8(sa.types.TypeDecorator[str]):
    """Text as bytes, for dialects whose text collations ignore case, accents, or spaces at the end.

    Values are bound as text: in a comparison with bytes the server compares the bytes of its UTF-8.
    """

    impl = sa.LargeBinary
    cache_ok = True

    def __init__(self, length: int | None = None) -> None:
        super().__init__()
        self._length = length

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        """Return VARBINARY where a length is known, which can be indexed."""
        return dialect.type_descriptor(mysql.LONGBLOB() if self._length is None else mysql.VARBINARY(self._length))

    def bind_processor(self, dialect: sa.Dialect) -> None:
        """Leave values as they are."""

    def literal_processor(self, dialect: sa.Dialect) -> Any:
        """Write values as text."""
        return sa.String().literal_processor(dialect)  # type: ignore[no-untyped-call] # SQLAlchemy's

    def result_processor(self, dialect: sa.Dialect, coltype: object) -> Any:  # noqa: ARG002 - as SQLAlchemy calls it
        """Decode what the driver gives as bytes."""
        return _decoded


def _decoded(value: bytes | str | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value


def name(length: int) -> sa.types.TypeEngine[str]:
    """Return the type of an identifier of up to so many UTF-8 bytes."""
    return sa.String(length).with_variant(Utf8(length), "mysql")


def text(*, compared: bool = False, indexed: bool = False) -> sa.types.TypeEngine[str]:
    """Return the type of text of any length; *compared* when statements compare it, *indexed* when an index holds it.

    Where it is indexed its length is limited (to 4096 bytes, which no such field exceeds).
    """
    if indexed:
        return sa.Text().with_variant(Utf8(2 * _INDEXED), "mysql")
    if compared:
        return sa.Text().with_variant(Utf8(), "mysql")
    return sa.Text().with_variant(mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin"), "mysql")


def digest(length: int) -> sa.types.TypeEngine[bytes]:
    """Return the type of so many bytes."""
    return sa.LargeBinary(length).with_variant(mysql.VARBINARY(length), "mysql")


class _LatestFirst(sa.ColumnElement[Any]):
    """``column DESC NULLS LAST``."""

    inherit_cache = True
    _traverse_internals = [("column", sa.sql.visitors.InternalTraversal.dp_clauseelement)]  # noqa: RUF012 - SQLAlchemy's

    def __init__(self, column: sa.ColumnElement[Any]) -> None:
        self.column = column


@compiles(_LatestFirst)
def _standard(element: _LatestFirst, compiler: SQLCompiler, **kw: Any) -> str:
    return f"{compiler.process(element.column, **kw)} DESC NULLS LAST"


@compiles(_LatestFirst, "mysql")
def _mysql(element: _LatestFirst, compiler: SQLCompiler, **kw: Any) -> str:
    # It has no NULLS LAST, and takes NULL for the least value.
    return f"{compiler.process(element.column, **kw)} DESC"


def latest_first(column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """Return the order by *column* from the newest on, what has none at the end."""
    return _LatestFirst(column)
