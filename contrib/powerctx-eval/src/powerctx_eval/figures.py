"""Figures of many answers, with intervals over queries, and paired differences."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from powerctx_eval.arms import Arm
from powerctx_eval.ask import Asked, Ranked
from powerctx_eval.bootstrap import Resamples, intervals
from powerctx_eval.data import EvalQuery
from powerctx_eval.metrics import METRICS, columns, ndcg, percentile, recall

__all__ = ["KS", "compared", "ranking_figures", "slice_figures", "slice_of"]

KS = (1, 5, 10)
_NEED_GOLD = ("evidence", "any", "all", "precision")


def slice_of(query: EvalQuery) -> str:
    """Return where a query is reported: ``gold``, ``adversarial`` (its gold is a trap) or ``no_gold``."""
    return "adversarial" if query.adversarial else "gold" if query.gold else "no_gold"


def slice_figures(
    sliced: Mapping[Arm, Sequence[Asked]], pairs: Sequence[tuple[Arm, Arm]], *, count: int, seed: int
) -> tuple[dict[Arm, dict[str, Any]], dict[tuple[Arm, Arm], dict[str, Any]]]:
    """Return the figures of every arm over one slice of queries, and the differences of every pair.

    Args:
        sliced: arm -> its answers; the same queries in the same order for all.
        pairs: (control, treatment).
        count: of resamples.
        seed: of the bootstrap.
    """
    arms = [*sliced]
    size = len(sliced[arms[0]])
    if any([a.query.id for a in sliced[arm]] != [a.query.id for a in sliced[arms[0]]] for arm in arms):
        raise AssertionError("arms were asked different queries")
    cells = np.array(
        [[value for arm in arms for value in columns(sliced[arm][row].answer).values()] for row in range(size)]
    ).reshape(size, len(arms) * len(METRICS), 2)
    whole, resampled = Resamples(size, count=count, seed=seed).ratios(cells[:, :, 0], cells[:, :, 1])
    names = [*METRICS]
    if all(not asked.query.gold for asked in sliced[arms[0]]):
        names = [name for name in names if name not in _NEED_GOLD]
    at = {(arm, name): place for place, (arm, name) in enumerate((arm, name) for arm in arms for name in METRICS)}

    figures: dict[Arm, dict[str, Any]] = {}
    for arm in arms:
        place = [at[arm, name] for name in names]
        found = intervals(whole[place], resampled[:, place])
        figures[arm] = {
            "queries": size,
            "metrics": {name: interval.as_json() for name, interval in zip(names, found, strict=True)},
            "outcomes": dict(sorted(Counter(asked.outcome for asked in sliced[arm]).items())),
            "modes": dict(sorted(Counter(asked.mode for asked in sliced[arm]).items())),
            "timing": _times([asked.milliseconds for asked in sliced[arm]]),
        }
    differences: dict[tuple[Arm, Arm], dict[str, Any]] = {}
    for one, other in pairs:
        left, right = ([at[arm, name] for name in names] for arm in (one, other))
        found = intervals(whole[right] - whole[left], resampled[:, right] - resampled[:, left])
        differences[one, other] = {
            "queries": size,
            "metrics": {name: interval.as_json() for name, interval in zip(names, found, strict=True)},
        }
    return figures, differences


def compared(control: Sequence[Asked], treatment: Sequence[Asked]) -> dict[str, Any]:
    """Return on how many queries the treatment delivers more, less and as much evidence, and the ratio of times."""
    gains = [two.answer.evidence - one.answer.evidence for one, two in zip(control, treatment, strict=True)]
    ratios = [two.milliseconds / one.milliseconds for one, two in zip(control, treatment, strict=True)]
    return {
        "better": sum(gain > 0 for gain in gains),
        "worse": sum(gain < 0 for gain in gains),
        "equal": sum(gain == 0 for gain in gains),
        "timing": {"ratio_p50": round(statistics.median(ratios), 3)},
    }


def ranking_figures(ranked: Sequence[Ranked], *, count: int, seed: int) -> dict[str, Any]:
    """Return recall at several depths and nDCG@10, with intervals."""
    cells = np.array(
        [[*(recall(each.ids, each.query.gold, k) for k in KS), ndcg(each.ids, each.query.gold, 10)] for each in ranked]
    )
    found = intervals(*Resamples(len(ranked), count=count, seed=seed).ratios(cells, np.ones_like(cells)))
    names = [*(f"recall@{k}" for k in KS), "ndcg@10"]
    return {
        "queries": len(ranked),
        "filtered": sum(each.filtered for each in ranked),
        "metrics": {name: interval.as_json() for name, interval in zip(names, found, strict=True)},
        "timing": _times([each.milliseconds for each in ranked]),
    }


def _times(milliseconds: Sequence[float]) -> dict[str, float]:
    return {f"ms_p{share}": round(percentile(milliseconds, share / 100), 3) for share in (50, 95)}
