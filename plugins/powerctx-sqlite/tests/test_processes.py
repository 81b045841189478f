"""Several threads and processes on one file."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from powerctx_core.types import Deadline

WRITER = """
import sys
from powerctx_core.types import Item
from powerctx_sqlite.store import open_store
store = open_store(f"sqlite:///{sys.argv[1]}")
print("ready", flush=True)
for line in sys.stdin:
    first, count = map(int, line.split())
    numbers = range(first, first + count)
    store.catalogue.put([Item(scope_id="s", text=f"alpha {n}", artifact_id=f"a{n}") for n in numbers])
    print("done", flush=True)
store.close()
"""


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


def _write(process, first: int, count: int, *, wait: bool = True) -> None:
    process.stdin.write(f"{first} {count}\n")
    process.stdin.flush()
    if wait:
        assert "done\n" == process.stdout.readline()


def test_processes_see_each_other(opened, ask, writer):
    """What one process commits, the other finds, counts and continues; also its cached frequencies follow."""
    store = opened(rank_above=3)
    process = writer()
    _write(process, 0, 5)
    assert 5 == ask.lexical(store, "alpha").statistics.document_frequency["alpha"]

    store.catalogue.put([ask.item("alpha ours", artifact_id="a1")])
    _write(process, 5, 5)

    assert 10 == ask.lexical(store, "alpha").statistics.document_frequency["alpha"]
    assert [(1, "alpha 1", "superseded"), (2, "alpha ours", "current")] == ask.states(store, "a1")
    with store.catalogue.snapshot(Deadline()) as snapshot:
        assert 3 == snapshot.changes()


def test_two_writers(opened, ask, writer, path):
    """Two processes that make the file and write at the same time lose nothing and wait for each other."""
    processes = [writer(), writer()]
    for start in range(0, 400, 20):
        for n, process in enumerate(processes):
            _write(process, n * 1000 + start, 20, wait=False)
    for process in processes:
        process.stdin.close()
        assert 20 == process.stdout.read().count("done")
        process.wait()

    store = opened()
    assert 800 == ask.lexical(store, "alpha").statistics.document_frequency["alpha"]
    with store.catalogue.snapshot(Deadline()) as snapshot:
        assert 40 == snapshot.changes()


def test_readers_keep_their_snapshot(opened, ask):
    """A reader sees the state of its first read while others write; its own next view sees the new one."""
    store = opened()
    store.catalogue.put([ask.item("alpha", artifact_id="x")])
    with store.catalogue.snapshot(Deadline()) as snapshot:
        assert 1 == snapshot.changes()
        worker = threading.Thread(target=store.catalogue.put, args=([ask.item("beta", artifact_id="x")],))
        worker.start()
        worker.join()
        assert 1 == snapshot.changes()
        assert "alpha" == snapshot.latest("s", "memory", "x").item.text
    assert [(1, "alpha", "superseded"), (2, "beta", "current")] == ask.states(store, "x")


def test_threads(opened, ask):
    """Threads read and write at once without an error, and nothing is lost."""
    store = opened()
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for n in range(15):
                if number % 2:
                    store.catalogue.put([ask.item(f"alpha {number} {n}", artifact_id=f"a{number}-{n}")])
                else:
                    ask.fetched(store, "alpha")
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [] == failures
    assert 60 == ask.lexical(store, "alpha").statistics.items


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a signal that cannot be caught")
def test_killed_writer(opened, ask, writer, path):
    """A process that is killed in the middle of a large batch leaves whole batches only, and a file in order."""
    process = writer()
    _write(process, 0, 500)
    _write(process, 500, 20_000, wait=False)
    log = path.with_name(path.name + "-wal")
    while process.poll() is None and log.stat().st_size < 3_000_000:
        pass
    process.send_signal(signal.SIGKILL)
    process.wait()

    store = opened()
    count = ask.lexical(store, "alpha").statistics.items
    assert count in {500, 20_500}
    store.catalogue.put([ask.item("alpha more", artifact_id="more")])
    assert count + 1 == ask.lexical(store, "alpha").statistics.document_frequency["alpha"]
    with sqlite3.connect(path) as plain:
        assert ("ok",) == plain.execute("PRAGMA integrity_check").fetchone()
        plain.execute("INSERT INTO lexical(lexical) VALUES ('integrity-check')")
        assert (count + 1,) == plain.execute("SELECT count(*) FROM revision").fetchone()
    plain.close()
