"""What one family gave for one scope: its pool, checked, admitted at a floor, and fused into hits."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence

import attrs

from powerctx_core.errors import PoolInvariantError
from powerctx_core.ports import AdmissionRule, Family, RetrievalRequest, SearchingFamily
from powerctx_core.recall.admission import FloorAdmission, admitting
from powerctx_core.recall.checks import SNAPSHOT, check_pool, check_searched
from powerctx_core.recall.fusion import Fused, fuse
from powerctx_core.recall.policy import RecallPolicy
from powerctx_core.recall.stages import Stages
from powerctx_core.records import FamilySpec
from powerctx_core.types import Admission, AdmissionCounts, AdmissionFloor, Hit, Key, Pool, RawCandidate

__all__ = ["FREE", "Asked", "Cost", "Group", "Ranked", "RuleFailed", "Source"]

Ranked = Mapping[str, Sequence[tuple[Key, float]]]
"""Channel -> the members that a floor admits, with their scores, best first."""
_OPEN = AdmissionFloor(idf_mass=0.0)
"""Lets in whatever can be ranked."""


class RuleFailed(Exception):
    """A family's admission rule raised its ``__cause__``."""


@attrs.frozen
class Cost:
    """What searches of engines cost."""

    searches: int = 0
    embeddings: int = 0
    generation_calls: int = 0

    def __add__(self, other: Cost) -> Cost:
        """Return the sum."""
        return Cost(
            self.searches + other.searches,
            self.embeddings + other.embeddings,
            self.generation_calls + other.generation_calls,
        )


FREE = Cost()


@attrs.frozen(kw_only=True)
class Group:
    """What one family gave for one scope: the window of fused hits, and what is reported of its pool.

    Attributes:
        fused: the window.
        counts: of the pool.
        searched: by query; else there is nothing to judge, and nothing is counted for a report.
        matched: the pool had members, before admission.
        items: stored in the partition.
        late: channels that did not answer in time.
        pool: all members, admitted or not, and what they are measured by.
        ranked: what was admitted, by channel.
        admitted: returns what another floor would admit, by channel.
        at: returns what the same pool gives at another floor.  Both ask nobody, and may raise :class:`RuleFailed`.
        again: what to ask for another floor, where only an engine can tell; the two above know this one alone.
        cost: of asking, where the engine admitted.
    """

    counts: AdmissionCounts
    searched: bool = True
    fused: Fused
    mode: str
    terms: tuple[str, ...]
    matched: bool
    items: int
    late: frozenset[str]
    pool: Pool = attrs.field(repr=False)
    ranked: Ranked
    admitted: Callable[[AdmissionFloor], Ranked] = attrs.field(eq=False, repr=False)
    at: Callable[[AdmissionFloor], Group] = attrs.field(eq=False, repr=False)
    again: Asked | None = attrs.field(default=None, eq=False, repr=False)
    cost: Cost = FREE

    @property
    def hits(self) -> Sequence[Hit]:
        """The window's hits."""
        return self.fused.hits

    @property
    def candidates(self) -> Mapping[Key, RawCandidate]:
        """Members of the pool by key, admitted or not."""
        return self.pool.candidates


@attrs.frozen(kw_only=True)
class Source:
    """A family to ask.

    Attributes:
        requests: one a scope, in the order of the scopes.
        ceiling: hits that are kept of each scope.
        floor: at which it is asked, where its engine admits.
        stored: it is :class:`powerctx_core.families.StoredFamily`, so that several of them can be asked together.
        make: returns the family and its admission rule, which are made at their first use; may block.
    """

    spec: FamilySpec
    requests: tuple[RetrievalRequest, ...]
    ceiling: int
    floor: AdmissionFloor
    stored: bool = False
    make: Callable[[], tuple[Family | SearchingFamily, AdmissionRule]]


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

    def searched(self, returned: object, missing: frozenset[str] = frozenset()) -> Group:
        """Check what a family that admits inside its engine returned, and rank and fuse it.

        Args:
            returned: what was found, unless the family breaks its contract.
            missing: as of :meth:`group`.

        Raises:
            PoolInvariantError: it is no answer to the request.
        """
        if inspect.iscoroutine(returned):
            returned.close()
        request, family = self.request, self.source.spec.name
        found = check_searched(returned, request, self.source.spec.identity)
        pool = found.pool
        with self.stages("assess"):
            admission = FloorAdmission().admit(pool, request.terms, _OPEN)
            members = len(pool.candidates)
            if admission.counts.admitted < members:
                unranked = members - admission.counts.admitted
                raise PoolInvariantError(
                    f"family {family!r}: {unranked} members that it admits cannot be ranked; "
                    "one of fts holds a term that the statistics count, one of vector has a cosine."
                )
            counts = attrs.evolve(admission.counts, retrieved=found.retrieved)
            fused = fuse(
                pool, admission, self.policy, weights=request.weights, query=request.terms, limit=self.source.ceiling
            )
        group = Group(
            counts=counts,
            fused=fused,
            mode=pool.mode,
            terms=tuple(pool.terms),
            matched=found.retrieved > 0,
            items=pool.statistics.items,
            late=pool.late | (missing - frozenset(pool.channels)),
            pool=pool,
            ranked=admission.ranked,
            admitted=lambda _: admission.ranked,
            at=lambda _: group,
            again=attrs.evolve(self, request=attrs.evolve(request, vector=pool.query_vector)),
            cost=Cost(1, found.embeddings, found.generation_calls),
        )
        return group

    def _snapshot(self, pool: Pool) -> Group:
        """Return all of *pool*: the most recent first, those of the current scope before those of references."""
        members = sorted(
            pool.channels.get(SNAPSHOT, ()),
            key=lambda key: (-pool.candidates[key].updated_at.timestamp(), pool.candidates[key].address.artifact_id),
        )
        before = self.source.requests.index(self.request) * self.request.k
        scores = {key: 1 / place for place, key in enumerate(members, before + 1)}

        def hit(key: Key, factor: float) -> Hit:
            return Hit(candidate=pool.candidates[key], score=scores[key] * factor, match=1.0, channels=(SNAPSHOT,))

        found = len(members)
        ranked = {SNAPSHOT: [*scores.items()]}
        return Group(
            counts=AdmissionCounts(family=pool.family, scope_id=pool.scope_id, retrieved=found, admitted=found),
            searched=False,
            fused=Fused(pool.candidates, members, hit),
            mode=pool.mode,
            terms=(),
            matched=False,
            items=pool.statistics.items,
            late=pool.late,
            pool=pool,
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
        """Return what *floor* admits; the rule is asked once for each floor."""
        if floor not in self._admissions:
            try:
                self._admissions[floor] = self._admit(floor)
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
        fused = fuse(
            pool, admission, asked.policy, weights=request.weights, query=request.terms, limit=asked.source.ceiling
        )
        return Group(
            counts=admission.counts,
            fused=fused,
            mode=pool.mode,
            terms=tuple(pool.terms),
            matched=any(pool.channels.values()),
            items=pool.statistics.items,
            late=self.late,
            pool=pool,
            ranked=admission.ranked,
            admitted=self.ranked,
            at=self.at,
        )
