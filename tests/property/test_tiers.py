"""Laws of the planner of tiers, over any costs."""

from __future__ import annotations

import itertools
from functools import partial

from hypothesis import given, strategies as st

from powerctx_core.assemble.tiers import (
    CAPPED,
    DIRECTORY,
    READABLE_PER_BARE,
    WHOLE,
    WIDE,
    Ladder,
    Rung,
    TierPlan,
    plan_tiers,
)

_BARE = 5.0
_BUCKETS = ("events", "entities", "skills")
_EPSILON = 1e-6


@st.composite
def _ladders(draw: st.DrawFn) -> Ladder:
    """A candidate: an item with three forms, one whose texts coincide, a directory, or one that may only be bare."""
    base = _BARE + draw(st.integers(1, 60))
    kind = draw(st.sampled_from(["item", "item", "short", "directory", "cooled", "unread"]))
    steps = [base + step for step in itertools.accumulate(draw(st.lists(st.integers(1, 200), min_size=2, max_size=2)))]
    rungs: tuple[Rung, ...] = {
        "item": (
            Rung(detail="abstract", cost=base),
            Rung(detail="full", cost=steps[0], stage=CAPPED, cut=True),
            Rung(detail="full", cost=steps[1], stage=WHOLE),
        ),
        "unread": (
            Rung(detail="abstract", cost=base),
            Rung(detail="full", cost=steps[1], stage=WHOLE, unread=True),
        ),
        "short": (Rung(detail="full", cost=base),),
        "directory": (Rung(detail="abstract", cost=base), Rung(detail="overview", cost=steps[0], stage=DIRECTORY)),
        "cooled": (),
    }[kind]
    grain = draw(st.sampled_from([1, 3, 10]))

    def cut(room: float) -> Rung | None:
        cost = min(room // grain * grain, rungs[-1].cost)
        return Rung(detail="full", cost=cost, cut=True) if cost >= _BARE + 4 else None

    return Ladder(
        bare=Rung(detail="uri", cost=_BARE),
        rungs=rungs,
        bucket=draw(st.sampled_from(_BUCKETS)),
        cut=cut,
    )


_PACKS = st.lists(_ladders(), max_size=40)
_ROOMS = st.integers(0, 2000)
_SHARES = st.dictionaries(st.sampled_from(_BUCKETS), st.floats(0.0, 1.0), max_size=3)


def _exactly(room: float, top: float) -> Rung | None:
    """Return a cut to any length from the smallest one on."""
    return Rung(detail="full", cost=min(room, top), cut=True) if room > _BARE else None


def _used(plan: TierPlan) -> float:
    return sum(rung.cost for rung in plan.chosen.values())


@given(_PACKS, _ROOMS, _SHARES, st.one_of(st.none(), st.integers(1, 40)))
def test_room_number_and_ceilings_hold_and_the_order_stays(
    ladders: list[Ladder], room: int, shares: dict[str, float], most: int | None
) -> None:
    """A plan never costs more than its room, never has more entries, shows nothing beyond a ladder, keeps the order."""
    plan = plan_tiers(ladders, room, shares=shares, most=most)

    assert _used(plan) <= room + _EPSILON
    assert abs(room - _used(plan) - plan.left) < _EPSILON
    assert most is None or len(plan.chosen) <= most
    assert list(plan.chosen) == sorted(plan.chosen)
    for place, rung in plan.chosen.items():
        ladder = ladders[place]
        if not ladder.rungs:
            assert rung is ladder.bare
        elif rung.detail != "uri":
            assert rung in ladder.rungs or (rung.cut and rung.cost <= ladder.rungs[-1].cost)


@given(_PACKS, _ROOMS, _SHARES, st.one_of(st.none(), st.integers(1, 40)))
def test_no_single_move_that_fits_is_left(
    ladders: list[Ladder], room: int, shares: dict[str, float], most: int | None
) -> None:
    """No entry can be raised to a further form, and no candidate added, with what is left."""
    plan = plan_tiers(ladders, room, shares=shares, most=most)

    for place, ladder in enumerate(ladders):
        chosen = plan.chosen.get(place)
        if chosen is None:
            if most is None or len(plan.chosen) < most:
                assert all(rung.cost > plan.left - _EPSILON for rung in ladder.rungs)
        elif chosen.detail != "uri":
            spent = chosen.cost
            assert not [rung for rung in ladder.rungs if spent < rung.cost <= spent + plan.left - _EPSILON]


@given(_PACKS, _ROOMS, _SHARES)
def test_a_bare_uri_takes_no_readable_text_away(ladders: list[Ladder], room: int, shares: dict[str, float]) -> None:
    """Without the bare URIs no further text would fit, and they are few."""
    plan = plan_tiers(ladders, room, shares=shares)
    bare = [place for place, rung in plan.chosen.items() if rung.detail == "uri"]
    readable = len(plan.chosen) - len(bare)
    left = plan.left + _BARE * len(bare)

    assert len(bare) <= max(readable / READABLE_PER_BARE, not readable)
    for place, ladder in enumerate(ladders):
        if ladder.rungs and plan.chosen.get(place, ladder.bare) is ladder.bare:
            assert ladder.rungs[0].cost > left - _EPSILON


@given(_PACKS, _ROOMS)
def test_wide_before_deep(ladders: list[Ladder], room: int) -> None:
    """Whoever has room for its shortest text, in the order of rank, has at least that, however deep others could go."""
    plan = plan_tiers(ladders, room)
    left = float(room)
    for place, ladder in enumerate(ladders):
        if ladder.rungs and ladder.rungs[0].cost <= left:
            left -= ladder.rungs[0].cost
            assert plan.chosen[place].cost >= ladder.rungs[0].cost


@given(st.lists(_ladders(), min_size=1, max_size=40), st.integers(100, 2000))
def test_the_budget_is_spent(ladders: list[Ladder], room: int) -> None:
    """Nine tenths of it, when there is enough text that can be cut anywhere."""
    fine = [
        Ladder(
            bare=ladder.bare,
            rungs=ladder.rungs,
            cut=partial(_exactly, top=ladder.rungs[-1].cost),
        )
        for ladder in ladders
        if ladder.rungs
    ]
    enough = sum(ladder.rungs[-1].cost for ladder in fine)

    assert _used(plan_tiers(fine, room)) >= min(0.9 * room, enough) - _EPSILON


@given(_PACKS, _ROOMS, st.sampled_from(_BUCKETS))
def test_a_share_of_nothing_still_has_one_entry(ladders: list[Ladder], room: int, bucket: str) -> None:
    """What a bucket may not use at first goes to the others; it keeps an entry where any would fit at once."""
    plan = plan_tiers(ladders, room, shares={bucket: 0.0})
    first = next((place for place, each in enumerate(ladders) if each.bucket == bucket and each.rungs), None)
    before = 0.0 if first is None else sum(each.rungs[0].cost for each in ladders[:first] if each.rungs)

    if first is not None and before + ladders[first].rungs[0].cost <= room:
        assert first in plan.chosen


def test_five_steps_of_one_pack() -> None:
    """Shortest texts, then the directory, then bodies by rank, then a cut for what is left."""
    item = Ladder(
        bare=Rung(detail="uri", cost=5),
        rungs=(Rung(detail="abstract", cost=20), Rung(detail="full", cost=60, stage=CAPPED)),
        cut=partial(_exactly, top=60),
    )
    directory = Ladder(
        bare=Rung(detail="uri", cost=5),
        rungs=(Rung(detail="abstract", cost=20), Rung(detail="overview", cost=40, stage=DIRECTORY)),
    )
    pack = [item, item, directory]

    def costs(room: float) -> list[float]:
        return [rung.cost for rung in plan_tiers(pack, room).chosen.values()]

    assert costs(4) == []
    assert costs(60) == [20, 20, 20]
    assert costs(80) == [20, 20, 40]
    assert costs(120) == [60, 20, 40]
    assert costs(130) == [60, 30, 40]
    assert costs(500) == [60, 60, 40]


def test_what_was_read_cannot_be_chosen_where_it_is_not_needed() -> None:
    """A plan names exactly the entries whose text has to be read."""
    long = Ladder(
        bare=Rung(detail="uri", cost=5),
        rungs=(Rung(detail="abstract", cost=20), Rung(detail="full", cost=100, stage=WHOLE, unread=True)),
    )

    assert plan_tiers([long, long], 150).unread == (0,)
    assert plan_tiers([long, long], 119).unread == ()
    assert plan_tiers([long], 100).chosen[0].stage != WIDE
