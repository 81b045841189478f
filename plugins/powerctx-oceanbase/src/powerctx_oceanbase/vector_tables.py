"""The tables of vectors: one for each model that was in use, with a number that is never used twice.

Deleting all vectors forgets the model and deletes the rows, but leaves the empty table: to drop it would take its
vectors from those who still read an older moment.  It is dropped when nobody can do that any more.
"""

from __future__ import annotations

import json

import attrs
import sqlalchemy as sa

from powerctx_core.types import Deadline, EmbeddingProfile
from powerctx_oceanbase import vector_statements as sql
from powerctx_oceanbase.database import LONGEST_READ_S, OceanBaseDatabase
from powerctx_oceanbase.ddl import vector_table
from powerctx_sqlalchemy import PartitionRow, RelationalSnapshot
from powerctx_sqlalchemy.vector_tables import stored_model

__all__ = ["VectorTables", "finish"]

_LEFT = "vectors_left"
"""Name in ``meta`` of the tables that are left: their numbers, and the second in which each was."""


@attrs.frozen
class _Known:
    """The table of *profile* in every moment that has a partition with changes from *first* to *last*."""

    profile: EmbeddingProfile
    number: int
    first: int
    last: int


class VectorTables:
    """Knows which table holds the vectors, in any moment that is read."""

    def __init__(self, database: OceanBaseDatabase) -> None:
        self._database = database
        self._known: _Known | None = None

    def at(self, snapshot: RelationalSnapshot, row: PartitionRow | None, profile: EmbeddingProfile) -> int | None:
        """Return the number of the table in the moment of *snapshot*, which has *row*; ``None`` when there is none.

        A model that is named or forgotten changes every partition, so that the number is the same in all moments
        between two that have it: only what lies outside has to be looked up.
        """
        known = self._known if self._known is not None and self._known.profile is profile else None
        if known is not None and row is not None and known.first <= row.changes <= known.last:
            return known.number
        number = self.same(snapshot.connection, profile)
        if number is not None and row is not None:
            first = last = row.changes
            if known is not None and known.number == number:
                first, last = min(first, known.first), max(last, known.last)
            self._known = _Known(profile, number, first, last)
        return number

    def same(self, connection: sa.Connection, profile: EmbeddingProfile) -> int | None:
        """Return the number of the stored model, or ``None`` when there is none or nothing of it.

        Raises:
            CapabilityError: it is another one.
        """
        return stored_model(connection, profile, sql.count)

    def prepared(self, profile: EmbeddingProfile) -> int | None:
        """Return the number of a table that is made for *profile*, or ``None`` when it has one.

        Making it would end a transaction, so that it is done before.
        """
        with self._database.reading(Deadline()) as connection, self._database.understood("look up the embedding model"):
            if connection is not None and self.same(connection, profile) is not None:
                return None
        with self._database.writing() as connection, self._database.told("store vectors"):
            number = int(connection.exec_driver_sql(sql.PROFILES).scalar_one()) + 1
            connection.exec_driver_sql(sql.SET_META, (str(number), "profiles"))
        with self._database.making("make a table of vectors") as connection:
            connection.exec_driver_sql(vector_table(number, profile.dimensions, self._database.buckets))
        self._tidy()
        return number

    def named(self, connection: sa.Connection, profile: EmbeddingProfile, prepared: int | None) -> int | None:
        """Return the number of the stored model, which becomes *profile*, with the *prepared* table, if there is none.

        ``None`` when no table is prepared: the model was forgotten in the meantime.
        """
        found = self.same(connection, profile)
        if found is not None or prepared is None:
            return found
        connection.exec_driver_sql(sql.FORGET_PROFILE)
        connection.exec_driver_sql(sql.ADD_PROFILE, (prepared, profile.fingerprint, profile.dimensions))
        connection.exec_driver_sql(sql.set_partitions(None), (_next(connection),))
        return prepared

    def clear(self) -> int:
        """Forget the model, and delete its vectors; returns how many there were."""
        deleted = 0
        with self._database.writing() as connection, self._database.told("delete vectors"):
            numbers = connection.exec_driver_sql(sql.NUMBERS).scalars().all()
            for number in numbers:
                deleted += int(connection.exec_driver_sql(sql.count(number)).scalar_one())
            if numbers:
                connection.exec_driver_sql(sql.FORGET_PROFILE)
                now = _now(connection)
                _note(connection, {**_left(connection), **dict.fromkeys(map(int, numbers), now)})
                finish(connection, None)
        self._tidy()
        return deleted

    def _tidy(self) -> None:
        """Delete what the tables that are left hold, and drop those that nobody can read any more."""
        with self._database.connected() as connection, self._database.told("delete vectors"):
            left = _left(connection)
            for number in left:
                # In pieces: the engine keeps what a transaction deletes in memory.
                while connection.exec_driver_sql(sql.delete_any(number)).rowcount:
                    connection.commit()
            now = _now(connection)
            old = [number for number, since in left.items() if now - since > LONGEST_READ_S]
        if old:
            with self._database.making("drop a table of vectors") as connection:
                for number in old:
                    connection.exec_driver_sql(sql.drop(number))
            with self._database.writing() as connection, self._database.told("delete vectors"):
                _note(connection, {number: since for number, since in _left(connection).items() if number not in old})


def finish(connection: sa.Connection, partitions: list[int] | None) -> None:
    """Write the change counters, of some partitions or of all."""
    stamp = _next(connection)
    connection.exec_driver_sql(sql.SET_META, (str(stamp), "changes"))
    connection.exec_driver_sql(sql.set_partitions(partitions), (stamp,))


def _next(connection: sa.Connection) -> int:
    return int(connection.exec_driver_sql(sql.CHANGES).scalar_one()) + 1


def _now(connection: sa.Connection) -> int:
    """Return the second, by the clock of the engine: those of its users may differ."""
    return int(connection.exec_driver_sql("SELECT unix_timestamp()").scalar_one())


def _left(connection: sa.Connection) -> dict[int, int]:
    told = connection.exec_driver_sql(sql.META, (_LEFT,)).scalar()
    return {} if told is None else {int(number): since for number, since in json.loads(told).items()}


def _note(connection: sa.Connection, left: dict[int, int]) -> None:
    connection.exec_driver_sql(sql.PUT_META, (_LEFT, json.dumps(left)))
