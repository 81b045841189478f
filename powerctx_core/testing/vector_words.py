"""Vectors that every process makes alike, and what the contracts say to a vector index, in few words."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from operator import mul
from typing import Any, cast

import attrs
import pytest

from powerctx_core.ports import NearestRequest, Snapshot, Store, VectorIndex
from powerctx_core.types import Deadline, EmbeddingProfile, Filters, Item, Key, Partition

__all__ = ["PROFILE", "Vectors", "clustered", "cosine", "floats", "packed", "queries", "seeded", "unit"]

DIMENSIONS = 64
"""Few enough for Python, and enough for an index that keeps a bit of each."""
PROFILE = EmbeddingProfile(fingerprint="model/1", dimensions=DIMENSIONS, languages=("en",), noise=0.1, match=0.5)
OTHER = attrs.evolve(PROFILE, fingerprint="model/2", dimensions=DIMENSIONS // 2)
DAY = datetime(2024, 1, 1, tzinfo=UTC)

SMALL = 200
"""Members of a partition up to which a search is exact."""
LARGE = 5000
RECALL = 0.95
"""In a partition of :data:`LARGE` members, so much of the ten nearest is found, averaged over queries."""
TOLERANCE = 1e-3
"""Of a cosine: float16 keeps within a third of it."""
LOOK_ALIKES = ("s", "S", "s ", " s", "ss", "s/", "s%", "s_", "ſ", "é", "e\u0301", "😀", "s\u200b")
PATIENCE = 60
BAD: Mapping[str, object] = {
    "short": bytes(4 * DIMENSIONS - 4),
    "long": bytes(4 * DIMENSIONS + 4),
    "empty": b"",
    "zeros": bytes(4 * DIMENSIONS),
    "NaN": struct.pack(f"<{DIMENSIONS}f", math.nan, 1, *[0] * (DIMENSIONS - 2)),
    "infinite": struct.pack(f"<{DIMENSIONS}f", math.inf, *[0] * (DIMENSIONS - 1)),
    "minus infinite": struct.pack(f"<{DIMENSIONS}f", -math.inf, *[0] * (DIMENSIONS - 1)),
    "not of unit length": struct.pack(f"<{DIMENSIONS}f", *[0.5] * DIMENSIONS),
    "too large to square": struct.pack(f"<{DIMENSIONS}f", *[3e38] * DIMENSIONS),
    "a list": [1.0, *[0.0] * (DIMENSIONS - 1)],
    "text": "1" * 4 * DIMENSIONS,
}


def unit(values: Sequence[float]) -> bytes:
    """Return the bytes of values, at unit length."""
    length = math.sqrt(sum(value * value for value in values))
    return packed([value / length for value in values])


def packed(values: Sequence[float]) -> bytes:
    """Return the bytes of values."""
    return struct.pack(f"<{len(values)}f", *values)


def seeded(seed: object, *, near: bytes | None = None) -> bytes:
    """Return a vector that belongs to *seed*, in any process; one that is *near* another has a cosine of some 0.8."""
    rng = random.Random(str(seed))  # noqa: S311 - not a secret
    noise = [rng.gauss(0, 1) for _ in range(DIMENSIONS)]
    if near is None:
        return unit(noise)
    share = 0.75 / math.sqrt(DIMENSIONS)
    return unit([value + each * share for value, each in zip(floats(near), noise, strict=True)])


def clustered(count: int) -> dict[str, bytes]:
    """Return so many vectors by artifact id, in clusters of about fifty, as those of real texts are."""
    centres = [seeded(f"centre {number}") for number in range(max(2, count // 50))]
    return {f"a{number}": seeded(number, near=centres[number % len(centres)]) for number in range(count)}


def queries(count: int, most: int) -> list[bytes]:
    """Return queries for that many clustered vectors: half of them in clusters, half anywhere."""
    centres = max(2, count // 50)
    inside = [seeded(f"query {n}", near=seeded(f"centre {n % centres}")) for n in range(most // 2)]
    return [*inside, *(seeded(f"far query {n}") for n in range(most - len(inside)))]


def floats(vector: bytes) -> Sequence[float]:
    """Return the values of a vector."""
    return struct.unpack(f"<{len(vector) // 4}f", vector)


def cosine(one: bytes, other: bytes) -> float:
    """Return the cosine of two vectors of unit length."""
    total: float = sum(map(mul, floats(one), floats(other)))
    return total


def close(expected: float) -> Any:
    """Return what equals a cosine that is as near as an index has to be."""
    return pytest.approx(expected, abs=TOLERANCE)


@attrs.define
class Vectors:
    """A store with vectors, and short ways to use it.

    Attributes:
        names: key -> artifact id of everything written.
    """

    store: Store
    names: dict[Key, str] = attrs.field(factory=dict)

    @property
    def index(self) -> VectorIndex:
        """The vector index, which has to be there."""
        index = self.store.vectors

        assert index is not None, "a store whose record says `vector` has a vector index"
        return index

    @staticmethod
    def item(artifact_id: str, text: str = "t", *, scope_id: str = "s", **fields: Any) -> Item:
        """Make an item."""
        return Item(scope_id=scope_id, artifact_id=artifact_id, text=text, **fields)

    def put(self, *items: Item) -> list[Key]:
        """Store items and return their keys."""
        results = self.store.catalogue.put(items)
        keys = [cast("Key", result.key) for result in results]
        self.names |= {key: result.address.artifact_id for key, result in zip(keys, results, strict=True)}
        return keys

    def add(self, artifact_id: str, text: str = "t", *, vector: bytes | None = None, **fields: Any) -> Key:
        """Store one item with a vector, that of its artifact id unless given, and return its key."""
        (key,) = self.put(self.item(artifact_id, text, **fields))
        taken = self.index.upsert({key: seeded(artifact_id) if vector is None else vector})

        assert taken == 1, "upsert() takes the vector of a revision that was just put"
        return key

    def fill(self, vectors: Mapping[str, bytes], **fields: Any) -> dict[str, Key]:
        """Store an item for every vector, and return the keys by artifact id."""
        names = list(vectors)
        keys: dict[str, Key] = {}
        for start in range(0, len(names), 1000):
            part = names[start : start + 1000]
            keys |= dict(zip(part, self.put(*(self.item(name, **fields) for name in part)), strict=True))
            taken = self.index.upsert({keys[name]: vectors[name] for name in part})
            assert taken == len(part), "upsert() takes the vectors of all revisions that were just put"
        return keys

    def retire(self, artifact_id: str) -> None:
        """Retire an artifact."""
        self.store.catalogue.retire([("s", "memory", artifact_id)])

    def purge(self, artifact_id: str) -> None:
        """Purge an artifact."""
        self.store.catalogue.purge([("s", "memory", artifact_id)])

    @staticmethod
    def request(
        vector: bytes, k: int = 10, *, scope_id: str = "s", family: str = "memory", **filters: Any
    ) -> NearestRequest:
        """Make a request."""
        return NearestRequest(partition=Partition(scope_id, family), vector=vector, k=k, filters=Filters(**filters))

    def ask(self, *requests: NearestRequest, snapshot: Snapshot | None = None) -> list[list[tuple[str, float]]]:
        """Return artifact ids and cosines that each request finds."""
        if snapshot is None:
            with self.store.catalogue.snapshot(Deadline()) as opened:
                return self.ask(*requests, snapshot=opened)
        found = self.index.nearest(requests, snapshot)
        return [[(self.names[key], score) for key, score in part] for part in found]

    def nearest(self, *args: Any, snapshot: Snapshot | None = None, **fields: Any) -> list[tuple[str, float]]:
        """Return the artifact ids and cosines of the nearest."""
        return self.ask(self.request(*args, **fields), snapshot=snapshot)[0]

    def found(self, *args: Any, **fields: Any) -> list[str]:
        """Return the artifact ids of the nearest."""
        return [name for name, _ in self.nearest(*args, **fields)]

    def cosines(self, keys: Sequence[Key], vector: bytes, snapshot: Snapshot | None = None) -> Mapping[Key, float]:
        """Return the cosines of keys."""
        if snapshot is not None:
            return self.index.cosines(keys, vector, snapshot)
        with self.store.catalogue.snapshot(Deadline()) as opened:
            return self.index.cosines(keys, vector, opened)

    def missing(self, limit: int = 100, after: Key = 0) -> list[Key]:
        """Return the keys of what has no vector."""
        return [each.key for each in self.index.unembedded(limit, after)]

    def changes(self) -> int:
        """Return the change counter."""
        with self.store.catalogue.snapshot(Deadline()) as snapshot:
            return snapshot.changes()
