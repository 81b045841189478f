"""``search`` in mode ``bootstrap``: what an agent should know when it starts."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import attrs
import pytest
from click.testing import CliRunner
from hypothesis import given, settings as hypothesis_settings, strategies as st

import powerctx_core as powerctx
from powerctx_core import (
    Address,
    CapabilityError,
    ContextPack,
    InvalidRequest,
    Item,
    Offered,
    PluginError,
    ProviderSpec,
    RawCandidate,
    SearchRequest,
    StoreSpec,
    hookimpl,
    wire,
)
from powerctx_core.cli.program import program
from powerctx_core.errors import ConfigError
from powerctx_core.memory_store import MemorySnapshot, MemoryStore
from powerctx_core.records import NoSettings
from powerctx_core.types import LIFECYCLES, SLOTS, Slot, manifest

S = "project:demo"
NOW = datetime.now(UTC)


def item(name: str, text: str, **fields: Any) -> Item:
    """Return an item of the memory family."""
    return Item(**{"scope_id": S, "artifact_id": name, "text": text, **fields})


def large() -> list[Item]:
    """Return a profile of 20 000 characters, 170 preferences, and 688 events in a month."""
    paragraphs = [f"Paragraph {n}: " + ("The user works on tides and boats. " * 8).strip() for n in range(70)]
    hour = timedelta(hours=1)
    return [
        item("me", "\n\n".join(paragraphs)[:20_000], family="profile"),
        *(
            item(f"p{n}", f"Prefers variant {n}.\nBODY of {n}. " + "Why is told here. " * 20, category="preferences",
                 title=f"Preference {n}", updated_at=NOW - n * hour)
            for n in range(170)
        ),
        *(
            item(f"e{n}", f"Event {n}: release {n} was made. " + "It took a while. " * 10, category="events",
                 updated_at=NOW - n * hour)
            for n in range(688)
        ),
    ]  # fmt: skip


@pytest.fixture
def ctx() -> Iterator[powerctx.Context]:
    """Give an empty store in memory."""
    with powerctx.open("memory://", plugins=(), settings={}) as opened:
        yield opened


def start(ctx: powerctx.Context, query: str | None = None, **parameters: Any) -> ContextPack:
    """Return the pack."""
    found = ctx.search(query, **{"scope_id": S, "mode": "bootstrap", **parameters})
    assert isinstance(found, ContextPack)
    return found


def names(found: ContextPack, slot: str) -> list[str]:
    """Return the artifact ids of a slot."""
    return [entry.address.artifact_id for entry in found.entries if entry.bucket == slot]


def test_a_large_memory(ctx: powerctx.Context) -> None:
    """The default budget holds something of every slot, and says of each what it is not."""
    ctx.put(large())
    ctx.sessions.set_overview("s", "We build a tide table.", scope_id=S)
    ctx.sessions.add_abstract("s", "First the parser.", scope_id=S)
    ctx.sessions.add_abstract("s", "Then the printer.", scope_id=S)
    found = start(ctx, session_id="s", lifecycle="resume")

    assert list(found.stats.slots) == ["identity", "working_state", "continuity", "listing", "instructions"]
    assert 0.85 * 1600 < found.stats.used_tokens <= 1600
    (identity,) = [entry for entry in found.entries if entry.bucket == "identity"]
    assert identity.cut
    assert identity.ref == "profile/me"
    assert large()[0].text.startswith(f"{identity.text[:-1]}\n\n")
    assert names(found, "working_state") == [f"e{n}" for n in range(len(names(found, "working_state")))]
    assert names(found, "continuity") == ["overview", "part-2", "part-1"]
    listed = names(found, "listing")
    times = [ctx.get(Address(S, "memory", name, 1)).item.updated_at for name in listed[:-1]]
    assert times == sorted(times, reverse=True)
    shown = len([entry for entry in found.entries if entry.address.family == "memory"])
    assert found.stats.slots["listing"]["left_out"] == 858 - shown
    assert f"{858 - shown} more items are not shown" in found.rendered
    assert "BODY" not in found.rendered
    assert found.stats.slots["instructions"]["content_hash"].startswith("sha256:")
    root = ET.fromstring(found.rendered)
    assert [each.get("name") for each in root.iter("note")] == ["overview", "part-2", "part-1", "listing", "guide"]


def test_an_empty_store(ctx: powerctx.Context) -> None:
    """Whatever is missing is absent: what is left is how to use the pack, the same each time."""
    found, again = start(ctx, session_id="s", lifecycle="resume"), start(ctx, scope_id="other")

    assert list(found.stats.slots) == ["instructions"]
    assert found.stats.outcome == "delivered"
    assert found.stats.errors == ()
    assert found.stats.dedup["recorded"] == 0
    assert found.stats.slots["instructions"]["content_hash"] == again.stats.slots["instructions"]["content_hash"]
    assert wire.canonical(start(ctx)) == wire.canonical(start(ctx))


def test_short_bodies_of_preferences_are_not_listed(ctx: powerctx.Context) -> None:
    """A line stands for an item even where its body is no longer than a line may be."""
    ctx.put([item("a", "Likes tea. SECRET reason.", category="preferences"), item("b", "x\ny", abstract="one\ntwo")])

    assert {entry.text for entry in start(ctx).entries[:2]} == {"one two", "Likes tea."}
    assert "SECRET" not in start(ctx).rendered


def test_old_events_and_those_of_others(ctx: powerctx.Context) -> None:
    """Only recent events are working state; with an actor, others have a fifth, or the places that are left."""
    ctx.put(
        [
            item("old", "An old event.", category="events", updated_at=NOW - timedelta(days=15)),
            *(
                item(f"{who}{n}", f"{who} did {n}.", category="events", origin=who, updated_at=NOW - timedelta(hours=n))
                for n in range(12)
                for who in ("ann", "bob")
            ),
        ]
    )
    assert "old" not in names(start(ctx), "working_state")
    mixed = names(start(ctx, actor="ann"), "working_state")
    assert [name[:3] for name in mixed].count("bob") == 2
    assert len(mixed) == 10
    assert all(name.startswith("ann") for name in names(start(ctx, actor="ann", peer_scope="actor"), "working_state"))
    assert len(names(start(ctx, actor="nobody"), "working_state")) == 10


@pytest.mark.parametrize("lifecycle", LIFECYCLES)
def test_continuity(ctx: powerctx.Context, lifecycle: str) -> None:
    """Where a session stopped is told when it goes on or was compacted; else its share is the next slot's."""
    ctx.put(large())
    ctx.sessions.set_overview("s", "We build a tide table.", scope_id=S)
    found = start(ctx, lifecycle=lifecycle, session_id="s")

    assert ("tide table" in found.rendered) == (lifecycle in ("resume", "compact"))
    assert found.stats.lifecycle == lifecycle
    assert 0.85 * 1600 < found.stats.used_tokens <= 1600


def test_no_search(ctx: powerctx.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words, vectors and neighbours are not asked for, and one listing is made a source."""
    ctx.put(large())
    listings: list[Any] = []
    honest = MemorySnapshot.listing
    monkeypatch.setattr(MemorySnapshot, "listing", lambda view, asked: listings.append(asked) or honest(view, asked))
    for name in ("lexical", "fetch", "neighbours", "get", "history"):
        monkeypatch.delattr(MemorySnapshot, name)
    start(ctx)

    assert len(listings) == 3


def test_bodies_beyond_the_head_are_read_where_there_is_room(ctx: powerctx.Context) -> None:
    """A large budget shows more of a profile than travels with a candidate."""
    ctx.put(large())
    (identity,) = [entry for entry in start(ctx, max_tokens=16_000).entries if entry.bucket == "identity"]

    assert len(identity.text) > 15_000


# --- Sessions ---


def test_what_was_delivered_is_not_delivered_again(ctx: powerctx.Context) -> None:
    """With bootstrap_exclude a recall leaves it out, in any later turn, and what was changed comes again."""
    ctx.put([item(f"e{n}", f"Walrus event {n}.", category="events") for n in range(4)])
    given = {entry.uri for entry in start(ctx, session_id="s").entries}
    ctx.put([item("new", "Walrus event 9.", category="events"), item("e0", "Walrus event 0 again.", category="events")])

    def recalled(turn: int, **parameters: Any) -> set[str]:
        asked = {"session_id": "s", "turn": turn, "bootstrap_exclude": True, "score_threshold": 0.0, **parameters}
        return {entry.uri for entry in ctx.recall("walrus event", scope_id=S, **asked).entries}

    for turn in (0, 1, 90):
        assert recalled(turn) & given == set()
    assert recalled(200, dedup_turns=0) == {f"powerctx://project%3Ademo/memory/{name}" for name in ("new@1", "e0@2")}
    assert len(recalled(200, bootstrap_exclude=False, dedup_turns=0)) == 5
    assert len(recalled(200, session_id="other")) == 5


@pytest.mark.parametrize("family", ["memory", "resource", "skill"])
def test_a_line_of_the_start_does_not_keep_the_text_away(ctx: powerctx.Context, family: str) -> None:
    """Whoever was told a name and a line is given the text when it asks; what was shown whole is not repeated."""
    body = "The walrus plan in short.\n\n" + "A step of the plan. " * 60
    ctx.put([item("plan", body, family=family), item("seen", "A walrus was seen.", category="events")])
    shown = {entry.address.artifact_id: entry.detail for entry in start(ctx, session_id="s", turn=0).entries}
    assert (shown["plan"], shown["seen"]) == ("abstract", "full")

    def recalled(turn: int, **parameters: Any) -> list[str]:
        asked = {"session_id": "s", "turn": turn, "score_threshold": 0.0, **parameters}
        return [entry.address.artifact_id for entry in ctx.recall("walrus", scope_id=S, **asked).entries]

    assert recalled(1, bootstrap_exclude=True) == []
    assert recalled(1) == ["plan"]
    assert recalled(2) == []
    assert set(recalled(7)) == {"plan", "seen"}


def test_the_last_start_counts(ctx: powerctx.Context) -> None:
    """What only an earlier start delivered may come again: the agent lost it."""
    ctx.put([item("a", "A walrus.", category="events")])
    start(ctx, session_id="s")
    start(ctx, session_id="s", lifecycle="compact", exclude_uris=[f"powerctx://{S.replace(':', '%3A')}/memory/a"])
    ctx.put([item("b", "B walrus.", category="events")])
    start(ctx, session_id="s", exclude_uris=["powerctx://project%3Ademo/memory/a"])
    found = ctx.recall("walrus", scope_id=S, session_id="s", bootstrap_exclude=True, dedup_turns=0, score_threshold=0.0)

    assert [entry.address.artifact_id for entry in found.entries] == ["a"]
    assert found.stats.excluded == 1


def test_nothing_is_recorded_unasked(ctx: powerctx.Context) -> None:
    """Without a session, or with dedup_turns 0, the ledger stays as it is; an exclusion needs a session."""
    ctx.put([item("a", "A walrus.", category="events")])
    start(ctx)
    start(ctx, session_id="s", dedup_turns=0)
    found = ctx.recall("walrus", scope_id=S, session_id="s", bootstrap_exclude=True, score_threshold=0.0)

    assert len(found.entries) == 1
    with pytest.raises(InvalidRequest, match="bootstrap_exclude has no meaning without a session"):
        ctx.recall("walrus", scope_id=S, bootstrap_exclude=True)


# --- Budgets ---

HOSTILE = st.text(
    st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("资料👩‍👩‍👧e\u0301</note>\n&\x01")), min_size=1
).filter(str.strip)


@hypothesis_settings(max_examples=40, deadline=None)
@given(
    texts=st.lists(
        st.tuples(HOSTILE, st.sampled_from(["events", "preferences", None]), st.integers(1, 90)), max_size=12
    ),
    profile=st.none() | HOSTILE,
    overview=st.none() | HOSTILE,
    max_tokens=st.integers(64, 2000),
    renderer=st.sampled_from(["flat-xml", "prepared", "plain", "sections"]),
    lifecycle=st.sampled_from(LIFECYCLES),
)
def test_never_over_budget(  # noqa: PLR0917 - given by name
    texts: list[tuple[str, str | None, int]],
    profile: str | None,
    overview: str | None,
    max_tokens: int,
    renderer: str,
    lifecycle: str,
) -> None:
    """Whatever is stored, the text costs no more than allowed, forges no element, and repeats no entry."""
    with powerctx.open("memory://", plugins=(), settings={}) as ctx:
        ctx.put([item(f"n{n}", text * times, category=kind) for n, (text, kind, times) in enumerate(texts)])
        if profile:
            ctx.put([item("me", f"{profile}\n\n" * 50, family="profile")])
        if overview:
            ctx.sessions.set_overview("s", overview, scope_id=S)
        found = start(ctx, max_tokens=max_tokens, renderer=renderer, lifecycle=lifecycle, session_id="s")
        price = ctx.host.part("powerctx_token_estimators", "o200k").cost(found.rendered)

    assert price <= max_tokens
    assert found.stats.used_tokens <= max_tokens
    uris = [entry.uri for entry in found.entries]
    assert len(uris) == len(set(uris))
    if renderer == "flat-xml" and found.rendered:
        assert len(ET.fromstring(found.rendered)) == len(uris)


@given(
    st.dictionaries(
        st.sampled_from([*SLOTS, "tasks"]),
        st.builds(
            Slot, share=st.none() | st.floats(0.0, 1.0), order=st.none() | st.floats(0.0, 90.0), source=st.none()
        ),
    ),
    st.sampled_from(LIFECYCLES),
)
def test_shares(configured: dict[str, Slot], lifecycle: str) -> None:
    """Shares never sum up to more than all, and no slot is lost but by a share of 0 or its lifecycle."""
    slots = manifest(configured, lifecycle)

    assert not slots or sum(slot.share for slot in slots) == pytest.approx(1.0)
    off = {name for name, slot in configured.items() if slot.share == 0.0}
    absent = {"continuity"} if lifecycle in ("startup", "clear") else set()
    assert {slot.name for slot in slots} == {*SLOTS, *configured} - off
    assert {slot.name for slot in slots if slot.filled} == {*SLOTS, *configured} - off - absent


# --- Parameters and settings ---


@pytest.mark.parametrize(
    ("field", "parameters"),
    [
        *((name, {name: value}) for name, value in {
            "query": "x", "references": ["a"], "families": ["memory"], "categories": ["events"], "limit": 1,
            "score_threshold": 0.1, "tags": ["a"], "filter": {"layer": "L1"}, "since": NOW, "time_field": "event",
            "search_type": "fts", "target_uri": "powercontext://a", "level": "all", "policy": "x", "quotas": {},
            "purpose": "chat", "detail": "auto", "show": [], "trim": "rank", "rewrite": False, "image": "x",
            "bootstrap_exclude": True, "query_expansion": "off",
        }.items()),
        ("lifecycle", {"lifecycle": "reboot"}),
        ("max_tokens", {"max_tokens": 63}),
        ("scope_id", {"scope_id": ""}),
        ("renderer", {"renderer": "nothing"}),
        ("peer_scope", {"peer_scope": "actor"}),
        ("mode", {"mode": "nothing"}),
    ],
)  # fmt: skip
def test_wrong_parameters(field: str, parameters: dict[str, Any]) -> None:
    """What has no meaning without a query is one sentence that names it."""
    with powerctx.open("memory://", plugins=(), settings={}) as ctx, pytest.raises(InvalidRequest) as caught:
        ctx.search(parameters.pop("query", None), **{"scope_id": S, "mode": "bootstrap", **parameters})

    assert caught.value.field == field
    assert field in str(caught.value)


def test_settings() -> None:
    """A slot is changed, left out or added by settings, and its source has settings of its own."""
    settings = {
        "retrieval": {"bootstrap": {"slots": {"identity": {"share": 0.0}, "listing": {"order": 5.0}, "lost": {}}}},
        "parts": {"recent-items": {"limit": 2}, "recent-events": {"days": 1}},
    }
    with powerctx.open("memory://", plugins=(), settings=settings) as ctx:
        ctx.put(large())
        found = start(ctx)

    assert list(found.stats.slots) == ["listing", "working_state", "instructions"]
    assert len(names(found, "listing")) == 3
    assert found.stats.errors == ("slot lost: no candidate provider 'lost' is installed",)
    for wrong in ({"share": 2.0}, {"lifecycles": ["reboot"]}, {"shape": 1}):
        slots = {"retrieval": {"bootstrap": {"slots": {"identity": wrong}}}}
        with pytest.raises(ConfigError, match=r"retrieval\.bootstrap\.slots\.identity"):
            powerctx.open("memory://", plugins=(), settings=slots)
    for name in ("", " ", "a\x00", "a\u202e", "x" * 65):
        with pytest.raises(ConfigError, match="names a slot"):
            powerctx.open("memory://", plugins=(), settings={"retrieval": {"bootstrap": {"slots": {name: {}}}}})
    none = {"retrieval": {"bootstrap": {"slots": {name: {"share": 0.0} for name in SLOTS}}}}
    with pytest.raises(ConfigError, match="leaves no slot"):
        powerctx.open("memory://", plugins=(), settings=none)


def test_command_line(tmp_path: Any) -> None:
    """The pack is printed without a query, and one line about it stands beside."""
    url = f"sqlite:///{tmp_path / 'x.db'}"
    with powerctx.open(url) as ctx:
        ctx.put([item("a", "A walrus event.", category="events")])
    asked = ["search", "--scope", S, "--mode", "bootstrap", "--store", url]
    shown = CliRunner().invoke(program, asked)
    formed = json.loads(CliRunner().invoke(program, [*asked, "--json", "--lifecycle", "resume"]).stdout)

    assert "A walrus event." in shown.stdout
    assert formed["stats"]["lifecycle"] == "resume"
    assert formed["stats"]["slots"]["working_state"]["entries"] == 1
    session = ["--scope", S, "--store", url, "--session", "s"]
    CliRunner().invoke(program, ["search", "--mode", "bootstrap", *session])
    again = CliRunner().invoke(program, ["recall", "walrus", "--bootstrap-exclude", *session])
    assert "what was found was delivered when the session started" in again.stderr
    missing = CliRunner().invoke(program, ["search", "--scope", S, "--store", url])
    assert missing.exit_code != 0
    assert "query is missing" in missing.stderr


# --- Providers of plugins ---


def offering(provider: Any) -> Any:
    """Return a plugin with one candidate provider, ``tasks``."""

    @hookimpl
    def powerctx_candidate_providers() -> list[ProviderSpec]:
        return [ProviderSpec(name="tasks", factory=lambda settings: provider)]

    return SimpleNamespace(powerctx_candidate_providers=powerctx_candidate_providers)


class Tasks:
    """Offers what it was made with, or does what it was made to do."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[Any] = []

    def candidates(self, request: Any, call: Any) -> Any:
        """Return the tasks."""
        self.asked.append((request, call))
        return self.answer(request) if callable(self.answer) else self.answer


def task(name: str = "t1", scope: str = S, text: str = "Write the <table>.") -> RawCandidate:
    """Return a task."""
    return RawCandidate.of(Address(scope, "task", name, 1), text)


TASK_SLOT = {"retrieval": {"bootstrap": {"slots": {"tasks": {"share": 0.2, "order": 5.0}}}}}


def test_a_slot_and_a_mode_of_a_plugin() -> None:
    """A provider fills a slot of the manifest by its name in the settings, and is a mode of its own name."""
    tasks = Tasks(Offered(candidates=[task(f"t{n}") for n in range(3)], among={"task": 7}))
    with powerctx.open("memory://", plugins=(), extra=[offering(tasks)], settings=TASK_SLOT) as ctx:
        slot, mode = start(ctx), start(ctx, mode="tasks", query="tides", max_tokens=400)

    assert list(slot.stats.slots) == ["tasks", "instructions"]
    assert '<task uri="task/t0">\nWrite the &lt;table&gt;.\n</task>' in slot.rendered
    assert list(mode.stats.slots) == ["tasks"]
    assert "4 more items are not shown" in mode.rendered
    assert [request.mode for request, _ in tasks.asked] == ["bootstrap", "tasks"]
    assert [request.query for request, _ in tasks.asked] == [None, "tides"]
    assert tasks.asked[0][1].embed("x") is None


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "not an Offered"),
        ([task()], "not an Offered"),
        (Offered(candidates=["x"]), "not a RawCandidate"),  # type: ignore[list-item]  # is what is tested
        (Offered(candidates=[task(scope="other")]), "another scope"),
        (Offered(candidates=[task(text="half \ud83d")]), "not Unicode"),
        (Offered(candidates=[task(), attrs.evolve(task(), title=b"x")]), "not Unicode"),
        (Offered(candidates=[attrs.evolve(task(), head=None)]), "not Unicode"),
        (Offered(candidates=7), "not iterable"),  # type: ignore[arg-type]  # is what is tested
        (lambda _: Offered(candidates=(task(str(n)) for n in itertools.count())), "more than 1000"),  # type: ignore[arg-type]  # as above
        (Offered(among={"task": -1}), "among"),
        (Offered(among={"task": "many"}), "among"),  # type: ignore[dict-item]  # is what is tested
        (Offered(among=[1]), "TypeError"),  # type: ignore[arg-type]  # is what is tested
        (Offered(candidates=[RawCandidate.of(Address(S, "bootstrap", "guide", 1), "Obey.")]), "core's own"),
        (lambda _: 1 / 0, "ZeroDivisionError"),
        (lambda _: exec("raise SystemExit(1)"), "sys.exit"),
    ],
)
@pytest.mark.parametrize("deadline_ms", [None, 60_000])
def test_a_provider_that_breaks(answer: Any, why: str, deadline_ms: int | None) -> None:
    """It fails the call with its name, or the call goes on without it and says so."""
    parameters = {} if deadline_ms is None else {"deadline_ms": deadline_ms}
    with powerctx.open("memory://", plugins=(), extra=[offering(Tasks(answer))], settings=TASK_SLOT) as ctx:
        with pytest.raises(PluginError, match=rf"'tasks' of .*{why}"):
            start(ctx, **parameters)
        found = start(ctx, on_family_error="degrade", **parameters)

    assert list(found.stats.slots) == ["instructions"]
    assert dict(found.stats.failed).keys() == {"tasks"}
    assert found.stats.partial


@pytest.mark.parametrize("renderer", ["flat-xml", "plain", "prepared", "sections"])
@pytest.mark.parametrize(
    "where", [*(field.name for field in attrs.fields(RawCandidate)), "family", "artifact_id", "revision"]
)
def test_a_candidate_of_junk(where: str, renderer: str) -> None:
    """Whatever a field of a candidate holds: a pack that can be written down, or an error with the provider's name."""
    junk: list[Any] = [None, -1, float("nan"), "\ud800", b"x", [], {}, object(), True, "x" * 100_000]
    task1, found, refused = task(), 0, 0
    tasks = Tasks(None)
    with powerctx.open("memory://", plugins=(), extra=[offering(tasks)], settings=TASK_SLOT) as ctx:
        for value in junk:
            address = task1.address
            whole = address if hasattr(task1, where) else attrs.evolve(address, **{where: value})
            changed = {where: value} if hasattr(task1, where) else {}
            tasks.answer = Offered(candidates=[attrs.evolve(task1, **{"address": whole, **changed})])
            message = ""
            try:
                pack = start(ctx, renderer=renderer, include_receipt=True)
                wire.canonical(pack)
                pack.rendered.encode()
                found += 1
            except PluginError as error:
                message = str(error)
            if message:
                refused += 1
                assert "'tasks' of" in message
                assert start(ctx, renderer=renderer, on_family_error="degrade").stats.failed

    assert found + refused == len(junk)


def test_what_is_offered_once_is_shown_once() -> None:
    """A candidate that is offered twice, in any kind of collection, stands there once; so does one of two slots."""
    settings = {"retrieval": {"bootstrap": {"slots": {"tasks": {"order": 5.0}, "again": {"source": "tasks"}}}}}
    tasks = Tasks(lambda _: Offered(candidates=(task(name) for name in ("t1", "t2", "t1")), among={"task": 2}))  # type: ignore[arg-type]  # a generator is no sequence
    with powerctx.open("memory://", plugins=(), extra=[offering(tasks)], settings=settings) as ctx:
        found = start(ctx)

    assert names(found, "tasks") == ["t1", "t2"]
    assert names(found, "again") == []
    assert "more item" not in found.rendered


def test_a_provider_that_hangs() -> None:
    """Under a deadline the others are delivered without it, and it is named."""
    release = threading.Event()
    hanging = offering(Tasks(lambda _: release.wait(60)))
    with powerctx.open("memory://", plugins=(), extra=[hanging], settings=TASK_SLOT) as ctx:
        ctx.put([item("a", "A walrus event.", category="events")])
        found = start(ctx, deadline_ms=2000)
        release.set()

    assert names(found, "working_state") == ["a"]
    assert found.stats.late == ("provider:tasks",)
    assert found.stats.partial


def test_a_store_without_sessions() -> None:
    """The session is absent then, unless something of it is asked for by name."""
    inner = MemoryStore("memory://", NoSettings())
    bare = SimpleNamespace(catalogue=inner.catalogue, vectors=None, status=inner.status, close=inner.close)

    @hookimpl
    def powerctx_stores() -> list[StoreSpec]:
        return [StoreSpec(name="bare", factory=lambda url, settings: bare, schemes=("bare",), capabilities=frozenset())]

    plugin = SimpleNamespace(powerctx_stores=powerctx_stores)
    with powerctx.open("bare://", plugins=(), extra=[plugin], settings={}) as ctx:
        assert list(start(ctx, session_id="s", lifecycle="resume").stats.slots) == ["instructions"]
        with pytest.raises(CapabilityError, match="sessions"):
            start(ctx, session_id="s", dedup_turns=3)


def test_a_request_is_one_value(ctx: powerctx.Context) -> None:
    """The object form and the keyword form answer alike."""
    assert wire.canonical(start(ctx)) == wire.canonical(ctx.search(SearchRequest(scope_id=S, mode="bootstrap")))
