"""The vector index: a VECTOR column with an HNSW index, in a table for each model.

What is stored is rounded to float16, as in a SQLite store, so that both give the same cosines; and since the engine
tells only six digits of a stored value, it is also what can be read back exactly.

A partition of up to ``exact_below`` items, and any that is filtered, is searched by comparing every vector of it: the
engine's index knows no partitions, and a filter that few pass makes it slow.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from powerctx_core.ports import NearestRequest, Snapshot, Unembedded
from powerctx_core.types import Deadline, EmbeddingProfile, Filters, Key
from powerctx_core.vectors import check_vector, embedding_text, half_precision, text_hash, unattached
from powerctx_oceanbase import vector_statements as sql
from powerctx_oceanbase.database import OceanBaseDatabase
from powerctx_oceanbase.vector_tables import VectorTables, finish
from powerctx_oceanbase.warming import Warming
from powerctx_sqlalchemy import PartitionRow, RelationalSnapshot
from powerctx_sqlalchemy.statements import parameters
from powerctx_sqlalchemy.tables import block

__all__ = ["OceanBaseVectorIndex"]

_BATCH = 500
_HASHES = 500
_SURPLUS = 16
"""So many more rows than are wanted are asked of the index at least: it does not know the order of equal ones."""

Found = Sequence[tuple[Key, float]]


class OceanBaseVectorIndex:
    """A :class:`powerctx_core.ports.VectorIndex`; any thread may use it, and other processes the same database."""

    def __init__(self, database: OceanBaseDatabase) -> None:
        self._database = database
        self._profile: EmbeddingProfile | None = None
        self._tables = VectorTables(database)
        self._outnumbered: set[int] = set()
        self.warming = Warming(database)

    def attach(self, profile: EmbeddingProfile) -> None:
        """Declare the model.  It is written down with the first vectors; until then this reads only.

        When there are many vectors the engine begins to load its index in the background.

        Raises:
            CapabilityError: there are vectors of another model.
        """
        number = None
        with self._reading("look up the embedding model") as connection:
            if connection is not None:
                number = self._tables.same(connection, profile)
        self._profile = profile
        if number is not None:
            self.warming.begin(number, profile.dimensions)

    def upsert(self, vectors: Mapping[Key, bytes]) -> int:
        """Store vectors of current revisions in one transaction; see :class:`powerctx_core.ports.VectorIndex`."""
        profile = self._attached()
        for vector in vectors.values():
            check_vector(vector, profile.dimensions)
        if not vectors or not self._database.ready():
            return 0
        keys = sorted(vectors)
        with self._reading("look up items") as connection:
            if connection is None or not _current(connection, keys):
                return 0
        prepared = self._tables.prepared(profile)
        with self._database.writing() as connection, self._database.told("store vectors"):
            found = _current(connection, keys)
            if not found:
                return 0
            number = self._tables.named(connection, profile, prepared)
            if number is not None:
                rows = [
                    (key, text_hash(embedding_text(title, start)), half_precision(vectors[key]))
                    for key, _, title, start in found
                ]
                connection.exec_driver_sql(sql.delete_some(number, [row[0] for row in rows]))
                for place in range(0, len(rows), _BATCH):
                    connection.exec_driver_sql(sql.insert(number), rows[place : place + _BATCH])
                finish(connection, sorted({partition for _, partition, _, _ in found}))
                return len(rows)
        # Another process has just deleted all vectors, and with them the table that they would have been stored in.
        return self.upsert(vectors)

    def clear(self) -> int:
        """Delete every vector; another model may be attached then, here or by another process."""
        return self._tables.clear() if self._database.ready() else 0

    def cached(self, texts: Sequence[str]) -> Mapping[str, bytes]:
        """Return the vectors of those texts that a stored revision was embedded with."""
        hashes = {text_hash(text): text for text in texts}
        found: dict[str, bytes] = {}
        with self._reading("read vectors") as connection:
            number = None if connection is None or not hashes else self._tables.same(connection, self._attached())
            if connection is None or number is None:
                return found
            wanted = list(hashes)
            for start in range(0, len(wanted), _HASHES):
                piece = wanted[start : start + _HASHES]
                for known, told in connection.exec_driver_sql(sql.cached(number, len(piece)), tuple(piece)):
                    found[hashes[known]] = _read(told)
        return found

    def unembedded(self, limit: int, after: Key = 0) -> Sequence[Unembedded]:
        """Return up to *limit* current revisions without a vector, in key order, with keys above *after*."""
        with self._reading("look for what has no vector") as connection:
            if connection is None or limit < 1:
                return []
            number = connection.exec_driver_sql(sql.NUMBERS).scalar()
            found = connection.exec_driver_sql(sql.unembedded(number), (after, limit)).all()
        return [
            Unembedded(key=key, family=family.decode(), text=embedding_text(title, start))
            for key, family, title, start in found
        ]

    def count(self) -> int:
        """Return the number of vectors."""
        with self._reading("count vectors") as connection:
            number = None if connection is None else connection.exec_driver_sql(sql.NUMBERS).scalar()
            if connection is None or number is None:
                return 0
            return int(connection.exec_driver_sql(sql.count(number)).scalar_one())

    def nearest(self, requests: Sequence[NearestRequest], snapshot: Snapshot) -> Sequence[Found]:
        """Return ``(key, cosine)`` of each request's members, best first, ties by key.

        Exact for partitions of up to ``exact_below`` items and for those that are filtered, and as long as the engine
        is still loading its index; else nearly all of the best are found.
        """
        vectors = [self._query(request.vector) for request in requests]
        if not isinstance(snapshot, RelationalSnapshot):
            return [[] for _ in requests]
        rows = snapshot.rows([request.partition for request in requests])
        with self._understood("search by vectors"):
            return [
                [] if row is None or row.items == 0 or request.k < 1 else self._nearest(snapshot, row, vector, request)
                for request, vector, row in zip(requests, vectors, rows, strict=True)
            ]

    def cosines(self, keys: Sequence[Key], vector: bytes, snapshot: Snapshot) -> Mapping[Key, float]:
        """Return the cosine of every key that has a vector, with one statement."""
        asked = self._query(vector)
        if not keys or not isinstance(snapshot, RelationalSnapshot):
            return {}
        with self._understood("read vectors"):
            number = self._tables.at(snapshot, snapshot.row_of(keys[0]), self._attached())
            if number is None:
                return {}
            rows = snapshot.connection.exec_driver_sql(sql.some(number, keys), (asked,)).all()
        found = dict(_ordered(rows))
        return {key: found[key] for key in keys if key in found}

    def _nearest(
        self, snapshot: RelationalSnapshot, row: PartitionRow, vector: bytes, request: NearestRequest
    ) -> Found:
        number = self._tables.at(snapshot, row, self._attached())
        if number is None:
            return []
        k = min(request.k, row.items)
        first, last = block(row.id)
        if request.filters:
            bound = {**parameters(request.filters), "vector": vector, "first": first, "last": last, "count": k}
            return _ordered(snapshot.connection.execute(_filtered(number, request.filters), bound))
        found = None
        if row.items > self._database.settings.exact_below and self.warming.warm(number, self._attached().dimensions):
            found = self._approximate(snapshot.connection, number, row.id, vector, k)
        if found is None:
            found = _ordered(snapshot.connection.exec_driver_sql(sql.exact(number), (vector, first, last, k)))
        return found

    def _approximate(
        self, connection: sa.Connection, number: int, partition: int, vector: bytes, k: int
    ) -> list[tuple[Key, float]] | None:
        """Return the *k* rows that the index finds, or ``None`` when it cannot tell which: more are equally near.

        A partition that makes up most of its table is searched as if it were all of it, which takes a tenth of the
        time, and what belongs to others is left out; where that leaves too few, it is remembered.
        """
        first, last = block(partition)
        count = k + max(k // 2, _SURPLUS)
        if partition not in self._outnumbered:
            rows = _ordered(connection.exec_driver_sql(sql.approximate_any(number), (vector, vector, count)))
            found = [pair for pair in rows if first <= pair[0] <= last]
            if len(found) < min(k, len(rows)):
                self._outnumbered.add(partition)
        if partition in self._outnumbered:
            asked = (vector, first, last, vector, count)
            found = rows = _ordered(connection.exec_driver_sql(sql.approximate(number), asked))
        tied = len(rows) == count and len(found) >= k and found[k - 1][1] == rows[-1][1]
        return None if tied else found[:k]

    def _query(self, vector: bytes) -> bytes:
        check_vector(vector, self._attached().dimensions)
        return vector

    def _attached(self) -> EmbeddingProfile:
        if self._profile is None:
            raise unattached()
        return self._profile

    def _understood(self, doing: str) -> Any:
        return self._database.understood(doing)

    @contextmanager
    def _reading(self, doing: str) -> Iterator[sa.Connection | None]:
        with self._database.reading(Deadline()) as connection, self._database.understood(doing):
            yield connection

    def rebuild(self) -> None:
        """Make the engine's index anew, which a search profits from after a large load; 1 s for 1 000 vectors."""
        with self._reading("read vectors") as connection:
            number = None if connection is None else connection.exec_driver_sql(sql.NUMBERS).scalar()
        if number is not None:
            self.warming.rebuild(number)

    def close(self) -> None:
        """Stop what runs in the background."""
        self.warming.close()


def _ordered(rows: Iterable[Sequence[Any]]) -> list[tuple[Key, float]]:
    """Return (key, cosine), best first, ties by key."""
    # Without the sign of a zero.
    found = [(key, min(max(cosine, -1.0), 1.0) + 0.0) for key, cosine in rows]
    return sorted(found, key=lambda pair: (-pair[1], pair[0]))


@lru_cache(maxsize=256)
def _filtered(number: int, filters: Filters) -> sa.TextClause:
    return sql.filtered(number, filters)


def _read(told: str) -> bytes:
    """Return the vector that the engine tells in six digits."""
    values = json.loads(told)
    halves = struct.pack(f"<{len(values)}e", *values)
    return struct.pack(f"<{len(values)}f", *struct.unpack(f"<{len(values)}e", halves))


def _current(connection: sa.Connection, keys: Sequence[Key]) -> list[tuple[Key, int, str | None, str]]:
    """Return (key, partition id, title, head) of those keys that are current."""
    found: list[tuple[Key, int, str | None, str]] = []
    for start in range(0, len(keys), _BATCH):
        rows = connection.exec_driver_sql(sql.current(keys[start : start + _BATCH])).all()
        found += [(key, partition, title, head) for key, partition, title, head in rows]
    return found
