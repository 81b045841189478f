"""Rounds: what a lower floor admits of the same pools is merged into what was found before.  Pure.

A round asks nobody anything: the pools of the first one are kept, and are admitted and fused again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nextafter

import attrs

from powerctx_core.errors import PlanInvariantError
from powerctx_core.recall.fusion import Fused, deal
from powerctx_core.types import Address, Candidate, Hit, RawCandidate

__all__ = ["Gathered", "Identity", "appended", "first_round", "identity", "joined", "reselect"]

Identity = Address | tuple[Address, str]


def identity(found: Hit | Candidate | RawCandidate) -> Identity:
    """Return what makes evidence the same as other: its address, and the fields that its family declares."""
    evidence = found.evidence
    return (found.address, repr(sorted(evidence.items()))) if evidence else found.address


@attrs.frozen
class Gathered:
    """What the rounds so far found in one (family, scope).

    Attributes:
        merged: in the order of judging: those of the first round, then what each later one added, in its fused order.
        ordered: in the order of delivery: that of the latest round, then what it did not admit again, as merged; where
            rounds are appended, as merged.
        share: how many of them the first round may deliver; it never becomes fewer.
    """

    merged: tuple[Hit, ...]
    ordered: tuple[Hit, ...]
    share: int

    def joined(self, hits: Sequence[Hit]) -> Gathered:
        """Return this with the hits of a further round, in their fused order.

        What was found before keeps its record where it is judged, and stands where the later round puts it.
        """
        missed = {identity(hit): hit for hit in self.merged}
        # What is known is taken out as it comes again, so that what is left is what this round did not admit.
        new = [hit for hit in hits if missed.pop(identity(hit), None) is None]
        return Gathered((*self.merged, *new), (*hits, *missed.values()), self.share)

    def appended(self, fused: Fused, most: float) -> Gathered:
        """Return this with what a further round adds behind it, scored *most* at most."""
        known = {identity(hit) for hit in self.merged}
        new = [fused.hit(key, most) for key in fused.keys if identity(fused.candidates[key]) not in known]
        return Gathered((*self.merged, *new), (*self.ordered, *new), self.share)


def first_round(windows: Sequence[Sequence[Hit]], ceiling: int) -> list[Gathered]:
    """Return the groups of one family after its first round, in the order of its scopes.

    Args:
        windows: the hits of each scope, in fused order.
        ceiling: candidates of the family over all scopes.
    """
    shares = deal(windows, ceiling)
    return [Gathered(tuple(window), tuple(window), len(share)) for window, share in zip(windows, shares, strict=True)]


def reselect(family: str, groups: Sequence[Gathered], ceiling: int) -> list[list[Hit]]:
    """Return what each group of *family* may deliver: at least its share of the first round, at most *ceiling* in all.

    Raises:
        PlanInvariantError: there would be more; the message is ``<family>-candidate-limit``.
    """
    chosen = deal([group.ordered for group in groups], ceiling, [group.share for group in groups])
    if sum(map(len, chosen)) > ceiling:
        raise PlanInvariantError(f"{family}-candidate-limit")
    return chosen


def joined(
    groups: Mapping[str, Sequence[Gathered]], windows: Mapping[str, Sequence[Sequence[Hit]]]
) -> dict[str, list[Gathered]]:
    """Return the groups of all families with the windows of a further round."""
    return {
        family: [group.joined(window) for group, window in zip(groups[family], windows[family], strict=True)]
        for family in groups
    }


def appended(
    groups: Mapping[str, Sequence[Gathered]], windows: Mapping[str, Sequence[Fused]]
) -> dict[str, list[Gathered]]:
    """Return the groups of all families with what a further round adds, scored below everything that they hold.

    The best of a channel scores its whole weight, whatever it is worth: at a lower floor that would put what hardly
    matches before what matched at first.
    """
    least = min((hit.score for given in groups.values() for group in given for hit in group.merged), default=None)
    most = 1.0 if least is None else nextafter(least, 0.0)
    return {
        family: [group.appended(window, most) for group, window in zip(groups[family], windows[family], strict=True)]
        for family in groups
    }
