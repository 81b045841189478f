"""From what competes to a pack: a plan of tiers, the same plan with what was read for it, and the text.  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import attrs

from powerctx_core.assemble.forms import Forms, Read, joined
from powerctx_core.assemble.quotas import sampled
from powerctx_core.assemble.tiers import CAPPED, Ladder, Rung, TierPlan, plan_tiers
from powerctx_core.search.competing import Competing
from powerctx_core.search.wants import Wants
from powerctx_core.types import Address, Hit, RawCandidate

__all__ = ["Pack", "Tiering"]


@attrs.frozen(kw_only=True)
class Pack:
    """The entries of a pack, and its text.

    Attributes:
        entries: hit and form of each, in their order.
        text: empty without entries.
        cost: of the text, unrounded.
        lowered: why entries show less than all -> entries.
        left: place of a candidate that is no entry -> why, a reason of receipts.
        framed: the text around the entries fits the budget.
        late: there is none, since it was not ready in time.
    """

    entries: tuple[tuple[Hit, Rung], ...]
    text: str
    cost: float
    lowered: Mapping[str, int]
    left: Mapping[int, str] = attrs.field(factory=dict)
    framed: bool = True
    late: bool = False


@attrs.frozen(kw_only=True)
class Tiering:
    """Plans one pack."""

    wants: Wants
    forms: Forms
    competing: Competing

    def plan(self, read: Mapping[Address, Read], *, reading: bool) -> TierPlan | None:
        """Return the plan, or ``None`` when not even the frame fits.

        Args:
            read: what was read so far.
            reading: what was not read yet may still be; without it every form is exact.
        """
        room = self.wants.max_tokens - self.forms.frame
        if room < 0.0:
            return None
        ladders = [
            self._ladder(place, hit, read.get(hit.address), reading=reading)
            for place, hit in enumerate(self.competing.hits)
        ]
        chosen = self._sample(ladders, room)
        plan = self._planned(ladders, chosen, room)
        if plan.chosen.keys() <= self.competing.cooled:
            # What was shown before is named beside something new, and is no pack of its own.
            new = [place for place in chosen if place not in self.competing.cooled]
            plan = self._planned(ladders, new, room)
        return plan

    def wanting(self, plan: TierPlan | None, reach: int) -> bool:
        """Tell whether there is room for more than competes: all that is new is in, and no limit is reached.

        *reach* is the limit of a request that has none.
        """
        if plan is None:
            return False
        wants, competing = self.wants, self.competing
        new = [
            place
            for place, bucket in enumerate(competing.buckets)
            if place not in competing.cooled and wants.admits(bucket)
        ]
        most = sum(wants.quotas.values()) if wants.quotas else wants.limit or reach
        shown = [plan.chosen[place] for place in new if place in plan.chosen]
        return len(new) < most and len(shown) == len(new) and all(rung.detail != "uri" for rung in shown)

    def pressed(self, plan: TierPlan | None) -> bool:
        """Tell whether something new is cut or left out for want of room."""
        if plan is None:
            return True
        cooled = self.competing.cooled
        cut = any(rung.cut or rung.detail == "uri" for place, rung in plan.chosen.items() if place not in cooled)
        return cut or "token_budget" in self._left(plan.chosen, plan.sample).values()

    def fits(self, raw: RawCandidate, plan: TierPlan | None) -> bool:
        """Tell whether a further candidate would have a place: its shortest text beside those of the plan."""
        room = self.wants.max_tokens - self.forms.frame
        bucket = self.wants.bucket(raw)
        if plan is None or not self.wants.admits(bucket) or self.wants.excludes(raw.address):
            return False
        ceiling, pinned = self.wants.detail(raw, bucket)
        ladder = self.forms.ladder(
            Hit(candidate=raw, score=0.0, match=0.0, channels=()),
            place=len(self.competing.hits) + 1,
            bucket=bucket,
            ceiling=ceiling,
            pinned=pinned,
            read=None,
            reading=True,
        )
        return bool(ladder.rungs) and plan.least + ladder.rungs[0].cost <= room

    def unread(self, plan: TierPlan) -> Sequence[Hit]:
        """Return the candidates whose text has to be read for *plan*."""
        return [self.competing.hits[place] for place in plan.unread]

    def pack(self, plan: TierPlan | None) -> Pack:
        """Return what a plan without unread forms gives.

        The text is priced once more as a whole: where prices do not quite add up, the tail is cut until it holds.
        """
        if plan is None:
            return Pack(entries=(), text="", cost=0.0, lowered={}, left=self._left((), None), framed=False)
        places = list(plan.chosen)
        while set(places) - self.competing.cooled:
            entries = tuple((self.competing.hits[place], plan.chosen[place]) for place in places)
            text = joined([(hit.address.family, rung) for hit, rung in entries], self.forms)
            cost = self.forms.cost(text)
            if cost <= self.wants.max_tokens:
                lowered, left = self._lowered(plan, places), self._left(places, plan.sample)
                return Pack(entries=entries, text=text, cost=cost, lowered=lowered, left=left)
            places.pop()
        return Pack(entries=(), text="", cost=0.0, lowered={}, left=self._left((), plan.sample))

    def _planned(self, ladders: Sequence[Ladder], places: Sequence[int], room: float) -> TierPlan:
        found = plan_tiers([ladders[place] for place in places], room, shares=self.wants.shares)
        chosen = {places[place]: rung for place, rung in found.chosen.items()}
        return attrs.evolve(found, chosen=chosen, sample=tuple(places))

    def _ladder(self, place: int, hit: Hit, read: Read | None, *, reading: bool) -> Ladder:
        bucket = self.competing.buckets[place]
        ceiling, pinned = self.wants.detail(hit.candidate, bucket)
        if place in self.competing.cooled:
            ceiling, pinned = "uri", False
        return self.forms.ladder(
            hit, place=place + 1, bucket=bucket, ceiling=ceiling, pinned=pinned, read=read, reading=reading
        )

    def _sample(self, ladders: Sequence[Ladder], room: float) -> list[int]:
        """Return the places of the candidates that may enter."""
        if not self.wants.quotas:
            return list(range(len(ladders)))
        readable = [place for place, ladder in enumerate(ladders) if ladder.rungs]
        sample = sampled(
            [self.competing.buckets[place] for place in readable],
            [ladders[place].rungs[0].cost for place in readable],
            self.wants.quotas,
            room,
        )
        return sorted([*(readable[place] for place in sample), *self.competing.cooled])

    def _lowered(self, plan: TierPlan, places: Sequence[int]) -> dict[str, int]:
        reasons: Counter[str] = Counter()
        for place in places:
            hit, rung = self.competing.hits[place], plan.chosen[place]
            if place in self.competing.cooled:
                reasons["cooled"] += 1
            elif rung.detail == "full" and not rung.cut:
                continue
            elif rung.detail == self.wants.detail(hit.candidate, self.competing.buckets[place])[0] and not rung.cut:
                reasons["ceiling"] += 1
            elif rung.detail == "full" and rung.stage == CAPPED:
                reasons["cap"] += 1
            else:
                reasons["budget"] += 1
        return dict(sorted(reasons.items()))

    def _left(self, places: Collection[int], sample: Collection[int] | None) -> dict[int, str]:
        """Return why candidates are no entries.

        Quotas keep one out when they are all taken, or its bucket has none; else it is the budget that does.

        Args:
            places: of the entries.
            sample: the candidates that might enter; ``None`` when none could.
        """
        quotas, cooled = self.wants.quotas, self.competing.cooled
        taken = sample is not None and quotas and len(set(sample) - cooled) >= sum(quotas.values())

        def reason(place: int) -> str:
            if place in cooled:
                return "cooled"
            unquoted = quotas.get(self.competing.buckets[place]) == 0
            return "family_limit" if unquoted or (taken and sample and place not in sample) else "token_budget"

        entered = set(places)
        return {place: reason(place) for place in range(len(self.competing.hits)) if place not in entered}
