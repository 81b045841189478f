"""Several threads and processes on one file."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from powerctx_core.errors import StoreError
from powerctx_core.types import Deadline, Item
from powerctx_sqlite import log as logs
from powerctx_sqlite.location import parsed
from powerctx_sqlite.settings import SqliteSettings
from powerctx_sqlite.store import open_store

ROOT = os.geteuid() == 0 if hasattr(os, "geteuid") else False
ITEMS = 400
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

STRANGER = """
import json, os, sys
from powerctx_core.errors import StoreError
from powerctx_core.ports import FetchRequest, LexicalRequest
from powerctx_core.text.terms import analyse_query
from powerctx_core.types import Deadline, Item, Partition
from powerctx_sqlite.store import open_store

def texts(store, deadline=Deadline()):
    request = LexicalRequest(partition=Partition("s", "memory"), query=analyse_query("alpha"), k=10_000)
    with store.catalogue.snapshot(deadline) as snapshot:
        hits = snapshot.lexical([request])[0].hits
        found = snapshot.fetch(FetchRequest(keys=tuple([hit.key for hit in hits])))
    return [candidate.head for candidate in found.values()]

memory = open_store("sqlite://")  # Whatever is imported late is imported by the user who may.
memory.catalogue.put([Item(scope_id="s", text="alpha")])
assert ["alpha"] == texts(memory)
memory.status()
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
store = None
print("ready", flush=True)
for _ in sys.stdin:
    try:
        store = store or open_store(f"sqlite:///{sys.argv[1]}")
        answer = sorted(texts(store))
    except StoreError as error:
        answer = str(error)
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture
def stranger():
    """A function that starts a process of a user who may read only, and returns a function that reads there."""
    started = []

    def start(path):
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.Popen(
            [sys.executable, "-c", STRANGER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        started.append(process)
        assert "ready\n" == process.stdout.readline()

        def read():
            process.stdin.write("read\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        return read

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stdin.close()


@pytest.fixture
def public():
    """A file in a folder that everybody may read, and only its owner write."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name) / "notes.db"


def _put(path, generation: int) -> None:
    """Give every item of the store another text, and close it."""
    store = open_store(f"sqlite:///{path}")
    store.catalogue.put(
        [
            Item(scope_id="s", text=f"alpha generation{generation} {'x' * 200}", artifact_id=f"a{n}")
            for n in range(ITEMS)
        ]
    )
    store.close()


def _generation(texts) -> int:
    """Return the one generation of which all texts are."""
    assert isinstance(texts, list), texts
    assert ITEMS == len(texts)
    (found,) = {text.split()[1] for text in texts}
    return int(found.removeprefix("generation"))


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


@pytest.mark.skipif(not ROOT, reason="only root can become a user who may not write")
def test_stranger_sees_every_change(public, stranger):
    """A reader without write access sees what others have written and closed, or are writing, each time it reads."""
    _put(public, 0)
    read = stranger(public)
    assert 0 == _generation(read())
    for generation in range(1, 4):
        _put(public, generation)
        assert generation == _generation(read())
        assert generation == _generation(read())

    with sqlite3.connect(public, isolation_level=None) as other:
        other.execute("SELECT * FROM meta").fetchall()
        _put(public, 4)
        assert 4 == _generation(read())
        _put(public, 5)
        assert 5 == _generation(read())
    other.close()
    _put(public, 6)
    assert 6 == _generation(read())


@pytest.mark.skipif(not ROOT, reason="only root can become a user who may not write")
@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_stranger_while_others_write(public, stranger, journal):
    """While others open, write and close the file, each read of that user is of one state, or refused with a reason."""
    _put(public, 0)
    with sqlite3.connect(public) as other:
        other.execute(f"PRAGMA journal_mode = {journal}")
    other.close()
    read = stranger(public)
    done = threading.Event()

    def work() -> None:
        for generation in range(1, 25):
            _put(public, generation)
        done.set()

    worker = threading.Thread(target=work)
    worker.start()
    seen = []
    while not done.is_set():
        answer = read()
        if isinstance(answer, str):
            assert "changed by another process while it was read" in answer
        else:
            seen.append(_generation(answer))
    worker.join()

    assert seen == sorted(seen)
    assert len(seen) > 5
    assert 24 == _generation(read())


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a signal that cannot be caught")
@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("parameters", ["", "?mode=ro"])
def test_commits_in_the_log(ask, writer, path, linked, parameters):
    """What a killed process has committed is read from the log beside the file, also through a link elsewhere."""
    process = writer()
    _write(process, 0, 5)
    process.send_signal(signal.SIGKILL)
    process.wait()
    place = path
    if linked:
        place = path.parent / "elsewhere" / "link.db"
        place.parent.mkdir()
        place.symlink_to(path)

    store = open_store(f"sqlite:///{place}{parameters}")
    assert 5 == ask.lexical(store, "alpha").statistics.items
    store.close()
    if linked:
        assert [place] == list(place.parent.iterdir())


@pytest.mark.skipif(not ROOT, reason="only root can become a user who may not write")
@pytest.mark.parametrize("linked", [False, True])
def test_stranger_and_commits_in_the_log(public, stranger, linked):
    """A log that cannot be read without write access is not left out: it is read, or the file is refused."""
    _put(public, 0)
    other = sqlite3.connect(public, isolation_level=None)
    other.execute("BEGIN")
    other.execute("SELECT * FROM meta").fetchall()
    _put(public, 1)
    kept = {file: file.read_bytes() for file in public.parent.iterdir()}
    other.close()
    index = public.with_name(public.name + "-shm")
    for file in kept.keys() - {index}:
        file.write_bytes(kept[file])
    assert public.with_name(public.name + "-wal").stat().st_size
    place = public
    if linked:
        place = public.with_name("links") / "link.db"
        place.parent.mkdir(mode=0o755)
        place.symlink_to(public)
    read = stranger(place)

    assert "holds commits that cannot be read" in read()
    index.write_bytes(kept[index])
    assert 1 == _generation(read())


def test_sealed_snapshot(opened, ask, path):
    """A view without locks that was open while the file changed is refused at its end; the next one is right."""
    _put(path, 0)
    reader = opened("?mode=ro")

    def torn(generation: int, error: Exception | None = None) -> None:
        with reader.catalogue.snapshot(Deadline()) as snapshot:
            _put(path, generation)
            snapshot.history("s", "memory", "a1")
            if error is not None:
                raise error

    for generation, error in enumerate((None, KeyError("from a mixture of states")), start=1):
        with pytest.raises(StoreError, match="changed by another process while it was read"):
            torn(generation, error)
        assert generation + 1 == len(ask.states(reader, "a1"))
    with pytest.raises(KeyError, match="of its own"), reader.catalogue.snapshot(Deadline()):
        raise KeyError("of its own")
    with reader.catalogue.snapshot(Deadline()) as snapshot:
        opened().catalogue.put([ask.item("beta", artifact_id="more")])
        assert snapshot.latest("s", "memory", "more") is None
    assert {"more"} == ask.found(reader, "beta")


def test_stamps_tell_apart(path):
    """A stamp that is as new as the clock's step is waited for: a change within that step would not show."""
    path.write_bytes(b"x")
    location = parsed(f"sqlite:///{path}", SqliteSettings())[0]
    for _ in range(20):
        path.write_bytes(b"y")
        before = location.settled()
        assert time.time_ns() - max(before.modified_ns, before.changed_ns) >= 20_000_000
        path.write_bytes(b"z")
        assert before != location.stamp()
    assert before.same_file(location.stamp())


def test_log_is_bounded(opened, ask, path, monkeypatch):
    """While there is a reader at every moment, one after the other, the log is begun anew all the same."""
    monkeypatch.setattr(logs, "LOG_BYTES", 2 << 20)
    store = opened()
    store.catalogue.put([ask.item("alpha", artifact_id="x")])
    done = threading.Event()
    turns = [threading.Semaphore(1), threading.Semaphore(0)]

    def read(number: int) -> None:
        reader = opened()
        while not done.is_set():
            with reader.catalogue.snapshot(Deadline()) as snapshot:
                assert snapshot.latest("s", "memory", "x") is not None
                # The other one has begun by now, and this one ends.
                turns[1 - number].release()
                turns[number].acquire(timeout=60)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    sizes = []
    for n in range(20):
        store.catalogue.put([ask.item(f"alpha {n}-{m} " + "x" * 100_000, artifact_id=f"a{n}-{m}") for m in range(8)])
        sizes.append(path.with_name(path.name + "-wal").stat().st_size)
    done.set()
    for turn in turns:
        turn.release(10)
    for thread in threads:
        thread.join()

    assert sum(sizes) > 0
    assert max(sizes) < 8 << 20
    assert 161 == ask.lexical(store, "alpha").statistics.items


def test_reader_that_stays(opened, ask, path, monkeypatch):
    """A reader that stays holds up one writer in many, and the log is emptied when it is gone."""
    monkeypatch.setattr(logs, "LOG_BYTES", 1 << 20)
    tries = []
    checkpoint = logs.WriteAheadLog.checkpoint

    def noted(self, engine):
        tries.append(self._location.log())
        checkpoint(self, engine)

    monkeypatch.setattr(logs.WriteAheadLog, "checkpoint", noted)
    store = opened()
    store.catalogue.put([ask.item("alpha", artifact_id="x")])
    with opened().catalogue.snapshot(Deadline()) as snapshot:
        assert snapshot.latest("s", "memory", "x") is not None
        for n in range(16):
            store.catalogue.put([ask.item(f"alpha {n} " + "x" * 250_000, artifact_id=f"a{n}")])

    assert 1 <= len(tries) <= 5
    log = path.with_name(path.name + "-wal")
    assert log.stat().st_size > 3 << 20
    store.catalogue.put([ask.item("beta " + "x" * 900_000, artifact_id=f"b{n}") for n in range(3)])
    assert log.stat().st_size < 3 << 20
