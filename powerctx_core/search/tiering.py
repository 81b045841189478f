"""From what competes to a pack: a plan of tiers, the same plan with what was read for it, and the text.  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import attrs

from powerctx_core.assemble.delivery import line_of
from powerctx_core.assemble.forms import Forms, Read, joined
from powerctx_core.assemble.quotas import sampled
from powerctx_core.assemble.tiers import CAPPED, Ladder, Rung, TierPlan, plan_tiers
from powerctx_core.search.competing import Competing
from powerctx_core.search.wants import Wants
from powerctx_core.types import Address, Hit, RawCandidate

__all__ = ["Pack", "Tiering"]

_TEXT, _LIST, _BOTH = frozenset({False}), frozenset({True}), frozenset({False, True})
"""Parts of a pack, by whether what stands in them is listed."""
_WANTED = frozenset({"token_budget", "toolized"})
"""Why a candidate is left out for want of room."""


class _Rooms(NamedTuple):
    """What the entries of a pack may cost: all of them, and those in the text."""

    all: float
    text: float


@attrs.frozen(kw_only=True)
class Pack:
    """The entries of a pack, and its text.

    Attributes:
        entries: hit and form of each, in their order.
        text: empty without entries.
        cost: of the text, and of the list, unrounded.
        listed: what is listed to be read, when delivery is split.
        description: the list; empty without any of these.
        text_cost: of the text alone.
        lowered: why entries show less than all -> entries.
        left: place of a candidate that is no entry -> why, a reason of receipts.
        framed: the text around the entries fits the budget.
        late: there is none, since it was not ready in time.
    """

    entries: tuple[tuple[Hit, Rung], ...]
    text: str
    cost: float
    lowered: Mapping[str, int]
    listed: tuple[tuple[Hit, Rung], ...] = ()
    description: str = ""
    text_cost: float = 0.0
    left: Mapping[int, str] = attrs.field(factory=dict)
    framed: bool = True
    late: bool = False


@attrs.frozen(kw_only=True)
class Tiering:
    """Plans one pack.

    Attributes:
        listing: how the list of what can be read is rendered, when delivery is split.
    """

    wants: Wants
    forms: Forms
    competing: Competing
    listing: Forms | None = None

    def plan(self, read: Mapping[Address, Read], *, reading: bool) -> TierPlan | None:
        """Return the plan, or ``None`` when not even the frame fits.

        Args:
            read: what was read so far.
            reading: what was not read yet may still be; without it every form is exact.
        """
        if self._rooms(_TEXT) is None and self.listing is None:
            return None
        ladders = [
            self._ladder(place, hit, read.get(hit.address), reading=reading)
            for place, hit in enumerate(self.competing.hits)
        ]
        if self.listing is None:
            return self._part(ladders, _TEXT)
        both = self._part(ladders, _BOTH)
        filled = self._filled(both, ladders)
        if filled == _BOTH:
            return both
        # A part without entries takes what would stand around them from the other one.
        first = _LIST if ladders and ladders[0].listed else _TEXT
        alone = [self._part(ladders, part) for part in ((filled,) if filled else (first, _BOTH - first))]
        plans = [plan for plan in (*alone, both) if plan is not None]
        readable = (plan for plan in plans if self._filled(plan, ladders))
        return next(readable, next((plan for plan in plans if plan.chosen), next(iter(plans), None)))

    def _filled(self, plan: TierPlan | None, ladders: Sequence[Ladder]) -> frozenset[bool]:
        """Return the parts in which something new can be read."""
        chosen = {} if plan is None else plan.chosen
        new = (place for place, rung in chosen.items() if rung.detail != "uri" and place not in self.competing.cooled)
        return frozenset(ladders[place].listed for place in new)

    def _part(self, ladders: Sequence[Ladder], parts: Collection[bool]) -> TierPlan | None:
        """Return the plan of the candidates that stand in one of *parts*, or ``None`` without room for these."""
        rooms = self._rooms(parts)
        if rooms is None:
            return None
        chosen = [place for place in self._sample(ladders, rooms, parts) if ladders[place].listed in parts]
        plan = self._planned(ladders, chosen, rooms)
        if plan.chosen.keys() <= self.competing.cooled:
            # What was shown before is named beside something new, and is no pack of its own.
            new = [place for place in chosen if place not in self.competing.cooled]
            plan = self._planned(ladders, new, rooms)
        return plan

    def _rooms(self, parts: Collection[bool]) -> _Rooms | None:
        """Return what the entries of *parts* may cost, or ``None`` when what stands around them costs more."""
        frame = self.forms.frame if False in parts else 0.0
        listing = self.listing.frame if self.listing is not None and True in parts else 0.0
        room = self.wants.max_tokens - frame - listing
        most = self.wants.request.inject_max_tokens
        text = room if most is None else min(room, most - frame)
        return None if min(room, text) < 0.0 else _Rooms(room, text)

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
        bare = any(rung.detail == "uri" for place, rung in plan.chosen.items() if place not in cooled)
        return bare or bool(self.cut(plan)) or bool(_WANTED & set(self._left(plan.chosen, plan.sample).values()))

    def cut(self, plan: TierPlan) -> Sequence[int]:
        """Return the places of new entries that are cut; a line of a list is as long as any may be."""
        return [
            place
            for place, rung in plan.chosen.items()
            if rung.cut and place not in self.competing.cooled and not self.wants.lists(self.competing.hits[place])
        ]

    def fits(self, raw: RawCandidate, plan: TierPlan | None) -> bool:
        """Tell whether a further candidate would have a place: its shortest text beside those of the plan."""
        rooms = self._rooms(_TEXT if self.listing is None else _BOTH)
        bucket = self.wants.bucket(raw)
        if plan is None or rooms is None or not self.wants.admits(bucket) or self.wants.excludes(raw.address):
            return False
        hit = Hit(candidate=raw, score=0.0, match=0.0, channels=())
        ladder = self._forms(hit, len(self.competing.hits), bucket, None, reading=True, cooled=False)
        if not ladder.rungs:
            return False
        cost = ladder.rungs[0].cost
        return plan.least + cost <= rooms.all and (ladder.listed or plan.least_text + cost <= rooms.text)

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
        most = self.wants.request.inject_max_tokens
        while set(places) - self.competing.cooled:
            listed = [place for place in places if self.wants.lists(self.competing.hits[place])]
            stable = [place for place in places if place not in listed]
            text, description = self._joined(plan, stable, self.forms), self._joined(plan, listed, self.listing)
            text_cost = self.forms.cost(text)
            cost = self.forms.cost(text + description) if description else text_cost
            if most is not None and text_cost > most:
                places.remove(stable[-1])
            elif cost > self.wants.max_tokens:
                places.pop()
            else:
                return Pack(
                    entries=self._entries(plan, stable),
                    text=text,
                    cost=cost,
                    lowered=self._lowered(plan, stable),
                    listed=self._entries(plan, listed),
                    description=description,
                    text_cost=text_cost,
                    left=self._left(places, plan.sample),
                )
        return Pack(entries=(), text="", cost=0.0, lowered={}, left=self._left((), plan.sample))

    def _entries(self, plan: TierPlan, places: Sequence[int]) -> tuple[tuple[Hit, Rung], ...]:
        return tuple((self.competing.hits[place], plan.chosen[place]) for place in places)

    def _joined(self, plan: TierPlan, places: Sequence[int], forms: Forms | None) -> str:
        entries = [(hit.address.family, rung) for hit, rung in self._entries(plan, places)]
        return "" if forms is None else joined(entries, forms)

    def _planned(self, ladders: Sequence[Ladder], places: Sequence[int], rooms: _Rooms) -> TierPlan:
        among = [ladders[place] for place in places]
        found = plan_tiers(among, rooms.all, shares=self.wants.shares, text_room=rooms.text)
        chosen = {places[place]: rung for place, rung in found.chosen.items()}
        return attrs.evolve(found, chosen=chosen, sample=tuple(places))

    def _ladder(self, place: int, hit: Hit, read: Read | None, *, reading: bool) -> Ladder:
        bucket, cooled = self.competing.buckets[place], place in self.competing.cooled
        return self._forms(hit, place, bucket, read, reading=reading, cooled=cooled)

    def _forms(self, hit: Hit, place: int, bucket: str, read: Read | None, *, reading: bool, cooled: bool) -> Ladder:
        if self.listing is not None and self.wants.lists(hit):
            line = None if cooled else line_of(hit.candidate.abstract, hit.candidate.head)
            return self.listing.line(hit, line, place=place + 1, bucket=bucket)
        ceiling, pinned = ("uri", False) if cooled else self.wants.detail(hit.candidate, bucket)
        return self.forms.ladder(
            hit, place=place + 1, bucket=bucket, ceiling=ceiling, pinned=pinned, read=read, reading=reading
        )

    def _sample(self, ladders: Sequence[Ladder], rooms: _Rooms, parts: Collection[bool]) -> list[int]:
        """Return the places of the candidates that may enter."""
        if not self.wants.quotas:
            return list(range(len(ladders)))
        readable = [place for place, ladder in enumerate(ladders) if ladder.rungs and ladder.listed in parts]
        sample = sampled(
            [self.competing.buckets[place] for place in readable],
            [ladders[place].rungs[0].cost for place in readable],
            self.wants.quotas,
            rooms.all,
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
            if unquoted or (taken and sample and place not in sample):
                return "family_limit"
            return "toolized" if self.wants.lists(self.competing.hits[place]) else "token_budget"

        entered = set(places)
        return {place: reason(place) for place in range(len(self.competing.hits)) if place not in entered}
