"""The planner of ``prepare``: takes candidates in order, cuts or skips what does not fit, and goes on.

The plan holds the rendered pieces; building is joining them, so a probe and a build cannot differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import attrs

from powerctx_core.assemble.budget import Budget, Meter
from powerctx_core.assemble.part import SIZE_REASONS, Entry, Part, Refusal, rooms
from powerctx_core.errors import PlanInvariantError
from powerctx_core.ports import Renderer, Selection
from powerctx_core.recall.rounds import Identity, identity
from powerctx_core.types import Address, Candidate, Hit, ToolList

__all__ = ["Left", "Plan", "check_pieces", "fill", "plan", "used"]


_C = TypeVar("_C", Candidate, Hit)
"""What competes: candidates, or hits of which a candidate is made when its turn comes, since most get none."""


class Left(NamedTuple):
    """A candidate that was left out; a tuple, since a plan may leave out many.

    Attributes:
        address: its.
        reason: why.
        unit: of the size budget that it did not fit, when that is why.
    """

    address: Address
    reason: str
    unit: str | None = None


@attrs.frozen(kw_only=True)
class Plan:
    """What will be delivered, and what was left out and why.

    Attributes:
        text: the final text, or ``None`` without entries.
        left: what is not delivered, in the order in which it was tried.
        used: unit -> what the whole takes of that size budget, rounded up.
        frame_over: units of the budgets that the text around the entries exceeds alone, so that it has none.
        tools: what is listed to be read instead, when delivery is split; its entries are *listed*.
        fits: tells whether a further candidate would be taken, whole or cut.
    """

    text: str | None
    entries: tuple[Entry, ...]
    left: tuple[Left, ...] = ()
    used: Mapping[str, int] = MappingProxyType({})
    frame_over: tuple[str, ...] = ()
    tools: ToolList | None = None
    listed: tuple[Entry, ...] = ()
    fits: Callable[[Candidate], bool] = attrs.field(default=lambda _: False, eq=False, repr=False)

    @cached_property
    def omitted(self) -> Mapping[str, int]:
        """Reason -> number of candidates that were left out for it."""
        return MappingProxyType(dict(sorted(Counter(each.reason for each in self.left).items())))

    @property
    def dropped(self) -> int:
        """Candidates that were left out for a size budget of the request."""
        return sum(self.omitted.get(reason, 0) for reason in SIZE_REASONS)

    @property
    def squeezed(self) -> int:
        """Entries that were cut for a size budget of the request."""
        return sum(entry.squeezed for entry in self.entries)


def _itself(candidate: Any) -> Any:
    return candidate


def plan(
    candidates: Sequence[_C],
    budget: Budget,
    meters: Sequence[Meter],
    renderer: Renderer,
    selection: Selection,
    *,
    shown: Callable[[_C], Candidate] = _itself,
    before: Plan | None = None,
) -> Plan:
    """Choose entries for the budget, in the order given.

    An entry that does not fit whole is cut, one that cannot be cut (below 64 bytes of body) is skipped, and the next
    ones are tried.

    Args:
        candidates: best first.
        budget: limits on the number of entries.
        meters: size budgets.
        renderer: of the text.
        selection: what it may know.
        shown: returns what the renderer sees of one.
        before: a plan of other candidates for all the same: entries that both begin with are not made anew.

    Raises:
        PlanInvariantError: the renderer breaks its promises.
    """
    part = Part(renderer, selection, rooms(meters), budget.item_bytes, before.entries if before is not None else ())
    over = part.over()
    left = fill(candidates, budget, lambda candidate: part.take(shown(candidate)))
    check_pieces(part)
    return Plan(
        text=part.text,
        entries=tuple(part.entries),
        left=left,
        used=used(meters, part.text or ""),
        frame_over=over,
        fits=part.fits,
    )


def used(meters: Sequence[Meter], text: str) -> dict[str, int]:
    """Return what the final text takes of each size budget.

    Raises:
        PlanInvariantError: it takes more than there is.
    """
    return {meter.unit: meter.check(text) for meter in meters}


def fill(candidates: Sequence[_C], budget: Budget, take: Callable[[_C], Refusal | None]) -> tuple[Left, ...]:
    """Offer candidates to *take* in the order given, within the limits on their number.

    Args:
        candidates: best first.
        budget: its limits on entries; sizes are the business of *take*.
        take: takes a candidate, or returns why it cannot.

    Returns:
        What was not taken, and why.
    """
    family_items, most = dict(budget.family_items), budget.max_items
    left: list[Left] = []
    seen: set[Identity] = set()
    taken = known = 0
    for candidate in candidates:
        seen.add(identity(candidate))
        if len(seen) == known:
            left.append(Left(candidate.address, "duplicate"))
            continue
        known += 1
        text = candidate.text
        if not text or text.isspace():
            left.append(Left(candidate.address, "blank"))
        elif taken >= most:
            left.append(Left(candidate.address, "entry_limit"))
        elif family_items and family_items.get(candidate.address.family, 1) <= 0:
            left.append(Left(candidate.address, "family_limit"))
        elif (refusal := take(candidate)) is not None:
            left.append(Left(candidate.address, refusal.reason, refusal.unit))
        else:
            taken += 1
            if candidate.address.family in family_items:
                family_items[candidate.address.family] -= 1
    return tuple(left)


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
