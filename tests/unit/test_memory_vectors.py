"""The reference vector index: what the behaviour suite cannot see from outside."""

import struct
import threading

import pytest

from powerctx_core.errors import CapabilityError, InvalidRequest, StoreError
from powerctx_core.memory_store import MemoryStore
from powerctx_core.ports import NearestRequest
from powerctx_core.records import NoSettings
from powerctx_core.types import Deadline, EmbeddingProfile, Item, Partition
from powerctx_core.vectors import check_profile, check_vector, embedding_text, text_hash

PROFILE = EmbeddingProfile(fingerprint="model/1", dimensions=2, languages=("en",), noise=0.1, match=0.5)
EAST, NORTH, WEST = (struct.pack("<2f", *values) for values in ((1, 0), (0, 1), (-1, 0)))


@pytest.fixture
def store() -> MemoryStore:
    """A store that was told the model."""
    store = MemoryStore("memory://", NoSettings())
    store.vectors.attach(PROFILE)
    return store


def put(store, *texts: str) -> list[int]:
    """Store items named as their texts, and return their keys."""
    return [r.key for r in store.catalogue.put([Item(scope_id="s", artifact_id=text, text=text) for text in texts])]


def nearest(store, snapshot, vector: bytes) -> list[tuple[int, float]]:
    """Return keys and cosines of the nearest."""
    request = NearestRequest(partition=Partition("s", "memory"), vector=vector, k=10)
    return store.vectors.nearest([request], snapshot)[0]


def test_cosines_are_exact(store):
    """Cosines are those of the values given, without rounding, from one end to the other."""
    keys = put(store, "a", "b", "c")
    store.vectors.upsert(dict(zip(keys, (WEST, EAST, NORTH), strict=True)))

    with store.catalogue.snapshot(Deadline()) as snapshot:
        assert nearest(store, snapshot, EAST) == [(keys[1], 1.0), (keys[2], 0.0), (keys[0], -1.0)]
        assert store.vectors.cosines(keys, NORTH, snapshot) == {keys[0]: 0.0, keys[1]: 0.0, keys[2]: 1.0}


def test_a_state_is_never_touched(store):
    """A snapshot keeps its vectors through every later change, deletion of all included."""
    (key,) = put(store, "a")
    store.vectors.upsert({key: EAST})
    with store.catalogue.snapshot(Deadline()) as snapshot:
        store.vectors.upsert({key: WEST})
        assert nearest(store, snapshot, EAST) == [(key, 1.0)]
        store.vectors.clear()
        assert nearest(store, snapshot, EAST) == [(key, 1.0)]
        store.catalogue.purge([("s", "memory", "a")])
        assert nearest(store, snapshot, EAST) == [(key, 1.0)]
    assert store.vectors.count() == 0


def test_failed_batch_changes_nothing(store):
    """One bad vector refuses the batch: no vector and no text of it is known."""
    good, bad = put(store, "a", "b")
    with store.catalogue.snapshot(Deadline()) as snapshot:
        before = snapshot.changes()
    with pytest.raises(InvalidRequest):
        store.vectors.upsert({good: EAST, bad: bytes(8)})

    with store.catalogue.snapshot(Deadline()) as snapshot:
        assert (snapshot.changes(), store.vectors.cached(["a"]), store.vectors.count()) == (before, {}, 0)


def test_closed(store):
    """A closed store refuses every call on its vectors."""
    (key,) = put(store, "a")
    store.close()

    for call in (
        lambda: store.vectors.upsert({key: EAST}),
        store.vectors.clear,
        store.vectors.count,
        lambda: store.vectors.unembedded(5),
        lambda: store.vectors.cached(["a"]),
        lambda: store.vectors.attach(PROFILE),
    ):
        with pytest.raises(StoreError, match="closed"):
            call()


def test_threads(store):
    """Threads store vectors at once, and none is lost."""
    keys = put(store, *(f"a{n}" for n in range(40)))
    threads = [
        threading.Thread(target=lambda own: [store.vectors.upsert({key: EAST}) for key in own], args=(keys[n::4],))
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert store.vectors.count() == 40
    assert set(store.vectors.cached([f"a{n}" for n in range(40)])) == {f"a{n}" for n in range(40)}


def test_embedding_text():
    """A title stands before the head, on its own line; an empty one is none.  Hashes tell texts apart."""
    assert embedding_text("Title", "head") == "Title\nhead"
    assert embedding_text("", "head") == embedding_text(None, "head") == "head"
    assert len({text_hash("a"), text_hash("b"), text_hash(""), text_hash("\ud800")}) == 4
    assert len(text_hash("a")) == 16


def test_checks():
    """A vector of unit length passes within float16's rounding, the same model passes whatever else is known of it."""
    check_vector(EAST, 2)
    check_vector(struct.pack("<2f", 1.0004, 0), 2)
    check_profile("model/1", 2, 5, PROFILE)

    with pytest.raises(InvalidRequest) as caught:
        check_vector(struct.pack("<2f", 1.01, 0), 2)
    assert caught.value.field == "vector"
    with pytest.raises(CapabilityError, match="5 stored vectors"):
        check_profile("model/1", 3, 5, PROFILE)
