"""Receipts and explanations of ``search`` and ``recall``: what is asked for, what is told, what it costs."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import struct
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import jsonschema
import pytest
import sqlalchemy as sa

import powerctx_core as powerctx
from powerctx_core import (
    ContextPack,
    EmbedderSpec,
    EmbeddingProfile,
    Explanation,
    FamilySpec,
    InvalidRequest,
    Item,
    RendererSpec,
    SearchRequest,
    SinkSpec,
    hookimpl,
    wire,
)
from powerctx_core.account.telling import receipt_of
from powerctx_core.explanation import DELIVERED
from powerctx_core.families import StoredFamily
from powerctx_core.page import page

S = "project:demo"
SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "schemas" / "receipt-v2.json"
LONG = "The walrus waits for the tide. " + "It is a long story about a walrus and its tide. " * 200


def note(name: str, text: str, **fields: Any) -> Item:
    """Return an item of the memory family."""
    return Item(**{"scope_id": S, "artifact_id": name, "text": text, **fields})


def notes(count: int, **fields: Any) -> list[Item]:
    """Return so many different notes about walruses."""
    return [note(f"e{n:02}", f"Walrus note {n}: tide table {n * 37} was read.", **fields) for n in range(count)]


class Embedder:
    """Gives one vector for everything, or fails, and counts the queries."""

    profile = EmbeddingProfile(fingerprint="one", dimensions=2, languages=("en",), noise=0.1, match=0.9)

    def __init__(self) -> None:
        self.asked = 0
        self.fails = False

    def embed(self, request: Any) -> Sequence[bytes]:
        """Count, embed."""
        if request.purpose == "query":
            self.asked += 1
            if self.fails:
                raise RuntimeError("CANARY from the embedder")
        return [struct.pack("<2f", 1.0, 0.0) for _ in request.texts]


class Claiming:
    """The stored family; its members have identity fields of any length."""

    def __init__(self, spec: FamilySpec, line: str) -> None:
        self._stored, self._line = StoredFamily(spec), line

    def retrieve(self, request: Any, call: Any) -> Any:
        """Retrieve, and claim."""
        pool = self._stored.retrieve(request, call)
        claimed = {key: attrs.evolve(raw, evidence={"line": self._line}) for key, raw in pool.candidates.items()}
        return attrs.evolve(pool, candidates=claimed)


class Hanging:
    """A renderer that does not come back before it is let go."""

    def __init__(self, let_go: threading.Event) -> None:
        self._let_go = let_go

    def open(self, selection: Any) -> str:
        """Wait."""
        del selection
        self._let_go.wait(10.0)
        return ""

    def entry(self, candidate: Any, place: int, selection: Any, *, cut: bool) -> tuple[str, str]:
        """Wait."""
        del candidate, place, cut
        return self.open(selection), "\n"

    def escape(self, text: str) -> str:
        """Leave a text as it is."""
        return text

    close = open


class Wordy:
    """A renderer whose frame alone is over a small budget."""

    def __init__(self, settings: Any) -> None:
        del settings

    def open(self, selection: Any) -> str:
        """Begin with too much."""
        del selection
        return "word " * 400

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


@attrs.define
class Parts:
    """A plugin: a family with an identity field, an embedder, a renderer, a sink."""

    line: str = "1"
    embedder: Embedder = attrs.field(factory=Embedder)
    seen: list[Any] = attrs.field(factory=list)
    let_go: threading.Event = attrs.field(factory=threading.Event)

    @hookimpl
    def powerctx_families(self) -> Iterator[FamilySpec]:
        """Offer the family."""
        yield FamilySpec(name="claims", factory=lambda spec, _: Claiming(spec, self.line), identity=("line",))

    @hookimpl
    def powerctx_embedders(self) -> Iterator[EmbedderSpec]:
        """Offer the embedder."""
        yield EmbedderSpec(name="one", factory=lambda settings: self.embedder)

    @hookimpl
    def powerctx_renderers(self) -> Iterator[RendererSpec]:
        """Offer the renderer."""
        yield RendererSpec(name="wordy", factory=Wordy)
        yield RendererSpec(name="hanging", factory=lambda settings: Hanging(self.let_go))

    @hookimpl
    def powerctx_sinks(self) -> Iterator[SinkSpec]:
        """Offer the sink."""
        yield SinkSpec(name="seen", factory=lambda settings: SimpleNamespace(observe=self.seen.append))


def opened(parts: Parts | None = None, url: str = "memory://", **more: Any) -> powerctx.Context:
    """Open a store with the parts of a test."""
    plugins = () if url.startswith("memory") else ("sqlite",)
    return powerctx.open(url, plugins=plugins, extra=[parts] if parts else [], **{"settings": {}, **more})


@pytest.fixture
def ctx() -> Iterator[powerctx.Context]:
    """Give an empty store in memory."""
    with opened() as context:
        yield context


def pack(ctx: powerctx.Context, query: str = "walrus", **parameters: Any) -> ContextPack:
    """Return a pack."""
    found = ctx.search(query, **{"scope_id": S, "mode": "context", **parameters})
    assert isinstance(found, ContextPack)
    return found


def told(found: ContextPack) -> dict[str, Any]:
    """Return the JSON of a receipt, checked against its schema and the pack it is of."""
    assert found.receipt is not None
    form: dict[str, Any] = wire.to_json(found.receipt)
    schema = json.loads(SCHEMA.read_text("utf-8"))
    jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker()).validate(form)
    text = found.rendered.encode()
    assert form["content_digest"] == ("sha256:" + hashlib.sha256(text).hexdigest() if text else None)
    assert form["content_bytes"] == len(text)
    assert found.receipt.addresses == found.selected
    assert [each.get("detail", "full") for each in form["selected"]] == [entry.detail for entry in found.entries]
    assert [each.get("truncated", False) for each in form["selected"]] == [entry.cut for entry in found.entries]
    assert wire.structure(powerctx.ReceiptV2, json.loads(json.dumps(form))) == found.receipt
    return form


def receipt(ctx: powerctx.Context, query: str = "walrus", **parameters: Any) -> dict[str, Any]:
    """Return the JSON of the receipt of a search."""
    return told(pack(ctx, query, include_receipt=True, **parameters))


def omitted(form: dict[str, Any]) -> dict[tuple[str, str], int]:
    """Return what a receipt says was left out of families that were found."""
    return {
        (form["families"][each["family"]], each["reason"]): each["count"]
        for each in form["omitted"]
        if each["reason"] != "not_retrieved"
    }


# --- asked for, or not ---


@pytest.mark.parametrize("query", ["walrus", "zebra"])
@pytest.mark.parametrize("more", [{}, {"include_receipt": False}, {"include_receipt": None}])
def test_without_being_asked_there_is_no_key(ctx: powerctx.Context, query: str, more: dict[str, Any]) -> None:
    """Absent, false and null are the same, from JSON, too; with it there is one key more, and nothing else changes."""
    ctx.put(notes(3))
    request = wire.structure(SearchRequest, {"query": query, "scope_id": S, "mode": "context", **more})
    asked = pack(ctx, query, include_receipt=True)

    for found in (ctx.search(request), pack(ctx, query, **more)):
        assert isinstance(found, ContextPack)
        assert found.receipt is None
        assert list(wire.to_json(found)) == ["entries", "rendered", "digest", "stats"]
        assert wire.canonical(found) == wire.canonical(attrs.evolve(asked, receipt=None))
    assert list(wire.to_json(asked)) == ["entries", "rendered", "digest", "stats", "receipt"]


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"mode": "context", "include_receipt": "yes"}, "include_receipt"),
        ({"mode": "context", "include_receipt": 1}, "include_receipt"),
        ({"mode": "context", "receipt_version": 1}, "receipt_version"),
        ({"mode": "context", "include_receipt": True, "receipt_version": 1}, "receipt_version"),
        ({"mode": "context", "receipt_version": 3}, "receipt_version"),
        ({"mode": "context", "receipt_version": 2.0}, "receipt_version"),
        ({"mode": "list", "include_receipt": True}, "include_receipt"),
        ({"mode": "list", "receipt_version": 2}, "receipt_version"),
    ],
)
def test_bad_values_are_refused(more: dict[str, Any], field: str) -> None:
    """In one sentence that names the field; version 1 says nothing of searches, and lists have no receipts."""
    with pytest.raises(InvalidRequest, match=field) as refused:
        SearchRequest(query="q", scope_id="s", **more)
    assert refused.value.field == field
    assert str(refused.value).count(". ") == 0


def test_a_list_may_say_that_it_wants_none(ctx: powerctx.Context) -> None:
    """False is as if nothing was said."""
    ctx.put(notes(2))

    assert wire.canonical(ctx.search("walrus", scope_id=S, include_receipt=False)) == wire.canonical(
        ctx.find("walrus", scope_id=S)
    )


def test_recall_is_a_preset_with_its_receipt(ctx: powerctx.Context) -> None:
    """With equal explicit parameters the bytes are equal, the receipt included."""
    ctx.put(notes(20))
    recalled = ctx.recall("walrus", scope_id=S, include_receipt=True, receipt_version=2)

    assert told(recalled)["surface"] == "search"
    assert wire.canonical(recalled) == wire.canonical(
        pack(ctx, purpose="coding", score_threshold=0.35, include_receipt=True)
    )


def test_sinks_see_what_was_asked_for() -> None:
    """A receipt goes to the sinks behind the diagnostics, when somebody asked for it, and only then."""
    parts = Parts()
    with opened(parts, settings={"sinks": ["seen"]}) as ctx:
        ctx.put(notes(1))
        pack(ctx)
        ctx.explain(SearchRequest(query="walrus", scope_id=S, mode="context"))
        found = ctx.recall("walrus", scope_id=S, include_receipt=True)

    assert [type(event).__name__ for event in parts.seen] == ["Diagnostics", "Diagnostics", "Diagnostics", "ReceiptV2"]
    assert parts.seen[-1] is found.receipt


# --- what is told ---


def test_what_was_delivered_and_how(ctx: powerctx.Context) -> None:
    """Identities with their tier, the budget, the searches of each family and scope, and the stages, reads included."""
    ctx.put([note("long", LONG), *notes(4), note("r", "A walrus handbook. " * 60, family="resource")])
    ctx.put([note("elsewhere", "Another walrus.", scope_id="other")])
    form = receipt(ctx, references=["other"], max_tokens=1600)

    assert form["budgets"] == [{"unit": "tokens", "requested": 1600, "used": form["budgets"][0]["used"]}]
    assert 0 < form["budgets"][0]["used"] <= 1600
    assert form["rounds"] == [{"round": 0, "outcome": "completed", "retained": True}]
    ran = {
        form["families"][each["family"]]: (each["mode"], each["outcome"], each["count"]) for each in form["searches"]
    }
    assert ran["memory"] == ("fts", "completed", 2)
    assert {"memory", "topic-memory", "experience", "resource", "skill"} <= ran.keys()
    assert {each["stage"] for each in form["stages"]} == {"retrieve", "assess", "plan", "read", "render"}
    assert next(each["count"] for each in form["stages"] if each["stage"] == "plan") == 2
    assert {each.get("detail", "full") for each in form["selected"]} == {"full", "abstract"}
    assert form["truncated"] is True
    assert (form["gate_policy"], form["empty_reason"], form["split"]) == (None, None, False)
    assert form["query_digest"] == "sha256:" + hashlib.sha256(b"walrus").hexdigest()


def test_every_reason_of_a_search(ctx: powerctx.Context) -> None:
    """Too weak, excluded, of another actor, equal, beyond the limit or quota, without room: all counted."""
    ctx.put([*notes(12, category="events"), note("same", "Walrus note 0: tide table 0 was read."),
             note("weak", "A walrus among zebras."), note("theirs", "Their walrus.", origin="b")])  # fmt: skip
    uri = f"powerctx://{S.replace(':', '%3A')}/memory/e03"
    actor = {"actor": "a", "peer_scope": "actor"}

    assert omitted(receipt(ctx, "walrus tide table", score_threshold=0.9))["memory", "below_threshold"] >= 1
    assert omitted(receipt(ctx, exclude_uris=[uri], score_threshold=0, **actor))["memory", "excluded"] == 2
    assert omitted(receipt(ctx))["memory", "duplicate"] == 1
    limited = receipt(ctx, limit=3)
    assert omitted(limited)["memory", "entry_limit"] == 14 - 3
    assert limited["budgets"][0] == {"unit": "items", "requested": 3, "used": 3}
    assert omitted(receipt(ctx, quotas={"events": 2}))["memory", "family_limit"] == 14 - 2
    assert omitted(receipt(ctx, quotas={"events": 0, "skills": 5}))["memory", "family_limit"] >= 11
    tight = receipt(ctx, max_tokens=100)
    assert omitted(tight)["memory", "token_budget"] == 14 - len(tight["selected"]) > 0
    many = receipt(ctx, max_tokens=100, quotas={"events": 12, "entities": 900})
    assert ("memory", "family_limit") not in omitted(many)
    assert omitted(many)["memory", "token_budget"] > 0


def test_what_cools(ctx: powerctx.Context) -> None:
    """What an earlier turn delivered is left out as cooled, or stands there bare."""
    ctx.put(notes(30))
    session = {"session_id": "s1", "dedup_turns": 3, "max_tokens": 200}
    first = pack(ctx, turn=1, **session)
    form = receipt(ctx, turn=2, **session)
    bare = sum(each.get("detail") == "uri" for each in form["selected"])

    assert omitted(form)["memory", "cooled"] + bare == len(first.entries)


def test_a_family_that_brought_nothing_is_told(ctx: powerctx.Context) -> None:
    """A flag for each requested family without a candidate; what a threshold removes was one."""
    ctx.put(notes(2))
    form = receipt(ctx, families=["memory", "skill"])
    flags = {(form["families"][each["family"]], each["reason"]): each["count"] for each in form["omitted"]}

    assert flags == {("skill", "not_retrieved"): 1}


def test_conditions_are_no_reason(ctx: powerctx.Context) -> None:
    """What is outside of them was not asked for, whether the store sees to it or not; an explanation names it."""
    ctx.put([note("a", "A walrus.", meta={"team": "x"}), note("b", "A walrus, too.", meta={"team": "y"})])
    asked = {"filter": {"meta.team": "x"}, "families": ["memory"]}

    assert omitted(receipt(ctx, **asked)) == {}
    assert fates(explained(ctx, **asked)).get("b", "filtered") == "filtered"


@pytest.mark.parametrize(
    ("scope", "query", "more", "reason"),
    [
        ("nowhere", "walrus", {}, "no_content"),
        (S, "zebra", {}, "no_match"),
        (S, "walrus tide", {"score_threshold": 1.0}, "below_threshold"),
        (S, "walrus", {"renderer": "wordy", "max_tokens": 64}, "frame"),
    ],
)
def test_why_nothing_is_there(scope: str, query: str, more: dict[str, Any], reason: str) -> None:
    """Each kind of empty pack has its reason, and a digest of nothing is null."""
    with opened(Parts()) as ctx:
        ctx.put([note("a", "The walrus sleeps.")])
        form = receipt(ctx, query, scope_id=scope, **more)

    assert (form["empty_reason"], form["selected"], form["content_digest"]) == (reason, [], None)
    assert form["outcome"] == ("budget" if reason == "frame" else reason)


def test_a_text_that_is_late_is_told() -> None:
    """There is a receipt, with a flag for each family that had a candidate, and an explanation says it of each."""
    parts = Parts()
    with opened(parts) as ctx:
        ctx.put(notes(3))
        asked = {"renderer": "hanging", "deadline_ms": 1500, "families": ["memory"]}
        try:
            form, explanation = (
                receipt(ctx, **asked),
                ctx.explain(
                    SearchRequest(query="walrus", scope_id=S, mode="context", **asked)  # type: ignore[arg-type]  # as named
                ),
            )
        finally:
            parts.let_go.set()

    assert (form["outcome"], form["empty_reason"], form["partial"]) == ("deadline", "deadline", True)
    assert omitted(form) == {("memory", "late"): 1}
    assert form["budgets"] == [{"unit": "tokens", "requested": 1600, "used": 0}]
    assert set(fates(explanation).values()) == {"late"}


# --- what it costs, and when there can be none ---


def test_asking_costs_no_statement_and_no_embedding(tmp_path: Path) -> None:
    """With and without a receipt, and with an explanation, the store and the model are asked the same."""
    parts, statements = Parts(), []
    listen = lambda *given: statements.append(given[2])  # noqa: E731 - an event needs its name to be taken off again
    with opened(parts, f"sqlite:///{tmp_path / 'x.db'}", embedder="one") as ctx:
        ctx.put([*notes(8), note("long", LONG)])
        pack(ctx)
        sa.event.listen(sa.Engine, "before_cursor_execute", listen)
        request = SearchRequest(query="walrus", scope_id=S, mode="context")
        try:
            counts = []
            for call in (
                lambda: ctx.search(request),
                lambda: ctx.search(attrs.evolve(request, include_receipt=True)),
                lambda: ctx.explain(request),
            ):
                statements.clear()
                before = parts.embedder.asked
                call()
                counts.append((len(statements), parts.embedder.asked - before))
        finally:
            sa.event.remove(sa.Engine, "before_cursor_execute", listen)

    assert counts == [counts[0]] * 3
    assert counts[0][0] > 0
    assert counts[0][1] == 1


def test_what_cannot_be_told_loses_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    """Identity fields too long for any receipt: the pack is what it would be, and one line in the log says why."""
    with opened(Parts(line="CANARY" * 6000)) as ctx:
        ctx.put([note("a", "A walrus.", family="claims")])
        plain = pack(ctx, families=["claims"], max_tokens=32000)
        caplog.clear()
        asked = pack(ctx, families=["claims"], max_tokens=32000, include_receipt=True)

    assert wire.canonical(plain) == wire.canonical(asked)
    assert asked.entries
    (record,) = caplog.records
    assert "no receipt of version 2" in record.getMessage()
    assert "CANARY" not in record.getMessage()


def test_whatever_fails_loses_no_answer(ctx: powerctx.Context, caplog: pytest.LogCaptureFixture) -> None:
    """No exception of the telling comes out, and none of its words."""

    class Broken:
        answer = pack(ctx)

        def run(self) -> Any:
            """Fail with content in the message."""
            raise RuntimeError("CANARY in the message")

    assert receipt_of(Broken(), 2) is None  # type: ignore[arg-type]  # stands in for it
    assert "RuntimeError" in caplog.text
    assert "CANARY" not in caplog.text


def test_a_whole_store_of_entries_fits(ctx: powerctx.Context) -> None:
    """The greatest pack, of the shortest notes of five families, holds 64 entries: its receipt is within its size."""
    families = ("memory", "topic-memory", "experience", "resource", "skill")
    ctx.put([note(f"{n:036}", f"walrus {n}", family=family) for family in families for n in range(80)])
    form = receipt(ctx, max_tokens=32000, score_threshold=0)

    assert len(form["selected"]) == 64
    assert len(json.dumps(form, separators=(",", ":")).encode()) <= 32_768 + 32 * 256


# --- what is never told ---

_PATHS: dict[str, dict[str, Any]] = {
    "well": {},
    "tight": {"max_tokens": 64},
    "threshold": {"score_threshold": 1.0},
    "purpose": {"purpose": "chat"},
    "excluded": {"exclude_uris": [f"powerctx://{S.replace(':', '%3A')}/memory/n0"], "actor": "CANARY-actor"},
    "filter": {"filter": {"meta.CANARY": "CANARY"}, "tags": ["CANARY-tag"]},
    "session": {"session_id": "CANARY-session", "dedup_turns": 2, "turn": 1},
    "detail": {"detail": "abstract", "show": ["score"]},
}


@pytest.mark.parametrize("path", _PATHS)
@pytest.mark.parametrize("fails", [False, True])
def test_no_content_is_in_a_receipt(path: str, *, fails: bool, caplog: pytest.LogCaptureFixture) -> None:
    """No query, text, title, tag, actor, session or message of an error, whichever way the call goes."""
    parts = Parts()
    with opened(parts, embedder="one") as ctx:
        ctx.put(
            [
                Item(scope_id=S, family="memory", artifact_id=f"n{n}", text=f"walrus CANARY{n} {'x ' * 3000 * n}",
                     title="CANARY title", abstract="CANARY abstract", overview="CANARY overview",
                     tags=("CANARY-tag",), category="CANARY-category", thread="CANARY-thread", origin="CANARY-origin",
                     meta={"CANARY": "CANARY"})
                for n in range(3)
            ]
        )  # fmt: skip
        parts.embedder.fails = fails
        caplog.clear()
        for _ in range(2):
            found = pack(ctx, "walrus CANARY", include_receipt=True, **_PATHS[path])
            form = told(found)

    assert not re.search("canary", json.dumps(form) + caplog.text, re.IGNORECASE)
    assert "powercontext.prepared-context-receipt" not in found.rendered + json.dumps(wire.to_json(found)["entries"])
    assert any(each["fallback_reason"] == "inference_unavailable" for each in form["searches"]) is fails


# --- explanations ---


def explained(ctx: powerctx.Context, query: str = "walrus", **parameters: Any) -> Explanation:
    """Return the explanation of a search, checked."""
    request = SearchRequest(query=query, **{"scope_id": S, "mode": "context", **parameters})
    explanation = ctx.explain(request)
    check(explanation)
    return explanation


def check(explanation: Explanation) -> None:
    """Check that the candidates agree with the pack, the receipt and the counts."""
    response, receipt = explanation.response, explanation.receipt
    assert isinstance(response, ContextPack)
    assert receipt is not None
    delivered = {each.address: each for each in explanation.candidates if each.fate in DELIVERED}
    assert delivered.keys() == set(response.selected)
    assert [delivered[entry.address].detail for entry in response.entries] == [each.detail for each in response.entries]
    told = Counter[str]()
    for group in receipt.omitted:
        if group.reason not in ("not_retrieved", "late"):
            told[group.reason] += group.count
    left = Counter(each.fate for each in explanation.candidates if each.fate not in (*DELIVERED, "ceiling", "filtered"))
    assert left == told
    ranks = [each.rank for each in explanation.candidates if each.rank is not None]
    assert ranks == list(range(1, response.stats.candidates + 1))
    assert len(explanation.candidates) == sum(pool.retrieved for pool in explanation.rounds[0].pools)
    json.dumps(wire.to_json(explanation), allow_nan=False)
    drawn = page(explanation)
    assert "What the model gets" in drawn or not response.entries


def fates(explanation: Explanation) -> dict[str, str]:
    """Return artifact id -> fate."""
    return {each.address.artifact_id: each.fate for each in explanation.candidates}


def test_every_candidate_has_a_fate(ctx: powerctx.Context) -> None:
    """The way of each from its pool to the pack, with the threshold that it met, and the tier at which it is shown."""
    ctx.put([*notes(6), note("same", "Walrus note 0: tide table 0 was read."), note("long", LONG),
             note("weak", "zebra zebra walrus"), note("other", "nothing")])  # fmt: skip
    uri = f"powerctx://{S.replace(':', '%3A')}/memory/e03"
    explanation = explained(ctx, "walrus tide table", max_tokens=120, exclude_uris=[uri], score_threshold=0.5)
    found = fates(explanation)

    assert dict(explanation.thresholds) == {"score_threshold": 0.5}
    assert found["e03"] == "excluded"
    assert found["weak"] == "below_threshold"
    assert "duplicate" in (found["same"], found["e00"])
    assert {"delivered", "token_budget"} <= set(found.values())
    assert "other" not in found


@pytest.mark.parametrize(
    "more",
    [{}, {"limit": 2}, {"purpose": "coding"}, {"quotas": {"events": 1}}, {"trim": "value"}, {"detail": "abstract"},
     {"max_tokens": 64}, {"score_threshold": 1.0}, {"families": ["skill"]}],
)  # fmt: skip
def test_it_is_the_call_itself(ctx: powerctx.Context, more: dict[str, Any]) -> None:
    """The answer is that of search, to the byte, with a receipt of its own only when it was asked for; awaited, too."""
    ctx.put([*notes(6, category="events"), note("long", LONG), note("r", "A walrus book. " * 90, family="resource")])
    request = SearchRequest(query="walrus tide", scope_id=S, mode="context", **more)
    explanation = ctx.explain(request)
    check(explanation)

    assert wire.canonical(explanation.response) == wire.canonical(ctx.search(request))
    assert wire.canonical(asyncio.run(ctx.aexplain(request))) == wire.canonical(explanation)
    asked = attrs.evolve(request, include_receipt=True)
    assert wire.canonical(ctx.explain(asked).response) == wire.canonical(ctx.search(asked))


def test_explaining_leaves_the_session_as_it_is(ctx: powerctx.Context) -> None:
    """It tells what a call would deliver and what is cooled, and the next call delivers just that."""
    ctx.put(notes(5))
    session = {"session_id": "s1", "dedup_turns": 3}
    first = explained(ctx, turn=1, **session)
    assert isinstance(first.response, ContextPack)
    assert first.response.stats.dedup["recorded"] == 0
    assert pack(ctx, turn=2, **session).rendered == first.response.rendered

    assert set(fates(explained(ctx, turn=3, **session)).values()) <= {"cooled", "delivered"}
    assert "cooled" in fates(explained(ctx, turn=3, **session)).values()


def test_lists_are_not_explained(ctx: powerctx.Context) -> None:
    """One sentence says what is."""
    with pytest.raises(InvalidRequest, match="explain takes prepare, and search in mode context") as refused:
        ctx.explain(SearchRequest(query="walrus", scope_id=S))
    assert refused.value.field == "mode"
    with pytest.raises(InvalidRequest, match="use one form"):
        ctx.explain(SearchRequest(query="walrus", scope_id=S, mode="context"), max_tokens=100)


def test_the_page_of_a_search(ctx: powerctx.Context) -> None:
    """It shows the tiers, the threshold and what was left out, and holds no stored markup."""
    ctx.put([*notes(12), note("x", "A walrus <script>alert(1)</script>", title="<b>bold</b>")])
    explanation = explained(ctx, "walrus", max_tokens=200, purpose="coding", score_threshold=0.2)
    drawn = page(explanation)

    for part in ("least match", "0.2", "coding", "no room in the budget of tokens", "flat-xml"):
        assert part in drawn, part
    assert "<script>" not in drawn
    assert "<b>bold" not in drawn
