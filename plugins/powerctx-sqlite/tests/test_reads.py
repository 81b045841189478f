"""What a snapshot promises."""

from __future__ import annotations

import random
import sqlite3
import time
from datetime import UTC, datetime, timedelta

import attrs
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings, strategies as st

import powerctx_core as powerctx
from powerctx_core.errors import StoreError
from powerctx_core.memory_store import MemoryStore
from powerctx_core.ports import FetchRequest, LexicalRequest, ListingRequest, NeighbourRequest
from powerctx_core.records import NoSettings
from powerctx_core.text.terms import analyse_query
from powerctx_core.types import Deadline, Filters, Item, Partition
from powerctx_sqlalchemy import snapshot as snapshots
from powerctx_sqlite import frequency as frequencies, index as indexes
from powerctx_sqlite.store import open_store

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda 数据 选择 über naïve C++ foo_bar".split()


def _texts(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, weights=range(1, len(WORDS) + 1), k=rng.randint(1, 9))) for _ in range(count)]


def test_neighbours(store, ask):
    """Neighbours are the next current items by position, over gaps, at the ends, and past what was retired."""
    positions = {"a": 1, "b": 5, "c": 6, "d": 100, "e": 100}
    store.catalogue.put(
        [ask.item(f"word {name}", artifact_id=name, thread="t", position=n) for name, n in positions.items()]
    )
    store.catalogue.put([ask.item("word other", artifact_id="o", thread="u", position=5)])
    store.catalogue.put(
        [ask.item("word loose", artifact_id="l"), ask.item("word unplaced", artifact_id="p", thread="t")]
    )
    store.catalogue.put([ask.item("word", "elsewhere", artifact_id="x", thread="t", position=2)])

    def beside() -> dict[str, list[str]]:
        partition = Partition("s", "memory")
        request = LexicalRequest(partition=partition, query=analyse_query("word"), k=20)
        with store.catalogue.snapshot(Deadline()) as snapshot:
            names = {hit.key: hit.artifact_id for hit in snapshot.lexical([request])[0].hits}
            found = snapshot.neighbours(NeighbourRequest(partition=partition, keys=tuple(names)))
        return {names[key]: [names[other] for other in others] for key, others in found.items()}

    assert {
        "a": ["b"], "b": ["a", "c"], "c": ["b", "d"], "d": ["c", "e"], "e": ["d"], "o": [], "p": [],
    } == beside()  # fmt: skip
    store.catalogue.retire([("s", "memory", "c")])
    assert ["a", "d"] == beside()["b"]


def test_listing(store, ask):
    """Listings are most recent first, ties by artifact id, below a prefix, without what has no time last."""
    day = datetime(2024, 1, 1, tzinfo=UTC)
    names = ["a/b", "a/c", "a", "ab", "a-b", "a0", "z"]
    store.catalogue.put([ask.item(f"t {name}", artifact_id=name, updated_at=day) for name in names])
    store.catalogue.put([ask.item("new", artifact_id="a/new", updated_at=day + timedelta(days=1), event_time=day)])

    def listed(prefix=None, limit=100, **filters) -> list[str]:
        request = ListingRequest(
            partition=Partition("s", "memory"), prefix=prefix, limit=limit, filters=Filters(**filters)
        )
        with store.catalogue.snapshot(Deadline()) as snapshot:
            return [candidate.address.artifact_id for candidate in snapshot.listing(request)]

    assert ["a/new", *sorted(names)] == listed()
    assert ["a/new", "a", "a/b", "a/c"] == listed("a")
    assert ["a/new", "a"] == listed("a", limit=2)
    assert [] == listed(limit=0)
    assert ["a/new"] == listed(since=day + timedelta(hours=1))
    assert ["a/new"] == listed(time_field="event", until=day + timedelta(hours=1))
    assert ["a/new", *sorted(names)] == listed(time_field="event")


@pytest.mark.parametrize(
    "query",
    ['"', '""', "*", "alpha*", "NEAR(alpha beta)", "alpha AND NOT beta", "lexical:alpha", "^alpha", "-alpha", "(",
     "alpha\0beta", "{terms} : alpha", "'; DROP TABLE revision; --", "+", "\ud800", "a" * 5000, "NOT", "OR OR"],
)  # fmt: skip
def test_query_syntax_is_text(store, ask, query, monkeypatch):
    """Nothing that stands in a query is syntax: it is analysed like any text, or holds no term."""
    monkeypatch.setattr(snapshots, "_SCANNED_ITEMS", 0)
    store.catalogue.put([ask.item("alpha beta", artifact_id="x"), ask.item("gamma", artifact_id="y")])

    assert ask.found(store, query) <= {"x", "y"}
    assert {"x"} == ask.found(store, "alpha")


@pytest.mark.parametrize("count", [63, 64, 65, 300, 16_000])
@pytest.mark.parametrize("rank_above", [2000, 0])
def test_many_terms(opened, ask, count, rank_above):
    """Of any number of terms the 64 rarest that occur are used, by the same rule for partitions of any size."""
    store = opened(rank_above=rank_above)
    batch = [ask.item(" ".join(f"w{n}x" for n in range(start, 100)), artifact_id=f"a{start}") for start in range(95)]
    store.catalogue.put(batch)
    reference = MemoryStore("memory://", NoSettings())
    reference.catalogue.put(batch)
    query = " ".join(f"w{n}x" for n in range(count))

    assert _figures(reference, query) == _figures(store, query)
    assert len(ask.lexical(store, query).terms) <= 64


def _figures(store, query: str, scope: str = "s", filters: Filters = Filters()) -> tuple:
    request = LexicalRequest(partition=Partition(scope, "memory"), query=analyse_query(query), k=2000, filters=filters)
    with store.catalogue.snapshot(Deadline()) as snapshot:
        result = snapshot.lexical([request])[0]
    statistics = result.statistics
    hits = {hit.artifact_id: (dict(hit.matched), hit.length) for hit in result.hits}
    return hits, statistics.items, statistics.mean_length, dict(statistics.document_frequency), result.terms


def test_large_partitions_agree_with_small_ones(opened, ask, path):
    """The two ways to match give the same members and figures, with and without filters."""
    texts = _texts(600, seed=1)
    items = [ask.item(text, artifact_id=f"a{n}", tags=("odd",) if n % 2 else ()) for n, text in enumerate(texts)]
    small = opened(rank_above=1000)
    small.catalogue.put(items)
    large = opened(rank_above=10)

    for query in ("alpha", "数据 beta", "kappa lambda C++ foo_bar über", "nowhere", " ".join(WORDS)):
        for filters in (Filters(), Filters(tags=("odd",))):
            assert _figures(small, query, filters=filters) == _figures(large, query, filters=filters)


def test_large_partition_keeps_the_best(opened, ask, monkeypatch):
    """Of more members than asked for, core's best are returned, also when frequent terms only add to the rank."""
    from powerctx_core.recall.ranking import rank

    rng = random.Random(5)
    items = [
        ask.item(" ".join(rng.choices(WORDS, weights=range(1, len(WORDS) + 1), k=12)), artifact_id=f"a{n}")
        for n in range(3000)
    ]
    small, large = opened(rank_above=5000), opened(rank_above=100)
    small.catalogue.put(items)
    for postings in (8_000, 1000):
        monkeypatch.setattr(indexes, "_POSTINGS", postings)
        monkeypatch.setattr(frequencies, "COMMON", 500)
        for query in ("alpha iota", "beta eta 数据", "alpha beta C++", "alpha beta C++"):
            every, top = ask.lexical(small, query, k=8), ask.lexical(large, query, k=8)
            members = {hit.artifact_id: hit for hit in every.hits}
            best = [hit.artifact_id for hit in rank(every.hits, every.statistics, 8)]

            assert every.statistics == top.statistics
            assert every.terms == top.terms
            assert len(top.hits) < len(every.hits)
            assert all(members[hit.artifact_id].matched == hit.matched for hit in top.hits)
            assert len(set(best) & {hit.artifact_id for hit in top.hits}) >= 7


def test_common_terms_follow_changes(opened, ask, monkeypatch):
    """Terms that were common are counted anew after a change, and found when nothing else is left of the query."""
    monkeypatch.setattr(indexes, "_POSTINGS", 100)
    monkeypatch.setattr(frequencies, "COMMON", 100)
    store = opened(rank_above=10)
    store.catalogue.put([ask.item(f"alpha beta {n}", artifact_id=f"a{n}") for n in range(300)])
    store.catalogue.put([ask.item(f"beta beta gamma{n}", artifact_id=f"b{n}") for n in range(300)])

    for _ in range(2):
        found = ask.lexical(store, "alpha beta", k=8)
        assert {"alpha": 300, "beta": 600} == dict(found.statistics.document_frequency)
        assert all(hit.matched == {"alpha": 1, "beta": 1} for hit in found.hits)
    store.catalogue.retire([("s", "memory", f"a{n}") for n in range(290)])

    found = ask.lexical(store, "alpha beta", k=8)
    assert {"alpha": 10, "beta": 310} == dict(found.statistics.document_frequency)
    assert len(found.hits) >= 96
    assert {1, 2} == {hit.matched["beta"] for hit in found.hits}
    assert 310 == ask.lexical(store, "beta", k=8).statistics.document_frequency["beta"]


def test_frequencies_follow_changes(opened, ask):
    """Kept frequencies of a large partition are never older than the snapshot that uses them."""
    store = opened(rank_above=2)
    store.catalogue.put([ask.item(f"alpha {n}", artifact_id=f"a{n}") for n in range(5)])
    request = LexicalRequest(partition=Partition("s", "memory"), query=analyse_query("alpha"), k=9)

    with store.catalogue.snapshot(Deadline()) as before:
        assert 5 == before.changes() * 5
        store.catalogue.put([ask.item("alpha new", artifact_id="new")])
        assert 6 == ask.lexical(store, "alpha").statistics.document_frequency["alpha"]
        assert 5 == before.lexical([request])[0].statistics.document_frequency["alpha"]
    assert 6 == ask.lexical(store, "alpha").statistics.document_frequency["alpha"]
    store.catalogue.retire([("s", "memory", "a1")])
    assert 5 == ask.lexical(store, "alpha").statistics.document_frequency["alpha"]


@pytest.mark.parametrize("scanned", [128, 0])
def test_agrees_with_the_memory_store(opened, ask, monkeypatch, scanned):
    """A long random history gives the same outcomes, members, figures, listings and revisions as core's reference."""
    monkeypatch.setattr(snapshots, "_SCANNED_ITEMS", scanned)
    rng = random.Random(11)
    ours, reference = opened(), MemoryStore("memory://", NoSettings())
    when = datetime(2024, 1, 1, tzinfo=UTC)
    for step in range(120):
        when += timedelta(minutes=1)
        texts = _texts(rng.randint(1, 6), seed=step)
        batch = [
            Item(
                scope_id=rng.choice("st"), artifact_id=rng.choice(["a", "b", "c", "d/e", "d/f", None]), text=text,
                title=rng.choice([None, "alpha"]), tags=rng.choice([(), ("x",), ("x", "y")]),
                thread=rng.choice([None, "t"]), position=rng.choice([None, 1, 2, 5]), created_at=when,
                updated_at=when, event_time=rng.choice([None, when]),
                meta=rng.choice([{}, {"a": 1}]),
            )
            for text in texts
        ]  # fmt: skip
        assert list(reference.catalogue.put(batch)) == list(ours.catalogue.put(batch))
        gone = [(rng.choice("st"), "memory", rng.choice(["a", "b", "d/e"]))]
        if step % 5 == 0:
            assert reference.catalogue.retire(gone) == ours.catalogue.retire(gone)
        if step % 11 == 0:
            assert reference.catalogue.purge(gone) == ours.catalogue.purge(gone)
    for scope in "stu":
        for query in WORDS:
            for filters in (
                Filters(),
                Filters(tags=("x",)),
                Filters(since=when - timedelta(hours=1), time_field="event"),
            ):
                assert _figures(reference, query, scope, filters) == _figures(ours, query, scope, filters)
    for scope in "st":
        assert _everything(reference, scope) == _everything(ours, scope)


def _everything(store, scope: str) -> list:
    """Return listings, details, neighbours and histories, without keys."""
    partition = Partition(scope, "memory")
    request = LexicalRequest(partition=partition, query=analyse_query(" ".join(WORDS)), k=99)
    with store.catalogue.snapshot(Deadline()) as snapshot:
        listings = [
            snapshot.listing(ListingRequest(partition=partition, prefix=prefix, filters=Filters(time_field=field)))
            for prefix in (None, "d", "a")
            for field in ("created", "updated", "event")
        ]
        names = {hit.key: hit.artifact_id for hit in snapshot.lexical([request])[0].hits}
        details = {names[key]: candidate for key, candidate in snapshot.fetch(FetchRequest(keys=tuple(names))).items()}
        beside = snapshot.neighbours(NeighbourRequest(partition=partition, keys=tuple(names)))
        threads = {names[key]: [names[other] for other in others] for key, others in beside.items()}
        histories = [snapshot.history(scope, "memory", candidate.address.artifact_id) for candidate in listings[0]]
        exact = [snapshot.get(revision.address) for history in histories for revision in history]
        return [listings, details, threads, histories, exact, snapshot.partitions()]


CHARACTERS = st.characters(exclude_categories=("Cs",))
TEXTS = st.text(CHARACTERS, min_size=1, max_size=300).filter(lambda text: not text.isspace())
NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=30)
NUMBERS = st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def items(draw) -> Item:
    """Any item."""
    first, last = datetime(2, 1, 1), datetime(9998, 1, 1)  # noqa: DTZ001 - hypothesis wants naive bounds
    when = draw(st.datetimes(first, last, timezones=st.just(UTC)))
    return Item(
        scope_id=draw(NAMES),
        artifact_id=draw(NAMES),
        text=draw(TEXTS),
        title=draw(st.none() | TEXTS),
        overview=draw(st.none() | TEXTS),
        tags=tuple(draw(st.lists(NAMES, max_size=4, unique=True))),
        created_at=when,
        updated_at=when,
        event_time=draw(st.none() | st.just(when)),
        meta=draw(st.dictionaries(st.text(CHARACTERS, max_size=9), st.none() | NUMBERS, max_size=3)),
    )


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(item=items())
def test_round_trip(item, memory):
    """Any text, byte for byte, and any moment come back as they were given."""
    # An equal item of an earlier example would be left as it is, with its own times.
    memory.catalogue.purge([(item.scope_id, item.family, item.artifact_id)])
    memory.catalogue.put([item])

    with memory.catalogue.snapshot(Deadline()) as snapshot:
        stored = snapshot.latest(item.scope_id, "memory", item.artifact_id).item

    assert item == stored
    assert item.digest == stored.digest


@pytest.fixture(scope="module")
def memory():
    """A store in memory."""
    store = open_store("sqlite://")
    yield store
    store.close()


@pytest.mark.parametrize("unit", ["a", "é", "数", "😀", "e\u0301"])
@pytest.mark.parametrize("size", [4095, 4096, 4097, 9000])
def test_long_bodies(store, ask, unit, size):
    """A candidate carries the head, cut between characters; the revision has all of it."""
    text = (unit * size)[:size]
    store.catalogue.put([ask.item(text, artifact_id="x", title="findme")])

    candidate = ask.fetched(store, "findme")["x"]

    assert text.startswith(candidate.head)
    assert len(candidate.head.encode()) <= 4096
    assert len(text.encode()) == candidate.body_bytes
    assert len(candidate.head.encode()) >= min(4096 - 3, candidate.body_bytes)
    assert [(1, text, "current")] == ask.states(store, "x")


def _statements(store, hidden=("--", "BEGIN", "ROLLBACK")) -> list[str]:
    """Return a list that gets every statement from now on, with its values in it, as SQLite runs it."""
    seen: list[str] = []

    def note(statement: str) -> None:
        # What FTS5 asks of its own tables is shown as a comment.
        if not statement.startswith(hidden):
            seen.append(statement)

    sa.event.listen(store._database._engine, "checkout", lambda connection, *_: connection.set_trace_callback(note))
    return seen


@pytest.mark.parametrize("rank_above", [2000, 10])
def test_statements(opened, ask, rank_above):
    """A prepare of one family takes at most five statements, and none of them writes."""
    store = opened(rank_above=rank_above)
    store.catalogue.put([ask.item(f"alpha {n}", artifact_id=f"a{n}", thread="t", position=n) for n in range(50)])
    partition = Partition("s", "memory")
    seen = _statements(store)
    with store.catalogue.snapshot(Deadline.after(10)) as snapshot:
        request = LexicalRequest(partition=partition, query=analyse_query("alpha 7"), k=64)
        keys = [hit.key for hit in snapshot.lexical([request])[0].hits]
        snapshot.neighbours(NeighbourRequest(partition=partition, keys=tuple(keys[:8])))
        snapshot.fetch(FetchRequest(keys=tuple(keys)))

    assert len(seen) <= 5
    assert all(statement.startswith("SELECT") for statement in seen)
    seen.clear()
    with store.catalogue.snapshot(Deadline()) as snapshot:
        snapshot.lexical([attrs_request(scope) for scope in ("s", "t", "u", "v")])
    assert len(seen) <= 3


def test_empty_families_take_no_statement(path):
    """A plain call of three families of which one holds something takes as many statements as a call of that one."""
    with powerctx.open(f"sqlite:///{path}", embedder="hash", settings={}) as ctx:
        ctx.put([powerctx.Item(scope_id="s", text=f"alpha {n}", thread="t", position=n) for n in range(200)])
        seen = _statements(ctx.store)
        taken = []
        for families in (["memory"], None):
            for _ in range(2):  # the first call of a process reads more
                seen.clear()
                assert ctx.prepare("alpha 7", scope_id="s", families=families).selected
            taken.append(len(seen))
        written = [each for each in seen if not each.startswith(("SELECT", "PRAGMA busy_timeout"))]

    assert taken[0] == taken[1]
    assert written == []


def attrs_request(scope: str) -> LexicalRequest:
    """A request to one scope."""
    return LexicalRequest(partition=Partition(scope, "memory"), query=analyse_query("alpha"), k=64)


def test_every_plan_uses_an_index(store, ask, monkeypatch):
    """No read of revisions walks through a whole table."""
    monkeypatch.setattr(snapshots, "_SCANNED_ITEMS", 0)
    store.catalogue.put([ask.item("alpha", artifact_id="a", thread="t", position=1)])
    seen = _statements(store)
    _everything(store, "s")
    _figures(store, "alpha", filters=Filters(tags=("x",)))
    store.catalogue.put([ask.item("beta", artifact_id="a"), ask.item("gamma", artifact_id="b")])
    with sqlite3.connect(store._database.location.path) as plain:
        plans = {
            row[3]
            for statement in seen
            if statement.startswith("SELECT")
            for row in plain.execute(f"EXPLAIN QUERY PLAN {statement}")
        }
    plain.close()

    scans = {
        plan for plan in plans if plan.startswith("SCAN") and not plan.startswith(("SCAN v", "SCAN asked", "SCAN ids"))
    }
    assert {
        plan for plan in scans if "VIRTUAL TABLE" not in plan and plan not in {"SCAN meta", "SCAN partition"}
    } == set()


def test_reads_change_nothing(opened, ask, path):
    """Reading leaves the file's bytes and the change counter as they were."""
    store = opened()
    store.catalogue.put([ask.item("alpha", artifact_id="x", thread="t", position=1)])
    store.close()
    before = path.read_bytes()

    reader = opened()
    _everything(reader, "s")
    _figures(reader, "alpha")
    reader.status()
    with reader.catalogue.snapshot(Deadline()) as snapshot:
        assert 1 == snapshot.changes()
    reader.close()

    assert before == path.read_bytes()
    assert [path] == list(path.parent.iterdir())


def test_deadline(opened, ask):
    """A statement that runs past the deadline is stopped and told; the connection is good for the next call."""
    store = opened(rank_above=10)
    store.catalogue.put([ask.item(f"alpha beta gamma {n}", artifact_id=f"a{n}") for n in range(20_000)])
    request = LexicalRequest(partition=Partition("s", "memory"), query=analyse_query("alpha beta gamma"), k=10)

    with (
        store.catalogue.snapshot(Deadline(time.monotonic() - 1)) as snapshot,
        pytest.raises(StoreError, match="deadline"),
    ):
        snapshot.lexical([request])

    assert 20_000 == ask.lexical(store, "alpha").statistics.document_frequency["alpha"]


def test_store_in_memory(ask):
    """A store in memory keeps the same promises; writing while reading it in one thread is refused, not a deadlock."""
    store = open_store("sqlite://")
    store.catalogue.put([ask.item("alpha", artifact_id="x")])
    with store.catalogue.snapshot(Deadline()) as outer, store.catalogue.snapshot(Deadline()) as inner:
        assert outer.changes() == inner.changes() == 1
        with pytest.raises(StoreError, match="in memory"):
            store.catalogue.put([ask.item("beta")])
    assert {"x"} == ask.found(store, "alpha")
    other = open_store("sqlite://")
    assert set() == ask.found(other, "alpha")
    store.close()
    other.close()


def test_statements_of_a_start(tmp_path):
    """What an agent should know when it starts takes at most six statements, and none of them writes."""
    families = ("memory", "resource", "skill", "profile", "experience")
    with powerctx.open(f"sqlite:///{tmp_path / 'x.db'}") as ctx:
        ctx.put([Item(scope_id=f"s{n}", family=family, text=f"a {family}") for family in families for n in range(3)])
        ctx.put([Item(scope_id="s0", category="events", text=f"event {n}") for n in range(30)])
        ctx.search(scope_id="s0", mode="bootstrap")
        seen = _statements(ctx.store)
        found = ctx.search(scope_id="s0", mode="bootstrap")
        seen = list(seen)  # closing makes others

    assert {"memory", "resource", "skill", "profile"} <= {entry.address.family for entry in found.entries}
    assert len(seen) == 4, seen
    assert all(statement.startswith("SELECT") for statement in seen)


@pytest.mark.parametrize("lifecycle", ["startup", "resume"])
@pytest.mark.parametrize("logged", [True, False])
@pytest.mark.parametrize("more", [{}, {"turn": 3}, {"actor": "ann"}, {"include_receipt": True}])
def test_statements_of_a_start_in_a_session(tmp_path, lifecycle, logged, more):
    """With a session, too, it reads at most six times, whatever is known of it; its ledger is written at the end."""
    families = ("memory", "resource", "skill", "profile", "experience")
    with powerctx.open(f"sqlite:///{tmp_path / 'x.db'}") as ctx:
        ctx.put([Item(scope_id="s", family=family, text=f"a {family} {n}") for family in families for n in range(3)])
        ctx.put([Item(scope_id="s", category="events", text=f"event {n}") for n in range(30)])
        if logged:
            ctx.sessions.add_message("x", "user", "Hello.", scope_id="s")
            ctx.sessions.set_overview("x", "We build a tide table.", scope_id="s")
        asked = {"scope_id": "s", "mode": "bootstrap", "session_id": "x", "lifecycle": lifecycle, **more}
        ctx.search(**asked)
        seen = _statements(ctx.store, hidden=("--", "ROLLBACK", "PRAGMA busy_timeout"))
        found = ctx.search(**asked)
        seen = list(seen)  # closing makes others
        written = seen.index("BEGIN IMMEDIATE")
        turn = more.get("turn", int(logged))

    reads = [statement for statement in seen[:written] if statement.startswith("SELECT")]
    assert 0 < len(reads) <= 6, reads
    assert {statement for statement in seen[:written] if statement not in reads} <= {"BEGIN"}
    assert found.stats.dedup == {"turn": turn, "turns": 5, "recorded": found.stats.dedup["recorded"]}
    assert found.stats.dedup["recorded"] > 9
    assert ("tide table" in found.rendered) == (logged and lifecycle == "resume")
    rest = [statement for statement in seen[written + 1 :] if statement != "COMMIT"]
    assert rest
    assert all("delivery" in statement for statement in rest), rest


@pytest.mark.parametrize("limit", [0, 1, 3, 1000])
@pytest.mark.parametrize("asked", [["a"], ["a", "b"], ["b", "nowhere", "a", "a"], ["nowhere"], []])
def test_joined_listings(store, ask, limit, asked):
    """Several listings with one statement are those that each is alone, in the order asked, whatever they restrict."""
    day = datetime(2024, 1, 1, tzinfo=UTC)
    store.catalogue.put(
        [
            ask.item(f"{name} {n}", artifact_id=f"{n}", family=name, updated_at=day + timedelta(hours=n % 7),
                     tags=("odd",) if n % 2 else ())
            for name in ("memory", "skill") for n in range(9)
        ]
    )  # fmt: skip
    families = {"a": "memory", "b": "skill", "nowhere": "resource"}
    for filters in (Filters(), Filters(tags=("odd",), since=day + timedelta(hours=2))):
        requests = [
            ListingRequest(partition=Partition("s", families[name]), limit=limit, filters=filters) for name in asked
        ]
        with store.catalogue.snapshot(Deadline()) as snapshot:
            apart = [snapshot.listing(request) for request in requests]
            seen = _statements(store)
            assert apart == list(snapshot.listings(requests))
            assert len(seen) <= 1
            mixed = [attrs.evolve(request, limit=n) for n, request in enumerate(requests)]
            assert [snapshot.listing(request) for request in mixed] == list(snapshot.listings(mixed))
