"""The lexical index: a contentless FTS5 table over the encoded terms of current revisions.

It is read a term at a time: which rows of a partition hold it.  Scores are core's, so neither positions nor sizes nor
FTS5's own rank are needed (``detail=none``: half the size).  A row holds each term once, and a second word for each
term that occurs more than once.  What lengths and occurrences are exactly stands in ``analysis``; so do the terms that
FTS5 must be told again to delete a row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import sqlalchemy as sa
from powerctx_sqlalchemy import Found, LexicalIndex, Search
from powerctx_sqlalchemy.occurrences import Wanted
from powerctx_sqlalchemy.statements import Shape, parameters
from powerctx_sqlalchemy.tables import block, revision
from sqlalchemy.dialects import sqlite

from powerctx_core.recall.ranking import idf
from powerctx_core.text.terms import encode, rarest
from powerctx_core.types import LexicalHit
from powerctx_sqlite.frequency import Frequencies
from powerctx_sqlite.postings import Postings, best, estimated

__all__ = ["Fts5Index"]

# The ascii tokenizer splits at ASCII that is not alphanumeric and folds A-Z: it does not touch [a-z0-9]+².
_TABLE = "CREATE VIRTUAL TABLE lexical USING fts5(terms, content='', columnsize=0, detail=none, tokenize='ascii')"
_HASH_BYTES = 16 << 20
"""Memory for additions before FTS5 writes a segment: fewer segments, fewer merges."""
_REPEATED = "²"
"""Ends the word for a term that occurs more than once; codes are ASCII."""
_POSTINGS = 50_000
"""When terms known as common occur more often than this together, the commonest are not read: their occurrences are
looked up in the rows that the others chose.  What a search costs is bounded by it."""
_MUTABLE = ("current", "retired_at")
_ADD = "INSERT INTO lexical(rowid, terms) VALUES (?, ?)"
_REMOVE = "INSERT INTO lexical(lexical, rowid, terms) VALUES ('delete', ?, ?)"
_STORED = sa.text(
    "SELECT a.id, a.terms, a.repeats FROM json_each(:ids) v CROSS JOIN analysis a ON a.id = v.value ORDER BY a.id"
)
# One string a term costs less than half of one row a posting, and short numbers less than long ones.
_ROWS = (
    "(SELECT {} FROM lexical WHERE lexical MATCH '\"' || v.value || '{}\"' AND rowid BETWEEN :first AND :last)"
)
_LIST = "group_concat(rowid - :first)"
_READ = sa.text(f"SELECT v.value, {_ROWS.format(_LIST, '')}, {_ROWS.format(_LIST, _REPEATED)} FROM json_each(:codes) v")
_READ_AND_COUNT = sa.text(
    f"{_READ.text} UNION ALL SELECT v.value, {_ROWS.format('count(*)', '')}, NULL FROM json_each(:counted) v"
)


class Fts5Index(LexicalIndex):
    """The index of one database; remembers which terms are common."""

    def __init__(self) -> None:
        self._frequencies = Frequencies()

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
        connection.exec_driver_sql(_ADD, _indexed(rows))

    def remove(self, connection: sa.Connection, ids: Sequence[int]) -> None:
        """Take rows out, telling FTS5 again what was indexed."""
        stored = connection.execute(_STORED, {"ids": json.dumps(list(ids))}).all()
        if stored:
            connection.exec_driver_sql(_REMOVE, _indexed(stored))

    def clear(self, connection: sa.Connection) -> None:
        """Empty the index."""
        connection.exec_driver_sql("INSERT INTO lexical(lexical) VALUES ('delete-all')")

    def forget(self, connection: sa.Connection) -> None:
        """Merge all segments into one: removed rows leave their terms in the old ones."""
        connection.exec_driver_sql("INSERT INTO lexical(lexical) VALUES ('optimize')")

    def search(self, connection: sa.Connection, search: Search) -> Found:
        """Return the members that hold a term; see :class:`powerctx_sqlalchemy.LexicalIndex`."""
        codes = {encode(term): term for term in search.query.terms}
        skipped = {}
        # With filters, the few rows that pass may hold common terms only.
        if search.limit is not None and not search.filters:
            skipped = _skipped(self._frequencies.known(search.partition.id, codes))
        found = self._searched(connection, search, codes, skipped)
        return self._searched(connection, search, codes, {}) if found is None else found

    def _searched(
        self,
        connection: sa.Connection,
        search: Search,
        codes: Mapping[str, str],
        skipped: Mapping[str, tuple[int, int]],
    ) -> Found | None:
        """Search without reading the skipped terms; ``None`` when the others occur too seldom for that."""
        partition = search.partition
        counts = {code: count for code, (count, changes) in skipped.items() if changes == partition.changes}
        postings = self._read(connection, search, [code for code in codes if code not in skipped], counts, skipped)
        frequency = {codes[code]: count for code, count in counts.items() if count}
        used = rarest(search.query, frequency, search.terms)
        frequency = {term: frequency[term] for term in used}
        chosen = {term: postings[code] for code, term in codes.items() if term in frequency and code in postings}
        weighted = [(idf(partition.items, frequency[term]), chosen[term]) for term in chosen]
        scores = estimated(weighted, partition.total_length / partition.items)
        limit = len(scores) if search.limit is None else search.limit
        if skipped and len(scores) < limit:
            return None
        unread = [term for term in used if term not in chosen]
        hits = self._hits(connection, search, scores, limit, chosen, unread)
        return Found(terms=used, frequency=frequency, hits=hits)

    def _read(
        self,
        connection: sa.Connection,
        search: Search,
        codes: Sequence[str],
        counts: dict[str, int],
        skipped: Iterable[str],
    ) -> dict[str, Postings]:
        """Return the postings of *codes*, and count them and what is skipped without a count."""
        partition = search.partition
        first, last = block(partition.id)
        bound = {"codes": json.dumps(codes), "first": first, "last": last}
        uncounted = [code for code in skipped if code not in counts]
        if uncounted:
            found = connection.execute(_READ_AND_COUNT, {**bound, "counted": json.dumps(uncounted)}).all()
        else:
            found = connection.execute(_READ, bound).all()
        postings = {}
        for code, rows, repeated in found:
            if isinstance(rows, int):
                counts[code] = rows
            elif rows:
                postings[code] = read = Postings(_numbers(rows), _numbers(repeated))
                counts[code] = len(read.rows)
        self._frequencies.keep(partition.id, partition.changes, counts)
        return postings

    def _hits(
        self,
        connection: sa.Connection,
        search: Search,
        scores: Mapping[int, float],
        limit: int,
        chosen: Mapping[str, Postings],
        unread: Sequence[str],
    ) -> list[LexicalHit]:
        """Return the best of the rows that pass the filters."""
        if search.filters:
            # The statement stops when enough of them have passed.
            rows = sorted(scores, key=lambda row: (-scores[row], row)) if limit < len(scores) else list(scores)
        else:
            rows = best(scores, limit)
        first, _ = block(search.partition.id)
        statement = _details(Shape.of(search.filters), bool(unread))
        bound = {**parameters(search.filters), "ids": json.dumps(rows), "first": first, "count": limit}
        found = connection.execute(statement, bound).all()
        matched: dict[int, dict[str, int]] = {row[0]: {} for row in found}
        for term, postings in chosen.items():
            for number in matched.keys() & postings.rows:
                matched[number][term] = 1
            for number in matched.keys() & postings.repeated:
                matched[number][term] = 2
        wanted = Wanted(unread)
        return []


def _numbers(joined: str | None) -> list[int]:
    # Half the cost of splitting and int().
    numbers: list[int] = json.loads(f"[{joined}]") if joined else []
    return numbers


def _skipped(common: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """Return the terms that are too common to be read besides the others."""
    skipped, postings = {}, 0
    for code, known in sorted(common.items(), key=lambda entry: (entry[1][0], entry[0])):
        if postings >= _POSTINGS:
            skipped[code] = known
        postings += known[0]
    return skipped


def _indexed(rows: Iterable[Sequence[object]]) -> list[tuple[object, object]]:
    """Return what FTS5 is given of (id, terms, repeats)."""
    return []
