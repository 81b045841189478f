"""The lexical index: FULLTEXT over the encoded terms of current revisions, and how often each term occurs.

The engine says which rows of a large partition may be the best; which terms they hold, and how often, is counted in the
terms that are stored in ``analysis``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import attrs
import sqlalchemy as sa

from powerctx_core.text.terms import encode, rarest
from powerctx_core.types import LexicalHit
from powerctx_oceanbase.ddl import lexical, term_count
from powerctx_oceanbase.vector_statements import PUT_META
from powerctx_sqlalchemy import Found, LexicalIndex, Search
from powerctx_sqlalchemy.occurrences import Wanted
from powerctx_sqlalchemy.statements import Shape, parameters
from powerctx_sqlalchemy.tables import SEQUENCE_BITS, analysis, block, revision

__all__ = ["TermsIndex"]

_POSTINGS = 12_000
"""When the rarer of a query's terms occur so often together, the others are only counted in rows that hold one of them:
of 100 000 items eight words, five of them common, take 18 ms, and the other three 6."""
_COMMON = 4096
"""A term that fewer items hold is never left out."""
_SURPLUS = 4.0
"""The engine ranks by the number and the mean length of all rows of the table, and by a mean of 10 words before it has
counted; among so many more rows than are wanted core's best 64 are found whatever mean it takes."""
_CHECKED, _DRIFT = 500, 1.25
"""After so many new rows, and after the first of a process, the number that the engine has counted is looked at; it may
differ by this factor."""
# The number is noted here: views that say what the engine knows make it change tables of its own in the background.
_COUNTS = "SELECT (SELECT value FROM meta WHERE name = 'counted'), (SELECT sum(item_count) FROM `partition`)"
_OFTEN = 15
"""More occurrences change no rank."""
_CODES = 1000
_ADD = (
    "INSERT INTO term_count (partition_id, code, item_count) VALUES (%s, %s, %s) "
    "ON DUPLICATE KEY UPDATE item_count = item_count + VALUES(item_count)"
)
_INDEX = "INSERT INTO lexical (id, words) VALUES (%s, %s)"
_MATCH = sa.text("MATCH (lexical.words) AGAINST (:words)")
_FREQUENCIES = sa.select(term_count.c.code, term_count.c.item_count).where(
    term_count.c.partition_id == sa.bindparam("partition"),
    term_count.c.code.in_(sa.bindparam("codes", expanding=True)),
)
_STORED = sa.select(analysis.c.id, analysis.c.terms).where(analysis.c.id.in_(sa.bindparam("ids", expanding=True)))
_COLUMNS = (
    analysis.c.id,
    analysis.c.artifact_id,
    analysis.c.length,
    analysis.c.threaded,
    analysis.c.repeats,
    analysis.c.terms,
)

_DETAILS = sa.select(*_COLUMNS).where(analysis.c.id.in_(sa.bindparam("ids", expanding=True)))


class TermsIndex(LexicalIndex):
    """The index of one database; remembers which partitions are a small part of their table."""

    def __init__(self) -> None:
        self._outnumbered: set[int] = set()
        self._unchecked = _CHECKED

    def create(self, connection: sa.Connection) -> None:
        """Do nothing: it is made with its table."""

    def add(self, connection: sa.Connection, rows: Sequence[tuple[int, str, str | None]]) -> None:
        """Index (id, terms, repeats), and count their terms."""
        self._unchecked += len(rows)
        connection.exec_driver_sql(_INDEX, [(key, _words(terms, repeats)) for key, terms, repeats in rows])
        counted = _counted((key, terms) for key, terms, _ in rows)
        if not counted:
            return
        # In the order of the key, so that no two writers could ever wait for each other.
        connection.exec_driver_sql(_ADD, [(*name, count) for name, count in sorted(counted.items())])

    def remove(self, connection: sa.Connection, ids: Sequence[int]) -> None:
        """Take rows out, and count their terms no more."""
        connection.execute(sa.delete(lexical).where(lexical.c.id.in_(list(ids))))
        stored = connection.execute(_STORED, {"ids": list(ids)}).all()
        counted = _counted((key, terms) for key, terms in stored)
        if not counted:
            return
        connection.exec_driver_sql(_ADD, [(*name, -count) for name, count in sorted(counted.items())])
        for partition, codes in _grouped(sorted(counted)):
            connection.execute(
                sa.delete(term_count).where(
                    term_count.c.partition_id == partition, term_count.c.code.in_(codes), term_count.c.item_count <= 0
                )
            )

    def settle(self, connection: sa.Connection) -> None:
        """Have the engine count its rows anew when they have become far more or fewer; commits.

        It ranks by the number that it counted last, which may be years ago.
        """
        if self._unchecked < _CHECKED:
            return
        self._unchecked = 0
        counted, items = (int(number or 0) for number in connection.exec_driver_sql(_COUNTS).one())
        if items >= _CHECKED and not items / _DRIFT <= counted <= items * _DRIFT:
            connection.exec_driver_sql("ANALYZE TABLE lexical")
            connection.exec_driver_sql(PUT_META, ("counted", str(items)))
            connection.commit()

    def clear(self, connection: sa.Connection) -> None:
        """Empty the index, and forget all counts."""
        connection.execute(sa.delete(lexical))
        connection.execute(sa.delete(term_count))

    def forget(self, connection: sa.Connection) -> None:
        """Do nothing: what is removed leaves no terms behind that a statement could read."""

    def search(self, connection: sa.Connection, search: Search) -> Found:
        """Return the members that hold a term; see :class:`powerctx_sqlalchemy.LexicalIndex`."""
        codes = {encode(term): term for term in search.query.terms}
        if search.limit is None:
            return self._scanned(connection, search, codes)
        bound = {"partition": search.partition.id, "codes": list(codes)}
        frequency = {codes[code]: count for code, count in connection.execute(_FREQUENCIES, bound)}
        used = rarest(search.query, frequency, search.terms)
        frequency = {term: frequency[term] for term in used}
        if not used:
            return Found()
        ids = self._best(connection, search, used, frequency)
        rows = connection.execute(_DETAILS, {"ids": ids}).all() if ids else []
        counted = Wanted(used).counted
        hits = [
            LexicalHit(key, artifact_id, counted(terms, repeats), length, bool(threaded))
            for key, artifact_id, length, threaded, repeats, terms in rows
        ]
        return Found(terms=used, frequency=frequency, hits=hits)

    def _best(
        self, connection: sa.Connection, search: Search, used: Sequence[str], frequency: Mapping[str, int]
    ) -> list[int]:
        """Return the rows of the partition that the engine ranks best.

        Without any condition the engine looks at the best rows only; with one it scores every row that holds a term,
        which takes ten times as long.  So a partition that makes up most of its table is searched as if it were all of
        it, and what belongs to others is left out; where that leaves too few, it is remembered.
        """
        number, limit = search.partition.id, search.limit or 0
        rare = list(used) if search.filters else _rare(frequency)
        if not search.filters and number not in self._outnumbered:
            first, last = block(number)
            for terms in (rare, used) if len(rare) < len(used) else (used,):
                found = self._matched(connection, search, terms, _top())
                top = [key for key in found if first <= key <= last]
                if len(top) >= min(limit, sum(frequency.values())):
                    return top
                if len(found) > len(top):
                    self._outnumbered.add(number)
                    break
        statement = _best(Shape.of(search.filters))
        rows = self._matched(connection, search, rare, statement)
        if len(rows) < limit and len(rare) < len(used):
            rows = self._matched(connection, search, used, statement)
        return rows

    def _matched(
        self, connection: sa.Connection, search: Search, terms: Sequence[str], statement: sa.Select[Any]
    ) -> list[int]:
        """Return rows that hold one of *terms*, best first."""
        first, last = block(search.partition.id)
        # Codes are [a-z0-9]+ each: nothing of what a user writes is query syntax.
        words = " ".join(map(encode, terms))
        count = int(_SURPLUS * (search.limit or 0))
        bound = {**parameters(search.filters), "words": words, "first": first, "last": last, "count": count}
        return list(connection.execute(statement, bound).scalars())

    def _scanned(self, connection: sa.Connection, search: Search, codes: Mapping[str, str]) -> Found:
        """Return all members: reading a partition of this size costs less than asking the index of all partitions."""
        first, last = block(search.partition.id)
        statement = _scan(Shape.of(search.filters), len(codes))
        needles = {f"needle{n}": f" {code} " for n, code in enumerate(codes)}
        bound = {**parameters(search.filters), **needles, "first": first, "last": last}
        counted = Wanted(codes.values()).counted
        members = [
            (LexicalHit(key, artifact_id, counted(terms, repeats), length, bool(threaded)), passes)
            for key, artifact_id, length, threaded, repeats, terms, passes in connection.execute(statement, bound)
        ]
        frequency = Counter(term for hit, _ in members for term in hit.matched)
        used = rarest(search.query, frequency, search.terms)
        kept = frozenset(used)
        hits = [hit for hit, passes in members if passes]
        if len(used) < len(frequency):
            hits = [attrs.evolve(hit, matched={t: n for t, n in hit.matched.items() if t in kept}) for hit in hits]
            hits = [hit for hit in hits if hit.matched]
        return Found(terms=used, frequency={term: frequency[term] for term in used}, hits=hits)


def _words(terms: str, repeats: str | None) -> str:
    """Return each term as often as it occurs, nearly."""
    often = [] if repeats is None else [entry.partition(":") for entry in repeats.split()]
    more = [f"{code} " * min(int(count) - 1, _OFTEN) for code, _, count in often]
    return terms + "".join(more)


def _rare(frequency: Mapping[str, int]) -> list[str]:
    """Return the rarest terms, the first always, until they occur often enough together."""
    rare: list[str] = []
    postings = 0
    for term, count in sorted(frequency.items(), key=lambda entry: entry[1]):
        if rare and count >= _COMMON and postings + count > _POSTINGS:
            break
        rare.append(term)
        postings += count
    return rare


def _counted(rows: Iterator[tuple[int, str]]) -> Counter[tuple[int, str]]:
    """Return in how many of the rows a (partition, code) stands."""
    counted: Counter[tuple[int, str]] = Counter()
    for key, terms in rows:
        number = key >> SEQUENCE_BITS
        counted.update([(number, code) for code in terms.split()])
    return counted


def _grouped(names: Sequence[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    """Yield partitions with their codes, in pieces that one statement takes."""
    by_partition: dict[int, list[str]] = {}
    for number, code in names:
        by_partition.setdefault(number, []).append(code)
    for number, codes in by_partition.items():
        for start in range(0, len(codes), _CODES):
            yield number, codes[start : start + _CODES]


@lru_cache(maxsize=256)
def _best(shape: Shape) -> sa.Select[Any]:
    wanted = shape.conditions()
    rows = lexical.join(revision, revision.c.id == lexical.c.id) if wanted else lexical
    return (
        sa.select(lexical.c.id)
        .select_from(rows)
        .where(_MATCH, lexical.c.id.between(sa.bindparam("first"), sa.bindparam("last")), *wanted)
        .order_by(sa.desc(_MATCH))
        .limit(sa.bindparam("count"))
    )


@lru_cache(maxsize=1)
def _top() -> sa.Select[Any]:
    """The best rows of the whole table, whatever partition they are of."""
    return sa.select(lexical.c.id).where(_MATCH).order_by(sa.desc(_MATCH)).limit(sa.bindparam("count"))


@lru_cache(maxsize=1024)
def _scan(shape: Shape, terms: int) -> sa.Select[Any]:
    wanted = shape.conditions()
    rows = analysis.join(revision, revision.c.id == analysis.c.id) if wanted else analysis
    held = [sa.func.instr(analysis.c.terms, sa.bindparam(f"needle{n}")) > sa.text("0") for n in range(terms)]
    return (
        sa.select(*_COLUMNS, sa.and_(*wanted) if wanted else sa.text("1"))
        .select_from(rows)
        .where(analysis.c.id.between(sa.bindparam("first"), sa.bindparam("last")), sa.or_(*held))
    )
