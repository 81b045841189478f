"""What an engine of vectors gives to a pairing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import attrs

from powerctx_core.types import Address

__all__ = ["Collection", "Entry", "VectorEngine"]


@attrs.frozen(kw_only=True)
class Collection:
    """Where the engine keeps entries: small partitions share one, and a large one has its own.

    Attributes:
        number: never used twice in a store.
        store_id: of the companion; together they name the collection.
        generation: grows whenever all vectors are deleted.
        fingerprint: of the model that made the vectors.
        dimensions: of its vectors.
    """

    number: int
    store_id: str
    generation: int
    fingerprint: str
    dimensions: int


@attrs.frozen(kw_only=True)
class Entry:
    """One vector in the engine; what it holds never changes.

    Attributes:
        number: its id, never used twice in a store: a second vector of a revision is another entry.
        address: of the revision.
        document: the text that was embedded.
        vector: unit-length float32 bytes.
    """

    number: int
    address: Address
    document: str
    vector: bytes


class VectorEngine(Protocol):
    """Keeps entries.  Any thread calls it; each method may block and raise :class:`powerctx_core.errors.StoreError`.

    An engine that fails may have done all of what it was asked, some of it, or nothing.
    """

    def write(self, collection: Collection, entries: Sequence[Entry]) -> None:
        """Store entries, in place of those with their numbers; makes the collection when it is not there."""

    def read(self, collection: Collection, numbers: Sequence[int]) -> Mapping[int, bytes]:
        """Return the vectors of those entries that are there."""

    def delete(self, collection: Collection, numbers: Sequence[int]) -> None:
        """Delete entries; those that are not there, and a collection that is not there, are no error."""

    def drop(self, collection: Collection) -> None:
        """Delete the collection with all that it holds; one that is not there is no error."""

    def count(self, collection: Collection) -> int | None:
        """Return how many entries there are, or ``None`` when this collection, of this generation, is not there."""
