"""What the tests of the matrix say to a store, in few words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from powerctx_core.ports import (
    FetchRequest,
    LexicalRequest,
    LexicalResult,
    ListingRequest,
    NeighbourRequest,
    Snapshot,
    Store,
)
from powerctx_core.text.terms import analyse, analyse_query, analysed_text
from powerctx_core.types import Deadline, Filters, Item, LexicalHit, Partition, RawCandidate

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Database:
    """A store and the partition (``s``, ``memory``) that a test uses unless it says otherwise."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.catalogue = store.catalogue

    @staticmethod
    def at(seconds: float) -> datetime:
        """Return a moment so many seconds after the beginning of 2026."""
        return EPOCH + timedelta(seconds=seconds)

    @staticmethod
    def item(artifact_id: str | None = "a", text: str = "t", *, scope_id: str = "s", **fields: Any) -> Item:
        """Make an item."""
        return Item(scope_id=scope_id, artifact_id=artifact_id, text=text, **fields)

    def put(self, *items: Item) -> list[str]:
        """Store items in one batch and return the outcomes."""
        return [result.outcome for result in self.catalogue.put(items)]

    def add(self, artifact_id: str | None = "a", text: str = "t", **fields: Any) -> str:
        """Store one item and return the outcome."""
        return self.put(self.item(artifact_id, text, **fields))[0]

    def retire(self, *artifact_ids: str, scope_id: str = "s", family: str = "memory") -> int:
        """Retire artifacts."""
        return self.catalogue.retire([(scope_id, family, artifact_id) for artifact_id in artifact_ids])

    def purge(self, *artifact_ids: str, scope_id: str = "s", family: str = "memory") -> int:
        """Purge artifacts."""
        return self.catalogue.purge([(scope_id, family, artifact_id) for artifact_id in artifact_ids])

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Open a read view."""
        with self.catalogue.snapshot(Deadline()) as snapshot:
            yield snapshot

    def latest(self, artifact_id: str = "a", scope_id: str = "s", family: str = "memory") -> Item | None:
        """Return the content of the current revision."""
        with self.snapshot() as snapshot:
            revision = snapshot.latest(scope_id, family, artifact_id)
        return None if revision is None else revision.item

    def history(
        self, artifact_id: str = "a", scope_id: str = "s", family: str = "memory"
    ) -> list[tuple[int, str, str]]:
        """Return number, state and text of every revision."""
        with self.snapshot() as snapshot:
            revisions = snapshot.history(scope_id, family, artifact_id)
        return [(revision.address.revision, revision.state, revision.item.text) for revision in revisions]

    def changes(self) -> int:
        """Return the change counter."""
        with self.snapshot() as snapshot:
            return snapshot.changes()

    def partitions(self) -> Mapping[Partition, int]:
        """Return the partitions that hold current items."""
        with self.snapshot() as snapshot:
            return snapshot.partitions()

    def listing(
        self, scope_id: str = "s", family: str = "memory", limit: int = 100, prefix: str | None = None, **filters: Any
    ) -> tuple[RawCandidate, ...]:
        """Return current items, most recent first."""
        request = ListingRequest(
            partition=Partition(scope_id, family), limit=limit, prefix=prefix, filters=Filters(**filters)
        )
        with self.snapshot() as snapshot:
            return snapshot.listing(request)

    def listed(self, *args: Any, **fields: Any) -> list[str]:
        """Return the ids that a listing gives."""
        return [candidate.address.artifact_id for candidate in self.listing(*args, **fields)]

    @staticmethod
    def request(query: str, scope_id: str = "s", family: str = "memory", k: int = 64, **filters: Any) -> LexicalRequest:
        """Make a lexical request."""
        partition = Partition(scope_id, family)
        return LexicalRequest(partition=partition, query=analyse_query(query), k=k, filters=Filters(**filters))

    def lexical(self, query: str, *args: Any, **fields: Any) -> LexicalResult:
        """Answer one lexical request."""
        with self.snapshot() as snapshot:
            return snapshot.lexical([self.request(query, *args, **fields)])[0]

    def hits(self, query: str, *args: Any, **fields: Any) -> dict[str, LexicalHit]:
        """Return the members that one request finds, by artifact id."""
        result = self.lexical(query, *args, **fields)
        found = {hit.artifact_id: hit for hit in result.hits}

        assert len(found) == len(result.hits)
        return found

    def found(self, query: str, *args: Any, **fields: Any) -> set[str]:
        """Return the ids of the members that one request finds."""
        return set(self.hits(query, *args, **fields))

    def neighbours(self, scope_id: str = "s", family: str = "memory") -> dict[str, list[str]]:
        """Return the neighbours of every current item of a partition, by artifact id."""
        partition = Partition(scope_id, family)
        with self.snapshot() as snapshot:
            listing = snapshot.listing(ListingRequest(partition=partition, limit=10_000))
            text = " ".join(candidate.head for candidate in listing)
            query = analyse_query(text)
            request = LexicalRequest(partition=partition, query=query, k=10_000)
            ids = {hit.key: hit.artifact_id for hit in snapshot.lexical([request])[0].hits}
            found = snapshot.neighbours(NeighbourRequest(partition=partition, keys=tuple(ids)))
            named = {
                key: candidate.address.artifact_id
                for key, candidate in snapshot.fetch(FetchRequest(keys=tuple(ids))).items()
            }

            assert named == ids
            assert len(ids) == len(listing), "every item of such a test has to be found by the words of all"
        return {ids[key]: [ids[beside] for beside in keys] for key, keys in found.items()}

    @staticmethod
    def terms(item: Item) -> dict[str, int]:
        """Return what the index has to know of an item."""
        return analyse(analysed_text(item.title, item.text, item.category, item.tags))

    def check_lexical(self, query: str, items: Sequence[Item], *, scope_id: str = "s", family: str = "memory") -> None:
        """Check members, occurrences, lengths and statistics against an analysis of all *items* of the partition."""
        result = self.lexical(query, scope_id, family, k=10_000)
        terms = {item.artifact_id: self.terms(item) for item in items}
        asked = analyse_query(query).terms
        frequency = {term: n for term in asked if (n := sum(term in own for own in terms.values()))}
        used = set(result.terms)
        matched = {name: {term: n for term, n in own.items() if term in used} for name, own in terms.items()}
        lengths = {name: sum(own.values()) for name, own in terms.items()}

        assert used <= set(frequency)
        assert len(used) == min(64, len(frequency))
        assert result.statistics.document_frequency == {term: frequency[term] for term in result.terms}
        assert result.statistics.items == len(items)
        assert result.statistics.mean_length == (sum(lengths.values()) / len(items) if items else 0)
        assert {hit.artifact_id: dict(hit.matched) for hit in result.hits} == {k: v for k, v in matched.items() if v}
        assert all(hit.length == lengths[hit.artifact_id] for hit in result.hits)


@pytest.fixture
def db(store: Store) -> Database:
    """Give a fresh store with words for it."""
    return Database(store)
