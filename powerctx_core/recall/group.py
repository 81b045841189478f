"""What one family gave for one scope: its pool, checked, admitted at a floor, and fused into hits."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence

import attrs

from powerctx_core.ports import AdmissionRule, Family, RetrievalRequest
from powerctx_core.recall.admission import admitting
from powerctx_core.recall.checks import SNAPSHOT, check_admission, check_pool
from powerctx_core.recall.fusion import fuse
from powerctx_core.recall.policy import RecallPolicy
from powerctx_core.recall.stages import Stages
from powerctx_core.records import FamilySpec
from powerctx_core.types import Admission, AdmissionCounts, AdmissionFloor, Hit, Key, Pool, RawCandidate

__all__ = ["Asked", "Group", "Ranked", "RuleFailed", "Source"]


Ranked = Mapping[str, Sequence[tuple[Key, float]]]
"""Channel -> the members that a floor admits, with their scores, best first."""


class RuleFailed(Exception):
    """A family's admission rule raised its ``__cause__``."""


@attrs.frozen(kw_only=True)
class Group:
    """What one family gave for one scope: the window of fused hits, and what is reported of its pool.

    Attributes:
        counts: of the pool.
        searched: by query; else there is nothing to judge, and nothing is counted for a report.
        matched: the pool had members, before admission.
        items: stored in the partition.
        late: channels that did not answer in time.
        candidates: members of the pool by key, admitted or not.
        ranked: what was admitted, by channel.
        admitted: returns what another floor would admit, by channel.
        at: returns what the same pool gives at another floor.  Both ask nobody, and may raise :class:`RuleFailed`.
    """

    counts: AdmissionCounts
    searched: bool = True
    hits: Sequence[Hit]
    mode: str
    terms: tuple[str, ...]
    matched: bool
    items: int
    late: frozenset[str]
    candidates: Mapping[Key, RawCandidate] = attrs.field(repr=False)
    ranked: Ranked
    admitted: Callable[[AdmissionFloor], Ranked] = attrs.field(eq=False, repr=False)
    at: Callable[[AdmissionFloor], Group] = attrs.field(eq=False, repr=False)


@attrs.frozen(kw_only=True)
class Source:
    """A family to ask.

    Attributes:
        requests: one a scope, in the order of the scopes.
        ceiling: hits that are kept of each scope.
        stored: it is :class:`powerctx_core.families.StoredFamily`, so that several of them can be asked together.
        make: returns the family and its admission rule, which are made at their first use; may block.
    """

    spec: FamilySpec
    requests: tuple[RetrievalRequest, ...]
    ceiling: int
    stored: bool = False
    make: Callable[[], tuple[Family, AdmissionRule]]


@attrs.frozen(kw_only=True)
class Asked:
    """What a family was asked of one scope, and the rule and the policy by which its answer is admitted and fused."""

    source: Source
    request: RetrievalRequest
    rule: AdmissionRule
    policy: RecallPolicy
    stages: Stages = attrs.field(factory=Stages)

    def group(self, returned: object, missing: frozenset[str] = frozenset()) -> Group:
        """Check what the family returned, and admit and fuse it at the floor of the policy.

        Args:
            returned: a pool, unless the family breaks its contract.
            missing: channels that are late unless the pool has them.

        Raises:
            PoolInvariantError: it is no answer to the request.
            RuleFailed: the admission rule raised, or broke its contract.
        """
        if inspect.iscoroutine(returned):
            returned.close()
        spec = self.source.spec
        pool = check_pool(returned, self.request, spec.identity, searched=spec.searchable)
        if not spec.searchable:
            return self._snapshot(pool)
        late = pool.late | (missing - frozenset(pool.channels))
        with self.stages("assess"):
            return _Admitting(self, pool, late).at(self.policy.floor)

    def _snapshot(self, pool: Pool) -> Group:
        """Return all of *pool*: the most recent first, those of the current scope before those of references."""
        members = sorted(
            pool.channels.get(SNAPSHOT, ()),
            key=lambda key: (-pool.candidates[key].updated_at.timestamp(), pool.candidates[key].address.artifact_id),
        )
        before = self.source.requests.index(self.request) * self.request.k
        hits = [
            Hit(candidate=pool.candidates[key], score=1 / place, match=1.0, channels=(SNAPSHOT,))
            for place, key in enumerate(members, before + 1)
        ]
        found = len(members)
        ranked = {SNAPSHOT: [(key, hit.score) for key, hit in zip(members, hits, strict=True)]}
        return Group(
            counts=AdmissionCounts(family=pool.family, scope_id=pool.scope_id, retrieved=found, admitted=found),
            searched=False,
            hits=hits,
            mode=pool.mode,
            terms=(),
            matched=False,
            items=pool.statistics.items,
            late=pool.late,
            candidates=pool.candidates,
            ranked=ranked,
            admitted=lambda _: ranked,
            at=lambda _: self._snapshot(pool),
        )


@attrs.frozen
class _Admitting:
    """A checked pool, which can be admitted and fused at any floor."""

    asked: Asked
    pool: Pool
    late: frozenset[str]
    _admit: Callable[[AdmissionFloor], Admission] = attrs.field(
        init=False,
        default=attrs.Factory(
            lambda self: admitting(self.asked.rule, self.pool, self.asked.request.terms), takes_self=True
        ),
    )
    _admissions: dict[AdmissionFloor, Admission] = attrs.field(init=False, factory=dict)

    def ranked(self, floor: AdmissionFloor) -> Ranked:
        """Return what *floor* admits.

        Raises:
            RuleFailed: the admission rule raised, or broke its contract.
        """
        return self._admission(floor).ranked

    def _admission(self, floor: AdmissionFloor) -> Admission:
        """Return what *floor* admits, checked; the rule is asked once for each floor."""
        if floor not in self._admissions:
            try:
                self._admissions[floor] = check_admission(self.pool, self._admit(floor))
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                raise RuleFailed(self.asked.source.spec.admission) from error
        return self._admissions[floor]

    def at(self, floor: AdmissionFloor) -> Group:
        """Return what *floor* lets in, fused.

        Raises:
            RuleFailed: the admission rule raised, or broke its contract.
        """
        asked, pool, request = self.asked, self.pool, self.asked.request
        admission = self._admission(floor)
        hits = fuse(
            pool, admission, asked.policy, weights=request.weights, query=request.terms, limit=asked.source.ceiling
        )
        return Group(
            counts=admission.counts,
            hits=hits,
            mode=pool.mode,
            terms=tuple(pool.terms),
            matched=any(pool.channels.values()),
            items=pool.statistics.items,
            late=self.late,
            candidates=pool.candidates,
            ranked=admission.ranked,
            admitted=self.ranked,
            at=self.at,
        )
