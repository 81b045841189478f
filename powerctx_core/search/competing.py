"""From hits to what competes for a pack: conditions, exclusions, the threshold, equal texts, and the order.  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

import attrs

from powerctx_core.search.wants import Wants
from powerctx_core.types import HEAD_BYTES, Hit, RawCandidate

__all__ = ["Competing", "competing"]


@attrs.frozen(kw_only=True)
class Competing:
    """What competes, and what was left out before.

    Attributes:
        hits: best first.
        buckets: of each.
        cooled: places of those that were delivered in an earlier turn.
        searched: bucket -> hits found.
    """

    hits: tuple[Hit, ...]
    buckets: tuple[str, ...]
    cooled: frozenset[int]
    searched: Mapping[str, int]
    filtered: int
    excluded: int
    threshold_removed: int
    deduped: int
    top_match: float | None


def competing(
    hits: Sequence[Hit],
    wants: Wants,
    cooled: Collection[str],
    order: Callable[[Sequence[Hit]], Sequence[Hit]],
) -> Competing:
    """Return what competes.

    Args:
        hits: what was recalled, in its order.
        wants: of the request.
        cooled: URIs that were delivered in earlier turns.
        order: puts hits into the order in which they compete.
    """
    conditions = wants.request.retrieval.conditions
    actor_alone = wants.request.peer_scope == "actor"
    left = Counter[str]()
    kept: list[Hit] = []
    for hit in hits:
        raw = hit.candidate
        if conditions and not conditions.hold(raw):
            left["filtered"] += 1
        elif wants.excludes(hit.address) or (actor_alone and wants.origin(raw) == "other"):
            left["excluded"] += 1
        elif hit.match < wants.threshold:
            left["threshold"] += 1
        else:
            kept.append(hit)
    ordered = order(_ordered(kept, wants))
    unlike = _different(ordered)
    different = unlike if wants.limit is None else unlike[: wants.limit]
    return Competing(
        hits=tuple(different),
        buckets=tuple(wants.bucket(hit.candidate) for hit in different),
        cooled=frozenset(place for place, hit in enumerate(different) if hit.address.uri in cooled),
        searched=dict(sorted(Counter(wants.bucket(hit.candidate) for hit in hits).items())),
        filtered=left["filtered"],
        excluded=left["excluded"],
        threshold_removed=left["threshold"],
        deduped=len(ordered) - len(unlike),
        top_match=max((hit.match for hit in hits), default=None),
    )


def _ordered(hits: Sequence[Hit], wants: Wants) -> list[Hit]:
    """Return the hits with those of other actors further behind; equal ones stay as they are."""
    penalties = [wants.penalty(hit.candidate) for hit in hits]
    if not any(penalties):
        return list(hits)
    places = sorted(range(len(hits)), key=lambda place: (penalties[place] - hits[place].score, place))
    return [hits[place] for place in places]


def _different(hits: Sequence[Hit]) -> list[Hit]:
    """Return the first of each text: a second one that says the same has nothing to add."""
    seen: set[tuple[str, int]] = set()
    different = []
    for hit in hits:
        text = _text(hit.candidate)
        if text not in seen:
            seen.add(text)
            different.append(hit)
    return different


def _text(candidate: RawCandidate) -> tuple[str, int]:
    return " ".join(candidate.head.split()), candidate.body_bytes if candidate.body_bytes > HEAD_BYTES else 0
