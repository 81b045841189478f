"""Metrics by hand-computed examples, and the bootstrap."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from powerctx_eval.bootstrap import Resamples, intervals, mean_interval
from powerctx_eval.metrics import METRICS, columns, judge, ndcg, percentile, recall


def test_an_answer_by_hand() -> None:
    """Two of three gold items among four entries: shares, precision by bytes, and violations."""
    answer = judge(
        [("a", 100), ("x", 50), ("b", 30), ("y", 20)],
        {"a", "b", "c"},
        only={"a", "b", "x"},
        must_not={"x", "z"},
        content_bytes=300,
        tokens=80,
    )

    assert (2 / 3, 4, 200, 130) == (answer.evidence, answer.items, answer.body_bytes, answer.gold_bytes)
    assert (1, 1) == (answer.not_only, answer.forbidden)
    assert {
        "evidence": (2 / 3, 1.0), "any": (1.0, 1.0), "all": (0.0, 1.0), "precision": (0.65, 1.0), "empty": (0.0, 1.0),
        "bytes": (300.0, 1.0), "tokens": (80.0, 1.0), "items": (4.0, 1.0),
    } == columns(answer)  # fmt: skip


def test_an_empty_answer_counts_against_evidence_and_not_against_precision() -> None:
    """Nothing delivered is no evidence, an empty answer, and no text whose share could be gold."""
    found = columns(judge([], {"a"}))

    assert ((0.0, 1.0), (1.0, 1.0), (0.0, 0.0)) == (found["evidence"], found["empty"], found["precision"])
    assert list(METRICS) == list(found)


def test_an_entry_without_text_is_no_evidence() -> None:
    """A citation under which nothing can be read delivers nothing."""
    assert judge([("a", 0)], {"a"}).evidence == 0.0


def test_an_entry_delivered_twice_is_one_piece_of_evidence() -> None:
    """Repeating gold does not raise its share."""
    assert judge([("a", 5), ("a", 5)], {"a", "b"}).evidence == 0.5


def test_without_only_everything_is_allowed() -> None:
    """An empty ``only`` is no restriction."""
    assert judge([("a", 5)], {"b"}).not_only == 0


def test_recall_and_ndcg_by_hand() -> None:
    """Gold at ranks 2 and 4 of two: recall by depth, and the discounted gain over that of the best order."""
    ranked = ["x", "a", "y", "b"]

    assert [0.0, 0.5, 1.0] == [recall(ranked, {"a", "b"}, k) for k in (1, 3, 10)]
    best = 1 / math.log2(2) + 1 / math.log2(3)
    assert ndcg(ranked, {"a", "b"}) == pytest.approx((1 / math.log2(3) + 1 / math.log2(5)) / best)
    assert ndcg(["a", "b"], {"a", "b"}) == pytest.approx(1.0)
    assert ndcg([], {"a"}) == 0.0


def test_ndcg_is_normalised_by_what_ten_places_can_hold() -> None:
    """With twelve gold items ten of them in front are a perfect list."""
    gold = [f"g{n}" for n in range(12)]

    assert ndcg(gold, gold, 10) == pytest.approx(1.0)


def test_percentiles_are_values_that_occurred() -> None:
    """Nearest rank: the 95th percentile of 1..100 is 95, of one value that value."""
    assert (50, 95, 7) == (percentile(range(1, 101), 0.5), percentile(range(1, 101), 0.95), percentile([7], 0.95))


def test_equal_seeds_give_equal_intervals() -> None:
    """The bootstrap is a function of values, count and seed."""
    values = [0.0, 1.0, 0.5, 0.25, 1.0, 0.0]

    one, same, other = (mean_interval(values, count=500, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one != other
    assert one.value == pytest.approx(2.75 / 6)


def test_intervals_cover_the_true_mean_about_as_often_as_they_say() -> None:
    """Of 300 samples with a known mean, about 95 % of intervals hold it."""
    rng = random.Random(3)
    held = 0
    for turn in range(300):
        found = mean_interval([float(rng.random() < 0.3) for _ in range(120)], count=400, seed=turn)
        held += found.low is not None and found.high is not None and found.low <= 0.3 <= found.high

    assert 0.90 <= held / 300 <= 0.985


def test_a_paired_difference_is_narrower_than_its_sides() -> None:
    """The same resample on both sides: a constant difference has no width, whatever the values."""
    rng = np.random.default_rng(5)
    left = rng.random(200)
    cells = np.stack([left, left + 0.1], axis=1)
    whole, resampled = Resamples(200, count=300, seed=1).ratios(cells, np.ones_like(cells))

    (difference,) = intervals(whole[1:] - whole[:1], resampled[:, 1:] - resampled[:, :1])
    assert [0.1, 0.1, 0.1] == pytest.approx([difference.value, difference.low, difference.high])


def test_a_ratio_over_nothing_is_no_figure() -> None:
    """Where no answer has text there is no precision, instead of 0 or an error."""
    zeros = np.zeros((4, 1))

    (found,) = intervals(*Resamples(4, count=50, seed=1).ratios(zeros, zeros))
    assert {"value": None, "low": None, "high": None} == found.as_json()


def test_resamples_do_not_depend_on_how_many_are_drawn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded by drawing in blocks, which changes no figure."""
    values = np.random.default_rng(1).random((50, 2))
    one = Resamples(50, count=40, seed=9).ratios(values, np.ones_like(values))[1]
    monkeypatch.setattr("powerctx_eval.bootstrap._CELLS", 350)

    assert np.allclose(one, Resamples(50, count=40, seed=9).ratios(values, np.ones_like(values))[1])
