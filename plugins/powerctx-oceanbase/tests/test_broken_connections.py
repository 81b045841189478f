"""A connection may break at any byte: every call says so in a sentence, and nothing that was acknowledged is lost."""

from __future__ import annotations

import itertools
import os
import socket
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Literal

import attrs
import pymysql
import pytest

import powerctx_core as powerctx
from powerctx_core.errors import StoreError
from powerctx_core.ports import FetchRequest, NearestRequest
from powerctx_core.types import Deadline, EmbeddingProfile, Partition
from powerctx_oceanbase import embedded
from powerctx_oceanbase.settings import OceanBaseSettings
from powerctx_oceanbase.store import open_store

PROFILE = EmbeddingProfile(fingerprint="model/1", dimensions=4, languages=("en",), noise=0.1, match=0.5)
X = b"\0\0\x80?" + bytes(12)
LOST = "connection to the engine was lost"
UNKNOWN = "is not known"
LATE = ("memory:neighbour", "memory:vector")


GARBAGE = b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\n\r\n" + b"<h1>\xff\xfb\xfe 502 \0\xf0</h1>" * 40
"""What stands where an answer was expected, as when something in between answers for the server."""


@attrs.frozen
class Fault:
    """Where and how the next connection breaks.

    Attributes:
        way: ``answers`` come from the engine, ``requests`` from the driver.
        after: so many bytes of that way still pass.
        how: it is only closed; or garbage takes the place of what follows, and then it is closed; or nothing comes any
            more.
    """

    way: Literal["answers", "requests"]
    after: int
    how: Literal["closed", "garbage", "silent"]


class Relay:
    """Passes connections from a port of this machine on to the socket of an engine.

    Attributes:
        passed: what has gone through since the last :meth:`arm`, by way.
        held: requests with these bytes wait until ``let_go`` is set.
    """

    held: bytes | None = None

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._fault: Fault | None = None
        self.let_go = threading.Event()
        self._open: set[socket.socket] = set()
        self.passed: dict[str, bytearray] = {}
        self.arm(None)
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self, fault: Fault | None) -> None:
        """Break once as *fault* says, counted from now on; ``None`` passes everything."""
        with self._lock:
            self._fault = fault
            self.passed = {"answers": bytearray(), "requests": bytearray()}

    @property
    def broken(self) -> bool:
        """Whether the fault has happened."""
        return self._fault is None

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._engine)
                self._open |= {client, server}
                for way, source, target in (("answers", server, client), ("requests", client, server)):
                    threading.Thread(target=self._pass, args=(way, source, target), daemon=True).start()

    def _pass(self, way: str, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if way == "requests" and self.held is not None and self.held in data:
                    self.let_go.wait(30)
                with self._lock:
                    fault, passed = self._fault, self.passed[way]
                    left = None if fault is None or fault.way != way else fault.after - len(passed)
                    breaks = left is not None and left < len(data)
                    passed += data
                    if breaks:
                        self._fault = None
                target.sendall(data[:left] if breaks else data)
                if fault is not None and breaks:
                    if fault.how == "silent":
                        return
                    if fault.how == "garbage":
                        target.sendall(GARBAGE)
                    break
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def cut(self, how: str) -> None:
        """Break all that is open now."""
        for each in (*self._open,):
            with suppress(OSError):
                if how == "garbage" and each.family == socket.AF_INET:
                    each.sendall(GARBAGE)
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End everything."""
        for each in (self._listener, *self._open):
            each.close()


def packets(stream: bytes) -> list[int]:
    """Return where each packet of the protocol begins."""
    starts, place = [], 0
    while place < len(stream):
        starts.append(place)
        place += 4 + int.from_bytes(stream[place : place + 3], "little")
    return starts


@pytest.fixture
def relay(directory):
    """A relay to the engine of the tests."""
    engine = embedded.started(directory)
    relay = Relay(engine.options()["unix_socket"])
    yield relay
    relay.close()
    engine.release()


@pytest.fixture
def far(relay):
    """A store that is reached through the relay."""
    url = f"oceanbase://root@127.0.0.1:{relay.port}/t{time.time_ns()}?tls=off"
    store = open_store(url)
    store.vectors.attach(PROFILE)
    yield store
    store.close()


def failure(call):
    """Return the error of the store that a call ends with, or nothing."""
    try:
        call()
    except StoreError as error:
        return error
    return None


class Calls:
    """What is tried: every call returns whether what it gave is right, or what it wrote."""

    def __init__(self, store, ask):
        self.store, self.ask = store, ask
        self.numbers = itertools.count()
        self.acknowledged = set()
        self.put()
        self.embed()

    def words(self):
        """Search by words."""
        assert self.acknowledged <= self.ask.found(self.store, "apple")

    def opened(self):
        """Connect, with all that is asked of a new connection, and search."""
        self.store._database._engine.dispose()
        self.words()

    def nearest(self):
        """Search by vectors, read items and one's revisions."""
        with self.store.catalogue.snapshot(Deadline()) as snapshot:
            request = NearestRequest(partition=Partition("s", "memory"), vector=X, k=10)
            (found,) = self.store.vectors.nearest([request], snapshot)
            keys = tuple(key for key, _ in found)
            assert keys
            assert set(keys) == self.store.vectors.cosines(keys, X, snapshot).keys()
            details = snapshot.fetch(FetchRequest(keys=keys, terms=(), hits={}, cosines={}))
            assert set(keys) == details.keys()
            assert 1 == len(snapshot.history("s", "memory", "a0"))

    def put(self):
        """Store an item."""
        name = f"a{next(self.numbers)}"
        stored = []
        error = failure(lambda: stored.extend(self.store.catalogue.put([self.ask.item(f"apple {name}", name)])))
        if error is None:
            self.result = stored[0]
            self.acknowledged.add(name)
        else:
            assert UNKNOWN in str(error) or name not in self.ask.found(self.store, "apple"), f"it was kept: {error}"
            raise error

    def embed(self):
        """Store a vector."""
        before = self.store.vectors.count()
        error = failure(lambda: self.store.vectors.upsert({self.result.key: X}))
        if error is not None:
            assert UNKNOWN in str(error) or before == self.store.vectors.count(), f"it was kept: {error}"
            raise error


WAYS = [("answers", "closed"), ("answers", "garbage"), ("requests", "closed")]


@pytest.mark.parametrize("call", ["opened", "words", "nearest", "put", "embed"])
def test_broken_anywhere(far, relay, ask, request, call):
    """In every packet of a call, closed or answered with garbage: a sentence or the right result, never damage."""
    calls = Calls(far, ask)
    tried = getattr(calls, call)
    tried()  # what is asked once only
    relay.arm(None)
    tried()
    passed = {way: bytes(stream) for way, stream in relay.passed.items()}
    step = 1 if request.config.getoption("--engine", None) else 4
    failed = 0
    for way, how in WAYS:
        starts = packets(passed[way])
        places = [place for start in starts for place in (start, start + 2, start + 6)][::step]
        for place in places:
            calls.words()
            relay.arm(Fault(way, place, how))
            error = failure(tried)
            relay.arm(None)
            failed += error is not None
            assert error is None or LOST in str(error), f"{way} {how} at {place}: {error}"
    calls.words()

    assert failed > 10


def test_silent(far, relay, ask):
    """An engine that does not answer any more is given up soon after the deadline."""
    calls = Calls(far, ask)
    calls.words()
    relay.arm(Fault("answers", 0, "silent"))
    start = time.monotonic()
    with pytest.raises(StoreError, match="deadline is over"), far.catalogue.snapshot(Deadline.after(0.2)) as snapshot:
        snapshot.changes()
    taken = time.monotonic() - start
    calls.words()

    assert taken < 20


@pytest.mark.parametrize("how", ["closed", "garbage"])
def test_broken_while_nobody_used_it(far, relay, ask, how):
    """Connections that broke in the pool, as when a server was started anew, cost neither a read nor a write."""
    calls = Calls(far, ask)
    for call in (calls.words, calls.put, calls.nearest):
        relay.cut(how)
        call()


def test_silent_from_the_first(relay):
    """A server that accepts connections and never greets is given up when it should have."""
    relay.arm(Fault("answers", 0, "silent"))
    start = time.monotonic()
    with pytest.raises(StoreError, match=LOST):
        open_store(f"oceanbase://root@127.0.0.1:{relay.port}/t1?tls=off", OceanBaseSettings(connect_timeout_s=1))

    assert time.monotonic() - start < 10


@pytest.mark.parametrize("made", ["CREATE DATABASE", "EXISTS schema_lock", "FULLTEXT INDEX", "VECTOR INDEX"])
def test_no_table_is_made(relay, ask, made):
    """An engine that does not come to make a table is given up after a while, with a sentence; later it is made."""
    place = f"127.0.0.1:{relay.port}/t{time.time_ns()}"

    def write(**settings):
        store = open_store(f"oceanbase://root@{place}?tls=off", OceanBaseSettings(**settings))
        stack.callback(store.close)
        store.vectors.attach(PROFILE)
        (result,) = store.catalogue.put([ask.item("apple", "a")])
        store.vectors.upsert({result.key: X})
        return store.vectors.count()

    with ExitStack() as stack:
        relay.held = made.encode()
        with pytest.raises(
            StoreError, match=r"the engine made no table in 3 seconds; see whether it is busy"
        ) as caught:
            write(write_timeout_s=3, connect_timeout_s=3)
        relay.held = None
        relay.let_go.set()

        assert place in str(caught.value)
        assert 1 == write()


def test_given_up_and_yet_made(relay, ask):
    """A client that has given a table up stays connected until the engine has made it: the engine would hang."""
    place = f"127.0.0.1:{relay.port}/t{time.time_ns()}"
    with ExitStack() as stack:
        hurried, patient = (
            open_store(
                f"oceanbase://root@{place}?tls=off", OceanBaseSettings(write_timeout_s=limit, connect_timeout_s=limit)
            )
            for limit in (1, 60)
        )
        stack.callback(hurried.close)
        stack.callback(patient.close)
        relay.held = b"CREATE DATABASE"
        with pytest.raises(StoreError, match="the engine made no table in 1 seconds"):
            hurried.catalogue.put([ask.item("apple", "a")])
        waiting = [thread for thread in threading.enumerate() if thread.name == "powerctx-oceanbase-answer"]
        relay.held = None
        relay.let_go.set()
        patient.catalogue.put([ask.item("apple", "a")])

        assert {"a"} == ask.found(patient, "apple")
        (thread,) = waiting
        thread.join(30)
        assert not thread.is_alive()


def lost_client(engine, ask):
    """Return what a write ends with just after clients went away whose statements the engine began a moment ago."""
    with ExitStack() as stack:
        relay = Relay(engine)
        stack.callback(relay.close)
        relay.held = b"CREATE DATABASE"

        def gone(number):
            # Statements of sessions that were idle for less than a second are ended in another way.
            client = pymysql.connect(
                host="127.0.0.1", port=relay.port, user="root", ssl_disabled=True, read_timeout=1.3
            )
            with pytest.raises(pymysql.MySQLError):
                client.cursor().execute(f"CREATE DATABASE {name}_{number}")

        name = f"t{time.time_ns()}"
        clients = [threading.Thread(target=gone, args=(number,)) for number in range(3)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        place = f"oceanbase://root@127.0.0.1:{relay.port}/{name}?tls=off"
        store = open_store(place, OceanBaseSettings(connect_timeout_s=3))
        stack.callback(store.close)
        relay.held = None
        relay.let_go.set()
        return failure(lambda: store.catalogue.put([ask.item("pear", "b")]))


@pytest.mark.long
@pytest.mark.timeout(600)
def test_hung_engine(tmp_path, ask):
    """An engine that does not get over a client that went away says so, works on, and is well after a new start."""
    directory = Path(os.path.realpath(tmp_path)) / "engine"
    engine = embedded.started(directory)
    url = f"seekdb:///{directory}"
    kept = open_store(url)
    kept.catalogue.put([ask.item("apple", "a")])
    error = next(filter(None, (lost_client(engine.options()["unix_socket"], ask) for _ in range(150))), None)

    assert "the engine made no table in 3 seconds; its client went away" in str(error)
    kept.catalogue.put([ask.item("melon", "c")])
    assert {"c"} == ask.found(kept, "melon")
    assert any("its client went away" in problem for problem in kept.status().problems)
    kept.close()
    engine.release()

    for name in ("powerctx", "another"):
        store = open_store(f"{url}?database={name}")
        store.catalogue.put([ask.item("pear", "d")])
        assert not any("its client went away" in problem for problem in store.status().problems)
        store.close()


def test_late_vectors(relay):
    """While the engine takes longer over vectors than a call has time, words are delivered in time, and it is said."""
    url = f"oceanbase://root@127.0.0.1:{relay.port}/t{time.time_ns()}?tls=off"
    with powerctx.open(url, settings={"retrieval": {"embedding_timeout_s": 60.0}}, embedder="hash") as context:
        context.put([powerctx.Item(scope_id="s", artifact_id=name, text=f"apple {name}") for name in "abc"])
        whole = context.prepare("apple", scope_id="s").diagnostics
        relay.held = b"inner_product"
        start = time.monotonic()
        hurried = context.prepare("apple", scope_id="s", deadline_ms=1000)
        taken = time.monotonic() - start
        relay.let_go.set()

        assert ("ready", 3) == (hurried.status, len(hurried.selected))
        told = hurried.diagnostics
        assert (True, LATE, ("memory", "fts")) == (told.partial, told.late, told.modes[0])
        assert taken < 5
        assert (False, (), ("memory", "hybrid")) == (whole.partial, whole.late, whole.modes[0])
        assert whole.modes == context.prepare("apple", scope_id="s").diagnostics.modes
