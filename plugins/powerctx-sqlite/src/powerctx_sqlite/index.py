"""The lexical index: a contentless FTS5 table over the encoded terms of current revisions.

``detail=full`` although nobody asks for positions: without them FTS5 ranks a contentless row by nothing at all (its
bm25 counts instances), and the top list is arbitrary.  A term stands as often as it occurs, up to :data:`_MOST`, so
that the engine's list is close to core's.  ``columnsize=0`` leaves lengths to core, which has them in ``analysis``;
so has it the terms that FTS5 must be told again to delete a row.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from powerctx_sqlalchemy import LexicalIndex, Match
from powerctx_sqlalchemy.statements import Shape, parameters
from powerctx_sqlalchemy.tables import revision
from sqlalchemy.dialects import sqlite

__all__ = ["Fts5Index"]

# The ascii tokenizer splits at what is not alphanumeric and folds A-Z: it does not touch [a-z0-9]+.
_TABLE = "CREATE VIRTUAL TABLE lexical USING fts5(terms, content='', columnsize=0, tokenize='ascii')"
_HASH_BYTES = 16 << 20
"""Memory for additions before FTS5 writes a segment: fewer segments, fewer merges."""
_MOST = 8
"""BM25 hardly tells more occurrences apart."""
_MUTABLE = ("current", "retired_at")
_ADD = "INSERT INTO lexical(rowid, terms) VALUES (?, ?)"
_REMOVE = "INSERT INTO lexical(lexical, rowid, terms) VALUES ('delete', ?, ?)"
_STORED = sa.text(
    "SELECT a.id, a.terms, a.repeats FROM json_each(:ids) v CROSS JOIN analysis a ON a.id = v.value ORDER BY a.id"
)
_COUNT = sa.text(
    "SELECT v.value, (SELECT count(*) FROM lexical "
    "WHERE lexical MATCH '\"' || v.value || '\"' AND rowid BETWEEN :first AND :last) FROM json_each(:codes) v"
)
_COLUMNS = "found.rowid, a.artifact_id, a.length, a.terms, a.repeats"


class Fts5Index(LexicalIndex):
    """The index of one database; without state."""

    def create(self, connection: sa.Connection) -> None:
        """Make the table, and the trigger that keeps revisions as they are."""
        connection.exec_driver_sql(_TABLE)
        connection.exec_driver_sql("INSERT INTO lexical(lexical, rank) VALUES ('hashsize', ?)", (_HASH_BYTES,))
        columns = ", ".join(column.name for column in revision.columns if column.name not in _MUTABLE)
        connection.exec_driver_sql(
            f"CREATE TRIGGER revision_immutable BEFORE UPDATE OF {columns} ON revision "
            "BEGIN SELECT RAISE(ABORT, 'a revision is immutable'); END"
        )

    def add(self, connection: sa.Connection, rows: Sequence[tuple[int, str, str | None]]) -> None:
        """Index (id, terms, repeats)."""
        connection.exec_driver_sql(
            _ADD, [(key, terms if repeats is None else _indexed(terms, repeats)) for key, terms, repeats in rows]
        )

    def remove(self, connection: sa.Connection, ids: Sequence[int]) -> None:
        """Take rows out, telling FTS5 again what was indexed."""
        stored = connection.execute(_STORED, {"ids": json.dumps(list(ids))})
        rows = [(key, terms if repeats is None else _indexed(terms, repeats)) for key, terms, repeats in stored]
        if rows:
            connection.exec_driver_sql(_REMOVE, rows)

    def clear(self, connection: sa.Connection) -> None:
        """Empty the index."""
        connection.exec_driver_sql("INSERT INTO lexical(lexical) VALUES ('delete-all')")

    def forget(self, connection: sa.Connection) -> None:
        """Merge all segments into one: removed rows leave their terms in the old ones."""
        connection.exec_driver_sql("INSERT INTO lexical(lexical) VALUES ('optimize')")

    def count(self, connection: sa.Connection, first: int, last: int, codes: Sequence[str]) -> Mapping[str, int]:
        """Count the rows of the block that hold each term."""
        bound = {"first": first, "last": last, "codes": json.dumps(list(codes))}
        return dict(connection.execute(_COUNT, bound).all())

    def match(self, connection: sa.Connection, match: Match) -> Sequence[Sequence[Any]]:
        """Return the rows that hold a term; see :class:`powerctx_sqlalchemy.LexicalIndex`."""
        bound = parameters(match.filters)
        # Only codes stand in the expression, [a-z0-9]+ each: nothing of what a user writes is query syntax.
        expression = _any_of(match.codes)
        if match.required and len(match.required) < len(match.codes):
            expression = f"({_any_of(match.required)}) AND ({expression})"
        bound |= {"first": match.first, "last": match.last, "match": expression}
        shape = Shape.of(match.filters)
        if match.limit is None:
            return connection.execute(_whole(shape), bound).all()
        return connection.execute(_top(shape), {**bound, "count": match.limit}).all()


def _any_of(codes: Sequence[str]) -> str:
    return " OR ".join([f'"{code}"' for code in codes])


def _indexed(terms: str, repeats: str) -> str:
    """Return the text to index: every term as often as it occurs, up to a limit."""
    words = [terms]
    for entry in repeats.split():
        code, _, count = entry.partition(":")
        words += [code] * (min(int(count), _MOST) - 1)
    return " ".join(words)


def _conditions(shape: Shape) -> str:
    """Return the conditions of a filter as SQL, or nothing."""
    found = shape.conditions()
    if not found:
        return ""
    return str(sa.and_(*found).compile(dialect=sqlite.dialect(paramstyle="named")))


# CROSS JOIN fixes the order: the index first, then details by row id.
@lru_cache(maxsize=256)
def _whole(shape: Shape) -> sa.TextClause:
    wanted = _conditions(shape)
    details = "CROSS JOIN revision ON revision.id = found.rowid " if wanted else ""
    return sa.text(
        f"SELECT {_COLUMNS}, {wanted or 1} FROM lexical found CROSS JOIN analysis a ON a.id = found.rowid {details}"  # noqa: S608 - values are bound
        "WHERE found.lexical MATCH :match AND found.rowid BETWEEN :first AND :last"
    )


@lru_cache(maxsize=256)
def _top(shape: Shape) -> sa.TextClause:
    wanted = _conditions(shape)
    details = "CROSS JOIN revision ON revision.id = lexical.rowid" if wanted else ""
    ranked = (
        f"SELECT lexical.rowid AS rowid FROM lexical {details} "  # noqa: S608 - values are bound
        "WHERE lexical.lexical MATCH :match AND lexical.rowid BETWEEN :first AND :last "
        f"AND {wanted or 1} ORDER BY lexical.rank LIMIT :count"
    )
    return sa.text(
        f"SELECT {_COLUMNS}, 1 FROM ({ranked}) found CROSS JOIN analysis a ON a.id = found.rowid"  # noqa: S608 - as above
    )
