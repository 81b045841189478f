"""Receipts of real calls: what is asked for, what is told, what is never told, and what it costs."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import jsonschema
import pytest
import sqlalchemy as sa

import powerctx_core as powerctx
from powerctx_core import (
    Address,
    AdmissionSpec,
    EmbedderSpec,
    EmbeddingProfile,
    FamilySpec,
    InvalidRequest,
    Item,
    PlanInvariantError,
    PluginError,
    RendererSpec,
    SinkSpec,
    hookimpl,
    wire,
)
from powerctx_core.account.telling import receipt_of
from powerctx_core.families import StoredFamily
from powerctx_core.recall.admission import FloorAdmission
from powerctx_core.recall.policy import COMPATIBLE

SCHEMAS = Path(__file__).resolve().parents[2] / "docs" / "schemas"
QUERY = "alpha beta gamma delta"
THIN = ["alpha beta one", *(f"{word} alone" for word in ("alpha", "beta", "gamma", "delta"))]


def items(*texts: str, scope: str = "s", family: str = "memory", **more: Any) -> list[Item]:
    """Make one item a text."""
    return [Item(scope_id=scope, family=family, artifact_id=f"n{n}", text=text, **more) for n, text in enumerate(texts)]


class Acting:
    """The stored family, doing something before it answers, and changing what it answers."""

    def __init__(self, spec: FamilySpec, act: Callable[[Any, Any], object], change: Callable[[Any], Any]) -> None:
        self._stored, self._act, self._change = StoredFamily(spec), act, change

    def retrieve(self, request: Any, call: Any) -> Any:
        """Act, retrieve, change."""
        self._act(request, call)
        return self._change(self._stored.retrieve(request, call))


class Embedder:
    """Gives one vector for everything, or does what it is told."""

    profile = EmbeddingProfile(fingerprint="one", dimensions=2, languages=("en",), noise=0.1, match=0.9)

    def __init__(self, act: Callable[[Any], object]) -> None:
        self._act = act
        self.asked = 0

    def embed(self, request: Any) -> Sequence[bytes]:
        """Count, act, embed."""
        if request.purpose == "query":
            self.asked += 1
            self._act(request)
        return [struct.pack("<2f", 1.0, 0.0) for _ in request.texts]


@attrs.frozen
class Keyed:
    """Settings with a secret."""

    api_key: str = ""


@attrs.define
class Parts:
    """A plugin: the family ``notes``, an embedder, a renderer, a sink, each as a test wants it."""

    act: Callable[[Any, Any], object] = lambda request, call: None
    change: Callable[[Any], Any] = lambda pool: pool
    embed: Callable[[Any], object] | None = None
    rule: type = FloorAdmission
    render: type | None = None
    family: FamilySpec = attrs.field(factory=lambda: FamilySpec(name="notes", factory="x:y", settings=Keyed))
    embedder: Embedder = attrs.field(init=False)
    seen: list[Any] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.embedder = Embedder(self.embed or (lambda request: None))

    @hookimpl
    def powerctx_families(self) -> Iterator[FamilySpec]:
        """Offer the family."""
        make = lambda spec, settings: Acting(spec, self.act, self.change)  # noqa: E731 - short
        yield attrs.evolve(self.family, factory=make, admission="own")

    @hookimpl
    def powerctx_admissions(self) -> Iterator[AdmissionSpec]:
        """Offer the rule."""
        yield AdmissionSpec(name="own", factory=self.rule)

    @hookimpl
    def powerctx_embedders(self) -> Iterator[EmbedderSpec]:
        """Offer the embedder."""
        yield EmbedderSpec(name="one", factory=lambda settings: self.embedder)

    @hookimpl
    def powerctx_renderers(self) -> Iterator[RendererSpec]:
        """Offer the renderer."""
        if self.render is not None:
            yield RendererSpec(name="own", factory=self.render)

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
    """A store in memory, with some notes in two scopes."""
    with opened() as context:
        context.put(items("SQLite needs no server.", "SQLite backups are copies. " * 200, "Tea is green."))
        context.put(items("SQLite elsewhere, too.", scope="t"))
        yield context


def receipt(prepared: Any) -> dict[str, Any]:
    """Return the JSON of a receipt, checked against its schema and the answer it is of."""
    assert prepared.receipt is not None
    form: dict[str, Any] = wire.to_json(prepared.receipt)
    version = form["schema"][-2:]
    schema = json.loads((SCHEMAS / f"receipt-{version}.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker()).validate(form)
    content = prepared.content
    expected = None if content is None else "sha256:" + hashlib.sha256(content.encode()).hexdigest()
    assert form["content_digest"] == expected
    assert form["used_bytes" if version == "v1" else "content_bytes"] == prepared.content_bytes
    assert len(form["selected"]) == len(prepared.selected)
    assert [item["rendered_bytes"] for item in form["selected"]] == [
        item.rendered_bytes for item in prepared.diagnostics.items
    ]
    assert wire.structure(type(prepared.receipt), json.loads(json.dumps(form))) == prepared.receipt
    return form


def both(ctx: powerctx.Context, query: str, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return both receipts of a call."""
    asked = {"scope_id": "s", "include_receipt": True, **more}
    return receipt(ctx.prepare(query, **asked)), receipt(ctx.prepare(query, **asked, receipt_version=2))


def searches(form: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return the searches of a receipt of either version as rows."""
    if "retrieval" in form:
        return [tuple(group.values()) for group in form["retrieval"]["searches"]]
    return [(each["round"], form["families"][each["family"]], *list(each.values())[2:]) for each in form["searches"]]


def omitted(form: dict[str, Any]) -> dict[tuple[str, str], int]:
    """Return what a receipt of either version says was left out."""
    families = form.get("families")
    return {
        (each["family"] if families is None else families[each["family"]], each["reason"]): each["count"]
        for each in form["omitted"]
    }


# --- asked for, or not ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["SQLite", "zebra"])
@pytest.mark.parametrize("more", [{}, {"include_receipt": False}, {"include_receipt": None}])
def test_without_being_asked_there_are_four_keys(ctx: powerctx.Context, query: str, more: dict[str, Any]) -> None:
    """Absent, false and null are the same, and the answer has no fifth key; so it is from JSON, too."""
    request = wire.structure(powerctx.PrepareRequest, {"query": query, "scope_id": "s", **more})

    for prepared in (ctx.prepare(request), ctx.prepare(query, scope_id="s", **more)):
        assert list(wire.to_json(prepared)) == ["schema", "status", "content", "content_bytes"]
        assert prepared.receipt is None


@pytest.mark.parametrize("query", ["SQLite", "zebra"])
@pytest.mark.parametrize("version", [1, 2])
def test_with_a_receipt_there_is_one_more_key(ctx: powerctx.Context, query: str, version: int) -> None:
    """Empty or not; everything else is the same to the byte."""
    plain = wire.to_json(ctx.prepare(query, scope_id="s"))
    told = wire.to_json(ctx.prepare(query, scope_id="s", include_receipt=True, receipt_version=version))

    assert list(told) == [*plain, "receipt"]
    assert {name: told[name] for name in plain} == plain
    assert told["receipt"]["schema"] == f"powercontext.prepared-context-receipt.v{version}"


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"include_receipt": "yes"}, "include_receipt"),
        ({"include_receipt": 1}, "include_receipt"),
        ({"receipt_version": 3}, "receipt_version"),
        ({"receipt_version": None}, "receipt_version"),
        ({"receipt_version": "2"}, "receipt_version"),
    ],
)
def test_bad_values_are_refused(more: dict[str, Any], field: str) -> None:
    """In one sentence that names the field."""
    with pytest.raises(InvalidRequest, match=field) as refused:
        powerctx.PrepareRequest(query="q", scope_id="s", **more)
    assert refused.value.field == field


# --- what is told --------------------------------------------------------------------------------------------------


def test_what_was_delivered_and_how(ctx: powerctx.Context) -> None:
    """Identities in the order of delivery, cuts, budgets, and the retrievals that ran."""
    first, second = both(ctx, "SQLite", references=["t"], families=["memory"])
    addresses = [Address.from_receipt(item["artifact_address"]) for item in first["selected"]]

    assert addresses == list(ctx.prepare("SQLite", scope_id="s", references=["t"], families=["memory"]).selected)
    assert {(each.scope_id, each.artifact_id) for each in addresses} == {("s", "n0"), ("s", "n1"), ("t", "n0")}
    assert [item["truncated"] for item in first["selected"]].count(True) == 1
    assert first["truncated"] is second["truncated"] is True
    assert first["requested_max_bytes"] == 8000
    assert searches(first) == [(0, "atomic-memory", "fts", "completed", "none", 2)]
    assert first["retrieval"]["rounds"] == [{"round": 0, "outcome": "completed", "retained": True}]
    assert not first["non_deterministic"]
    assert {stage["stage"] for stage in first["stages"]} == {"retrieve", "assess", "plan"}
    assert second["budgets"][0] == {"unit": "items", "requested": 8, "used": 3}
    assert second["budgets"][1]["used"] == second["content_bytes"]


def test_zero_hits_are_not_the_same_as_not_asked(ctx: powerctx.Context) -> None:
    """A search that found nothing ran, in a mode; a family that was not asked for is not there at all."""
    first, _ = both(ctx, "zebra", families=["memory"])

    assert searches(first) == [(0, "atomic-memory", "fts", "completed", "none", 1)]
    assert omitted(first) == {("atomic-memory", "not_retrieved"): 1}
    everything, _ = both(ctx, "SQLite")
    assert omitted(everything) == {("experience", "not_retrieved"): 1, ("topic-memory", "not_retrieved"): 1}


@pytest.mark.parametrize("profiles", [0, 8], ids=["18", "26"])
def test_eighteen_and_twenty_six_items(profiles: int) -> None:
    """Each section has its entries, and all of them stand in the receipt of version 1."""
    scopes = ["s", *(f"r{n}" for n in range(7))]
    with opened(settings={"assembly": {"max_entries": 26}}) as ctx:
        for family in ("memory", "topic-memory", "experience"):
            ctx.put(items(*(f"alpha {n}" for n in range(12)), family=family))
        for scope in scopes[:profiles]:
            ctx.put(items(f"I am {scope}.", family="profile", scope=scope))
        limits = {"memory": 8, "topic-memory": 8, "profile": profiles, "experience": 2}
        sections = [{"family": family, "limit": limit} for family, limit in limits.items() if limit]
        first, _ = both(ctx, "alpha", references=scopes[1:], sections=sections, max_bytes=32768)

    found = [item["artifact_address"]["artifact"]["family"] for item in first["selected"]]
    assert found == (["atomic-memory"] * 8 + ["topic-memory"] * 8 + ["profile"] * profiles + ["experience"] * 2)
    assert sum(omitted(first).values()) == 36 - 18
    assert (0, "profile", "snapshot", "completed", "none", 8) in searches(first) or not profiles


def test_no_section_is_told() -> None:
    """Nothing was asked, nothing ran."""
    with opened() as ctx:
        first, second = both(ctx, "alpha", sections=[])

    assert (first["retrieval"]["rounds"], searches(first), first["omitted"]) == ([], [], [])
    assert second["empty_reason"] == "no_section"


def test_both_reasons_of_size() -> None:
    """Too short to be cut, and not even a cut fits; together they are what effort counts as dropped."""
    with opened() as ctx:
        long = [f"alpha beta {'x' * 300} {n}" for n in range(3)]
        ctx.put(items(*long, *(f"alpha beta {n} short" for n in range(40))))
        prepared = ctx.prepare(QUERY, scope_id="s", gate="v2", max_bytes=512, max_items=64, include_receipt=True)
    found, effort = omitted(receipt(prepared)), prepared.diagnostics.effort

    assert effort is not None
    assert found["atomic-memory", "below_min_bytes"] == effort.dropped_below_min_bytes
    assert found.get(("atomic-memory", "no_fitting_truncation"), 0) == effort.dropped_no_fitting_truncation
    assert effort.dropped_items > 0


def test_a_budget_in_other_units_has_its_own_reason(ctx: powerctx.Context) -> None:
    """Version 1 knows bytes alone; version 2 names what there was too little of."""
    for more, reason in (({"max_tokens": 64}, "token_budget"), ({"max_chars": 128}, "char_budget")):
        prepared = ctx.prepare("SQLite", scope_id="s", include_receipt=True, receipt_version=2, **more)
        form = receipt(prepared)
        budget = form["budgets"][-1]

        assert omitted(form)["memory", reason] > 0
        assert 0 < budget["used"] <= budget["requested"] == next(iter(more.values())) or form["selected"] == []
        assert ctx.prepare("SQLite", scope_id="s", include_receipt=True, **more).receipt is None


def test_why_nothing_is_there() -> None:
    """Each kind of empty answer has its reason."""
    with opened() as ctx:
        ctx.put(items("alpha beta gamma delta epsilon zeta " * 40))
        empty = {
            query: receipt(ctx.prepare(query, scope_id=scope, include_receipt=True, receipt_version=2))["empty_reason"]
            for query, scope in (("alpha", "nowhere"), ("zebra", "s"))
        }

    assert empty == {"alpha": "no_content", "zebra": "no_match"}


def test_what_the_floor_rejects() -> None:
    """Version 2 counts it; in version 1 its family has no candidate."""
    with opened() as ctx:
        ctx.put(items("alpha alone"))
        first, second = both(ctx, QUERY, policy=COMPATIBLE.policy_id, families=["memory"])

    assert omitted(first) == {("atomic-memory", "not_retrieved"): 1}
    assert omitted(second) == {("memory", "below_threshold"): 1, ("memory", "not_retrieved"): 1}
    assert (second["outcome"], second["empty_reason"]) == ("below_threshold", "below_threshold")


def test_rounds_of_the_gate() -> None:
    """A further round admits the same pools anew: it is told as a round, and is no search."""
    with opened() as ctx:
        ctx.put(items(*THIN))
        first, second = both(ctx, QUERY, gate="v2", families=["memory"])

    assert [each["round"] for each in first["retrieval"]["rounds"]] == [0, 1]
    assert searches(first) == [(0, "atomic-memory", "fts", "completed", "none", 1)]
    assert len(first["selected"]) == 5
    assert second["gate_policy"]["policy_id"] == "powercontext.recall-gate.v2"
    assert second["recall_policy"]["policy_digest"] == COMPATIBLE.digest


def test_a_round_that_fails() -> None:
    """It is told as not retained, and what is delivered and left out is of the first round alone."""

    class Failing(FloorAdmission):
        def admit(self, pool: Any, query: Any, floor: Any) -> Any:
            """Fail at a lower floor, once it has been asked for the lowest."""
            if floor.cosine == 0.15:
                raise RuntimeError("no")
            return super().admit(pool, query, floor)

    with opened(Parts(rule=Failing)) as ctx:
        ctx.put(items(*THIN, family="notes"))
        asked = {"scope_id": "s", "families": ["notes"], "include_receipt": True, "receipt_version": 2}
        on = receipt(ctx.prepare(QUERY, gate="v2", **asked))
        off = receipt(ctx.prepare(QUERY, policy=COMPATIBLE.policy_id, **asked))

    assert [tuple(each.values()) for each in on["rounds"]] == [
        (0, "completed", True),
        (1, "expansion_failed", False),
    ]
    assert (on["selected"], on["omitted"], on["searches"]) == (off["selected"], off["omitted"], off["searches"])


@attrs.frozen
class Engine:
    """Admits by itself: what it holds at a floor is what the stored family gives at it; it calls a model each time."""

    stored: StoredFamily

    def search(self, request: Any, floor: Any, call: Any) -> Any:
        """Retrieve, and admit."""
        pool = self.stored.retrieve(request, call)
        ranked = FloorAdmission().admit(pool, request.terms, floor).ranked
        kept = {key for members in ranked.values() for key, _ in members}
        admitted = attrs.evolve(
            pool,
            channels={name: tuple(key for key in keys if key in kept) for name, keys in pool.channels.items()},
            candidates={key: each for key, each in pool.candidates.items() if key in kept},
            neighbours={},
        )
        return powerctx.Searched(pool=admitted, retrieved=len(pool.candidates), embeddings=0, generation_calls=1)


def test_an_engine_that_admits_is_searched_again_in_each_round() -> None:
    """Its rounds are searches, a vector that failed before is not tried again, and a model took part."""

    class Searching(Parts):
        @hookimpl
        def powerctx_families(self) -> Iterator[FamilySpec]:
            """Offer the engine."""
            yield FamilySpec(name="notes", factory=lambda spec, settings: Engine(StoredFamily(spec)))

    with opened(Searching(embed=_fail), embedder="one") as ctx:
        ctx.put(items(*THIN, family="notes"))
        form = receipt(ctx.prepare(QUERY, scope_id="s", families=["notes"], gate="v2", include_receipt=True,
                                   receipt_version=2))  # fmt: skip

    assert searches(form) == [
        (0, "notes", "fts", "completed", "inference_unavailable", 1),
        (1, "notes", "fts", "completed", "reused_fts_fallback", 1),
    ]
    assert len(form["selected"]) == 5
    assert form["non_deterministic"]


def test_split_delivery_is_version_2() -> None:
    """Both parts are in it, and what the list had no room for is toolized."""
    with opened() as ctx:
        ctx.put(items(*(f"alpha {'beta ' * 20} {n}" for n in range(12))))
        ctx.put(items("alpha", family="topic-memory"))
        sections = [{"family": "topic-memory", "limit": 1}, {"family": "memory", "limit": 7}]
        prepared = ctx.prepare("alpha", scope_id="s", delivery="split", max_bytes=900, sections=sections,
                               include_receipt=True, receipt_version=2)  # fmt: skip
        form = receipt(prepared)

    assert [item.get("part", "inject") for item in form["selected"]] == [
        item.part for item in prepared.diagnostics.items
    ]
    assert {item.get("part", "inject") for item in form["selected"]} == {"inject", "tools"}
    assert omitted(form)["memory", "toolized"] > 0
    assert form["split"]


def test_how_vectors_fared() -> None:
    """Hybrid when the vector came; words alone with the kind of failure when not; words alone without an embedder."""

    def fail(request: Any) -> None:
        raise RuntimeError("gone")

    found = {}
    for name, embed in (("well", None), ("failing", fail)):
        with opened(Parts(embed=embed), embedder="one") as ctx:
            ctx.put(items("alpha one"))
            ctx.put(items("alpha two", family="experience"))
            found[name] = searches(both(ctx, "alpha", families=["memory", "experience"])[0])
    with opened() as ctx:
        found["without"] = searches(both(ctx, "alpha", families=["memory"])[0])

    experience = (0, "experience", "fts", "completed", "none", 1)
    assert found["well"] == [(0, "atomic-memory", "hybrid", "completed", "none", 1), experience]
    assert found["failing"] == [(0, "atomic-memory", "fts", "completed", "inference_unavailable", 1), experience]
    assert found["without"] == [(0, "atomic-memory", "fts", "completed", "none", 1)]


def test_an_embedder_that_is_slow(gate: Any) -> None:
    """It is a timeout of inference, and no lateness of the call."""
    with opened(
        Parts(embed=lambda _: gate.wait(30)), embedder="one", settings={"retrieval": {"embedding_timeout_s": 0.05}}
    ) as ctx:
        ctx.put(items("alpha one"))
        first, _ = both(ctx, "alpha", families=["memory"])

    assert searches(first) == [(0, "atomic-memory", "fts", "completed", "inference_timeout", 1)]


def test_modes_of_one_round_differ_by_scope() -> None:
    """What ran in one scope is not told of another."""
    change = lambda pool: attrs.evolve(pool, mode="fts" if pool.scope_id == "s" else "hybrid")  # noqa: E731 - short
    with opened(Parts(change=change)) as ctx:
        ctx.put(items("alpha one", family="notes"))
        form = receipt(ctx.prepare("alpha", scope_id="s", references=["t"], families=["notes"], include_receipt=True,
                                   receipt_version=2))  # fmt: skip

    assert [row[2] for row in searches(form)] == ["fts", "hybrid"]


def test_a_family_that_is_late(gate: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Version 2 says so; version 1 cannot, and the log names version 2."""
    with opened(Parts(act=lambda request, call: gate.wait(30))) as ctx:
        ctx.put(items("alpha one"))
        asked = {"scope_id": "s", "families": ["memory", "notes"], "deadline_ms": 300, "include_receipt": True}
        form = receipt(ctx.prepare("alpha", **asked, receipt_version=2))
        first = ctx.prepare("alpha", **asked)

    assert (0, "notes", "none", "late", "none", 1) in searches(form)
    assert omitted(form)["notes", "late"] == 1
    assert form["partial"]
    assert (first.receipt, first.status) == (None, "ready")
    (record,) = [each for each in caplog.records if "no receipt" in each.getMessage()]
    assert "ask for version 2" in record.getMessage()
    assert first.diagnostics.request_id in record.getMessage()


def test_a_family_that_fails() -> None:
    """It is told as failed, and as one that gave nothing."""

    def fail(request: Any, call: Any) -> None:
        raise RuntimeError("no")

    with opened(Parts(act=fail)) as ctx:
        ctx.put(items("alpha one"))
        form = receipt(ctx.prepare("alpha", scope_id="s", families=["memory", "notes"], on_family_error="degrade",
                                   include_receipt=True, receipt_version=2))  # fmt: skip

    assert (0, "notes", "none", "failed", "none", 1) in searches(form)
    assert omitted(form) == {("notes", "not_retrieved"): 1}


def test_code_is_told_by_its_snippet() -> None:
    """A family of code gives the identity of a snippet, and version 1 tells it so."""
    evidence = {"fingerprint": "f" * 40, "path": "src/a.py", "file_sha256": "b" * 64, "start_line": 3, "end_line": 9,
                "snippet_sha256": "c" * 64}  # fmt: skip
    spec = FamilySpec(name="code", factory="x:y", identity=tuple(evidence), vectors=False)

    def change(pool: Any) -> Any:
        candidates = {key: attrs.evolve(each, evidence=evidence) for key, each in pool.candidates.items()}
        return attrs.evolve(pool, candidates=candidates)

    with opened(Parts(family=spec, change=change)) as ctx:
        ctx.put(items("alpha = 1", family="code"))
        ctx.put(items("alpha words"))
        first, second = both(ctx, "alpha", sections=[{"family": "memory", "limit": 2}, {"family": "code", "limit": 2}])

    assert first["selected"][1]["code_evidence"] == {"scope_id": "s", **evidence}
    assert second["selected"][1]["evidence"] == evidence


def test_a_long_query_of_han(ctx: powerctx.Context) -> None:
    """24 576 bytes of query are digested as they are."""
    query = "资" * 8191 + "料"
    first, _ = both(ctx, query)

    assert first["query_digest"] == "sha256:" + hashlib.sha256(query.encode()).hexdigest()


def test_the_exact_revision_stays_readable(ctx: powerctx.Context) -> None:
    """What a receipt names can be read after the item was changed and retired, and leads to no other revision."""
    first, _ = both(ctx, "SQLite server", families=["memory"])
    address = Address.from_receipt(first["selected"][0]["artifact_address"])
    ctx.put([Item(scope_id="s", artifact_id=address.artifact_id, text="Something else now.")])
    ctx.retire(address)

    found = ctx.get(address)
    assert (found.address, found.item.text) == (address, "SQLite needs no server.")


def test_sinks_see_what_was_asked_for() -> None:
    """A receipt goes to the sinks with the diagnostics, when somebody asked for it, and only then."""
    parts = Parts()
    with opened(parts, settings={"sinks": ["seen"]}) as ctx:
        ctx.put(items("alpha one"))
        ctx.prepare("alpha", scope_id="s")
        ctx.explain("alpha", scope_id="s")
        prepared = ctx.prepare("alpha", scope_id="s", include_receipt=True)

    assert [type(event).__name__ for event in parts.seen] == ["Diagnostics", "Diagnostics", "Diagnostics", "ReceiptV1"]
    assert parts.seen[-1] is prepared.receipt


# --- what it costs -------------------------------------------------------------------------------------------------


def test_asking_costs_no_statement_and_no_embedding(tmp_path: Path) -> None:
    """With and without a receipt, and with an explanation, the store and the model are asked the same."""
    parts, statements = Parts(), []
    note = lambda *given: statements.append(given[2])  # noqa: E731 - an event needs its name to be taken off again
    with opened(parts, f"sqlite:///{tmp_path / 'x.db'}", embedder="one") as ctx:
        ctx.put(items(*THIN))
        ctx.prepare(QUERY, scope_id="s")
        sa.event.listen(sa.Engine, "before_cursor_execute", note)
        try:
            counts = []
            for call in (
                lambda: ctx.prepare(QUERY, scope_id="s", gate="v2"),
                lambda: ctx.prepare(QUERY, scope_id="s", gate="v2", include_receipt=True),
                lambda: ctx.prepare(QUERY, scope_id="s", gate="v2", include_receipt=True, receipt_version=2),
                lambda: ctx.explain(QUERY, scope_id="s", gate="v2"),
            ):
                statements.clear()
                before = parts.embedder.asked
                call()
                counts.append((len(statements), parts.embedder.asked - before))
        finally:
            sa.event.remove(sa.Engine, "before_cursor_execute", note)

    assert counts[0][0] > 0
    assert counts == [counts[0]] * 4
    assert counts[0][1] == 1


def test_nothing_is_timed_unless_it_is_asked_for(ctx: powerctx.Context) -> None:
    """A call without a receipt reads no clock for its stages."""
    from powerctx_core.recall.stages import Stages

    idle, wanted = Stages(), Stages(wanted=True)
    for stages in (idle, wanted):
        with stages("plan"):
            pass

    assert idle.runs == ()
    assert [stage for stage, _ in wanted.runs] == ["plan"]


# --- when it cannot be made ----------------------------------------------------------------------------------------


class Broken:
    """What is known of a call, when telling it fails."""

    def __init__(self, answer: powerctx.PreparedContext) -> None:
        self.answer = answer

    def run(self) -> Any:
        """Fail with content in the message."""
        raise RuntimeError("CANARY in the message")


@pytest.mark.parametrize("version", [1, 2])
def test_whatever_fails_loses_no_answer(ctx: powerctx.Context, version: int, caplog: pytest.LogCaptureFixture) -> None:
    """There is no receipt then, and one line in the log without content."""
    answer = ctx.prepare("SQLite", scope_id="s")

    assert receipt_of(Broken(answer), version) is None  # type: ignore[arg-type]  # stands in for it
    (record,) = caplog.records
    assert "RuntimeError" in record.getMessage()
    assert "CANARY" not in record.getMessage() + str(record.exc_info)


def test_a_family_outside_the_five(caplog: pytest.LogCaptureFixture) -> None:
    """Version 1 is left out whole; the answer is what it would be without."""
    with opened(Parts()) as ctx:
        ctx.put(items("alpha one", family="notes"))
        asked = {"scope_id": "s", "families": ["notes"]}
        plain, told = ctx.prepare("alpha", **asked), ctx.prepare("alpha", **asked, include_receipt=True)

    assert wire.to_json(plain) == wire.to_json(told)
    assert "knows no family notes; ask for version 2" in caplog.text


def test_identities_that_are_too_long_even_for_version_2(caplog: pytest.LogCaptureFixture) -> None:
    """A family may declare identity fields of any length; the answer stands without a receipt."""
    spec = FamilySpec(name="notes", factory="x:y", identity=("line",))
    with opened(Parts(family=spec, change=_too_long)) as ctx:
        ctx.put(items("alpha one", family="notes"))
        prepared = ctx.prepare("alpha", scope_id="s", families=["notes"], max_tokens=32000, include_receipt=True,
                               receipt_version=2)  # fmt: skip

    assert (prepared.status, prepared.receipt) == ("ready", None)
    assert "32768 are the most" in caplog.text


# --- what is never told --------------------------------------------------------------------------------------------

CANARY = re.compile("CANARY", re.IGNORECASE)
SECRET = "sk-CANARY-0123456789"


def _canaries(more: str = "") -> list[Item]:
    """Return items with a canary in everything that is content."""
    return [
        Item(
            scope_id="s", family=family, artifact_id=f"n{n}", text=f"alpha CANARY{n} {more}", title="CANARY title",
            abstract="CANARY abstract", overview="CANARY overview", tags=("CANARY-tag",), category="CANARY-category",
            thread="CANARY-thread", origin="CANARY-origin", meta={"CANARY": "CANARY"},
        )
        for family in ("memory", "notes")
        for n in range(3)
    ]  # fmt: skip


class Unreadable:
    """A renderer that fails and says too much."""

    def __init__(self, settings: Any) -> None:
        del settings

    def open(self, selection: Any) -> str:
        """Fail."""
        raise RuntimeError("CANARY from the renderer")

    entry = escape = close = open


def _fail(*_: Any) -> None:
    raise RuntimeError(f"CANARY from a part, {SECRET}")


def _too_long(pool: Any) -> Any:
    evidence = {"line": "CANARY" * 6000}
    return attrs.evolve(
        pool, candidates={key: attrs.evolve(each, evidence=evidence) for key, each in pool.candidates.items()}
    )


_PATHS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "well": ({}, {}),
    "gate": ({}, {"gate": "v2"}),
    "split": ({}, {"delivery": "split"}),
    "tight": ({}, {"max_bytes": 512}),
    "nothing": ({}, {"families": ["experience"]}),
    "embedder": ({"embed": _fail}, {}),
    "family": ({"act": _fail}, {"on_family_error": "degrade"}),
    "oversize": (
        {"change": _too_long, "family": FamilySpec(name="notes", factory="x:y", identity=("line",))},
        {"max_tokens": 32000},
    ),
    "family raises": ({"act": _fail}, {}),
    "renderer raises": ({"render": Unreadable}, {"renderer": "own"}),
}


@pytest.mark.parametrize("path", _PATHS)
@pytest.mark.parametrize("version", [1, 2])
def test_no_content_anywhere(path: str, version: int, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Query, bodies, secrets and places are in no receipt, effort, diagnostics or log, however a call ends."""
    caplog.set_level(logging.DEBUG)
    given, more = _PATHS[path]
    parts = Parts(**given)
    settings = {"parts": {"notes": {"api_key": SECRET}}} if parts.family.settings is Keyed else {}
    folder = tmp_path / "CANARY-folder"
    folder.mkdir()
    with opened(parts, f"sqlite:///{folder / 'x.db'}", embedder="one", settings=settings) as ctx:
        ctx.put(_canaries())
        caplog.clear()
        asked = {"scope_id": "s", "families": ["memory", "notes"], "include_receipt": True, **more}
        if path.endswith("raises"):
            with pytest.raises((PluginError, PlanInvariantError)):
                ctx.prepare("alpha CANARY", **asked, receipt_version=version)
            told = ""
        else:
            prepared = ctx.prepare("alpha CANARY", **asked, receipt_version=version)
            told = json.dumps(None if prepared.receipt is None else wire.to_json(prepared.receipt))
            told += repr(prepared.receipt) + repr(prepared.diagnostics) + repr(prepared.diagnostics.effort)

    logged = "".join(f"{record.getMessage()}{record.exc_info}" for record in caplog.records)
    if path != "family":  # what a family says of its failure goes to the log of whoever asked to go on without it
        assert not CANARY.search(logged)
    assert SECRET not in logged
    assert not CANARY.search(told)
    assert str(tmp_path) not in told + logged
