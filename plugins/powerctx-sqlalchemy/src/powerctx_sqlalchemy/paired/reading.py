"""What a snapshot knows of vectors: which entries are live, and where."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import attrs

from powerctx_core.types import EmbeddingProfile, Filters, Key
from powerctx_core.vectors import check_profile
from powerctx_sqlalchemy.database import Database, PartitionRow
from powerctx_sqlalchemy.paired.statements import PairedStatements
from powerctx_sqlalchemy.paired.tables import Paired
from powerctx_sqlalchemy.paired.writes import listed
from powerctx_sqlalchemy.snapshot import RelationalSnapshot

__all__ = ["Located", "Moment", "PairedReader"]

_REMEMBERED = 1000
"""Partitions whose moments are kept."""


class Located(NamedTuple):
    """The live entry of a key."""

    key: Key
    number: int
    collection: int


@attrs.frozen
class Moment:
    """What holds of a partition in a snapshot.

    Attributes:
        paired: the model, and the generation.
        own: number of the collection that a large partition has for itself.
        idle: how many entries of it are not live, about: those that wait to be deleted, and those being written.
    """

    paired: Paired
    own: int | None
    idle: int


class PairedReader:
    """Reads in snapshots of the companion; never writes.  Any thread may use it."""

    def __init__(self, database: Database, statements: PairedStatements) -> None:
        self._database = database
        self._statements = statements
        self._lock = threading.Lock()
        self._moments: dict[int, tuple[int, EmbeddingProfile, Moment | None]] = {}

    def moment(self, snapshot: RelationalSnapshot, row: PartitionRow, profile: EmbeddingProfile) -> Moment | None:
        """Return what holds of a partition, or ``None`` when there are no vectors.

        Whatever changes it moves the partition's counter, so that it is read once for each of its states.

        Raises:
            CapabilityError: the vectors are of another model.
        """
        with self._lock:
            known = self._moments.get(row.id)
        if known is not None and known[0] == row.changes and known[1] is profile:
            return known[2]
        found = self._read(snapshot, row.id, profile)
        with self._lock:
            self._moments[row.id] = (row.changes, profile, found)
            while len(self._moments) > _REMEMBERED:
                del self._moments[next(iter(self._moments))]
        return found

    def model(self, snapshot: RelationalSnapshot, profile: EmbeddingProfile) -> Moment | None:
        """Return what holds whatever the partition is, or ``None`` when there are no vectors.

        Raises:
            CapabilityError: the vectors are of another model.
        """
        connection = snapshot.connection
        paired = Paired.read(connection, self._database.name)
        if paired is None or not paired.fingerprint:
            return None
        if (paired.fingerprint, paired.dimensions) != (profile.fingerprint, profile.dimensions):
            held = int(connection.execute(self._statements.count).scalar_one())
            if held:
                check_profile(paired.fingerprint, paired.dimensions, held, profile)
            return None
        return Moment(paired, None, 0)

    def _read(self, snapshot: RelationalSnapshot, partition: int, profile: EmbeddingProfile) -> Moment | None:
        moment = self.model(snapshot, profile)
        if moment is None:
            return None
        own = snapshot.connection.execute(self._statements.own, {"which": partition}).first()
        return moment if own is None else Moment(moment.paired, int(own[0]), int(own[1]))

    def members(self, snapshot: RelationalSnapshot, row: PartitionRow, filters: Filters) -> list[Located]:
        """Return the live entries of a partition that pass *filters*, in no order."""
        statement, bound = self._statements.members(filters)
        found = self._database.fetched(snapshot.connection, statement, {**bound, "which": row.id})
        return [Located(*each) for each in found]

    def confirmed(self, snapshot: RelationalSnapshot, numbers: Sequence[int], filters: Filters) -> dict[int, Key]:
        """Return the keys of those entries that are live and pass *filters*, by number."""
        statement, bound = self._statements.confirmed(filters)
        values = {**bound, "ids": self._database.keys(numbers)}
        return dict(map(tuple, self._database.fetched(snapshot.connection, statement, values)))

    def of_keys(self, snapshot: RelationalSnapshot, keys: Sequence[Key]) -> Mapping[Key, Located]:
        """Return the live entries of *keys*."""
        values = {"keys": listed(keys)}
        found = self._database.fetched(snapshot.connection, self._statements.of_keys, values)
        return {each[0]: Located(*each) for each in found}
