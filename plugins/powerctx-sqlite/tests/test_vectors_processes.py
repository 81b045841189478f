"""Vectors from several threads and processes on one file."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import suppress

import numpy as np
import pytest

from powerctx_core.ports import FetchRequest, NearestRequest
from powerctx_core.types import Deadline, EmbeddingProfile, Item, Partition
from powerctx_sqlite import resident, vectors

DIMENSIONS = 64
PROFILE = EmbeddingProfile(fingerprint="model/1", dimensions=DIMENSIONS, languages=("en",), noise=0.1, match=0.5)

WRITER = """
import sys
import numpy as np
from powerctx_core.types import EmbeddingProfile, Item
from powerctx_sqlite.store import open_store
store = open_store(f"sqlite:///{sys.argv[1]}")
store.vectors.attach(EmbeddingProfile(fingerprint="model/1", dimensions=64, languages=("en",), noise=0.1, match=0.5))
print("ready", flush=True)
for line in sys.stdin:
    what, first, count = line.split()
    numbers = range(int(first), int(first) + int(count))
    if what == "retire":
        store.catalogue.retire([("s", "memory", f"a{n}") for n in numbers])
    else:
        items = [Item(scope_id="s", text=f"text {n}", artifact_id=f"a{n}") for n in numbers]
        keys = [result.key for result in store.catalogue.put(items)]
        rows = [np.random.default_rng(n).standard_normal(64).astype("<f4") for n in numbers]
        made = {key: (row / np.linalg.norm(row)).tobytes() for key, row in zip(keys, rows)}
        print("put", flush=True)
        store.vectors.upsert(made)
    print("done", flush=True)
store.close()
"""


def seeded(seed: int) -> bytes:
    """Return the vector that belongs to *seed*, here and in the other process."""
    row = np.random.default_rng(seed).standard_normal(DIMENSIONS).astype("<f4")
    return (row / np.linalg.norm(row)).tobytes()


@pytest.fixture
def writer(path):
    """A function that starts another process, which writes on demand."""
    started = []

    def start() -> subprocess.Popen[str]:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
        )
        started.append(process)
        assert "ready\n" == process.stdout.readline()
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()
        with suppress(BrokenPipeError):
            process.stdin.close()


def tell(process, what: str, first: int, count: int, until: str = "done") -> None:
    """Have the process do something, and wait until it says so."""
    process.stdin.write(f"{what} {first} {count}\n")
    process.stdin.flush()
    while f"{until}\n" != process.stdout.readline():
        assert process.poll() is None


def found(store, query: bytes, k: int = 10) -> set[str]:
    """Return the artifact ids of the nearest."""
    request = NearestRequest(partition=Partition("s", "memory"), vector=query, k=k)
    with store.catalogue.snapshot(Deadline()) as snapshot:
        keys = [key for key, _ in store.vectors.nearest([request], snapshot)[0]]
        return {item.address.artifact_id for item in details(snapshot, keys)}


def details(snapshot, keys):
    """Return the details of keys, each of which the snapshot must hold."""
    found = snapshot.fetch(FetchRequest(keys=tuple(keys)))

    assert len(found) == len(keys)
    return list(found.values())


@pytest.mark.parametrize(("direct", "exact"), [(1000, 16_000), (0, 16_000), (0, 0)])
def test_processes_see_each_other(opened, writer, monkeypatch, direct, exact):
    """What one process stores and removes, the other finds and does not find in its next search."""
    monkeypatch.setattr(vectors, "DIRECT", direct)
    monkeypatch.setattr(resident, "EXACT", exact)
    store, process = opened(), writer()
    store.vectors.attach(PROFILE)
    for first in range(0, 60, 20):
        tell(process, "put", first, 20)
        assert {f"a{first + 7}"} == found(store, seeded(first + 7), 1)
        assert first + 20 == len(found(store, seeded(0), 100))
    tell(process, "retire", 30, 10)

    assert {f"a{n}" for n in (*range(30), *range(40, 60))} == found(store, seeded(0), 100)
    store.catalogue.put([Item(scope_id="s", text="ours", artifact_id="a3")])
    tell(process, "put", 3, 1)
    assert {"a3"} == found(store, seeded(3), 1)
    assert 50 == store.vectors.count()


@pytest.mark.parametrize(("direct", "exact"), [(1000, 16_000), (0, 16_000), (0, 0)])
def test_readers_and_a_writer(opened, monkeypatch, direct, exact):
    """Readers that search while others write find only what their snapshot holds, best first, without an error."""
    monkeypatch.setattr(vectors, "DIRECT", direct)
    monkeypatch.setattr(resident, "EXACT", exact)
    store = opened()
    store.vectors.attach(PROFILE)
    failures: list[BaseException] = []
    stop = threading.Event()

    def write(base: int) -> None:
        for step in range(12):
            numbers = range(base + step * 20, base + step * 20 + 20)
            results = store.catalogue.put([Item(scope_id="s", artifact_id=f"a{n}", text=f"text {n}") for n in numbers])
            store.vectors.upsert({result.key: seeded(n) for result, n in zip(results, numbers, strict=True)})
            store.catalogue.retire([("s", "memory", f"a{n}") for n in list(numbers)[:5]])

    def read() -> None:
        request = NearestRequest(partition=Partition("s", "memory"), vector=seeded(1), k=30)
        while not stop.is_set():
            with store.catalogue.snapshot(Deadline()) as snapshot:
                pairs = store.vectors.nearest([request], snapshot)[0]
                assert sorted(pairs, key=lambda pair: (-pair[1], pair[0])) == list(pairs)
                assert len(pairs) == len(details(snapshot, [key for key, _ in pairs]))
                assert dict(pairs) == dict(store.vectors.cosines([key for key, _ in pairs], seeded(1), snapshot))

    def guarded(work, *args) -> None:
        try:
            work(*args)
        except BaseException as error:  # noqa: BLE001 - shown by the test
            failures.append(error)

    readers = [threading.Thread(target=guarded, args=(read,)) for _ in range(4)]
    writers = [threading.Thread(target=guarded, args=(write, base)) for base in (0, 1000)]
    for thread in (*readers, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    for thread in readers:
        thread.join()

    assert [] == failures
    assert 360 == store.vectors.count() == len(found(store, seeded(1), 1000))


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a signal that cannot be caught")
def test_killed_writer(opened, writer, path):
    """A process that is killed while it stores vectors leaves whole batches only, and a file in order."""
    process = writer()
    tell(process, "put", 0, 300)
    tell(process, "put", 300, 20_000, until="put")
    log = path.with_name(path.name + "-wal")
    start = log.stat().st_size
    while process.poll() is None and log.stat().st_size < start + 1_000_000:
        pass
    process.send_signal(signal.SIGKILL)
    process.wait()

    store = opened()
    store.vectors.attach(PROFILE)
    count = store.vectors.count()
    assert count in {300, 20_300}
    assert count + len(store.vectors.unembedded(50_000)) == 20_300
    assert {"a7"} == found(store, seeded(7), 1)
    left = {item.key: seeded(int(item.text.split()[1])) for item in store.vectors.unembedded(50_000)}
    assert len(left) == store.vectors.upsert(left)
    assert {"a20007"} == found(store, seeded(20_007), 1)
    with sqlite3.connect(path) as plain:
        assert ("ok",) == plain.execute("PRAGMA integrity_check").fetchone()
    plain.close()
