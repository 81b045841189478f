"""The planner of ``prepare``: takes candidates in order, cuts or skips what does not fit, and goes on.

The plan holds the rendered pieces; building is joining them, so a probe and a build cannot differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import attrs

from powerctx_core.assemble.budget import Budget, Meter
from powerctx_core.assemble.part import SIZE_REASONS, Entry, Part, rooms
from powerctx_core.errors import PlanInvariantError
from powerctx_core.ports import Renderer, Selection
from powerctx_core.types import Address, Candidate, ToolList

__all__ = ["Plan", "check_pieces", "fill", "plan"]


@attrs.frozen(kw_only=True)
class Plan:
    """What will be delivered, and what was left out and why.

    Attributes:
        text: the final text, or ``None`` without entries.
        omitted: reason -> number of candidates.
        frame_over: units of the budgets that the text around the entries exceeds alone, so that it has none.
        tools: what is listed to be read instead, when delivery is split; its entries are *listed*.
        fits: tells whether a further candidate would fit what is left, in its smallest form.
    """

    text: str | None
    entries: tuple[Entry, ...]
    omitted: Mapping[str, int]
    frame_over: tuple[str, ...] = ()
    tools: ToolList | None = None
    listed: tuple[Entry, ...] = ()
    fits: Callable[[Candidate], bool] = attrs.field(default=lambda _: False, eq=False, repr=False)

    @property
    def dropped(self) -> int:
        """Candidates that were left out for a size budget of the request."""
        return sum(self.omitted.get(reason, 0) for reason in SIZE_REASONS)

    @property
    def squeezed(self) -> int:
        """Entries that were cut for a size budget of the request."""
        return sum(entry.squeezed for entry in self.entries)


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
    part = Part(renderer, selection, rooms(meters), budget.item_bytes)
    over = part.over()
    omitted = fill(candidates, budget, part.take)
    check_pieces(part)
    text = part.text
    if text is not None:
        for meter in meters:
            meter.check(text)
    return Plan(text=text, entries=tuple(part.entries), omitted=omitted, frame_over=over, fits=part.fits)


def fill(candidates: Sequence[Candidate], budget: Budget, take: Callable[[Candidate], str | None]) -> Mapping[str, int]:
    """Offer candidates to *take* in the order given, within the limits on their number.

    Args:
        candidates: best first.
        budget: its limits on entries; sizes are the business of *take*.
        take: takes a candidate, or returns why it cannot.

    Returns:
        How many were not taken, by reason.
    """
    family_items = dict(budget.family_items)
    omitted: Counter[str] = Counter()
    seen: set[tuple[Address, str]] = set()
    taken = 0
    for candidate in candidates:
        identity = (candidate.address, repr(sorted(candidate.evidence.items())) if candidate.evidence else "")
        family = candidate.address.family
        known = len(seen)
        seen.add(identity)
        if len(seen) == known:
            omitted["duplicate"] += 1
        elif not candidate.text or candidate.text.isspace():
            omitted["blank"] += 1
        elif taken >= budget.max_items:
            omitted["entry_limit"] += 1
        elif family_items.get(family, 1) <= 0:
            omitted["family_limit"] += 1
        elif (reason := take(candidate)) is not None:
            omitted[reason] += 1
        else:
            taken += 1
            if family in family_items:
                family_items[family] -= 1
    return dict(sorted(omitted.items()))


def check_pieces(part: Part) -> None:
    """Check what a renderer wrote.

    Raises:
        PlanInvariantError: a piece does not end in a newline.
    """
    pieces = [
        ("open", part.opening),
        *((name, text) for entry in part.entries for name, text in (("group", entry.heading), ("entry", entry.piece))),
        ("close", part.closing),
    ]
    for method, piece in pieces:
        if piece and not piece.endswith("\n"):
            raise PlanInvariantError(f"what its {method} returns does not end in a newline")
