"""Snapshots and threads: readers see one moment, writers lose nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import attrs
import pytest

from powerctx_core.errors import StoreError
from powerctx_core.ports import FetchRequest, ListingRequest, NeighbourRequest, Snapshot
from powerctx_core.testing.contracts.store import StoreContract
from powerctx_core.testing.database import Database
from powerctx_core.testing.threads import at_once, meeting
from powerctx_core.types import Address, Deadline, LexicalStatistics, Partition, RawCandidate, Revision

__all__ = ["SnapshotContract", "View", "view"]

PARTITION = Partition("s", "memory")
LONG = " ".join(f"word{number}" for number in range(40))


@attrs.frozen
class View:
    """All that a snapshot shows of a few artifacts, with ids in place of keys."""

    members: Mapping[str, tuple[Mapping[str, int], int]]
    statistics: LexicalStatistics
    listing: Sequence[RawCandidate]
    addresses: frozenset[Address]
    histories: Sequence[Sequence[Revision]]
    partitions: Mapping[Partition, int]
    changes: int


def view(snapshot: Snapshot) -> View:
    """Read everything that a snapshot shows."""
    lexical = snapshot.lexical([Database.request("apple pear", k=10_000)])[0]
    details = snapshot.fetch(FetchRequest(keys=tuple([hit.key for hit in lexical.hits])))
    return View(
        {hit.artifact_id: (dict(hit.matched), hit.length) for hit in lexical.hits},
        lexical.statistics,
        snapshot.listing(ListingRequest(partition=PARTITION, limit=10_000)),
        frozenset(candidate.address for candidate in details.values()),
        [snapshot.history("s", "memory", str(number)) for number in range(4)],
        dict(snapshot.partitions()),
        snapshot.changes(),
    )


def read_all(snapshot: Snapshot) -> list[Any]:
    """Return what every method of a snapshot returns for artifact ``a``."""
    results = snapshot.lexical([Database.request("apple pear")])
    keys = tuple([hit.key for hit in results[0].hits])
    hits = {hit.key: hit for hit in results[0].hits}
    return [
        results,
        snapshot.fetch(FetchRequest(keys=keys, terms=("appl",))),
        snapshot.fetch(FetchRequest(keys=keys, hits=hits)),
        snapshot.neighbours(NeighbourRequest(partition=PARTITION, keys=keys)),
        snapshot.get(Address("s", "memory", "a", 1)),
        snapshot.latest("s", "memory", "a"),
        snapshot.history("s", "memory", "a"),
        snapshot.listing(ListingRequest(partition=PARTITION)),
        snapshot.partitions(),
    ]


def scribble(value: Any) -> None:
    """Change whatever can be changed in a value, from inside out."""
    if isinstance(value, Mapping):
        for inner in list(value.values()):
            scribble(inner)
        with suppress(TypeError, AttributeError):
            value.clear()  # type: ignore[attr-defined]  # that a mapping has it is what is tried out
        with suppress(TypeError):
            value["scribbled"] = 1  # type: ignore[index]  # as above
    elif isinstance(value, list | tuple):
        for inner in value:
            scribble(inner)
        if isinstance(value, list):
            value.append("scribbled")
    elif attrs.has(type(value)):
        for field in attrs.fields(type(value)):
            scribble(getattr(value, field.name))


@attrs.define
class Reader:
    """Reads again and again while somebody writes, and notes what cannot be.

    Attributes:
        sizes: how many items there may be at any moment.
    """

    db: Database
    sizes: frozenset[int]
    problems: list[object] = attrs.field(factory=list)

    def read_until(self, done: threading.Event) -> None:
        """Read until *done*, at least five times."""
        seen, last = 0, -1
        while seen < 5 or not done.is_set():
            last = self._read(last)
            seen += 1

    def _read(self, last: int) -> int:
        request = self.db.request("apple")
        with self.db.snapshot() as snapshot:
            result = snapshot.lexical([request])[0]
            listing = snapshot.listing(ListingRequest(partition=PARTITION))
            fetched = snapshot.fetch(FetchRequest(keys=tuple([hit.key for hit in result.hits])))
            again = snapshot.lexical([request])[0]
            changes = snapshot.changes()
            counted = snapshot.partitions().get(PARTITION, 0)
        numbers = {
            "found": len(result.hits),
            "found again": len(again.hits),
            "in the statistics": result.statistics.items,
            "listed": len(listing),
            "fetched": len(fetched),
            "of the partition": counted,
        }
        texts = {candidate.head for candidate in listing}
        alike = len(set(numbers.values())) == 1 and set(numbers.values()) <= self.sizes
        if not alike or len(texts) > 1 or again != result or changes < last:
            self.problems.append({**numbers, "texts": texts, "changes before": last, "changes": changes})
        return changes


class SnapshotContract(StoreContract):
    """Snapshots and threads: every reader sees one moment, and no writer loses anything."""

    def test_snapshot_stays(self, db: Database) -> None:
        """What a snapshot has begun to show it shows until its end, whatever is written meanwhile by anybody."""
        db.put(*(db.item(str(number), "apple", thread="h", position=number) for number in range(3)))
        writes: list[Callable[[], object]] = [
            lambda: db.add("0", "pear"),
            lambda: db.retire("1"),
            lambda: db.purge("2"),
            lambda: db.add("3", "apple pear"),
            lambda: db.add("x", scope_id="other"),
        ]
        with db.snapshot() as snapshot, ThreadPoolExecutor(1) as other:
            before = view(snapshot)
            for number, write in enumerate(writes):
                write() if number % 2 else other.submit(write).result()
                assert view(snapshot) == before
            assert snapshot.get(Address("s", "memory", "0", 2)) is None
            purged = snapshot.latest("s", "memory", "2")

        assert purged is not None
        assert purged.item.text == "apple"
        with db.snapshot() as snapshot:
            assert view(snapshot).members.keys() == {"0", "3"}

    def test_snapshots_beside_each_other(self, db: Database) -> None:
        """Snapshots of different moments can be open at once; each shows its own."""
        views = []
        with db.snapshot() as first:
            views.append(view(first))
            db.add("0", "apple")
            with db.snapshot() as second:
                views.append(view(second))
                db.add("0", "pear")
                with db.snapshot() as third:
                    views.append(view(third))
                assert view(second) == views[1]
            assert view(first) == views[0]

        assert [[revision.state for revision in seen.histories[0]] for seen in views] == [
            [],
            ["current"],
            ["superseded", "current"],
        ]

    def test_own_writes(self, db: Database) -> None:
        """Who has written something sees it in the next snapshot."""
        for number in range(50):
            db.add("a", f"apple {number}")
            assert db.current().text == f"apple {number}"
            assert len(db.hits(str(number))) == 1

    def test_no_torn_reads(self, db: Database) -> None:
        """While batches are written, every reader sees whole batches, agrees with itself, and never goes back."""
        size, rounds = 20, 30
        done = threading.Event()
        readers = [Reader(db, frozenset({0, size // 2, size})) for _ in range(2)]

        def write() -> None:
            try:
                for number in range(rounds):
                    db.put(*(db.item(f"{n}", f"apple round{number}", updated_at=db.at(number)) for n in range(size)))
                    if number % 3 == 2:
                        db.retire(*(str(n) for n in range(size // 2)))
            finally:
                done.set()

        at_once(write, *(lambda reader=reader: reader.read_until(done) for reader in readers))

        assert [problem for reader in readers for problem in reader.problems] == []
        assert [len(db.history(str(n))) for n in (0, size - 1)] == [rounds, rounds]

    def test_search_during_writes_is_never_empty(self, db: Database) -> None:
        """A search that has an answer has one at every moment of a write that replaces all that it finds."""
        done = threading.Event()
        empty = []

        def write() -> None:
            try:
                for number in range(20):
                    db.put(*(db.item(f"{n}", f"apple {number}") for n in range(30)))
            finally:
                done.set()

        def search() -> None:
            searches = 0
            while searches < 5 or not done.is_set():
                searches += 1
                if not db.found("apple"):
                    empty.append(searches)

        db.put(*(db.item(f"{n}", "apple") for n in range(30)))
        at_once(write, search, search)

        assert empty == []

    @pytest.mark.usefixtures("restless")
    def test_writers_lose_nothing(self, db: Database) -> None:
        """Threads that write to one artifact and to their own make every revision, each once."""
        threads, each = 4, 40

        def write(thread: int) -> None:
            for number in range(each):
                db.put(db.item("shared", f"{thread} {number}"), db.item(f"own-{thread}", f"{number}"))

        at_once(*(partial(write, thread) for thread in range(threads)))
        shared = db.history("shared")

        assert [number for number, _, _ in shared] == list(range(1, threads * each + 1))
        assert {text for _, _, text in shared} == {
            f"{thread} {number}" for thread in range(threads) for number in range(each)
        }
        assert [state for _, state, _ in shared] == ["superseded"] * (threads * each - 1) + ["current"]
        for thread in range(threads):
            assert [text for _, _, text in db.history(f"own-{thread}")] == [str(number) for number in range(each)]

    @pytest.mark.usefixtures("restless")
    def test_same_item_at_once(self, db: Database) -> None:
        """Of threads that put the same item at the same moment one creates it."""
        barrier = threading.Barrier(4)

        def write() -> str:
            barrier.wait()
            return db.add("a", "apple")

        assert sorted(at_once(*[write] * 4)) == ["created", "unchanged", "unchanged", "unchanged"]
        assert len(db.history()) == 1

    def test_reader_error_hurts_nobody(self, db: Database) -> None:
        """An error inside a snapshot's block closes it; reads and writes go on."""
        db.add("a", "apple")

        def fail() -> float:
            with db.snapshot() as snapshot:
                return 1 / (len(snapshot.partitions()) - 1)

        with pytest.raises(ZeroDivisionError):
            fail()

        assert db.add("a", "pear") == "updated"
        assert db.found("pear") == {"a"}

    def test_many_snapshots(self, db: Database) -> None:
        """Snapshots are given back: hundreds in a row, and dozens at once, work."""
        db.add("a", "apple")
        for _ in range(300):
            assert db.found("apple") == {"a"}
        barrier = threading.Barrier(24)

        def read() -> int:
            with meeting(barrier), db.snapshot() as snapshot:
                barrier.wait(30)
                return len(snapshot.lexical([db.request("apple")])[0].hits)

        assert at_once(*[read] * 24) == [1] * 24

    def test_far_deadline(self, db: Database) -> None:
        """A deadline that is far away changes nothing, nor does one that was reached after the last read."""
        db.add("a", "apple")
        with db.catalogue.snapshot(Deadline.after(60)) as snapshot:
            assert len(snapshot.lexical([db.request("apple")])[0].hits) == 1
        near = Deadline.after(0.5)  # long enough for one read on a busy machine
        with db.catalogue.snapshot(near) as snapshot:
            snapshot.partitions()
            time.sleep(near.remaining() or 0.0)

        assert db.found("apple") == {"a"}
        assert db.add("a", "pear") == "updated"

    def test_passed_deadline(self, db: Database) -> None:
        """What takes long in a snapshot whose time is over ends in a StoreError, and is nothing to the next reader."""
        db.put(*(db.item(str(number), LONG) for number in range(200)))
        with pytest.raises(StoreError), db.catalogue.snapshot(Deadline.after(0.0)) as snapshot:
            snapshot.lexical([db.request(LONG)] * 200)

        with db.snapshot() as snapshot:
            assert len(snapshot.lexical([db.request(LONG)] * 2)[1].hits) == 200
        assert db.add("0", "pear") == "updated"

    def test_readers_cannot_change(self, db: Database) -> None:
        """Whatever a reader does to what it was given changes no later answer."""
        db.add("a", "apple pear", tags=("x",), thread="h", position=1, meta={"list": [1], "inner": {"k": [2]}})
        db.add("b", "apple", thread="h", position=2)
        with db.snapshot() as snapshot:
            before = repr(read_all(snapshot))
            scribble(read_all(snapshot))
            assert repr(read_all(snapshot)) == before
        with db.snapshot() as snapshot:
            assert repr(read_all(snapshot)) == before
