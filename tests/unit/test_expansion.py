"""The gate in a call: what it adds to a thin answer, what it never does, and what is told of it."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings, strategies as st

import powerctx_core as powerctx
from powerctx_core import AdmissionSpec, FamilySpec, InvalidRequest, Item, RendererSpec, hookimpl
from powerctx_core.recall.admission import FloorAdmission
from powerctx_core.recall.gate import REASONS
from powerctx_core.recall.policy import COMPATIBLE
from powerctx_core.render.prepared import Prepared

PATIENT = {"retrieval": {"embedding_timeout_s": 60.0}}
"""A busy machine is no reason to go on without vectors."""
QUERY = "alpha beta gamma delta"


def items(*texts: str, scope: str = "s", family: str = "memory") -> list[Item]:
    """Make one item a text."""
    return [
        Item(scope_id=scope, family=family, artifact_id=f"{scope}{number}", text=text)
        for number, text in enumerate(texts)
    ]


THIN = items(*["alpha beta one"], *[f"{word} alone {n}" for n, word in enumerate(("alpha", "beta", "gamma", "delta"))])


@pytest.fixture
def ctx() -> Iterator[powerctx.Context]:
    """A store in memory."""
    with powerctx.open("memory://", plugins=()) as context:
        yield context


def ids(prepared: powerctx.PreparedContext) -> set[str]:
    """Return the artifact ids of what was delivered."""
    return {address.artifact_id for address in prepared.selected}


def test_a_thin_answer_becomes_a_full_one(ctx: powerctx.Context) -> None:
    """One of five is admitted, which is thin; the first further round adds the other four within the same budget."""
    ctx.put(THIN)
    off = ctx.prepare(QUERY, scope_id="s", policy=COMPATIBLE.policy_id)
    on = ctx.prepare(QUERY, scope_id="s", gate="v2")
    effort = on.diagnostics.effort

    assert {"s0"} == ids(off)
    assert off.diagnostics.effort is None
    assert {"s0", "s1", "s2", "s3", "s4"} == ids(on)
    assert effort is not None
    assert ("admission",) == effort.expansion_actions
    assert (1, 5) == effort.candidates_by_round
    assert "sufficient" == effort.reason
    assert effort.sufficient
    assert 5 == on.diagnostics.counts[0].admitted == effort.admission_by_family[0].admitted
    assert ("powercontext.recall-gate.v2", 2) == (effort.policy_id, effort.rounds)
    assert COMPATIBLE.policy_id == on.diagnostics.policy
    assert on.content_bytes <= 8000


@pytest.mark.parametrize("policy", ["powercontext.recall.v2", "powerctx.recall.v1"])
def test_a_sufficient_answer_is_the_same_to_the_byte(policy: str) -> None:
    """Nothing is added, and nothing is planned twice: the renderer is called as often as without the gate."""
    calls: list[str] = []

    class Counting(Prepared):
        def open(self, selection: Any) -> str:
            calls.append("open")
            return super().open(selection)

        def entry(self, *given: Any, **more: Any) -> tuple[str, str]:
            calls.append("entry")
            return super().entry(*given, **more)

    @hookimpl
    def powerctx_renderers() -> list[RendererSpec]:
        return [RendererSpec(name="counting", factory=lambda settings: Counting())]

    plugin = SimpleNamespace(__name__="counting", powerctx_renderers=powerctx_renderers)
    with powerctx.open("memory://", plugins=(), extra=[plugin]) as context:
        context.put(items("alpha beta gamma delta one", "alpha beta gamma two", "unrelated words"))
        asked = {"scope_id": "s", "policy": policy, "renderer": "counting"}
        off = context.prepare(QUERY, **asked)
        made, calls[:] = list(calls), []
        on = context.prepare(QUERY, **asked, gate="v2")

    assert off.content == on.content
    assert ("sufficient", ()) == (on.diagnostics.effort.reason, on.diagnostics.effort.expansion_actions)
    assert made == calls
    assert "entry" in calls


def test_nothing_stored_and_nothing_that_matches_are_told_apart(ctx: powerctx.Context) -> None:
    """An empty scope has no content; content that matches nothing is thin, with nothing to recover."""
    empty = ctx.prepare(QUERY, scope_id="s", gate="v2")
    ctx.put(items("unrelated words"))
    unmatched = ctx.prepare(QUERY, scope_id="s", gate="v2")

    assert ("no_content", "no-content") == (empty.diagnostics.outcome, empty.diagnostics.effort.reason)
    assert ("no_match", "thin-candidates") == (unmatched.diagnostics.outcome, unmatched.diagnostics.effort.reason)
    assert 1 == empty.diagnostics.effort.rounds == unmatched.diagnostics.effort.rounds


def test_a_full_budget_is_no_reason_to_look_further(ctx: powerctx.Context) -> None:
    """When something is cut for the budget and nothing more would fit, the answer is as good as it gets."""
    ctx.put(items("alpha beta " + "long " * 200, *[f"gamma {'x' * 300} {n}" for n in range(5)]))
    found = ctx.prepare(QUERY, scope_id="s", gate="v2", max_bytes=512)

    assert "budget-floor" == found.diagnostics.effort.reason
    assert 1 == found.diagnostics.effort.truncated_items
    assert found.content_bytes <= 512


def test_room_for_a_short_item_is_no_full_budget(ctx: powerctx.Context) -> None:
    """What a lower floor admits and still fits is worth a round, although something was left out."""
    ctx.put(items("alpha beta " + "x" * 5000, "gamma", "delta"))
    found = ctx.prepare(QUERY, scope_id="s", gate="v2", max_bytes=2400)

    assert "budget-floor" != found.diagnostics.effort.reason
    assert {"s0", "s1", "s2"} == ids(found)


def test_a_round_that_adds_nothing_is_counted_flat(ctx: powerctx.Context) -> None:
    """The vector floor of a later round may admit what that of this one does not: it is committed flat."""

    class Late(FloorAdmission):
        def admit(self, pool: Any, query: Any, floor: Any) -> Any:
            """Admit more at the last floor alone."""
            return super().admit(pool, query, COMPATIBLE.floor if floor.cosine != 0.10 else floor)

    with _with_rule(Late) as context:
        context.put(items("alpha beta one", "gamma two", family="notes"))
        effort = context.prepare(QUERY, scope_id="s", gate="v2", families=["notes"]).diagnostics.effort

    assert ("admission", "policy-floor") == effort.expansion_actions
    assert (1, 1, 2) == effort.candidates_by_round


def _with_rule(rule: type, **more: Any) -> powerctx.Context:
    """Open a store in memory whose family ``notes`` has an admission rule of its own."""

    @hookimpl
    def powerctx_families() -> list[FamilySpec]:
        return [
            FamilySpec(name="notes", factory="powerctx_core.families:StoredFamily", admission="own"),
        ]

    @hookimpl
    def powerctx_admissions() -> list[AdmissionSpec]:
        return [AdmissionSpec(name="own", factory=rule)]

    plugin = SimpleNamespace(
        __name__="own", powerctx_families=powerctx_families, powerctx_admissions=powerctx_admissions
    )
    return powerctx.open("memory://", plugins=(), extra=[plugin], **more)


@pytest.mark.parametrize("failing", [0.15, 0.10])
def test_a_round_that_fails_is_dropped_whole(failing: float) -> None:
    """The gate never turns an answer into a failure: what was committed before is delivered, and the reason says so."""

    class Failing(FloorAdmission):
        def admit(self, pool: Any, query: Any, floor: Any) -> Any:
            """Fail at one floor."""
            if floor.cosine == failing:
                raise RuntimeError("no")
            return super().admit(pool, query, floor)

    with _with_rule(Failing) as context:
        context.put(items("alpha beta one", "gamma two", family="notes"))
        off = context.prepare(QUERY, scope_id="s", policy=COMPATIBLE.policy_id, families=["notes"])
        on = context.prepare(QUERY, scope_id="s", gate="v2", families=["notes"])

    assert off.content == on.content
    assert "ready" == on.status
    assert ("expansion-failed", 1, False) == (
        on.diagnostics.effort.reason,
        on.diagnostics.effort.rounds,
        on.diagnostics.effort.partial,
    )
    assert on.diagnostics.effort.signals is not None


def test_expansion_asks_nobody(tmp_path: Any) -> None:
    """A committed expansion costs no statement beside those of the call without a gate, trimmed by value or not."""
    with powerctx.open(f"sqlite:///{tmp_path / 'x.db'}", plugins=["sqlite"]) as context:
        context.put(THIN)
        counts = {}
        statements: list[str] = []
        sa.event.listen(
            sa.Engine,
            "before_cursor_execute",
            note := lambda *given: statements.append(given[2]),  # type: ignore[func-returns-value]  # append returns nothing, and nobody asks
        )
        try:
            for trim in ("rank", "value"):
                for gate in ("off", "v2"):
                    statements.clear()
                    context.prepare(QUERY, scope_id="s", gate=gate, policy=COMPATIBLE.policy_id, trim=trim)
                    counts[trim, gate] = len(statements)
        finally:
            sa.event.remove(sa.Engine, "before_cursor_execute", note)

    assert counts["rank", "off"] > 0
    assert counts["rank", "off"] == counts["rank", "v2"]
    assert counts["value", "off"] == counts["value", "v2"]


def test_an_unknown_gate() -> None:
    """It is named with those that are installed."""
    with powerctx.open("memory://", plugins=()) as context, pytest.raises(InvalidRequest) as caught:
        context.prepare(QUERY, scope_id="s", gate="v9")

    assert "gate 'v9' is not installed; installed are off, powercontext.recall-gate.v2, v2." == str(caught.value)
    assert "gate" == caught.value.field


_TEXTS = st.lists(
    st.lists(st.sampled_from(["alpha", "beta", "gamma", "delta", "omega", "字"]), min_size=1, max_size=6).map(" ".join),
    max_size=10,
)


@settings(max_examples=60)
@given(_TEXTS, _TEXTS, st.sampled_from([None, "powerctx.recall.v1"]), st.integers(512, 900))
def test_laws(here: list[str], there: list[str], policy: str | None, size: int) -> None:
    """Off and sufficient are one to the byte; never over the budget; nothing lost; the numbers of effort agree."""
    with powerctx.open("memory://", plugins=()) as context:
        context.put([*items(*here), *items(*there, scope="r")])
        asked = {"scope_id": "s", "references": ["r"], "max_bytes": size}
        off = context.prepare(QUERY, **asked, policy=policy or COMPATIBLE.policy_id)
        on = context.prepare(QUERY, **asked, policy=policy, gate="v2")
    effort = on.diagnostics.effort

    assert effort.reason in REASONS
    assert on.content_bytes <= size
    assert effort.rounds == 1 + len(effort.expansion_actions) == len(effort.candidates_by_round)
    assert sorted(effort.candidates_by_round) == list(effort.candidates_by_round)
    assert effort.expansion_actions == ("admission", "policy-floor")[: len(effort.expansion_actions)]
    assert effort.dropped_items == effort.dropped_below_min_bytes + effort.dropped_no_fitting_truncation
    assert on.status in {off.status, "ready"}
    assert effort.admission_by_family == on.diagnostics.counts
    if not effort.expansion_actions:
        assert off.content == on.content


_WORDS = "alpha beta gamma delta epsilon zeta eta theta".split()
_LONG = " ".join(_WORDS)
_SPARSE = st.lists(st.lists(st.sampled_from(_WORDS), min_size=1, max_size=3).map(" ".join), max_size=12)


@settings(max_examples=60)
@given(
    st.tuples(_SPARSE, _SPARSE, _SPARSE), st.sampled_from([None, "hash"]), st.integers(512, 4000), st.integers(1, 12)
)
def test_our_policy_only_adds(
    texts: tuple[list[str], list[str], list[str]], embedder: str | None, size: int, most: int
) -> None:
    """What is delivered without a gate is delivered with it, first and in its order, whatever a lower floor lets in."""
    with powerctx.open("memory://", plugins=(), embedder=embedder, settings=PATIENT) as context:
        here, there, learned = texts
        context.put([*items(*here), *items(*there, scope="r"), *items(*learned, family="experience")])
        asked = {"scope_id": "s", "references": ["r"], "max_bytes": size, "max_items": most}
        off = context.prepare(_LONG, **asked, policy="powerctx.recall.v1")
        on = context.prepare(_LONG, **asked, policy="powerctx.recall.v1", gate="v2")

    assert off.selected == on.selected[: len(off.selected)]


def test_a_single_word_of_another_scope_stands_behind_what_was_there() -> None:
    """The best of a scope that only a lower floor opens is not taken for the best of all."""
    with powerctx.open("memory://", plugins=()) as context:
        context.put(items("alpha beta gamma", "delta epsilon", *(f"{word} alone" for word in _WORDS)))
        context.put(items(*(f"{word} there" for word in _WORDS), scope="r"))
        asked = {"scope_id": "s", "references": ["r"], "policy": "powerctx.recall.v1", "max_items": 30}
        off = context.prepare(_LONG, **asked)
        on = context.prepare(_LONG, **asked, gate="v2")

    assert ["s0", "s1"] == [address.artifact_id for address in off.selected]
    assert off.selected == on.selected[:2]
    assert 18 == len(on.selected)
