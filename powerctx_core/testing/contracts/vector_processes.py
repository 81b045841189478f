"""Vectors: durability and processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from powerctx_core.errors import CapabilityError
from powerctx_core.ports import Capability, FetchRequest, Store
from powerctx_core.testing.contracts.vector_store import VectorStoreContract
from powerctx_core.testing.process import opened
from powerctx_core.testing.vector_words import (
    OTHER,
    PATIENCE,
    PROFILE,
    Vectors,
    close,
    seeded,
    unit,
)
from powerctx_core.types import Deadline, Partition

__all__ = ["VectorProcessContract", "write_vectors"]

PROGRAM = (
    "import sys; from powerctx_core.testing.contracts.vector_processes import write_vectors; write_vectors(sys.argv[1])"
)


def write_vectors(argument: str) -> None:
    """Write to a store from another process, a batch at a time, and print the number of each once it is acknowledged.

    Args:
        argument: JSON object with what :func:`powerctx_core.testing.process.opened` needs, and with ``batches`` and
            ``size``.  Batch N holds ``p<N>-0`` …, each with the vector of its artifact id.
    """
    job: dict[str, Any] = json.loads(argument)
    with opened(job) as store:
        vectors = Vectors(store)
        vectors.index.attach(PROFILE)
        for number in range(job["batches"]):
            vectors.fill({name: seeded(name) for name in batch(number, job["size"])})
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()
        vectors.store.close()


def batch(number: int, size: int) -> list[str]:
    """Return the artifact ids of a batch of the other process."""
    return [f"p{number}-{each}" for each in range(size)]


class VectorProcessContract(VectorStoreContract):
    """Vectors of a durable store stay, and other processes see them."""

    @pytest.fixture
    def start(self, start_process: Callable[..., subprocess.Popen[str]]) -> Callable[..., subprocess.Popen[str]]:
        """Give a function that starts another process, see :func:`write_vectors`; it is killed at the end."""

        def start(batches: int, size: int) -> subprocess.Popen[str]:
            return start_process("-c", PROGRAM, batches=batches, size=size)

        return start

    @pytest.mark.needs(Capability.DURABLE)
    def test_vectors_reopened(self, vectors: Vectors, reopen: Callable[[], Store]) -> None:
        """When the store is opened again its vectors, their texts and their model are there."""
        vectors.fill({"a": seeded("a"), "b": seeded("b")})
        again = attrs.evolve(vectors, store=reopen())

        with pytest.raises(CapabilityError, match="model/1"):
            again.index.attach(OTHER)
        again.index.attach(PROFILE)
        assert again.found(seeded("b")) == ["b", "a"]
        assert (again.index.count(), again.missing(), set(again.index.cached(["t"]))) == (2, [], {"t"})

    @pytest.mark.needs(Capability.DURABLE, Capability.MULTI_PROCESS)
    def test_vectors_opened_twice(self, vectors: Vectors, open_again: Callable[[], Store]) -> None:
        """What is stored and deleted through one opened store shows through another at once, both ways."""
        other = Vectors(open_again(), vectors.names)
        other.index.attach(PROFILE)
        for number, (one, two) in enumerate([(vectors, other), (other, vectors)] * 3):
            one.add(f"a{number}")
            assert two.found(seeded(f"a{number}"), 1) == [f"a{number}"]
            assert (one.index.count(), two.index.count()) == (number + 1, number + 1)
        vectors.retire("a2")
        assert "a2" not in other.found(seeded("a2"))
        other.index.clear()
        assert vectors.found(seeded("a1")) == []

    @pytest.mark.needs(Capability.DURABLE, Capability.MULTI_PROCESS)
    def test_other_model_meanwhile(self, vectors: Vectors, open_again: Callable[[], Store]) -> None:
        """Who attached a model before another opened store wrote vectors of another one is refused, not mixed up."""
        (key,) = vectors.put(vectors.item("a"))
        other = Vectors(open_again(), vectors.names)
        other.index.attach(OTHER)
        assert other.index.upsert({key: unit([1] * OTHER.dimensions)}) == 1

        with pytest.raises(CapabilityError):
            vectors.index.upsert({key: seeded("a")})
        with pytest.raises(CapabilityError):
            vectors.nearest(seeded("a"))
        assert other.found(unit([1] * OTHER.dimensions)) == ["a"]

    @pytest.mark.needs(Capability.DURABLE, Capability.MULTI_PROCESS)
    def test_vectors_of_a_process(self, vectors: Vectors, start: Callable[..., subprocess.Popen[str]]) -> None:
        """What another process has stored is found here as soon as it says so; when both have written all is there."""
        process = start(5, 4)
        assert process.stdout is not None
        for number in range(5):
            assert process.stdout.readline() == f"{number}\n"
            names = batch(number, 4)
            self._learn(vectors)
            assert [vectors.nearest(seeded(name), 1) for name in names] == [[(name, close(1))] for name in names]
            vectors.add(f"own {number}")

        assert process.wait(PATIENCE) == 0
        assert (vectors.index.count(), vectors.missing()) == (25, [])

    @pytest.mark.needs(Capability.DURABLE)
    def test_vectors_after_a_kill(
        self, start: Callable[..., subprocess.Popen[str]], open_again: Callable[[], Store]
    ) -> None:
        """After a kill every acknowledged vector is found, whole batches are there, and what is missing is told."""
        size, told = 4, 6
        process = start(100_000, size)
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(told)]
        process.kill()
        rest, _ = process.communicate(timeout=PATIENCE)
        acknowledged = told + rest.count("\n")
        vectors = Vectors(open_again())
        vectors.index.attach(PROFILE)
        stored = self._learn(vectors)
        names = [name for number in range(acknowledged) for name in batch(number, size)]

        assert lines == [f"{number}\n" for number in range(told)]
        assert [vectors.nearest(seeded(name), 1) for name in names] == [[(name, close(1))] for name in names]
        assert vectors.index.count() % size == 0
        assert vectors.index.count() + len(vectors.missing(10_000)) == stored
        vectors.add("after")
        assert vectors.found(seeded("after"), 1) == ["after"]

    @staticmethod
    def _learn(vectors: Vectors) -> int:
        """Learn the keys of what another process has stored, and return how many items there are."""
        with vectors.store.catalogue.snapshot(Deadline()) as snapshot:
            stored = snapshot.partitions()[Partition("s", "memory")]
            found = vectors.index.nearest([vectors.request(seeded(0), stored)], snapshot)[0]
            details = snapshot.fetch(FetchRequest(keys=tuple([key for key, _ in found])))
        vectors.names |= {key: each.address.artifact_id for key, each in details.items()}
        return stored
