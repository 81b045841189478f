"""A directory of Chroma: one process at a time, nothing left of what is purged, no network."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from powerctx_chroma.client import _announced
from powerctx_chroma.engine import _saved_every
from powerctx_core.errors import StoreUnavailable
from powerctx_core.testing.vector_words import PROFILE, Vectors, seeded
from powerctx_sqlalchemy.paired.tables import Paired

OPEN = """
import sys
from powerctx_core.config import structure
from powerctx_core.errors import StoreUnavailable
from powerctx_core.host import Host
with Host.compose(structure({}), allow=["chroma", "sqlite"]) as host:
    try:
        host.open_store(sys.argv[1])
    except StoreUnavailable as error:
        print(error)
"""
QUIET = """
import json, sys
answers, seen = [], []
def hook(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        seen.append([event, str(args)])
sys.addaudithook(hook)
from powerctx_core.config import structure
from powerctx_core.host import Host
from powerctx_core.testing.vector_words import PROFILE, Vectors, seeded
with Host.compose(structure({}), allow=["chroma", "sqlite"]) as host:
    for url in sys.argv[1:]:
        vectors = Vectors(host.open_store(url))
        vectors.index.attach(PROFILE)
        vectors.add("a")
        assert vectors.found(seeded("a")) == ["a"]
        vectors.store.close()
        answers.append(list(seen))
        seen.clear()
print(json.dumps(answers))
"""


def run(code: str, *arguments: str) -> str:
    """Run Python in a process of its own and return what it prints."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=100).stdout


def test_one_process(opened, url):
    """A second opening is refused with the holder's id and what to do, here and in another process; then it is free."""
    store = opened()
    vectors = Vectors(store)
    vectors.index.attach(PROFILE)
    vectors.add("a")

    told = run(OPEN, url)
    assert f"is in use by the process {os.getpid()}" in told
    assert "chroma+http://" in told
    with pytest.raises(StoreUnavailable, match="is in use by this process"):
        opened()
    store.close()
    assert not run(OPEN, url)


def test_both_began_before(opened):
    """Two that were opened before anything was there: the first to store vectors has the directory."""
    first, second = Vectors(opened()), Vectors(opened())
    for each in (first, second):
        each.index.attach(PROFILE)
    first.add("a")

    with pytest.raises(StoreUnavailable, match="is in use by"):
        second.add("b")


def test_what_takes_long_is_told():
    """Who waits for Chroma at its first use is told what for; who does not have to wait is told nothing."""
    told = threading.Event()
    handler = logging.Handler()
    handler.emit = lambda record: told.set()
    logger = logging.getLogger("powerctx_chroma.client")
    logger.addHandler(handler)
    try:
        with _announced("loading Chroma", after=3600.0):
            pass
        assert not told.is_set()
        with _announced("loading Chroma", after=0.0):
            assert told.wait(60)
    finally:
        logger.removeHandler(handler)


def test_no_network(url, server, tmp_path):
    """Nothing is connected to, or looked up: in a directory nothing at all, with a server nothing but that."""
    place = f"chroma+http://{server}?companion=sqlite:///{tmp_path}/x.db"
    alone, asked = json.loads(run(QUIET, url, place))

    assert [] == alone
    assert asked
    assert [] == [each for each in asked if "127.0.0.1" not in each[1]]


def test_purged_at_once(opened):
    """What is purged leaves Chroma by the same call; what is retired goes at the next opening at the latest."""
    vectors = Vectors(store := opened())
    vectors.index.attach(PROFILE)
    for name in "abc":
        vectors.add(name, f"text of {name}")
    vectors.retire("b")
    assert 1 == store.pairing.waiting()
    vectors.purge("a")

    assert 0 == store.pairing.waiting()
    vectors.retire("c")
    store.close()
    store = opened()
    assert 0 == store.pairing.waiting()
    assert 0 == store.engine.count(_shared(store))


@pytest.mark.parametrize("exact_below", [1000, 0], ids=["shared", "own"])
def test_purged_leaves_no_text(opened, tmp_path, exact_below):
    """When the store is closed no file has the text of what was purged, whole or in pieces; all the rest is there."""
    vectors = Vectors(store := opened(exact_below=exact_below))
    vectors.index.attach(PROFILE)
    for number in range(20):
        vectors.add(f"a{number}", f"text {number}")
    vectors.add("secret", "zyzzyvaquux qqxjkvbw")
    vectors.add("last", "the last text")
    found = vectors.nearest(seeded("q"), 30)
    assert pieces(tmp_path)
    vectors.purge("secret")
    store.close()

    assert {} == pieces(tmp_path)
    vectors.store = store = opened(exact_below=exact_below)
    vectors.index.attach(PROFILE)
    assert [pair for pair in found if pair[0] != "secret"] == vectors.nearest(seeded("q"), 30)
    (collection,) = [each for each in store._client.get().list_collections() if each.count()]
    assert 21 == collection.count()
    assert 1000 == collection.configuration_json["hnsw"]["sync_threshold"]
    assert [] == store.pairing.differences()


@pytest.mark.parametrize(("then", "name"), [("add", "c"), ("purge", "b")])
def test_stopped_while_it_forgets(opened, then, name):
    """What a process leaves that is killed while it forgets, the next write or purge sets right."""
    vectors = Vectors(store := opened())
    vectors.index.attach(PROFILE)
    for each in "ab":
        vectors.add(each)
    (collection,) = [each for each in store._client.get().list_collections() if each.count()]
    _saved_every(2, collection)
    collection.upsert(ids=["0"], embeddings=collection.get(include=["embeddings"])["embeddings"][:1])
    store.close()

    vectors.store = store = opened()
    vectors.index.attach(PROFILE)
    getattr(vectors, then)(name)
    store.close()

    (collection,) = [each for each in opened()._client.get().list_collections() if each.count()]
    assert 1000 == collection.configuration_json["hnsw"]["sync_threshold"]
    assert [] == collection.get(ids=["0"], include=[])["ids"]


def pieces(folder):
    """Return which files hold which three letters of the secret text."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            held = [each for each in (b"zyzzyva", b"yzz", b"zzy", b"qqx", b"jkv", b"vbw") if each in data]
            found |= {path.name: held} if held else {}
    return found


def _shared(store):
    """Return the collection of small partitions."""
    from powerctx_core.types import Deadline

    with store.companion.database.reading(Deadline()) as connection:
        return Paired.read(connection, "x").collection(1)


def test_documents_and_addresses(opened):
    """Who looks into Chroma finds each text under the URI of its revision."""
    vectors = Vectors(store := opened())
    vectors.index.attach(PROFILE)
    vectors.add("a", "We chose 北京 \x00 😀.", title="T")
    (collection,) = store._client.get().list_collections()
    found = collection.get()

    assert ["T\nWe chose 北京 \ufffd 😀."] == found["documents"]
    assert [{"address": "powerctx://s/memory/a@1"}] == found["metadatas"]


def test_without_documents(opened):
    """Texts are left out of Chroma where the settings say so."""
    vectors = Vectors(store := opened(documents=False))
    vectors.index.attach(PROFILE)
    vectors.add("a", "a text")
    (collection,) = store._client.get().list_collections()

    assert [None] == collection.get()["documents"]
    assert ["a"] == vectors.found(seeded("a"))


def test_memory_leaves_nothing(opened, monkeypatch, tmp_path):
    """A store in memory is empty when it is opened again, and its file for the companion is gone."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for _ in range(2):
        store = opened("chroma://")
        vectors = Vectors(store)
        vectors.index.attach(PROFILE)
        assert [] == vectors.found(seeded("a"))
        vectors.add("a")
        assert ["a"] == vectors.found(seeded("a"))
        store.close()

    assert [] == list(Path(tmp_path).glob("powerctx-chroma-*"))


def test_large_partitions_move(opened):
    """A partition that grows gets a collection of its own, whole; its neighbours stay where they are."""
    vectors = Vectors(store := opened(exact_below=20))
    vectors.index.attach(PROFILE)
    vectors.add("other", scope_id="S")
    for first in range(0, 30, 10):
        vectors.fill({f"a{n}": seeded(n) for n in range(first, first + 10)})
        assert [f"a{first}"] == vectors.found(seeded(first), 1)
        assert first + 10 == len(vectors.found(seeded("q"), 100))
    store.pairing.sweep(at_once=True)

    assert [1, 30] == sorted(each.count() for each in store._client.get().list_collections())
    assert ["other"] == vectors.found(seeded("other"), scope_id="S")
    vectors.add("one more", tags=("x",))
    assert ["one more"] == vectors.found(seeded("q"), tags=("x",))


def test_statements(opened):
    """While nothing changes a search of a small partition reads the partition's row and nothing else."""
    import sqlalchemy as sa

    vectors = Vectors(opened())
    vectors.index.attach(PROFILE)
    vectors.fill({f"a{n}": seeded(n) for n in range(10)})
    vectors.nearest(seeded("q"))
    seen: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        seen.append(statement)

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        vectors.nearest(seeded("other"))
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)

    assert 1 >= len(seen), seen
