"""Rounds of admission: what they may do to what is delivered, whatever a further round returns."""

from __future__ import annotations

from datetime import UTC, datetime

import attrs
from hypothesis import given, strategies as st

from powerctx_core.recall.fusion import Fused
from powerctx_core.recall.rounds import Gathered, appended, first_round, identity, joined, reselect
from powerctx_core.types import Address, Hit, RawCandidate

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def hit(scope: str, name: str, score: float) -> Hit:
    """Make a hit."""
    candidate = RawCandidate(
        address=Address(scope_id=scope, family="memory", artifact_id=name, revision=1),
        length=1,
        head=name,
        body_bytes=len(name),
        created_at=_EPOCH,
        updated_at=_EPOCH,
    )
    return Hit(candidate=candidate, score=score, match=score, channels=("fts",))


def window(scope: str) -> st.SearchStrategy[list[Hit]]:
    """Draw the hits of one scope, best first, each artifact once."""
    names = st.lists(st.sampled_from("abcdefgh"), max_size=8, unique=True)
    return names.map(lambda drawn: [hit(scope, name, 1 - place / 10) for place, name in enumerate(drawn)])


SCOPES = ("s", "r", "t")
WINDOWS = st.tuples(*(window(scope) for scope in SCOPES)).map(list)


@given(WINDOWS, st.lists(WINDOWS, max_size=3), st.integers(0, 12))
def test_rounds_keep_to_their_limits(first: list[list[Hit]], later: list[list[list[Hit]]], ceiling: int) -> None:
    """Never over the ceiling, never less of a scope than at first, nothing twice, and the first records stay."""
    groups = {"memory": first_round(first, ceiling)}
    before = reselect("memory", groups["memory"], ceiling)
    for windows in later:
        groups = joined(groups, {"memory": windows})
    chosen = reselect("memory", groups["memory"], ceiling)

    assert sum(map(len, chosen)) <= ceiling
    for old, new, group, start in zip(before, chosen, groups["memory"], first, strict=True):
        assert len(old) <= len(new)
        assert len({identity(each) for each in group.merged}) == len(group.merged)
        assert {identity(each) for each in group.merged} == {identity(each) for each in group.ordered}
        assert tuple(start) == group.merged[: len(start)]
        assert new == list(group.ordered[: len(new)])


@given(WINDOWS, WINDOWS, st.integers(0, 12))
def test_a_candidate_leaves_only_for_a_better_one_of_its_own_scope(
    first: list[list[Hit]], later: list[list[Hit]], ceiling: int
) -> None:
    """Whoever was delivered and is not any more stands behind all that are, in the later order of its scope."""
    groups = first_round(first, ceiling)
    before = reselect("memory", groups, ceiling)
    after = [group.joined(windows) for group, windows in zip(groups, later, strict=True)]
    chosen = reselect("memory", after, ceiling)

    for old, new, group in zip(before, chosen, after, strict=True):
        places = {identity(each): place for place, each in enumerate(group.ordered)}
        kept = {identity(each) for each in new}
        for each in old:
            if identity(each) not in kept:
                assert len(new) >= len(old)
                assert all(places[name] < places[identity(each)] for name in kept)


@given(WINDOWS, WINDOWS, st.integers(0, 12))
def test_a_round_that_adds_nothing_changes_no_number(
    first: list[list[Hit]], later: list[list[Hit]], ceiling: int
) -> None:
    """Hits that are known already, in any order, leave as many candidates and as many to deliver."""
    groups = first_round(first, ceiling)
    known = [{identity(each) for each in group.merged} for group in groups]
    again = [[each for each in hits if identity(each) in names] for hits, names in zip(later, known, strict=True)]
    after = [group.joined(hits) for group, hits in zip(groups, again, strict=True)]

    assert [group.merged for group in groups] == [group.merged for group in after]
    assert [len(each) for each in reselect("memory", groups, ceiling)] == [
        len(each) for each in reselect("memory", after, ceiling)
    ]


def test_merged_order() -> None:
    """New evidence comes behind what was there for judging, and where the round puts it for delivery."""
    group = Gathered((hit("s", "a", 1.0), hit("s", "b", 0.5)), (hit("s", "a", 1.0), hit("s", "b", 0.5)), 2)
    after = group.joined([hit("s", "c", 1.0), hit("s", "b", 0.9)])

    assert ["a", "b", "c"] == [each.address.artifact_id for each in after.merged]
    assert [0.5, "c", "b", "a"] == [after.merged[1].score, *(each.address.artifact_id for each in after.ordered)]


def fused(hits: list[Hit]) -> Fused:
    """Return what fusion would have given."""
    return Fused(
        {key: each.candidate for key, each in enumerate(hits)},
        range(len(hits)),
        lambda key, factor: attrs.evolve(hits[key], score=hits[key].score * factor),
    )


@given(WINDOWS, st.lists(WINDOWS, min_size=1, max_size=3), st.integers(0, 12))
def test_what_is_appended_stands_behind_everything(
    first: list[list[Hit]], later: list[list[list[Hit]]], ceiling: int
) -> None:
    """Of any family and scope, and in its own order: scores fall from round to round, and nothing is lost or moved."""
    groups = {"memory": first_round(first, ceiling)}
    for windows in later:
        before, groups = groups, appended(groups, {"memory": [*map(fused, windows)]})
        held = [each for group in before["memory"] for each in group.ordered]
        added = []
        for old, new, hits in zip(before["memory"], groups["memory"], windows, strict=True):
            assert old.ordered == new.ordered[: len(old.ordered)]
            assert new.merged == new.ordered
            known = {identity(each) for each in old.merged}
            behind = new.ordered[len(old.ordered) :]
            assert [identity(each) for each in hits if identity(each) not in known] == [*map(identity, behind)]
            assert [*behind] == sorted(behind, key=lambda each: -each.score)
            added += behind
        assert max((each.score for each in added), default=0.0) < min((each.score for each in held), default=2.0)
