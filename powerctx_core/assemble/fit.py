"""The planner of ``prepare``: takes candidates in order, cuts or skips what does not fit, and goes on.

Each candidate's text is escaped at most twice (whole, and cut), so the work is linear in the text looked at.  The plan
holds the rendered pieces; building is joining them, so a probe and a build cannot differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import attrs

from powerctx_core.assemble.budget import MIN_CUT_BYTES, Budget, Meter, utf8_bytes
from powerctx_core.errors import PlanInvariantError
from powerctx_core.ports import Renderer, Selection
from powerctx_core.text.cut import ELLIPSIS, cut_to_bytes, cut_to_chars
from powerctx_core.types import Address, Candidate

__all__ = ["Entry", "Plan", "plan"]

_CHUNK = 256


@attrs.frozen(kw_only=True)
class Entry:
    """One planned entry.

    Attributes:
        piece: its text, ending in a newline.
        cut: the body was truncated.
    """

    candidate: Candidate
    piece: str
    cut: bool


@attrs.frozen(kw_only=True)
class Plan:
    """What will be delivered, and what was left out and why."""

    opening: str
    entries: tuple[Entry, ...]
    closing: str
    omitted: Mapping[str, int]

    @property
    def text(self) -> str | None:
        """The final text, or ``None`` without entries."""
        if not self.entries:
            return None
        return "".join((self.opening, *(entry.piece for entry in self.entries), self.closing))


class _Fitting:
    """What is left of each size budget while entries are taken."""

    def __init__(self, renderer: Renderer, selection: Selection, meters: Sequence[Meter]) -> None:
        self.renderer = renderer
        self.selection = selection
        self.meters = meters
        self.left = [float(meter.limit) for meter in meters]

    def fits(self, text: str) -> bool:
        return all(meter.cost(text) <= left for meter, left in zip(self.meters, self.left, strict=True))

    def charge(self, text: str) -> None:
        self.left = [left - meter.cost(text) for meter, left in zip(self.meters, self.left, strict=True)]

    def piece(self, candidate: Candidate, body: str, ordinal: int, *, cut: bool) -> str:
        before, after = self.renderer.entry(candidate, ordinal, self.selection, cut=cut)
        return f"{before}{self.renderer.escape(body)}{ELLIPSIS if cut else ''}{after}"

    def cut_piece(self, candidate: Candidate, body: str, ordinal: int) -> str | None:
        """Return the piece with the longest cut of *body* that fits, or ``None``."""
        before, after = self.renderer.entry(candidate, ordinal, self.selection, cut=True)
        frame = f"{before}{ELLIPSIS}{after}"
        limit = len(body)
        for meter, left in zip(self.meters, self.left, strict=True):
            if meter.unit == "tokens":
                limit = self._token_prefix(meter, frame, body, left, limit)
            else:
                limit = self._prefix(meter, body[:limit], left - meter.cost(frame))
        while limit > 0:
            shorter = cut_to_chars(body, limit) if limit < len(body) else body
            if utf8_bytes(shorter) < MIN_CUT_BYTES:
                # A sentence end may lie so early that the cut falls below the least length; then any grapheme will do.
                shorter = cut_to_chars(body, limit, sentences=False)
                if utf8_bytes(shorter) < MIN_CUT_BYTES:
                    return None
            piece = f"{before}{self.renderer.escape(shorter)}{ELLIPSIS}{after}"
            if self.fits(piece):
                return piece
            # Only an estimator that is not monotone gets here.
            limit = min(limit - 1, len(shorter) * 9 // 10)
        return None

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

    def _token_prefix(self, meter: Meter, frame: str, body: str, left: float, limit: int) -> int:
        """Return how many characters of *body* fit by bisection: tokens do not add up inside a piece."""
        low, high = 0, limit
        while low < high:
            middle = (low + high + 1) // 2
            if meter.cost(self.renderer.escape(body[:middle]) + frame) <= left:
                low = middle
            else:
                high = middle - 1
        return low


def plan(
    candidates: Sequence[Candidate],
    budget: Budget,
    meters: Sequence[Meter],
    renderer: Renderer,
    selection: Selection,
) -> Plan:
    """Choose entries for the budget, in the order given.

    An entry that does not fit whole is cut, one that cannot be cut (below 64 bytes of body) is skipped, and the next
    ones are tried.

    Raises:
        PlanInvariantError: the renderer breaks its promises.
    """
    opening, closing = renderer.open(selection), renderer.close(selection)
    fitting = _Fitting(renderer, selection, meters)
    fitting.charge(opening)
    fitting.charge(closing)
    family_items = dict(budget.family_items)
    entries: list[Entry] = []
    omitted: Counter[str] = Counter()
    seen: set[tuple[Address, str]] = set()
    for candidate in candidates:
        identity = (candidate.address, repr(sorted(candidate.evidence.items())) if candidate.evidence else "")
        family = candidate.address.family
        known = len(seen)
        seen.add(identity)
        if len(seen) == known:
            omitted["duplicate"] += 1
        elif not candidate.text or candidate.text.isspace():
            omitted["blank"] += 1
        elif len(entries) >= budget.max_items:
            omitted["entry_limit"] += 1
        elif family_items.get(family, 1) <= 0:
            omitted["family_limit"] += 1
        else:
            outcome = _entry(candidate, budget, fitting, len(entries) + 1)
            if isinstance(outcome, str):
                omitted[outcome] += 1
            else:
                entries.append(outcome)
                fitting.charge(outcome.piece)
                if family in family_items:
                    family_items[family] -= 1
    found = Plan(opening=opening, entries=tuple(entries), closing=closing, omitted=dict(sorted(omitted.items())))
    _check(found, meters)
    return found


def _entry(candidate: Candidate, budget: Budget, fitting: _Fitting, ordinal: int) -> Entry | str:
    """Return the entry, or the reason why there is none."""
    body = candidate.text
    capped = candidate.body_bytes > budget.item_bytes or candidate.body_bytes > utf8_bytes(body)
    if capped:
        # What is shown of a body that is cut starts with its first word.
        body = cut_to_bytes(body.lstrip(), budget.item_bytes)
        if not body:
            return "blank"
    # Escaping only lengthens, so a body that is too long as it is need not be rendered to know that it does not fit.
    if all(left >= 0 for left in fitting.left):
        if not any(
            meter.unit == "bytes" and utf8_bytes(body) > left
            for meter, left in zip(fitting.meters, fitting.left, strict=True)
        ):
            piece = fitting.piece(candidate, body, ordinal, cut=capped)
            if fitting.fits(piece):
                return Entry(candidate=candidate, piece=piece, cut=capped)
        if utf8_bytes(body) >= MIN_CUT_BYTES:
            shorter = fitting.cut_piece(candidate, body.lstrip(), ordinal)
            if shorter is not None:
                return Entry(candidate=candidate, piece=shorter, cut=True)
    return "below_min_bytes" if utf8_bytes(body) < MIN_CUT_BYTES else "no_fitting_truncation"


def _check(found: Plan, meters: Sequence[Meter]) -> None:
    pieces = [("open", found.opening), *(("entry", entry.piece) for entry in found.entries), ("close", found.closing)]
    for method, piece in pieces:
        if piece and not piece.endswith("\n"):
            raise PlanInvariantError(f"what its {method} returns does not end in a newline")
    text = found.text
    if text is not None:
        for meter in meters:
            meter.check(text)
