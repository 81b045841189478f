"""Vectors: what is found by them."""

from __future__ import annotations

import math
import random
from datetime import timedelta
from typing import Any

import pytest

from powerctx_core.ports import Capability, Store, VectorIndex
from powerctx_core.testing.contracts.vector_store import VectorStoreContract
from powerctx_core.testing.vector_words import (
    DAY,
    DIMENSIONS,
    LARGE,
    LOOK_ALIKES,
    RECALL,
    SMALL,
    TOLERANCE,
    Vectors,
    close,
    clustered,
    cosine,
    floats,
    packed,
    queries,
    seeded,
    unit,
)

__all__ = ["NearestContract"]


class NearestContract(VectorStoreContract):
    """What is found by vectors: the nearest, in their partition, of what passes the filters, with true cosines."""

    def test_vector_port(self, store: Store) -> None:
        """The index is there and has the methods of its port."""
        assert isinstance(store.vectors, VectorIndex)

    def test_no_vectors(self, vectors: Vectors) -> None:
        """Where there are no vectors none is found, counted, known or deleted, with and without items."""
        for _ in range(2):
            assert (vectors.index.count(), vectors.index.cached(["t"])) == (0, {})
            assert vectors.nearest(seeded(0)) == []
            assert vectors.cosines([1, 2], seeded(0)) == {}
            assert vectors.index.upsert({}) == 0
            assert vectors.index.upsert({2**62: seeded(0)}) == 0
            assert vectors.index.clear() == 0
            vectors.put(vectors.item("a"))

    def test_nearest_exact(self, vectors: Vectors) -> None:
        """In a small partition the nearest are those of brute force: that many, best first, with their cosines."""
        stored = clustered(SMALL)
        vectors.fill(stored)
        for query in queries(SMALL, 8):
            truth = {name: cosine(query, vector) for name, vector in stored.items()}
            best = sorted(truth.values(), reverse=True)
            for k in (1, 10, SMALL):
                found = vectors.nearest(query, k)
                assert len({name for name, _ in found}) == k
                assert [score for _, score in found] == [close(truth[name]) for name, _ in found]
                assert [truth[name] for name, _ in found] == [close(score) for score in best[:k]]

    def test_nearest_recall(self, vectors: Vectors) -> None:
        """In a large partition nearly all of the ten nearest are found; what is found has its true cosine."""
        stored = clustered(LARGE)
        vectors.fill(stored)
        asked = queries(LARGE, 20)
        hits = 0
        for query in asked:
            truth = {name: cosine(query, vector) for name, vector in stored.items()}
            least = sorted(truth.values(), reverse=True)[9]
            found = vectors.nearest(query)
            hits += sum(truth[name] >= least - TOLERANCE for name in {name for name, _ in found})
            assert [score for _, score in found] == [close(truth[name]) for name, _ in found]

        assert hits / (10 * len(asked)) >= RECALL

    def test_nearest_at_most_k(self, vectors: Vectors) -> None:
        """As many are found as were asked for, or as there are; none for zero."""
        vectors.fill({f"a{n}": seeded(n) for n in range(5)})

        assert [len(vectors.nearest(seeded(0), k)) for k in (0, 1, 4, 5, 6, 10_000)] == [0, 1, 4, 5, 5, 5]

    def test_nearest_ties(self, vectors: Vectors) -> None:
        """Equal vectors have equal cosines, and come in the order of their keys, whatever was stored first."""
        names = [f"a{n}" for n in random.Random(7).sample(range(40), 40)]  # noqa: S311 - not a secret
        keys = dict(zip(names, vectors.put(*(vectors.item(name) for name in names)), strict=True))
        for name in sorted(names):
            vectors.index.upsert({keys[name]: seeded("same")})
        vectors.add("best", vector=seeded("query"))
        ordered = sorted(names, key=keys.__getitem__)
        found = vectors.nearest(seeded("query"), 50)

        assert [name for name, _ in found] == ["best", *ordered]
        assert len({score for _, score in found}) == 2
        assert vectors.found(seeded("query"), 8) == ["best", *ordered[:7]]

    def test_nearest_all_but_ties(self, vectors: Vectors) -> None:
        """Cosines that only the order of adding tells apart are equal, and none is a zero with a sign."""
        rng = random.Random(3)  # noqa: S311 - not a secret
        query = unit([1.0] * 62 + [0.0] * (DIMENSIONS - 62))
        for shift in (0, 5):
            # Float16 holds each of them, and in truth their sum does not depend on their order.
            values = [(sign * step + shift) / 4096 for step in range(505, 536) for sign in (1, -1)]
            rest = [0.0] * (DIMENSIONS - 62)
            scope = f"shifted by {shift}"
            stored = {f"{scope} {n}": packed([*rng.sample(values, 62), *rest]) for n in range(40)}
            keys = vectors.fill(stored, scope_id=scope)
            found = vectors.nearest(query, 20, scope_id=scope)

            assert len({score for _, score in found}) == 1
            assert math.copysign(1.0, found[0][1]) == 1.0
            assert [name for name, _ in found] == sorted(keys, key=keys.__getitem__)[:20]
            asked = vectors.cosines(list(keys.values()), query)
            assert set(asked.values()) == {found[0][1]}

    def test_negative_cosines(self, vectors: Vectors) -> None:
        """What points the other way is found too, last, with a cosine below zero."""
        opposite = unit([-value for value in floats(seeded("query"))])
        vectors.fill({"opposite": opposite, "away": seeded("away", near=opposite), "near": seeded("query")})
        found = vectors.nearest(seeded("query"))

        assert [name for name, _ in found] == ["near", "away", "opposite"]
        assert [score for _, score in found] == [
            close(1),
            close(cosine(seeded("query"), seeded("away", near=opposite))),
            close(-1),
        ]

    def test_vector_partitions(self, vectors: Vectors) -> None:
        """A search stays in its scope and family, however alike another one's name is."""
        for scope in LOOK_ALIKES:
            vectors.add(f"in {scope}", scope_id=scope, vector=seeded("same"))
        vectors.add("elsewhere", family="experience", vector=seeded("same"))

        assert [vectors.found(seeded("same"), scope_id=scope) for scope in LOOK_ALIKES] == [
            [f"in {scope}"] for scope in LOOK_ALIKES
        ]
        assert vectors.found(seeded("same"), family="experience") == ["elsewhere"]
        assert vectors.found(seeded("same"), scope_id="nobody") == []

    def test_requests_in_order(self, vectors: Vectors) -> None:
        """Several requests at once are answered in their order, each by itself."""
        vectors.fill({"a": seeded("a"), "b": seeded("b")}, tags=("x",))
        vectors.add("c", scope_id="S")
        requests = [
            vectors.request(seeded("b"), 1),
            vectors.request(seeded("b"), scope_id="S"),
            vectors.request(seeded("a"), scope_id="nobody"),
            vectors.request(seeded("a"), tags=("y",)),
            vectors.request(seeded("a"), 2),
        ]

        assert [[name for name, _ in part] for part in vectors.ask(*requests)] == [["b"], ["c"], [], [], ["a", "b"]]
        assert vectors.ask() == []

    @pytest.mark.needs(Capability.TAGS)
    def test_vector_tags(self, vectors: Vectors) -> None:
        """Only what has every tag of the filter is found."""
        for number, tags in enumerate([(), ("x",), ("y",), ("x", "y"), ("X",), ("xy",)]):
            vectors.add(f"a{number}", tags=tags)
        found = [set(vectors.found(seeded("q"), tags=tags)) for tags in (("x",), ("y", "x"), ("X",), ("none",))]

        assert found == [{"a1", "a3"}, {"a3"}, {"a4"}, set()]

    def test_vector_category(self, vectors: Vectors) -> None:
        """Only what is of the filter's category is found."""
        for number, category in enumerate([None, "c", "C", "c"]):
            vectors.add(f"a{number}", category=category)

        assert [set(vectors.found(seeded("q"), category=each)) for each in ("c", "C", "none")] == [
            {"a1", "a3"},
            {"a2"},
            set(),
        ]

    @pytest.mark.needs(Capability.WINDOW)
    @pytest.mark.parametrize("kind", ["created", "updated", "event"])
    def test_vector_window(self, vectors: Vectors, kind: str) -> None:
        """Only what lies in the window is found: since included, until not, by the time that the filter names."""
        field = "event_time" if kind == "event" else f"{kind}_at"
        for number in range(4):
            times: dict[str, Any] = {field: DAY + timedelta(days=number)}
            vectors.add(f"a{number}", **times)
        window = {"since": DAY + timedelta(days=1), "until": DAY + timedelta(days=3)}
        if kind == "event":
            vectors.add("timeless")

        assert set(vectors.found(seeded("q"), time_field=kind, **window)) == {"a1", "a2"}

    def test_vector_filter_first(self, vectors: Vectors) -> None:
        """Filters apply before the nearest are chosen: what passes is found although others are nearer."""
        stored = clustered(SMALL)
        vectors.fill(stored)
        query = seeded("query", near=seeded("centre 0"))
        far = sorted(stored, key=lambda name: cosine(query, stored[name]))[:3]
        for name in far:
            vectors.add(name, "other", category="c", vector=stored[name])

        assert vectors.found(query, 2, category="c") == [far[2], far[1]]

    def test_cosines_of(self, vectors: Vectors) -> None:
        """Cosines are those of the keys asked for that have a vector, in any partition, in the order asked."""
        keys = [vectors.add(f"a{n}") for n in range(5)]
        (bare,) = vectors.put(vectors.item("bare"))
        other = vectors.add("b", scope_id="S")
        found = vectors.cosines([keys[3], bare, keys[1], other, 2**62, 0, -1, keys[3]], seeded("query"))

        assert list(found) == [keys[3], keys[1], other]
        assert list(found.values()) == [close(cosine(seeded("query"), seeded(name))) for name in ("a3", "a1", "b")]
        assert vectors.cosines([], seeded("query")) == {}

    def test_cosines_as_nearest(self, vectors: Vectors) -> None:
        """A cosine is the same number whether it is asked for or found."""
        keys = vectors.fill(clustered(SMALL))

        for query in queries(SMALL, 4):
            found = dict(vectors.nearest(query, SMALL))
            asked = vectors.cosines(list(keys.values()), query)
            assert {vectors.names[key]: score for key, score in asked.items()} == found
