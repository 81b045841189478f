"""Any store behaves as the reference in memory: random operations on both give the same results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, TypeVar

import attrs
import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from powerctx_core.memory_store import MemoryStore
from powerctx_core.ports import (
    Catalogue,
    FetchRequest,
    LexicalRequest,
    ListingRequest,
    NeighbourRequest,
    Snapshot,
    Store,
)
from powerctx_core.records import NoSettings
from powerctx_core.testing.answers import check_answers
from powerctx_core.testing.contracts.store import StoreContract
from powerctx_core.text.terms import analyse_query
from powerctx_core.types import (
    Address,
    Deadline,
    Filters,
    Item,
    Partition,
    RawCandidate,
    Revision,
    derived_artifact_id,
)

__all__ = ["Parity", "ReferenceContract"]

T = TypeVar("T")

SCOPES, FAMILIES = ("s", "S"), ("memory", "experience")
IDS = ("a", "A", "a/b", "é", "e\u0301")
WORDS = (
    "apple",
    "Apples",
    "pear",
    "not",
    "the",
    "北京",
    "北京大学",
    "資料庫",
    "资料库",
    "かな",
    "한국어",
    "C++",
    "x_y",
    "😀",
    "…",
    "\x00",
)
LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
MOMENTS = st.sampled_from([LONG_AGO + timedelta(microseconds=n) for n in range(4)])
OPTIONAL_MOMENTS = st.none() | MOMENTS
TAGS = st.lists(st.sampled_from(["x", "X", "y z", "é"]), max_size=3, unique=True).map(tuple)
SOME_TEXT = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
PARTITIONS = st.builds(Partition, st.sampled_from(SCOPES), st.sampled_from(FAMILIES))
ITEMS = st.builds(
    Item,
    scope_id=st.sampled_from(SCOPES),
    family=st.sampled_from(FAMILIES),
    artifact_id=st.sampled_from([*IDS, None]),
    text=SOME_TEXT,
    title=st.sampled_from([None, "", "apple"]),
    category=st.sampled_from([None, "", "c", "C"]),
    tags=TAGS,
    thread=st.sampled_from([None, "t", "T"]),
    position=st.none() | st.integers(0, 3),
    created_at=OPTIONAL_MOMENTS,
    updated_at=OPTIONAL_MOMENTS,
    event_time=OPTIONAL_MOMENTS,
    abstract=st.sampled_from([None, "", "short"]),
    meta=st.sampled_from([{}, {"k": [1, None]}]),
    confidence=st.sampled_from([None, 0.25]),
)
FILTERS = st.builds(
    Filters,
    tags=TAGS,
    since=OPTIONAL_MOMENTS,
    until=OPTIONAL_MOMENTS,
    time_field=st.sampled_from(["created", "updated", "event"]),
    category=st.sampled_from([None, None, "", "c", "C"]),
)
ARTIFACTS = st.lists(
    st.tuples(st.sampled_from(SCOPES), st.sampled_from(FAMILIES), st.sampled_from(IDS)), min_size=1, max_size=4
)


def given_or_now(moment: datetime | None) -> datetime | str | None:
    """Return a moment that a test gave; those that a store took from its clock are all the same."""
    return moment if moment is None or moment.year == LONG_AGO.year else "now"


def plain(candidate: RawCandidate) -> Any:
    """Return everything that a candidate says, apart from clock times."""
    values = attrs.asdict(candidate, recurse=False)
    return values | {field: given_or_now(values[field]) for field in ("created_at", "updated_at")}


def revisions(found: Iterable[Revision]) -> Any:
    """Return everything that revisions say, apart from clock times."""
    return [
        (
            revision.address,
            revision.state,
            revision.item.digest,
            revision.item.text,
            given_or_now(revision.item.created_at),
            given_or_now(revision.item.updated_at),
            revision.item.event_time,
        )
        for revision in found
    ]


def lexical(snapshot: Snapshot, requests: Sequence[LexicalRequest]) -> Any:
    """Return everything that lexical results say, with addresses in place of keys."""
    results = snapshot.lexical(requests)
    details = snapshot.fetch(FetchRequest(keys=tuple([hit.key for result in results for hit in result.hits])))
    return [
        (
            {details[hit.key].address: (hit.artifact_id, dict(hit.matched), hit.length) for hit in result.hits},
            result.statistics.items,
            result.statistics.mean_length,
            dict(result.statistics.document_frequency),
            result.terms,
        )
        for result in results
    ], [plain(details[key]) for key in sorted(details, key=lambda key: details[key].address.uri)]


def neighbours(snapshot: Snapshot, partition: Partition) -> Any:
    """Return the neighbours of all items that have a word, with addresses in place of keys."""
    request = LexicalRequest(partition=partition, query=analyse_query(" ".join(WORDS)), k=1000)
    keys = tuple(hit.key for hit in snapshot.lexical([request])[0].hits)
    found = snapshot.neighbours(NeighbourRequest(partition=partition, keys=keys))
    details = snapshot.fetch(FetchRequest(keys=(*keys, *(key for beside in found.values() for key in beside))))
    return {details[key].address: [details[other].address for other in beside] for key, beside in found.items()}


def everything(snapshot: Snapshot, partitions: Sequence[Partition]) -> Any:
    """Read all there is of some partitions."""
    requests = [
        LexicalRequest(partition=partition, query=analyse_query(" ".join(WORDS)), k=1000) for partition in partitions
    ]
    return [
        {partition: n for partition, n in snapshot.partitions().items() if partition in partitions},
        lexical(snapshot, requests),
        [neighbours(snapshot, partition) for partition in partitions],
        [[plain(found) for found in snapshot.listing(ListingRequest(partition=partition))] for partition in partitions],
        [revisions(snapshot.history(p.scope_id, p.family, name)) for p in partitions for name in IDS],
    ]


class Parity(RuleBasedStateMachine):
    """Does the same to the reference and to the store under test.

    All runs use one store, since a fresh one may cost a second: each has scopes of its own, and purges them at its end.
    """

    def __init__(self, store: Store, run: int) -> None:
        super().__init__()
        self.reference = MemoryStore("memory://", NoSettings())
        self.stores: list[Store] = [self.reference, store]
        self.suffix = f" {run}"
        self.written: set[tuple[str, str, str]] = set()
        self.held: tuple[ExitStack, list[Snapshot], Any] | None = None
        scopes = [scope + self.suffix for scope in SCOPES]
        self.partitions = [Partition(scope, family) for scope in scopes for family in FAMILIES]

    def teardown(self) -> None:
        """Leave nothing behind."""
        if self.held is not None:
            self.held[0].close()
        self.stores[1].catalogue.purge(sorted(self.written))
        self.reference.close()

    def here(self, partition: Partition) -> Partition:
        """Return the partition of this run."""
        return attrs.evolve(partition, scope_id=partition.scope_id + self.suffix)

    def named(self, artifacts: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
        """Return the artifacts of this run."""
        return [(scope + self.suffix, family, name) for scope, family, name in artifacts]

    def same(self, ask: Callable[[Catalogue], T]) -> T:
        """Ask both and return what both say."""
        expected, actual = (ask(store.catalogue) for store in self.stores)

        assert actual == expected
        return expected

    def same_read(self, ask: Callable[[Snapshot], T]) -> T:
        """Ask a snapshot of both."""

        def read(catalogue: Catalogue) -> T:
            with catalogue.snapshot(Deadline()) as snapshot:
                return ask(snapshot)

        return self.same(read)

    @initialize(items=st.lists(ITEMS, max_size=8))
    def begin(self, items: list[Item]) -> None:
        """Start with something in the stores."""
        self.put(items)

    @rule(items=st.lists(ITEMS, min_size=1, max_size=6))
    def put(self, items: list[Item]) -> None:
        """Outcomes and addresses agree."""
        items = [attrs.evolve(item, scope_id=item.scope_id + self.suffix) for item in items]
        self.written |= {(item.scope_id, item.family, item.artifact_id or derived_artifact_id(item)) for item in items}
        self.same(lambda catalogue: [(result.outcome, result.address) for result in catalogue.put(items)])

    @rule(item=ITEMS, other=SOME_TEXT)
    def put_back(self, item: Item, other: str) -> None:
        """A, B, A in one batch, and once more."""
        items = [item, Item(scope_id=item.scope_id, family=item.family, artifact_id="a", text=other), item]
        self.put(items)
        self.put(items[2:])

    @rule(data=st.data())
    def put_stored(self, data: st.DataObject) -> None:
        """What is stored can be put again."""
        name = data.draw(st.sampled_from(IDS))
        for scope in (scope + self.suffix for scope in SCOPES):

            def again(catalogue: Catalogue, scope: str = scope) -> str | None:
                with catalogue.snapshot(Deadline()) as snapshot:
                    found = snapshot.latest(scope, "memory", name)
                return None if found is None else catalogue.put([found.item])[0].outcome

            assert self.same(again) in {None, "unchanged"}

    @rule(artifacts=ARTIFACTS)
    def retire(self, artifacts: list[tuple[str, str, str]]) -> None:
        """As many were current."""
        artifacts = self.named(artifacts)
        self.same(lambda catalogue: catalogue.retire(artifacts))

    @rule(artifacts=ARTIFACTS)
    def purge(self, artifacts: list[tuple[str, str, str]]) -> None:
        """As many revisions were deleted."""
        artifacts = self.named(artifacts)
        self.same(lambda catalogue: catalogue.purge(artifacts))

    @rule(items=st.lists(ITEMS, min_size=1, max_size=2))
    def purge_derived(self, items: list[Item]) -> None:
        """Derived ids are the same, too."""
        self.put(items)
        here = [attrs.evolve(item, scope_id=item.scope_id + self.suffix) for item in items]
        names = [(item.scope_id, item.family, item.artifact_id or derived_artifact_id(item)) for item in here]
        self.same(lambda catalogue: catalogue.purge(names))

    @rule()
    def reindex(self) -> None:
        """The last progress is the number of items, and nothing else changes (see the invariant)."""
        self.same(lambda catalogue: list(catalogue.reindex())[-1:] or [0])

    @rule(
        asked=st.lists(
            st.tuples(PARTITIONS, st.one_of(SOME_TEXT, st.text(max_size=9)), FILTERS), min_size=1, max_size=4
        )
    )
    def search(self, asked: list[tuple[Partition, str, Filters]]) -> None:
        """Members, occurrences, lengths, statistics and details agree."""
        requests = [
            LexicalRequest(partition=self.here(partition), query=analyse_query(query), k=1000, filters=filters)
            for partition, query, filters in asked
        ]
        self.same_read(lambda snapshot: lexical(snapshot, requests))

    @rule(
        partition=PARTITIONS,
        filters=FILTERS,
        limit=st.integers(0, 5),
        prefix=st.sampled_from([None, "a", "A", "é", "a/b", "a/", "%"]),
    )
    def list_some(self, partition: Partition, filters: Filters, limit: int, prefix: str | None) -> None:
        """Listings agree in content and order."""
        request = ListingRequest(partition=self.here(partition), filters=filters, limit=limit, prefix=prefix)
        self.same_read(lambda snapshot: [plain(candidate) for candidate in snapshot.listing(request)])

    @rule(partition=PARTITIONS, name=st.sampled_from(IDS), revision=st.integers(0, 9))
    def read_one(self, partition: Partition, name: str, revision: int) -> None:
        """Exact and latest revisions agree."""
        scope, family = self.here(partition).scope_id, partition.family
        address = Address(scope, family, name, revision)
        self.same_read(
            lambda snapshot: revisions(
                found for found in (snapshot.get(address), snapshot.latest(scope, family, name)) if found is not None
            )
        )

    @precondition(lambda self: self.held is None)
    @rule()
    def hold(self) -> None:
        """Open snapshots that later writes must not reach."""
        stack = ExitStack()
        snapshots = [stack.enter_context(store.catalogue.snapshot(Deadline())) for store in self.stores]
        expected, actual = (everything(snapshot, self.partitions) for snapshot in snapshots)

        self.held = stack, snapshots, expected
        assert actual == expected

    @precondition(lambda self: self.held is not None)
    @rule()
    def release(self) -> None:
        """The held snapshots still show their moment."""
        assert self.held is not None
        stack, snapshots, expected = self.held
        self.held = None
        with stack:
            for snapshot in snapshots:
                assert everything(snapshot, self.partitions) == expected

    @invariant()
    def agree(self) -> None:
        """Everything that can be read agrees; reading moved no change counter."""
        before = [self.changes(store) for store in self.stores]
        self.same_read(lambda snapshot: everything(snapshot, self.partitions))

        assert [self.changes(store) for store in self.stores] == before

    @staticmethod
    def changes(store: Store) -> int:
        """Return a store's change counter."""
        with store.catalogue.snapshot(Deadline()) as snapshot:
            return snapshot.changes()


class ReferenceContract(StoreContract):
    """Random operations of any order agree with the reference: order, counts, statistics and every byte."""

    def test_agrees_with_the_reference(self, store: Store, examples: Callable[[int], hypothesis.settings]) -> None:
        """Puts, retirements, purges, reads and held snapshots of any order agree with the store in memory."""
        check_answers(store)  # what is not even of the right type would be looked into at length
        runs = count()
        settings = hypothesis.settings(examples(8), stateful_step_count=16)
        run_state_machine_as_test(lambda: Parity(store, next(runs)), settings=settings)  # type: ignore[arg-type]  # a factory will do
