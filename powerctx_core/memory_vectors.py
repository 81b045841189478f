"""The vector index of the catalogue in memory: the reference semantics, exact and slow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import mul
from typing import TYPE_CHECKING

from powerctx_core.ports import NearestRequest, Snapshot, Unembedded
from powerctx_core.types import EmbeddingProfile, Key, Partition
from powerctx_core.vectors import (
    COSINE_DIGITS,
    check_profile,
    check_vector,
    embedding_text,
    half_precision,
    text_hash,
    unattached,
)

if TYPE_CHECKING:
    from powerctx_core.memory_state import Draft, Row, Shelf
    from powerctx_core.memory_store import MemoryCatalogue, MemorySnapshot

__all__ = ["MemoryVectors"]


class MemoryVectors:
    """A :class:`powerctx_core.ports.VectorIndex`; vectors are part of the catalogue's state, and of its snapshots."""

    def __init__(self, catalogue: MemoryCatalogue) -> None:
        self._catalogue = catalogue
        self._profile: EmbeddingProfile | None = None
        self._texts: dict[bytes, set[Key]] = {}

    def attach(self, profile: EmbeddingProfile) -> None:
        """Declare the model; another one is refused while there are vectors."""
        count = self.count()
        if self._profile is not None and count:
            check_profile(self._profile.fingerprint, self._profile.dimensions, count, profile)
        self._profile = profile

    def upsert(self, vectors: Mapping[Key, bytes]) -> int:
        """Store vectors of current revisions; all of them or, on any error, none.

        They are kept in half precision, as in a file: the same items give the same answers in both.
        """
        dimensions = self._attached().dimensions
        for vector in vectors.values():
            check_vector(vector, dimensions)

        def change(draft: Draft) -> int:
            taken = 0
            for key, vector in vectors.items():
                shelf = self._catalogue.state().holder(key)
                if shelf is None:
                    continue
                row = shelf.current[key]
                draft.shelf(row.item.scope_id, row.item.family).vectors[key] = half_precision(vector)
                self._texts.setdefault(text_hash(_text(row)), set()).add(key)
                taken += 1
            return taken

        return self._catalogue.commit(change)

    def clear(self) -> int:
        """Delete every vector; another model may be attached then."""

        def change(draft: Draft) -> int:
            deleted = 0
            for partition, count in self._counts().items():
                deleted += count
                draft.shelf(partition.scope_id, partition.family).vectors.clear()
            return deleted

        self._texts.clear()
        return self._catalogue.commit(change)

    def cached(self, texts: Sequence[str]) -> Mapping[str, bytes]:
        """Return the vectors of those texts that a stored revision was embedded with."""
        state = self._catalogue.state()
        found = {}
        for text in texts:
            keys = self._texts.get(text_hash(text), set())
            for key in tuple(keys):
                shelf = state.holder(key)
                if shelf is None:
                    keys.discard(key)
                elif key in shelf.vectors:
                    found[text] = shelf.vectors[key]
        return found

    def unembedded(self, limit: int, after: Key = 0) -> Sequence[Unembedded]:
        """Return up to *limit* current revisions that have no vector, in key order, with keys above *after*."""
        missing = {
            key: row
            for shelf in self._catalogue.state().shelves.values()
            for key, row in shelf.current.items()
            if key > after and key not in shelf.vectors
        }
        return [
            Unembedded(key=key, family=missing[key].item.family, text=_text(missing[key]))
            for key in sorted(missing)[: max(0, limit)]
        ]

    def count(self) -> int:
        """Return the number of vectors."""
        return sum(self._counts().values())

    def nearest(self, requests: Sequence[NearestRequest], snapshot: Snapshot) -> Sequence[Sequence[tuple[Key, float]]]:
        """Return ``(key, cosine)`` of each request's members, best first, ties by key."""
        shelves = _shelves(snapshot)
        found = []
        for request in requests:
            query = self._query(request.vector)
            shelf = shelves.get(request.partition)
            scored = (
                []
                if shelf is None
                else [
                    (key, _cosine(query, vector))
                    for key, vector in shelf.vectors.items()
                    if shelf.current[key].passes(request.filters)
                ]
            )
            found.append(sorted(scored, key=lambda pair: (-pair[1], pair[0]))[: max(0, request.k)])
        return found

    def cosines(self, keys: Sequence[Key], vector: bytes, snapshot: Snapshot) -> Mapping[Key, float]:
        """Return the cosine of every key that has a vector."""
        query = self._query(vector)
        vectors = {key: stored for shelf in _shelves(snapshot).values() for key, stored in shelf.vectors.items()}
        return {key: _cosine(query, vectors[key]) for key in keys if key in vectors}

    def _counts(self) -> Mapping[Partition, int]:
        shelves = self._catalogue.state().shelves
        return {partition: len(shelf.vectors) for partition, shelf in shelves.items() if shelf.vectors}

    def _attached(self) -> EmbeddingProfile:
        if self._profile is None:
            raise unattached()
        return self._profile

    def _query(self, vector: bytes) -> memoryview[float]:
        check_vector(vector, self._attached().dimensions)
        return memoryview(vector).cast("f")


def _text(row: Row) -> str:
    return embedding_text(row.item.title, row.details.head)


def _shelves(snapshot: Snapshot) -> Mapping[Partition, Shelf]:
    if TYPE_CHECKING:
        assert isinstance(snapshot, MemorySnapshot)
    return snapshot.state.shelves


def _cosine(query: memoryview[float], vector: bytes) -> float:
    total: float = sum(map(mul, query, memoryview(vector).cast("f")))
    # Without the sign of a zero.
    return round(min(1.0, max(-1.0, total)), COSINE_DIGITS) + 0.0
