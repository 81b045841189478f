"""What one family gave for one scope: its pool, checked, admitted at a floor, and fused into hits."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence

import attrs

from powerctx_core.ports import AdmissionRule, Family, RetrievalRequest
from powerctx_core.recall.checks import SNAPSHOT, check_admission, check_pool
from powerctx_core.recall.fusion import fuse
from powerctx_core.recall.policy import RecallPolicy
from powerctx_core.recall.stages import Stages
from powerctx_core.records import FamilySpec
from powerctx_core.types import AdmissionCounts, AdmissionFloor, Hit, Key, Pool, RawCandidate

__all__ = ["Asked", "Group", "RuleFailed", "Source"]


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
        at: returns what the same pool gives at another floor; asks nobody, and may raise what the admission rule does.
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
    ranked: Mapping[str, Sequence[tuple[Key, float]]]
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
            return _Admitting(self, pool, late)(self.policy.floor)

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
            ranked={SNAPSHOT: [(key, hit.score) for key, hit in zip(members, hits, strict=True)]},
            at=lambda _: self._snapshot(pool),
        )


@attrs.frozen
class _Admitting:
    """A checked pool, which can be admitted and fused at any floor."""

    asked: Asked
    pool: Pool
    late: frozenset[str]

    def __call__(self, floor: AdmissionFloor) -> Group:
        """Return what *floor* lets in.

        Raises:
            RuleFailed: the admission rule raised, or broke its contract.
        """
        asked, pool = self.asked, self.pool
        terms = asked.request.terms
        try:
            admission = check_admission(pool, asked.rule.admit(pool, terms, floor))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise RuleFailed(asked.source.spec.admission) from error
        hits = fuse(pool, admission, asked.policy, weights=asked.request.weights, query=terms)
        return Group(
            counts=admission.counts,
            hits=hits[: asked.source.ceiling],
            mode=pool.mode,
            terms=tuple(pool.terms),
            matched=any(pool.channels.values()),
            items=pool.statistics.items,
            late=self.late,
            candidates=pool.candidates,
            ranked=admission.ranked,
            at=self,
        )
