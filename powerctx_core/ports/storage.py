"""What a backend offers: a catalogue, a vector index, and consistent views of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Protocol, runtime_checkable

import attrs

from powerctx_core.types import (
    Address,
    Deadline,
    EmbeddingProfile,
    Filters,
    Item,
    Key,
    LexicalHit,
    LexicalStatistics,
    Partition,
    PutResult,
    QueryTerms,
    RawCandidate,
    Revision,
)

__all__ = [
    "Capability",
    "Catalogue",
    "CountingStore",
    "FetchRequest",
    "JoinedListings",
    "LexicalRequest",
    "LexicalResult",
    "ListingRequest",
    "NearestRequest",
    "NeighbourRequest",
    "Snapshot",
    "Store",
    "StoreStatus",
    "Unembedded",
    "Usage",
    "VectorIndex",
]


class Capability(StrEnum):
    """What a store can do."""

    LEXICAL = "lexical"
    VECTOR = "vector"
    WINDOW = "window"
    REVISIONS = "revisions"
    TAGS = "tags"
    TRANSACTIONS = "transactions"
    MULTI_PROCESS = "multi-process"
    DURABLE = "durable"
    REMOTE = "remote"


@attrs.frozen(kw_only=True)
class LexicalRequest:
    """Members of *partition* that hold at least one of the terms.

    Attributes:
        query: analysed query; a store uses at most the 64 rarest of its terms (``powerctx_core.text.terms.rarest``).
        k: a store may return fewer than all members only when more than *k* match; it then returns at least the *k*
            that its engine ranks best.
    """

    partition: Partition
    query: QueryTerms
    k: int
    filters: Filters = Filters()


@attrs.frozen(kw_only=True)
class LexicalResult:
    """Members with the occurrences of the terms used, and the partition's statistics (filters do not change them).

    *terms*, ``matched`` and ``document_frequency`` cover the terms that were used and occur, at most 64.
    """

    hits: tuple[LexicalHit, ...]
    statistics: LexicalStatistics
    terms: tuple[str, ...]


@attrs.frozen(kw_only=True)
class FetchRequest:
    """Details of *keys*, with what retrieval knows of them already.

    Attributes:
        terms: query terms whose occurrences are wanted for keys that are not in *hits*.
        hits: lexical hits by key; their occurrences are taken over.
        cosines: cosine by key, taken over.
    """

    keys: tuple[Key, ...]
    terms: tuple[str, ...] = ()
    hits: Mapping[Key, LexicalHit] = attrs.field(factory=dict)
    cosines: Mapping[Key, float] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class NeighbourRequest:
    """The current items just before and just after each key in its thread."""

    partition: Partition
    keys: tuple[Key, ...]


@attrs.frozen(kw_only=True)
class ListingRequest:
    """Current items, most recent first by *filters.time_field*, ties by artifact id.

    Attributes:
        limit: how many at most.
        prefix: only artifacts whose id equals it or lies below it (``prefix + "/"``).
    """

    partition: Partition
    limit: int = 100
    filters: Filters = Filters()
    prefix: str | None = None


@runtime_checkable
class Snapshot(Protocol):
    """A consistent read view of a catalogue, used by one thread at a time.

    No method writes.  Each may raise :class:`powerctx_core.errors.StoreError`.
    """

    def lexical(self, requests: Sequence[LexicalRequest]) -> Sequence[LexicalResult]:
        """Return one result for each request, in the same order; an unknown partition is an empty one."""

    def fetch(self, request: FetchRequest) -> Mapping[Key, RawCandidate]:
        """Return the details of every key that is current in this snapshot, in the order asked."""

    def neighbours(self, request: NeighbourRequest) -> Mapping[Key, tuple[Key, ...]]:
        """Return, for each key with a thread, the keys of its direct neighbours there."""

    def get(self, address: Address) -> Revision | None:
        """Return exactly this revision, whatever its state, or ``None``."""

    def latest(self, scope_id: str, family: str, artifact_id: str) -> Revision | None:
        """Return the current revision, or ``None`` when there is none (never stored, retired, purged)."""

    def history(self, scope_id: str, family: str, artifact_id: str) -> tuple[Revision, ...]:
        """Return all revisions, oldest first."""

    def listing(self, request: ListingRequest) -> tuple[RawCandidate, ...]:
        """Return current items, most recent first."""

    def partitions(self, scope_id: str | None = None) -> Mapping[Partition, int]:
        """Return every partition (of a scope, where one is named) that holds current items, with their number."""

    def changes(self) -> int:
        """Return a counter that grows with every committed write, in any process."""


@runtime_checkable
class JoinedListings(Protocol):
    """What a :class:`Snapshot` may offer beside: several listings with one read."""

    def listings(self, requests: Sequence[ListingRequest]) -> Sequence[tuple[RawCandidate, ...]]:
        """Return for each request, in the same order, what ``listing`` returns."""


@attrs.frozen(kw_only=True)
class StoreStatus:
    """What ``doctor`` shows of a store.

    Attributes:
        location: URL or path without secrets.
        facts: ordered name -> value, for people.
        problems: sentences; empty when all is well.
    """

    location: str
    facts: Mapping[str, str]
    problems: tuple[str, ...] = ()


@runtime_checkable
class Catalogue(Protocol):
    """Keeps items and their immutable revisions, and finds them by words."""

    def snapshot(self, deadline: Deadline) -> AbstractContextManager[Snapshot]:
        """Open a read view, which begins with its first read at the latest.

        What takes long in it ends in a :class:`powerctx_core.errors.StoreError` soon after *deadline*: a statement is
        stopped where the engine can do that, and else a call that needs several begins no other one.  A view may be
        refused, in the same way, when it is over before.
        """

    def put(self, items: Sequence[Item]) -> Sequence[PutResult]:
        """Store items in one transaction: all of them or, on any error, none.

        Equal content (``Item.digest``) as the current revision is left alone (``unchanged``); other content makes the
        next revision; a retired artifact is revived by its next revision even when the content is equal.  Items
        without an artifact id get ``derived_artifact_id``; later items of one batch see the earlier ones.

        A revision's key is never given to another one while the store is open, not even after a purge: vectors are
        made for a key meanwhile.
        """

    def retire(self, artifacts: Sequence[tuple[str, str, str]]) -> int:
        """Take (scope id, family, artifact id) out of retrieval and return how many were in it; revisions stay."""

    def purge(self, artifacts: Sequence[tuple[str, str, str]]) -> int:
        """Delete all revisions and terms for good.  Returns the number of revisions deleted."""

    def reindex(self, *, limit: int | None = None) -> Iterable[int]:
        """Analyse all items anew, yielding the number done so far; resumable.  With *limit*, refuse above it."""


@runtime_checkable
class Usage(Protocol):
    """How often artifacts were really used, as clients say; reading never counts.

    An artifact is (scope id, family, artifact id): its revisions share one count, which a purge deletes with them.
    """

    def add(self, artifacts: Sequence[tuple[str, str, str]]) -> int:
        """Count one more use of each artifact that is stored, retired ones too, and return how many these are.

        Atomic; concurrent calls lose nothing.
        """

    def counts(
        self, artifacts: Sequence[tuple[str, str, str]], deadline: Deadline
    ) -> Mapping[tuple[str, str, str], int]:
        """Return the count of those artifacts that were used; statements stop soon after *deadline* where they can."""


@runtime_checkable
class Store(Protocol):
    """An opened backend."""

    @property
    def catalogue(self) -> Catalogue:
        """The catalogue."""

    @property
    def vectors(self) -> VectorIndex | None:
        """The vector index, where the store has one."""

    def status(self) -> StoreStatus:
        """Describe location, schema and health; never raises for an unhealthy store."""

    def close(self) -> None:
        """Release everything; further calls are allowed and do nothing."""


@runtime_checkable
class CountingStore(Store, Protocol):
    """A store that keeps usage counts, which not every store does."""

    @property
    def usage(self) -> Usage:
        """The usage counts."""


@attrs.frozen(kw_only=True)
class NearestRequest:
    """The *k* members of *partition* whose vectors are nearest to *vector* by cosine, restricted by *filters*."""

    partition: Partition
    vector: bytes
    k: int
    filters: Filters = Filters()


@attrs.frozen(kw_only=True)
class Unembedded:
    """A current revision without a vector, its family, and the text to embed for it.

    The text is that of :func:`powerctx_core.vectors.embedding_text`.
    """

    key: Key
    family: str
    text: str


@runtime_checkable
class VectorIndex(Protocol):
    """Vectors of current revisions of one embedding profile, keyed like the catalogue.

    What supersedes, retires or purges a revision removes its vector in the same transaction.  Reads are consistent with
    the snapshot they are given.
    """

    def attach(self, profile: EmbeddingProfile) -> None:
        """Declare the profile in use.

        Raises:
            CapabilityError: the index holds vectors of another profile; the message names both and what to do.
        """

    def upsert(self, vectors: Mapping[Key, bytes]) -> int:
        """Store vectors of current revisions, ignore keys that are no longer current, and return how many it took.

        Raises:
            InvalidRequest: a vector of another length, with NaN or infinity, of zeros, or not of unit length; nothing
                is stored.
            CapabilityError: no profile is attached, or another process has attached another one.
        """

    def clear(self) -> int:
        """Delete every vector, whoever's profile it is of, and return how many there were; then any may be attached."""

    def cached(self, texts: Sequence[str]) -> Mapping[str, bytes]:
        """Return the vectors of those texts that a stored revision was embedded with.

        Ask before ``Catalogue.put``: the vectors of what it supersedes are gone afterwards.
        """

    def unembedded(self, limit: int, after: Key = 0) -> Sequence[Unembedded]:
        """Return up to *limit* current revisions that have no vector, in key order, with keys above *after*.

        Who embeds everything goes on after the last key, so that texts whose vector is zero are not met again.
        """

    def count(self) -> int:
        """Return the number of vectors of current revisions."""

    def nearest(self, requests: Sequence[NearestRequest], snapshot: Snapshot) -> Sequence[Sequence[tuple[Key, float]]]:
        """Return ``(key, cosine)`` of each request's members, best first, ties by key; exact for small partitions.

        Cosines are rounded to :data:`powerctx_core.vectors.COSINE_DIGITS` places before they are compared, so that
        stores do not differ in which of all but equal ones they take.
        """

    def cosines(self, keys: Sequence[Key], vector: bytes, snapshot: Snapshot) -> Mapping[Key, float]:
        """Return the cosine of every key that has a vector, as :meth:`nearest` gives it."""
