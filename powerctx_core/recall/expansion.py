"""The loop of the gate: judges a round, admits the same pools at a lower floor where that may help, and judges again.

Pure but for the clock: nothing is asked for again, so a round costs no statement and no embedding, except where only
the engine of a family can admit: that is searched once more a round.  A round counts only as a whole: what fails or is
late in it is dropped, and the round before is delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, Generic, Protocol, TypeVar

import attrs

from powerctx_core.assemble.fit import Plan
from powerctx_core.assemble.part import SIZE_REASONS
from powerctx_core.recall.checks import SNAPSHOT
from powerctx_core.recall.fetch import Fetched
from powerctx_core.recall.fusion import in_order
from powerctx_core.recall.gate import Assessment, Evidence, GatePolicy, assess
from powerctx_core.recall.group import FREE, Cost, Group, Ranked
from powerctx_core.recall.policy import RecallPolicy
from powerctx_core.recall.rounds import Gathered, appended, first_round, joined, reselect
from powerctx_core.recall.stages import Stages
from powerctx_core.types import AdmissionCounts, AdmissionFloor, Deadline, Hit, RawCandidate, RecallEffort

__all__ = ["ACTIONS", "Expanded", "Expansion", "Judged", "Probed"]

ACTIONS: Final = ("admission", "policy-floor")
"""What each round after the first is called."""

_NEIGHBOUR = "neighbour"
_UNJUDGED = ((_NEIGHBOUR,), (SNAPSHOT,))
"""Channels of what stands beside another candidate, or is there whatever the query is."""


class Probed(Protocol):
    """A pack of what was selected, and what it leaves."""

    @property
    def plan(self) -> object | None:
        """The pack, or ``None`` when the renderer was not ready in time."""

    @property
    def pressed(self) -> bool:
        """Something was cut or left out for a budget of the request."""

    def fits(self, candidate: RawCandidate) -> bool:
        """Tell whether a further entry would be taken, whole or cut."""


_P = TypeVar("_P", bound=Probed)


@attrs.frozen(kw_only=True)
class Judged:
    """A committed round.

    Attributes:
        floor: what it admitted at.
        groups: family -> its groups, at that floor.
        assessment: the verdict; ``None`` when there could be none.
        bounded: the budget could hold nothing more.
    """

    floor: AdmissionFloor
    groups: Mapping[str, tuple[Group, ...]] = attrs.field(repr=False)
    assessment: Assessment | None = None
    bounded: bool = False


@attrs.frozen(kw_only=True)
class Expanded(Generic[_P]):
    """What the last committed round gives.

    Attributes:
        probed: its pack.
        assessment: of that round, its reason set by the loop where it ended it; ``None`` when the first one failed.
        reason: why the loop ended, one of :data:`powerctx_core.recall.gate.REASONS`.
        actions: the rounds after the first, a prefix of :data:`ACTIONS`.
        candidates_by_round: candidates gathered up to each round, before ceilings.
        counts: of each family and scope, of that round.
        recoverable: entries of the pools that it rejects and a further round would admit.
        partial: a round was dropped because the deadline passed, or the renderer was late in the first one.
        rounds: each that was committed.
        dropped: a further one was begun and dropped.
    """

    probed: _P
    assessment: Assessment | None
    reason: str
    actions: tuple[str, ...] = ()
    candidates_by_round: tuple[int, ...] = ()
    counts: tuple[AdmissionCounts, ...] = ()
    recoverable: int = 0
    added: Cost = FREE
    partial: bool = False
    rounds: tuple[Judged, ...] = ()
    dropped: bool = False

    def effort(self, gate: GatePolicy, plan: Plan | None) -> RecallEffort:
        """Return what is told of it."""
        omitted = {} if plan is None else plan.omitted
        short, unfit = (omitted.get(reason, 0) for reason in SIZE_REASONS)
        return RecallEffort(
            policy_id=gate.policy_id,
            policy_digest=gate.digest,
            sufficient=self.assessment is not None and self.assessment.sufficient,
            reason=self.reason,
            signals=None if self.assessment is None else self.assessment.signals,
            rounds=1 + len(self.actions),
            expansion_actions=self.actions,
            candidates_by_round=self.candidates_by_round,
            admission_by_family=self.counts,
            truncated_items=0 if plan is None else plan.squeezed,
            dropped_items=short + unfit,
            dropped_below_min_bytes=short,
            dropped_no_fitting_truncation=unfit,
            added_searches=self.added.searches,
            added_embeddings=self.added.embeddings,
            added_generation_calls=self.added.generation_calls,
            recoverable=self.recoverable,
            partial=self.partial,
        )


@attrs.frozen
class _Round(Generic[_P]):
    """One round: the groups at its floor, everything gathered up to it, and the pack of what may be delivered."""

    groups: Mapping[str, tuple[Group, ...]]
    gathered: Mapping[str, Sequence[Gathered]]
    probed: _P
    cost: Cost = FREE


class _TooLateError(Exception):
    """The deadline passed in the middle of a round."""


@attrs.define(slots=False)
class Expansion(Generic[_P]):
    """The rounds of one call.

    Attributes:
        policy: how pools become candidates.
        gate: what is enough, and how far to go.
        ceilings: family -> candidates over all its scopes.
        query_terms: the query's distinct terms, as the floor counts them.
        probe: returns the pack of hits in the order of delivery.
        deadline: no round begins after it, and one that is running is dropped.
        fetched: what the families gave.
        first: its hits in the order of delivery, as they are without a gate.
        stages: is told how long judging takes.
    """

    policy: RecallPolicy
    gate: GatePolicy
    ceilings: Mapping[str, int]
    query_terms: frozenset[str]
    probe: Callable[[Sequence[Hit]], _P]
    deadline: Deadline
    fetched: Fetched
    first: Sequence[Hit]
    stages: Stages = attrs.field(factory=Stages)

    def run(self) -> Expanded[_P]:
        """Judge the first round, and expand it as long as that is allowed and may help.

        Raises:
            PlanInvariantError, PluginError: the first round cannot be planned; a later one is dropped then.
        """
        groups = self.fetched.groups
        gathered = {
            family: first_round([group.hits for group in given], self.ceilings[family])
            for family, given in groups.items()
        }
        probed = self.probe(self.first)
        if probed.plan is None:
            first = Judged(floor=self.policy.floor, groups=groups)
            return Expanded(probed=probed, assessment=None, reason="expansion-failed", partial=True, rounds=(first,))
        return self._loop(_Round(groups, gathered, probed))

    def _loop(self, done: _Round[_P]) -> Expanded[_P]:
        rounds = [Judged(floor=self.policy.floor, groups=done.groups)]
        recoverable, begun, reason, partial = 0, 0, "expansion-failed", False
        try:
            rounds[0], verdict = self._judged(done, 0)
            reason = verdict.reason
            if not verdict.sufficient and self._floors:
                recoverable = self._recoverable(done)
            while not verdict.sufficient and recoverable:
                self._check_time()
                begun += 1
                further = self._further(done, begun)
                judged, verdict = self._judged(further, begun)
                self._check_time()
                done, reason = further, verdict.reason
                rounds.append(judged)
                # Behind the last floor there is none.
                recoverable = self._recoverable(done) if begun < len(self._floors) else 0
            if not verdict.sufficient and verdict.reason != "weak-top-1" and self._exhausted(done, begun):
                reason = "at-max-rounds"
        except _TooLateError:
            partial = True
        except Exception:  # noqa: BLE001 - whatever a round raises, the one before it stands
            reason = "expansion-failed"
        assessments = [each.assessment for each in rounds if each.assessment is not None]
        return Expanded(
            probed=done.probed,
            assessment=rounds[-1].assessment,
            reason=reason,
            actions=ACTIONS[: len(rounds) - 1],
            candidates_by_round=tuple(each.signals.candidate_count for each in assessments),
            counts=tuple(group.counts for groups in done.groups.values() for group in groups if group.searched),
            recoverable=recoverable,
            added=done.cost,
            partial=partial,
            rounds=tuple(rounds),
            dropped=begun >= len(rounds),
        )

    @property
    def _floors(self) -> Sequence[AdmissionFloor]:
        """Return the floors of the rounds that are allowed."""
        floors = self.gate.expansion_floors or self.policy.expansion_floors
        return floors[: self.gate.max_rounds]

    @cached_property
    def _lowest(self) -> Mapping[str, tuple[Ranked, ...]]:
        """What the last floor that is allowed admits; made once, and only when it is asked for."""
        floor = self._floors[-1]
        return {
            family: tuple(group.admitted(floor) for group in groups) for family, groups in self.fetched.groups.items()
        }

    def _at(self, floor: AdmissionFloor) -> Mapping[str, tuple[Group, ...]]:
        return {family: tuple(group.at(floor) for group in groups) for family, groups in self.fetched.groups.items()}

    def _exhausted(self, done: _Round[_P], number: int) -> bool:
        """Tell whether all rounds have run and something is rejected still."""
        return number == len(self._floors) and any(
            group.counts.admitted < group.counts.retrieved for groups in done.groups.values() for group in groups
        )

    def _further(self, done: _Round[_P], number: int) -> _Round[_P]:
        """Return the round of that number, the one after *done*."""
        floor = self._floors[number - 1]
        with self.stages("assess"):
            groups = self._at(floor)
        found = self.fetched.again(floor)
        if found is None:
            raise _TooLateError
        groups = {**groups, **found.groups}
        if self.policy.appends:
            gathered = appended(done.gathered, {name: [group.fused for group in each] for name, each in groups.items()})
        else:
            gathered = joined(done.gathered, {name: [group.hits for group in each] for name, each in groups.items()})
        probed = self.probe(self._selected(gathered))
        if probed.plan is None:
            raise _TooLateError
        return _Round(groups, gathered, probed, done.cost + found.cost)

    def _check_time(self) -> None:
        if self.deadline.passed:
            raise _TooLateError

    def _selected(self, gathered: Mapping[str, Sequence[Gathered]]) -> Sequence[Hit]:
        return in_order(
            self.policy,
            {family: reselect(family, groups, self.ceilings[family]) for family, groups in gathered.items()},
        )

    def _judged(self, done: _Round[_P], number: int) -> tuple[Judged, Assessment]:
        """Return the round of that number as it was judged, and the verdict."""
        with self.stages("assess"):
            return self._assessed(done, number)

    def _recoverable(self, done: _Round[_P]) -> int:
        """Return how many entries a further round may let in."""
        with self.stages("assess"):
            return _unknown(done.groups) + _recoverable(done.groups, self._lowest)

    def _assessed(self, done: _Round[_P], number: int) -> tuple[Judged, Assessment]:
        groups = [group for given in self.fetched.groups.values() for group in given]
        unknown = number < len(self._floors) and _unknown(done.groups) > 0
        bounded = done.probed.pressed and not (
            unknown or any(done.probed.fits(candidate) for candidate in self._rejected(done, number))
        )
        assessment = assess(
            _evidence(done.gathered, self.query_terms),
            len(self.query_terms),
            self.gate,
            has_content=any(group.searched and (group.items or group.matched) for group in groups),
            budget_bounded=bounded,
            rerank_active=False,
            families_expected=sum(any(group.matched for group in given) for given in self.fetched.groups.values()),
        )
        floor = self._floors[number - 1] if number else self.policy.floor
        return Judged(floor=floor, groups=done.groups, assessment=assessment, bounded=bounded), assessment

    def _rejected(self, done: _Round[_P], number: int) -> Iterator[RawCandidate]:
        """Give what a round rejects and a further one would admit."""
        if number >= len(self._floors):
            return
        for family, groups in done.groups.items():
            for group, lower in zip(groups, self._lowest[family], strict=True):
                if group.again is not None:
                    continue
                admitted = {key for members in group.ranked.values() for key, _ in members}
                for key in {key for members in lower.values() for key, _ in members} - admitted:
                    yield group.candidates[key]


def _recoverable(groups: Mapping[str, Sequence[Group]], lowest: Mapping[str, Sequence[Ranked]]) -> int:
    """Return how many entries, a member in a channel, *groups* reject and *lowest* admits; neighbours do not count.

    What an engine admits is counted by :func:`_unknown`.
    """
    return sum(
        len({key for key, _ in members} - {key for key, _ in group.ranked.get(channel, ())})
        for family, given in groups.items()
        for group, lower in zip(given, lowest[family], strict=True)
        if group.again is None
        for channel, members in lower.items()
        if channel != _NEIGHBOUR
    )


def _unknown(groups: Mapping[str, Sequence[Group]]) -> int:
    """Return how many members engines reject: which of them a lower floor lets in, only they can tell."""
    rejecting = (group.counts for given in groups.values() for group in given if group.again is not None)
    return sum(counts.retrieved - counts.admitted for counts in rejecting)


def _evidence(gathered: Mapping[str, Sequence[Gathered]], terms: frozenset[str]) -> list[Evidence]:
    """Return what is judged of each family and scope that has something to judge; each identity counts once there."""
    evidence = []
    for family, groups in gathered.items():
        for group in groups:
            judged = [hit for hit in group.merged if hit.channels not in _UNJUDGED]
            if judged:
                matched = [hit.candidate.matched for hit in judged]
                evidence.append(Evidence.of(family, [hit.relevance for hit in judged], matched, terms))
    return evidence
