"""Searches by the engine's index of vectors give what comparing every vector gives."""

from __future__ import annotations

import random
import struct
import time

import pytest

from powerctx_core.ports import NearestRequest
from powerctx_core.types import Deadline, EmbeddingProfile, Partition
from powerctx_core.vectors import half_precision

DIMENSIONS = 8
PROFILE = EmbeddingProfile(fingerprint="model/1", dimensions=DIMENSIONS, languages=("en",), noise=0.1, match=0.5)


def vector(seed):
    """Return a vector of unit length."""
    rng = random.Random(seed)
    values = [rng.gauss(0, 1) for _ in range(DIMENSIONS)]
    length = sum(value * value for value in values) ** 0.5
    return struct.pack(f"<{DIMENSIONS}f", *(value / length for value in values))


def product(one, other):
    """Return the product of two vectors."""
    return sum(a * b for a, b in zip(memoryview(one).cast("f"), memoryview(other).cast("f"), strict=True))


@pytest.fixture
def indexed(opened):
    """A store whose index is used from the first item on, and is loaded."""
    store = opened(exact_below=0)
    store.vectors.attach(PROFILE)
    return store


def filled(store, ask, vectors, scope="s"):
    """Store items with vectors, and return their keys."""
    items = [ask.item(f"apple {n}", f"a{n}", scope=scope) for n in range(len(vectors))]
    keys = [result.key for result in store.catalogue.put(items)]
    store.vectors.upsert(dict(zip(keys, vectors, strict=True)))
    return keys


def near(store, query, k, scope="s"):
    """Return keys and cosines."""
    with store.catalogue.snapshot(Deadline()) as snapshot:
        request = NearestRequest(partition=Partition(scope, "memory"), vector=query, k=k)
        return list(store.vectors.nearest([request], snapshot)[0])


@pytest.fixture
def warm(indexed):
    """A function that waits until a store's index is loaded."""

    def wait():
        near(indexed, vector("any"), 1)
        while indexed.status().problems:
            time.sleep(0.01)

    return wait


def test_equal_vectors_by_key(indexed, warm, ask, statements):
    """Of more equally near items than are asked of the index those with the lowest keys come."""
    query = vector("query")
    keys = filled(indexed, ask, [query, *[vector("same")] * 60])
    warm()
    statements.clear()

    assert keys[:5] == [key for key, _ in near(indexed, query, 5)]
    assert any("APPROXIMATE" in statement for statement in statements)


def test_cosine_is_the_product(indexed, warm, opened, ask):
    """Stored vectors are not of unit length any more when they are rounded; all stores compare by the product."""
    query, vectors = vector("query"), [vector(n) for n in range(50)]
    keys = filled(indexed, ask, vectors)
    warm()
    exact = opened()
    exact.vectors.attach(PROFILE)
    expected = {key: product(query, half_precision(each)) for key, each in zip(keys, vectors, strict=True)}

    for store in (indexed, exact):
        found = dict(near(store, query, 50))
        assert expected.keys() == found.keys()
        assert all(abs(expected[key] - cosine) < 1e-6 for key, cosine in found.items())
    assert any(abs(product(half_precision(each), half_precision(each)) - 1) > 1e-5 for each in vectors)


def test_small_scope_in_a_large_table(indexed, warm, ask, statements):
    """A scope that others outnumber loses nothing to them, and is searched by itself from the second time on."""
    query = vector("query")
    filled(indexed, ask, [query] * 100, scope="large")
    keys = filled(indexed, ask, [vector(n) for n in range(12)])
    warm()

    assert sorted(keys) == sorted(key for key, _ in near(indexed, query, 12))
    statements.clear()
    assert sorted(keys) == sorted(key for key, _ in near(indexed, query, 12))
    assert 1 == len([statement for statement in statements if "inner_product" in statement])
    assert [1.0] * 12 == [pytest.approx(cosine, abs=1e-3) for _, cosine in near(indexed, query, 12, "large")]
