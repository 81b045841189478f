"""From hits to what competes for a pack: conditions, exclusions, the threshold, equal texts, and the order.  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

import attrs

from powerctx_core.search.turns import Given, whole_text
from powerctx_core.search.wants import Wants
from powerctx_core.types import Address, Hit

__all__ = ["Competing", "competing"]

_THINNING = frozenset({"filtered", "excluded", "duplicate", "cooled"})


@attrs.frozen(kw_only=True)
class Competing:
    """What competes, and what was left out before.

    Attributes:
        hits: best first.
        left: what was left out before, and why: ``filtered``, or a reason of receipts.
        buckets: of each.
        cooled: places of those that were delivered in an earlier turn.
        searched: bucket -> hits found.
    """

    hits: tuple[Hit, ...]
    buckets: tuple[str, ...]
    cooled: frozenset[int]
    searched: Mapping[str, int]
    left: tuple[tuple[Hit, str], ...]
    top_match: float | None

    @property
    def thinned(self) -> bool:
        """Something was left out that took the place of another one in the pools."""
        return bool(self.cooled) or any(why in _THINNING for _, why in self.left)

    def number(self, reason: str) -> int:
        """Return how many were left out for a reason."""
        return sum(why == reason for _, why in self.left)


def competing(
    hits: Sequence[Hit],
    wants: Wants,
    cooled: Given,
    order: Callable[[Sequence[Hit]], Sequence[Hit]],
    *,
    opening: Given = Given(),  # noqa: B008 - frozen
    most: int | None = None,
) -> Competing:
    """Return what competes.

    Args:
        hits: what was recalled, in its order.
        wants: of the request.
        cooled: what was delivered in earlier turns.
        order: puts hits into the order in which they compete.
        opening: what is left out, since an agent has it since it started.
        most: how many compete at most, beside the limit of the request.
    """
    conditions = wants.request.retrieval.conditions
    actor_alone = wants.request.peer_scope == "actor"
    left: list[tuple[Hit, str]] = []
    kept: list[Hit] = []
    for hit in hits:
        raw = hit.candidate
        if conditions and not conditions.hold(raw):
            left.append((hit, "filtered"))
        elif opening.holds(raw) or wants.excludes(hit.address) or (actor_alone and wants.origin(raw) == "other"):
            left.append((hit, "excluded"))
        elif hit.match < wants.threshold:
            left.append((hit, "below_threshold"))
        else:
            kept.append(hit)
    ordered = order(_ordered(kept, wants))
    unlike, repeated = _different(ordered)
    known = {hit.address for hit in unlike if cooled.holds(hit.candidate)}
    limits = [limit for limit in (wants.limit, most) if limit is not None]
    different, beyond = _limited(unlike, known, min(limits, default=None))
    left += [(hit, "duplicate") for hit in repeated]
    left += [(hit, "cooled" if hit.address in known else "entry_limit") for hit in beyond]
    return Competing(
        hits=tuple(different),
        buckets=tuple(wants.bucket(hit.candidate) for hit in different),
        cooled=frozenset(place for place, hit in enumerate(different) if hit.address in known),
        searched=dict(sorted(Counter(wants.bucket(hit.candidate) for hit in hits).items())),
        left=tuple(left),
        top_match=max((hit.match for hit in hits), default=None),
    )


def _ordered(hits: Sequence[Hit], wants: Wants) -> list[Hit]:
    """Return the hits with those of other actors further behind; equal ones stay as they are."""
    penalties = [wants.penalty(hit.candidate) for hit in hits]
    if not any(penalties):
        return list(hits)
    places = sorted(range(len(hits)), key=lambda place: (penalties[place] - hits[place].score, place))
    return [hits[place] for place in places]


def _different(hits: Sequence[Hit]) -> tuple[list[Hit], list[Hit]]:
    """Return the first of each text, and the others: a second one that says the same has nothing to add.

    Texts are the same when each byte is.  One that is longer than its head is not known to be another's.
    """
    seen: set[str] = set()
    different: list[Hit] = []
    repeated: list[Hit] = []
    for hit in hits:
        text = whole_text(hit.candidate)
        if text is not None and text in seen:
            repeated.append(hit)
            continue
        if text is not None:
            seen.add(text)
        different.append(hit)
    return different, repeated


def _limited(hits: Sequence[Hit], cooled: Collection[Address], limit: int | None) -> tuple[list[Hit], list[Hit]]:
    """Return at most *limit* hits, and the others; what was delivered before takes no place of anything new."""
    if limit is None:
        return list(hits), []
    new_first = sorted(range(len(hits)), key=lambda place: hits[place].address in cooled)
    within, beyond = sorted(new_first[:limit]), sorted(new_first[limit:])
    return [hits[place] for place in within], [hits[place] for place in beyond]
