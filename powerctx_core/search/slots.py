"""From what providers offer to the slots of a pack: each spends its share, and what earlier ones left.  Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from math import ceil, inf
from typing import Any

import attrs

from powerctx_core.assemble.forms import Forms, Read, joined
from powerctx_core.assemble.tiers import WIDE, Ladder, Rung, plan_tiers
from powerctx_core.ports import Offered
from powerctx_core.slot_sources import note
from powerctx_core.types import Address, Hit, RawCandidate

__all__ = ["Filled", "Filling", "Supply"]

_UNCAPPED = 1 << 30


@attrs.frozen(kw_only=True)
class Supply:
    """A slot, and what there is for it.

    Attributes:
        source: the provider.
        share: of the budget, 0..1.
    """

    slot: str
    source: str
    share: float
    offered: Offered


@attrs.frozen(kw_only=True)
class Filled:
    """A slot of the pack.

    Attributes:
        room: tokens that it had.
        left_out: items that the pack does not show, where it says so.
    """

    supply: Supply
    entries: tuple[tuple[Hit, Rung], ...]
    room: float
    left_out: int | None = None

    @property
    def told(self) -> dict[str, Any]:
        """Its figures."""
        figures: dict[str, Any] = {
            "source": self.supply.source,
            "room": int(self.room),
            "used": ceil(sum(rung.cost for _, rung in self.entries)),
            "entries": len(self.entries),
        }
        if self.left_out is not None:
            figures["left_out"] = self.left_out
        if self.supply.offered.whole and self.entries:
            text = "\n".join(hit.candidate.head for hit, _ in self.entries)
            figures["content_hash"] = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
        return figures


@attrs.frozen(kw_only=True)
class Filling:
    """Fills the slots of one pack.

    Attributes:
        supplies: in the order of the text.
        excluded: tells whether an artifact is left out.
    """

    scope_id: str
    supplies: Sequence[Supply]
    forms: Forms
    max_tokens: int
    excluded: Callable[[Address], bool]

    def fill(self, read: Mapping[Address, Read], *, reading: bool) -> list[Filled]:
        """Return the slots.

        Args:
            read: what was read so far.
            reading: what was not read yet may still be; without it every form is exact.
        """
        room = self.max_tokens - self.forms.frame
        if room < 0.0:
            return []
        carried = 0.0
        shown: dict[Address, RawCandidate] = {}
        filled: list[Filled] = []
        for supply in self.supplies:
            carried += room * supply.share
            slot = self._slot(supply, carried, shown, read, reading=reading)
            carried -= sum(rung.cost for _, rung in slot.entries)
            shown |= {hit.address: hit.candidate for hit, _ in slot.entries}
            filled.append(slot)
        return filled

    def unread(self, filled: Sequence[Filled]) -> list[Hit]:
        """Return the candidates whose text has to be read."""
        return [hit for slot in filled for hit, rung in slot.entries if rung.unread]

    def text(self, filled: Sequence[Filled]) -> tuple[list[Filled], str, float]:
        """Return the slots, their text and its price.

        The text is priced once more as a whole: where prices do not quite add up, the tail is cut until it holds.
        """
        kept = [slot for slot in filled if slot.entries]
        while kept:
            pieces = [(hit.address.family, rung) for slot in kept for hit, rung in slot.entries]
            text = joined(pieces, self.forms)
            cost = self.forms.cost(text)
            if cost <= self.max_tokens:
                return kept, text, cost
            last = attrs.evolve(kept[-1], entries=kept[-1].entries[:-1])
            kept = [*kept[:-1], *([last] if last.entries else [])]
        return [], "", 0.0

    def _slot(
        self,
        supply: Supply,
        room: float,
        shown: Mapping[Address, RawCandidate],
        read: Mapping[Address, Read],
        *,
        reading: bool,
    ) -> Filled:
        hits = [
            Hit(candidate=raw, score=0.0, match=0.0, channels=())
            for raw in supply.offered.candidates
            if raw.address not in shown and not self.excluded(raw.address)
        ]
        ladders = self._ladders(supply, hits, room, len(shown), read, reading=reading)
        among = supply.offered.among
        entries = _planned(hits, ladders, room)
        if not among:
            return Filled(supply=supply, entries=entries, room=room)
        before = sum(address.family in among for address in shown)
        left = _left(among, before, entries)
        # As dear as it can get, so that it fits whatever it makes place for.
        if left and (spared := room - self._remark(supply, sum(among.values()))[1].cost) >= 0.0:
            entries = _planned(hits, ladders, spared)
            left = _left(among, before, entries)
            entries = (*entries, self._remark(supply, left))
        return Filled(supply=supply, entries=entries, room=room, left_out=left)

    def _remark(self, supply: Supply, left: int) -> tuple[Hit, Rung]:
        """Return the entry that says how many items are not shown."""
        things = "item is" if left == 1 else "items are"
        raw = note(self.scope_id, supply.slot, f"{left} more {things} not shown; search for them.")
        hit = Hit(candidate=raw, score=0.0, match=0.0, channels=())
        (ladder,) = self._ladders(supply, [hit], inf, 0, {}, reading=False)
        return hit, ladder.rungs[-1]

    def _ladders(
        self,
        supply: Supply,
        hits: Sequence[Hit],
        room: float,
        before: int,
        read: Mapping[Address, Read],
        *,
        reading: bool,
    ) -> list[Ladder]:
        """Return the ladders of those that the room could hold, and of one more."""
        offered = supply.offered
        forms = attrs.evolve(self.forms, item_bytes=_UNCAPPED) if len(hits) == 1 else self.forms
        ladders: list[Ladder] = []
        least = 0.0
        for place, hit in enumerate(hits, before + 1):
            if least > room:
                break
            noted = hit.candidate.kind == "note"
            # The body of a directory is what lies below it.
            directory = hit.candidate.kind == "directory" and offered.detail == "full"
            ladder = forms.ladder(
                hit,
                place=place,
                bucket=supply.slot,
                ceiling="overview" if directory else offered.detail,
                brief=offered.detail != "abstract" or noted,
                read=read.get(hit.address),
                reading=reading,
            )
            if noted:  # its name alone says nothing
                ladder = attrs.evolve(ladder, bare=attrs.evolve(ladder.bare, cost=inf))
            if offered.whole:
                ladder = Ladder(
                    bare=ladder.bare, rungs=(attrs.evolve(ladder.rungs[-1], stage=WIDE),), bucket=supply.slot
                )
            ladders.append(ladder)
            least += ladder.rungs[0].cost
        return ladders


def _planned(hits: Sequence[Hit], ladders: Sequence[Ladder], room: float) -> tuple[tuple[Hit, Rung], ...]:
    plan = plan_tiers(ladders, room)
    return tuple((hits[place], rung) for place, rung in plan.chosen.items())


def _left(among: Mapping[str, int], before: int, entries: Collection[tuple[Hit, Rung]]) -> int:
    return max(0, sum(among.values()) - before - sum(hit.address.family in among for hit, _ in entries))
