"""What the contracts say to a store, in few words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from powerctx_core.ports import (
    LexicalRequest,
    LexicalResult,
    ListingRequest,
    NeighbourRequest,
    Snapshot,
    Store,
)
from powerctx_core.text.terms import analyse, analyse_query, analysed_text
from powerctx_core.types import QUERY_TERMS, Deadline, Filters, Item, LexicalHit, Partition, RawCandidate

__all__ = ["Database"]

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

    def current(self, artifact_id: str = "a", scope_id: str = "s", family: str = "memory") -> Item:
        """Return the content of the current revision, which has to be there."""
        item = self.latest(artifact_id, scope_id, family)

        assert item is not None, f"{artifact_id!r} of scope {scope_id!r} has no current revision"
        return item

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

    def partitions(self, scope_id: str | None = None) -> Mapping[Partition, int]:
        """Return the partitions, of a scope or of all, that hold current items."""
        with self.snapshot() as snapshot:
            return snapshot.partitions() if scope_id is None else snapshot.partitions(scope_id)

    def listing(
        self, scope_id: str = "s", family: str = "memory", limit: int = 100, prefix: str | None = None, **filters: Any
    ) -> tuple[RawCandidate, ...]:
        """Return current items, most recent first."""
        partition = Partition(scope_id, family)
        request = ListingRequest(partition=partition, limit=limit, prefix=prefix, filters=Filters(**filters))
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
        return {hit.artifact_id: hit for hit in self.lexical(query, *args, **fields).hits}

    def found(self, query: str, *args: Any, **fields: Any) -> set[str]:
        """Return the ids of the members that one request finds."""
        return set(self.hits(query, *args, **fields))

    def neighbours(self, scope_id: str = "s", family: str = "memory", *, words: str = "word") -> dict[str, list[str]]:
        """Return the neighbours of every current item that holds one of *words*, by artifact id."""
        partition = Partition(scope_id, family)
        with self.snapshot() as snapshot:
            hits = snapshot.lexical([self.request(words, scope_id, family, k=10_000)])[0].hits
            ids = {hit.key: hit.artifact_id for hit in hits}
            found = snapshot.neighbours(NeighbourRequest(partition=partition, keys=tuple(ids)))
        return {ids[key]: [ids.get(beside, f"unknown key {beside}") for beside in keys] for key, keys in found.items()}

    @staticmethod
    def terms(item: Item) -> dict[str, int]:
        """Return what the index has to know of an item."""
        return analyse(analysed_text(item.title, item.text, item.category, item.tags))

    def check_members(self, query: str, items: Sequence[Item], *, scope_id: str = "s", family: str = "memory") -> None:
        """Check members, occurrences and lengths against an analysis of *items*, all that the partition holds."""
        result = self.lexical(query, scope_id, family, k=10_000)
        terms = {item.artifact_id: self.terms(item) for item in items}
        used = set(result.terms)
        held = {term for own in terms.values() for term in own}
        known = [term for term in analyse_query(query).terms if term in held]
        expected = {name: {term: n for term, n in own.items() if term in used} for name, own in terms.items()}
        shown = ascii(query[:60])

        assert used <= set(known), shown
        assert len(used) == min(QUERY_TERMS, len(known)), shown
        assert len({hit.artifact_id for hit in result.hits}) == len(result.hits), shown
        assert {hit.artifact_id: dict(hit.matched) for hit in result.hits} == {
            name: own for name, own in expected.items() if own
        }, shown
        assert {hit.artifact_id: hit.length for hit in result.hits} == {
            name: sum(terms[name].values()) for name, own in expected.items() if own
        }, shown

    def check_statistics(
        self, query: str, items: Sequence[Item], *, scope_id: str = "s", family: str = "memory"
    ) -> None:
        """Check a result's statistics against an analysis of *items*, all that the partition holds."""
        result = self.lexical(query, scope_id, family, k=10_000)
        terms = [self.terms(item) for item in items]
        frequency = {term: sum(term in own for own in terms) for term in result.terms}
        length = sum(sum(own.values()) for own in terms)
        shown = ascii(query[:60])

        assert dict(result.statistics.document_frequency) == frequency, shown
        assert result.statistics.items == len(items), shown
        assert result.statistics.mean_length == (length / len(items) if items else 0), shown
