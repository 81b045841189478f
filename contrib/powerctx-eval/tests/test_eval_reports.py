"""Reports: Markdown, the page, and the commands around them."""

from __future__ import annotations

import json
import random
import re
import struct
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from powerctx_core import EmbedderSpec, EmbedRequest, hookimpl
from powerctx_core.cli.program import program
from powerctx_eval import markdown, page
from powerctx_eval.arms import Plan
from powerctx_eval.bench import Workload, bench
from powerctx_eval.charts import Bar, bars, differences
from powerctx_eval.cli import evaluate
from powerctx_eval.embedder import Cosines, anchors, measure
from powerctx_eval.reports import tables
from powerctx_eval.run import run
from powerctx_eval.synthetic import Text, items

VOID = {"meta", "br", "link", "img", "input", "hr"}


class _Page(HTMLParser):
    """Checks that elements nest, and collects what there is."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def named(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of every such element."""
        return [attributes for name, attributes in self.found if name == tag]


@pytest.fixture
def report(data: Path) -> dict[str, Any]:
    """A report of the tiny set, as read from a file."""
    plan = Plan(sets=("tiny",), stores=("memory",), resamples=50)
    value: dict[str, Any] = json.loads(json.dumps(run(plan, data)))
    return value


def test_markdown_says_what_how_and_with_what(report: dict[str, Any]) -> None:
    """Title, the command, versions, digests, and one table for each kind of figure, in this order."""
    text = markdown.render([report])

    headings = re.findall(r"^#+ .*", text, flags=re.MULTILINE)
    assert [
        "# Evaluation", "## Make it again", "## Made with", "### Delivered: queries with gold",
        "### Delivered: adversarial queries, whose gold is a trap", "### Delivered: queries without gold",
        "### Treatment minus control, paired", "### Ranks of find", "### Delivered against the label", "### Sets",
    ] == headings  # fmt: skip
    assert "powerctx eval run --sets tiny --store memory --resamples 50 --out report1.json" in text
    assert report["environment"]["analysis_version"] in text
    assert report["policies"]["powerctx.recall.v1"] in text
    assert "| tiny | powerctx.recall.v1 | bytes=8000,items=8 | 4 | 0.750 |" in text
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        assert len({line.count("|") for line in table.splitlines()}) == 1


def test_the_page_stands_alone(report: dict[str, Any]) -> None:
    """Well-formed, without scripts and without anything from elsewhere."""
    text = page.render([report])
    found = _Page(text)

    assert [] == found.stack
    assert not [tag for tag, _ in found.found if tag in ("script", "link", "img", "iframe", "object")]
    assert not re.search(r"https?:|url\(|@import|//[a-z]", text)
    addresses = [
        value for _, attributes in found.found for name, value in attributes.items() if name in ("href", "src")
    ]
    assert addresses
    assert all(address and address.startswith("#") for address in addresses)


def test_the_page_can_be_read_out_and_walked_through(report: dict[str, Any]) -> None:
    """Language, one heading, charts with title and text, tables with headers, scrolling parts with name and focus."""
    found = _Page(page.render([report, report]))

    assert [{"lang": "en"}] == found.named("html")
    assert 1 == len(found.named("h1"))
    ids = [attributes["id"] for _, attributes in found.found if "id" in attributes]
    assert len(set(ids)) == len(ids)
    charts = found.named("svg")
    assert charts
    assert len(charts) == len(found.named("title")) - 1 == len(found.named("desc"))
    assert all(chart["role"] == "img" for chart in charts)
    referred = [name for _, each in found.found for name in (each.get("aria-labelledby") or "").split()]
    assert set(referred) <= set(ids)
    assert all(cell.get("scope") in ("col", "row") for cell in found.named("th"))
    scrolling = [each for each in found.named("div") if each.get("class") == "scroll"]
    assert scrolling
    assert all(each["tabindex"] == "0" and each["role"] == "region" for each in scrolling)


def test_names_cannot_become_markup(report: dict[str, Any]) -> None:
    """Whatever a set is called stays text."""
    evil = "<script>alert(1)</script>|`x`\"'"
    shown = json.loads(json.dumps(report).replace('"tiny"', json.dumps(evil)))

    found = _Page(page.render([shown]))
    assert not found.named("script")
    rows = [line for line in markdown.render([shown]).splitlines() if "alert" in line and line.startswith("|")]
    assert rows
    assert not any("<script>" in row for row in rows)


def test_charts_tell_their_values() -> None:
    """The text of a chart names every row, its value and its interval; lengths follow values."""
    rows = [Bar(label="a & b", value=0.5, low=0.4, high=0.6, shown="0.500"), Bar(label="c", value=0.25, shown="0.250")]

    drawn = bars("x", "Evidence", rows, top=1.0)
    assert "a &amp; b: 0.500 (95 % interval 0.4 to 0.6); c: 0.250" in drawn
    assert ["150.0", "75.0"] == re.findall(r'class="k0"[^>]*width="([\d.]+)"', drawn)
    assert 'class="zero"' in differences("y", "Difference", rows)
    assert bars("z", "Nothing", []).startswith("<svg")
    late = Bar(label="p", value=1.0, low=1.0, high=3.0, shown="1.0", ends="median to 95th percentile")
    assert "p: 1.0 (median to 95th percentile 1 to 3)" in bars("w", "Times", [late])


def _invoke(*arguments: str) -> Any:
    return CliRunner().invoke(evaluate, list(arguments), obj=SimpleNamespace(json=False, debug=False, store=None))


def test_run_and_report_from_the_command_line(data: Path, tmp_path: Path) -> None:
    """The two commands of the documentation, on the tiny set."""
    out, text, html = (tmp_path / name for name in ("run.json", "report.md", "report.html"))

    ran = _invoke(
        "run", "--data", str(data), "--sets", "tiny", "--store", "memory", "--resamples", "20", "--out", str(out)
    )
    assert (0, True) == (ran.exit_code, "tiny" in ran.stdout), ran.output
    written = _invoke("report", str(out), "--markdown", str(text), "--html", str(html))
    assert 0 == written.exit_code, written.output
    assert text.read_text(encoding="utf-8").startswith("# Evaluation\n")
    assert html.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_json_is_one_value_on_standard_output(data: Path) -> None:
    """With ``--json`` the whole report is printed, and nothing else."""
    arguments = ("run", "--data", str(data), "--sets", "tiny", "--store", "memory", "--resamples", "0", "--json")

    assert "powerctx.eval-run.v1" == json.loads(_invoke(*arguments).stdout)["schema"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("run", "--data", "nowhere"), "error: the evaluation data is not at nowhere; name its folder with --data DIR"),
        (("run", "--preset", "none"), "error: preset 'none' is not one of docs, gate, quick."),
        (("run", "--budget", "8000"), "error: budget '8000' is not of the form bytes=8000,items=8"),
        (("bench", "--sizes", "many"), "error: sizes 'many' are not numbers such as 1000,10000."),
        (("report", "absent.json"), "error: absent.json cannot be read: No such file or directory."),
    ],
)
def test_errors_are_one_line_and_exit_2(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], arguments: Sequence[str], sentence: str
) -> None:
    """As everywhere in the program, which the commands are hung into here."""
    monkeypatch.setattr(type(program), "get_command", lambda self, ctx, name: evaluate if name == "eval" else None)
    with pytest.raises(SystemExit) as caught:
        program.main(["eval", *arguments], prog_name="powerctx")

    shown = capfd.readouterr()
    assert (2, "", 1) == (caught.value.code, shown.out, shown.err.count("\n"))
    assert shown.err.startswith(sentence)


def test_a_file_that_is_no_report_is_refused(tmp_path: Path) -> None:
    """Before anything is written."""
    (tmp_path / "x.json").write_text('{"schema": "other"}', encoding="utf-8")

    assert "is no report" in str(_invoke("report", str(tmp_path / "x.json")).exception)


class _Letters:
    """An embedder of letter counts: texts of the same letters are alike."""

    profile = SimpleNamespace()

    def embed(self, request: EmbedRequest) -> list[bytes]:
        """Count."""
        found = []
        for text in request.texts:
            counts = np.array([text.lower().count(chr(97 + n)) for n in range(26)] + [len(text) * 0.1])
            counts = counts / np.linalg.norm(counts)
            found.append(struct.pack(f"<{len(counts)}f", *counts))
        return found


class _Offer:
    @hookimpl
    def powerctx_embedders(self) -> Iterator[EmbedderSpec]:
        """Offer it."""
        yield EmbedderSpec(name="letters", factory=lambda settings: _Letters(), about="counts letters")


def test_anchors_by_hand() -> None:
    """Noise is the 95th percentile of unrelated pairs, match the median of relevant ones."""
    found = anchors(Cosines(unrelated=np.linspace(0, 1, 101), relevant=np.array([0.90, 0.97, 0.99])))

    assert (0.95, 0.97, 0.6667) == (found["noise"], found["match"], found["above_noise"])


def test_an_embedder_is_measured_per_set_and_pooled(data: Path) -> None:
    """Anchors, recall and time of the tiny set; equal seeds give equal figures; the tables show them."""
    one, same = (measure("letters", data, ("tiny",), pairs=300, extra=(_Offer(),)) for _ in range(2))

    (row,) = one["sets"]
    assert -1 <= row["noise"] <= 1
    assert row["recall@10"]["value"] == 1.0  # every scope holds fewer than ten
    assert one["pooled"]["noise"] == row["noise"] == same["sets"][0]["noise"]
    assert row["timing"]["ms_per_document"] > 0
    assert ["Embedder letters"] == [table.title for table in tables(one)]
    assert "## Made with" in markdown.render([one])
    assert [] == _Page(page.render([one])).stack


def test_made_text_is_fixed_by_its_seed() -> None:
    """Frequent words are frequent, every item is one, and scopes are filled one after the other."""
    for lang in ("en", "zh"):
        one, same = ([*items(Text(lang), random.Random(1), 100, 4)] for _ in range(2))
        assert one == same
        assert ["bench/0"] * 25 == [item.scope_id for item in one[:25]]
        assert Text(lang).question(random.Random(2), one[0].text)


def test_bench_measures_calls_in_pairs() -> None:
    """Times, ratio, statements and rates for each workload, on a store of its own."""
    from powerctx_sqlite import plugin

    found = bench(
        [Workload(size=100, shape="scopes-of-50"), Workload(size=60, lang="zh")], runs=5, seed=1, extra=(plugin,)
    )

    assert [("prepare", 5), ("find", 5)] * 2 == [(row["call"], row["runs"]) for row in found["calls"]]
    for row in found["calls"]:
        assert row["timing"]["ms_p50"] > 0
        assert row["timing"]["engine_ms_p50"] > 0
        assert 1 <= row["statements"] <= 5
        assert row["embeddings"] == 0
    assert all(row["timing"]["items_per_second"] > 0 and row["file_bytes"] > 0 for row in found["ingest"])
    assert ["Calls beside the engine's own query", "Ingest"] == [table.title for table in tables(found)]
    assert [] == _Page(page.render([found])).stack


def test_the_plugin_module_is_light() -> None:
    """Naming the commands imports neither them nor numpy."""
    import subprocess
    import sys

    code = (
        "import sys, powerctx_eval.plugin; print(sorted({'numpy', 'click', 'powerctx_eval.cli'} & sys.modules.keys()))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]" == shown.stdout.strip()
