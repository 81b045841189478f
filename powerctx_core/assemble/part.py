"""One text while it is filled: what is left of each budget, and the longest form of an entry that still fits.

A candidate that is too long is asked for its frame and its first bytes, and most end there.  What is taken is escaped
and priced once whole, and near the cut again, so the work is linear in the text looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Final, NamedTuple

import attrs

from powerctx_core.assemble.budget import MIN_CUT_BYTES, Meter, utf8_bytes
from powerctx_core.assemble.cutting import longest_cut, prefix_by_price
from powerctx_core.ports import Renderer, Selection
from powerctx_core.text.cut import ELLIPSIS, cut_to_bytes, first_bytes, surely_keeps
from powerctx_core.types import Candidate

__all__ = ["SIZE_REASONS", "Entry", "Part", "Refusal", "Room", "rooms"]

_TOO_SHORT, _CANNOT_BE_CUT = "below_min_bytes", "no_fitting_truncation"
SIZE_REASONS: Final = (_TOO_SHORT, _CANNOT_BE_CUT)
"""Why an entry cannot be taken for the size budgets: too short to be cut, or not even its shortest cut fits."""

_CHUNK = 256


@attrs.frozen(kw_only=True)
class Entry:
    """One planned entry.

    Attributes:
        piece: its text, ending in a newline.
        cut: the body was truncated.
        squeezed: it was for a budget of the request, and not only because no entry may be longer.
        heading: of the group that it is the first of, ending in a newline; most often nothing.
    """

    candidate: Candidate
    piece: str
    cut: bool
    squeezed: bool = False
    heading: str = ""


@attrs.frozen
class Refusal:
    """Why an entry was not taken.

    Attributes:
        reason: ``blank``, or one of :data:`SIZE_REASONS`.
        unit: of the first size budget that it does not fit.
    """

    reason: str
    unit: str | None = None


class _Piece(NamedTuple):
    """A rendered entry, and what it takes of each room."""

    text: str
    prices: Sequence[float]


class Room:
    """What is left of one size budget; texts that share the budget share the room."""

    __slots__ = ("left", "meter")

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.left = float(meter.limit)


def rooms(meters: Iterable[Meter]) -> list[Room]:
    """Return the room of each budget, with nothing in it yet."""
    return [Room(meter) for meter in meters]


class Part:
    """A text that takes entries one by one, and what is left for it.

    What it has beside its entries is paid for before them: the frame with the first entry, so that a text without
    entries costs nothing, and a heading with the first entry below it.

    *before* are entries of an earlier text of the same renderer, selection and room: as long as the same candidates are
    taken, these stand as they are.
    """

    def __init__(
        self,
        renderer: Renderer,
        selection: Selection,
        left: Sequence[Room],
        item_bytes: int,
        before: Sequence[Entry] = (),
    ) -> None:
        self.renderer = renderer
        self.selection = selection
        self.rooms = left
        self.item_bytes = item_bytes
        self.opening, self.closing = renderer.open(selection), renderer.close(selection)
        self.entries: list[Entry] = []
        self._before = before
        self._kept = 0
        """How many entries of *before* stand again: all so far, or none follows."""
        self._group = getattr(renderer, "group", None)
        self._short_of: str | None = None
        """Unit of the budget that had no room when it was last asked for too much."""

    @property
    def text(self) -> str | None:
        """The text so far, or ``None`` without entries."""
        if not self.entries:
            return None
        return "".join((self.opening, *(entry.heading + entry.piece for entry in self.entries), self.closing))

    def over(self) -> tuple[str, ...]:
        """Return the units of the budgets that the frame alone exceeds."""
        units = [
            room.meter.unit
            for room in self.rooms
            if room.meter.cost(self.opening) + room.meter.cost(self.closing) > room.meter.limit
        ]
        return tuple(dict.fromkeys(units))

    def take(self, candidate: Candidate) -> Refusal | None:
        """Take *candidate* whole or cut, or return why it cannot be taken."""
        before = [room.left for room in self.rooms]
        if not self.entries:
            self._charge(self.opening)
            self._charge(self.closing)
        heading = self._heading(candidate)
        if heading:
            self._charge(heading)
        found = self._standing(candidate) or self._fitted(candidate, heading)
        if isinstance(found, Refusal):
            for room, left in zip(self.rooms, before, strict=True):
                room.left = left
            return found
        entry, prices = found
        for room, price in zip(self.rooms, prices, strict=True):
            room.left -= price
        self.entries.append(entry)
        return None

    def fits(self, candidate: Candidate) -> bool:
        """Tell whether *candidate* could be taken now, whole or cut: it is, and is given back."""
        if not candidate.text or candidate.text.isspace():
            return False
        left, kept = [room.left for room in self.rooms], self._kept
        if self.take(candidate) is not None:
            return False
        self.entries.pop()
        self._kept = kept
        for room, before in zip(self.rooms, left, strict=True):
            room.left = before
        return True

    def _heading(self, candidate: Candidate) -> str:
        """Return the heading that an entry needs here: a renderer may group entries of one family that follow."""
        if self._group is None:
            return ""
        family = candidate.address.family
        if self.entries and self.entries[-1].candidate.address.family == family:
            return ""
        heading: str = self._group(family, self.selection)
        return heading

    def _standing(self, candidate: Candidate) -> tuple[Entry, Sequence[float]] | None:
        """Return what was made of *candidate* before, and what it takes, where everything ahead of it was the same."""
        place = len(self.entries)
        if self._kept < place or place >= len(self._before) or self._before[place].candidate != candidate:
            return None
        self._kept += 1
        entry = self._before[place]
        return entry, [room.meter.cost(entry.piece) for room in self.rooms]

    def _fitted(self, candidate: Candidate, heading: str) -> tuple[Entry, Sequence[float]] | Refusal:
        """Return the entry and what it takes of each room, or the reason why there is none."""
        body = candidate.text
        capped = candidate.body_bytes > self.item_bytes or candidate.body_bytes > utf8_bytes(body)
        if capped:
            # What is shown of a body that is cut starts with its first word.
            body = body.lstrip()
            keeps_least = surely_keeps(body, self.item_bytes, MIN_CUT_BYTES)
            if keeps_least and (self._overdrawn() or self._frame(candidate, body, cut=True) is None):
                return Refusal(_CANNOT_BE_CUT, self._short_of)
            body = cut_to_bytes(body, self.item_bytes)
            if not body:
                return Refusal("blank")
        size = utf8_bytes(body)
        refused = _TOO_SHORT if size < MIN_CUT_BYTES else _CANNOT_BE_CUT
        if self._overdrawn():
            return Refusal(refused, self._short_of)
        # Escaping only lengthens: a body that is too long as it is need not be rendered to know that.
        if self._prices(lambda meter: float(size) if meter.unit == "bytes" else 0.0) is not None:
            piece = self._whole(self._frame(candidate, body, cut=capped), body)
            if piece is not None:
                return Entry(candidate=candidate, piece=piece.text, cut=capped, heading=heading), piece.prices
        if size >= MIN_CUT_BYTES:
            body = body.lstrip()
            piece = self._cut(self._frame(candidate, body, cut=True), body)
            if piece is not None:
                entry = Entry(candidate=candidate, piece=piece.text, cut=True, squeezed=True, heading=heading)
                return entry, piece.prices
        return Refusal(refused, self._short_of)

    def _overdrawn(self) -> bool:
        """Tell whether a budget has less than nothing left, and note the first of them."""
        for room in self.rooms:
            if room.left < 0.0:
                self._short_of = room.meter.unit
                return True
        return False

    def _prices(self, cost: Callable[[Meter], float]) -> Sequence[float] | None:
        """Return what *cost* says of each budget; ``None`` when one has not that room, and note the first of them."""
        prices = []
        for room in self.rooms:
            price = cost(room.meter)
            if price > room.left:
                self._short_of = room.meter.unit
                return None
            prices.append(price)
        return prices

    def _piece(self, text: str) -> _Piece | None:
        """Return *text* and its prices, or ``None`` when it does not fit."""
        prices = self._prices(lambda meter: meter.cost(text))
        return None if prices is None else _Piece(text, prices)

    def _charge(self, text: str) -> None:
        for room in self.rooms:
            room.left -= room.meter.cost(text)

    def _frame(self, candidate: Candidate, body: str, *, cut: bool) -> tuple[str, str] | None:
        """Return what stands around *body*, or ``None`` when there is no room for it and the first of *body*."""
        before, after = self.renderer.entry(candidate, len(self.entries) + 1, self.selection, cut=cut)
        after = f"{ELLIPSIS}{after}" if cut else after
        return (before, after) if self._has_room(before, body, after) else None

    def _has_room(self, before: str, body: str, after: str) -> bool:
        """Tell whether the first bytes of *body*, fewer than any cut keeps, fit: most that do not fit end here."""
        return self._piece(f"{before}{self.renderer.escape(first_bytes(body, MIN_CUT_BYTES))}{after}") is not None

    def _whole(self, frame: tuple[str, str] | None, body: str) -> _Piece | None:
        """Return the piece with all of *body*, or ``None`` when it does not fit."""
        if frame is None:
            return None
        before, after = frame
        return self._piece(f"{before}{self.renderer.escape(body)}{after}")

    def _cut(self, frame: tuple[str, str] | None, body: str) -> _Piece | None:
        """Return the piece with the longest cut of *body* that fits, or ``None``."""
        if frame is None:
            return None
        around = "".join(frame)
        limit = len(body)
        for room in self.rooms:
            if room.meter.unit == "tokens":
                limit = prefix_by_price(partial(self._price, room.meter, around, body), limit, room.left)
            else:
                limit = self._prefix(room.meter, body[:limit], room.left - room.meter.cost(around))
        whole = cache(partial(self._whole, frame))
        shorter = longest_cut(body, limit, lambda text: whole(text) is not None)
        return None if shorter is None else whole(shorter)

    def _price(self, meter: Meter, around: str, body: str, taken: int) -> float:
        return meter.cost(self.renderer.escape(body[:taken]) + around)

    def _prefix(self, meter: Meter, body: str, room: float) -> int:
        """Return how many characters of *body* cost at most *room* when escaped; escape works by character."""
        escape, cost = self.renderer.escape, meter.cost
        taken = 0
        while taken < len(body):
            chunk = body[taken : taken + _CHUNK]
            price = cost(escape(chunk))
            if price > room:
                for char in chunk:
                    room -= cost(escape(char))
                    if room < 0:
                        return taken
                    taken += 1
                return taken
            room -= price
            taken += len(chunk)
        return taken
