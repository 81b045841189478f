"""The catalogue in memory: the reference semantics of :mod:`powerctx_core.ports`, simple before fast.

Every commit publishes a new :class:`_State` and never touches one that was published, so a snapshot is a reference to
the state of its moment: it costs nothing, and readers and writers never wait for each other.  A commit copies the
maps of the partitions it writes to (not their content), which makes one batch of many items cheap and many batches of
one item into a large partition slow.
"""

from __future__ import annotations

import copy
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Self

import attrs

from powerctx_core.errors import StoreError, StoreUnavailable, redacted_url
from powerctx_core.memory_vectors import MemoryVectors
from powerctx_core.ports import (
    FetchRequest,
    LexicalRequest,
    LexicalResult,
    ListingRequest,
    NeighbourRequest,
    StoreStatus,
)
from powerctx_core.records import NoSettings
from powerctx_core.text.cut import derived_abstract, head
from powerctx_core.text.terms import analyse, analysed_text, rarest
from powerctx_core.types import (
    Address,
    Deadline,
    Filters,
    Item,
    Key,
    LexicalHit,
    LexicalStatistics,
    Partition,
    PutResult,
    RawCandidate,
    Revision,
    derived_artifact_id,
)

__all__ = ["MemoryStore"]

_URL = "memory://"
_SEQUENCE_BITS = 32
"""A key is ``shelf number << 32 | sequence``, so that a key alone leads to its shelf."""


@attrs.frozen
class _Row:
    """One revision with all that is computed when it is written."""

    key: Key
    item: Item
    digest: bytes
    terms: Mapping[str, int]
    details: RawCandidate

    # Metadata is copied on the way out, so that nothing a reader does to it reaches the store.

    def candidate(self, request: FetchRequest | None = None) -> RawCandidate:
        changes: dict[str, Any] = {}
        if self.item.meta:
            changes["metadata"] = MappingProxyType(copy.deepcopy(dict(self.item.meta)))
        if request is not None:
            hit = request.hits.get(self.key)
            changes["matched"] = (
                {term: self.terms[term] for term in request.terms if term in self.terms} if hit is None else hit.matched
            )
            changes["cosine"] = request.cosines.get(self.key)
        return attrs.evolve(self.details, **changes) if changes else self.details

    def passes(self, filters: Filters) -> bool:
        return _passes(self.item, filters)

    def revision(self, state: str) -> Revision:
        item = attrs.evolve(self.item) if self.item.meta else self.item
        return Revision(address=self.details.address, item=item, state=state)


@attrs.frozen
class _Artifact:
    """All revisions of an artifact, oldest first; only the newest can be current or retired."""

    rows: tuple[_Row, ...]
    retired: bool

    def revisions(self) -> tuple[Revision, ...]:
        *older, newest = self.rows
        return (
            *(row.revision("superseded") for row in older),
            newest.revision("retired" if self.retired else "current"),
        )


class _Shelf:
    """One partition: its artifacts, and the postings of its current rows.  Changed only while it is a draft."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.sequence = 0
        self.length = 0
        self.artifacts: dict[str, _Artifact] = {}
        self.current: dict[Key, _Row] = {}
        self.postings: dict[str, dict[Key, int]] = {}
        self.threads: dict[str, dict[Key, int]] = {}
        self.owned: set[tuple[str, str]] = set()
        self.vectors: dict[Key, bytes] = {}

    def draft(self) -> Self:
        """Return a copy that shares every posting list and thread until it changes that one."""
        draft = copy.copy(self)
        draft.artifacts = dict(self.artifacts)
        draft.current = dict(self.current)
        draft.postings = dict(self.postings)
        draft.threads = dict(self.threads)
        draft.owned = set()
        draft.vectors = dict(self.vectors)
        return draft

    def write(self, item: Item, now: datetime) -> PutResult:
        """Store one item, whose artifact id is set."""
        artifact_id = item.artifact_id
        assert artifact_id is not None  # noqa: S101 - put() derives it
        artifact = self.artifacts.get(artifact_id)
        digest = item.digest
        rows = () if artifact is None else artifact.rows
        if artifact is None:
            outcome = "created"
        elif artifact.retired:
            outcome = "revived"
        elif rows[-1].digest == digest:
            return PutResult(address=rows[-1].details.address, outcome="unchanged", key=rows[-1].key)
        else:
            outcome = "updated"
            self._remove(rows[-1])
        created_at = item.created_at or (rows[0].details.created_at if rows else now)
        row = self._row(item, Address(item.scope_id, item.family, artifact_id, len(rows) + 1), digest, created_at, now)
        self._add(row)
        self.artifacts[artifact_id] = _Artifact((*rows, row), retired=False)
        return PutResult(address=row.details.address, outcome=outcome, key=row.key)

    def retire(self, artifact_id: str) -> bool:
        """Take an artifact out of retrieval; whether it was current."""
        artifact = self.artifacts.get(artifact_id)
        if artifact is None or artifact.retired:
            return False
        self._remove(artifact.rows[-1])
        self.artifacts[artifact_id] = _Artifact(artifact.rows, retired=True)
        return True

    def purge(self, artifact_id: str) -> int:
        """Forget an artifact; how many revisions it had."""
        artifact = self.artifacts.pop(artifact_id, None)
        if artifact is None:
            return 0
        if not artifact.retired:
            self._remove(artifact.rows[-1])
        return len(artifact.rows)

    def _row(self, item: Item, address: Address, digest: bytes, created_at: datetime, now: datetime) -> _Row:
        self.sequence += 1
        terms = analyse(analysed_text(item.title, item.text, item.category, item.tags))
        details = RawCandidate(
            address=address,
            length=sum(terms.values()),
            kind=item.kind,
            category=item.category,
            title=item.title,
            abstract=derived_abstract(item.text) if item.abstract is None else item.abstract,
            head=head(item.text),
            body_bytes=len(item.text.encode()),
            overview_bytes=len((item.overview or "").encode()),
            tags=item.tags,
            created_at=created_at,
            updated_at=item.updated_at or now,
            event_time=item.event_time,
            thread=item.thread,
            position=item.position,
            confidence=item.confidence,
            layer=item.layer,
            origin=item.origin,
        )
        item = attrs.evolve(item, created_at=created_at, updated_at=details.updated_at)
        return _Row(self.number << _SEQUENCE_BITS | self.sequence, item, digest, terms, details)

    def _add(self, row: _Row) -> None:
        self.current[row.key] = row
        self.length += row.details.length
        for term, occurrences in row.terms.items():
            self._mine(self.postings, "term", term)[row.key] = occurrences
        if row.item.thread is not None and row.item.position is not None:
            self._mine(self.threads, "thread", row.item.thread)[row.key] = row.item.position

    def _remove(self, row: _Row) -> None:
        del self.current[row.key]
        self.vectors.pop(row.key, None)
        self.length -= row.details.length
        for term in row.terms:
            self._drop(self.postings, "term", term, row.key)
        if row.item.thread is not None and row.item.position is not None:
            self._drop(self.threads, "thread", row.item.thread, row.key)

    def _mine(self, maps: dict[str, dict[Key, int]], kind: str, name: str) -> dict[Key, int]:
        if (kind, name) not in self.owned:
            self.owned.add((kind, name))
            maps[name] = dict(maps.get(name, ()))
        return maps[name]

    def _drop(self, maps: dict[str, dict[Key, int]], kind: str, name: str, key: Key) -> None:
        keys = self._mine(maps, kind, name)
        del keys[key]
        if not keys:
            del maps[name]
            self.owned.discard((kind, name))


@attrs.frozen
class _State:
    """Everything that is stored at one moment; never changed."""

    shelves: Mapping[Partition, _Shelf] = attrs.field(factory=dict)
    numbers: Mapping[int, Partition] = attrs.field(factory=dict)
    issued: int = 0
    changes: int = 0

    def shelf(self, scope_id: str, family: str) -> _Shelf | None:
        return self.shelves.get(Partition(scope_id, family))

    def holder(self, key: Key) -> _Shelf | None:
        """Return the shelf in which *key* is current."""
        partition = self.numbers.get(key >> _SEQUENCE_BITS)
        shelf = None if partition is None else self.shelves[partition]
        return shelf if shelf is not None and key in shelf.current else None


class _Draft:
    """The next state while one batch is written: shelves are copied when they are first written to."""

    def __init__(self, state: _State) -> None:
        self._state = state
        self._issued = state.issued
        self._shelves: dict[Partition, _Shelf] = {}

    def shelf(self, scope_id: str, family: str) -> _Shelf:
        partition = Partition(scope_id, family)
        if partition not in self._shelves:
            shelf = self._state.shelves.get(partition)
            if shelf is None:
                self._issued += 1
                shelf = _Shelf(self._issued)
            self._shelves[partition] = shelf.draft()
        return self._shelves[partition]

    def finished(self) -> _State:
        shelves = {**self._state.shelves, **self._shelves}
        # A shelf without artifacts is dropped, so that a purge leaves not even the scope's name behind.
        shelves = {partition: shelf for partition, shelf in shelves.items() if shelf.artifacts}
        numbers = {shelf.number: partition for partition, shelf in shelves.items()}
        return _State(shelves, numbers, self._issued, self._state.changes + 1)


class MemorySnapshot:
    """A :class:`powerctx_core.ports.Snapshot` over one state."""

    def __init__(self, state: _State) -> None:
        self.state = state

    def lexical(self, requests: Sequence[LexicalRequest]) -> Sequence[LexicalResult]:
        return [self._lexical(request) for request in requests]

    def _lexical(self, request: LexicalRequest) -> LexicalResult:
        shelf = self.state.shelves.get(request.partition) or _Shelf(0)
        frequency = {term: len(shelf.postings[term]) for term in request.query.terms if term in shelf.postings}
        terms = rarest(request.query, frequency)
        matched: dict[Key, dict[str, int]] = {}
        for term in terms:
            for key, occurrences in shelf.postings.get(term, {}).items():
                matched.setdefault(key, {})[term] = occurrences
        hits = tuple(
            LexicalHit(key, shelf.current[key].details.address.artifact_id, found, shelf.current[key].details.length)
            for key, found in matched.items()
            if _passes(shelf.current[key].item, request.filters)
        )
        items = len(shelf.current)
        statistics = LexicalStatistics(
            items=items,
            mean_length=shelf.length / items if items else 0.0,
            document_frequency={term: frequency[term] for term in terms if term in frequency},
        )
        return LexicalResult(hits=hits, statistics=statistics, terms=terms)

    def fetch(self, request: FetchRequest) -> Mapping[Key, RawCandidate]:
        return {key: row.candidate(request) for key in request.keys if (row := self._row(key)) is not None}

    def _row(self, key: Key) -> _Row | None:
        shelf = self.state.holder(key)
        return None if shelf is None else shelf.current[key]

    def neighbours(self, request: NeighbourRequest) -> Mapping[Key, tuple[Key, ...]]:
        shelf = self.state.shelves.get(request.partition) or _Shelf(0)
        result: dict[Key, tuple[Key, ...]] = {}
        for key in request.keys:
            row = shelf.current.get(key)
            if row is None or row.item.thread is None:
                continue
            if row.item.position is None:
                result[key] = ()
                continue
            # Equal positions are told apart by artifact id, so that before and after are always defined.
            thread = sorted(
                (position, shelf.current[other].details.address.artifact_id, other)
                for other, position in shelf.threads[row.item.thread].items()
            )
            place = bisect_left(thread, (row.item.position, row.details.address.artifact_id, key))
            result[key] = tuple(entry[2] for entry in thread[max(0, place - 1) : place + 2] if entry[2] != key)
        return result

    def get(self, address: Address) -> Revision | None:
        revisions = self.history(address.scope_id, address.family, address.artifact_id)
        return revisions[address.revision - 1] if 1 <= address.revision <= len(revisions) else None

    def latest(self, scope_id: str, family: str, artifact_id: str) -> Revision | None:
        revisions = self.history(scope_id, family, artifact_id)
        return revisions[-1] if revisions and revisions[-1].state == "current" else None

    def history(self, scope_id: str, family: str, artifact_id: str) -> tuple[Revision, ...]:
        shelf = self.state.shelf(scope_id, family)
        artifact = None if shelf is None else shelf.artifacts.get(artifact_id)
        return () if artifact is None else artifact.revisions()

    def listing(self, request: ListingRequest) -> tuple[RawCandidate, ...]:
        shelf = self.state.shelves.get(request.partition) or _Shelf(0)
        rows = [
            row
            for row in shelf.current.values()
            if _passes(row.item, request.filters) and _below(row.details.address.artifact_id, request.prefix)
        ]
        # Two stable sorts: the second keeps the order by artifact id among equal times; items without a time are last.
        rows.sort(key=lambda row: row.details.address.artifact_id)
        rows.sort(key=lambda row: _time(row.item, request.filters) or datetime.min.replace(tzinfo=UTC), reverse=True)
        return tuple(row.candidate() for row in rows[: max(0, request.limit)])

    def partitions(self) -> Mapping[Partition, int]:
        return {partition: len(shelf.current) for partition, shelf in self.state.shelves.items() if shelf.current}

    def changes(self) -> int:
        return self.state.changes


def _time(item: Item, filters: Filters) -> datetime | None:
    return {"created": item.created_at, "updated": item.updated_at, "event": item.event_time}[filters.time_field]


def _passes(item: Item, filters: Filters) -> bool:
    if not filters:
        return True
    if filters.category is not None and item.category != filters.category:
        return False
    if not set(filters.tags) <= set(item.tags):
        return False
    if filters.since is None and filters.until is None:
        return True
    time = _time(item, filters)
    if time is None:
        return False
    return (filters.since is None or filters.since <= time) and (filters.until is None or time < filters.until)


def _below(artifact_id: str, prefix: str | None) -> bool:
    return prefix is None or artifact_id == prefix or artifact_id.startswith(prefix + "/")


class MemoryCatalogue:
    """A :class:`powerctx_core.ports.Catalogue`; writers take turns, readers are never held up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state: _State | None = _State()

    def close(self) -> None:
        with self._lock:
            self._state = None

    def state(self) -> _State:
        state = self._state
        if state is None:
            raise StoreError("The memory store is closed; open a new one with memory://.")
        return state

    @contextmanager
    def snapshot(self, deadline: Deadline) -> Iterator[MemorySnapshot]:  # noqa: ARG002 - no read here is slow
        yield MemorySnapshot(self.state())

    def put(self, items: Sequence[Item]) -> Sequence[PutResult]:
        now = datetime.now(UTC)
        with self._lock:
            state = self.state()
            draft = _Draft(state)
            results = []
            for given in items:
                item = given
                if item.artifact_id is None:
                    item = attrs.evolve(item, artifact_id=derived_artifact_id(item))
                results.append(draft.shelf(item.scope_id, item.family).write(item, now))
            if any(result.outcome != "unchanged" for result in results):
                self._state = draft.finished()
        return results

    def retire(self, artifacts: Sequence[tuple[str, str, str]]) -> int:
        return self.commit(
            lambda draft: sum(draft.shelf(scope, family).retire(artifact) for scope, family, artifact in artifacts)
        )

    def purge(self, artifacts: Sequence[tuple[str, str, str]]) -> int:
        return self.commit(
            lambda draft: sum(draft.shelf(scope, family).purge(artifact) for scope, family, artifact in artifacts)
        )

    def commit(self, change: Callable[[_Draft], int]) -> int:
        """Publish what *change* makes of a draft, unless it returns 0: that it changed nothing."""
        with self._lock:
            draft = _Draft(self.state())
            changed = change(draft)
            if changed:
                self._state = draft.finished()
        return changed

    def reindex(self, *, limit: int | None = None) -> Iterable[int]:
        # The terms were made by the analysis of this very process and die with it, so there is nothing to do anew.
        with self._lock:
            items = sum(len(shelf.current) for shelf in self.state().shelves.values())
        if limit is not None and items > limit:
            raise StoreError(f"{items} items are more than the {limit} that are re-analysed at once.")
        return iter((items,))


class MemoryStore:
    """A :class:`powerctx_core.ports.Store` that keeps everything in this object and nothing anywhere else.

    Args:
        url: ``memory://`` and nothing else: every open makes its own, empty store, which nobody shares and which is
            gone after ``close``.
        settings: has none.

    Raises:
        StoreUnavailable: *url* has a name or parameters.
    """

    def __init__(self, url: str, settings: NoSettings) -> None:  # noqa: ARG002 - the signature of every store factory
        if url.lower() != _URL:
            raise StoreUnavailable(
                f"{redacted_url(url)} cannot be opened: {_URL} takes no name and no parameters, since every open makes "
                f"its own, empty store; write {_URL}, or sqlite:///FILE for one that stays."
            )
        self._catalogue = MemoryCatalogue()
        self._vectors = MemoryVectors(self._catalogue)

    @property
    def catalogue(self) -> MemoryCatalogue:
        """The catalogue."""
        return self._catalogue

    @property
    def vectors(self) -> MemoryVectors:
        """The vector index."""
        return self._vectors

    def status(self) -> StoreStatus:
        """Describe the content; a closed store says that it is closed."""
        try:
            with self._catalogue.snapshot(Deadline()) as snapshot:
                partitions = snapshot.partitions()
                facts = {"items": str(sum(partitions.values())), "partitions": str(len(partitions))}
        except StoreError as error:
            return StoreStatus(location=_URL, facts={}, problems=(str(error),))
        return StoreStatus(location=_URL, facts=facts)

    def close(self) -> None:
        """Drop everything; further calls do nothing."""
        self._catalogue.close()
