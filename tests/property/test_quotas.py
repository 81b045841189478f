"""Laws of sampling by quotas."""

from __future__ import annotations

from hypothesis import given, strategies as st

from powerctx_core.assemble.quotas import sampled

_BUCKETS = ("events", "entities", "skills", "memories")
_CANDIDATES = st.lists(st.tuples(st.sampled_from(_BUCKETS), st.integers(1, 60)), max_size=40)
_QUOTAS = st.dictionaries(st.sampled_from(_BUCKETS[:3]), st.integers(0, 12), min_size=1, max_size=3)


@given(_CANDIDATES, _QUOTAS, st.integers(0, 1500))
def test_quotas_and_room_hold(candidates: list[tuple[str, int]], quotas: dict[str, int], room: int) -> None:
    """No more than the sum of the quotas enters, none of a bucket with none, within the room, in the order given."""
    buckets, costs = [bucket for bucket, _ in candidates], [float(cost) for _, cost in candidates]
    places = sampled(buckets, costs, quotas, room)

    assert places == sorted(set(places))
    assert len(places) <= sum(quotas.values())
    assert sum(costs[place] for place in places) <= room
    assert all(quotas.get(buckets[place], 1) > 0 for place in places)


@given(_CANDIDATES, _QUOTAS)
def test_with_room_each_bucket_gets_its_quota(candidates: list[tuple[str, int]], quotas: dict[str, int]) -> None:
    """Where all fits, each bucket has its best up to its quota, and places that are left go to the best others."""
    buckets, costs = [bucket for bucket, _ in candidates], [float(cost) for _, cost in candidates]
    places = sampled(buckets, costs, quotas, 10_000)
    allowed = [bucket for bucket in buckets if quotas.get(bucket, 1) > 0]

    for bucket, quota in quotas.items():
        of_bucket = [place for place, each in enumerate(buckets) if each == bucket]
        least = min(quota, len(of_bucket))
        assert set(of_bucket[:least]) <= set(places)
    assert len(places) == min(sum(quotas.values()), len(allowed))


@given(_CANDIDATES, _QUOTAS, st.integers(0, 1500))
def test_each_bucket_keeps_one_where_that_fits(
    candidates: list[tuple[str, int]], quotas: dict[str, int], room: int
) -> None:
    """As long as the best of each bucket with a quota fit together, each of them is in."""
    buckets, costs = [bucket for bucket, _ in candidates], [float(cost) for _, cost in candidates]
    first = [buckets.index(bucket) for bucket, quota in quotas.items() if quota and bucket in buckets]
    places = sampled(buckets, costs, quotas, room)

    if sum(costs[place] for place in first) <= room:
        assert set(first) <= set(places)
    elif first:
        affordable = [place for place in sorted(first) if costs[place] <= room]
        assert not affordable or affordable[0] in places


def test_scaled_in_proportion() -> None:
    """Half of the room carries half of each quota."""
    buckets = ["events"] * 8 + ["skills"] * 4

    assert sampled(buckets, [10.0] * 12, {"events": 8, "skills": 4}, 60) == [0, 1, 2, 3, 8, 9]
    assert sampled(buckets, [10.0] * 12, {"events": 8, "skills": 4}, 15) == [0]
