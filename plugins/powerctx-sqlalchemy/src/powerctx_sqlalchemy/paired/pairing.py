"""The vectors of a companion: what a vector index does, but for the search itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import sqlalchemy as sa

from powerctx_core.errors import CapabilityError, StoreError
from powerctx_core.ports import Unembedded
from powerctx_core.types import Deadline, EmbeddingProfile, Key
from powerctx_core.vectors import check_profile, check_vector, embedding_text, text_hash, unattached
from powerctx_sqlalchemy.database import Database
from powerctx_sqlalchemy.paired.engine import VectorEngine
from powerctx_sqlalchemy.paired.log import RepairLog
from powerctx_sqlalchemy.paired.readers import Readers
from powerctx_sqlalchemy.paired.reading import PairedReader
from powerctx_sqlalchemy.paired.statements import PairedStatements
from powerctx_sqlalchemy.paired.tables import Paired
from powerctx_sqlalchemy.paired.writes import TwoWrites

__all__ = ["Pairing"]

_TRIES = 5
_HASHES = 500


class Pairing:
    """Vectors of current revisions in an engine, with *database* as its companion; any thread may use it.

    Args:
        database: of the companion, which keeps all but vectors and documents.
        engine: keeps those.
        shared_up_to: a partition with more vectors than this gets a collection of its own.
        grace_s: seconds that other processes may take for a snapshot, or a write; 0 when this is the only process.

    Attributes:
        readers: the open snapshots of this process; whoever opens one surrounds it with ``readers.reading()``.
        reader: what a search asks of a snapshot.
    """

    def __init__(
        self, database: Database, engine: VectorEngine, *, shared_up_to: int = 1000, grace_s: float = 0.0
    ) -> None:
        self._database = database
        self._engine = engine
        self._statements = PairedStatements(database)
        self._profile: EmbeddingProfile | None = None
        self._writes = TwoWrites(database, engine, self._statements, shared_up_to=shared_up_to)
        self.readers = Readers()
        self.reader = PairedReader(database, self._statements)
        self._log = RepairLog(database, engine, self._statements, self.readers, grace_s=grace_s)
        database.watch(self._removed)

    @property
    def profile(self) -> EmbeddingProfile:
        """The attached model.

        Raises:
            CapabilityError: there is none.
        """
        if self._profile is None:
            raise unattached()
        return self._profile

    def attach(self, profile: EmbeddingProfile) -> None:
        """Declare the model.  It is written down with the first vectors; until then this reads only.

        Raises:
            CapabilityError: there are vectors of another model; or the engine cannot be reached, or does not hold what
                the companion says.
        """
        with self._database.reading(Deadline()) as connection, self._database.understood("look up the embedding model"):
            paired = None if connection is None else Paired.read(connection, self._database.name)
            if connection is not None and paired is not None and paired.fingerprint:
                held = int(connection.execute(self._statements.count).scalar_one())
                if held:
                    check_profile(paired.fingerprint, paired.dimensions, held, profile)
                    try:
                        self._compare(connection, paired)
                    except StoreError as error:
                        raise CapabilityError(f"Vectors cannot be used: {error}") from error
        self._profile = profile

    def _compare(self, connection: sa.Connection, paired: Paired) -> None:
        """Refuse an engine that lacks what the companion says is there."""
        for problem in self._differences(connection, paired):
            raise CapabilityError(problem)

    def differences(self) -> list[str]:
        """Return one sentence for each collection that lacks what the companion says is there.

        Raises:
            StoreError: companion or engine cannot be reached.
        """
        with self._database.reading(Deadline()) as connection, self._database.told("count vectors"):
            paired = None if connection is None else Paired.read(connection, self._database.name)
            if connection is None or paired is None:
                return []
            return list(self._differences(connection, paired))

    def _differences(self, connection: sa.Connection, paired: Paired) -> Iterator[str]:
        for number, live in connection.execute(self._statements.count_by_collection).all():
            found = self._engine.count(paired.collection(number))
            if found is None or found < live:
                what = "no collection" if found is None else f"{found} vectors in a collection"
                yield (
                    f"{self._database.name} says that {live} vectors are stored (store {paired.store_id[:8]}, "
                    f"generation {paired.generation}, collection {number}), and the vector engine has {what} of it: "
                    "one of the two was replaced or restored without the other. Restore both from one backup, or run "
                    "`powerctx embed --rebuild` to make all vectors anew."
                )

    def upsert(self, vectors: Mapping[Key, bytes]) -> int:
        """Store vectors of current revisions; see :class:`powerctx_core.ports.VectorIndex`.

        When it returns they are in the engine and count; after an error, or a crash, none of them does.
        """
        profile = self.profile
        for vector in vectors.values():
            check_vector(vector, profile.dimensions)
        if not vectors or not self._ready(vectors):
            return 0
        self._log.strays()
        for _ in range(_TRIES):
            marked = self._writes.mark(vectors, profile)
            if marked is None:
                return 0
            try:
                self._writes.store(marked, vectors)
                taken = self._writes.settle(marked, vectors)
            except StoreError:
                self._writes.abandon(marked)
                raise
            if taken is not None:
                self._log.tidy()
                return taken
            self._writes.abandon(marked)
        raise StoreError(
            f"{self._database.name}: others are deleting or moving the same vectors all the time; try again."
        )

    def _ready(self, vectors: Mapping[Key, bytes]) -> bool:
        """Make the tables, when there is something to store and they are not there yet."""
        with self._database.reading(Deadline()) as connection, self._database.told("look up items"):
            if connection is None:
                return False
            if Paired.read(connection, self._database.name) is not None:
                return True
            if not self._writes.current(connection, list(vectors)):
                return False
        with self._database.writing() as connection, self._database.told("make tables for vectors"):
            Paired.create(connection)
        return True

    def clear(self) -> int:
        """Delete every vector, and return how many there were; the engine follows when no snapshot shows them.

        It does not fail because of an engine that cannot be reached, or has lost them.
        """
        with self._database.reading(Deadline()) as connection, self._database.told("count vectors"):
            paired = None if connection is None else Paired.read(connection, self._database.name)
            if paired is None or not paired.fingerprint:
                return 0
        with self._database.writing() as connection, self._database.told("delete vectors"):
            paired = Paired.read(connection, self._database.name)
            deleted = int(connection.execute(self._statements.count).scalar_one())
            if paired is not None:
                self._writes.forgotten(connection, paired)
                self._writes.touch(connection, None)
        self._log.swept()
        return deleted

    def cached(self, texts: Sequence[str]) -> Mapping[str, bytes]:
        """Return the vectors of those texts that a stored revision was embedded with."""
        hashes = {text_hash(text): text for text in texts}
        wanted = list(hashes)
        places: dict[int, dict[int, str]] = {}
        # What is found is read from the engine before it can be swept.
        with (
            self.readers.reading(),
            self._database.reading(Deadline()) as connection,
            self._database.understood("read vectors"),
        ):
            paired = None if connection is None else Paired.read(connection, self._database.name)
            if connection is None or paired is None or not paired.fingerprint or not hashes:
                return {}
            if (paired.fingerprint, paired.dimensions) != (self.profile.fingerprint, self.profile.dimensions):
                return {}
            for start in range(0, len(wanted), _HASHES):
                piece = wanted[start : start + _HASHES]
                bound = {f"hash{n}": each for n, each in enumerate(piece)}
                for known, number, where in connection.execute(self._statements.known_texts(len(piece)), bound):
                    places.setdefault(where, {})[number] = hashes[bytes(known)]
            found: dict[str, bytes] = {}
            for where, numbers in places.items():
                once = {text: number for number, text in numbers.items() if text not in found}
                read = self._engine.read(paired.collection(where), list(once.values()))
                found |= {text: read[number] for text, number in once.items() if number in read}
        return found

    def unembedded(self, limit: int, after: Key = 0) -> Sequence[Unembedded]:
        """Return up to *limit* current revisions without a vector, in key order, with keys above *after*."""
        with self._database.reading(Deadline()) as connection, self._database.understood("look for missing vectors"):
            if connection is None:
                return []
            known = Paired.read(connection, self._database.name) is not None
            statement = self._statements.unembedded if known else self._statements.bare
            rows = connection.execute(statement, {"after": after, "count": max(0, limit)}).all()
        return [
            Unembedded(key=key, family=family, text=embedding_text(title, head)) for key, family, title, head in rows
        ]

    def count(self) -> int:
        """Return the number of vectors of current revisions."""
        with self._database.reading(Deadline()) as connection, self._database.told("count vectors"):
            if connection is None or Paired.read(connection, self._database.name) is None:
                return 0
            return int(connection.execute(self._statements.count).scalar_one())

    def waiting(self) -> int:
        """Return how many entries wait to be deleted from the engine, or are being written."""
        return self._log.waiting()

    def repair(self) -> None:
        """Put in order what a process left behind that was killed; called at open.

        An engine that cannot be reached is no error: what is to be deleted waits in the log.
        """
        if self._log.repair():
            self._log.swept()

    def tidy(self) -> None:
        """Delete from the engine what is gone, if that is much."""
        self._log.tidy()

    def sweep(self, *, at_once: bool) -> None:
        """Delete from the engine what is gone; see :meth:`RepairLog.sweep`."""
        self._log.sweep(at_once=at_once)

    def _removed(self, connection: sa.Connection, keys: Sequence[Key]) -> None:
        """Doom the vectors of revisions that leave retrieval, in the transaction in which they do."""
        self._writes.doom(connection, keys)
