"""The catalogue in memory: the reference semantics of :mod:`powerctx_core.ports`, simple before fast.

Every commit publishes a new :class:`State` and never touches one that was published, so a snapshot is a reference to
the state of its moment: it costs nothing, and readers and writers never wait for each other.  A commit copies the
maps of the partitions it writes to (not their content), which makes one batch of many items cheap and many batches of
one item into a large partition slow.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import attrs

from powerctx_core.errors import StoreError, StoreUnavailable, redacted_url
from powerctx_core.memory_sessions import MemoryLedger, MemorySessions
from powerctx_core.memory_state import Draft, Row, Shelf, State
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
from powerctx_core.text.terms import rarest
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


class MemorySnapshot:
    """A :class:`powerctx_core.ports.Snapshot` over one state."""

    def __init__(self, state: State, deadline: Deadline = Deadline()) -> None:
        self.state = state
        self.deadline = deadline

    def lexical(self, requests: Sequence[LexicalRequest]) -> Sequence[LexicalResult]:
        results: list[LexicalResult] = []
        for request in requests:
            # One request is quick; those that a call has many of stop between two.
            if results and self.deadline.passed:
                raise StoreError(
                    f"{_URL}: the deadline was over when {len(results)} of {len(requests)} searches were done."
                )
            results.append(self._lexical(request))
        return results

    def _lexical(self, request: LexicalRequest) -> LexicalResult:
        shelf = self.state.shelves.get(request.partition) or Shelf(0)
        frequency = {term: len(shelf.postings[term]) for term in request.query.terms if term in shelf.postings}
        terms = rarest(request.query, frequency)
        matched: dict[Key, dict[str, int]] = {}
        for term in terms:
            for key, occurrences in shelf.postings.get(term, {}).items():
                matched.setdefault(key, {})[term] = occurrences
        hits = tuple(
            LexicalHit(key, shelf.current[key].details.address.artifact_id, found, shelf.current[key].details.length)
            for key, found in matched.items()
            if shelf.current[key].passes(request.filters)
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

    def _row(self, key: Key) -> Row | None:
        shelf = self.state.holder(key)
        return None if shelf is None else shelf.current[key]

    def neighbours(self, request: NeighbourRequest) -> Mapping[Key, tuple[Key, ...]]:
        shelf = self.state.shelves.get(request.partition) or Shelf(0)
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
        shelf = self.state.shelves.get(request.partition) or Shelf(0)
        rows = [
            row
            for row in shelf.current.values()
            if row.passes(request.filters) and _below(row.details.address.artifact_id, request.prefix)
        ]
        # Two stable sorts: the second keeps the order by artifact id among equal times; items without a time are last.
        rows.sort(key=lambda row: row.details.address.artifact_id)
        rows.sort(key=lambda row: _time(row.item, request.filters) or datetime.min.replace(tzinfo=UTC), reverse=True)
        return tuple(row.candidate() for row in rows[: max(0, request.limit)])

    def listings(self, requests: Sequence[ListingRequest]) -> Sequence[tuple[RawCandidate, ...]]:
        return [self.listing(request) for request in requests]

    def partitions(self, scope_id: str | None = None) -> Mapping[Partition, int]:
        return {
            partition: len(shelf.current)
            for partition, shelf in self.state.shelves.items()
            if shelf.current and scope_id in (None, partition.scope_id)
        }

    def changes(self) -> int:
        return self.state.changes


def _time(item: Item, filters: Filters) -> datetime | None:
    return {"created": item.created_at, "updated": item.updated_at, "event": item.event_time}[filters.time_field]


def _below(artifact_id: str, prefix: str | None) -> bool:
    return prefix is None or artifact_id == prefix or artifact_id.startswith(prefix + "/")


class MemoryCatalogue:
    """A :class:`powerctx_core.ports.Catalogue`; writers take turns, readers are never held up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state: State | None = State()

    def close(self) -> None:
        with self._lock:
            self._state = None

    def state(self) -> State:
        state = self._state
        if state is None:
            raise StoreError("The memory store is closed; open a new one with memory://.")
        return state

    @contextmanager
    def snapshot(self, deadline: Deadline) -> Iterator[MemorySnapshot]:
        yield MemorySnapshot(self.state(), deadline)

    def put(self, items: Sequence[Item]) -> Sequence[PutResult]:
        now = datetime.now(UTC)
        with self._lock:
            state = self.state()
            draft = Draft(state)
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
        purged = 0

        def purge(draft: Draft) -> int:
            nonlocal purged
            purged, forgotten = draft.purge(artifacts)
            return purged + forgotten

        self.commit(purge)
        return purged

    def commit(self, change: Callable[[Draft], int]) -> int:
        """Publish what *change* makes of a draft, unless it returns 0: that it changed nothing."""
        with self._lock:
            draft = Draft(self.state())
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


class MemoryUsage:
    """A :class:`powerctx_core.ports.Usage` over the same state."""

    def __init__(self, catalogue: MemoryCatalogue) -> None:
        self._catalogue = catalogue

    def add(self, artifacts: Sequence[tuple[str, str, str]]) -> int:
        return self._catalogue.commit(
            lambda draft: sum(draft.shelf(scope, family).use(artifact) for scope, family, artifact in artifacts)
        )

    def counts(
        self,
        artifacts: Sequence[tuple[str, str, str]],
        deadline: Deadline,  # noqa: ARG002 - as for a snapshot
    ) -> Mapping[tuple[str, str, str], int]:
        state = self._catalogue.state()
        return {
            (scope, family, artifact): shelf.used[artifact]
            for scope, family, artifact in artifacts
            if (shelf := state.shelf(scope, family)) is not None and artifact in shelf.used
        }


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
        self._usage = MemoryUsage(self._catalogue)
        self._ledger = MemoryLedger(self._catalogue.state, self._catalogue.commit)
        self._sessions = MemorySessions(self._catalogue.state, self._catalogue.commit)

    @property
    def catalogue(self) -> MemoryCatalogue:
        """The catalogue."""
        return self._catalogue

    @property
    def vectors(self) -> MemoryVectors:
        """The vector index."""
        return self._vectors

    @property
    def usage(self) -> MemoryUsage:
        """The usage counts."""
        return self._usage

    @property
    def ledger(self) -> MemoryLedger:
        """What sessions were given."""
        return self._ledger

    @property
    def sessions(self) -> MemorySessions:
        """The logs of sessions."""
        return self._sessions

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
