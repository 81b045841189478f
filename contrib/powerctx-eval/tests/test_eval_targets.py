"""What recall must reach on labelled data, with the offline embedder.

The sets are read from ``../shared/data`` beside the repository or ``POWERCTX_EVAL_DATA``; absent, the tests are
skipped, and fail where ``CI`` is set.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from powerctx_eval.arms import Plan, budget
from powerctx_eval.data import data_folder
from powerctx_eval.run import broken, run


@pytest.fixture(scope="module")
def data(evaluation_data: Path) -> Path:
    """The folder of the sets."""
    return data_folder(evaluation_data)


_FEW, _FILLED = "bytes=8000,items=8", "bytes=8000,items=64"


def _evidence(data: Path, name: str) -> dict[tuple[str, str], float]:
    """Return the evidence delivered of one set, by embedder and budget; no answer may break a promise."""
    plan = Plan(
        sets=(name,),
        stores=("sqlite",),
        policies=("powerctx.recall.v1",),
        embedders=("none", "local"),
        budgets=(budget(_FEW), budget(_FILLED)),
        resamples=100,
    )
    report: dict[str, Any] = run(plan, data)
    assert broken(report) == []
    return {
        (row["arm"]["embedder"], row["arm"]["budget"]): row["metrics"]["evidence"]["value"]
        for row in report["results"]
        if row["slice"] == "gold"
    }


@pytest.mark.long
@pytest.mark.timeout(600)
def test_locomo(data: Path) -> None:
    """Words with neighbours fill .74 and vectors .78; eight items with vectors hold .63; vectors never lose."""
    found = _evidence(data, "locomo")

    assert found["none", _FILLED] >= 0.74
    assert found["local", _FILLED] >= 0.78
    assert found["local", _FEW] >= 0.63
    assert found["none", _FEW] >= 0.58
    assert all(found["local", budget] >= found["none", budget] for budget in (_FEW, _FILLED))


@pytest.mark.long
@pytest.mark.parametrize(("name", "least"), [("madial_zh", 0.82), ("madial_en", 0.80)])
def test_madial(data: Path, name: str, least: float) -> None:
    """Events that a dialogue reminds of, which share few words with it, in Chinese and in English."""
    found = _evidence(data, name)

    assert found["local", _FILLED] >= least
    assert all(found["local", budget] >= found["none", budget] for budget in (_FEW, _FILLED))
