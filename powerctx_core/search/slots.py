"""From what providers offer to the slots of a pack: each spends its share, and what earlier ones left.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import ceil, inf
from types import MappingProxyType
from typing import Any

import attrs

from powerctx_core.assemble.forms import Forms, Read, joined
from powerctx_core.assemble.tiers import WIDE, Ladder, Rung, plan_tiers
from powerctx_core.ports import Offered
from powerctx_core.receipt.parts import digest
from powerctx_core.receipt.v2 import SlotOutcome, SlotUse
from powerctx_core.slot_sources import note
from powerctx_core.types import Address, Hit, ManifestSlot, RawCandidate

__all__ = ["Filled", "Filling", "Supply"]

_UNCAPPED = 1 << 30
_SHARE_DIGITS = 6


@attrs.frozen(kw_only=True)
class Supply:
    """A slot, and what there is for it.

    Attributes:
        absent: why its source was not asked, or gave no answer: ``lifecycle``, ``not_installed``, ``late``, ``failed``.
    """

    slot: ManifestSlot
    offered: Offered = attrs.field(factory=Offered)
    absent: SlotOutcome | None = None


@attrs.frozen(kw_only=True)
class Filled:
    """A slot of the pack, with or without entries.

    Attributes:
        room: tokens that it had.
        carried: how many of these earlier slots left.
        aside: place of a candidate -> why it was none: ``duplicate`` or ``excluded``.
        left_out: items that the pack does not show, where it says so.
        late: the text was not ready in time.
    """

    supply: Supply
    entries: tuple[tuple[Hit, Rung], ...] = ()
    room: float = 0.0
    carried: float = 0.0
    aside: Mapping[int, str] = MappingProxyType({})
    left_out: int | None = None
    late: bool = False

    @property
    def told(self) -> dict[str, Any]:
        """Its figures."""
        use = self.use
        figures: dict[str, Any] = {"source": use.source, "room": use.room, "used": use.used, "entries": use.entries}
        if use.left_out is not None:
            figures["left_out"] = use.left_out
        if use.content_hash is not None:
            figures["content_hash"] = use.content_hash
        return figures

    @property
    def use(self) -> SlotUse:
        """The slot as a receipt tells it."""
        slot, offered = self.supply.slot, self.supply.offered
        hashed = None
        if offered.whole and self.entries:
            text = "\n".join(hit.candidate.head for hit, _ in self.entries)
            hashed = digest(text.encode(errors="surrogatepass"))
        return SlotUse(
            slot=slot.name,
            source=slot.source,
            outcome=self.outcome,
            share=round(slot.share, _SHARE_DIGITS),
            room=int(self.room),
            carried=int(self.carried),
            used=ceil(sum(rung.cost for _, rung in self.entries)),
            offered=len(offered.candidates),
            entries=len(self.entries),
            left_out=self.left_out if self.entries else None,
            content_hash=hashed,
        )

    @property
    def outcome(self) -> SlotOutcome:
        """Whether it is filled, or else why not."""
        candidates = self.supply.offered.candidates
        if self.entries:
            return "filled"
        if self.supply.absent is not None or not candidates:
            return self.supply.absent or "no_content"
        if self.late:
            return "late"
        if len(self.aside) < len(candidates):
            return "budget"
        return "excluded" if "excluded" in self.aside.values() else "duplicate"

    def candidates(self) -> Iterator[tuple[RawCandidate, Rung | None, str]]:
        """Give each candidate with its form, or why it has none; then what the pack says of its own."""
        shown = {hit.address: rung for hit, rung in self.entries}
        for place, raw in enumerate(self.supply.offered.candidates):
            reason = self.aside.get(place, "late" if self.late else "token_budget")
            rung = None if place in self.aside else shown.pop(raw.address, None)
            yield raw, rung, "" if rung else reason
        for hit, rung in self.entries:
            if hit.address in shown:
                yield hit.candidate, rung, ""


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

    @property
    def framed(self) -> bool:
        """Whether there is room for what stands around the entries."""
        return self.forms.frame <= self.max_tokens

    def fill(self, read: Mapping[Address, Read], *, reading: bool) -> list[Filled]:
        """Return the slots.

        Args:
            read: what was read so far.
            reading: what was not read yet may still be; without it every form is exact.
        """
        room = self.max_tokens - self.forms.frame
        if not self.framed:
            return [Filled(supply=supply) for supply in self.supplies]
        carried = 0.0
        shown: dict[Address, RawCandidate] = {}
        filled: list[Filled] = []
        for supply in self.supplies:
            own = room * supply.slot.share
            slot = attrs.evolve(self._slot(supply, carried + own, shown, read, reading=reading), carried=carried)
            carried = max(0.0, carried + own - sum(rung.cost for _, rung in slot.entries))
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
        kept = list(filled)
        while filled_places := [place for place, slot in enumerate(kept) if slot.entries]:
            pieces = [(hit.address.family, rung) for slot in kept for hit, rung in slot.entries]
            text = joined(pieces, self.forms)
            cost = self.forms.cost(text)
            if cost <= self.max_tokens:
                return kept, text, cost
            last = filled_places[-1]
            kept[last] = attrs.evolve(kept[last], entries=kept[last].entries[:-1])
        return kept, "", 0.0

    def _slot(
        self,
        supply: Supply,
        room: float,
        shown: Mapping[Address, RawCandidate],
        read: Mapping[Address, Read],
        *,
        reading: bool,
    ) -> Filled:
        aside, seen, hits = {}, set(shown), []
        for place, raw in enumerate(supply.offered.candidates):
            if raw.address in seen or self.excluded(raw.address):
                aside[place] = "duplicate" if raw.address in seen else "excluded"
                continue
            seen.add(raw.address)
            hits.append(Hit(candidate=raw, score=0.0, match=0.0, channels=()))
        ladders = self._ladders(supply, hits, room, len(shown), read, reading=reading)
        among = supply.offered.among
        filled = Filled(supply=supply, room=room, aside=aside)
        before = sum(address.family in among for address in shown)
        # Where there are more than were offered, some are left out whatever fits.
        if sum(among.values()) - before <= len(hits):
            entries = _planned(hits, ladders, room)
            left = _left(among, before, entries)
            if not left:
                return attrs.evolve(filled, entries=entries, left_out=left if among else None)
        # As dear as it can get, so that it fits whatever it makes place for.
        spared = room - self._remark(supply, sum(among.values()))[1].cost
        entries = _planned(hits, ladders, room if spared < 0.0 else spared)
        left = _left(among, before, entries)
        if spared >= 0.0:
            entries = (*entries, self._remark(supply, left))
        return attrs.evolve(filled, entries=entries, left_out=left)

    def _remark(self, supply: Supply, left: int) -> tuple[Hit, Rung]:
        """Return the entry that says how many items are not shown."""
        things = "item is" if left == 1 else "items are"
        raw = note(self.scope_id, supply.slot.name, f"{left} more {things} not shown; search for them.")
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
                bucket=supply.slot.name,
                ceiling="overview" if directory else offered.detail,
                brief=offered.detail != "abstract" or noted,
                read=read.get(hit.address),
                reading=reading,
            )
            if noted:  # its name alone says nothing
                ladder = attrs.evolve(ladder, bare=attrs.evolve(ladder.bare, cost=inf))
            if offered.whole:
                ladder = Ladder(
                    bare=ladder.bare, rungs=(attrs.evolve(ladder.rungs[-1], stage=WIDE),), bucket=supply.slot.name
                )
            ladders.append(ladder)
            least += ladder.rungs[0].cost
        return ladders


def _planned(hits: Sequence[Hit], ladders: Sequence[Ladder], room: float) -> tuple[tuple[Hit, Rung], ...]:
    plan = plan_tiers(ladders, room)
    return tuple((hits[place], rung) for place, rung in plan.chosen.items())


def _left(among: Mapping[str, int], before: int, entries: Collection[tuple[Hit, Rung]]) -> int:
    return max(0, sum(among.values()) - before - sum(hit.address.family in among for hit, _ in entries))
