"""``search`` and ``recall``: lists, packs, sessions."""

from __future__ import annotations

import math
import sqlite3
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import attrs
import pytest
from hypothesis import given, strategies as st

import powerctx_core as powerctx
from powerctx_core import (
    CapabilityError,
    ContextPack,
    InvalidRequest,
    Item,
    NotFound,
    SearchRequest,
    StoreError,
    wire,
)
from powerctx_core.assemble import forms
from powerctx_core.memory_sessions import MemoryLedger
from powerctx_core.memory_store import MemorySnapshot
from powerctx_core.render.flat_xml import FlatXml
from powerctx_core.requests.conditions import Conditions, checked_filter
from powerctx_core.search import turns
from powerctx_core.types import BUCKETS, Address, Candidate, RawCandidate, SessionKey

S = "project:demo"
LONG = "The walrus service is deployed on Fridays. " + "It waits for the tide, and the tide waits for nobody. " * 40


def note(name: str, text: str, **fields: Any) -> Item:
    """Return an item of the memory family."""
    return Item(**{"scope_id": S, "artifact_id": name, "text": text, **fields})


def events(count: int, **fields: Any) -> list[Item]:
    """Return so many different events about walruses."""
    return [
        note(f"e{n:02}", f"Walrus event {n}: tide table {n * 37} was read. " + f"Detail {n} follows. " * 40,
             category="events", **fields)
        for n in range(count)
    ]  # fmt: skip


@pytest.fixture
def ctx() -> Iterator[powerctx.Context]:
    """Give an empty store in memory."""
    with powerctx.open("memory://", plugins=(), settings={}) as opened:
        yield opened


def pack(ctx: powerctx.Context, query: str = "walrus", **parameters: Any) -> ContextPack:
    """Return a pack."""
    found = ctx.search(query, **{"scope_id": S, "mode": "context", **parameters})
    assert isinstance(found, ContextPack)
    return found


def names(found: ContextPack) -> list[str]:
    """Return the artifact ids of a pack's entries."""
    return [entry.address.artifact_id for entry in found.entries]


# --- Entry points ---


@pytest.mark.parametrize(
    "parameters",
    [{}, {"limit": 3}, {"tags": ["red"]}, {"categories": ["events", "entities"]}, {"references": ["other"]},
     {"families": ["memory"], "search_type": "fts"}, {"filter": {"layer": "L2"}}, {"score_threshold": 0.5},
     {"time_field": "created", "since": datetime(2020, 1, 1, tzinfo=UTC)}, {"level": "directory"},
     {"target_uri": f"powerctx://{S.replace(':', '%3A')}/memory/e01"}],
)  # fmt: skip
def test_a_list_is_what_find_gives(ctx: powerctx.Context, parameters: dict[str, Any]) -> None:
    """Byte for byte, in whatever is asked, a session that has no generator included."""
    ctx.put([*events(12, tags=("red",)), note("x", "A walrus entity", category="entities", layer="L2")])
    found = wire.canonical(ctx.find("walrus", scope_id=S, **parameters))

    assert found == wire.canonical(ctx.search("walrus", scope_id=S, **parameters))
    assert found == wire.canonical(ctx.search("walrus", scope_id=S, session_id="s1", **parameters))


@pytest.mark.parametrize(
    "given",
    [{}, {"max_tokens": 300}, {"session_id": "s1"}, {"session_id": "s1", "dedup_turns": 2}, {"detail": "abstract"},
     {"quotas": {"events": 3}}, {"purpose": "chat"}, {"score_threshold": 0.1, "limit": 3}],
)  # fmt: skip
def test_recall_is_a_preset(given: dict[str, Any]) -> None:
    """With equal explicit parameters recall and search in mode context answer with the same bytes."""

    def answer(ask: Callable[[powerctx.Context], ContextPack]) -> bytes:
        with powerctx.open("memory://", plugins=(), settings={}) as ctx:
            ctx.put(events(20))
            first, second = ask(ctx), ask(ctx)
            assert wire.canonical(first) == wire.canonical(second)
            return wire.canonical(second)

    defaults = {"purpose": "coding", "score_threshold": 0.35}
    if "session_id" in given:
        defaults["dedup_turns"] = 5

    assert answer(lambda ctx: ctx.recall("walrus", scope_id=S, **given)) == answer(
        lambda ctx: pack(ctx, **{**defaults, **given})
    )


def test_aliases_of_recall(ctx: powerctx.Context) -> None:
    """Names of an earlier interface work in recall alone, are named as such, and give way to the new ones."""
    ctx.put(events(20))
    with pytest.warns(DeprecationWarning, match=r"max_chars \(max_tokens\)"):
        old = ctx.recall("walrus", scope_id=S, max_chars=1200, min_score=0.1, render=False)
    new = ctx.recall("walrus", scope_id=S, max_tokens=300, score_threshold=0.1, detail="abstract")

    assert old.deprecated == ("max_chars", "min_score", "render")
    assert wire.to_json(old)["deprecated"] == ["max_chars", "min_score", "render"]
    assert wire.canonical(attrs.evolve(old, deprecated=())) == wire.canonical(new)
    with pytest.warns(DeprecationWarning, match="max_chars"):
        assert ctx.recall("walrus", scope_id=S, max_chars=40, max_tokens=500).stats.max_tokens == 500
    with pytest.warns(DeprecationWarning, match="max_chars"):
        assert ctx.recall("walrus", scope_id=S, max_chars=40).stats.max_tokens == 64
    with pytest.raises(InvalidRequest, match="max_chars"):
        ctx.search("walrus", scope_id=S, mode="context", max_chars=1200)
    with pytest.raises(InvalidRequest, match="render"):
        ctx.recall("walrus", scope_id=S, render="yes")


@pytest.mark.parametrize(
    ("field", "parameters"),
    [
        *((name, {name: value}) for name, value in {
            "delivery": "inject", "inject_max_tokens": 100,
            "max_tokens": 100, "quotas": {}, "purpose": "chat", "detail": "auto", "dedup_turns": 0, "exclude_uris": [],
            "turn": 1, "renderer": "flat-xml", "envelope": True, "show": [], "trim": "rank", "gate": "off",
            "actor": "a", "peer_scope": "all", "other_peer_penalty": 0.0, "rewrite": False, "rewrite_max_bullets": 6,
        }.items()),
        ("target_uri", {"mode": "context", "target_uri": "powerctx://project%3Ademo/memory/a"}),
        ("level", {"mode": "context", "level": "all"}),
        ("query", {"mode": "bootstrap"}),
        ("mode", {"mode": "nothing"}),
        ("mode", {"mode": "No mode"}),
        ("lifecycle", {"lifecycle": "startup"}),
        ("lifecycle", {"mode": "context", "lifecycle": "startup"}),
        ("bootstrap_exclude", {"bootstrap_exclude": True}),
        ("bootstrap_exclude", {"mode": "context", "bootstrap_exclude": 1}),
        ("max_tokens", {"mode": "context", "max_tokens": 63}),
        ("delivery", {"mode": "context", "delivery": "both"}),
        ("delivery", {"mode": "context", "delivery": 1}),
        ("inject_max_tokens", {"mode": "context", "inject_max_tokens": 100}),
        ("inject_max_tokens", {"mode": "context", "delivery": "inject", "inject_max_tokens": 100}),
        ("inject_max_tokens", {"mode": "context", "delivery": "split", "inject_max_tokens": 63}),
        ("max_tokens", {"mode": "context", "max_tokens": True}),
        ("quotas", {"mode": "context", "quotas": {"events": -1}}),
        ("quotas", {"mode": "context", "quotas": {"evnts": 1}}),
        ("quotas", {"mode": "context", "quotas": {"memories": 1}}),
        ("quotas", {"mode": "context", "quotas": ["events"]}),
        ("detail", {"mode": "context", "detail": "uri"}),
        ("detail", {"mode": "context", "detail": {"events": "uri"}}),
        ("detail", {"mode": "context", "detail": {"nothing": "full"}}),
        ("purpose", {"mode": "context", "purpose": "nothing"}),
        ("dedup_turns", {"mode": "context", "dedup_turns": 101}),
        ("turn", {"mode": "context", "turn": 1_000_001}),
        ("dedup_turns", {"mode": "context", "dedup_turns": 1}),
        ("turn", {"mode": "context", "turn": 1}),
        ("gate", {"mode": "context", "gate": "v9"}),
        ("gate", {"mode": "context", "gate": 1}),
        ("quotas", {"mode": "context", "quotas": {"memory": 1}}),
        ("exclude_uris", {"mode": "context", "exclude_uris": ["nothing"]}),
        ("exclude_uris", {"mode": "context", "exclude_uris": [f"powerctx://a/memory/{n}" for n in range(201)]}),
        ("other_peer_penalty", {"mode": "context", "other_peer_penalty": {"nothing": 0.1}}),
        ("other_peer_penalty", {"mode": "context", "other_peer_penalty": 1.5}),
        ("peer_scope", {"mode": "context", "peer_scope": "actor"}),
        ("show", {"mode": "context", "show": ["mood"]}),
        ("show", {"mode": "context", "show": ["score"], "renderer": "plain"}),
        ("renderer", {"mode": "context", "renderer": "nothing"}),
        ("session_id", {"session_id": "资" * 43}),
        ("query_expansion", {"query_expansion": "on"}),
        ("score_threshold", {"score_threshold": 1.5}),
        ("filter", {"filter": {"mood": 1}}),
        ("filter", {"filter": {"layer": {"gt": 1}}}),
        ("filter", {"filter": {"meta.x": [[1]]}}),
        *(("filter", {"filter": {"meta.x": wanted}}) for wanted in (
            math.nan, [1, math.nan], {"gte": math.nan}, {"lte": math.nan}, {"gte": 1, "lte": math.nan},
            {"gte": True}, {"lte": False}, {"gte": 0, "lte": True}, {"gte": None}, None, {}, [],
        )),
        ("target_uri", {"target_uri": "powerctx://elsewhere/memory/a"}),
        ("limit", {"limit": 0}),
        ("categories", {"categories": ["a\x00"]}),
        ("walrus", {"walrus": 1}),
    ],
)  # fmt: skip
def test_wrong_parameters(ctx: powerctx.Context, field: str, parameters: dict[str, Any]) -> None:
    """What is unknown, outside its limits or without meaning in the mode is one sentence that names it."""
    with pytest.raises(InvalidRequest, match=field) as caught:
        ctx.search("walrus", scope_id=S, **parameters)

    assert caught.value.field == field
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("key", ["x" * 60_000, "\ud800", "\x1b[31m", "資" * 9000, "e\u0301\n"])
@pytest.mark.parametrize(
    ("field", "value", "wrong"), [("quotas", 1, -1), ("detail", "full", "uri"), ("other_peer_penalty", 0.1, 2.0)]
)
def test_hostile_keys_are_shown_short(
    ctx: powerctx.Context, field: str, value: object, wrong: object, key: str
) -> None:
    """A key that nobody knows is shown in one short line that any terminal can print, whatever it holds."""
    for each in (value, wrong):
        with pytest.raises(InvalidRequest) as caught:
            pack(ctx, **{field: {key: each}})
        message = str(caught.value)
        message.encode()
        assert message.isprintable()
        assert len(message) < 400
        assert caught.value.field == field
    with pytest.raises(InvalidRequest) as caught:
        pack(ctx, filter={f"meta.{key}": {"gte": True}})
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


def test_what_models_would_do_is_said_to_be_missing(ctx: powerctx.Context) -> None:
    """Without a generator a rewrite is a CapabilityError, and what is automatic is off."""
    ctx.put(events(3))
    for parameters in ({"rewrite": True}, {"image": b"x"}):
        with pytest.raises(CapabilityError, match="none is installed"):
            ctx.search("walrus", scope_id=S, mode="context", **parameters)
    found = pack(ctx, rewrite="auto", session_id="s1")

    assert (found.stats.rewrite, found.digest, found.stats.query_expansion) == ("off", "", "off")
    assert found.stats.planned_queries == ("walrus",)


# --- The pack ---


def test_a_pack_can_be_used_as_it_is(ctx: powerctx.Context) -> None:
    """The text is one XML document; every entry has its URI, type and detail, and ``read`` finds what it names."""
    ctx.put([*events(4), note("a/b", "Walrus & <friends>", title="Who"), Item(scope_id="other", text="walrus else")])
    found = pack(ctx, references=["other"])
    root = ET.fromstring(found.rendered)
    base = root.attrib["base"]

    assert root.tag == "powerctx-context"
    assert len(root) == len(found.entries) == found.stats.returned == 6
    for element, entry in zip(root, found.entries, strict=True):
        uri = element.attrib["uri"]
        assert uri == entry.ref
        whole = uri if uri.startswith("powerctx://") else base + uri
        assert ctx.get(whole).address == ctx.get(uri, scope_id=S).address == entry.address
        assert element.attrib.get("detail", "full") == ("cut" if entry.cut and entry.detail == "full" else entry.detail)
        assert (element.text or "").strip() == entry.text.strip()
        assert element.attrib.get("type") == entry.category
    assert found.stats.used_tokens <= found.stats.max_tokens == 1600
    assert found.stats.outcome == "delivered"


def test_without_the_envelope_uris_are_whole(ctx: powerctx.Context) -> None:
    """A caller's own envelope says nothing of a base."""
    ctx.put(events(2))
    found = pack(ctx, envelope=False, show=["score"])
    root = ET.fromstring(f"<mine>{found.rendered}</mine>")

    assert [element.attrib["uri"] for element in root] == [entry.ref for entry in found.entries]
    assert all(entry.ref.startswith("powerctx://project%3Ademo/memory/e") for entry in found.entries)
    assert [float(element.attrib["score"]) for element in root] == [round(entry.score, 2) for entry in found.entries]


def test_wide_before_deep_and_the_budget_is_spent(ctx: powerctx.Context) -> None:
    """At growing budgets there are more entries first, then longer ones, and what is there is used."""
    ctx.put(events(20))
    small, middle, large, all_of_it = (pack(ctx, max_tokens=tokens) for tokens in (300, 800, 3000, 32000))

    assert len(small.entries) < len(middle.entries) <= len(large.entries) == 20
    assert large.stats.tier_counts["full"] > middle.stats.tier_counts.get("full", 0)
    assert all_of_it.stats.tier_counts == {"full": 20}
    assert all_of_it.stats.lowered == {}
    for found in (small, middle, large):
        assert found.stats.used_tokens >= 0.9 * found.stats.max_tokens


@pytest.mark.parametrize("max_tokens", [400, 1600, 3000, 8000])
def test_a_text_longer_than_any_budget_spends_it(ctx: powerctx.Context, max_tokens: int) -> None:
    """The budget of one long text is spent, whether it ends within what comes with a candidate or behind it."""
    ctx.put([note("long", "walrus " + "It waits for the tide, and nobody else does. " * 3000)])

    assert pack(ctx, max_tokens=max_tokens).stats.used_tokens >= 0.9 * max_tokens


def test_forms_are_made_of_what_is_shown_alone(ctx: powerctx.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body is rendered for the entries of a pack, and not for all that compete for a place in it."""
    ctx.put(events(60))
    rendered: set[str] = set()
    honest = FlatXml.entry

    def entry(self: FlatXml, candidate: Candidate, *more: Any, **how: Any) -> tuple[str, str]:
        if candidate.detail in ("overview", "full"):
            rendered.add(candidate.address.artifact_id)
        return honest(self, candidate, *more, **how)

    monkeypatch.setattr(FlatXml, "entry", entry)
    found = pack(ctx, max_tokens=500)

    assert found.stats.candidates == 60
    assert rendered <= set(names(found))


@pytest.mark.parametrize("max_tokens", [64, 150, 400, 1600, 6000])
def test_forms_that_wait_change_nothing(
    ctx: powerctx.Context, monkeypatch: pytest.MonkeyPatch, max_tokens: int
) -> None:
    """A pack whose forms are made when they are asked for is, byte for byte, that of forms made beforehand."""
    ctx.put(events(20))
    ctx.put(
        [note(f"n{n}", "walrus, " * n + "tide. " * (n % 7), abstract="walrus " * (n % 9 + 1)) for n in range(1, 60)]
    )
    ctx.put([note(f"d{n}", "walrus " * 40 * n, kind="directory", overview="walrus " * 20 * n) for n in range(1, 5)])
    parameters = [{}, {"purpose": "chat"}, {"detail": "overview"}, {"quotas": {"events": 3}}, {"renderer": "plain"}]

    def packs() -> list[bytes]:
        return [wire.canonical(pack(ctx, max_tokens=max_tokens, score_threshold=0, **given)) for given in parameters]

    waiting = packs()
    monkeypatch.setattr(forms, "_SURE", math.inf)

    assert waiting == packs()


def test_an_entity_of_400_tokens_arrives_in_full(ctx: powerctx.Context) -> None:
    """Where there is budget to spare nothing stays at a low tier."""
    ctx.put([note("big", LONG, category="entities", abstract="A walrus service.")])
    found = pack(ctx, max_tokens=1600)

    assert [(entry.detail, entry.cut, entry.text) for entry in found.entries] == [("full", False, LONG)]


@pytest.mark.parametrize("parameters", [{"purpose": "coding", "max_tokens": 300}, {"max_tokens": 200}])
def test_a_small_budget_is_no_list_of_bare_uris(ctx: powerctx.Context, parameters: dict[str, Any]) -> None:
    """At most a tenth of the entries is without text, and something is delivered."""
    ctx.put([*events(30), *(note(f"n{n}", f"walrus fact {n}", category="entities") for n in range(10))])
    found = pack(ctx, **parameters)
    bare = found.stats.tier_counts.get("uri", 0)

    assert found.entries
    assert bare <= 0.1 * len(found.entries)


def test_equal_texts_yield_one_entry_and_others(ctx: powerctx.Context) -> None:
    """Of five items with one text the first is delivered, and its places go to others."""
    same = [note(f"same{n}", "walrus walrus walrus: the tide is high.") for n in range(5)]
    ctx.put([*same, *(note(f"other{n}", f"A walrus fact, number {n}.") for n in range(4))])
    found = pack(ctx, limit=5)

    assert len(found.entries) == 5
    assert sum(name.startswith("same") for name in names(found)) == 1
    assert found.stats.deduped == 4


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("def walrus():\n    a\nb", "def walrus():\n    a\n    b"),
        ("walrus  tide", "walrus tide"),
        ("walrus tide", "walrus tide\n"),
        ("walrus caf\u00e9", "walrus cafe\u0301"),
        ("walrus " + "x " * 2100 + "one", "walrus " + "x " * 2100 + "two"),
        ("walrus " + "资" * 1400 + "one", "walrus " + "资" * 1400 + "two"),
        ("walrus " + "x" * 4088, "walrus " + "x" * 4088 + "yz"),
    ],
)
def test_only_equal_texts_are_equal(ctx: powerctx.Context, one: str, other: str) -> None:
    """White space, composition and what lies behind the head tell texts apart: neither is lost to the other."""
    ctx.put([note("one", one), note("other", other)])
    found = pack(ctx, max_tokens=32000, score_threshold=0.0)

    assert sorted(names(found)) == ["one", "other"]
    assert found.stats.deduped == 0


def test_a_directory_takes_no_place_of_an_event(ctx: powerctx.Context) -> None:
    """A directory of events counts for no quota of theirs, and shows its overview where there is room."""
    folder = note("log", "walrus folder", kind="directory", category="events", overview="Walrus log, by day. " * 20,
                  abstract="The walrus log.")  # fmt: skip
    ctx.put([folder, *events(3)])
    found = pack(ctx, quotas={"events": 1, "entities": 1}, max_tokens=1600)
    kinds = {entry.address.artifact_id: entry for entry in found.entries}

    assert any(name.startswith("e") for name in kinds)
    assert kinds["log"].bucket == "memories"
    assert kinds["log"].detail == "overview"
    assert kinds["log"].text == folder.overview


@pytest.mark.parametrize(
    ("detail", "shown"),
    [(None, "overview"), ("full", "overview"), ("abstract", "abstract"), ({"resources": "full"}, "overview"),
     ({"resources": "abstract"}, "abstract")],
)  # fmt: skip
def test_a_directory_of_resources_shows_its_overview(ctx: powerctx.Context, detail: object, shown: str) -> None:
    """Its overview is what a directory is for, though resources show abstracts; its text is never disclosed."""
    overview = "Walrus papers, by year. " * 20
    ctx.put(
        [
            Item(scope_id=S, family="resource", artifact_id="p", kind="directory", text=f"{LONG} walrus SECRET",
                 abstract="Walrus papers.", overview=overview)
        ]
    )  # fmt: skip

    (entry,) = pack(ctx, detail=detail, max_tokens=4000).entries

    assert shown == entry.detail
    assert "SECRET" not in entry.text


def test_resources_show_their_abstract_unless_they_are_raised(ctx: powerctx.Context) -> None:
    """Not even ``detail=full`` discloses the body of a resource or a skill; a mapping of buckets does."""
    for family in ("resource", "skill"):
        ctx.put(
            [
                Item(
                    scope_id=S,
                    family=family,
                    artifact_id="m",
                    text=f"{LONG} SECRET {family}",
                    abstract=f"{family} walrus",
                )
            ]
        )
    for detail in (None, "auto", "full", {"events": "full"}):
        found = pack(ctx, detail=detail)
        assert {entry.text for entry in found.entries} == {"resource walrus", "skill walrus"}
        assert found.stats.lowered == {"ceiling": 2}
    raised = pack(ctx, detail={"resources": "full"}, max_tokens=4000)

    assert {entry.bucket: entry.detail for entry in raised.entries} == {"resources": "full", "skills": "abstract"}
    assert "SECRET resource" in raised.rendered
    assert "SECRET skill" not in raised.rendered


def test_a_short_abstract_of_another_text_is_no_leak(ctx: powerctx.Context) -> None:
    """A body that is shorter than its abstract is still not shown below that ceiling."""
    ctx.put(
        [Item(scope_id=S, family="resource", artifact_id="m", text="walrus pin 1234", abstract="A walrus note, " * 9)]
    )

    assert "1234" not in pack(ctx).rendered


@pytest.mark.parametrize("detail", ["abstract", "overview", "full"])
def test_a_fixed_detail_pins_every_entry(ctx: powerctx.Context, detail: str) -> None:
    """Every entry shows that, and what does not fit falls from the tail."""
    text = "# Walrus\n\nA first paragraph about it. " + "It goes on. " * 60 + "\n\n## Tides\n\n" + "High and low. " * 60
    ctx.put([note(f"n{n}", text.replace("It goes", f"It {n} goes"), abstract=f"Walrus {n}.") for n in range(20)])
    found = pack(ctx, detail=detail, max_tokens=1500)

    assert {entry.detail for entry in found.entries} == {detail}
    assert 1 <= len(found.entries) < 20 or detail == "abstract"


def test_bodies_are_read_for_the_plan_alone(ctx: powerctx.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read for abstracts and heads; a body beyond its head is read once, where it is shown."""
    reads: list[str] = []
    honest = MemorySnapshot.get

    def get(self: MemorySnapshot, address: Any) -> Any:
        reads.append(address.artifact_id)
        return honest(self, address)

    monkeypatch.setattr(MemorySnapshot, "get", get)
    ctx.put(
        [note(f"big{n}", f"walrus {n} " + "word and word again, " * 500, abstract=f"Walrus {n}.") for n in range(6)]
    )
    pack(ctx, detail="abstract")
    pack(ctx, max_tokens=400)
    assert reads == []
    found = pack(ctx, max_tokens=9000)

    assert len(reads) == len(set(reads)) <= 6
    assert set(reads) <= {entry.address.artifact_id for entry in found.entries if entry.detail == "full"}
    assert max(len(entry.text) for entry in found.entries) > 5000
    assert 0.9 * 9000 <= found.stats.used_tokens <= 9000


def test_many_bodies_are_read_a_few_at_once(tmp_path: Path) -> None:
    """Long texts of a file arrive whole, read by several threads."""
    with powerctx.open(f"sqlite:///{tmp_path}/t.db", settings={}) as ctx:
        ctx.put([note(f"big{n:02}", f"walrus {n} " + f"word{n} " * 1000, abstract=f"Walrus {n}.") for n in range(12)])
        found = pack(ctx, max_tokens=32000)

        assert {entry.text for entry in found.entries} == {ctx.get(entry.uri).item.text for entry in found.entries}
        assert len(found.entries) == 12


def test_a_read_that_fails_leaves_the_heads(ctx: powerctx.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pack is made of what is known, and says what went wrong."""
    ctx.put([note("big", LONG * 4)])

    def get(self: MemorySnapshot, address: Any) -> Any:
        raise StoreError("The disk is on fire.")

    monkeypatch.setattr(MemorySnapshot, "get", get)
    found = pack(ctx, max_tokens=4000)

    assert found.entries[0].cut
    assert LONG.startswith(found.entries[0].text[:1000])
    assert "on fire" in found.stats.errors[0]


# --- Buckets ---


def test_quotas_and_what_fills_their_places(ctx: powerctx.Context) -> None:
    """Each bucket gives its best; what it leaves is filled by the others; a limit has no effect beside quotas."""
    ctx.put([*events(10), *(note(f"p{n}", f"walrus preference {n}", category="preferences") for n in range(2))])
    found = pack(ctx, quotas={"events": 2, "preferences": 2, "skills": 2}, limit=1, max_tokens=4000)
    buckets = [entry.bucket for entry in found.entries]

    assert len(buckets) == 6
    assert buckets.count("preferences") == 2
    assert found.stats.ignored == ("limit: quotas say how many entries there are",)
    assert found.stats.searched == {"events": 10, "preferences": 2}
    without = pack(ctx, quotas={"events": 0, "preferences": 9}, max_tokens=4000)
    assert {entry.bucket for entry in without.entries} == {"preferences"}


def test_purposes_are_quotas_and_a_share_for_events() -> None:
    """A purpose of the settings is known beside the built-in ones, and explicit quotas override it item by item."""
    settings = {"retrieval": {"purposes": {"brief": {"quotas": {"events": 1, "entities": 1}, "events": 0.1}}}}
    with powerctx.open("memory://", plugins=(), settings=settings) as ctx:
        ctx.put([*events(5), *(note(f"n{n}", f"walrus entity {n}", category="entities") for n in range(5))])

        assert len(pack(ctx, purpose="brief").entries) == 2
        assert len(pack(ctx, purpose="brief", quotas={"entities": 3}).entries) == 4
        with pytest.raises(InvalidRequest, match="chat, coding, brief"):
            pack(ctx, purpose="nothing")


def test_quotas_say_whose_they_are() -> None:
    """A limit beside the quotas of a purpose, a bucket that has none, and settings that name none are told."""
    settings = {"retrieval": {"purposes": {"odd": {"quotas": {"evnts": 1}}}}}
    with powerctx.open("memory://", plugins=(), settings=settings) as ctx:
        told = ctx.recall("walrus", scope_id=S, limit=3).stats.ignored
        assert told == ("limit: the quotas of purpose coding say how many entries there are",)
        with pytest.raises(InvalidRequest, match="memories without a category have no quota"):
            pack(ctx, quotas={"memory": 1})
        with pytest.raises(InvalidRequest, match=r"retrieval\.purposes\.odd names 'evnts'; it can be events"):
            pack(ctx, purpose="odd")
        assert any("retrieval.purposes.odd.quotas names the bucket 'evnts'" in each for each in ctx.host.problems())


def test_every_bucket_keeps_one(ctx: powerctx.Context) -> None:
    """At a budget that carries an abstract of each, no bucket is crowded out by strong events."""
    ctx.put(
        [
            *events(20),
            note("n", "A walrus entity", category="entities"),
            note("p", "Likes a walrus", category="preferences"),
        ]
    )
    ctx.put([Item(scope_id=S, family="skill", text="How to feed a walrus", artifact_id="feed")])
    found = pack(ctx, purpose="coding", max_tokens=400)

    assert {"events", "entities", "preferences", "skills"} == {entry.bucket for entry in found.entries}


def test_other_actors_stand_behind(ctx: powerctx.Context) -> None:
    """A penalty changes the order and not the score; ``peer_scope=actor`` leaves others out; nobody is else unasked."""
    ctx.put([note("mine", "walrus tide one two", origin="me"), note("theirs", "walrus tide one", origin="you"),
             note("nobody", "walrus tide one two three")])  # fmt: skip
    plain, asked = pack(ctx, "walrus tide"), pack(ctx, "walrus tide", actor="me", other_peer_penalty=1.0)

    assert names(plain)[0] == "theirs"
    assert names(asked)[-1] == "theirs"
    assert {e.address.artifact_id: e.score for e in plain.entries} == {
        e.address.artifact_id: e.score for e in asked.entries
    }
    assert {e.address.artifact_id: e.origin for e in asked.entries} == {
        "mine": "actor",
        "theirs": "other",
        "nobody": "self",
    }
    only = pack(ctx, "walrus tide", actor="me", peer_scope="actor")
    assert set(names(only)) == {"mine", "nobody"}
    assert only.stats.excluded == 1


def test_filters_reach_every_bucket(ctx: powerctx.Context) -> None:
    """Fields that the store does not know are compared on what was found, and figures say how many fell."""
    ctx.put([
        note("a", "walrus a", category="events", layer="L2", meta={"team": "red", "n": 3}, tags=("x", "y")),
        note("b", "walrus b", category="entities", layer="L1", meta={"team": "blue", "n": 7}, tags=("y",)),
        note("c", "walrus c", thread="t1", meta={"n": True}),
    ])  # fmt: skip
    wanted: list[tuple[dict[str, Any], set[str]]] = [
        ({"layer": "L2"}, {"a"}),
        ({"layer": ["L1", "L2"]}, {"a", "b"}),
        ({"meta.team": "blue"}, {"b"}),
        ({"meta.n": {"gte": 4}}, {"b"}),
        ({"meta.n": {"gte": 3, "lte": 3.5}}, {"a"}),
        ({"meta.n": 1}, set()),
        ({"meta.n": True}, {"c"}),
        ({"tags": ["x", "z"]}, {"a"}),
        ({"thread": "t1"}, {"c"}),
        ({"category": "entities", "layer": "L1"}, {"b"}),
    ]
    for conditions, expected in wanted:
        found = pack(ctx, filter=conditions)
        assert set(names(found)) == expected, conditions
        assert found.stats.filtered == 3 - len(expected)
        listed = ctx.find("walrus", scope_id=S, filter=conditions)
        assert {hit.address.artifact_id for hit in listed.hits} == expected


@given(
    value=st.one_of(st.text(max_size=3), st.booleans(), st.integers(), st.floats()),
    bounds=st.dictionaries(
        st.sampled_from(["gte", "lte"]),
        st.one_of(st.text(max_size=3), st.integers(), st.floats(allow_nan=False)),
        min_size=1,
    ),
)
def test_a_range_holds_only_what_lies_in_it(value: Any, bounds: dict[str, Any]) -> None:
    """Texts are compared with texts and numbers with numbers; truth values and NaN lie in no range."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    raw = RawCandidate(
        address=Address(S, "memory", "a", 1), length=1, head="a", body_bytes=1, created_at=now, updated_at=now,
        metadata={"x": value},
    )  # fmt: skip
    kinds = {isinstance(each, str) for each in (value, *bounds.values())}
    inside = (
        len(kinds) == 1
        and not isinstance(value, bool)
        and value == value  # noqa: PLR0124 - no NaN
        and not ("gte" in bounds and value < bounds["gte"])
        and not ("lte" in bounds and value > bounds["lte"])
    )

    assert Conditions(filter=checked_filter({"meta.x": bounds})).hold(raw) is inside


def test_a_slash_at_the_end_of_a_uri(ctx: powerctx.Context) -> None:
    """What is excluded or aimed at is the same with it and without."""
    ctx.put([note("a", "walrus a", kind="directory"), note("a/b", "walrus b"), note("ab", "walrus d")])
    stem = "powerctx://project%3Ademo/memory/a"

    for uri in (stem, f"{stem}/", f"{stem}//"):
        assert set(names(pack(ctx, exclude_uris=[uri]))) == {"ab"}
        hits = ctx.find("walrus", scope_id=S, target_uri=uri).hits
        assert {hit.address.artifact_id for hit in hits} == {"a", "a/b"}
    for wrong in ("powerctx://project%3Ademo/memory/", "/", ""):
        with pytest.raises(InvalidRequest, match="exclude_uris"):
            pack(ctx, exclude_uris=[wrong])


def test_excluded_uris_and_what_lies_below(ctx: powerctx.Context) -> None:
    """A URI excludes each revision of what it names and all below it, in its scope and family alone."""
    ctx.put([note("a", "walrus a"), note("a/b", "walrus b"), note("a/b/c", "walrus c"), note("ab", "walrus d")])
    ctx.put([note("a/b", "walrus b, changed"), Item(scope_id="other", artifact_id="a/b", text="walrus e")])
    stem = "powerctx://project%3Ademo/memory"

    assert set(names(pack(ctx, exclude_uris=[f"{stem}/a/b@1"]))) == {"a", "ab"}
    found = pack(ctx, exclude_uris=[f"{stem}/a"], references=["other"])
    kept = {(entry.address.scope_id, entry.address.artifact_id) for entry in found.entries}
    assert kept == {(S, "ab"), ("other", "a/b")}
    assert found.stats.excluded == 3
    assert set(names(pack(ctx, exclude_uris=["powerctx://project%3Ademo/skill/a"]))) == {"a", "a/b", "a/b/c", "ab"}


def test_a_document_in_parts_is_one_document(ctx: powerctx.Context) -> None:
    """The URI of a document holds for the parts that it was split into, and that of a part for the part alone."""
    ctx.put([note(name, f"walrus in {name}") for name in ("bike.md", "bike.md#1", "bike.md#2", "bike.mdx")])

    assert names(pack(ctx, exclude_uris=["memory/bike.md"])) == ["bike.mdx"]
    assert len(ctx.search("walrus", scope_id=S, target_uri="memory/bike.md").hits) == 3
    assert set(names(pack(ctx, exclude_uris=["memory/bike.md%231"]))) == {"bike.md", "bike.md#2", "bike.mdx"}
    with pytest.raises(InvalidRequest, match=r"names a family; write /<artifact>"):
        pack(ctx, exclude_uris=["powerctx://project%3Ademo/memory"])


def test_uris_as_the_text_shows_them(ctx: powerctx.Context) -> None:
    """What a pack cites can be read, excluded and looked below as it stands there, with the scope of the call."""
    odd = ["a", "walrus.md#233", "a/b c", "资料/é", "100%", "x:y", "http://z", "a@1"]
    ctx.put([note(name, f"walrus, entry {n}") for n, name in enumerate(odd)])
    ctx.put([Item(scope_id="other", artifact_id="a", text="walrus elsewhere")])
    found = pack(ctx, references=["other"])
    assert len(found.entries) == len(odd) + 1
    for entry in found.entries:
        assert ctx.get(entry.ref, scope_id=S).address == entry.address
        assert (
            ctx.search("walrus", scope_id=S, target_uri=entry.ref, references=["other"]).hits[0].address
            == entry.address
        )
    assert pack(ctx, references=["other"], exclude_uris=[entry.ref for entry in found.entries]).stats.excluded == 9
    with pytest.raises(InvalidRequest, match="pass that scope too"):
        ctx.get("memory/a")


def test_uris_of_a_pack_are_taken_by_every_call(ctx: powerctx.Context) -> None:
    """History, use, retirement and purge take what a pack cites, whole or relative with the scope of the call."""
    ctx.put([note("a/b c", "walrus one"), note("d", "walrus two")])
    for entry in pack(ctx).entries:
        for uri, scope in ((entry.ref, S), (entry.uri, None), (entry.uri, "elsewhere")):
            assert [each.address for each in ctx.history(uri, scope_id=scope)] == [entry.address]
            assert ctx.mark_used(uri, scope_id=scope) == 1
        with pytest.raises(InvalidRequest, match="pass that scope too"):
            ctx.history(entry.ref)
        assert ctx.retire([entry.ref], scope_id=S) == 1
        assert ctx.purge(entry.ref, scope_id=S) == 1


def test_a_document_in_parts_says_how_it_is_read(ctx: powerctx.Context) -> None:
    """Its own URI is nobody's, and the error names the first and the last part; what is not stored is told as that."""
    ctx.put([note(f"bike.md#{n}", f"walrus part {n}") for n in range(1, 13)])
    for call in (ctx.get, ctx.history):
        with pytest.raises(NotFound, match=r"in parts.*memory/bike\.md%231 to .*memory/bike\.md%2312\.$"):
            call("memory/bike.md", scope_id=S)
        with pytest.raises(NotFound, match=r"not stored|no revisions"):
            call("memory/walrus.md", scope_id=S)


def test_target_uri_and_level_of_a_list(ctx: powerctx.Context) -> None:
    """A list can be held to what lies below a URI, and to items or directories."""
    ctx.put([note("a", "walrus a", kind="directory"), note("a/b", "walrus b"), note("ab", "walrus d")])

    def found(**parameters: Any) -> set[str]:
        return {hit.address.artifact_id for hit in ctx.find("walrus", scope_id=S, **parameters).hits}

    assert found(target_uri="powerctx://project%3Ademo/memory/a") == {"a", "a/b"}
    assert found(level="directory") == {"a"}
    assert found(level="item") == {"a/b", "ab"}


def test_the_threshold_is_on_evidence(ctx: powerctx.Context) -> None:
    """What is weaker than the threshold is left out, and figures say how strong the best was."""
    ctx.put([note("a", "walrus tide table"), note("b", "walrus"), note("c", "a tide")])
    found = pack(ctx, "walrus tide table friday", score_threshold=0.4)

    assert names(found) == ["a"]
    assert found.stats.threshold_removed >= 1
    assert found.stats.top_match == pytest.approx(max(entry.match for entry in found.entries))
    nothing = pack(ctx, "walrus tide table friday", score_threshold=1.0)
    assert (nothing.stats.outcome, nothing.rendered, nothing.entries) == ("below_threshold", "", ())


def test_why_a_pack_is_empty(ctx: powerctx.Context) -> None:
    """Nothing stored, nothing matched and no room are told apart."""
    assert pack(ctx).stats.outcome == "no_content"
    ctx.put(events(2))
    assert pack(ctx, "zebra").stats.outcome == "no_match"
    ctx.put([Item(scope_id="x" * 250, artifact_id="y" * 120, text="walrus " * 50)])
    assert pack(ctx, scope_id="x" * 250, max_tokens=64).stats.outcome == "budget"


@pytest.mark.parametrize(
    "restriction",
    [{"filter": {"layer": "L9"}}, {"categories": ["entities"]}, {"tags": ["none"]}, {"exclude_uris": ["e00", "e01"]},
     {"actor": "me", "peer_scope": "actor"}, {"target_uri": "nothing"}, {"level": "directory"}],
)  # fmt: skip
def test_what_is_restricted_is_not_too_weak(ctx: powerctx.Context, restriction: dict[str, Any]) -> None:
    """What a filter or an exclusion leaves out counts as unmatched, wherever it is applied; the weak stay weak."""
    ctx.put(events(2, origin="you"))
    stem = "powerctx://project%3Ademo/memory/"
    if "exclude_uris" in restriction:
        restriction = {"exclude_uris": [stem + name for name in restriction["exclude_uris"]]}
    if "target_uri" in restriction:
        restriction = {"target_uri": stem + restriction["target_uri"]}
    if not {"target_uri", "level"} & set(restriction):
        assert pack(ctx, **restriction).stats.outcome == "no_match"
        assert pack(ctx, score_threshold=1.0, **restriction).stats.outcome == "no_match"
    if not {"exclude_uris", "actor"} & set(restriction):
        assert ctx.find("walrus", scope_id=S, **restriction).diagnostics.outcome == "no_match"
    weak = "walrus zebra lion tiger"
    assert pack(ctx, weak, score_threshold=1.0).stats.outcome == "below_threshold"
    assert pack(ctx, weak, score_threshold=1.0, filter={"meta.x": 1}).stats.outcome == "no_match"
    found = ctx.find(weak, scope_id=S, score_threshold=1.0, filter={"category": "events"})
    assert found.diagnostics.outcome == "below_threshold"


def test_value_decides_when_it_is_asked_for(ctx: powerctx.Context) -> None:
    """What was used often comes first with ``trim=value``."""
    ctx.put([note("a", "walrus tide"), note("b", "walrus tide and more words about other things")])
    for _ in range(50):
        ctx.mark_used("powerctx://project%3Ademo/memory/b")

    assert names(pack(ctx, "walrus tide"))[0] == "a"
    settings = {"trim": {"use": 50.0}}
    with powerctx.open("memory://", plugins=(), settings=settings) as other:
        other.put([note("a", "walrus tide"), note("b", "walrus tide and more words about other things")])
        other.mark_used("powerctx://project%3Ademo/memory/b")
        assert names(pack(other, "walrus tide", trim="value"))[0] == "b"


@pytest.mark.parametrize("renderer", ["flat-xml", "plain", "prepared", "sections"])
def test_any_renderer_holds_the_budget(ctx: powerctx.Context, renderer: str) -> None:
    """Packs of every installed form stay within their budget, and use it."""
    ctx.put(events(20))
    found = pack(ctx, renderer=renderer, max_tokens=700)

    assert 0.75 * 700 <= found.stats.used_tokens <= 700
    assert all(entry.text[:40].split("\n")[0][:20] in found.rendered for entry in found.entries)


# --- Sessions ---

TALK: dict[str, Any] = {"session_id": "s1", "dedup_turns": 3}


def test_a_turn_does_not_repeat_the_ones_before(ctx: powerctx.Context) -> None:
    """What was delivered is left out for so many turns of the user, and what lies behind it comes instead."""
    ctx.put(events(60))
    seen: list[set[str]] = []
    for _ in range(5):
        ctx.sessions.add_message("s1", "user", "walrus?", scope_id=S)
        found = pack(ctx, limit=None, max_tokens=400, **TALK)
        seen.append({entry.uri for entry in found.entries if entry.detail != "uri"})
        assert found.stats.dedup == {"turn": len(seen), "turns": 3, "recorded": len(seen[-1])}

    assert all(seen[:3])
    assert not seen[1] & seen[0]
    assert not seen[2] & (seen[1] | seen[0])
    assert seen[4] & seen[0]


def test_a_limit_counts_what_is_new(ctx: powerctx.Context) -> None:
    """What was delivered before, or is excluded, takes no place of a limit: each turn has as many new entries."""
    ctx.put([note(f"n{n}", f"walrus tide, entry {n}") for n in range(30)])
    seen: set[str] = set()
    for turn in range(1, 6):
        found = pack(ctx, limit=3, turn=turn, session_id="s1", dedup_turns=5)
        assert [entry.detail for entry in found.entries] == ["full"] * 3
        assert found.stats.cooled == len(seen)
        assert not seen & set(names(found))
        seen |= set(names(found))
    without = pack(ctx, limit=3, exclude_uris=[f"powerctx://project%3Ademo/memory/{name}" for name in seen])
    assert len(without.entries) == 3
    assert not seen & set(names(without))


@pytest.mark.parametrize("parameters", [{}, {"limit": 2}, {"quotas": {"entities": 2}}, {"purpose": "coding"}])
def test_nothing_new_is_no_pack(ctx: powerctx.Context, parameters: dict[str, Any]) -> None:
    """When all that matches was delivered before, there is no text, and the outcome is that nothing matches."""
    ctx.put([note("a", "walrus one", category="entities"), note("b", "walrus two", category="entities")])
    pack(ctx, turn=1, **TALK, **parameters)
    found = pack(ctx, turn=2, **TALK, **parameters)

    assert (found.stats.outcome, found.rendered, found.entries, found.stats.cooled) == ("no_match", "", (), 2)
    assert found.stats.dedup["recorded"] == 0


@pytest.mark.parametrize(
    "parameters",
    [{"quotas": {"events": 0}}, {"quotas": {"events": 0, "skills": 3}}, {"filter": {"layer": "L3"}},
     {"exclude_uris": ["powerctx://project%3Ademo/memory/a"]}, {"actor": "me", "peer_scope": "actor"}],
)  # fmt: skip
def test_what_the_caller_leaves_out_is_no_matter_of_the_budget(
    ctx: powerctx.Context, parameters: dict[str, Any]
) -> None:
    """All that was found is left out by a quota of none, a filter, a URI or an actor: nothing matches."""
    ctx.put([note("a", "walrus one", category="events", origin="you")])

    assert pack(ctx, **parameters).stats.outcome == "no_match"


def test_repeating_inside_a_turn_gives_the_same(ctx: powerctx.Context) -> None:
    """A retry is answered with the same bytes, also when something was cooled before."""
    ctx.put(events(12))
    for turn in range(4):
        first, second = (wire.canonical(pack(ctx, max_tokens=400, turn=turn, **TALK)) for _ in range(2))
        assert first == second


def test_the_first_turn_of_an_unknown_session(ctx: powerctx.Context) -> None:
    """It works, is remembered, and leaves no session behind."""
    ctx.put(events(6))
    first = pack(ctx, max_tokens=300, **TALK)
    with pytest.raises(NotFound):
        ctx.sessions.show("s1", scope_id=S)
    ctx.sessions.add_message("s1", "user", "walrus?", scope_id=S)
    second = pack(ctx, max_tokens=300, **TALK)

    assert first.stats.dedup["recorded"] == len(first.entries)
    assert not {entry.uri for entry in first.entries} & {entry.uri for entry in second.entries if entry.detail != "uri"}


def test_a_clock_that_goes_back_is_told(ctx: powerctx.Context) -> None:
    """A turn below an earlier one, also one that messages count, is answered, and the figures say what that means."""
    ctx.put(events(3))
    with pytest.raises(InvalidRequest, match="turn is 9007199254740992; it must be a whole number from 0 to 1000000"):
        pack(ctx, turn=1 << 53, **TALK)
    assert [pack(ctx, turn=turn, **TALK).stats.errors for turn in (0, 7, 7, 8)] == [()] * 4
    found = pack(ctx, turn=3, **TALK)
    (told,) = found.stats.errors
    ctx.sessions.add_message("s1", "user", "walrus?", scope_id=S)
    (mixed,) = pack(ctx, **TALK).stats.errors

    assert found.entries
    assert told.startswith("dedup_turns: turn 3 is before 7, ")
    assert mixed.startswith("dedup_turns: turn 1 is before 7, ")


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self, _: Any) -> datetime:
        """Return the time."""
        return self.time


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Give the clock of sessions."""
    clock = Clock()
    monkeypatch.setattr(turns, "datetime", clock)
    return clock


def test_the_clock_without_messages(ctx: powerctx.Context, clock: Clock) -> None:
    """Calls more than ten minutes apart are of different turns, nearer ones of one; a clock set back is of the same."""
    ctx.put(events(60))
    numbers = []
    for minutes in (0, 5, 5, 10, 11, 20, -30):
        clock.time += timedelta(minutes=minutes)
        numbers.append(pack(ctx, max_tokens=300, **TALK).stats.dedup["turn"])

    assert numbers == [0, 0, 0, 0, 1, 2, 2]


@pytest.mark.parametrize("minutes", [11, 15, 60, 24 * 60])
def test_what_was_delivered_comes_again_without_messages(ctx: powerctx.Context, clock: Clock, minutes: int) -> None:
    """When all is cooled, and so nothing is recorded, time still passes: it is left out for its turns and no longer."""
    ctx.put(events(3))
    shown = [bool(set(pack(ctx, **TALK).stats.tier_counts) - {"uri"})]
    for _ in range(10):
        clock.time += timedelta(minutes=minutes)
        shown.append(bool(set(pack(ctx, **TALK).stats.tier_counts) - {"uri"}))
    again = shown.index(True, 1)

    assert shown[0]
    assert 10 * TALK["dedup_turns"] < again * minutes <= 10 * (TALK["dedup_turns"] + 1) + minutes
    assert all(shown[place] == (place % again == 0) for place in range(len(shown)))


def test_a_bare_uri_does_not_cool(ctx: powerctx.Context) -> None:
    """Only entries with text are remembered."""
    ctx.put(events(30))
    pack(ctx, max_tokens=1500, turn=1, **TALK)
    later = pack(ctx, max_tokens=1500, turn=2, **TALK)
    bare = {entry.uri for entry in later.entries if entry.detail == "uri"}
    known = ctx.store.ledger.delivered(SessionKey(S, "s1"), powerctx.Deadline())  # type: ignore[attr-defined]  # keeps sessions

    assert {uri for uri, entry in known.items() if entry.turn == 2} == {entry.uri for entry in later.entries} - bare


def test_changed_content_returns(ctx: powerctx.Context) -> None:
    """The revision that was delivered is left out, and the next one is new."""
    ctx.put([note("a", "walrus one")])
    pack(ctx, turn=1, **TALK)
    assert pack(ctx, turn=2, **TALK).entries == ()
    ctx.put([note("a", "walrus two")])

    assert pack(ctx, turn=2, **TALK).entries[0].text == "walrus two"


def test_a_text_does_not_come_again_under_another_uri(tmp_path: Path) -> None:
    """What was said in an earlier turn is left out whatever it is called: in each rank, scope and family, and later."""
    same = "walrus tide, the same for all"
    with powerctx.open(f"sqlite:///{tmp_path}/t.db", settings={}) as ctx:
        ctx.put([note("b", same, category="events"), note("x", "a walrus that is another one")])
        assert set(names(pack(ctx, turn=1, **TALK))) == {"b", "x"}
        ctx.put([note("a", same), note("c", same), note("new", "a new walrus")])
        ctx.put([note("s", same, family="skill"), Item(scope_id="other", artifact_id="b", text=same)])
    with powerctx.open(f"sqlite:///{tmp_path}/t.db", settings={}) as ctx:
        found = pack(ctx, turn=2, references=["other"], **TALK)
        assert [entry.address.artifact_id for entry in found.entries if entry.detail != "uri"] == ["new"]
        # Another text of the artifact that was delivered is another one.
        ctx.put([note("b", "walrus tide, and no other", category="events")])
        assert "b" in names(pack(ctx, turn=2, **TALK))
        # It comes again when its turns are over, to another session, and when what was delivered is purged.
        assert same in [entry.text for entry in pack(ctx, turn=9, **TALK).entries]
        assert same in [entry.text for entry in pack(ctx, turn=2, session_id="s2", dedup_turns=3).entries]
        ctx.purge("powerctx://project%3Ademo/memory/b")
        assert same in [entry.text for entry in pack(ctx, turn=2, **TALK).entries]


def test_texts_that_begin_alike_are_different(ctx: powerctx.Context) -> None:
    """Of a text that is longer than what travels with a candidate nobody says that it was delivered before."""
    start = "walrus tide. " * 400
    ctx.put([note("a", start + "One end.")])
    pack(ctx, turn=1, **TALK)
    ctx.put([note("b", start + "Another end.")])

    assert "b" in [entry.address.artifact_id for entry in pack(ctx, turn=2, **TALK).entries if entry.detail != "uri"]


def test_nothing_is_written_unless_it_is_asked_for(ctx: powerctx.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a session, without turns, and for an empty pack no ledger is written."""
    monkeypatch.setattr(MemoryLedger, "record", lambda *_: pytest.fail("a ledger was written"))
    ctx.put(events(3))
    pack(ctx, session_id="s1")
    pack(ctx, "zebra", **TALK)
    ctx.recall("walrus", scope_id=S)
    ctx.search("walrus", scope_id=S, session_id="s1")


def test_a_ledger_that_fails_loses_no_pack(ctx: powerctx.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is there, and says that it was not recorded."""
    ctx.put(events(3))

    def record(*_: object) -> None:
        raise StoreError("The disk is full.")

    monkeypatch.setattr(MemoryLedger, "record", record)
    found = pack(ctx, **TALK)

    assert found.entries
    assert found.stats.dedup["recorded"] == 0
    assert "The disk is full" in found.stats.errors[0]


def test_a_ledger_that_hangs_holds_nobody_up(
    ctx: powerctx.Context, monkeypatch: pytest.MonkeyPatch, gate: threading.Event
) -> None:
    """Under a deadline the pack comes without knowing the session, and says that it is partial."""
    ctx.put(events(3))
    monkeypatch.setattr(MemoryLedger, "delivered", lambda *_: gate.wait(20) and {})
    found = pack(ctx, deadline_ms=400, **TALK)

    assert found.entries
    assert found.stats.partial
    assert "session" in found.stats.late


@pytest.mark.parametrize("parameters", [{}, {"deadline_ms": 60_000}])
def test_a_ledger_that_cannot_be_written_holds_nobody_up(
    ctx: powerctx.Context, monkeypatch: pytest.MonkeyPatch, gate: threading.Event, parameters: dict[str, Any]
) -> None:
    """The pack comes, says that it was not recorded, and calls behind it read the session; it is recorded at last."""
    ctx.put(events(3))
    record = MemoryLedger.record
    done = threading.Event()

    def waiting(*recording: Any) -> None:
        gate.wait(30)
        record(*recording)
        done.set()

    monkeypatch.setattr(MemoryLedger, "record", waiting)
    for _ in range(2):
        found = pack(ctx, **parameters, **TALK)
        assert found.entries
        assert found.stats.late == ("session",)
        assert found.stats.dedup["recorded"] == 0
        (told,) = found.stats.errors
        assert "did not record in time" in told
    gate.set()
    assert done.wait(30)
    later = pack(ctx, turn=5, session_id="s1", dedup_turns=9)
    assert set(later.stats.tier_counts) <= {"uri"}


def test_a_write_lock_of_another_process_holds_no_recall(tmp_path: Path) -> None:
    """A recall is answered while somebody else writes to the file; what it delivered is told not to be recorded."""
    path = tmp_path / "t.db"
    with powerctx.open(f"sqlite:///{path}", settings={}) as ctx:
        ctx.put(events(3))
        other = sqlite3.connect(path, isolation_level=None)
        try:
            other.execute("BEGIN IMMEDIATE")
            found = ctx.recall("walrus", scope_id=S, session_id="s1", score_threshold=0.0)
            assert other.in_transaction
        finally:
            other.close()

    assert found.entries
    assert found.stats.late == ("session",)
    assert "did not record in time" in found.stats.errors[0]


def test_a_session_outlives_a_restart_and_threads(tmp_path: Path) -> None:
    """Turns of many threads on one session are all remembered, and still are when the store is opened again."""
    url = f"sqlite:///{tmp_path}/t.db"
    with powerctx.open(url, settings={"retrieval": {"ledger_timeout_s": 60.0}}) as ctx:
        ctx.put(events(12))
        delivered: list[str] = []

        def call(name: str) -> None:
            for _ in range(5):
                found = pack(ctx, max_tokens=300, session_id="s1", dedup_turns=50, turn=1, exclude_uris=[
                    f"powerctx://project%3Ademo/memory/{name}"])  # fmt: skip
                delivered.extend(entry.uri for entry in found.entries if entry.detail != "uri")

        threads = [threading.Thread(target=call, args=(f"e{n:02}",)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with powerctx.open(url, settings={}) as again:
        later = pack(again, max_tokens=32000, session_id="s1", dedup_turns=50, turn=2)

    assert set(delivered)
    assert not set(delivered) & {entry.uri for entry in later.entries if entry.detail != "uri"}


def test_sessions_of_other_scopes_are_other_sessions(ctx: powerctx.Context) -> None:
    """The same id in another scope has seen nothing."""
    ctx.put(events(3))
    pack(ctx, turn=1, **TALK)

    assert pack(ctx, scope_id="elsewhere", references=[S], turn=2, **TALK).stats.cooled == 0


async def _each(ctx: powerctx.Context) -> tuple[Any, Any, Any]:
    return (
        await ctx.asearch("walrus", scope_id=S, mode="context"),
        await ctx.asearch(SearchRequest(query="walrus", scope_id=S)),
        await ctx.arecall("walrus", scope_id=S, score_threshold=0.0),
    )


def test_async_form(ctx: powerctx.Context) -> None:
    """The same answers come without blocking the event loop."""
    import asyncio

    ctx.put(events(4))
    found, listed, recalled = asyncio.run(_each(ctx))

    assert wire.canonical(found) == wire.canonical(pack(ctx))
    assert wire.canonical(listed) == wire.canonical(ctx.find("walrus", scope_id=S))
    assert wire.canonical(recalled) == wire.canonical(ctx.recall("walrus", scope_id=S, score_threshold=0.0))


def test_the_same_state_gives_the_same_bytes(ctx: powerctx.Context) -> None:
    """Packs are stable, so that prompt caches hold."""
    ctx.put(events(15))
    assert len({wire.canonical(pack(ctx, purpose="chat", max_tokens=700)) for _ in range(4)}) == 1


def test_buckets_cost_no_searches(tmp_path: Path) -> None:
    """Eleven buckets cost as many statements as none."""
    import sqlalchemy as sa

    with powerctx.open(f"sqlite:///{tmp_path}/t.db", settings={}) as ctx:
        ctx.put([*events(5), Item(scope_id=S, family="skill", text="Feed a walrus")])
        statements: list[str] = []

        def count(connection: Any, cursor: Any, statement: str, *more: Any) -> None:
            statements.append(statement)

        pack(ctx)
        sa.event.listen(sa.Engine, "before_cursor_execute", count)
        try:
            pack(ctx)
            without = len(statements)
            pack(ctx, quotas=dict.fromkeys(BUCKETS, 3))
        finally:
            sa.event.remove(sa.Engine, "before_cursor_execute", count)

        assert len(statements) == 2 * without


def test_a_query_is_embedded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many families and scopes are asked, a pack costs one embedding."""
    with powerctx.open("memory://", plugins=(), settings={}, embedder="hash") as ctx:
        ctx.put([*events(5), Item(scope_id="other", family="skill", text="Feed a walrus")])
        asked: list[tuple[str, ...]] = []
        embedder = ctx.embedding.ready
        assert embedder is not None
        honest = type(embedder).embed
        monkeypatch.setattr(type(embedder), "embed", lambda self, r: asked.append(r.texts) or honest(self, r))
        found = pack(ctx, references=["other"], purpose="coding")

    assert asked == [("walrus",)]
    assert found.diagnostics.embeddings == 1


# --- Deeper pools ---


def many(count: int, **fields: Any) -> list[Item]:
    """Return so many different notes that match alike."""
    return [note(f"n{n:04}", f"walrus tide, entry number {n}", **fields) for n in range(count)]


def test_a_session_does_not_run_dry(ctx: powerctx.Context) -> None:
    """Turn by turn a pack is as full of what is new as the first one, far behind the pools of a single look."""
    ctx.put(many(400))
    seen: set[str] = set()
    sizes = []
    for turn in range(1, 9):
        found = pack(ctx, max_tokens=800, turn=turn, session_id="s1", dedup_turns=100)
        new = {entry.uri for entry in found.entries if entry.detail != "uri"}
        assert not new & seen
        seen |= new
        sizes.append(len(new))
        assert found.stats.used_tokens >= 0.9 * 800
        assert not found.stats.cut_short
    assert len(seen) > 128
    assert min(sizes) >= 0.8 * max(sizes)


@pytest.mark.parametrize("left_out", [40, 200, 600])
def test_what_is_left_out_takes_no_place(ctx: powerctx.Context, left_out: int) -> None:
    """Whatever empties the pools, an exclusion, a filter, an actor or equal texts, what lies behind it comes."""
    ahead = [note(f"a{n:04}", f"walrus walrus walrus {n}", origin="you") for n in range(left_out)]
    ctx.put([*ahead, *(note(f"z{n}", f"a walrus sleeps, {n}", origin="me", layer="L3") for n in range(5))])
    behind = {f"z{n}" for n in range(5)}
    ctx.put([note(f"a{n:04}/x", "walrus walrus walrus walrus", family="skill") for n in range(left_out)])
    ctx.put([note("last", "the last walrus of all of them", family="skill")])

    def memories(**parameters: Any) -> ContextPack:
        return pack(ctx, families=["memory"], score_threshold=0, **parameters)

    filtered = memories(filter={"layer": "L3"})
    assert set(names(filtered)) == behind
    assert filtered.stats.filtered == left_out
    assert set(names(memories(actor="me", peer_scope="actor"))) == behind
    assert {hit.address.artifact_id for hit in ctx.find("walrus", scope_id=S, filter={"layer": "L3"}).hits} == behind
    assert names(pack(ctx, families=["skill"], score_threshold=0)).count("last") == 1
    places = [f"memory/a{n:04}" for n in range(min(200, left_out))]
    excluded = memories(exclude_uris=places, max_tokens=4000)
    assert len(excluded.entries) >= (5 if left_out <= 200 else 60)
    assert not set(names(excluded)) & {place.removeprefix("memory/") for place in places}


def test_looking_further_is_bounded_and_told(ctx: powerctx.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call asks three times at most, says how often it did, and that there may be more where it gave up."""
    ctx.put([*many(1300), note("last", "a walrus that sleeps in the tide", layer="L3")])
    asked: list[int] = []
    honest = MemorySnapshot.lexical

    def lexical(self: MemorySnapshot, requests: Any) -> Any:
        asked.append(len(requests))
        return honest(self, requests)

    monkeypatch.setattr(MemorySnapshot, "lexical", lexical)
    found = pack(ctx, filter={"layer": "L3"})
    assert (found.stats.deepened, found.stats.cut_short, found.entries, len(asked)) == (2, True, (), 3)
    assert asked[1:] == [1, 1]
    assert found.stats.outcome == "no_match"
    asked.clear()
    listed = ctx.find("walrus", scope_id=S, filter={"layer": "L3"})
    assert (listed.diagnostics.deepened, listed.diagnostics.cut_short, listed.hits, len(asked)) == (2, True, (), 3)


def test_looking_further_costs_as_many_statements_as_looking(tmp_path: Path) -> None:
    """Each further look costs at most what the first one did, whatever is left out."""
    import sqlalchemy as sa

    with powerctx.open(f"sqlite:///{tmp_path}/t.db", settings={}) as ctx:
        ctx.put(many(1300))
        statements: list[str] = []

        def count(connection: Any, cursor: Any, statement: str, *more: Any) -> None:
            statements.append(statement)

        pack(ctx)
        sa.event.listen(sa.Engine, "before_cursor_execute", count)
        try:
            pack(ctx)
            once = len(statements)
            assert pack(ctx, filter={"layer": "L3"}).stats.deepened == 2
        finally:
            sa.event.remove(sa.Engine, "before_cursor_execute", count)

        assert 0 < len(statements) - once <= 3 * once


@pytest.mark.parametrize(
    "parameters",
    [{}, {"filter": {"layer": "L9"}}, {"exclude_uris": ["memory/n0000"]}, {"limit": 5, "exclude_uris": ["memory/n0"]},
     {"score_threshold": 1.0}, {"exclude_uris": ["memory/n0001"], "max_tokens": 400}],
)  # fmt: skip
def test_nothing_more_is_looked_for_in_vain(ctx: powerctx.Context, parameters: dict[str, Any]) -> None:
    """Where nothing is left out, pools hold all there is, or the answer is full, one look is enough."""
    ctx.put(many(200 if set(parameters) & {"limit", "max_tokens"} or not parameters else 50))

    assert (pack(ctx, **parameters).stats.deepened, pack(ctx, **parameters).stats.cut_short) == (0, False)


def test_looking_further_embeds_nothing_again() -> None:
    """Deeper pools are searched with the vector that the query has."""
    with powerctx.open("memory://", plugins=(), settings={}, embedder="hash") as ctx:
        ctx.put([*many(300), *many(3, family="skill")])
        found = pack(ctx, filter={"meta.none": 1})

    assert found.stats.deepened == 2
    assert found.diagnostics.embeddings == 1


# --- The gate ---


def thin() -> list[Item]:
    """Return what is thin for the query ``alpha beta gamma delta``: one good match, and several weaker ones."""
    filler = [note(f"f{n}", f"filler text about nothing, number {n}") for n in range(40)]
    return [
        note("good", "alpha beta gamma delta"),
        *(note(f"weak{n}", f"alpha only, case {n}. " + "Something else stands here. " * n) for n in range(4)),
        *filler,
    ]


THIN = "alpha beta gamma delta"


def test_a_gate_admits_more_of_the_same_pools(ctx: powerctx.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pack that is thin gets what a lower floor lets in beside what it had, without a further search."""
    ctx.put(thin())
    ask: dict[str, Any] = {"policy": "powercontext.recall.v2", "score_threshold": 0, "max_tokens": 1000}
    off = pack(ctx, THIN, gate="off", **ask)
    asked: list[int] = []
    honest = MemorySnapshot.lexical
    monkeypatch.setattr(MemorySnapshot, "lexical", lambda self, requests: asked.append(1) or honest(self, requests))
    on = pack(ctx, THIN, gate="v2", **ask)

    assert names(off) == ["good"]
    assert names(on)[0] == "good"
    assert set(names(on)) == {"good", "weak0", "weak1", "weak2", "weak3"}
    assert asked == [1]
    assert off.stats.gate is None
    told = on.stats.gate
    assert told is not None
    assert told == on.diagnostics.effort
    assert (told.rounds, told.candidates_by_round, told.partial) == (2, (1, 5), False)
    assert wire.to_json(on)["stats"]["gate"]["reason"] == told.reason
    explained = ctx.explain(
        SearchRequest(query=THIN, scope_id=S, mode="context", gate="v2", include_receipt=True, **ask)
    )
    assert [each.number for each in explained.rounds] == [0, 1]
    assert explained.receipt is not None


def test_a_gate_leaves_a_sufficient_pack_alone(ctx: powerctx.Context) -> None:
    """Where nothing is missing, and where the budget holds no more, a pack is what it is without a gate."""
    ctx.put(events(12))
    ask: dict[str, Any] = {"policy": "powercontext.recall.v2", "max_tokens": 400}
    off, on = (pack(ctx, gate=gate, **ask) for gate in ("off", "v2"))

    assert (off.rendered, off.entries) == (on.rendered, on.entries)
    assert on.stats.gate is not None
    assert on.stats.gate.sufficient


def test_recall_has_the_gate_of_the_settings() -> None:
    """A call that does not say has the gate of the settings, and what it names comes first."""
    with powerctx.open("memory://", plugins=(), settings={"recall": {"gate": "v2"}}) as ctx:
        ctx.put(thin())
        found = ctx.recall(THIN, scope_id=S)
        assert found.stats.gate is not None
        assert ctx.recall(THIN, scope_id=S, gate="off").stats.gate is None
        ctx.recall(THIN, scope_id=S, session_id="s1", turn=1)
        assert ctx.recall(THIN, scope_id=S, session_id="s1", turn=2).stats.cooled


def test_a_gate_counts_what_is_new(ctx: powerctx.Context) -> None:
    """With a session and a gate no turn repeats what was delivered, and each holds its budget."""
    ctx.put([*many(200), *thin()])
    seen: set[str] = set()
    for turn in range(1, 6):
        talk: dict[str, Any] = {"turn": turn, "session_id": "s1", "dedup_turns": 9}
        found = pack(ctx, "walrus tide " + THIN, gate="v2", max_tokens=500, score_threshold=0, **talk)
        new = {entry.uri for entry in found.entries if entry.detail != "uri"}
        assert new
        assert not new & seen
        assert found.stats.used_tokens <= 500
        seen |= new
