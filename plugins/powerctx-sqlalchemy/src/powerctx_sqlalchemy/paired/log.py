"""The repair log: entries and collections that the engine still has to delete."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict

import sqlalchemy as sa

from powerctx_core.errors import StoreError
from powerctx_core.types import Deadline
from powerctx_sqlalchemy.database import Database
from powerctx_sqlalchemy.paired.engine import Collection, VectorEngine
from powerctx_sqlalchemy.paired.readers import Readers
from powerctx_sqlalchemy.paired.statements import PairedStatements
from powerctx_sqlalchemy.paired.tables import Paired
from powerctx_sqlalchemy.paired.writes import clock, listed

__all__ = ["RepairLog"]

_LOGGER = logging.getLogger(__name__)
_BATCH = 2_000
_MANY = 256
"""Doomed entries that are worth a call of the engine, which commits for each."""
_SECOND = 1_000_000


class RepairLog:
    """Deletes from the engine what the companion has doomed, as soon as no snapshot can ask for it.

    Args:
        readers: the open snapshots of this process.
        grace_s: seconds that snapshots of other processes may take; 0 when there are none.
    """

    def __init__(
        self,
        database: Database,
        engine: VectorEngine,
        statements: PairedStatements,
        readers: Readers,
        *,
        grace_s: float,
    ) -> None:
        self._database = database
        self._engine = engine
        self._statements = statements
        self._readers = readers
        self._grace = int(grace_s * _SECOND)
        self._lock = threading.Lock()
        self._seen: dict[int, int] = {}
        self._strays_doomed = False

    def waiting(self) -> int:
        """Return how many entries are pending or doomed."""
        with self._database.reading(Deadline()) as connection, self._database.told("read the repair log"):
            if connection is None or Paired.read(connection, self._database.name) is None:
                return 0
            return int(connection.execute(self._statements.any_open).scalar_one())

    def repair(self) -> bool:
        """Doom what a process left behind that ended while it was writing, and return whether anything is doomed.

        It writes only if there is something to repair, and does not need the engine.
        """
        with self._database.reading(Deadline()) as connection, self._database.told("read the repair log"):
            if connection is None or Paired.read(connection, self._database.name) is None:
                return False
            if not connection.execute(self._statements.any_open).scalar_one():
                return connection.execute(self._statements.doomed_collections, {"before": clock()}).first() is not None
        with self._database.writing() as connection, self._database.told("repair the vectors"):
            now = clock()
            connection.execute(self._statements.doom_pending, {"now": now, "before": now - self._grace})
        return True

    def strays(self) -> None:
        """Doom live entries of revisions that left retrieval while only the companion was open; once in a process.

        Nobody reads them: this but has the engine delete them.
        """
        if self._strays_doomed:
            return
        with self._database.reading(Deadline()) as connection, self._database.told("look for vectors that are gone"):
            found = connection is not None and connection.execute(self._statements.any_stray).scalar_one()
        if found:
            with self._database.writing() as connection, self._database.told("look for vectors that are gone"):
                connection.execute(self._statements.doom_stray, {"now": clock()})
        self._strays_doomed = True

    def tidy(self) -> None:
        """Sweep if much has gathered."""
        if self.waiting() >= _MANY:
            self.swept()

    def swept(self) -> None:
        """Sweep; that the engine cannot do it now is told to the program's log, and what is doomed waits."""
        try:
            self.sweep(at_once=False)
        except StoreError as error:
            _LOGGER.warning("what is gone stays in the vector engine for now: %s", error)

    def sweep(self, *, at_once: bool) -> None:
        """Delete from the engine what is doomed and no open snapshot of this process shows.

        Args:
            at_once: without grace for the snapshots of other processes, which then miss it.

        Raises:
            StoreError: companion or engine cannot be reached; all stays doomed.
        """
        before = clock() if at_once else clock() - self._grace
        with self._lock:
            while self._sweep_entries(before):
                pass
            self._sweep_collections(before)

    def _sweep_entries(self, before: int) -> bool:
        """Delete a batch of entries, and return whether there were any."""
        with self._database.reading(Deadline()) as connection, self._database.told("read the repair log"):
            paired = None if connection is None else Paired.read(connection, self._database.name)
            if connection is None or paired is None:
                return False
            rows = connection.execute(self._statements.doomed, {"before": before, "count": _BATCH}).all()
        free = set(self._unseen([number for number, *_ in rows]))
        groups: dict[Collection, list[int]] = defaultdict(list)
        for number, where, generation in rows:
            if number in free:
                groups[paired.collection(where, generation)].append(number)
        for where, numbers in groups.items():
            self._engine.delete(where, numbers)
        removed = sorted(free)
        self._strike(self._statements.strike, removed)
        return bool(removed)

    def _sweep_collections(self, before: int) -> None:
        with self._database.reading(Deadline()) as connection, self._database.told("read the repair log"):
            paired = None if connection is None else Paired.read(connection, self._database.name)
            if connection is None or paired is None:
                return
            rows = connection.execute(self._statements.doomed_collections, {"before": before}).all()
        free = set(self._unseen([number for number, *_ in rows]))
        for number, generation in rows:
            if number in free:
                self._engine.drop(paired.collection(number, generation))
        self._strike(self._statements.strike_collections, sorted(free))

    def _unseen(self, numbers: list[int]) -> list[int]:
        """Return those that no open snapshot shows: the others began before these were found to be doomed."""
        tick, oldest = self._readers.tick(), self._readers.oldest()
        return [number for number in numbers if self._seen.setdefault(number, tick) <= oldest]

    def _strike(self, statement: sa.Delete, numbers: list[int]) -> None:
        if not numbers:
            return
        with self._database.writing() as connection, self._database.told("shorten the repair log"):
            connection.execute(statement, {"keys": listed(numbers)})
        for number in numbers:
            self._seen.pop(number, None)
