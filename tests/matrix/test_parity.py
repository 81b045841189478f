"""Every backend agrees with the reference: random operations on both give the same results."""

import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, settings
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
from powerctx_core.ports import FetchRequest, LexicalRequest, ListingRequest, NeighbourRequest
from powerctx_core.records import NoSettings
from powerctx_core.text.terms import analyse_query
from powerctx_core.types import Address, Deadline, Filters, Item, Partition, derived_artifact_id

pytestmark = [pytest.mark.matrix, pytest.mark.variants]

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


def given_or_now(moment):
    """Return a moment that a test gave; those that a store took from its clock are all the same."""
    return moment if moment is None or moment.year == LONG_AGO.year else "now"


def plain(candidate):
    """Return everything that a candidate says, apart from clock times."""
    return attrs.evolve(
        candidate, created_at=given_or_now(candidate.created_at), updated_at=given_or_now(candidate.updated_at)
    )


def revisions(found):
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


def lexical(snapshot, requests):
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


def neighbours(snapshot, partition):
    """Return the neighbours of all items that have a word, with addresses in place of keys."""
    request = LexicalRequest(partition=partition, query=analyse_query(" ".join(WORDS)), k=1000)
    keys = tuple(hit.key for hit in snapshot.lexical([request])[0].hits)
    found = snapshot.neighbours(NeighbourRequest(partition=partition, keys=keys))
    details = snapshot.fetch(FetchRequest(keys=(*keys, *(key for beside in found.values() for key in beside))))
    return {details[key].address: [details[other].address for other in beside] for key, beside in found.items()}


def everything(snapshot):
    """Read all there is."""
    partitions = [Partition(scope, family) for scope in SCOPES for family in FAMILIES]
    requests = [
        LexicalRequest(partition=partition, query=analyse_query(" ".join(WORDS)), k=1000) for partition in partitions
    ]
    return [
        dict(snapshot.partitions()),
        lexical(snapshot, requests),
        [neighbours(snapshot, partition) for partition in partitions],
        [[plain(found) for found in snapshot.listing(ListingRequest(partition=partition))] for partition in partitions],
        [revisions(snapshot.history(p.scope_id, p.family, name)) for p in partitions for name in IDS],
    ]


class Parity(RuleBasedStateMachine):
    """Does the same to the reference and to a backend.

    Attributes:
        backend: which one.
    """

    backend = None

    def __init__(self):
        super().__init__()
        self.closing = ExitStack()
        place = Path(self.closing.enter_context(tempfile.TemporaryDirectory()))
        self.stores = [MemoryStore("memory://", NoSettings()), self.backend.open(place)]
        for store in self.stores:
            self.closing.callback(store.close)
        self.held = None

    def teardown(self):
        """Close both."""
        self.closing.close()

    def same(self, ask):
        """Ask both and return what both say."""
        expected, actual = (ask(store.catalogue) for store in self.stores)

        assert actual == expected
        return expected

    def same_read(self, ask):
        """Ask a snapshot of both."""

        def read(catalogue):
            with catalogue.snapshot(Deadline()) as snapshot:
                return ask(snapshot)

        return self.same(read)

    @initialize(items=st.lists(ITEMS, max_size=8))
    def begin(self, items):
        """Start with something in the stores."""
        self.put(items)

    @rule(items=st.lists(ITEMS, min_size=1, max_size=6))
    def put(self, items):
        """Outcomes and addresses agree."""
        self.same(lambda catalogue: [(result.outcome, result.address) for result in catalogue.put(items)])

    @rule(item=ITEMS, other=SOME_TEXT)
    def put_back(self, item, other):
        """A, B, A in one batch, and once more."""
        items = [item, Item(scope_id=item.scope_id, family=item.family, artifact_id="a", text=other), item]
        self.put(items)
        self.put(items[2:])

    @rule(data=st.data())
    def put_stored(self, data):
        """What is stored can be put again."""
        name = data.draw(st.sampled_from(IDS))
        for scope in SCOPES:

            def again(catalogue, scope=scope):
                with catalogue.snapshot(Deadline()) as snapshot:
                    found = snapshot.latest(scope, "memory", name)
                return found and catalogue.put([found.item])[0].outcome

            assert self.same(again) in {None, "unchanged"}

    @rule(artifacts=ARTIFACTS)
    def retire(self, artifacts):
        """As many were current."""
        self.same(lambda catalogue: catalogue.retire(artifacts))

    @rule(artifacts=ARTIFACTS)
    def purge(self, artifacts):
        """As many revisions were deleted."""
        self.same(lambda catalogue: catalogue.purge(artifacts))

    @rule(items=st.lists(ITEMS, min_size=1, max_size=2))
    def purge_derived(self, items):
        """Derived ids are the same, too."""
        self.put(items)
        self.purge([(item.scope_id, item.family, item.artifact_id or derived_artifact_id(item)) for item in items])

    @rule()
    def reindex(self):
        """The last progress is the number of items, and nothing else changes (see the invariant)."""
        self.same(lambda catalogue: list(catalogue.reindex())[-1:] or [0])

    @rule(
        asked=st.lists(
            st.tuples(PARTITIONS, st.one_of(SOME_TEXT, st.text(max_size=9)), FILTERS), min_size=1, max_size=4
        )
    )
    def search(self, asked):
        """Members, occurrences, lengths, statistics and details agree."""
        requests = [
            LexicalRequest(partition=partition, query=analyse_query(query), k=1000, filters=filters)
            for partition, query, filters in asked
        ]
        self.same_read(lambda snapshot: lexical(snapshot, requests))

    @rule(
        partition=PARTITIONS,
        filters=FILTERS,
        limit=st.integers(0, 5),
        prefix=st.sampled_from([None, "a", "A", "é", "a/b", "a/", "%"]),
    )
    def list_some(self, partition, filters, limit, prefix):
        """Listings agree in content and order."""
        request = ListingRequest(partition=partition, filters=filters, limit=limit, prefix=prefix)
        self.same_read(lambda snapshot: [plain(candidate) for candidate in snapshot.listing(request)])

    @rule(partition=PARTITIONS, name=st.sampled_from(IDS), revision=st.integers(0, 9))
    def read_one(self, partition, name, revision):
        """Exact and latest revisions agree."""
        scope, family = partition.scope_id, partition.family
        address = Address(scope, family, name, revision)
        self.same_read(
            lambda snapshot: revisions(
                found for found in (snapshot.get(address), snapshot.latest(scope, family, name)) if found is not None
            )
        )

    @precondition(lambda self: self.held is None)
    @rule()
    def hold(self):
        """Open snapshots that later writes must not reach."""
        stack = ExitStack()
        snapshots = [stack.enter_context(store.catalogue.snapshot(Deadline())) for store in self.stores]
        expected, actual = (everything(snapshot) for snapshot in snapshots)

        assert actual == expected
        self.held = stack, snapshots, expected

    @precondition(lambda self: self.held is not None)
    @rule()
    def release(self):
        """The held snapshots still show their moment."""
        stack, snapshots, expected = self.held
        self.held = None
        with stack:
            for snapshot in snapshots:
                assert everything(snapshot) == expected

    @invariant()
    def agree(self):
        """Everything that can be read agrees; reading moved no change counter."""
        before = [self.changes(store) for store in self.stores]
        self.same_read(everything)

        assert [self.changes(store) for store in self.stores] == before

    @staticmethod
    def changes(store):
        """Return a store's change counter."""
        with store.catalogue.snapshot(Deadline()) as snapshot:
            return snapshot.changes()


def test_parity(backend):
    """Puts, retirements, purges, reads and held snapshots of any order agree with the reference."""
    machine = type("Machine", (Parity,), {"backend": backend})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=40,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
