"""Vectors: when they come and go, and what is refused."""

from __future__ import annotations

from typing import cast

import attrs
import pytest

from powerctx_core.errors import CapabilityError, InvalidRequest
from powerctx_core.ports import Store, Unembedded
from powerctx_core.testing.contracts.vector_store import VectorStoreContract
from powerctx_core.testing.vector_words import (
    BAD,
    DIMENSIONS,
    OTHER,
    PROFILE,
    Vectors,
    close,
    cosine,
    seeded,
    unit,
)
from powerctx_core.types import Key
from powerctx_core.vectors import embedding_text

__all__ = ["VectorLifeContract"]


class VectorLifeContract(VectorStoreContract):
    """Which vectors there are: when they come and go, what is refused, what is told of them."""

    @pytest.mark.parametrize("change", ["updated", "retired", "purged", "revived"])
    def test_vector_goes(self, vectors: Vectors, change: str) -> None:
        """A vector goes with its revision, at once: it is neither found nor counted, and its neighbours stay."""
        key, _ = vectors.add("a"), vectors.add("b")
        if change == "updated":
            vectors.put(vectors.item("a", "other"))
        elif change == "purged":
            vectors.purge("a")
        else:
            vectors.retire("a")
        if change == "revived":
            vectors.put(vectors.item("a"))

        assert vectors.found(seeded("a")) == ["b"]
        assert vectors.cosines([key], seeded("a")) == {}
        assert vectors.index.count() == 1

    def test_vector_stays(self, vectors: Vectors) -> None:
        """A vector stays when its item is stored again as it is, or another one changes."""
        vectors.add("a")
        vectors.put(vectors.item("a"), vectors.item("b"))
        vectors.retire("b")

        assert (vectors.found(seeded("a")), vectors.index.count()) == (["a"], 1)

    def test_results_have_keys(self, vectors: Vectors) -> None:
        """Each result of a put has the key of the revision that holds the content, also where nothing was stored."""
        created, again, other = vectors.put(vectors.item("a"), vectors.item("a"), vectors.item("b"))
        updated, unchanged = vectors.put(vectors.item("a", "new"), vectors.item("b"))
        vectors.retire("b")
        (revived,) = vectors.put(vectors.item("b"))

        assert (again, unchanged) == (created, other)
        assert len({created, other, updated, revived}) == 4
        assert vectors.index.upsert({updated: seeded("a"), revived: seeded("b")}) == 2

    def test_no_vector_is_cut(self, vectors: Vectors) -> None:
        """What holds of a few vectors holds of more than a thousand: all are told, stored, known and compared."""
        texts = [f"text {number}" for number in range(1100)]
        keys = vectors.put(*(vectors.item(text, text) for text in texts))
        made = [seeded(number % 50) for number in range(len(keys))]
        assert vectors.missing(2 * len(keys)) == sorted(keys)
        assert vectors.index.upsert(dict(zip(keys, made, strict=True))) == len(keys)

        assert (vectors.index.count(), vectors.missing()) == (len(keys), [])
        assert set(vectors.index.cached(texts)) == set(texts)
        assert set(vectors.cosines(keys, seeded("query"))) == set(keys)
        assert len(vectors.nearest(seeded("query"), len(keys))) == len(keys)

    def test_vector_replaced(self, vectors: Vectors) -> None:
        """A second vector of a revision takes the place of the first."""
        key = vectors.add("a", vector=seeded("old"))
        vectors.index.upsert({key: seeded("new")})

        assert vectors.nearest(seeded("new")) == [("a", close(1))]
        assert vectors.index.count() == 1

    def test_only_current_take_vectors(self, vectors: Vectors) -> None:
        """Keys that are superseded, retired, purged or unknown are left out, and the others stored and told."""
        old, retired, purged = vectors.put(*(vectors.item(name) for name in ("old", "retired", "purged")))
        (new,) = vectors.put(vectors.item("old", "new"))
        vectors.retire("retired")
        vectors.purge("purged")

        assert vectors.index.upsert({key: seeded(key) for key in (old, retired, purged, new, 7, 2**62)}) == 1
        assert (vectors.index.count(), vectors.found(seeded(new))) == (1, ["old"])

    @pytest.mark.parametrize("wrong", BAD)
    def test_bad_vectors(self, vectors: Vectors, wrong: str) -> None:
        """What is not a unit-length vector of the model is refused, and nothing of its batch is stored."""
        good, bad = vectors.put(vectors.item("good"), vectors.item("bad"))

        with pytest.raises(InvalidRequest):
            vectors.index.upsert({good: seeded(1), bad: cast("bytes", BAD[wrong])})
        assert (vectors.index.count(), vectors.nearest(seeded(1)), vectors.index.cached(["t"])) == (0, [], {})

    @pytest.mark.parametrize("wrong", BAD)
    def test_bad_query_vectors(self, vectors: Vectors, wrong: str) -> None:
        """Neither can be searched with what is not a unit-length vector of the model."""
        key = vectors.add("a")

        with pytest.raises(InvalidRequest):
            vectors.nearest(BAD[wrong])
        with pytest.raises(InvalidRequest):
            vectors.cosines([key], cast("bytes", BAD[wrong]))

    def test_other_model(self, vectors: Vectors) -> None:
        """While there are vectors another model is refused, with both names and what to do; the first goes on."""
        vectors.add("a")

        with pytest.raises(CapabilityError) as caught:
            vectors.index.attach(OTHER)
        for part in (
            "model/1",
            f"{DIMENSIONS} dimensions",
            "model/2",
            f"{DIMENSIONS // 2} dimensions",
            "powerctx embed --rebuild",
        ):
            assert part in str(caught.value)
        with pytest.raises(CapabilityError, match="model/1"):
            vectors.index.attach(attrs.evolve(PROFILE, dimensions=DIMENSIONS // 2))
        with pytest.raises(CapabilityError, match="model/2"):
            vectors.index.attach(attrs.evolve(PROFILE, fingerprint="model/2"))
        assert vectors.found(seeded("a")) == ["a"]

    def test_same_model(self, vectors: Vectors) -> None:
        """A model is the same one whatever else is known of it."""
        vectors.add("a")
        vectors.index.attach(attrs.evolve(PROFILE, noise=0.2, match=0.6, languages=("zh",), weight=1.0))

        assert vectors.found(seeded("a")) == ["a"]

    def test_model_changes(self, vectors: Vectors) -> None:
        """Any model may be attached while there are no vectors: before the first, and after the last was deleted."""
        vectors.index.attach(OTHER)
        vectors.index.attach(PROFILE)
        key = vectors.add("a")
        vectors.index.clear()
        vectors.index.attach(OTHER)

        assert vectors.index.upsert({key: unit([1] * OTHER.dimensions)}) == 1
        assert vectors.nearest(unit([1] * OTHER.dimensions)) == [("a", close(1))]

    def test_no_model(self, store: Store) -> None:
        """Without a model nothing can be stored or searched, which is said; what has no vector can be told."""
        vectors = Vectors(store)
        (key,) = vectors.put(vectors.item("a"))

        for call in (
            lambda: vectors.index.upsert({key: seeded(0)}),
            lambda: vectors.nearest(seeded(0)),
            lambda: vectors.cosines([key], seeded(0)),
        ):
            with pytest.raises(CapabilityError):
                call()
        assert vectors.missing() == [key]

    def test_clear(self, vectors: Vectors) -> None:
        """Deleting all vectors deletes those of every partition, tells their number, and leaves the items."""
        keys = [vectors.add("a"), vectors.add("b", scope_id="S"), vectors.add("c", family="experience")]

        assert vectors.index.clear() == 3
        vectors.index.attach(PROFILE)
        assert (vectors.index.count(), vectors.index.cached(["t"])) == (0, {})
        assert (vectors.nearest(seeded("a")), vectors.cosines(keys, seeded("a"))) == ([], {})
        assert vectors.missing() == sorted(keys)

    def test_unembedded(self, vectors: Vectors) -> None:
        """What has no vector is told with family and the text to embed; what has one, or is not current, is not."""
        keys = vectors.put(
            vectors.item("a", "one"),
            vectors.item("b", "two", title="Title"),
            vectors.item("c", "x" * 4095 + "é and more", family="experience", scope_id="S"),
        )
        vectors.add("embedded")
        vectors.put(vectors.item("retired"), vectors.item("purged"))
        vectors.retire("retired")
        vectors.purge("purged")
        families, texts = ("memory", "memory", "experience"), ("one", "Title\ntwo", "x" * 4095)

        assert sorted(vectors.index.unembedded(10), key=lambda each: each.key) == sorted(
            (Unembedded(key=k, family=f, text=t) for k, f, t in zip(keys, families, texts, strict=True)),
            key=lambda each: each.key,
        )

    def test_unembedded_pages(self, vectors: Vectors) -> None:
        """It is told in key order, up to a number, above a key, so that who goes on meets everything once."""
        keys = vectors.put(*(vectors.item(f"a{n}", scope_id=f"s{n % 3}") for n in range(10)))
        pages: list[list[Key]] = []
        while len(pages) < 9 and (page := vectors.missing(4, pages[-1][-1] if pages else 0)):
            pages.append(page)

        assert pages == [sorted(keys)[start : start + 4] for start in (0, 4, 8)]
        assert vectors.missing(0) == []

    def test_cached(self, vectors: Vectors) -> None:
        """The vector of a text is known when a current revision was embedded with exactly it, in any partition."""
        vectors.add("a", "one text")
        vectors.add("b", "two", title="A title", scope_id="S")
        vectors.put(vectors.item("c", "three"))
        texts = ["one text", embedding_text("A title", "two"), "two", "three", "One text", "one text ", "\ud800", ""]
        found = vectors.index.cached(texts)

        assert set(found) == set(texts[:2])
        assert [cosine(found[texts[0]], seeded("a")), cosine(found[texts[1]], seeded("b"))] == [close(1), close(1)]
        assert vectors.index.cached([]) == {}

    def test_cached_again(self, vectors: Vectors) -> None:
        """A known vector can be stored for another item, and is then the same to every query."""
        vectors.add("a", vector=seeded("text"))
        known = vectors.index.cached(["t"])["t"]
        vectors.add("b", vector=known)
        found = vectors.nearest(seeded("query"))

        assert [name for name, _ in found] == ["a", "b"]
        assert found[0][1] == found[1][1]

    def test_cached_forgets(self, vectors: Vectors) -> None:
        """A text is forgotten with the last current revision of it: changed, retired or purged."""
        for name in ("a", "b", "c", "kept", "twin"):
            vectors.add(name, "same" if name in ("kept", "twin") else name)
        vectors.put(vectors.item("a", "other"))
        vectors.retire("b")
        vectors.purge("c")
        vectors.purge("twin")

        assert set(vectors.index.cached(["a", "b", "c", "same"])) == {"same"}

    def test_vector_count(self, vectors: Vectors) -> None:
        """The number of vectors is that of current revisions with one, over all partitions."""
        vectors.fill({f"a{n}": seeded(n) for n in range(5)})
        vectors.add("b", scope_id="S")
        vectors.put(vectors.item("bare"))
        counts = [vectors.index.count()]
        for change in (
            lambda: vectors.put(vectors.item("a0", "other")),
            lambda: vectors.retire("a1"),
            lambda: vectors.retire("a1"),
            lambda: vectors.purge("a2"),
            lambda: vectors.put(vectors.item("a3")),
            lambda: vectors.add("a1", "again"),
        ):
            change()
            counts.append(vectors.index.count())

        assert counts == [6, 5, 4, 4, 3, 3, 4]
