"""The recall sufficiency gate: its verdicts, in the order of its table, and its signals."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import attrs
import pytest
from hypothesis import given, strategies as st

from powerctx_core import InvalidRequest
from powerctx_core.recall.gate import REASONS, V2, Assessment, Evidence, GatePolicy, assess

TERMS = ("alpha", "beta")


class Candidate(NamedTuple):
    """One candidate; those of a family and scope stand in fused order."""

    family: str
    scope_id: str
    source: object
    relevance: float | None
    terms: frozenset[str]


def candidate(
    source: str, relevance: float | None = None, *terms: str, family: str = "memory", scope: str = "s"
) -> Candidate:
    """Make one candidate."""
    return Candidate(family, scope, (family, scope, source), relevance, frozenset(terms))


STRONG = [candidate("a", 0.9, *TERMS), candidate("b", 0.5, *TERMS)]


def evidence_of(candidates: Iterable[Candidate], terms: Iterable[str]) -> list[Evidence]:
    """Return what the gate looks at in the candidates."""
    groups: dict[tuple[str, str], list[Candidate]] = {}
    for each in candidates:
        groups.setdefault((each.family, each.scope_id), []).append(each)
    return [
        Evidence.of(
            family,
            [each.relevance for each in group],
            [each.terms for each in group],
            frozenset(terms),
            sources=len({each.source for each in group}),
        )
        for (family, _), group in groups.items()
    ]


def judged(candidates: list[Candidate], policy: GatePolicy = V2, **facts: Any) -> Assessment:
    """Assess with facts that leave the verdict to the candidates."""
    given = {"has_content": True, "budget_bounded": False, "rerank_active": False, "families_expected": 1, **facts}
    return assess(evidence_of(candidates, TERMS), len(TERMS), policy, **given)


def test_reference_decisions(evaluation_data: Path) -> None:
    """On every recorded input of the reference implementation, the reason is the same and each signal to 1e-6."""
    lines = (evaluation_data.parent / "cases" / "gate-v2.jsonl").read_text(encoding="utf-8").splitlines()
    for line in lines:
        case = json.loads(line)
        candidates = [
            Candidate(
                each["family"],
                each["scope_id"],
                (each["family"], each["scope_id"], each["artifact_id"], each["revision"]),
                each["relevance"],
                frozenset(each["terms"]),
            )
            for each in case["candidates"]
        ]
        terms = frozenset(case["query_terms"])
        found = assess(
            evidence_of(candidates, terms),
            len(terms),
            V2,
            has_content=case["scope_has_content"],
            budget_bounded=case["budget_bounded"],
            rerank_active=case["rerank_active"],
            families_expected=case["families_expected"],
        )
        assert case["verdict"] == {"sufficient": found.sufficient, "reason": found.reason}, line
        assert case["signals"] == pytest.approx(attrs.asdict(found.signals), abs=1e-6), line

    assert 300 == len(lines)


@pytest.mark.parametrize(
    ("reason", "sufficient", "candidates", "facts"),
    [
        ("no-content", True, [], {"has_content": False, "budget_bounded": True}),
        ("budget-floor", True, [], {"budget_bounded": True, "rerank_active": True}),
        ("rerank-enabled", True, [], {"rerank_active": True}),
        ("thin-candidates", False, [], {}),
        ("thin-candidates", False, STRONG[:1], {"families_expected": 2}),
        ("thin-families", False, STRONG, {"families_expected": 2}),
        ("weak-top-1", False, [candidate("a", 0.3), candidate("b", 0.1)], {}),
        ("weak-top-1", False, [candidate("a", 0.51, *TERMS), candidate("b", 0.5), candidate("c", 0.5)], {}),
        ("weak-lexical", False, [candidate("a", 0.9), candidate("b", 0.5)], {}),
        ("weak-lexical", False, [candidate("a"), candidate("b")], {}),
        ("sufficient", True, STRONG, {}),
        ("sufficient", True, [candidate("a", None, "alpha"), candidate("b")], {}),
    ],
)
def test_verdicts(reason: str, sufficient: bool, candidates: list[Candidate], facts: dict[str, bool]) -> None:
    """The first row of the table that holds is the verdict."""
    found = judged(candidates, **facts)

    assert (reason, sufficient) == (found.reason, found.sufficient)


def test_a_vector_hit_further_down_cannot_make_a_lexical_leader_look_weak() -> None:
    """A group whose first hit has no cosine gives no score signals."""
    found = judged([candidate("a", None, *TERMS), candidate("b", 0.1)])

    assert ("sufficient", 0.0) == (found.reason, found.signals.top_relevance)


def test_the_gap_is_of_one_family() -> None:
    """Cosines of two families, or below the floor, make no gap: with a single good one it is unknown, not 0."""
    two = [candidate("a", 0.5, *TERMS), candidate("b", 0.499, *TERMS, family="notes")]

    assert "sufficient" == judged(two).reason
    assert "sufficient" == judged([candidate("a", 0.5, *TERMS), candidate("b", 0.29)]).reason
    assert "weak-top-1" == judged([candidate("a", 0.5, *TERMS), candidate("b", 0.49)]).reason


def test_a_query_without_terms() -> None:
    """No analysable term: nothing lexical can be missed."""
    found = assess(
        evidence_of(STRONG, ()), 0, V2, has_content=True, budget_bounded=False, rerank_active=False, families_expected=1
    )

    assert ("sufficient", 1.0) == (found.reason, found.signals.lexical_overlap)


_CANDIDATE = st.builds(
    Candidate,
    st.sampled_from(["memory", "notes", "topics"]),
    st.sampled_from(["s", "r"]),
    st.integers(0, 5),
    st.none() | st.floats(-1, 1),
    st.frozensets(st.sampled_from([*TERMS, "gamma"])),
)


@given(st.lists(_CANDIDATE, max_size=12), st.booleans(), st.booleans(), st.booleans(), st.integers(0, 4))
def test_laws(candidates: list[Candidate], content: bool, bounded: bool, rerank: bool, expected: int) -> None:
    """The reason is of the closed set; scopes and families may come in any order; signals stay in their ranges."""
    facts = {
        "has_content": content,
        "budget_bounded": bounded,
        "rerank_active": rerank,
        "families_expected": expected,
    }
    found = judged(candidates, **facts)
    signals = found.signals
    grouped = sorted(candidates, key=lambda each: (each.scope_id, each.family), reverse=True)

    assert found.reason in REASONS[:8]
    assert found.reason == judged(grouped, **facts).reason
    assert signals.distinct_sources <= signals.candidate_count == len(candidates)
    assert signals.family_count <= 3
    assert -1.0 <= signals.mean_relevance <= max(signals.top_relevance, 0.0) + 1e-12 <= 1.0 + 1e-12
    assert 0.0 <= signals.top_gap <= 0.7
    assert 0.0 <= signals.lexical_overlap <= 1.0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_rounds", 3),
        ("max_rounds", -1),
        ("min_top_score", 1.5),
        ("min_lexical_overlap", -0.1),
        ("min_candidates", 65),
    ],
)
def test_bad_policies(field: str, value: float) -> None:
    """A value outside its range is refused by name."""
    with pytest.raises(InvalidRequest, match=rf"^{field} is ") as caught:
        GatePolicy(policy_id="mine", **{field: value})

    assert field == caught.value.field


def test_digest() -> None:
    """Two policies have one digest when and only when they decide alike and have one name."""
    assert V2.digest == GatePolicy(policy_id=V2.policy_id).digest
    assert V2.digest != attrs.evolve(V2, min_candidates=3).digest
    assert V2.digest != attrs.evolve(V2, policy_id="mine").digest
