"""What the store in memory holds at one moment: shelves of rows, never changed once published."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Self

import attrs

from powerctx_core.ports import FetchRequest
from powerctx_core.recall.checks import accepts
from powerctx_core.text.cut import derived_abstract, head
from powerctx_core.text.terms import analyse, analysed_text
from powerctx_core.types import (
    Address,
    Delivered,
    Filters,
    Item,
    Key,
    Partition,
    PutResult,
    RawCandidate,
    Revision,
    Session,
    SessionKey,
)

__all__ = ["Artifact", "Draft", "Row", "Shelf", "State"]

_SEQUENCE_BITS = 32
"""A key is ``shelf number << 32 | sequence``, so that a key alone leads to its shelf."""


@attrs.frozen
class Row:
    """One revision with all that is computed when it is written."""

    key: Key
    item: Item
    digest: bytes
    terms: Mapping[str, int]
    details: RawCandidate

    # Metadata is copied on the way out, so that nothing a reader does to it reaches the store.

    def candidate(self, request: FetchRequest | None = None) -> RawCandidate:
        """Return the details, with what retrieval knows of the row."""
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
        """Tell whether the row passes *filters*."""
        return accepts(filters, self.details)

    def revision(self, state: str) -> Revision:
        """Return the row as a revision in *state*."""
        item = attrs.evolve(self.item) if self.item.meta else self.item
        return Revision(address=self.details.address, item=item, state=state)


@attrs.frozen
class Artifact:
    """All revisions of an artifact, oldest first; only the newest can be current or retired."""

    rows: tuple[Row, ...]
    retired: bool

    def revisions(self) -> tuple[Revision, ...]:
        """Return all revisions, oldest first."""
        *older, newest = self.rows
        return (
            *(row.revision("superseded") for row in older),
            newest.revision("retired" if self.retired else "current"),
        )


class Shelf:
    """One partition: its artifacts, and the postings of its current rows.  Changed only while it is a draft."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.sequence = 0
        self.length = 0
        self.artifacts: dict[str, Artifact] = {}
        self.current: dict[Key, Row] = {}
        self.postings: dict[str, dict[Key, int]] = {}
        self.threads: dict[str, dict[Key, int]] = {}
        self.owned: set[tuple[str, str]] = set()
        self.vectors: dict[Key, bytes] = {}
        self.used: dict[str, int] = {}

    def draft(self) -> Self:
        """Return a copy that shares every posting list and thread until it changes that one."""
        draft = copy.copy(self)
        draft.artifacts = dict(self.artifacts)
        draft.current = dict(self.current)
        draft.postings = dict(self.postings)
        draft.threads = dict(self.threads)
        draft.owned = set()
        draft.vectors = dict(self.vectors)
        draft.used = dict(self.used)
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
        self.artifacts[artifact_id] = Artifact((*rows, row), retired=False)
        return PutResult(address=row.details.address, outcome=outcome, key=row.key)

    def retire(self, artifact_id: str) -> bool:
        """Take an artifact out of retrieval; whether it was current."""
        artifact = self.artifacts.get(artifact_id)
        if artifact is None or artifact.retired:
            return False
        self._remove(artifact.rows[-1])
        self.artifacts[artifact_id] = Artifact(artifact.rows, retired=True)
        return True

    def purge(self, artifact_id: str) -> int:
        """Forget an artifact; how many revisions it had."""
        artifact = self.artifacts.pop(artifact_id, None)
        if artifact is None:
            return 0
        if not artifact.retired:
            self._remove(artifact.rows[-1])
        self.used.pop(artifact_id, None)
        return len(artifact.rows)

    def use(self, artifact_id: str) -> bool:
        """Count one more use of an artifact; whether there is one."""
        if artifact_id not in self.artifacts:
            return False
        self.used[artifact_id] = self.used.get(artifact_id, 0) + 1
        return True

    def _row(self, item: Item, address: Address, digest: bytes, created_at: datetime, now: datetime) -> Row:
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
        return Row(self.number << _SEQUENCE_BITS | self.sequence, item, digest, terms, details)

    def _add(self, row: Row) -> None:
        self.current[row.key] = row
        self.length += row.details.length
        for term, occurrences in row.terms.items():
            self._mine(self.postings, "term", term)[row.key] = occurrences
        if row.item.thread is not None and row.item.position is not None:
            self._mine(self.threads, "thread", row.item.thread)[row.key] = row.item.position

    def _remove(self, row: Row) -> None:
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
class State:
    """Everything that is stored at one moment; never changed."""

    shelves: Mapping[Partition, Shelf] = attrs.field(factory=dict)
    numbers: Mapping[int, Partition] = attrs.field(factory=dict)
    issued: int = 0
    changes: int = 0
    ledgers: Mapping[SessionKey, Mapping[str, Delivered]] = attrs.field(factory=dict)
    sessions: Mapping[SessionKey, Session] = attrs.field(factory=dict)

    def shelf(self, scope_id: str, family: str) -> Shelf | None:
        """Return the shelf of a scope and family."""
        return self.shelves.get(Partition(scope_id, family))

    def holder(self, key: Key) -> Shelf | None:
        """Return the shelf in which *key* is current."""
        partition = self.numbers.get(key >> _SEQUENCE_BITS)
        shelf = None if partition is None else self.shelves[partition]
        return shelf if shelf is not None and key in shelf.current else None


class Draft:
    """The next state while one batch is written: shelves are copied when they are first written to."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._issued = state.issued
        self._shelves: dict[Partition, Shelf] = {}
        self.ledgers = dict(state.ledgers)
        self.sessions = dict(state.sessions)

    def shelf(self, scope_id: str, family: str) -> Shelf:
        """Return the shelf of a scope and family."""
        partition = Partition(scope_id, family)
        if partition not in self._shelves:
            shelf = self._state.shelves.get(partition)
            if shelf is None:
                self._issued += 1
                shelf = Shelf(self._issued)
            self._shelves[partition] = shelf.draft()
        return self._shelves[partition]

    def purge(self, artifacts: Sequence[tuple[str, str, str]]) -> tuple[int, int]:
        """Forget artifacts, and that anybody was given them; how many revisions they had, and how many deliveries."""
        purged = sum(self.shelf(scope, family).purge(artifact) for scope, family, artifact in artifacts)
        stems = {Address(*artifact, 1).stem for artifact in artifacts}
        forgotten = 0
        for key, ledger in self.ledgers.items():
            kept = {uri: entry for uri, entry in ledger.items() if uri.rpartition("@")[0] not in stems}
            forgotten += len(ledger) - len(kept)
            self.ledgers[key] = kept
        return purged, forgotten

    def finished(self) -> State:
        """Return the next state."""
        shelves = {**self._state.shelves, **self._shelves}
        # A shelf without artifacts is dropped, so that a purge leaves not even the scope's name behind.
        shelves = {partition: shelf for partition, shelf in shelves.items() if shelf.artifacts}
        numbers = {shelf.number: partition for partition, shelf in shelves.items()}
        return State(shelves, numbers, self._issued, self._state.changes + 1, self.ledgers, self.sessions)
