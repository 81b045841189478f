"""The whole way: data, store, calls, figures, files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import powerctx_core as powerctx
from powerctx_core import InvalidRequest, RendererSpec, hookimpl
from powerctx_eval.arms import PRESETS, Plan, budget
from powerctx_eval.run import broken, run

OURS, COMPATIBLE = "powerctx.recall.v1", "powercontext.recall.v2"


def _plan(**more: Any) -> Plan:
    given: dict[str, Any] = {"sets": ("tiny",), "stores": ("memory",), "resamples": 100, **more}
    return Plan(**given)


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(each) for key, each in value.items() if key not in ("timing", "started_at")}
    return [_without_times(each) for each in value] if isinstance(value, list) else value


def test_evidence_of_a_tiny_set_by_hand(data: Path) -> None:
    """Found whole, found whole, not found, found: 3 of 4 queries with gold, the trap and the one without gold apart."""
    report = run(_plan(policies=(OURS,), budgets=(budget("bytes=8000,items=8"),)), data)

    rows = {row["slice"]: row for row in report["results"]}
    assert ["gold", "adversarial", "no_gold"] == list(rows)
    assert (4, 1, 1) == tuple(row["queries"] for row in rows.values())
    gold = {name: metric["value"] for name, metric in rows["gold"]["metrics"].items()}
    assert (0.75, 0.75, 0.75, 0.25) == tuple(gold[name] for name in ("evidence", "any", "all", "empty"))
    assert {"delivered": 3, "no_match": 1} == rows["gold"]["outcomes"]
    assert "evidence" not in rows["no_gold"]["metrics"]
    assert [] == broken(report)
    (ranked,) = [row for row in report["ranking"] if row["slice"] == "gold"]
    assert 0.75 == ranked["metrics"]["recall@10"]["value"]


def test_violations_are_counted_and_filters_that_cannot_be_said_are_named(data: Path) -> None:
    """``only`` and ``must_not`` are held against every answer, also where there is no gold."""
    report = run(_plan(policies=(OURS,), budgets=(budget("items=8"),)), data)

    (row,) = report["violations"]
    assert (2, 1, 2, 1) == tuple(
        row[name] for name in ("only_queries", "only_violated", "must_not_queries", "must_not_violated")
    )
    (about,) = report["sets"]
    assert (1, 1, 2) == (about["not_askable"], about["retired"], about["filters"])
    assert about["filters_not_applied"]["find"] == 1


def test_labels_as_scopes_keep_the_rest_away(data: Path) -> None:
    """With a scope for each label nothing of another label is delivered, and no filter is left."""
    report = run(_plan(policies=(OURS,), budgets=(budget("items=8"),), filtered_by="scopes"), data)

    (about,) = report["sets"]
    assert {"prepare": 0, "find": 0} == about["filters_not_applied"]


def test_equal_runs_are_equal_but_for_times(data: Path) -> None:
    """Seeds, order and intervals are fixed."""
    one, other = (run(_plan(limit=4), data) for _ in range(2))

    assert _without_times(one) == _without_times(other)
    assert one["environment"]["analysis_version"]
    assert {OURS, COMPATIBLE} == set(one["policies"])
    assert all(digest.startswith("sha256:") for digest in one["policies"].values())


def test_pairs_join_what_agrees_in_all_but_the_control(data: Path) -> None:
    """Policies are compared at equal budgets; the difference is that of the figures."""
    report = run(_plan(), data)

    gold = [row for row in report["pairs"] if row["slice"] == "gold"]
    assert [(COMPATIBLE, OURS)] * 2 == [(row["control"]["policy"], row["treatment"]["policy"]) for row in gold]
    assert all(row["control"]["budget"] == row["treatment"]["budget"] for row in gold)
    figures = {
        (row["arm"]["policy"], row["arm"]["budget"]): row["metrics"]["evidence"]["value"]
        for row in report["results"]
        if row["slice"] == "gold"
    }
    for row in gold:
        limits = row["treatment"]["budget"]
        assert row["metrics"]["evidence"]["value"] == pytest.approx(figures[OURS, limits] - figures[COMPATIBLE, limits])
        assert row["better"] + row["worse"] + row["equal"] == 4


def test_any_axis_can_be_the_control(data: Path) -> None:
    """A budget as control compares budgets under the same policy."""
    report = run(_plan(policies=(OURS,), control="bytes=8000,items=8"), data)

    assert {("bytes=8000,items=8", "bytes=8000,items=64")} == {
        (row["control"]["budget"], row["treatment"]["budget"]) for row in report["pairs"]
    }


def test_every_budget_holds(data: Path) -> None:
    """Bytes, tokens, characters and items: no answer is larger than asked for."""
    budgets = tuple(budget(text) for text in ("bytes=512,items=2", "tokens=64,items=8", "chars=128", "items=1"))

    report = run(_plan(budgets=budgets), data)

    assert [] == broken(report)
    assert 8 == len(report["checks"])


class _Forger:
    """A renderer whose entries cite something else; installed as ``prepared`` it would be caught."""

    def __init__(self, settings: object) -> None:
        del settings

    def open(self, selection: object) -> str:
        return "<powerctx>\nnotice\n"

    def entry(self, candidate: Any, ordinal: int, selection: object, *, cut: bool) -> tuple[str, str]:
        return f'{{"ref":["memory","c/{ordinal}",1],"text":"', '"}\n'

    def escape(self, text: str) -> str:
        return text

    def close(self, selection: object) -> str:
        return "</powerctx>\n"


class _Forging:
    @hookimpl
    def powerctx_renderers(self) -> Any:
        """Offer it."""
        yield RendererSpec(name="forger", factory=_Forger)


def test_wrong_citations_are_no_evidence_and_are_reported(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Evidence needs the text of the item under the item's own address; a run with anything else is not sound."""
    whole = powerctx.PrepareRequest

    def forged(**fields: Any) -> Any:
        return whole(**fields, renderer="forger")

    monkeypatch.setattr("powerctx_eval.ask._build", forged)
    report = run(_plan(policies=(OURS,), budgets=(budget("items=8"),)), data, extra=(_Forging(),))

    (gold,) = [row for row in report["results"] if row["slice"] == "gold"]
    assert gold["metrics"]["evidence"]["value"] < 0.75
    assert any("citations in the content" in sentence for sentence in broken(report))


def test_one_row_of_detail_for_every_answer(data: Path) -> None:
    """Details name the query and what it got."""
    rows: list[Any] = []
    run(_plan(policies=(OURS,), budgets=(budget("items=8"),)), data, details=rows.append)

    assert ["q1", "q2", "q3", "q4", "q5", "q6"] == [row["query"] for row in rows]
    assert (2, 2) == (rows[1]["gold"], rows[1]["held"])
    json.dumps(rows)


@pytest.mark.parametrize("text", ["", "bytes", "bytes=x", "weight=3", "bytes=8000,bytes=9000", "items=-1"])
def test_a_budget_that_spells_none_is_refused(text: str) -> None:
    """The message shows the form."""
    with pytest.raises(InvalidRequest, match="bytes=8000,items=8"):
        budget(text)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"control": "nothing"}, "the value of no axis"),
        ({"control": "x", "embedders": ("x",), "gates": ("x",)}, "several axes"),
        ({"policies": ()}, "policies must name something"),
        ({"policies": ("no.such",)}, "no.such"),
        ({"sets": ("huge",)}, "sets there: tiny"),
    ],
)
def test_plans_that_cannot_be_run_are_refused(data: Path, more: dict[str, Any], sentence: str) -> None:
    """Before anything is measured."""
    with pytest.raises(InvalidRequest, match=sentence):
        run(_plan(**more), data)


def test_the_command_of_a_plan_says_what_differs() -> None:
    """A preset stands for what it holds, and options say the rest."""
    assert "powerctx eval run --preset docs" == Plan(**PRESETS["docs"]).command()
    assert "powerctx eval run" == Plan().command()
    assert "powerctx eval run --sets locomo --limit 5" == Plan(sets=("locomo",), limit=5).command()


@pytest.mark.data
@pytest.mark.parametrize("name", ["locomo", "madial_zh", "precisionmem_en"])
def test_real_sets_give_sound_figures(evaluation_data: Path, name: str) -> None:
    """A few queries of real sets: nothing promised is broken, and evidence arrives."""
    report = run(_plan(sets=(name,), limit=12), evaluation_data)

    assert [] == broken(report)
    assert any(row["metrics"]["evidence"]["value"] > 0 for row in report["results"] if row["slice"] == "gold")


def test_gates_are_compared_in_one_run(data: Path, tmp_path: Path) -> None:
    """Off, an alias and a file under both recall policies: paired with off, their digests and verdicts reported."""
    file = tmp_path / "mine.toml"
    file.write_text('policy_id = "acme.gate.v1"\nmax_rounds = 0\n')
    gates = ("off", "v2", str(file))
    report = run(_plan(gates=gates, control="off", budgets=(budget("bytes=8000,items=8"),)), data)

    assert ["v2", str(file)] == [*report["gates"]]
    assert 2 == len(set(report["gates"].values()))
    pairs = [(row["control"]["gate"], row["treatment"]["gate"]) for row in report["pairs"] if row["slice"] == "gold"]
    assert [("off", "v2"), ("off", str(file))] * 2 == pairs
    assert [(policy, gate) for policy in (COMPATIBLE, OURS) for gate in gates[1:]] == [
        (row["arm"]["policy"], row["arm"]["gate"]) for row in report["verdicts"]
    ]
    for row in report["verdicts"]:
        assert row["answers"] == sum(row["reasons"].values())
        assert row["arm"]["gate"] == "v2" or row["expanded"] == 0
    assert [] == broken(report)
    rows = {(row["arm"]["policy"], row["arm"]["gate"]): row["metrics"] for row in report["results"]}
    assert rows[OURS, "off"] == rows[OURS, str(file)]


def test_a_gate_that_is_not_there(data: Path) -> None:
    """It is found before anything is stored."""
    with pytest.raises(InvalidRequest, match=r"^gate 'v9' is not installed; installed are off, "):
        run(_plan(gates=("off", "v9")), data)
    with pytest.raises(powerctx.ConfigError, match=r"^x\.toml is not there"):
        run(_plan(gates=("off", "x.toml")), data)
