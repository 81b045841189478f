"""Which candidates a pack with quotas is made of: each bucket's best, within what the budget can carry.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["sampled"]


def sampled(buckets: Sequence[str], costs: Sequence[float], quotas: Mapping[str, int], room: float) -> list[int]:
    """Return the places of the candidates that may enter, best first.

    A bucket gives its best, as many as its quota; places that it leaves empty, and those of buckets without a quota,
    are taken by the best others.  Quotas larger than the budget can carry are scaled down in proportion, and each
    keeps one; where not even one of each fits, buckets are served in the order of their best.

    Args:
        buckets: of each candidate, best first.
        costs: of the shortest text of each.
        quotas: bucket -> entries; 0 keeps a bucket out.
        room: what all entries may cost.
    """
    lanes: dict[str, list[int]] = {}
    for place, bucket in enumerate(buckets):
        if quotas.get(bucket, 1) > 0:
            lanes.setdefault(bucket, []).append(place)
    wanted = {bucket: min(quotas[bucket], len(lane)) for bucket, lane in lanes.items() if bucket in quotas}
    total = sum(quotas.values())
    slots = total
    while slots > len(wanted) and _cost(_scaled(wanted, quotas, slots), lanes, costs) > room:
        slots -= 1
    taken = {place for bucket, count in _scaled(wanted, quotas, slots).items() for place in lanes[bucket][:count]}
    if sum(costs[place] for place in taken) > room:
        taken = _served(sorted(taken), costs, room)
    left = room - sum(costs[place] for place in taken)
    for place, bucket in enumerate(buckets):
        if len(taken) >= max(slots, len(wanted)):
            break
        if bucket in lanes and place not in taken and costs[place] <= left:
            taken.add(place)
            left -= costs[place]
    return sorted(taken)


def _scaled(wanted: Mapping[str, int], quotas: Mapping[str, int], slots: int) -> dict[str, int]:
    """Return each bucket's share of *slots*, at least one."""
    total = sum(quotas.values())
    if slots >= total:
        return dict(wanted)
    return {bucket: min(count, max(1, quotas[bucket] * slots // total)) for bucket, count in wanted.items()}


def _cost(shares: Mapping[str, int], lanes: Mapping[str, Sequence[int]], costs: Sequence[float]) -> float:
    return sum(costs[place] for bucket, count in shares.items() for place in lanes[bucket][:count])


def _served(places: Sequence[int], costs: Sequence[float], room: float) -> set[int]:
    taken: set[int] = set()
    for place in places:
        if costs[place] <= room:
            taken.add(place)
            room -= costs[place]
    return taken
