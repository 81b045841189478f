"""From hits to a pack, for one call: candidates, their order, and the plan that holds every budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property

import attrs

from powerctx_core.assemble.budget import Budget
from powerctx_core.assemble.envelope import Envelope
from powerctx_core.assemble.fit import Plan
from powerctx_core.assemble.value import by_value
from powerctx_core.packing import Packing
from powerctx_core.ports import Selection
from powerctx_core.recall.rounds import Identity, identity
from powerctx_core.recall.stages import Stages
from powerctx_core.requests import PrepareRequest
from powerctx_core.settings import Settings
from powerctx_core.types import Address, Candidate, Deadline, Hit, RawCandidate, Trimming

__all__ = ["Assembled", "Assembly", "Uses"]

Uses = Callable[[Collection[Address]], Mapping[tuple[str, str, str], int] | None]
"""Returns how often artifacts were used, or ``None`` when that is not known in time."""


@attrs.frozen(kw_only=True)
class Assembled:
    """What was made of some hits.

    Attributes:
        plan: what is delivered; ``None`` when the renderer was not ready in time.
        tried: the hits, in the order in which they competed.
        trimming: what each candidate was worth, when they are trimmed by value.
        late: what else was not ready.
    """

    plan: Plan | None
    tried: Sequence[Hit]
    trimming: Trimming | None = None
    late: tuple[str, ...] = ()

    @property
    def pressed(self) -> bool:
        """Something was cut or left out for a size budget of the request."""
        return self.plan is not None and bool(self.plan.dropped or self.plan.squeezed)

    def fits(self, candidate: RawCandidate) -> bool:
        """Tell whether a further entry would be taken, whole or cut."""
        return self.plan is not None and self.plan.fits(_candidate(candidate))


@attrs.define(slots=False, kw_only=True)
class Assembly:
    """Assembles hits of one call, any number of times; uses are asked for once, and what stays is not rendered again.

    Attributes:
        uses: how often what may come was used; asked only when packs are trimmed by value.
        expected: returns what may come in all.
        deadline: the call's.
        stages: is told how long planning takes.
    """

    packing: Packing
    settings: Settings
    request: PrepareRequest
    envelope: Envelope
    uses: Uses
    expected: Callable[[], Collection[Address]]
    deadline: Deadline
    stages: Stages = attrs.field(factory=Stages)
    _before: Plan | None = attrs.field(init=False, default=None)

    def __call__(self, hits: Sequence[Hit]) -> Assembled:
        """Return the pack of *hits*, which stand in the order of recall.

        Raises:
            PlanInvariantError, PluginError: as :meth:`Packing.pack`.
            StoreError: uses cannot be read.
        """
        request, envelope = self.request, self.envelope
        shown = _ranked(hits) if "recall_rank" in request.show else _shown
        layers = {spec.name: spec.layer for spec in envelope.specs}
        trimming: Trimming | None = None
        late: tuple[str, ...] = ()
        if request.trim == "value":
            uses = self._uses if hits else {}
            late = ("usage",) if uses is None else ()
            hits, trimming = by_value(hits, uses or {}, layers, self.settings.trim)
        tried = envelope.ordered(hits)
        with self.stages("plan"):
            plan = self.packing.pack(
                request,
                tried,
                self._budget,
                shown=shown,
                selection=self._selection,
                layers=layers,
                deadline=self.deadline,
                before=self._before,
            )
        self._before = plan
        return Assembled(plan=plan, tried=tried, trimming=trimming, late=late)

    @cached_property
    def _uses(self) -> Mapping[tuple[str, str, str], int] | None:
        return self.uses(self.expected())

    @cached_property
    def _budget(self) -> Budget:
        request, envelope = self.request, self.envelope
        return Budget(
            max_items=envelope.max_items,
            max_bytes=request.max_bytes,
            max_chars=request.max_chars,
            max_tokens=request.max_tokens,
            item_bytes=self.settings.recall.item_bytes,
            family_items=envelope.family_items,
        )

    @cached_property
    def _selection(self) -> Selection:
        return Selection(
            scope_id=self.request.scope_id,
            show=self.request.show,
            titles={spec.name: spec.title for spec in self.envelope.specs},
        )


def _shown(hit: Hit) -> Candidate:
    return _candidate(hit.candidate, hit)


def _ranked(hits: Iterable[Hit]) -> Callable[[Hit], Candidate]:
    """Return what shows each of *hits* with its place among those of its family."""
    ranks: Counter[str] = Counter()
    places: dict[Identity, int] = {}
    for hit in hits:
        family = hit.address.family
        ranks[family] += 1
        places.setdefault(identity(hit), ranks[family])
    return lambda hit: _candidate(hit.candidate, hit, places[identity(hit)])


def _candidate(raw: RawCandidate, hit: Hit | None = None, rank: int | None = None) -> Candidate:
    """Return what competes for the budget."""
    return Candidate(
        address=raw.address,
        text=raw.head,
        body_bytes=raw.body_bytes,
        score=0.0 if hit is None else hit.score,
        title=raw.title,
        hit=hit,
        evidence=raw.evidence,
        rank=rank,
    )
