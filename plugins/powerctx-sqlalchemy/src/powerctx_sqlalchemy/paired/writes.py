"""The two writes: a mark, the entries, and the transaction that makes them count.

Whatever ends the process between two of them leaves pending entries, which nobody reads and the next opening dooms.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import sqlalchemy as sa

from powerctx_core.types import Address, EmbeddingProfile, Key
from powerctx_core.vectors import check_profile, embedding_text, half_precision, text_hash
from powerctx_sqlalchemy.database import Database
from powerctx_sqlalchemy.paired.engine import Entry, VectorEngine
from powerctx_sqlalchemy.paired.statements import PairedStatements
from powerctx_sqlalchemy.paired.tables import SHARED, Mark, Paired, collection, entry
from powerctx_sqlalchemy.writing import chunks

__all__ = ["TwoWrites", "clock", "listed"]


def clock() -> int:
    """Return microseconds since 1970."""
    return time.time_ns() // 1000


def listed(numbers: Sequence[int]) -> str:
    """Return what is bound for numbers."""
    return f"[{','.join(map(str, numbers))}]"


@attrs.frozen
class _Planned:
    """An entry that is going to be written.

    Attributes:
        number: of the entry.
        key: of the revision.
        home: number of the collection.
        moved: the entry with the vector, and its collection, when the partition is moving.
    """

    number: int
    key: Key
    partition: int
    home: int
    address: Address
    document: str
    moved: tuple[int, int] | None = None

    def row(self, state: Mark, now: int) -> dict[str, Any]:
        """Return its row in the companion."""
        return {
            "id": self.number,
            "revision_id": self.key,
            "partition_id": self.partition,
            "collection_id": self.home,
            "state": int(state),
            "since": now,
            "text_hash": text_hash(self.document),
        }


@attrs.frozen
class _Marked:
    """What the mark promises.

    Attributes:
        homes: for each partition the collection that its entries are in when these count.
        promoted: those partitions whose collection is new.
    """

    paired: Paired
    planned: Sequence[_Planned]
    homes: Mapping[int, int]
    promoted: frozenset[int]

    @property
    def numbers(self) -> list[int]:
        return [each.number for each in self.planned]


class TwoWrites:
    """Writes vectors to engine and companion.

    Args:
        shared_up_to: a partition with more vectors than this gets a collection of its own.
    """

    def __init__(
        self, database: Database, engine: VectorEngine, statements: PairedStatements, *, shared_up_to: int
    ) -> None:
        self._database = database
        self._engine = engine
        self._statements = statements
        self._shared_up_to = shared_up_to

    def mark(self, vectors: Mapping[Key, bytes], profile: EmbeddingProfile) -> _Marked | None:
        """Write down which entries are going to be in the engine, or return ``None`` when no key is current.

        Raises:
            CapabilityError: there are vectors of another model.
        """
        with self._database.writing() as connection, self._database.told("mark vectors"):
            rows = self.current(connection, list(vectors))
            if not rows:
                return None
            paired = self._claimed(connection, profile)
            homes, promoted, last = self._homes(connection, rows, paired)
            moving = {
                key: (number, where)
                for partition in sorted(promoted)
                for number, key, where in connection.execute(self._statements.residents, {"which": partition})
                if key not in vectors
            }
            rows += self.current(connection, list(moving))
            planned = [
                _Planned(
                    number,
                    key,
                    partition,
                    homes[partition],
                    Address(scope_id, family, artifact_id, revision),
                    embedding_text(title, head),
                    moving.get(key),
                )
                for number, (key, partition, scope_id, family, artifact_id, revision, title, head) in enumerate(
                    rows, last + 1
                )
            ]
            attrs.evolve(paired, last=last + len(planned)).write(connection)
            now = clock()
            connection.execute(sa.insert(entry), [each.row(Mark.PENDING, now) for each in planned])
            return _Marked(paired, planned, homes, frozenset(promoted))

    def current(self, connection: sa.Connection, keys: Sequence[Key]) -> list[Any]:
        """Return what is embedded of those of *keys* that are current."""
        return [
            row
            for piece in chunks(keys)
            for row in connection.execute(self._statements.current, {"ids": self._database.keys(piece)})
        ]

    def _claimed(self, connection: sa.Connection, profile: EmbeddingProfile) -> Paired:
        """Return the row of ``meta``, which names *profile* from now on, unless there are vectors of another model."""
        paired = Paired.read(connection, self._database.name)
        assert paired is not None  # noqa: S101 - the tables were made before
        model = (profile.fingerprint, profile.dimensions)
        if (paired.fingerprint, paired.dimensions) == model:
            return paired
        if paired.fingerprint:
            held = int(connection.execute(self._statements.count).scalar_one())
            if held:
                check_profile(paired.fingerprint, paired.dimensions, held, profile)
            paired = self.forgotten(connection, paired)
        return attrs.evolve(paired, fingerprint=model[0], dimensions=model[1])

    def forgotten(self, connection: sa.Connection, paired: Paired) -> Paired:
        """Delete every entry of the companion, doom all collections, and return the next generation, without model."""
        connection.execute(self._statements.forget)
        connection.execute(self._statements.doom_collections, {"now": clock()})
        paired = attrs.evolve(paired, generation=paired.generation + 1, fingerprint="", dimensions=0)
        paired.write(connection)
        return paired

    def _homes(
        self, connection: sa.Connection, rows: Sequence[Any], paired: Paired
    ) -> tuple[dict[int, int], set[int], int]:
        """Return the collection of each partition of *rows*, those that move into a new one, and the last number."""
        last = paired.last
        known = {
            partition: (number, state) for number, partition, state in connection.execute(self._statements.collections)
        }
        more: dict[int, int] = defaultdict(int)
        for row in rows:
            more[row[1]] += 1
        homes = {p: known[p][0] for p in more if p in known and known[p][1] == Mark.LIVE}
        small = [p for p in more if p not in homes]
        sizes: dict[int, int] = {}
        for piece in chunks(small):
            sizes.update(map(tuple, connection.execute(self._statements.sizes, {"keys": listed(piece)})))
        promoted = {p for p in small if sizes.get(p, 0) + more[p] > self._shared_up_to}
        for partition in (*sorted(promoted), SHARED):
            if partition not in known:
                last += 1
                known[partition] = (last, Mark.LIVE if partition == SHARED else Mark.PENDING)
                connection.execute(sa.insert(collection), _collection_row(last, partition, known[partition][1], paired))
        homes |= {p: known[p if p in promoted else SHARED][0] for p in small}
        return homes, promoted, last

    def store(self, marked: _Marked, vectors: Mapping[Key, bytes]) -> None:
        """Write the entries into the engine; nobody reads them yet."""
        sources: dict[int, list[int]] = defaultdict(list)
        for each in marked.planned:
            if each.moved is not None:
                sources[each.moved[1]].append(each.moved[0])
        moved: dict[int, bytes] = {}
        for number, wanted in sources.items():
            moved.update(self._engine.read(marked.paired.collection(number), wanted))
        targets: dict[int, list[Entry]] = defaultdict(list)
        for each in marked.planned:
            vector = half_precision(vectors[each.key]) if each.moved is None else moved.get(each.moved[0])
            if vector is not None:  # else the engine has lost it
                targets[each.home].append(
                    Entry(number=each.number, address=each.address, document=each.document, vector=vector)
                )
        for number, entries in targets.items():
            self._engine.write(marked.paired.collection(number), entries)

    def settle(self, marked: _Marked, vectors: Mapping[Key, bytes]) -> int | None:
        """Make the entries count in place of earlier ones, and return how many of *vectors* do.

        ``None`` when the mark does not hold any more: all vectors were deleted, or a partition was moved meanwhile.
        """
        numbers = marked.numbers
        with self._database.writing() as connection, self._database.told("store vectors"):
            if not self._holds(connection, marked):
                return None
            now = clock()
            for partition in marked.promoted:
                connection.execute(self._statements.adopt, {"which": marked.homes[partition]})
            for piece in chunks([each.key for each in marked.planned]):
                connection.execute(self._statements.supersede, {"keys": listed(piece), "now": now})
            taken = 0
            for piece in chunks(numbers):
                connection.execute(self._statements.promote, {"keys": listed(piece)})
                connection.execute(self._statements.abandon, {"keys": listed(piece), "now": now})
            for piece in chunks([each.number for each in marked.planned if each.key in vectors]):
                taken += int(connection.execute(self._statements.kept, {"keys": listed(piece)}).scalar_one())
            if taken:
                self.touch(connection, sorted(marked.homes))
            return taken

    def _holds(self, connection: sa.Connection, marked: _Marked) -> bool:
        paired = Paired.read(connection, self._database.name)
        if paired is None or paired.generation != marked.paired.generation:
            return False
        pending = 0
        for piece in chunks(marked.numbers):
            pending += int(connection.execute(self._statements.marked, {"keys": listed(piece)}).scalar_one())
        if pending != len(marked.planned):
            return False
        known = {
            partition: (number, state) for number, partition, state in connection.execute(self._statements.collections)
        }
        for partition, home in marked.homes.items():
            own = known.get(partition)
            if partition in marked.promoted:
                if own != (home, Mark.PENDING) or self._left_behind(connection, marked, partition):
                    return False
            elif home != (own[0] if own is not None and own[1] == Mark.LIVE else known[SHARED][0]):
                return False
        return True

    def _left_behind(self, connection: sa.Connection, marked: _Marked, partition: int) -> bool:
        """Whether the partition has got vectors in the shared collection since it was marked as moving."""
        moving = {each.key for each in marked.planned if each.partition == partition}
        found = connection.execute(self._statements.residents, {"which": partition}).all()
        return any(key not in moving for _, key, _ in found)

    def abandon(self, marked: _Marked) -> None:
        """Doom what was marked, also where the mark is gone: the engine may have it by now."""
        with self._database.writing() as connection, self._database.told("give up vectors"):
            now = clock()
            present: set[int] = set()
            for piece in chunks(marked.numbers):
                connection.execute(self._statements.abandon, {"keys": listed(piece), "now": now})
                present.update(connection.execute(self._statements.present, {"keys": listed(piece)}).scalars())
            lost = [each for each in marked.planned if each.number not in present]
            if not lost:
                return
            known = set(connection.execute(sa.select(collection.c.id)).scalars())
            # Writing an entry has made its collection anew.
            for number in {each.home for each in lost} - known:
                connection.execute(sa.insert(collection), _collection_row(number, SHARED, Mark.DOOMED, marked.paired))
            connection.execute(
                sa.insert(entry),
                [each.row(Mark.DOOMED, now) for each in lost],
            )

    def doom(self, connection: sa.Connection, keys: Sequence[Key]) -> None:
        """Doom the entries of revisions that leave retrieval, in the transaction in which they do."""
        if keys and Paired.read(connection, self._database.name) is not None:
            connection.execute(self._statements.supersede, {"keys": listed(keys), "now": clock()})

    def touch(self, connection: sa.Connection, partitions: Sequence[int] | None) -> None:
        """Move the change counters: of some partitions, or of all."""
        stamp = int(connection.execute(self._statements.changes).scalar_one()) + 1
        connection.execute(self._statements.set_changes, {"stamp": str(stamp)})
        if partitions is None:
            connection.execute(self._statements.touch_all, {"stamp": stamp})
            return
        for piece in chunks(partitions):
            connection.execute(self._statements.touch, {"stamp": stamp, "keys": listed(piece)})


def _collection_row(number: int, partition: int, state: Mark, paired: Paired) -> dict[str, Any]:
    return {
        "id": number,
        "partition_id": partition,
        "state": int(state),
        "since": clock(),
        "generation": paired.generation,
    }
