"""Token estimates are as near to exact counts as is claimed, on real texts."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from powerctx_core.cli.options import Invocation
from powerctx_core.text.tokens import Features, features
from powerctx_eval.cli import evaluate
from powerctx_eval.data import SETS, data_folder
from powerctx_eval.tokens import measure

LATIN = ("locomo", "madial_en", "precisionmem_en")
CODE = ("cosqa_code", "python source")
JSON = tuple(f"{name}, JSON" for name in SETS)
CHINESE = ("cmrc_zh", "madial_zh")


@pytest.fixture(scope="module")
def rows():
    """Give the measured rows of the default estimator, by group."""
    report = measure(data_folder(None), SETS, pairs=[("o200k", "o200k-exact")])
    return {row["group"]: row for row in report["groups"]}


def share(rows, names, field):
    """Return the share of the texts of several groups."""
    return sum(rows[name][field] * rows[name]["texts"] for name in names) / sum(rows[name]["texts"] for name in names)


@pytest.mark.parametrize(
    ("names", "field"), [(LATIN, "within_15"), (CODE, "within_15"), (JSON, "within_15"), (CHINESE, "within_25")]
)
def test_near(rows, names, field):
    """Nine of ten packs of Latin text, code and JSON are within 15 %, of Chinese within 25 %."""
    assert share(rows, names, field) >= 0.9


def test_seldom_below(rows):
    """At most six of a hundred packs are estimated more than 10 % too low."""
    assert share(rows, (*LATIN, *CODE, *JSON, *CHINESE, "numbers", "identifiers", "emoji"), "under_by_10") <= 0.06


def test_fit():
    """The prices that are printed are prices of the features, none negative, and they price their own texts well."""
    report = measure(data_folder(None), ["precisionmem_en"], pairs=[("o200k", "o200k-exact")], fit=True)
    prices = Features(**report["prices"]["o200k-exact"])
    text = "We chose SQLite because it needs no server, and one file is easy to copy.\n"

    assert min(prices) >= 0
    assert 12 <= sum(count * price for count, price in zip(features(text), prices, strict=True)) <= 24


def test_program(tmp_path):
    """The command prints a table, writes the report, and refuses what is no pair, naming the form."""
    out = tmp_path / "tokens.json"
    arguments = ["tokens", "--sets", "precisionmem_en", "--pair", "seed=o200k-exact", "--out", str(out)]
    result = CliRunner().invoke(evaluate, arguments, obj=Invocation())

    assert result.exit_code == 0
    assert "identifiers" in result.output
    assert out.is_file()
    assert "--pair 'x' is not of the form" in str(
        CliRunner().invoke(evaluate, ["tokens", "--pair", "x"], obj=Invocation()).exception
    )
