"""Vectors: what is found by them, when they go, what is refused, on every backend that has them."""

import math
import random
import struct
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import attrs
import pytest

from powerctx_core.errors import CapabilityError, InvalidRequest
from powerctx_core.ports import Capability, NearestRequest, VectorIndex
from powerctx_core.types import Deadline, EmbeddingProfile, Filters, Item, Partition
from powerctx_core.vectors import embedding_text

pytestmark = [pytest.mark.matrix, pytest.mark.needs(Capability.VECTOR)]

DIMENSIONS = 24
PROFILE = EmbeddingProfile(fingerprint="model/1", dimensions=DIMENSIONS, languages=("en",), noise=0.1, match=0.5)
DAY = datetime(2024, 1, 1, tzinfo=UTC)


def unit(values):
    """Return the bytes of values, at unit length."""
    length = math.sqrt(sum(value * value for value in values))
    return struct.pack(f"<{len(values)}f", *(value / length for value in values))


def seeded(seed):
    """Return a vector that belongs to *seed*."""
    rng = random.Random(seed)
    return unit([rng.gauss(0, 1) for _ in range(DIMENSIONS)])


def cosine(one, other):
    """Return the cosine of two vectors."""
    return sum(a * b for a, b in zip(memoryview(one).cast("f"), memoryview(other).cast("f"), strict=True))


@attrs.define
class Vectors:
    """A store with vectors, and short ways to use it.

    Attributes:
        names: key -> artifact id of everything written.
    """

    store: object
    names: dict = attrs.field(factory=dict)

    @property
    def index(self):
        """The vector index."""
        return self.store.vectors

    def put(self, *items):
        """Store items and return their keys."""
        results = self.store.catalogue.put(items)
        self.names |= {result.key: result.address.artifact_id for result in results}
        return [result.key for result in results]

    def add(self, artifact_id, text="t", *, vector=None, scope_id="s", **fields):
        """Store one item with a vector, that of its artifact id unless given, and return its key."""
        (key,) = self.put(Item(scope_id=scope_id, artifact_id=artifact_id, text=text, **fields))
        assert self.index.upsert({key: vector or seeded(artifact_id)}) == 1
        return key

    def nearest(self, vector, k=10, *, scope_id="s", family="memory", snapshot=None, **filters):
        """Return the artifact ids and cosines of the nearest."""
        request = NearestRequest(partition=Partition(scope_id, family), vector=vector, k=k, filters=Filters(**filters))
        if snapshot is not None:
            return [(self.names[key], score) for key, score in self.index.nearest([request], snapshot)[0]]
        with self.store.catalogue.snapshot(Deadline()) as view:
            return self.nearest(vector, k, scope_id=scope_id, family=family, snapshot=view, **filters)

    def found(self, *args, **fields):
        """Return the artifact ids of the nearest."""
        return [name for name, _ in self.nearest(*args, **fields)]

    def cosines(self, keys, vector):
        """Return the cosines of keys."""
        with self.store.catalogue.snapshot(Deadline()) as snapshot:
            return self.index.cosines(keys, vector, snapshot)


@pytest.fixture
def vectors(store):
    """Give a fresh store that was told the model."""
    store.vectors.attach(PROFILE)
    return Vectors(store)


def test_protocol(vectors):
    """The index has the methods of its port."""
    assert isinstance(vectors.index, VectorIndex)


def test_nothing(vectors):
    """A store without anything has no vectors, finds none and needs none; asking it writes nothing."""
    assert (vectors.index.count(), vectors.index.unembedded(5), vectors.index.cached(["t"])) == (0, [], {})
    assert vectors.nearest(seeded(0)) == []
    assert vectors.cosines([1, 2], seeded(0)) == {}
    assert vectors.index.upsert({}) == 0
    assert vectors.index.upsert({5: seeded(0)}) == 0
    assert vectors.index.clear() == 0
    vectors.put(Item(scope_id="s", text="t"))
    assert vectors.nearest(seeded(0)) == []


def test_nearest(vectors):
    """The nearest come best first with their cosines, as many as asked for or as there are."""
    names = [f"a{n}" for n in range(30)]
    for name in names:
        vectors.add(name)
    query = seeded("query")
    true = sorted(names, key=lambda name: -cosine(query, seeded(name)))

    assert vectors.found(query, 7) == true[:7]
    assert vectors.found(query, 1000) == true
    assert vectors.found(query, 0) == []
    for name, score in vectors.nearest(query, 1000):
        assert score == pytest.approx(cosine(query, seeded(name)), abs=1e-3)
    assert vectors.nearest(seeded("a7"), 1)[0][1] == pytest.approx(1, abs=1e-3)
    assert vectors.nearest(unit([-value for value in memoryview(seeded("a7")).cast("f")]), 30)[-1][0] == "a7"


def test_ties(vectors):
    """Equal vectors have equal cosines, and come in the order in which they were written."""
    for name in ("c", "a", "d", "b"):
        vectors.add(name, vector=seeded("same"))
    vectors.add("best", vector=seeded("query"))

    assert vectors.found(seeded("query"), 3) == ["best", "c", "a"]
    assert len({score for _, score in vectors.nearest(seeded("query"))[1:]}) == 1


def test_partitions(vectors):
    """A search stays in its partition; several partitions are answered in the order asked."""
    vectors.add("a", scope_id="s")
    vectors.add("b", scope_id="S")
    vectors.add("c", scope_id="s", family="experience")

    assert vectors.found(seeded("b")) == ["a"]
    assert vectors.found(seeded("a"), scope_id="S") == ["b"]
    assert vectors.found(seeded("a"), family="experience") == ["c"]
    assert vectors.found(seeded("a"), scope_id="elsewhere") == []
    requests = [
        NearestRequest(partition=Partition(scope, "memory"), vector=seeded(scope), k=2) for scope in ("S", "x", "s")
    ]
    with vectors.store.catalogue.snapshot(Deadline()) as snapshot:
        found = vectors.index.nearest(requests, snapshot)
    assert [[vectors.names[key] for key, _ in part] for part in found] == [["b"], [], ["a"]]


def test_filters(vectors):
    """Tags, window and category restrict what is found, before the best are chosen."""
    for n in range(12):
        tags = (("even",) if n % 2 == 0 else ()) + (("third",) if n % 3 == 0 else ())
        event = None if n == 11 else DAY + timedelta(days=n)
        vectors.add(f"a{n}", vector=seeded(f"a{n}"), tags=tags, event_time=event, category="x" if n < 4 else None)
    query = seeded("query")
    order = vectors.found(query, 12)

    def expected(numbers):
        return [name for name in order if int(name[1:]) in numbers]

    assert vectors.found(query, tags=("even",)) == expected({0, 2, 4, 6, 8, 10})
    assert vectors.found(query, tags=("even", "third")) == expected({0, 6})
    assert vectors.found(query, 1, tags=("third",)) == expected({0, 3, 6, 9})[:1]
    assert vectors.found(query, category="x") == expected({0, 1, 2, 3})
    assert vectors.found(query, tags=("even",), category="x") == expected({0, 2})
    window = {"since": DAY + timedelta(days=3), "until": DAY + timedelta(days=5), "time_field": "event"}
    assert vectors.found(query, **window) == expected({3, 4})
    assert vectors.found(query, tags=("none",)) == []


def test_cosines(vectors):
    """Cosines are those of the keys asked for that have a vector, the same as a search gives."""
    keys = [vectors.add(f"a{n}") for n in range(5)]
    (bare,) = vectors.put(Item(scope_id="s", text="bare"))
    other = vectors.add("b", scope_id="S")
    query = seeded("query")
    found = vectors.cosines([keys[3], bare, keys[1], other, 999, keys[3]], query)

    assert list(found) == [keys[3], keys[1], other]
    assert {vectors.names[key]: found[key] for key in (keys[3], keys[1])}.items() <= dict(
        vectors.nearest(query)
    ).items()
    assert vectors.cosines([], query) == {}


def test_what_changes_loses_its_vector(vectors):
    """A vector goes with the revision that it belongs to, at once: replaced, retired, revived or purged."""
    for name in ("a", "b", "c", "d"):
        vectors.add(name)
    before = vectors.put(Item(scope_id="s", artifact_id="d", text="t"))
    assert vectors.found(seeded("d"), 1) == ["d"]

    vectors.put(Item(scope_id="s", artifact_id="a", text="other"))
    vectors.store.catalogue.retire([("s", "memory", "b")])
    vectors.store.catalogue.purge([("s", "memory", "c")])
    assert (vectors.index.count(), vectors.found(seeded("a"))) == (1, ["d"])

    vectors.put(Item(scope_id="s", artifact_id="b", text="t"))
    assert (vectors.index.count(), vectors.found(seeded("b"))) == (1, ["d"])
    assert vectors.index.upsert({before[0]: seeded("new")}) == 1
    assert vectors.nearest(seeded("new"), 1)[0][1] == pytest.approx(1, abs=1e-3)
    assert [name for name, _ in vectors.nearest(seeded("new"))] == ["d"]


def test_only_current_revisions_take_vectors(vectors):
    """Keys that are superseded, retired, purged or unknown are left out, and the others stored."""
    old, retired, purged = (
        vectors.put(Item(scope_id="s", artifact_id=name, text="t"))[0] for name in ("old", "retired", "purged")
    )
    (new,) = vectors.put(Item(scope_id="s", artifact_id="old", text="new"))
    vectors.store.catalogue.retire([("s", "memory", "retired")])
    vectors.store.catalogue.purge([("s", "memory", "purged")])

    assert vectors.index.upsert({key: seeded(key) for key in (old, retired, purged, new, 7)}) == 1
    assert (vectors.index.count(), vectors.found(seeded(new))) == (1, ["old"])


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        (seeded(0)[:-4], "dimensions"),
        (seeded(0) + b"\0\0\0\0", "dimensions"),
        (b"", "dimensions"),
        (bytes(DIMENSIONS * 4), "zeros"),
        (struct.pack("<f", math.nan) + seeded(0)[4:], "unit length"),
        (struct.pack("<f", math.inf) + seeded(0)[4:], "unit length"),
        (struct.pack("<f", -math.inf) + seeded(0)[4:], "unit length"),
        (struct.pack(f"<{DIMENSIONS}f", *[0.5] * DIMENSIONS), "unit length"),
        (struct.pack(f"<{DIMENSIONS}f", *[3e38] * DIMENSIONS), "unit length"),
        ([0.5] * DIMENSIONS, "list"),
    ],
)
def test_bad_vectors(vectors, vector, reason):
    """What is not a unit-length vector of the model is refused in words, to store and to search; nothing is stored."""
    (good, bad) = vectors.put(Item(scope_id="s", text="good"), Item(scope_id="s", text="bad"))

    with pytest.raises(InvalidRequest, match=reason):
        vectors.index.upsert({good: seeded(1), bad: vector})
    with pytest.raises(InvalidRequest, match=reason):
        vectors.nearest(vector)
    with pytest.raises(InvalidRequest, match=reason):
        vectors.cosines([good], vector)
    assert vectors.index.count() == 0


def test_other_model(vectors):
    """Another model, or other dimensions, are refused while there are vectors, with what is there and what to do."""
    other = attrs.evolve(PROFILE, fingerprint="model/2", dimensions=DIMENSIONS // 2)
    vectors.index.attach(other)
    vectors.index.attach(PROFILE)
    key = vectors.add("a")
    vectors.index.attach(attrs.evolve(PROFILE, noise=0.2, languages=("zh",)))

    with pytest.raises(CapabilityError) as caught:
        vectors.index.attach(other)
    for part in ("model/1", "24 dimensions", "model/2", "12 dimensions", "powerctx embed --rebuild"):
        assert part in str(caught.value)
    with pytest.raises(CapabilityError, match="model/1"):
        vectors.index.attach(attrs.evolve(PROFILE, dimensions=DIMENSIONS // 2))
    # What was attached goes on.
    assert vectors.found(seeded("a")) == ["a"]

    assert vectors.index.clear() == 1
    vectors.index.attach(other)
    assert vectors.index.upsert({key: unit([1] * 12)}) == 1
    assert vectors.found(unit([1] * 12)) == ["a"]


def test_no_model(store):
    """Without a model nothing can be stored or searched, which is said; what has no vector can be told."""
    vectors = Vectors(store)
    (key,) = vectors.put(Item(scope_id="s", text="t"))

    for call in (
        lambda: vectors.index.upsert({key: seeded(0)}),
        lambda: vectors.nearest(seeded(0)),
        lambda: vectors.cosines([key], seeded(0)),
    ):
        with pytest.raises(CapabilityError, match="embedder"):
            call()
    assert [found.key for found in vectors.index.unembedded(5)] == [key]


def test_unembedded(vectors):
    """What has no vector comes in key order with family and text, from a key on, and stops when it has one."""
    keys = vectors.put(
        Item(scope_id="s", text="one"),
        Item(scope_id="s", text="two", title="Title"),
        Item(scope_id="S", text="x" * 4095 + "é and more", family="experience"),
    )
    found = vectors.index.unembedded(10)

    assert [item.key for item in found] == sorted(keys)
    assert {item.key: (item.family, item.text) for item in found} == {
        keys[0]: ("memory", "one"),
        keys[1]: ("memory", "Title\ntwo"),
        keys[2]: ("experience", "x" * 4095),
    }
    assert [item.key for item in vectors.index.unembedded(1)] == [min(keys)]
    assert [item.key for item in vectors.index.unembedded(10, min(keys))] == sorted(keys)[1:]
    assert vectors.index.unembedded(0) == []
    vectors.index.upsert({keys[0]: seeded(0)})
    assert keys[0] not in {item.key for item in vectors.index.unembedded(10)}


def test_cached(vectors):
    """The vector of a text is known while a current revision was embedded with it, wherever that is."""
    vectors.add("a", "one text", vector=seeded("one"))
    vectors.add("b", "two", title="A title", vector=seeded("two"), scope_id="S")
    vectors.put(Item(scope_id="s", artifact_id="c", text="three"))
    texts = ["one text", embedding_text("A title", "two"), "two", "three", "\ud800", ""]
    found = vectors.index.cached(texts)

    assert set(found) == set(texts[:2])
    assert cosine(found["one text"], seeded("one")) == pytest.approx(1, abs=1e-3)
    (key,) = vectors.put(Item(scope_id="s", artifact_id="d", text="one text"))
    assert vectors.index.upsert({key: found["one text"]}) == 1
    assert len({score for _, score in vectors.nearest(seeded("x"))}) == 1
    vectors.store.catalogue.retire([("s", "memory", "a")])
    assert set(vectors.index.cached(texts)) == set(texts[:2])
    vectors.store.catalogue.purge([("s", "memory", "d")])
    assert set(vectors.index.cached(texts)) == {texts[1]}
    assert vectors.index.cached([]) == {}


def test_snapshots(vectors):
    """A snapshot shows the vectors of its moment, whatever is stored, replaced or removed meanwhile."""
    for name in ("a", "b", "c"):
        vectors.add(name)
    before = dict(vectors.nearest(seeded("a")))
    with vectors.store.catalogue.snapshot(Deadline()) as snapshot:
        snapshot.changes()
        vectors.add("d")
        vectors.put(Item(scope_id="s", artifact_id="a", text="other"))
        vectors.store.catalogue.retire([("s", "memory", "b")])

        assert set(vectors.found(seeded("a"))) == {"c", "d"}
        assert dict(vectors.nearest(seeded("a"), snapshot=snapshot)) == before


def test_changes(vectors):
    """Storing and deleting vectors moves the counter that tells of changes, and doing nothing does not."""

    def changes():
        with vectors.store.catalogue.snapshot(Deadline()) as snapshot:
            return snapshot.changes()

    (key,) = vectors.put(Item(scope_id="s", text="t"))
    seen = [changes()]
    for step in (
        lambda: vectors.index.upsert({key: seeded(0)}),
        lambda: vectors.index.upsert({key + 1: seeded(0)}),
        lambda: vectors.nearest(seeded(0)),
        vectors.index.clear,
        vectors.index.clear,
    ):
        step()
        seen.append(changes())
        vectors.index.attach(PROFILE)

    assert [later > earlier for earlier, later in pairwise(seen)] == [
        True,
        False,
        False,
        True,
        False,
    ]


@pytest.mark.needs(Capability.DURABLE)
def test_reopened(vectors, reopen):
    """Vectors and their model are there when the store is opened again."""
    vectors.add("a")
    vectors.add("b")
    again = attrs.evolve(vectors, store=reopen())

    with pytest.raises(CapabilityError, match="model/1"):
        again.index.attach(attrs.evolve(PROFILE, fingerprint="model/2"))
    again.index.attach(PROFILE)
    assert again.found(seeded("b"), 1) == ["b"]
    assert (again.index.count(), again.index.unembedded(5)) == (2, [])
