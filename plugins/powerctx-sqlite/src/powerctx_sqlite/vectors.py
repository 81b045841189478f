"""The vector index of a SQLite store: vectors in a plain table, searched by numpy.

A partition of up to :data:`DIRECT` items is read from the database for each search.  Larger ones are kept in memory
(:mod:`powerctx_sqlite.resident`), the largest as sign bits only, whose best rows are read and rescored.  What is kept
is brought up to date when the partition's change counter, which the snapshot reads anyway, has moved.

numpy is imported by the first call that needs it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from powerctx_core.errors import CapabilityError
from powerctx_core.ports import NearestRequest, Snapshot, Unembedded
from powerctx_core.types import Deadline, EmbeddingProfile, Filters, Key
from powerctx_core.vectors import embedding_text, text_hash, unattached
from powerctx_sqlalchemy import PartitionRow, RelationalSnapshot
from powerctx_sqlalchemy.statements import parameters
from powerctx_sqlalchemy.tables import block
from powerctx_sqlalchemy.vector_tables import PROFILE, stored_model
from powerctx_sqlite import vector_statements as sql
from powerctx_sqlite.database import SqliteDatabase

if TYPE_CHECKING:
    from powerctx_sqlite.resident import Held, Residents
    from powerctx_sqlite.signs import Array

__all__ = ["DIRECT", "FEW", "SqliteVectorIndex"]

DIRECT = 300
"""Partitions of up to so many items are read from the database for each search, which takes half a millisecond."""
FEW = 1000
"""If so few of a large partition pass the filters, reading just their vectors is exact, and quicker too."""
_BATCH = 4096
_HASHES = 500
_FILTERS = 16
_REMOVALS = 20_000
"""Removals that are remembered for other processes; those that missed more load their partitions anew."""

Found = Sequence[tuple[Key, float]]


class SqliteVectorIndex:
    """A :class:`powerctx_core.ports.VectorIndex`; any thread may use it, and other processes the same file.

    Args:
        most_bytes: memory for partitions that are kept.
    """

    def __init__(self, database: SqliteDatabase, *, most_bytes: int = 256 << 20) -> None:
        self._database = database
        self._most_bytes = most_bytes
        self._profile: EmbeddingProfile | None = None
        self._profile_id: int | None = None
        self._kept: Residents | None = None
        self._lock = threading.Lock()
        self._filtered: dict[tuple[int, int, Filters], Array] = {}

    def attach(self, profile: EmbeddingProfile) -> None:
        """Declare the model.  It is written down with the first vectors; until then this reads only.

        Raises:
            CapabilityError: there are vectors of another model.
        """
        self._profile_id = None
        with self._reading("look up the embedding model") as connection:
            if connection is not None:
                self._profile_id = _same(connection, profile)
        self._profile = profile

    def upsert(self, vectors: Mapping[Key, bytes]) -> int:
        """Store vectors of current revisions in one transaction; see :class:`powerctx_core.ports.VectorIndex`."""
        profile = self._attached()
        blobs = dict(zip(vectors, _signs().encoded(list(vectors.values()), profile.dimensions), strict=True))
        if not blobs or not self._database.ready():
            return 0
        with self._database.writing() as connection, self._database.told("store vectors"):
            found = connection.exec_driver_sql(sql.CURRENT, (json.dumps(list(blobs)),)).all()
            if not found:
                return 0
            stamp = _stamp(connection)
            number = _claim(connection, profile, stamp)
            rows = [
                (key, partition, stamp, text_hash(embedding_text(title, head)), blobs[key])
                for key, partition, title, head in found
            ]
            connection.exec_driver_sql(sql.UPSERT, rows)
            _finish(connection, stamp, sorted({row[1] for row in rows}))
        self._profile_id = number
        return len(rows)

    def clear(self) -> int:
        """Delete every vector; another model may be attached then, here or by another process."""
        if not self._database.ready():
            return 0
        with self._database.writing() as connection, self._database.told("delete vectors"):
            deleted = int(connection.exec_driver_sql(sql.COUNT).scalar_one())
            if connection.exec_driver_sql(PROFILE).first() is not None:
                stamp = _stamp(connection)
                for statement in sql.CLEAR:
                    connection.exec_driver_sql(statement)
                _finish(connection, stamp, None)
        self._profile_id = None
        return deleted

    def cached(self, texts: Sequence[str]) -> Mapping[str, bytes]:
        """Return the vectors of those texts that a stored revision was embedded with."""
        hashes = {text_hash(text): text for text in texts}
        found: dict[str, bytes] = {}
        with self._reading("read vectors") as connection:
            if connection is None or not hashes or _same(connection, self._attached()) is None:
                return found
            wanted = list(hashes)
            for start in range(0, len(wanted), _HASHES):
                piece = wanted[start : start + _HASHES]
                for known, blob in connection.exec_driver_sql(sql.cached(len(piece)), tuple(piece)):
                    if blob is not None:
                        found[hashes[known]] = _signs().float32_bytes(blob)
        return found

    def unembedded(self, limit: int, after: Key = 0) -> Sequence[Unembedded]:
        """Return up to *limit* current revisions without a vector, in key order, with keys above *after*."""
        with self._reading("look for what has no vector") as connection:
            if connection is None:
                return []
            found = connection.exec_driver_sql(sql.UNEMBEDDED, (after, max(0, limit))).all()
        return [
            Unembedded(key=key, family=family, text=embedding_text(title, head)) for key, family, title, head in found
        ]

    def count(self) -> int:
        """Return the number of vectors."""
        with self._reading("count vectors") as connection:
            return 0 if connection is None else int(connection.exec_driver_sql(sql.COUNT).scalar_one())

    def nearest(self, requests: Sequence[NearestRequest], snapshot: Snapshot) -> Sequence[Found]:
        """Return ``(key, cosine)`` of each request's members, best first, ties by key.

        Exact up to 16 000 vectors in a partition; above that nearly all of the best are found.  While nothing changes,
        a request takes one statement beside the look-up of its partition, and in large ones one more for new filters.
        """
        vectors = [self._query(request.vector) for request in requests]
        if not isinstance(snapshot, RelationalSnapshot):
            return [[] for _ in requests]
        rows = snapshot.rows([request.partition for request in requests])
        with self._database.understood("search by vectors"):
            return [
                [] if row is None or row.items == 0 or request.k < 1 else self._nearest(snapshot, row, vector, request)
                for request, vector, row in zip(requests, vectors, rows, strict=True)
            ]

    def cosines(self, keys: Sequence[Key], vector: bytes, snapshot: Snapshot) -> Mapping[Key, float]:
        """Return the cosine of every key that has a vector, with one statement."""
        values = self._query(vector)
        if not keys or not isinstance(snapshot, RelationalSnapshot):
            return {}
        with self._database.understood("read vectors"):
            found = dict(self._rescored(snapshot.connection, list(keys), values, len(keys)))
        return {key: found[key] for key in keys if key in found}

    def _nearest(
        self, snapshot: RelationalSnapshot, row: PartitionRow, vector: Array, request: NearestRequest
    ) -> Found:
        import numpy as np

        from powerctx_sqlite.resident import EXACT

        connection, filters, k = snapshot.connection, request.filters, min(request.k, row.items)
        if row.items <= DIRECT:
            first, last = block(row.id)
            bound = {**parameters(filters), "first": first, "last": last}
            return self._scored(connection.execute(sql.direct(filters), bound).all(), vector, k, connection)
        allowed = None
        if filters:
            allowed = self._allowed(connection, row, filters)
            if len(allowed) <= (FEW if row.items > EXACT else DIRECT):
                return self._rescored(connection, allowed.tolist(), vector, k)
        held = self._residents().held(row.id, row.changes, lambda old: self._loaded(row, old))
        same = held.stamp == row.changes
        wanted = k if same else 2 * k
        while True:
            keys, cosines = held.near(vector, wanted, allowed, removed=not same)
            if same and cosines is not None:
                return list(zip(keys.tolist(), cosines.tolist(), strict=True))
            found = self._rescored(connection, np.sort(keys).tolist(), vector, k)
            # In a state newer than the snapshot, what the snapshot does not hold may have taken the places.
            if same or len(found) == k or len(keys) < wanted:
                return found
            wanted *= 4

    def _allowed(self, connection: sa.Connection, row: PartitionRow, filters: Filters) -> Array:
        """Return the keys of the partition that pass the filters; those of the last few filters are remembered."""
        import numpy as np

        asked = (row.id, row.changes, filters)
        with self._lock:
            found = self._filtered.get(asked)
        if found is None:
            bound = {**parameters(filters), "partition": row.id}
            keys = connection.execute(sql.allowed(filters), bound).scalar()
            found = np.fromstring(keys or "", np.int64, sep=",")
            with self._lock:
                self._filtered[asked] = found
                while len(self._filtered) > _FILTERS:
                    del self._filtered[next(iter(self._filtered))]
        return found

    def _rescored(self, connection: sa.Connection, keys: list[Key], vector: Array, k: int) -> Found:
        """Return the best of *keys* by what the database holds."""
        found = connection.exec_driver_sql(sql.BY_KEY, (json.dumps(keys),)).all()
        return self._scored(found, vector, k, connection)

    def _scored(self, found: Sequence[Sequence[Any]], vector: Array, k: int, connection: sa.Connection) -> Found:
        """Return the best of the rows (key, embedding, id of the model)."""
        import numpy as np

        if not found:
            return []
        self._check(found[0][2], connection)
        signs = _signs()
        keys = np.array([row[0] for row in found], np.int64)
        cosines = signs.cosines(signs.stacked([row[1] for row in found], len(vector)), vector)
        chosen = signs.best(cosines, keys, k)
        return list(zip(keys[chosen].tolist(), cosines[chosen].tolist(), strict=True))

    def _loaded(self, row: PartitionRow, old: Held | None) -> Held:
        """Return the newest state of a partition; *old* is what is known of it.

        It is read in a transaction of its own, without the deadline of the call that happens to need it first: a load
        that is cut off would never end.
        """
        from powerctx_sqlite.resident import Held

        dimensions = self._attached().dimensions
        with self._reading("load vectors") as connection:
            known = None if connection is None else connection.exec_driver_sql(sql.STATE, (row.id,)).first()
            if connection is None or known is None or known[1] is None:
                return Held.of(row.changes if known is None else known[0], 0, [])
            stamp, profile, forgotten = known
            self._check(profile, connection)
            if old is not None and old.profile == profile and forgotten <= old.stamp:
                held = _delta(connection, row.id, old, stamp, dimensions)
                if held.fitting:
                    return held
            whole = connection.exec_driver_sql(sql.WHOLE, block(row.id))
            return Held.of(stamp, profile, _batches(whole, dimensions))

    def _check(self, profile_id: int, connection: sa.Connection) -> None:
        """Refuse vectors of a model that another process has attached since."""
        if profile_id != self._profile_id:
            self._profile_id = _same(connection, self._attached())

    def _query(self, vector: bytes) -> Array:
        found: Array = _signs().query(vector, self._attached().dimensions)
        return found

    def _attached(self) -> EmbeddingProfile:
        if self._profile is None:
            raise unattached()
        return self._profile

    def _residents(self) -> Residents:
        from powerctx_sqlite.resident import Residents

        with self._lock:
            if self._kept is None:
                self._kept = Residents(self._most_bytes)
            return self._kept

    @contextmanager
    def _reading(self, doing: str) -> Iterator[sa.Connection | None]:
        with self._database.reading(Deadline()) as connection, self._database.understood(doing):
            yield connection


def _signs() -> Any:
    """Return the module that needs numpy."""
    try:
        from powerctx_sqlite import signs
    except ModuleNotFoundError as error:
        raise CapabilityError(
            f"Vectors in a SQLite store need {error.name}, which is missing: pip install powerctx-sqlite."
        ) from error
    return signs


def _same(connection: sa.Connection, profile: EmbeddingProfile) -> int | None:
    return stored_model(connection, profile, lambda _: sql.COUNT)


def _claim(connection: sa.Connection, profile: EmbeddingProfile, stamp: int) -> int:
    """Return the id of the stored model, which becomes *profile* when there are no vectors."""
    found = _same(connection, profile)
    if found is not None:
        return found
    connection.exec_driver_sql(sql.FORGET_PROFILE)
    bound = (profile.fingerprint, profile.dimensions, stamp - 1)
    return int(connection.exec_driver_sql(sql.ADD_PROFILE, bound).scalar_one())


def _stamp(connection: sa.Connection) -> int:
    return int(connection.exec_driver_sql(sql.CHANGES).scalar_one()) + 1


def _finish(connection: sa.Connection, stamp: int, partitions: list[int] | None) -> None:
    """Write the change counters, and forget old removals when there are many."""
    connection.exec_driver_sql(sql.SET_CHANGES, (str(stamp),))
    if partitions is None:
        connection.exec_driver_sql(sql.SET_ALL_PARTITIONS, (stamp,))
    else:
        connection.exec_driver_sql(sql.SET_PARTITIONS, (stamp, json.dumps(partitions)))
        if connection.exec_driver_sql(sql.MANY_REMOVALS, (_REMOVALS,)).first() is not None:
            connection.exec_driver_sql(sql.FORGET_REMOVALS)
            connection.exec_driver_sql(sql.SET_FORGOTTEN, (stamp,))


def _batches(rows: sa.CursorResult[*tuple[Any, ...]], dimensions: int) -> Iterator[tuple[Array, Array]]:
    import numpy as np

    while batch := rows.fetchmany(_BATCH):
        yield np.array([row[0] for row in batch], np.int64), _signs().stacked([row[1] for row in batch], dimensions)


def _delta(connection: sa.Connection, partition: int, old: Held, stamp: int, dimensions: int) -> Held:
    """Return *old* with what has changed since."""
    import numpy as np

    bound = (partition, old.stamp)
    added = connection.exec_driver_sql(sql.ADDED, bound).all()
    removed = connection.exec_driver_sql(sql.REMOVED, bound).scalars().all()
    if not added and not removed:
        import attrs

        return attrs.evolve(old, stamp=stamp)
    return old.changed(
        stamp,
        np.array([row[0] for row in added], np.int64),
        _signs().stacked([row[1] for row in added], dimensions),
        np.array(removed, np.int64),
    )
