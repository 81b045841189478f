"""Ranking, policies, admission and fusion."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from math import isclose, log

import attrs
import pytest
from hypothesis import given, strategies as st

from powerctx_core.errors import InvalidRequest, PoolInvariantError
from powerctx_core.recall.admission import FloorAdmission, admitting, required_units
from powerctx_core.recall.checks import check_admission
from powerctx_core.recall.fusion import deal, fuse, interleave, merge
from powerctx_core.recall.policy import COMPATIBLE, POLICIES, POWERCTX, policy_named
from powerctx_core.recall.ranking import Scorer, idf, rank
from powerctx_core.types import (
    Address,
    AdmissionFloor,
    Hit,
    LexicalHit,
    LexicalStatistics,
    Pool,
    QueryTerms,
    RawCandidate,
)

_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _raw(
    key: int, matched: Mapping[str, int], *, length: int = 10, cosine: float | None = None, **more: str
) -> RawCandidate:
    return RawCandidate(
        address=Address(more.get("scope", "s"), more.get("family", "memory"), f"a{key:03}", 1),
        matched=matched,
        length=length,
        cosine=cosine,
        head="text",
        body_bytes=4,
        created_at=_NOW,
        updated_at=_NOW,
    )


def _pool(
    members: list[RawCandidate], *, items: int = 100, df: Mapping[str, int] | None = None, **more: object
) -> Pool:
    candidates = dict(enumerate(members))
    frequency = df if df is not None else {term: 5 for raw in members for term in raw.matched}
    channels = {"fts": tuple(key for key, raw in candidates.items() if raw.matched)}
    if any(raw.cosine is not None for raw in members):
        channels["vector"] = tuple(key for key, raw in candidates.items() if raw.cosine is not None)
    values = {
        "family": "memory",
        "scope_id": "s",
        "channels": channels,
        "candidates": candidates,
        "statistics": LexicalStatistics(items=items, mean_length=10.0, document_frequency=frequency),
        "mode": "fts",
        "terms": tuple(frequency),
    }
    return Pool(**(values | more))


def _query(*terms: str, units: frozenset[str] | None = None) -> QueryTerms:
    return QueryTerms(
        terms=terms, units=frozenset(terms) if units is None else units, quoted=frozenset(), total=len(terms)
    )


def test_idf_is_lucenes() -> None:
    """A term that everything holds still weighs a little, and rarer ones more."""
    assert isclose(log(1 + 0.5 / 100.5), idf(100, 100))
    assert idf(100, 1) > idf(100, 2) > idf(100, 100) > 0


def test_bm25_of_a_worked_example() -> None:
    """One term, three occurrences, twice the mean length: the formula by hand."""
    statistics = LexicalStatistics(items=10, mean_length=10.0, document_frequency={"x": 2})

    score, held = Scorer(statistics).score({"x": 3, "foreign": 9}, 20)

    weight = log(1 + 8.5 / 2.5)
    assert isclose(weight * 3 * 2.2 / (3 + 1.2 * (0.25 + 0.75 * 2)), score)
    assert isclose(weight, held)


@given(st.permutations(["a", "b", "c", "d", "e"]))
def test_scores_do_not_depend_on_the_order_of_terms(order: list[str]) -> None:
    """Stores list terms in any order; the sum is bit for bit the same."""
    frequency = {"a": 1, "b": 3, "c": 7, "d": 11, "e": 50}
    plain = Scorer(LexicalStatistics(items=97, mean_length=7.3, document_frequency=frequency))
    shuffled = Scorer(LexicalStatistics(items=97, mean_length=7.3, document_frequency={t: frequency[t] for t in order}))

    assert plain.score(dict.fromkeys("abcde", 2), 9) == shuffled.score(dict.fromkeys(order, 2), 9)


def test_rank_breaks_ties_by_artifact_id_and_keeps_k() -> None:
    """Equal scores come in the order of their ids, not of their keys."""
    statistics = LexicalStatistics(items=10, mean_length=5.0, document_frequency={"x": 4})
    hits = [LexicalHit(key, name, {"x": 1}, 5) for key, name in ((1, "c"), (2, "a"), (3, "b"))]

    assert [hit.artifact_id for hit in rank(hits, statistics, 2)] == ["a", "b"]


@pytest.mark.parametrize(("units", "required"), [(0, 1), (1, 1), (2, 1), (3, 2), (8, 2), (9, 3), (12, 3), (64, 16)])
def test_units_required_by_the_compatible_floor(units: int, required: int) -> None:
    """max(2, ceil(n / 4)) of n > 2 units, else one."""
    assert required == required_units(units, COMPATIBLE.floor)


@pytest.mark.parametrize("floor", COMPATIBLE.expansion_floors)
def test_expansion_floors_of_the_compatible_policy_ask_for_one_unit(floor: AdmissionFloor) -> None:
    """Any matched unit is enough in the expansion rounds."""
    assert [required_units(units, floor) for units in (1, 3, 64)] == [1, 1, 1]


def test_grams_do_not_count_as_units() -> None:
    """Under the compatible policy a bigram match is no matched unit; distinct characters are."""
    query = _query("北", "京", "北京", "塔", units=frozenset({"北", "京", "塔"}))
    pool = _pool([_raw(0, {"北": 1, "北京": 1}), _raw(1, {"北": 1, "京": 1, "北京": 1})])

    admission = FloorAdmission().admit(pool, query, COMPATIBLE.floor)

    assert [key for key, _ in admission.ranked["fts"]] == [1]
    assert (admission.counts.retrieved, admission.counts.admitted) == (2, 1)


def test_idf_mass_is_measured_over_terms_that_occur() -> None:
    """Terms that no item of the scope holds are no reason to reject what holds the rest."""
    pool = _pool([_raw(0, {"rare": 1}), _raw(1, {"common": 1})], df={"rare": 1, "common": 60, "absent": 0})

    admission = FloorAdmission().admit(pool, _query("rare", "common", "absent"), POWERCTX.floor)

    assert [key for key, _ in admission.ranked["fts"]] == [0]


def test_vector_members_meet_the_cosine_of_the_floor() -> None:
    """The compatible floor cuts vector members at 0.30, inclusive."""
    pool = _pool([_raw(0, {}, cosine=0.3), _raw(1, {}, cosine=0.2999), _raw(2, {}, cosine=0.9)])

    admission = FloorAdmission().admit(pool, _query("x"), COMPATIBLE.floor)

    assert [key for key, _ in admission.ranked["vector"]] == [2, 0]


def test_neighbours_come_with_the_member_that_brought_them() -> None:
    """A neighbour of a rejected member is rejected, one of an admitted member is admitted and counted."""
    members = [_raw(0, {"rare": 1}), _raw(1, {"common": 1}), _raw(2, {}), _raw(3, {})]
    pool = _pool(
        members,
        df={"rare": 1, "common": 60},
        channels={"fts": (0, 1), "neighbour": (2, 3)},
        neighbours={2: (0,), 3: (1,)},
    )

    admission = FloorAdmission().admit(pool, _query("rare", "common"), POWERCTX.floor)

    assert [key for key, _ in admission.ranked["neighbour"]] == [2]
    assert (admission.counts.retrieved, admission.counts.admitted) == (4, 2)


_MEMBER = st.tuples(
    st.dictionaries(st.sampled_from(["x", "y", "z"]), st.integers(1, 10**6)),
    st.none() | st.floats(-1, 1),
    st.integers(0, 10**6),
)
_FLOOR = st.builds(
    AdmissionFloor,
    coverage=st.floats(0, 1),
    matched=st.integers(1, 3),
    cosine=st.none() | st.floats(-1, 1),
    idf_mass=st.none() | st.floats(0, 1),
)


@given(st.lists(_MEMBER, max_size=8), _FLOOR)
def test_the_rule_keeps_what_every_rule_must(
    members: list[tuple[dict[str, int], float | None, int]], floor: object
) -> None:
    """Whatever the pool and the floor are, core's own admission passes the check of any rule's, which it is spared."""
    pool = _pool(
        [_raw(key, matched, length=length, cosine=cosine) for key, (matched, cosine, length) in enumerate(members)]
    )

    admission = admitting(FloorAdmission(), pool, _query("x", "y"))(floor)

    assert admission == check_admission(pool, admission)


@pytest.mark.parametrize(("count", "length", "mean"), [(1, 0, 5e-324), (10**308, 1, 10.0)])
def test_scores_that_are_no_numbers(count: int, length: int, mean: float) -> None:
    """Figures of a pool that pass one by one, and of which no rank can be made, are refused and never ranked."""
    statistics = LexicalStatistics(items=100, mean_length=mean, document_frequency={"x": 5})
    pool = _pool([_raw(0, {"x": count}, length=length)], statistics=statistics)

    with pytest.raises(PoolInvariantError, match="not finite"):
        admitting(FloorAdmission(), pool, _query("x"))(POWERCTX.floor)


def _hits(pool: Pool, policy: object = POWERCTX) -> list[Hit]:
    admission = FloorAdmission().admit(pool, _query("x", "y"), AdmissionFloor(idf_mass=0.0))
    return fuse(pool, admission, policy).hits


def test_rrf_scores_are_shares_of_the_greatest_possible() -> None:
    """First in both channels is 1; first in one of two is a half."""
    both = _pool([_raw(0, {"x": 2}, cosine=0.9), _raw(1, {"x": 1}, cosine=0.1)])
    one = _pool([_raw(0, {"x": 2}), _raw(1, {}, cosine=0.5)])

    assert isclose(1.0, _hits(both, COMPATIBLE)[0].score)
    assert [round(hit.score, 9) for hit in _hits(one, COMPATIBLE)] == [0.5, 0.5]


def test_min_max_scores_give_the_best_of_a_channel_its_whole_weight() -> None:
    """A single channel's leader scores 1, whatever its raw score."""
    hits = _hits(_pool([_raw(0, {"x": 1}), _raw(1, {"x": 5}), _raw(2, {"x": 2, "y": 1})]))

    assert (hits[0].score, len({hits[0].score, hits[-1].score})) == (1.0, 2)
    assert all(0.0 < hit.score <= 1.0 for hit in hits)


def test_neighbours_score_a_share_of_what_brought_them() -> None:
    """Weight 0.3 puts a neighbour of the leader right behind members that score more than 0.3."""
    pool = _pool(
        [_raw(0, {"x": 3}), _raw(1, {})],
        channels={"fts": (0,), "neighbour": (1,)},
        neighbours={1: (0,)},
    )

    hits = _hits(pool, attrs.evolve(POWERCTX, neighbour_weight=0.3))

    assert [(hit.address.artifact_id, round(hit.score, 9)) for hit in hits] == [("a000", 1.0), ("a001", 0.3)]
    assert hits[1].channels == ("neighbour",)


def _hit(family: str, scope: str, number: int, score: float) -> Hit:
    return Hit(candidate=_raw(number, {}, scope=scope, family=family), score=score, match=0.0, channels=())


def test_dealing_is_round_robin_over_groups() -> None:
    """A ceiling of five over groups of 1, 4 and 2 gives 1, 2 and 2; no group gets more than it has."""
    groups = [[_hit("memory", scope, n, 1.0) for n in range(size)] for scope, size in (("a", 1), ("b", 4), ("c", 2))]

    assert [len(group) for group in deal(groups, 5)] == [1, 2, 2]
    assert [len(group) for group in deal(groups, 50)] == [1, 4, 2]


def test_merged_order_is_by_score_then_address() -> None:
    """Equal scores are ordered by scope, family, id."""
    hits = [_hit("memory", "b", 1, 0.5), _hit("memory", "a", 2, 0.5), _hit("zeta", "a", 0, 0.9)]

    assert [(hit.address.scope_id, hit.address.family) for hit in merge([hit] for hit in hits)] == [
        ("a", "zeta"),
        ("a", "memory"),
        ("b", "memory"),
    ]


def test_interleaving_takes_scopes_then_families_in_turn() -> None:
    """Memory first, then topic-memory, experience, and others by name; scopes alternate inside a family."""
    families = {
        "zeta": [[_hit("zeta", "a", 0, 1.0)]],
        "experience": [[_hit("experience", "a", 0, 1.0)]],
        "memory": [[_hit("memory", "a", 0, 1.0), _hit("memory", "a", 1, 1.0)], [_hit("memory", "b", 0, 1.0)]],
    }

    order = [(hit.address.family, hit.address.scope_id) for hit in interleave(families)]

    assert order == [("memory", "a"), ("experience", "a"), ("zeta", "a"), ("memory", "b"), ("memory", "a")]


def test_policies_are_named_and_have_distinct_digests() -> None:
    """An unknown policy id is answered with the installed ones; digests tell policies apart and are stable."""
    assert POWERCTX is policy_named("powerctx.recall.v1")
    with pytest.raises(InvalidRequest, match=r"powerctx\.recall\.v1, powercontext\.recall\.v2"):
        policy_named("v9")
    assert len(POLICIES) == len({policy.digest for policy in POLICIES.values()})
    assert POWERCTX.digest == attrs.evolve(POWERCTX).digest


@pytest.mark.parametrize(("items", "size"), [(8, 64), (16, 64), (17, 128), (64, 128)])
def test_our_pool_widens_when_many_items_may_be_delivered(items: int, size: int) -> None:
    """64 members a channel, 128 when more than 16 items may be delivered; the compatible policy keeps the family's."""
    assert size == POWERCTX.pool_size(32, items)
    assert COMPATIBLE.pool_size(32, items) == 32


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"cosine": 0.31},
            "cosine is 0.31 in expansion_floors[0] and 0.3 in floor; a later round must ",
        ),
        ({"coverage": 0.3}, "coverage is 0.3 in expansion_floors[0] and 0.25 in floor; a later"),
        ({"matched": 3}, "matched is 3 in expansion_floors[0] and 2 in floor; a later"),
        ({"relevance": 0.0}, "relevance is 0 in expansion_floors[0] and none in floor; a later"),
        ({"idf_mass": 0.0}, "expansion_floors[0] and floor cannot be compared: name idf_mass in both of them, or in "),
    ],
)
def test_floors_of_a_policy_descend(change: dict[str, float], sentence: str) -> None:
    """A later round that asks for more in any way is refused, by the values of both."""
    floors = (attrs.evolve(COMPATIBLE.expansion_floors[0], **change), AdmissionFloor())
    with pytest.raises(InvalidRequest) as caught:
        attrs.evolve(COMPATIBLE, expansion_floors=floors)

    assert sentence in str(caught.value)
    assert "expansion_floors" == caught.value.field
    with pytest.raises(InvalidRequest, match=r"0\.25 in expansion_floors\[1\] and 0 in expansion_floors\[0\]"):
        attrs.evolve(COMPATIBLE, expansion_floors=(AdmissionFloor(), COMPATIBLE.floor))


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [("coverage", 1.1, "0 to 1"), ("matched", 0, "1 to 64"), ("cosine", -2, "-1 to 1"), ("idf_mass", 2, "0 to 1")],
)
def test_floors_keep_to_their_ranges(field: str, value: float, allowed: str) -> None:
    """A value outside is refused by name, with what is allowed."""
    with pytest.raises(InvalidRequest, match=rf"^{field} is {value:g}; {allowed} are allowed\.$") as caught:
        AdmissionFloor(**{field: value})

    assert field == caught.value.field


def test_fusions_of_a_policy() -> None:
    """There are two."""
    with pytest.raises(InvalidRequest, match=r"^fusion is 'sum'; it can be rrf or score\.$"):
        attrs.evolve(POWERCTX, fusion="sum")
