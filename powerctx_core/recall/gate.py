"""The recall sufficiency gate: judges what was recalled, by numbers alone.  Pure.

What is judged is a few facts of the candidates (:class:`Evidence`); the verdict is the first row of a fixed table that
holds, and the signals it was read from are kept beside it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Final, NamedTuple

import attrs

from powerctx_core.canonical import sha256_of
from powerctx_core.errors import InvalidRequest, shown
from powerctx_core.recall.policy import RecallPolicy, check_descending
from powerctx_core.types import AdmissionFloor, Signals

__all__ = [
    "OFF",
    "REASONS",
    "SHIPPED",
    "V2",
    "Assessment",
    "Evidence",
    "GatePolicy",
    "assess",
    "check_floors",
]

REASONS: Final = (
    "no-content",
    "budget-floor",
    "rerank-enabled",
    "thin-candidates",
    "thin-families",
    "weak-top-1",
    "weak-lexical",
    "sufficient",
    "at-max-rounds",
    "expansion-failed",
)
"""Every reason that a verdict can have; the last two are set by the loop."""

OFF: Final = "off"
"""The name for no gate."""
_MOST_ROUNDS = 2
_MOST_CANDIDATES = 64
_POLICY_ID = re.compile(r"[a-z0-9]+([.-][a-z0-9]+)*")
_POLICY_ID_LENGTH = 128


def _share(_: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise InvalidRequest(f"{attribute.name} is {value:g}; a number from 0 to 1 is allowed.", field=attribute.name)


@attrs.define(frozen=True, kw_only=True, slots=False)
class GatePolicy:
    """When a first round is judged too thin, and what a further one admits.

    Attributes:
        policy_id: its name, recorded beside the digest.
        max_rounds: rounds after the first, 0 to 2.
        expansion_floors: floors of these rounds, each as low as the one before or lower; ``None`` takes those of the
            recall policy in force.  There is none of the first round: that is the recall policy's.
        min_candidates: fewer are thin.
        min_top_score: a best relevance below it is weak.
        min_top_gap: when the best relevance is below *strong_top*, it must stand out from the mean of its family by so
            much.
        strong_top: from this relevance on, nothing need stand out.
        gap_floor: relevances below it do not count for that mean.
        min_lexical_overlap: the least share of the query's terms that the best candidate must hold.
        allow_expansion_with_rerank: whether rounds are allowed when a reranker is active.

    Raises:
        InvalidRequest: a value is outside its range; *field* names it.
    """

    policy_id: str = attrs.field()
    max_rounds: int = attrs.field(default=_MOST_ROUNDS)
    expansion_floors: tuple[AdmissionFloor, ...] | None = attrs.field(default=None)
    min_candidates: int = attrs.field(default=2)
    min_top_score: float = attrs.field(default=0.35, validator=_share)
    min_top_gap: float = attrs.field(default=0.02, validator=_share)
    strong_top: float = attrs.field(default=0.70, validator=_share)
    gap_floor: float = attrs.field(default=0.30, validator=_share)
    min_lexical_overlap: float = attrs.field(default=0.5, validator=_share)
    allow_expansion_with_rerank: bool = False

    @policy_id.validator
    def _check_id(self, attribute: attrs.Attribute[str], value: str) -> None:
        if len(value) > _POLICY_ID_LENGTH or value == OFF or not _POLICY_ID.fullmatch(value):
            raise InvalidRequest(
                f"policy_id is {shown(value)}; lower-case letters and digits joined by . or -, at most "
                f"{_POLICY_ID_LENGTH} of them, and not {OFF}, are allowed.",
                field=attribute.name,
            )

    @max_rounds.validator
    def _check_rounds(self, attribute: attrs.Attribute[int], value: int) -> None:
        if not 0 <= value <= _MOST_ROUNDS:
            raise InvalidRequest(f"max_rounds is {value}; 0, 1 and 2 are allowed.", field=attribute.name)

    @min_candidates.validator
    def _check_candidates(self, attribute: attrs.Attribute[int], value: int) -> None:
        if not 0 <= value <= _MOST_CANDIDATES:
            raise InvalidRequest(
                f"min_candidates is {value}; 0 to {_MOST_CANDIDATES} are allowed.", field=attribute.name
            )

    @expansion_floors.validator
    def _check_floors(
        self, attribute: attrs.Attribute[tuple[AdmissionFloor, ...] | None], value: tuple[AdmissionFloor, ...] | None
    ) -> None:
        if value is None:
            return
        if not max(1, self.max_rounds) <= len(value) <= _MOST_ROUNDS:
            raise InvalidRequest(
                f"expansion_floors has {len(value)} of them; 1 or 2, and one for each round of max_rounds "
                f"({self.max_rounds}), are allowed.",
                field=attribute.name,
            )
        check_descending(value, [f"expansion_floors[{place}]" for place in range(len(value))], field=attribute.name)

    @cached_property
    def digest(self) -> str:
        """``sha256:`` of the policy's fields as canonical JSON."""
        return sha256_of(self)


def check_floors(gate: GatePolicy, policy: RecallPolicy, place: str = "") -> None:
    """Check that the floors of a gate's own, if it has any, go on downwards from the floor of *policy*.

    *place* is the file that the gate stands in, for the error.

    Raises:
        InvalidRequest: they do not; the message says which pair of values.
    """
    if gate.expansion_floors is not None and gate.max_rounds:
        names = (
            f"the floor of {policy.policy_id}",
            f"the first expansion floor of gate {gate.policy_id}{place and f' in {place}'}",
        )
        check_descending((policy.floor, gate.expansion_floors[0]), names, field="gate")


V2: Final = GatePolicy(policy_id="powercontext.recall-gate.v2")
"""The source system's gate, decision by decision."""

SHIPPED: Final[Mapping[str, GatePolicy]] = MappingProxyType({V2.policy_id: V2, "v2": V2})
"""Id or alias -> gate policy of ours."""


class Evidence(NamedTuple):
    """What the gate looks at in the candidates of one family in one scope; a tuple, since each round makes them anew.

    Attributes:
        family: theirs.
        relevances: raw cosine of each to the query, where it has one, in fused order; no group is empty.
        sources: distinct identities among them.
        held: the most of the query's distinct terms that one of them holds.
    """

    family: str
    relevances: Sequence[float | None]
    sources: int
    held: int

    @classmethod
    def of(
        cls,
        family: str,
        relevances: Sequence[float | None],
        matched: Iterable[Collection[str]],
        terms: frozenset[str],
        *,
        sources: int | None = None,
    ) -> Evidence:
        """Look at candidates.

        Args:
            family: as above.
            relevances: as above.
            matched: of each candidate the terms that it holds, each once; others than the query's do not count.
            terms: the query's distinct terms.
            sources: as above; as many as candidates when absent.
        """
        held = 0
        for each in matched:
            # Few hold more than the best so far, and none can hold more terms than it has.
            if len(each) > held:
                held = max(held, len(terms.intersection(each)))
                if held == len(terms):
                    break
        return cls(family, relevances, len(relevances) if sources is None else sources, held)


@attrs.frozen(kw_only=True)
class Assessment:
    """A verdict and its grounds."""

    sufficient: bool
    reason: str
    signals: Signals


def _cosines(evidence: Iterable[Evidence]) -> dict[str, list[float]]:
    """Return the cosines of scored groups, by family.

    A group is scored when its first candidate has a cosine, so that none further down speaks for a lexical leader.
    """
    by_family: dict[str, list[float]] = {}
    for family, relevances, _, _ in evidence:
        if relevances[0] is not None:
            by_family.setdefault(family, []).extend(each for each in relevances if each is not None)
    return by_family


def _gap(by_family: Mapping[str, Sequence[float]], floor: float) -> float | None:
    """Return the greatest distance between a family's best cosine and the mean of its cosines from *floor* up."""
    gaps = []
    for cosines in by_family.values():
        good = [cosine for cosine in cosines if cosine >= floor]
        if len(good) > 1:
            gaps.append(max(0.0, max(good) - sum(good) / len(good)))  # a sum of equals may round up
    return max(gaps, default=None)


def assess(
    evidence: Sequence[Evidence],
    query_terms: int,
    policy: GatePolicy,
    *,
    has_content: bool,
    budget_bounded: bool,
    rerank_active: bool,
    families_expected: int,
) -> Assessment:
    """Judge what was recalled; the first row of the verdict table that holds wins.

    Args:
        evidence: of the candidates accumulated so far, before ceilings; once for each (family, scope) that has any.
        query_terms: how many distinct terms the query has.
        policy: thresholds.
        has_content: whether the participating scopes hold anything that can be searched.
        budget_bounded: whether something was cut or left out for the budget, and nothing more would fit.
        rerank_active: whether a reranker decided the order.
        families_expected: selected families whose first pool was not empty.
    """
    by_family = _cosines(evidence)
    cosines = [cosine for family in by_family.values() for cosine in family]
    gap = _gap(by_family, policy.gap_floor)
    top = max(cosines, default=0.0)
    signals = Signals(
        candidate_count=sum(len(each.relevances) for each in evidence),
        family_count=len({each.family for each in evidence}),
        distinct_sources=sum(each.sources for each in evidence),
        top_relevance=top,
        mean_relevance=sum(cosines) / len(cosines) if cosines else 0.0,
        top_gap=gap or 0.0,
        lexical_overlap=max((each.held for each in evidence), default=0) / query_terms if query_terms else 1.0,
    )
    verdicts = (
        ("no-content", not has_content),
        ("budget-floor", budget_bounded),
        ("rerank-enabled", rerank_active and not policy.allow_expansion_with_rerank),
        ("thin-candidates", signals.candidate_count < policy.min_candidates),
        ("thin-families", families_expected > 1 and signals.family_count < families_expected),
        (
            "weak-top-1",
            (bool(cosines) and top < policy.min_top_score)
            or (gap is not None and top < policy.strong_top and gap < policy.min_top_gap),
        ),
        ("weak-lexical", signals.lexical_overlap < policy.min_lexical_overlap),
    )
    reason = next((name for name, holds in verdicts if holds), "sufficient")
    sufficient = reason in ("no-content", "budget-floor", "rerank-enabled", "sufficient")
    return Assessment(sufficient=sufficient, reason=reason, signals=signals)
