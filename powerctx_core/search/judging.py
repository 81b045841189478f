"""The gate of a pack: rounds over the pools of a call, each planned as a pack before it is judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from powerctx_core.assemble.tiers import TierPlan
from powerctx_core.recall.expansion import Expanded, Expansion
from powerctx_core.recall.fetch import Limits
from powerctx_core.recall.gate import GatePolicy
from powerctx_core.recall.outcome import Recalled
from powerctx_core.recall.stages import Stages
from powerctx_core.search.competing import Competing
from powerctx_core.search.tiering import Tiering
from powerctx_core.types import Hit, RawCandidate, RecallEffort

__all__ = ["Planned", "Probe", "effort_of", "judged"]


@attrs.frozen
class Planned:
    """A plan before anything is read for it, and whether it has room for more than competes."""

    tiering: Tiering
    plan: TierPlan | None
    wanting: bool


@attrs.frozen
class Probe:
    """What some hits give; see :class:`powerctx_core.recall.expansion.Probed`.

    Attributes:
        hits: in the order of recall.
        plan: ``None`` when the renderer was not ready in time.
    """

    hits: Sequence[Hit]
    found: Competing
    plan: Planned | None

    @property
    def pressed(self) -> bool:
        """Something was cut or left out for want of room."""
        return self.plan is not None and self.plan.tiering.pressed(self.plan.plan)

    def fits(self, candidate: RawCandidate) -> bool:
        """Tell whether a further candidate would have a place."""
        return self.plan is not None and self.plan.tiering.fits(candidate, self.plan.plan)


def judged(
    gate: GatePolicy,
    recall: Recalled,
    first: Probe,
    probe: Callable[[Sequence[Hit]], Probe],
    *,
    limits: Limits,
    stages: Stages,
) -> Expanded[Probe]:
    """Return what the rounds of *gate* give, which begin with *first*; they ask for nothing again.

    Raises:
        PlanInvariantError, PluginError: as :meth:`Expansion.run`.
    """
    return Expansion(
        policy=recall.policy,
        gate=gate,
        ceilings={source.spec.name: source.ceiling for source in recall.sources},
        query_terms=recall.query.units or frozenset(recall.query.terms),
        probe=lambda hits: first if hits is first.hits else probe(hits),
        deadline=limits.retrieval,
        fetched=recall.fetched,
        first=first.hits,
        stages=stages,
    ).run()


def effort_of(gate: GatePolicy, expanded: Expanded[Probe]) -> RecallEffort:
    """Return what is told of the rounds: what the pack cuts, and leaves out for want of room, counted with them."""
    told = expanded.effort(gate, None)
    planned = expanded.probed.plan
    if planned is None or planned.plan is None:
        return told
    cooled = planned.tiering.competing.cooled
    new = [place for place in range(len(planned.tiering.competing.hits)) if place not in cooled]
    chosen = planned.plan.chosen
    return attrs.evolve(
        told,
        truncated_items=len(planned.tiering.cut(planned.plan)),
        dropped_items=sum(place not in chosen for place in new),
    )
