"""The vector index: a VECTOR column with an HNSW index, in a table for each model.

What is stored is rounded to float16, as in a SQLite store, so that both give the same cosines; and since the engine
tells only six digits of a stored value, it is also what can be read back exactly.

A partition of up to ``exact_below`` items, and any that is filtered, is searched by comparing every vector of it: the
engine's index knows no partitions, and a filter that few pass makes it slow.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from powerctx_core.ports import NearestRequest, Snapshot, Unembedded
from powerctx_core.types import Deadline, EmbeddingProfile, Filters, Key
from powerctx_core.vectors import check_profile, check_vector, embedding_text, text_hash, unattached
from powerctx_oceanbase import failures, vector_statements as sql
from powerctx_oceanbase.database import OceanBaseDatabase
from powerctx_oceanbase.ddl import vector_table
from powerctx_oceanbase.warming import Warming
from powerctx_sqlalchemy import PartitionRow, RelationalSnapshot
from powerctx_sqlalchemy.statements import parameters
from powerctx_sqlalchemy.tables import block

__all__ = ["OceanBaseVectorIndex"]

_BATCH = 500
_HASHES = 500

Found = Sequence[tuple[Key, float]]


class OceanBaseVectorIndex:
    """A :class:`powerctx_core.ports.VectorIndex`; any thread may use it, and other processes the same database."""

    def __init__(self, database: OceanBaseDatabase) -> None:
        self._database = database
        self._profile: EmbeddingProfile | None = None
        # The id of its table.  An id is never used twice, so that a table is right or does not exist.
        self._number: int | None = None
        self.warming = Warming(database)

    def attach(self, profile: EmbeddingProfile) -> None:
        """Declare the model.  It is written down with the first vectors; until then this reads only.

        When there are many vectors the engine begins to load its index in the background.

        Raises:
            CapabilityError: there are vectors of another model.
        """
        self._number = None
        with self._reading("look up the embedding model") as connection:
            if connection is not None:
                self._number = _same(connection, profile)
        self._profile = profile
        if self._number is not None:
            self.warming.begin(self._number, profile.dimensions)

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
        number = self._claimed(profile)
        with self._database.writing() as connection, self._database.told("store vectors"):
            found = _current(connection, keys)
            if not found:
                return 0
            number = _written_down(connection, profile, number)
            rows = [
                (key, text_hash(embedding_text(title, start)), _rounded(vectors[key])) for key, _, title, start in found
            ]
            connection.exec_driver_sql(sql.delete_some(number, [row[0] for row in rows]))
            for place in range(0, len(rows), _BATCH):
                connection.exec_driver_sql(sql.insert(number), rows[place : place + _BATCH])
            _finish(connection, sorted({partition for _, partition, _, _ in found}))
        self._number = number
        return len(rows)

    def _claimed(self, profile: EmbeddingProfile) -> int:
        """Return the id of the model's table, which is made when there are no vectors: that would end a transaction."""
        with self._reading("look up the embedding model") as connection:
            found = None if connection is None else _same(connection, profile)
        if found is not None:
            return found
        with self._database.writing() as connection, self._database.told("store vectors"):
            number = int(connection.exec_driver_sql(sql.PROFILES).scalar_one()) + 1
            connection.exec_driver_sql(sql.SET_META, (str(number), "profiles"))
        with self._database.connected() as connection, self._database.told("store vectors"):
            connection.exec_driver_sql(vector_table(number, profile.dimensions, self._database.buckets))
        return number

    def clear(self) -> int:
        """Delete every vector; another model may be attached then, here or by another process."""
        if not self._database.ready():
            return 0
        deleted = 0
        with self._database.writing() as connection, self._database.told("delete vectors"):
            numbers = connection.exec_driver_sql(sql.NUMBERS).scalars().all()
            for number in numbers:
                deleted += int(connection.exec_driver_sql(sql.count(number)).scalar_one())
            if numbers:
                connection.exec_driver_sql(sql.FORGET_PROFILE)
                _finish(connection, None)
        self._number = None
        # A table that is not named any more is nobody's: it is dropped now or, after a crash, by the next call.
        with self._database.connected() as connection, self._database.told("delete vectors"):
            named = {f"vector_{number}" for number in connection.exec_driver_sql(sql.NUMBERS).scalars()}
            for name in connection.exec_driver_sql(sql.TABLES).scalars().all():
                if name not in named and name.removeprefix("vector_") in map(str, numbers):
                    connection.exec_driver_sql(f"DROP TABLE IF EXISTS {name}")
        return deleted

    def cached(self, texts: Sequence[str]) -> Mapping[str, bytes]:
        """Return the vectors of those texts that a stored revision was embedded with."""
        hashes = {text_hash(text): text for text in texts}
        found: dict[str, bytes] = {}
        with self._reading("read vectors") as connection:
            number = None if connection is None or not hashes else _same(connection, self._attached())
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
            number = self._known(snapshot.connection)
            if number is None:
                return {}
            rows = self._rows(snapshot.connection, sql.some(number, keys), (asked,))
        found = {key: 1.0 - distance for key, distance in rows}
        return {key: found[key] for key in keys if key in found}

    def _nearest(
        self, snapshot: RelationalSnapshot, row: PartitionRow, vector: bytes, request: NearestRequest
    ) -> Found:
        number = self._known(snapshot.connection)
        if number is None:
            return []
        first, last = block(row.id)
        k = min(request.k, row.items)
        if request.filters:
            bound = {**parameters(request.filters), "vector": vector, "first": first, "last": last, "count": k}
            rows: Sequence[Any] = snapshot.connection.execute(_filtered(number, request.filters), bound).all()
        else:
            exact = row.items <= self._database.settings.exact_below
            exact = exact or not self.warming.warm(number, self._attached().dimensions)
            statement = sql.exact(number) if exact else sql.approximate(number)
            rows = self._rows(snapshot.connection, statement, (vector, first, last, k))
        return sorted(((key, 1.0 - distance) for key, distance in rows), key=lambda pair: (-pair[1], pair[0]))

    def _rows(self, connection: sa.Connection, statement: str, values: tuple[Any, ...]) -> Sequence[Any]:
        """Return the rows of a statement; none when the table was dropped since: the vectors are gone."""
        try:
            return connection.exec_driver_sql(statement, values).all()
        except sa.exc.DBAPIError as error:
            if failures.code(error) not in failures.MISSING:
                raise
            self._number = None
            return []

    def _known(self, connection: sa.Connection) -> int | None:
        """Return the id of the model's table, looked up as long as there is none."""
        if self._number is None:
            self._number = _same(connection, self._attached())
        return self._number

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


@lru_cache(maxsize=256)
def _filtered(number: int, filters: Filters) -> sa.TextClause:
    return sql.filtered(number, filters)


def _rounded(vector: bytes) -> bytes:
    """Return a float32 vector with the values that float16 has."""
    count = len(vector) // 4
    halves = struct.pack(f"<{count}e", *struct.unpack(f"<{count}f", vector))
    return struct.pack(f"<{count}f", *struct.unpack(f"<{count}e", halves))


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


def _same(connection: sa.Connection, profile: EmbeddingProfile) -> int | None:
    """Return the id of the stored model, or ``None`` when there is none or nothing of it.

    Raises:
        CapabilityError: it is another one.
    """
    stored = connection.exec_driver_sql(sql.PROFILE).first()
    if stored is None:
        return None
    number, fingerprint, dimensions = stored
    if (fingerprint, dimensions) != (profile.fingerprint, profile.dimensions):
        count = int(connection.exec_driver_sql(sql.count(number)).scalar_one())
        if not count:
            return None
        check_profile(fingerprint, dimensions, count, profile)
    return int(number)


def _written_down(connection: sa.Connection, profile: EmbeddingProfile, number: int) -> int:
    """Return the id of the stored model, which becomes *profile*, by *number*, when there are no vectors."""
    found = _same(connection, profile)
    if found is not None:
        return found
    connection.exec_driver_sql(sql.FORGET_PROFILE)
    connection.exec_driver_sql(sql.ADD_PROFILE, (number, profile.fingerprint, profile.dimensions))
    return number


def _finish(connection: sa.Connection, partitions: Sequence[int] | None) -> None:
    """Write the change counters."""
    stamp = int(connection.exec_driver_sql(sql.CHANGES).scalar_one()) + 1
    connection.exec_driver_sql(sql.SET_META, (str(stamp), "changes"))
    connection.exec_driver_sql(sql.set_partitions(partitions), (stamp,))
