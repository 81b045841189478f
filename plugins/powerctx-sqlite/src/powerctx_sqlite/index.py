"""The lexical index: a contentless FTS5 table over the encoded terms of current revisions.

It is read a term at a time: which rows of a partition hold it.  Scores are core's, so neither positions nor sizes nor
FTS5's own rank are needed (``detail=none``: half the size).  A row holds each term once, and further words
for a term that it holds often.  What lengths and occurrences are exactly stands in ``analysis``; so do the terms that
FTS5 must be told again to delete a row.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from powerctx_core.text.terms import encode, rarest
from powerctx_core.types import LexicalHit
from powerctx_sqlalchemy import Found, LexicalIndex, Search
from powerctx_sqlalchemy.statements import Shape, parameters
from powerctx_sqlalchemy.tables import block, revision
from powerctx_sqlite.direct import fetched
from powerctx_sqlite.frequency import Frequencies
from powerctx_sqlite.postings import OFTEN, Postings, best, estimated, weight

__all__ = ["Fts5Index", "indexed"]

# The ascii tokenizer splits at ASCII that is not alphanumeric and folds A-Z: it does not touch [a-z0-9]+².
_TABLE = "CREATE VIRTUAL TABLE lexical USING fts5(terms, content='', columnsize=0, detail=none, tokenize='ascii')"
_HASH_BYTES = 16 << 20
"""Memory for additions before FTS5 writes a segment: fewer segments, fewer merges."""
_MARKS = {often: "⁰¹²³⁴⁵⁶⁷⁸⁹"[often] for often in OFTEN}
"""What ends the word for a term that a row holds so often; codes are ASCII."""
_POSTINGS = 12_000
"""When the rarer of the terms known as common occur so often together, the others are only looked for in rows that hold
one of the rest: what ranking costs is bounded.  Of core's best 8 hardly one holds none of these."""
_MUTABLE = ("current", "retired_at")
_ADD = "INSERT INTO lexical(rowid, terms) VALUES (?, ?)"
_REMOVE = "INSERT INTO lexical(lexical, rowid, terms) VALUES ('delete', ?, ?)"
_STORED = sa.text(
    "SELECT a.id, a.terms, a.repeats FROM json_each(:ids) v CROSS JOIN analysis a ON a.id = v.value ORDER BY a.id"
)
# One string a term costs less than half of one row a posting, and short numbers less than long ones.
_ROWS = "(SELECT {what} FROM lexical WHERE lexical MATCH {match} AND rowid BETWEEN :first AND :last)"
_LIST = "group_concat(rowid - :first)"
_WORD = "'\"' || v.value || '{mark}\"'"
_LISTS = ", ".join(_ROWS.format(what=_LIST, match=_WORD.format(mark=mark)) for mark in ("", *_MARKS.values()))
_READ = sa.text(f"SELECT v.value, {_LISTS} FROM json_each(:codes) v")  # noqa: S608 - values are bound
_SHARED = _ROWS.format(what=_LIST, match=f":rest || {_WORD.format(mark='')}")
_COUNT = _ROWS.format(what="count(*)", match=_WORD.format(mark=""))
# Of a common term: the rows that hold one of the rest, too, and its frequency unless that is known.
_READ_SOME = sa.text(
    f"{_READ.text} UNION ALL SELECT v.value, {_SHARED}, "  # noqa: S608 - values are bound
    f"CASE WHEN v.value IN (SELECT value FROM json_each(:uncounted)) THEN {_COUNT} END, NULL FROM json_each(:common) v"
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
        connection.exec_driver_sql(_ADD, indexed(rows))

    def remove(self, connection: sa.Connection, ids: Sequence[int]) -> None:
        """Take rows out, telling FTS5 again what was indexed."""
        stored = connection.execute(_STORED, {"ids": json.dumps(list(ids))}).all()
        if stored:
            connection.exec_driver_sql(_REMOVE, indexed(stored))

    def clear(self, connection: sa.Connection) -> None:
        """Empty the index."""
        connection.exec_driver_sql("INSERT INTO lexical(lexical) VALUES ('delete-all')")

    def forget(self, connection: sa.Connection) -> None:
        """Merge all segments into one: removed rows leave their terms in the old ones."""
        connection.exec_driver_sql("INSERT INTO lexical(lexical) VALUES ('optimize')")

    def search(self, connection: sa.Connection, search: Search) -> Found:
        """Return the members that hold a term; see :class:`powerctx_sqlalchemy.LexicalIndex`."""
        codes = {encode(term): term for term in search.query.terms}
        common: Mapping[str, tuple[int, int]] = {}
        # With filters, the few rows that pass may hold common terms only.
        if search.limit is not None and not search.filters and len(codes) <= search.terms:
            common = _common(self._frequencies.known(search.partition.id, codes))
        if common:
            found = self._searched(connection, search, codes, common)
            # What was common may be gone, and too few rows hold one of the others.
            if len(found.hits) >= (search.limit or 0):
                return found
        return self._searched(connection, search, codes, {})

    def _searched(
        self,
        connection: sa.Connection,
        search: Search,
        codes: Mapping[str, str],
        common: Mapping[str, tuple[int, int]],
    ) -> Found:
        """Search for rows that hold a term which is not common."""
        partition = search.partition
        counts = {code: count for code, (count, changes) in common.items() if changes == partition.changes}
        postings = self._read(connection, search, codes, counts, common)
        frequency = {codes[code]: count for code, count in counts.items() if count}
        used = rarest(search.query, frequency, search.terms)
        frequency = {term: frequency[term] for term in used}
        chosen = {term: postings[code] for code, term in codes.items() if term in frequency}
        if search.limit is None:
            scores = dict.fromkeys(chain.from_iterable(lists[0] for lists in chosen.values()), 0.0)
            limit = len(scores)
        else:
            weighted = [(weight(partition.items, frequency[term]), chosen[term]) for term in chosen]
            scores = estimated(weighted, partition.total_length / partition.items)
            limit = search.limit
        return Found(terms=used, frequency=frequency, hits=self._hits(connection, search, scores, limit, chosen))

    def _read(
        self,
        connection: sa.Connection,
        search: Search,
        codes: Iterable[str],
        counts: dict[str, int],
        common: Collection[str],
    ) -> dict[str, Postings]:
        """Return the postings of *codes*, of the common ones only those in rows of the others, and add to *counts*."""
        partition = search.partition
        first, last = block(partition.id)
        rest = [code for code in codes if code not in common]
        bound: dict[str, Any] = {"codes": json.dumps(rest), "first": first, "last": last}
        statement = _READ
        if common:
            statement = _READ_SOME
            # Only codes stand in the expression, [a-z0-9]+ each: nothing of what a user writes is query syntax, and
            # FTS5's own words are in capitals.
            bound["rest"] = f"({' OR '.join(rest)}) AND "
            bound["common"] = json.dumps(list(common))
            bound["uncounted"] = json.dumps([code for code in common if code not in counts])
        found = fetched(connection, statement, bound)
        postings: dict[str, Postings] = {}
        for (code, *_), lists in zip(found, _numbers(row[1:] for row in found), strict=True):
            if code in common:
                rows, counted, _ = lists
                postings[code] = (rows,)
                counts.update((code, count) for count in counted)
            elif lists[0]:
                postings[code] = lists
                counts[code] = len(lists[0])
        self._frequencies.keep(partition.id, partition.changes, counts)
        return postings

    def _hits(
        self,
        connection: sa.Connection,
        search: Search,
        scores: Mapping[int, float],
        limit: int,
        chosen: Mapping[str, Postings],
    ) -> list[LexicalHit]:
        """Return the best of the rows that pass the filters."""
        rows: Iterable[int] = scores
        if limit < len(scores):
            # With filters, the statement takes rows from the top until enough of them have passed.  Without, it is
            # faster through its table in order.
            rows = best(scores, len(scores)) if search.filters else sorted(best(scores, limit))
        first, _ = block(search.partition.id)
        statement = _details(Shape.of(search.filters))
        bound = {**parameters(search.filters), "ids": json.dumps([first + row for row in rows]), "count": limit}
        found = fetched(connection, statement, bound)
        matched = _matched([key - first for key, *_ in found], chosen)
        return [
            LexicalHit(key, artifact_id, _counted(matched[key - first], repeats), length, bool(threaded))
            for key, artifact_id, length, threaded, repeats in found
        ]


def _matched(rows: Iterable[int], chosen: Mapping[str, Postings]) -> dict[int, dict[str, int]]:
    """Return the terms that each row holds: 1 for once, 2 for what may be more."""
    matched: dict[int, dict[str, int]] = {row: {} for row in rows}
    members = matched.keys()
    for term, postings in chosen.items():
        rows, *often = postings
        for row in members & rows:
            matched[row][term] = 1 if often else 2
        if often:
            for row in members & often[0]:
                matched[row][term] = 2
    return matched


def _counted(matched: dict[str, int], repeats: str | None) -> dict[str, int]:
    """Put the exact occurrences into *matched*."""
    for term, count in matched.items():
        if count > 1:
            counter = f" {encode(term)}:"
            start = -1 if repeats is None else repeats.find(counter)
            if repeats is None or start < 0:
                matched[term] = 1
            else:
                start += len(counter)
                matched[term] = int(repeats[start : repeats.index(" ", start)])
    return matched


def _numbers(rows: Iterable[Sequence[object]]) -> list[list[list[int]]]:
    """Return rows of lists of numbers for rows of what stands between their brackets, or ``None``."""
    # One document costs half of splitting every list and calling int().
    texts = ["[" + "],[".join(["" if joined is None else str(joined) for joined in row]) + "]" for row in rows]
    numbers: list[list[list[int]]] = json.loads("[[" + "],[".join(texts) + "]]")
    return numbers


def _common(known: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """Return the terms that are too common to bring rows of their own."""
    common, postings = {}, 0
    for code, counted in sorted(known.items(), key=lambda entry: (entry[1][0], entry[0])):
        if postings >= _POSTINGS:
            common[code] = counted
        postings += counted[0]
    return common


def indexed(rows: Iterable[Sequence[Any]]) -> list[tuple[int, str]]:
    """Return ids and the words that stand for (id, terms, repeats)."""
    return [(key, terms if repeats is None else terms + _marked(repeats)) for key, terms, repeats in rows]


def _marked(repeats: str) -> str:
    words = []
    for entry in repeats.split():
        code, _, count = entry.partition(":")
        words += [code + mark for often, mark in _MARKS.items() if int(count) >= often]
    return " ".join(words)


def _conditions(shape: Shape) -> str:
    """Return the conditions of a filter as SQL."""
    return str(sa.and_(*shape.conditions()).compile(dialect=sqlite.dialect(paramstyle="named")))


# CROSS JOIN fixes the order: the rows as they are given, then details by row id.
@lru_cache(maxsize=256)
def _details(shape: Shape) -> sa.TextClause:
    filtered = shape.conditions()
    joined = "CROSS JOIN revision ON revision.id = a.id " if filtered else ""
    wanted = f"WHERE {_conditions(shape)} " if filtered else ""
    return sa.text(
        "SELECT a.id, a.artifact_id, a.length, a.threaded, a.repeats "  # noqa: S608 - values are bound
        f"FROM json_each(:ids) v CROSS JOIN analysis a ON a.id = v.value {joined}{wanted}LIMIT :count"
    )
