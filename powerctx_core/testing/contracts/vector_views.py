"""Vectors: what readers and threads see of them."""

from __future__ import annotations

import copy
import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from powerctx_core.memory_store import MemoryStore
from powerctx_core.records import NoSettings
from powerctx_core.testing.contracts.vector_store import VectorStoreContract
from powerctx_core.testing.threads import at_once, meeting
from powerctx_core.testing.vector_words import (
    PATIENCE,
    PROFILE,
    Vectors,
    close,
    cosine,
    seeded,
)
from powerctx_core.types import Deadline, Key

__all__ = ["VectorViewContract"]


class VectorViewContract(VectorStoreContract):
    """What readers and threads see of vectors, and that they behave as the reference."""

    def test_vector_snapshot(self, vectors: Vectors) -> None:
        """A snapshot shows the vectors of its moment, whatever is stored, replaced or deleted meanwhile."""
        keys = vectors.fill({name: seeded(name) for name in "abcd"})
        query = seeded("query")
        with vectors.store.catalogue.snapshot(Deadline()) as snapshot:
            before = vectors.nearest(query, snapshot=snapshot)
            for change in (
                lambda: vectors.add("e"),
                lambda: vectors.fill({f"near {n}": seeded(n, near=query) for n in range(40)}),
                lambda: vectors.nearest(query),  # whoever asks may make the index look at the newest state
                lambda: vectors.put(vectors.item("a", "other")),
                lambda: vectors.retire("b"),
                lambda: vectors.purge("c"),
                lambda: vectors.index.upsert({keys["d"]: seeded("new")}),
                vectors.index.clear,
            ):
                change()
                assert vectors.nearest(query, 4, snapshot=snapshot) == before
                asked = vectors.cosines(list(keys.values()), query, snapshot)
                assert {vectors.names[key]: score for key, score in asked.items()} == dict(before)
        vectors.index.attach(PROFILE)

        assert len(before) == 4
        assert vectors.nearest(query) == []

    def test_vector_changes(self, vectors: Vectors) -> None:
        """Storing and deleting vectors moves the change counter; what stores and deletes nothing does not."""
        (key,) = vectors.put(vectors.item("a"))
        seen = [vectors.changes()]
        for step in (
            lambda: vectors.index.upsert({key: seeded(0)}),
            lambda: vectors.index.upsert({2**62: seeded(0)}),
            lambda: vectors.index.upsert({}),
            lambda: vectors.nearest(seeded(0)),
            vectors.index.clear,
            vectors.index.clear,
        ):
            step()
            seen.append(vectors.changes())
        moved = [later > earlier for earlier, later in pairwise(seen)]

        assert moved == [True, False, False, False, True, False]

    def test_vector_answers_not_shared(self, vectors: Vectors) -> None:
        """Whoever changes an answer changes no later one."""
        keys = list(vectors.fill({name: seeded(name) for name in "abc"}).values())
        vectors.put(vectors.item("bare"))
        with vectors.store.catalogue.snapshot(Deadline()) as snapshot:

            def answers() -> list[Any]:
                index = vectors.index
                return [
                    index.nearest([vectors.request(seeded("q"))], snapshot),
                    index.cosines(keys, seeded("q"), snapshot),
                    index.cached(["t"]),
                    index.unembedded(5),
                ]

            before = repr(answers())
            given = answers()
            for answer in (given[0][0] if given[0] else [], *given):
                with suppress(AttributeError, TypeError):
                    answer.clear()

            assert repr(answers()) == before

    def test_vector_input_stays(self, vectors: Vectors) -> None:
        """What is given is not changed, and may be changed afterwards."""
        keys = vectors.put(vectors.item("a"), vectors.item("b"))
        stored, texts = {keys[0]: seeded("a"), keys[1]: seeded("b"), 2**62: seeded("c")}, ["t", "u", "t"]
        asked, requests = [keys[1], keys[1], keys[0]], [vectors.request(seeded("a")), vectors.request(seeded("b"))]
        given = (stored, texts, asked, requests)
        before = copy.deepcopy(given)
        vectors.index.upsert(stored)
        vectors.index.cached(texts)
        vectors.cosines(asked, seeded("a"))
        with vectors.store.catalogue.snapshot(Deadline()) as snapshot:
            vectors.index.nearest(requests, snapshot)

        assert given == before
        stored.clear()
        assert vectors.found(seeded("b")) == ["b", "a"]

    def test_vectors_read_while_written(self, vectors: Vectors) -> None:
        """Who reads while vectors are replaced sees all of the old or all of the new, and agrees with itself."""
        size = 20
        keys = list(vectors.fill({f"a{n}": seeded("old") for n in range(size)}).values())
        allowed = {round(cosine(seeded("q"), seeded(name)), 2) for name in ("old", "new")}
        done = threading.Event()
        torn: list[object] = []

        def write() -> None:
            try:
                for number in range(30):
                    vectors.index.upsert(dict.fromkeys(keys, seeded("old" if number % 2 else "new")))
            finally:
                done.set()

        def read() -> None:
            reads = 0
            while reads < 5 or not done.is_set():
                reads += 1
                with vectors.store.catalogue.snapshot(Deadline()) as snapshot:
                    found = dict(vectors.index.nearest([vectors.request(seeded("q"), 50)], snapshot)[0])
                    asked = dict(vectors.index.cosines(keys, seeded("q"), snapshot))
                scores = {round(score, 2) for score in found.values()}
                if len(found) != size or len(scores) != 1 or not scores <= allowed or asked != found:
                    torn.append({"found": len(found), "cosines": scores, "cosines() agrees": asked == found})

        at_once(write, read, read)

        assert torn == []

    @pytest.mark.usefixtures("restless")
    def test_vector_writers_lose_nothing(self, vectors: Vectors) -> None:
        """Threads that store vectors at the same moment lose none, and each text is known."""
        names = [f"a{n}" for n in range(100)]
        keys = dict(zip(names, vectors.put(*(vectors.item(name, name) for name in names)), strict=True))
        barrier = threading.Barrier(4)

        def write(own: Sequence[str]) -> int:
            taken, batches = 0, [{keys[name]: seeded(name)} for name in own]
            with meeting(barrier):
                for batch in batches:
                    barrier.wait(PATIENCE)
                    taken += vectors.index.upsert(batch)
            return taken

        assert at_once(*(partial(write, names[start::4]) for start in range(4))) == [25] * 4
        assert vectors.index.count() == len(names)
        assert set(vectors.index.cached(names)) == set(names)
        assert [vectors.found(seeded(name), 1) for name in names] == [[name] for name in names]

    def test_vectors_as_reference(self, vectors: Vectors, request: pytest.FixtureRequest) -> None:
        """Random operations leave the same vectors, texts and gaps as in the reference in memory."""
        rounds: int = request.config.getoption("conformance_examples")
        reference = Vectors(MemoryStore("memory://", NoSettings()))
        reference.index.attach(PROFILE)
        both = (vectors, reference)
        rng = random.Random(11)  # noqa: S311 - not a secret
        written: list[tuple[Key, ...]] = []
        for step in range(120 * rounds):
            name, text = f"a{rng.randrange(8)}", f"text {rng.randrange(4)}"
            what = rng.random()
            if what < 0.4 or not written:
                fields: dict[str, Any] = {"category": rng.choice((None, "c"))}
                written.append(tuple(each.put(each.item(name, text, **fields))[0] for each in both))
            elif what < 0.75:
                chosen = [rng.choice(written[-12:]) for _ in range(2)]
                made = [seeded(f"{step}-{place}") for place in range(2)]
                taken = {
                    each.index.upsert({keys[at]: v for keys, v in zip(chosen, made, strict=True)})
                    for at, each in enumerate(both)
                }
                assert len(taken) == 1, f"step {step}: this store and the reference took another number of vectors"
            elif what < 0.97:
                for each in both:
                    each.retire(name) if what < 0.86 else each.purge(name)
            else:
                for each in both:
                    each.index.clear()
                    each.index.attach(PROFILE)
            mine, theirs = (list(self._shown(each, seeded(f"query {step}"))) for each in both)
            assert mine == theirs, f"step {step}: left this store's count, gaps, known texts and nearest"

    @staticmethod
    def _shown(vectors: Vectors, query: bytes) -> Iterator[object]:
        yield vectors.index.count()
        yield sorted((vectors.names[each.key], each.text) for each in vectors.index.unembedded(100))
        yield sorted(vectors.index.cached([f"text {n}" for n in range(4)]))
        for category in (None, "c"):
            yield {name: close(score) for name, score in vectors.nearest(query, category=category)}
