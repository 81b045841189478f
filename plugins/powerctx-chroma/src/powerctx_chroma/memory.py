"""Vectors that were read from Chroma.  An entry never changes, so that what is kept here is right for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np

from powerctx_core.vectors import COSINE_DIGITS

__all__ = ["Array", "Held", "Vectors", "best", "cosines"]

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def cosines(rows: Array, vector: Array) -> Array:
    """Return the cosine of *vector* with every row; the same row gives the same value wherever it stands."""
    found: Array = np.round(np.clip(np.vecdot(rows, vector), -1.0, 1.0), COSINE_DIGITS)
    return found + 0.0  # without the sign of a zero


def best(scores: Array, keys: Array, k: int) -> Array:
    """Return the places of the *k* highest scores, best first, ties by key."""
    if k < len(scores):
        cut = len(scores) - k
        places = np.flatnonzero(scores >= np.partition(scores, cut)[cut])
    else:
        places = np.arange(len(scores))
    return places[np.lexsort((keys[places], -scores[places]))[:k]]


@attrs.frozen(eq=False)
class Held:
    """All vectors of a small partition in one of its states.

    Attributes:
        changes: the partition's counter.
        keys: ascending.
        values: a row for each.
    """

    changes: int
    keys: Array
    values: Array


class Vectors:
    """Keeps vectors by the numbers of their entries, and whole partitions; thread-safe.

    Args:
        most_bytes: memory for each of both; when it is full, keeping begins anew.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._lock = threading.Lock()
        self._vectors: dict[int, bytes] = {}
        self._bytes = 0
        self._held: dict[int, Held] = {}
        self._held_bytes = 0

    def read(
        self, numbers: Sequence[int], fetch: Callable[[Sequence[int]], Mapping[int, bytes]]
    ) -> tuple[list[int], list[bytes]]:
        """Return those of *numbers* that have a vector, and these; *fetch* reads those that are not kept."""
        with self._lock:
            kept = {number: self._vectors[number] for number in numbers if number in self._vectors}
        missing = [number for number in numbers if number not in kept]
        if missing:
            found = fetch(missing)
            kept.update(found)
            with self._lock:
                more = sum(map(len, found.values()))
                if self._bytes + more > self._most:
                    self._vectors, self._bytes = {}, 0
                if more <= self._most:
                    self._vectors.update(found)
                    self._bytes += more
        present = [number for number in numbers if number in kept]
        return present, [kept[number] for number in present]

    def held(self, partition: int, changes: int) -> Held | None:
        """Return a partition in the state that *changes* names, if it is kept."""
        found = self._held.get(partition)
        return found if found is not None and found.changes == changes else None

    def hold(self, partition: int, held: Held) -> None:
        """Keep a partition, unless a newer state of it is kept."""
        with self._lock:
            old = self._held.get(partition)
            if old is not None and old.changes > held.changes:
                return
            size = int(held.values.nbytes)
            if self._held_bytes + size > self._most:
                self._held, self._held_bytes, old = {}, 0, None
            if size <= self._most:
                self._held[partition] = held
                self._held_bytes += size - (0 if old is None else int(old.values.nbytes))
