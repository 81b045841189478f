"""Receipts and explanations of what an agent should know when it starts: what they tell, and what they cost."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import jsonschema
import pytest
import sqlalchemy as sa
from click.testing import CliRunner
from hypothesis import given, settings as hypothesis_settings, strategies as st

import powerctx_core as powerctx
from powerctx_core import (
    Address,
    ContextPack,
    Explanation,
    InvalidRequest,
    Item,
    Offered,
    ProviderSpec,
    RawCandidate,
    RendererSpec,
    SearchRequest,
    SinkSpec,
    hookimpl,
    wire,
)
from powerctx_core.cli.program import program
from powerctx_core.explanation import DELIVERED
from powerctx_core.page import page
from powerctx_core.page.words import SLOTS as SLOT_WORDS
from powerctx_core.receipt import v2
from powerctx_core.types import LIFECYCLES

S = "project:demo"
SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "schemas" / "receipt-v2.json"
NOW = datetime.now(UTC)
RECEIPT = {"include_receipt": True}


def note(name: str, text: str, **fields: Any) -> Item:
    """Return an item of the memory family."""
    return Item(**{"scope_id": S, "artifact_id": name, "text": text, **fields})


def large() -> list[Item]:
    """Return more than the default budget holds, for every source."""
    profile = "\n\n".join(f"Paragraph {n}: " + "The user works on tides and boats. " * 8 for n in range(70))
    return [
        note("me", profile, family="profile"),
        *(note(f"e{n}", f"Event {n}: release {n} was made. " + "It took a while. " * 10, category="events",
               updated_at=NOW - timedelta(hours=n)) for n in range(80)),
    ]  # fmt: skip


@attrs.define
class Parts:
    """A plugin: a provider ``tasks`` that does what *answer* says, a renderer that waits, and a sink."""

    answer: Any = attrs.field(factory=Offered)
    seen: list[Any] = attrs.field(factory=list)
    let_go: threading.Event = attrs.field(factory=threading.Event)

    @hookimpl
    def powerctx_candidate_providers(self) -> Iterator[ProviderSpec]:
        """Offer the provider."""
        yield ProviderSpec(name="tasks", factory=lambda settings: SimpleNamespace(candidates=self.candidates))

    @hookimpl
    def powerctx_renderers(self) -> Iterator[RendererSpec]:
        """Offer the renderers."""
        yield RendererSpec(name="hanging", factory=lambda settings: Hanging(self.let_go, ""))
        yield RendererSpec(name="wordy", factory=lambda settings: Hanging(None, "word " * 400))

    @hookimpl
    def powerctx_sinks(self) -> Iterator[SinkSpec]:
        """Offer the sink."""
        yield SinkSpec(name="seen", factory=lambda settings: SimpleNamespace(observe=self.seen.append))

    def candidates(self, request: Any, call: Any) -> Any:
        """Do what was said."""
        del call
        return self.answer(request) if callable(self.answer) else self.answer


class Hanging:
    """A renderer that does not come back before it is let go, and begins with some text."""

    def __init__(self, let_go: threading.Event | None, text: str) -> None:
        self._let_go, self._text = let_go, text

    def open(self, selection: Any) -> str:
        """Wait."""
        del selection
        if self._let_go is not None:
            self._let_go.wait(10.0)
        return self._text

    def entry(self, candidate: Any, place: int, selection: Any, *, cut: bool) -> tuple[str, str]:
        """Show nothing around a text."""
        del candidate, place, selection, cut
        return "", "\n"

    def escape(self, text: str) -> str:
        """Leave a text as it is."""
        return text

    def close(self, selection: Any) -> str:
        """End without more."""
        del selection
        return ""


TASK_SLOT = {"retrieval": {"bootstrap": {"slots": {"tasks": {"share": 0.2, "order": 5.0}}}}}


def opened(parts: Parts | None = None, settings: dict[str, Any] | None = None) -> powerctx.Context:
    """Open a store in memory with the parts of a test."""
    return powerctx.open("memory://", plugins=(), extra=[parts] if parts else [], settings=settings or {})


@pytest.fixture
def ctx() -> Iterator[powerctx.Context]:
    """Give an empty store in memory."""
    with opened() as context:
        yield context


def start(ctx: powerctx.Context, query: str | None = None, **parameters: Any) -> ContextPack:
    """Return the pack."""
    found = ctx.search(query, **{"scope_id": S, "mode": "bootstrap", **parameters})
    assert isinstance(found, ContextPack)
    return found


def told(found: ContextPack) -> dict[str, Any]:
    """Return the JSON of a receipt, checked against its schema and the pack it is of."""
    assert found.receipt is not None
    form: dict[str, Any] = wire.to_json(found.receipt)
    schema = json.loads(SCHEMA.read_text("utf-8"))
    jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker()).validate(form)
    text = found.rendered.encode()
    assert form["surface"] == "bootstrap"
    assert form["content_digest"] == ("sha256:" + hashlib.sha256(text).hexdigest() if text else None)
    assert form["content_bytes"] == len(text)
    assert found.receipt.addresses == found.selected
    assert [each.get("detail", "full") for each in form["selected"]] == [entry.detail for entry in found.entries]
    assert [each.get("truncated", False) for each in form["selected"]] == [entry.cut for entry in found.entries]
    assert form["lifecycle"] == found.stats.lifecycle
    check_slots(form["slots"], found)
    assert wire.structure(powerctx.ReceiptV2, json.loads(json.dumps(form))) == found.receipt
    return form


def check_slots(slots: list[dict[str, Any]], found: ContextPack) -> None:
    """Check that slots add up to the pack: entries in order, shares, and what flowed from one to the next."""
    assert sum(slot["share"] for slot in slots) == pytest.approx(1.0, abs=1e-5)
    assert [slot["slot"] for slot in slots for _ in range(slot["entries"])] == [each.bucket for each in found.entries]
    filled = [slot for slot in slots if slot["outcome"] == "filled"]
    figures = ("source", "room", "used", "entries", "left_out", "content_hash")
    assert found.stats.slots == {
        slot["slot"]: {name: slot[name] for name in figures if name in slot} for slot in filled
    }
    assert all(bool(slot["entries"]) == (slot["outcome"] == "filled") for slot in slots)
    for before, after in pairwise(slots):
        assert after["carried"] == pytest.approx(before["room"] - before["used"], abs=2)
        assert after["room"] >= after["carried"]
    if slots:
        assert slots[0]["carried"] == 0


def outcomes(form: dict[str, Any]) -> dict[str, str]:
    """Return slot -> outcome."""
    return {slot["slot"]: slot["outcome"] for slot in form["slots"]}


def omitted(form: dict[str, Any]) -> dict[tuple[str, str], int]:
    """Return what a receipt says was left out."""
    return {(form["families"][each["family"]], each["reason"]): each["count"] for each in form["omitted"]}


def explained(ctx: powerctx.Context, query: str | None = None, **parameters: Any) -> Explanation:
    """Return the explanation, checked against pack, receipt, page and JSON."""
    request = SearchRequest(query=query, **{"scope_id": S, "mode": "bootstrap", **parameters})
    explanation = ctx.explain(request)
    response, receipt = explanation.response, explanation.receipt
    assert isinstance(response, ContextPack)
    assert receipt is not None
    assert explanation.slots == receipt.slots
    given = [each for each in explanation.candidates if each.fate in DELIVERED]
    assert tuple(each.address for each in given) == response.selected
    assert [(each.slot, each.detail) for each in given] == [(each.bucket, each.detail) for each in response.entries]
    left = Counter((each.address.family, each.fate) for each in explanation.candidates if each.fate not in DELIVERED)
    counted = {(receipt.families[each.family], each.reason): each.count for each in receipt.omitted}
    assert {key: 1 if key[1] == "late" else count for key, count in left.items()} == counted
    ranks = [each.rank for each in explanation.candidates if each.rank is not None]
    assert ranks == list(range(1, len(ranks) + 1))
    form = wire.to_json(explanation)
    json.dumps(form, allow_nan=False)
    assert [slot["slot"] for slot in form["slots"]] == [slot.slot for slot in explanation.slots]
    assert all(slot.slot in page(explanation) for slot in explanation.slots)
    return explanation


# --- asked for, or not ---


@pytest.mark.parametrize("more", [{}, {"include_receipt": False}, {"include_receipt": None}])
@pytest.mark.parametrize("mode", ["bootstrap", "latest-profile"])
def test_without_being_asked_there_is_no_key(ctx: powerctx.Context, mode: str, more: dict[str, Any]) -> None:
    """Absent, false and null are the same; with it there is one key more, and nothing else changes."""
    ctx.put(large())
    found, asked = start(ctx, mode=mode, **more), start(ctx, mode=mode, **RECEIPT)

    assert found.receipt is None
    assert list(wire.to_json(found)) == ["entries", "rendered", "digest", "stats"]
    assert list(wire.to_json(asked)) == ["entries", "rendered", "digest", "stats", "receipt"]
    assert wire.canonical(found) == wire.canonical(attrs.evolve(asked, receipt=None))
    assert "receipt" not in asked.rendered


@pytest.mark.parametrize("version", [1, 3, 2.0, "2"])
def test_only_version_2_tells_of_it(version: Any) -> None:
    """In one sentence that names the field."""
    with pytest.raises(InvalidRequest, match="receipt_version") as refused:
        SearchRequest(scope_id=S, mode="bootstrap", include_receipt=True, receipt_version=version)
    assert refused.value.field == "receipt_version"


def test_sinks_see_what_was_asked_for() -> None:
    """A receipt goes to the sinks when somebody asked for it, and only then."""
    parts = Parts()
    with opened(parts, {"sinks": ["seen"]}) as ctx:
        start(ctx)
        ctx.explain(SearchRequest(scope_id=S, mode="bootstrap"))
        found = start(ctx, **RECEIPT)

    assert [type(event).__name__ for event in parts.seen] == ["Diagnostics", "Diagnostics", "Diagnostics", "ReceiptV2"]
    assert parts.seen[-1] is found.receipt


# --- what is told ---


def test_what_was_delivered_and_how(ctx: powerctx.Context) -> None:
    """Slots with shares and what flowed on, exact revisions, what was cut or left out, what was read, and no query."""
    ctx.put(large())
    ctx.sessions.set_overview("s", "We build a tide table.", scope_id=S)
    form = told(start(ctx, session_id="s", lifecycle="resume", **RECEIPT))

    assert outcomes(form) == dict.fromkeys(
        ["identity", "working_state", "continuity", "listing", "instructions"], "filled"
    )
    assert [slot["share"] for slot in form["slots"]] == [0.3, 0.25, 0.15, 0.2, 0.1]
    assert (form["query_digest"], form["gate_policy"], form["empty_reason"], form["rounds"]) == (None, None, None, [])
    assert form["recall_policy"]["policy_id"] == "bootstrap"
    assert form["budgets"] == [{"unit": "tokens", "requested": 1600, "used": form["budgets"][0]["used"]}]
    assert form["truncated"]
    assert form["selected"][0]["truncated"]
    ran = {form["families"][each["family"]]: (each["mode"], each["outcome"], each["count"])
           for each in form["searches"]}  # fmt: skip
    assert ran == {"memory": ("snapshot", "completed", 2), "profile": ("snapshot", "completed", 1)}
    assert set(omitted(form)) == {("memory", "token_budget"), ("memory", "duplicate")}
    assert form["slots"][3]["left_out"] == 80 - sum(
        form["families"][each["family"]] == "memory" for each in form["selected"]
    )
    assert form["slots"][4]["content_hash"].startswith("sha256:")
    assert {each["stage"] for each in form["stages"]} == {"retrieve", "plan", "render"}


def test_reading_is_told_and_long_identities_too(ctx: powerctx.Context) -> None:
    """A profile that is read beyond its head is one more plan and a read."""
    ctx.put(large())
    stages = {each["stage"]: each["count"] for each in told(start(ctx, max_tokens=16_000, **RECEIPT))["stages"]}

    assert stages == {"retrieve": 1, "plan": 2, "read": 1, "render": 1}


@pytest.mark.parametrize("lifecycle", LIFECYCLES)
def test_why_a_source_is_absent(ctx: powerctx.Context, lifecycle: str) -> None:
    """Of an empty store every slot but the instructions is absent, each with its reason."""
    form = told(start(ctx, lifecycle=lifecycle, session_id="s", **RECEIPT))

    assert form["lifecycle"] == lifecycle
    assert outcomes(form) == {
        "identity": "no_content",
        "working_state": "no_content",
        "continuity": "no_content" if lifecycle in ("resume", "compact") else "lifecycle",
        "listing": "no_content",
        "instructions": "filled",
    }
    assert form["searches"] == []


def test_every_outcome_of_a_slot() -> None:
    """Nothing, elsewhere, excluded, no room, another lifecycle, not installed, late, failed: each is told apart."""
    slots: dict[str, Any] = {
        "again": {"source": "recent-events", "order": 21.0},
        "lost": {"source": "nowhere", "order": 1.0},
        "tasks": {"order": 2.0},
        "tight": {"source": "guide", "share": 0.0001, "order": 0.0},
    }
    release, seen = threading.Event(), {}
    parts = Parts(lambda _: 1 / 0)
    with opened(parts, {"retrieval": {"bootstrap": {"slots": slots}}}) as ctx:
        ctx.put([note("e", "An event.", category="events"), note("me", "Ann.", family="profile")])
        uri = "powerctx://project%3Ademo/profile/me"
        seen |= outcomes(told(start(ctx, exclude_uris=[uri], on_family_error="degrade", **RECEIPT)))
        assert {"identity": "excluded", "working_state": "filled", "again": "duplicate", "continuity": "lifecycle",
                "listing": "duplicate", "lost": "not_installed", "tasks": "failed", "tight": "budget",
                "instructions": "filled"} == seen  # fmt: skip
        parts.answer = lambda _: release.wait(60)
        late = told(start(ctx, deadline_ms=1500, **RECEIPT))
        release.set()
        parts.answer = Offered()
        empty = told(start(ctx, **RECEIPT))

    assert (outcomes(late)["tasks"], late["partial"]) == ("late", True)
    assert outcomes(empty)["tasks"] == "no_content"
    assert set(seen.values()) | {"late", "no_content"} == set(v2.SlotOutcome.__args__) == set(SLOT_WORDS)  # type: ignore[attr-defined]  # of a Literal


def test_the_mode_of_a_provider() -> None:
    """One slot with everything, under the policy of its name; the query stands there by its digest."""
    task = RawCandidate.of(Address(S, "task", "t1", 1), "CANARY text", title="CANARY title", evidence={"line": 3})
    with opened(Parts(Offered(candidates=[task, task], among={"task": 7}))) as ctx:
        form = told(start(ctx, "CANARY tides", mode="tasks", **RECEIPT))

    assert form["recall_policy"]["policy_id"] == "tasks"
    assert form["query_digest"] == "sha256:" + hashlib.sha256(b"CANARY tides").hexdigest()
    assert [(slot["slot"], slot["share"], slot["offered"], slot["left_out"]) for slot in form["slots"]] == [
        ("tasks", 1.0, 2, 6)
    ]
    assert omitted(form) == {("task", "duplicate"): 1}
    assert form["selected"][0]["evidence"] == {"line": 3}
    assert "CANARY" not in json.dumps(form)


def test_the_manifest_has_a_digest() -> None:
    """Equal settings give the same one, others another."""

    def digest(**slot: Any) -> str:
        with opened(settings={"retrieval": {"bootstrap": {"slots": {"listing": slot}}}}) as ctx:
            found: str = told(start(ctx, **RECEIPT))["recall_policy"]["policy_digest"]
            return found

    assert digest() == digest() == digest(order=41.0)
    assert len({digest(), digest(share=0.5), digest(source="guide"), digest(order=1.0)}) == 4


@pytest.mark.parametrize(("renderer", "reason"), [("wordy", "frame"), ("hanging", "deadline")])
def test_why_nothing_is_there(renderer: str, reason: str) -> None:
    """A frame without room, and a text that is late: a receipt and an explanation say which."""
    parts = Parts()
    with opened(parts) as ctx:
        ctx.put([note("e", "An event.", category="events")])
        asked = {"renderer": renderer, "max_tokens": 64, "deadline_ms": 1500}
        try:
            form, explanation = told(start(ctx, **asked, **RECEIPT)), explained(ctx, **asked)
        finally:
            parts.let_go.set()

    assert (form["empty_reason"], form["selected"], form["content_digest"]) == (reason, [], None)
    assert outcomes(form)["working_state"] == ("late" if reason == "deadline" else "budget")
    assert {each.fate for each in explanation.candidates} == {"late" if reason == "deadline" else "token_budget"}
    assert outcomes(form)["continuity"] == "lifecycle"


def test_no_content_is_in_a_receipt(ctx: powerctx.Context, caplog: pytest.LogCaptureFixture) -> None:
    """No text, title, tag, actor or session, whatever is delivered."""
    fields: dict[str, Any] = {"title": "CANARY", "abstract": "CANARY", "tags": ("CANARY",), "origin": "CANARY"}
    ctx.put([note(f"n{n}", f"CANARY {n} " * 900 * n or "CANARY", category="events", **fields) for n in range(3)])
    ctx.put([note("me", "CANARY " * 900, family="profile", **fields)])
    ctx.sessions.set_overview("CANARY-s", "CANARY overview", scope_id=S)
    for more in ({}, {"actor": "CANARY-a"}, {"session_id": "CANARY-s", "lifecycle": "resume"}, {"max_tokens": 9000}):
        form = told(start(ctx, **more, **RECEIPT))
        assert "canary" not in (json.dumps(form) + caplog.text).lower()


# --- what it costs, and what it leaves alone ---


def test_asking_costs_no_statement(tmp_path: Path) -> None:
    """With and without a receipt, and with an explanation, the store is asked the same."""
    statements: list[str] = []
    listen = lambda *given: statements.append(given[2])  # noqa: E731 - an event needs its name to be taken off again
    with powerctx.open(f"sqlite:///{tmp_path / 'x.db'}", plugins=("sqlite",), settings={}) as ctx:
        ctx.put(large())
        request = SearchRequest(scope_id=S, mode="bootstrap", max_tokens=9000)
        ctx.search(request)
        sa.event.listen(sa.Engine, "before_cursor_execute", listen)
        try:
            asked = []
            for call in (
                lambda: ctx.search(request),
                lambda: ctx.search(attrs.evolve(request, include_receipt=True)),
                lambda: ctx.explain(request),
            ):
                statements.clear()
                call()
                asked.append([*statements])
        finally:
            sa.event.remove(sa.Engine, "before_cursor_execute", listen)

    assert asked == [asked[0]] * 3
    assert asked[0]


def test_it_is_the_call_itself(ctx: powerctx.Context) -> None:
    """The answer that is explained is that of search, to the byte; of a session nothing is recorded."""
    ctx.put(large())
    request = SearchRequest(scope_id=S, mode="bootstrap", session_id="s", turn=1)
    explanation = explained(ctx, session_id="s", turn=1)
    assert ctx.search("release", scope_id=S, mode="context", session_id="s", turn=1,
                      bootstrap_exclude=True).stats.excluded == 0  # fmt: skip
    found = ctx.search(request)

    assert isinstance(found, ContextPack)
    assert isinstance(explanation.response, ContextPack)
    assert explanation.response.stats.dedup["recorded"] == 0 < found.stats.dedup["recorded"]
    assert (explanation.response.rendered, explanation.response.entries) == (found.rendered, found.entries)


def test_every_candidate_has_a_fate(ctx: powerctx.Context) -> None:
    """What was offered for each slot, in its order, and what the pack says of its own."""
    ctx.put(large())
    uri = "powerctx://project%3Ademo/memory/e0"
    explanation = explained(ctx, exclude_uris=[uri])
    fates = {(each.slot, each.address.artifact_id): each.fate for each in explanation.candidates}

    assert fates["identity", "me"] == "cut"
    assert fates["working_state", "e0"] == fates["listing", "e0"] == "excluded"
    assert fates["working_state", "e1"] == "delivered"
    assert fates["listing", "e1"] == "duplicate"
    assert fates["working_state", "e9"] == "token_budget"
    assert fates["listing", "listing"] == fates["instructions", "guide"] == "delivered"


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200).filter(str.strip)


@hypothesis_settings(max_examples=30, deadline=None)
@given(
    texts=st.lists(st.tuples(_TEXT, st.sampled_from(["events", None]), st.integers(1, 60)), max_size=12),
    profile=st.none() | _TEXT,
    max_tokens=st.integers(64, 3000),
    lifecycle=st.sampled_from(LIFECYCLES),
    slots=st.dictionaries(
        st.sampled_from(["identity", "working_state", "listing", "more"]),
        st.fixed_dictionaries(
            {"share": st.floats(0.0, 1.0)}, optional={"source": st.sampled_from(["guide", "recent-items"])}
        ),
        max_size=3,
    ),
)
def test_whatever_is_stored_adds_up(
    texts: list[tuple[str, str | None, int]],
    profile: str | None,
    max_tokens: int,
    lifecycle: str,
    slots: dict[str, dict[str, Any]],
) -> None:
    """Receipt, schema, pack, explanation and page agree with each other, and the receipt comes back from JSON."""
    with opened(settings={"retrieval": {"bootstrap": {"slots": slots}}}) as ctx:
        ctx.put([note(f"n{n}", text * times, category=kind) for n, (text, kind, times) in enumerate(texts)])
        if profile:
            ctx.put([note("me", f"{profile}\n\n" * 20, family="profile")])
        told(start(ctx, max_tokens=max_tokens, lifecycle=lifecycle, **RECEIPT))
        explained(ctx, max_tokens=max_tokens, lifecycle=lifecycle)


def test_the_page(ctx: powerctx.Context) -> None:
    """It names what was asked, the slots with what flowed on, and holds no stored markup."""
    ctx.put([*large(), note("x", "A <script>alert(1)</script>", title="<b>bold</b>", category="events")])
    drawn = page(explained(ctx))

    for part in ("What an agent should know when it starts", "Slots in their order", "absent: not for this lifecycle",
                 "working_state", "recent-events", "no room in the budget of tokens", "lifecycle"):  # fmt: skip
        assert part in drawn, part
    assert "<script>" not in drawn
    assert "<b>bold" not in drawn


def test_the_command_line(tmp_path: Path) -> None:
    """`search --receipt` says it on standard error; `explain --mode bootstrap` shows slots, as text, JSON and page."""
    url = f"sqlite:///{tmp_path / 'x.db'}"
    with powerctx.open(url) as ctx:
        ctx.put(large())
    asked = ["--scope", S, "--mode", "bootstrap", "--store", url]
    receipt = json.loads(CliRunner().invoke(program, ["search", *asked, "--receipt"]).stderr.splitlines()[0])
    shown = CliRunner().invoke(program, ["explain", *asked, "--lifecycle", "clear"]).stdout
    form = json.loads(CliRunner().invoke(program, ["explain", *asked, "--json"]).stdout)
    CliRunner().invoke(program, ["explain", *asked, "--html", str(tmp_path / "why.html")])

    assert receipt["surface"] == "bootstrap"
    assert shown.startswith("What an agent should know when it starts\n")
    for part in ("Slots, in tokens:", "flowed on", "absent: not for this lifecycle", "lifecycle: clear",
                 "mode bootstrap", "instructions is always the same text: sha256:", "not shown"):  # fmt: skip
        assert part in shown, part
    assert [slot["slot"] for slot in form["slots"]] == [slot["slot"] for slot in receipt["slots"]]
    assert "Slots in their order" in (tmp_path / "why.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ([], "QUERY is missing"),
        (["x", "--lifecycle", "resume"], "--lifecycle is an option of search; add --mode bootstrap"),
        (["x", "--mode", "bootstrap"], "query has no meaning in mode bootstrap"),
        (["--mode", "context"], "query is missing"),
        (["--mode", "nothing"], "mode is 'nothing'; it must be one of"),
    ],
)
def test_wrong_options_of_explain(tmp_path: Path, more: list[str], why: str) -> None:
    """Each is one sentence."""
    done = CliRunner().invoke(program, ["explain", *more, "--scope", S, "--store", f"sqlite:///{tmp_path / 'x.db'}"])

    assert done.exit_code == 2
    assert why in done.stderr
