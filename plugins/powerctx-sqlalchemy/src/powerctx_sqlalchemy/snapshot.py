"""A consistent read view over one connection in one transaction."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import sqlalchemy as sa

from powerctx_core.errors import StoreError
from powerctx_core.ports import FetchRequest, LexicalRequest, LexicalResult, ListingRequest, NeighbourRequest
from powerctx_core.text.terms import rarest
from powerctx_core.types import (
    Address,
    Key,
    LexicalHit,
    LexicalStatistics,
    Partition,
    RawCandidate,
    Revision,
)
from powerctx_sqlalchemy.database import Database, Found, PartitionRow, Search
from powerctx_sqlalchemy.occurrences import Wanted
from powerctx_sqlalchemy.rows import candidate, stored
from powerctx_sqlalchemy.statements import Statements, listing, listings, scan
from powerctx_sqlalchemy.tables import SEQUENCE_BITS, block

__all__ = ["EmptySnapshot", "PartitionRow", "RelationalSnapshot"]

TERMS = 64
"""Query terms that are used at most."""
_OVERFETCH, _LEAST = 1.5, 96
"""An index knows lengths and occurrences only nearly, so more than *k* rows are taken from its top."""
_SCANNED_ITEMS, _SCANNED_TERMS = 128, 8_192
"""Up to this size reading the terms of a whole partition costs less than asking the index (50 items: a fifth), and so
it does for any small partition when thousands of terms are asked for."""


class RelationalSnapshot:
    """A :class:`powerctx_core.ports.Snapshot` over *connection*, which is in a read transaction.

    Args:
        rank_above: partitions of more items than this give the best of their members; smaller ones give all.
        refusal: why lexical reads are refused now, or ``None``.
    """

    def __init__(
        self,
        *,
        connection: sa.Connection,
        database: Database,
        statements: Statements,
        rank_above: int,
        refusal: str | None,
    ) -> None:
        self._connection = connection
        self._database = database
        self._statements = statements
        self._rank_above = rank_above
        self._refusal = refusal
        self._rows: dict[Partition, PartitionRow | None] = {}
        self._names: dict[int, Partition] = {}

    def lexical(self, requests: Sequence[LexicalRequest]) -> Sequence[LexicalResult]:
        """Return one result for each request; see :class:`powerctx_core.ports.Snapshot`."""
        if self._refusal is not None:
            raise StoreError(self._refusal)
        with self._database.understood("search by words"):
            rows = self._partitions([request.partition for request in requests])
            return [self._lexical(request, row) for request, row in zip(requests, rows, strict=True)]

    @property
    def connection(self) -> sa.Connection:
        """The connection, in this snapshot's transaction: for what else is kept in the same database."""
        return self._connection

    def rows(self, asked: Sequence[Partition]) -> list[PartitionRow | None]:
        """Return the rows of partitions, with one statement at most for those that were not asked for before."""
        with self._database.understood("read partitions"):
            return self._partitions(asked)

    def row_of(self, key: Key) -> PartitionRow | None:
        """Return the row of a key's partition, if it was asked for before."""
        name = self._names.get(key >> SEQUENCE_BITS)
        return None if name is None else self._rows.get(name)

    def _fetched(
        self, statement: sa.Select[Any] | sa.CompoundSelect[Any] | sa.TextClause, values: Mapping[str, Any]
    ) -> Sequence[Sequence[Any]]:
        return self._database.fetched(self._connection, statement, values)

    def _partitions(self, asked: Sequence[Partition]) -> list[PartitionRow | None]:
        missing = [partition for partition in dict.fromkeys(asked) if partition not in self._rows]
        if len(missing) == 1:
            values = {"scope": missing[0].scope_id, "name": missing[0].family}
            found = self._fetched(self._statements.find_partition, values)
        elif missing:
            pairs = json.dumps([(partition.scope_id, partition.family) for partition in missing])
            found = self._fetched(self._statements.find_partitions, {"asked": pairs})
        if missing:
            self._rows.update(dict.fromkeys(missing))
            for place, number, items, total_length, changes, _ in found:
                self._rows[missing[place]] = PartitionRow(number, items, total_length, changes)
                self._names[number] = missing[place]
        return [self._rows[partition] for partition in asked]

    def _lexical(self, request: LexicalRequest, row: PartitionRow | None) -> LexicalResult:
        if row is None or not row.items or not request.query.terms:
            return _result(Found(), row)
        ranked = row.items > self._rank_above
        many = len(request.query.terms) > TERMS
        if not ranked and (many or (row.items <= _SCANNED_ITEMS and row.total_length <= _SCANNED_TERMS)):
            return _result(self._scanned(request, row), row)
        search = Search(
            partition=row,
            query=request.query,
            filters=request.filters,
            terms=TERMS,
            limit=max(int(_OVERFETCH * request.k), _LEAST) if ranked else None,
        )
        return _result(self._database.index.search(self._connection, search), row)

    def _scanned(self, request: LexicalRequest, row: PartitionRow) -> Found:
        """Look for the terms in all that the partition holds."""
        first, last = block(row.id)
        statement, values = scan(request.filters)
        wanted = Wanted(request.query.terms)
        found = self._fetched(statement, {**values, "first": first, "last": last})
        members = [
            (LexicalHit(key, artifact_id, wanted.counted(terms, repeats), length, bool(threaded)), passes)
            for key, artifact_id, length, threaded, repeats, terms, passes in found
            if not wanted.codes.keys().isdisjoint(terms.split())
        ]
        frequency = Counter(term for hit, _ in members for term in hit.matched)
        used = rarest(request.query, frequency, TERMS)
        hits = [hit for hit, passes in members if passes]
        if len(used) < len(frequency):
            hits = _restricted(hits, used)
        return Found(terms=used, frequency={term: frequency[term] for term in used}, hits=hits)

    def fetch(self, request: FetchRequest) -> Mapping[Key, RawCandidate]:
        """Return the details of the keys that are current, with one statement."""
        keys, hits, cosines = request.keys, request.hits, request.cosines
        if not keys:
            return {}
        known = all(key in hits for key in keys)
        statement = self._statements.fetch if known else self._statements.fetch_with_terms
        with self._database.understood("read items"):
            found = self._fetched(statement, {"ids": self._database.keys(sorted(keys))})
            names = self._named({key >> SEQUENCE_BITS for key in keys})
            counted = Wanted(request.terms).counted
            by_key: dict[Key, RawCandidate] = {}
            for row in found:
                key = row[0]
                partition = names[key >> SEQUENCE_BITS]
                hit = hits.get(key)
                if hit is not None:
                    details = row if known else row[:-3]
                    by_key[key] = candidate(partition, details, hit.length, hit.matched, cosines.get(key))
                else:
                    *details, length, terms, repeats = row
                    matched = counted(terms, repeats) if terms else {}
                    by_key[key] = candidate(partition, details, length, matched, cosines.get(key))
        return {key: by_key[key] for key in keys if key in by_key}

    def _named(self, numbers: set[int]) -> Mapping[int, Partition]:
        """Return which partitions the ids stand for: those that gave out keys are known."""
        unknown = numbers - self._names.keys()
        if unknown:
            bound = {"ids": json.dumps(sorted(unknown))}
            for number, scope_id, family in self._connection.execute(self._statements.name_partitions, bound):
                self._names[number] = Partition(scope_id, family)
        return self._names

    def neighbours(self, request: NeighbourRequest) -> Mapping[Key, tuple[Key, ...]]:
        """Return the current items just before and after each key in its thread, by position and artifact id."""
        with self._database.understood("read neighbours"):
            row = self._partitions([request.partition])[0] if request.keys else None
            if row is None:
                return {}
            first, last = block(row.id)
            values = {"ids": json.dumps(list(request.keys)), "first": first, "last": last}
            found = self._fetched(self._statements.neighbours, values)
        beside = {key: tuple(other for other in (before, after) if other is not None) for key, before, after in found}
        return {key: beside[key] for key in request.keys if key in beside}

    def get(self, address: Address) -> Revision | None:
        """Return exactly this revision, or ``None``."""
        found = self._revisions("get", address.scope_id, address.family, address.artifact_id, address.revision)
        return found[0] if found else None

    def latest(self, scope_id: str, family: str, artifact_id: str) -> Revision | None:
        """Return the current revision, or ``None``."""
        found = self._revisions("latest", scope_id, family, artifact_id)
        return found[0] if found else None

    def history(self, scope_id: str, family: str, artifact_id: str) -> tuple[Revision, ...]:
        """Return all revisions, oldest first."""
        return self._revisions("history", scope_id, family, artifact_id)

    def _revisions(
        self, name: str, scope_id: str, family: str, artifact_id: str, number: int | None = None
    ) -> tuple[Revision, ...]:
        values: dict[str, Any] = {"scope": scope_id, "name": family, "artifact": artifact_id}
        if number is not None:
            if not 0 < number < 1 << 31:
                return ()
            values["number"] = number
        with self._database.understood("read revisions"):
            found = self._connection.execute(getattr(self._statements, name), values).all()
            return tuple(stored(scope_id, family, row) for row in found)

    def listing(self, request: ListingRequest) -> tuple[RawCandidate, ...]:
        """Return current items, most recent first."""
        statement, values = listing(request.filters, request.prefix)
        with self._database.understood("list items"):
            row = self._partitions([request.partition])[0]
            if row is None or request.limit <= 0:
                return ()
            values |= {"partition": row.id, "count": min(request.limit, 1 << 62)}
            found = self._fetched(statement, values)
            return tuple(candidate(request.partition, details, length) for *details, length in found)

    def listings(self, requests: Sequence[ListingRequest]) -> Sequence[tuple[RawCandidate, ...]]:
        """Return what :meth:`listing` does for each request, with one statement where only partitions differ."""
        rows = self.rows([request.partition for request in requests])
        asked = {place: row.id for place, row in enumerate(rows) if row is not None and requests[place].limit > 0}
        alike = all(attrs.evolve(request, partition=requests[0].partition) == requests[0] for request in requests)
        if not self._database.joins_listings or len(asked) < 2 or not alike:
            return [self.listing(request) for request in requests]
        statement, values = listings(requests[0].filters, requests[0].prefix, len(asked))
        values |= {f"partition{n}": number for n, number in enumerate(asked.values())}
        found: dict[int, list[RawCandidate]] = {place: [] for place in range(len(requests))}
        places = [*asked]
        with self._database.understood("list items"):
            for n, *details, length in self._fetched(statement, {**values, "count": min(requests[0].limit, 1 << 62)}):
                place = places[n]
                found[place].append(candidate(requests[place].partition, details, length))
        return [tuple(found[place]) for place in range(len(requests))]

    def partitions(self, scope_id: str | None = None) -> Mapping[Partition, int]:
        """Return every partition (of a scope, where one is named) that holds current items, with their number.

        Those of a scope need not be asked for again by what reads them.
        """
        with self._database.understood("read partitions"):
            if scope_id is None:
                every = self._connection.execute(self._statements.list_partitions).all()
                return {Partition(scope, family): items for scope, family, items in every}
            found = self._fetched(self._statements.scope_partitions, {"scope": scope_id})
        for family, number, items, total_length, changes in found:
            self._rows[Partition(scope_id, family)] = PartitionRow(number, items, total_length, changes)
            self._names[number] = Partition(scope_id, family)
        return {Partition(scope_id, family): items for family, _, items, _, _ in found}

    def changes(self) -> int:
        """Return a counter that grows with every committed write, in any process."""
        with self._database.understood("read the change counter"):
            return int(self._connection.execute(self._statements.changes).scalar_one())


def _restricted(hits: Iterable[LexicalHit], used: Sequence[str]) -> list[LexicalHit]:
    """Return the hits with only the terms that are used, without those that hold none."""
    kept = frozenset(used)
    restricted = [
        attrs.evolve(hit, matched={term: count for term, count in hit.matched.items() if term in kept}) for hit in hits
    ]
    return [hit for hit in restricted if hit.matched]


def _result(found: Found, row: PartitionRow | None) -> LexicalResult:
    items, total = (0, 0) if row is None else (row.items, row.total_length)
    statistics = LexicalStatistics(
        items=items, mean_length=total / items if items else 0.0, document_frequency=found.frequency
    )
    return LexicalResult(hits=tuple(found.hits), statistics=statistics, terms=found.terms)


class EmptySnapshot:
    """The view of a store in which nothing was ever written."""

    def lexical(self, requests: Sequence[LexicalRequest]) -> Sequence[LexicalResult]:
        """Return an empty result for each request."""
        return [_result(Found(), None) for _ in requests]

    def fetch(self, request: FetchRequest) -> Mapping[Key, RawCandidate]:  # noqa: ARG002 - nothing is stored
        """Return nothing."""
        return {}

    def neighbours(self, request: NeighbourRequest) -> Mapping[Key, tuple[Key, ...]]:  # noqa: ARG002 - as above
        """Return nothing."""
        return {}

    def get(self, address: Address) -> Revision | None:  # noqa: ARG002 - as above
        """Return nothing."""
        return None

    def latest(self, scope_id: str, family: str, artifact_id: str) -> Revision | None:  # noqa: ARG002 - as above
        """Return nothing."""
        return None

    def history(self, scope_id: str, family: str, artifact_id: str) -> tuple[Revision, ...]:  # noqa: ARG002 - as above
        """Return nothing."""
        return ()

    def listing(self, request: ListingRequest) -> tuple[RawCandidate, ...]:  # noqa: ARG002 - as above
        """Return nothing."""
        return ()

    def listings(self, requests: Sequence[ListingRequest]) -> Sequence[tuple[RawCandidate, ...]]:
        """Return nothing for each request."""
        return [() for _ in requests]

    def partitions(self, scope_id: str | None = None) -> Mapping[Partition, int]:  # noqa: ARG002 - as above
        """Return nothing."""
        return {}

    def changes(self) -> int:
        """Return 0: nothing was ever written."""
        return 0
