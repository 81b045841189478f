"""Snapshots, threads and processes: readers see one moment, writers lose nothing, on every backend."""

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from powerctx_core.ports import Capability, FetchRequest, ListingRequest
from powerctx_core.types import Address, Deadline, Partition

pytestmark = pytest.mark.matrix

PARTITION = Partition("s", "memory")


@pytest.fixture
def restless():
    """Let threads take turns a thousand times as often, so that a missing lock shows."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(interval)


def view(snapshot, db):
    """Read everything that a snapshot shows."""
    lexical = snapshot.lexical([db.request("apple pear", k=10_000)])[0]
    listing = snapshot.listing(ListingRequest(partition=PARTITION, limit=10_000))
    details = snapshot.fetch(FetchRequest(keys=tuple([hit.key for hit in lexical.hits])))
    histories = [snapshot.history("s", "memory", str(number)) for number in range(4)]
    return (
        {hit.artifact_id: (dict(hit.matched), hit.length) for hit in lexical.hits},
        lexical.statistics,
        listing,
        {candidate.address for candidate in details.values()},
        histories,
        snapshot.partitions(),
        snapshot.changes(),
    )


def test_snapshot_stays(db):
    """What a snapshot has begun to show it shows until its end, whatever is written meanwhile by anybody."""
    db.put(*(db.item(str(number), "apple", thread="h", position=number) for number in range(3)))
    writes = [
        lambda: db.add("0", "pear"),
        lambda: db.retire("1"),
        lambda: db.purge("2"),
        lambda: db.add("3", "apple pear"),
        lambda: db.add("x", scope_id="other"),
    ]
    with db.snapshot() as snapshot, ThreadPoolExecutor(1) as other:
        before = view(snapshot, db)
        for number, write in enumerate(writes):
            write() if number % 2 else other.submit(write).result()
            assert view(snapshot, db) == before
        assert snapshot.get(Address("s", "memory", "0", 2)) is None
        assert snapshot.latest("s", "memory", "2").item.text == "apple"

    with db.snapshot() as snapshot:
        assert view(snapshot, db)[0].keys() == {"0", "3"}


def test_snapshots_beside_each_other(db):
    """Snapshots of different moments can be open at once; each shows its own."""
    views = []
    with db.snapshot() as first:
        views.append(view(first, db))
        db.add("0", "apple")
        with db.snapshot() as second:
            views.append(view(second, db))
            db.add("0", "pear")
            with db.snapshot() as third:
                views.append(view(third, db))
            assert view(second, db) == views[1]
        assert view(first, db) == views[0]

    assert [[revision.state for revision in seen[4][0]] for seen in views] == [
        [],
        ["current"],
        ["superseded", "current"],
    ]


def test_own_writes(db):
    """Who has written something sees it in the next snapshot."""
    for number in range(50):
        db.add("a", f"apple {number}")
        assert db.latest().text == f"apple {number}"
        assert len(db.hits(str(number))) == 1


def test_no_torn_reads(db):
    """While batches are written, every reader sees whole batches and agrees with itself."""
    size, rounds = 20, 30
    done = threading.Event()
    problems = []

    def write():
        for number in range(rounds):
            db.put(*(db.item(f"{n}", f"apple round{number}", updated_at=db.at(number)) for n in range(size)))
            if number % 3 == 2:
                db.retire(*(str(n) for n in range(size // 2)))
        done.set()

    def read():
        seen, last = 0, -1
        while seen < 5 or not done.is_set():
            with db.snapshot() as snapshot:
                result = snapshot.lexical([db.request("apple")])[0]
                listing = snapshot.listing(ListingRequest(partition=PARTITION))
                fetched = snapshot.fetch(FetchRequest(keys=tuple([hit.key for hit in result.hits])))
                again = snapshot.lexical([db.request("apple")])[0]
                changes = snapshot.changes()
                counted = snapshot.partitions().get(PARTITION, 0)
            seen += 1
            numbers = {len(result.hits), result.statistics.items, len(listing), len(fetched), counted}
            texts = {candidate.head for candidate in listing}
            if (
                len(numbers) != 1
                or numbers - {0, size // 2, size}
                or len(texts) > 1
                or again != result
                or changes < last
            ):
                problems.append((numbers, texts, last, changes))
            last = changes

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        writer = pool.submit(write)
        for future in [writer, *readers]:
            try:
                future.result()
            finally:
                done.set()

    assert problems == []
    assert [len(db.history(str(n))) for n in (0, size - 1)] == [rounds, rounds]


def test_writers_lose_nothing(db, restless):
    """Threads that write to one artifact and to their own make every revision, each once."""
    threads, each = 4, 40

    def write(thread):
        for number in range(each):
            db.put(db.item("shared", f"{thread} {number}"), db.item(f"own-{thread}", f"{number}"))

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(write, range(threads)))
    shared = db.history("shared")

    assert [number for number, _, _ in shared] == list(range(1, threads * each + 1))
    assert {text for _, _, text in shared} == {
        f"{thread} {number}" for thread in range(threads) for number in range(each)
    }
    assert [state for _, state, _ in shared] == ["superseded"] * (threads * each - 1) + ["current"]
    for thread in range(threads):
        assert [text for _, _, text in db.history(f"own-{thread}")] == [str(number) for number in range(each)]


def test_same_item_at_once(db, restless):
    """Of threads that put the same item at the same moment one creates it."""
    barrier = threading.Barrier(4)

    def write(_):
        barrier.wait()
        return db.add("a", "apple")

    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(write, range(4)))

    assert sorted(outcomes) == ["created", "unchanged", "unchanged", "unchanged"]
    assert len(db.history()) == 1


def test_reader_error_hurts_nobody(db):
    """An error inside a snapshot's block closes it; reads and writes go on."""
    db.add("a", "apple")

    def fail():
        with db.snapshot() as snapshot:
            return 1 / (len(snapshot.partitions()) - 1)

    with pytest.raises(ZeroDivisionError):
        fail()

    assert db.add("a", "pear") == "updated"
    assert db.found("pear") == {"a"}


def test_many_snapshots(db):
    """Snapshots are given back: hundreds in a row, and dozens at once, work."""
    db.add("a", "apple")
    for _ in range(300):
        assert db.found("apple") == {"a"}
    barrier = threading.Barrier(24)

    def read(_):
        with db.snapshot() as snapshot:
            barrier.wait(30)
            return len(snapshot.lexical([db.request("apple")])[0].hits)

    with ThreadPoolExecutor(24) as pool:
        assert list(pool.map(read, range(24))) == [1] * 24


def test_deadline_far(db):
    """A deadline that is far away changes nothing, nor does one that was reached after the last read."""
    db.add("a", "apple")
    with db.catalogue.snapshot(Deadline.after(60)) as snapshot:
        assert len(snapshot.lexical([db.request("apple")])[0].hits) == 1
    with db.catalogue.snapshot(Deadline.after(0.05)) as snapshot:
        snapshot.partitions()
        time.sleep(0.06)

    assert db.found("apple") == {"a"}
    assert db.add("a", "pear") == "updated"


@pytest.mark.needs(Capability.DURABLE)
def test_durable(db, reopen):
    """After closing and opening everything is there, and goes on where it was."""
    db.put(
        db.item("a", "apple", tags=("x",)), db.item("a", "pear 北京大学"), db.item("b", "apple"), db.item("c", "apple")
    )
    db.retire("b")
    db.purge("c")
    with db.snapshot() as snapshot:
        before = view(snapshot, db)
        revisions = snapshot.history("s", "memory", "a")
    again = type(db)(reopen())
    with again.snapshot() as snapshot:
        assert view(snapshot, again) == before
        assert snapshot.history("s", "memory", "a") == revisions

    assert again.put(again.item("a", "pear 北京大学"), again.item("b", "apple")) == ["unchanged", "revived"]
    assert again.changes() > before[-1]


@pytest.mark.needs(Capability.DURABLE, Capability.MULTI_PROCESS)
def test_opened_twice(db, open_again):
    """What is written through one opened store is seen through another at once, both ways; each sees all changes."""
    other = type(db)(open_again())
    for number in range(5):
        db.add("a", f"apple {number}")
        assert other.found(str(number)) == {"a"}
        other.add("b", f"pear {number}")
        assert db.found(str(number)) == {"a", "b"}
        assert db.changes() == other.changes()
    other.retire("a")

    assert db.lexical("apple pear").statistics == other.lexical("apple pear").statistics
    assert db.listed() == other.listed() == ["b"]


PROCESS = """
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from powerctx_core.types import Item
spec = spec_from_file_location("backends", sys.argv[1])
module = module_from_spec(spec)
sys.modules["backends"] = module
spec.loader.exec_module(module)
store = module.BACKENDS[sys.argv[2]].open(Path(sys.argv[3]))
for number in range(25):
    store.catalogue.put([Item(scope_id="s", artifact_id="shared", text=f"apple {sys.argv[4]} {number}"),
                         Item(scope_id="s", artifact_id=f"own-{sys.argv[4]}-{number}", text="apple")])
if sys.argv[5] == "die":
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)
store.close()
"""


def start(backend, place, conftest, name, end):
    """Start a process that writes 25 batches, then closes the store or is killed."""
    return subprocess.Popen([sys.executable, "-c", PROCESS, conftest, backend.name, str(place), name, end])


@pytest.mark.needs(Capability.DURABLE, Capability.MULTI_PROCESS)
def test_processes(db, backend, place, request):
    """Processes that write at once lose nothing; neither does one that is killed after its writes."""
    conftest = str(request.config.rootpath / "tests" / "conftest.py")
    writers = [start(backend, place, conftest, name, "die" if name == "2" else "close") for name in "012"]
    codes = [writer.wait(timeout=100) for writer in writers]
    shared = db.history("shared")

    assert codes[:2] == [0, 0]
    assert codes[2] != 0
    assert [number for number, _, _ in shared] == list(range(1, 76))
    assert {text for _, _, text in shared} == {f"apple {name} {number}" for name in "012" for number in range(25)}
    assert db.partitions() == {PARTITION: 76}
    assert db.lexical("apple").statistics.document_frequency == {"appl": 76}
    assert db.add("after", "apple") == "created"
