"""Reads reports, and turns each into tables that the terminal, Markdown and the page share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from powerctx_core import InvalidRequest

__all__ = ["SLICES", "Table", "command", "labelled", "number", "read", "tables", "varied"]

RUN, BENCH, EMBEDDER = "powerctx.eval-run.v1", "powerctx.eval-bench.v1", "powerctx.eval-embedder.v1"
TOKENS = "powerctx.eval-tokens.v1"
SLICES: Mapping[str, str] = {
    "gold": "queries with gold",
    "adversarial": "adversarial queries, whose gold is a trap",
    "no_gold": "queries without gold",
}
_PLURALS = {"store": "stores", "embedder": "embedders", "policy": "policies", "gate": "gates", "budget": "budgets"}
_VIOLATED = tuple(f"{kind}_{what}" for kind in ("only", "must_not") for what in ("queries", "violated", "entries"))
_SHARES = ("any", "all", "precision", "empty")
_RANKED = ("recall@1", "recall@5", "recall@10", "ndcg@10")


@attrs.frozen(kw_only=True)
class Table:
    """One table.

    Attributes:
        note: one sentence on what the figures are.
        columns: headings; one that ends in ``>`` is aligned to the right.
        rows: cells as text.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def read(path: Path) -> dict[str, Any]:
    """Return a report.

    Raises:
        InvalidRequest: the file cannot be read, or holds no report that this version knows.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror}.", field="files") from None
    except ValueError as error:
        raise InvalidRequest(f"{path} is not JSON: {error}.", field="files") from None
    if not isinstance(value, dict) or value.get("schema") not in _TABLES:
        raise InvalidRequest(
            f"{path} is no report of `powerctx eval run`, `bench`, `embedder` or `tokens` that this version reads.",
            field="files",
        )
    return value


def tables(report: Mapping[str, Any]) -> list[Table]:
    """Return the tables of a report that have rows."""
    return [table for table in _TABLES[report["schema"]](report) if table.rows]


def command(report: Mapping[str, Any]) -> str:
    """Return the command that makes the report again."""
    return str(report["command"])


def varied(report: Mapping[str, Any]) -> list[str]:
    """Return the axes of a run with more than one value, and always policy and budget."""
    plan = report["plan"]
    return [axis for axis, plural in _PLURALS.items() if axis in ("policy", "budget") or len(plan[plural]) > 1]


def labelled(arm: Mapping[str, str], axes: Sequence[str]) -> str:
    """Return an arm's values of *axes* in one string."""
    return " · ".join(arm[axis] for axis in axes)


def number(metric: Mapping[str, float | None] | None, digits: int = 3, *, sign: bool = False) -> str:
    """Return a figure, or a dash where there is none."""
    value = None if metric is None else metric["value"]
    if value is None:
        return "–"
    return f"{value:{'+' if sign else ''},.{digits}f}"


def interval(metric: Mapping[str, float | None] | None, digits: int = 3, *, sign: bool = False) -> str:
    """Return the ends of an interval, or a dash where there is none."""
    if metric is None or metric["low"] is None:
        return "–"
    plus = "+" if sign else ""
    return f"{metric['low']:{plus}.{digits}f} … {metric['high']:{plus}.{digits}f}"


def _run_tables(report: Mapping[str, Any]) -> Iterator[Table]:
    axes = varied(report)
    for name, about in SLICES.items():
        rows = [row for row in report["results"] if row["slice"] == name]
        yield Table(
            title=f"Delivered: {about}",
            note=_DELIVERED if name == "gold" else "",
            columns=("set", *axes, "queries>", "evidence>", "95 %>", "any>", "all>", "precision>", "empty>", "bytes>",
                     "tokens>", "items>", "p50 ms>", "p95 ms>"),
            rows=tuple(_delivered(row, axes) for row in rows),
        )  # fmt: skip
    yield Table(
        title="Treatment minus control, paired",
        note="The same queries on both sides; an interval without 0 is a difference. "
        "Better and worse count queries that get more and less evidence.",
        columns=("set", "slice", "treatment", "control", "evidence>", "95 %>", "better>", "worse>", "precision>",
                 "95 %>", "bytes>", "time ratio>"),
        rows=tuple(_paired(row, axes) for row in report["pairs"] if row["slice"] != "no_gold"),
    )  # fmt: skip
    ranks = [axis for axis in axes if axis in ("store", "embedder", "policy")]
    yield Table(
        title="Ranks of find",
        note="Without any budget, for comparison with papers; what the policy's floor rejects is not ranked.",
        columns=("set", "slice", *ranks, "search", "queries>", *(f"{name}>" for name in _RANKED), "p50 ms>",
                 "p95 ms>"),
        rows=tuple(
            (row["set"], row["slice"], *(row[axis] for axis in ranks), row["search"], str(row["queries"]),
             *(number(row["metrics"][name]) for name in _RANKED), *_times(row["timing"]))
            for row in report["ranking"]
        ),
    )  # fmt: skip
    yield Table(
        title="What the gate said",
        note="Answers by the reason with which the gate ended, and how many got a further round.",
        columns=("set", *axes, "answers>", "expanded>", "reasons"),
        rows=tuple(
            (row["set"], *(row["arm"][axis] for axis in axes), str(row["answers"]),
             f"{row['expanded'] / row['answers']:.3f}",
             ", ".join(f"{reason} {count}" for reason, count in sorted(row["reasons"].items())))
            for row in report.get("verdicts", ())
        ),
    )  # fmt: skip
    yield Table(
        title="Delivered against the label",
        note="Answers with an entry outside the query's `only`, or inside its `must_not`.",
        columns=("set", *axes, "only: queries>", "violated>", "entries>", "must_not: queries>", "violated>", "entries>",
                 "filter not applied>"),
        rows=tuple(
            (row["set"], *(row["arm"][axis] for axis in axes),
             *(str(row[name]) for name in _VIOLATED), str(row["filter_not_applied"]))
            for row in report["violations"]
        ),
    )  # fmt: skip
    yield Table(
        title="Sets",
        columns=("set", "items>", "queries>", "asked>", "blank>", "retired>", "filters>", "not in prepare>",
                 "not in find>", "stored s>"),
        note="Blank queries cannot be asked. A filter that a request cannot say was not applied.",
        rows=tuple(_set_row(row, report["ingest"]) for row in report["sets"]),
    )  # fmt: skip


_DELIVERED = (
    "Evidence is the share of a query's gold items whose text stands in the delivered content under its own citation, "
    "with a bootstrap interval over queries; precision is the share of delivered text that is gold, over answers that "
    "deliver something."
)


def _delivered(row: Mapping[str, Any], axes: Sequence[str]) -> tuple[str, ...]:
    metrics = row["metrics"]
    return (
        row["set"], *(row["arm"][axis] for axis in axes), str(row["queries"]), number(metrics.get("evidence")),
        interval(metrics.get("evidence")), *(number(metrics.get(name)) for name in _SHARES),
        number(metrics["bytes"], 0), number(metrics["tokens"], 0), number(metrics["items"], 1), *_times(row["timing"]),
    )  # fmt: skip


def _paired(row: Mapping[str, Any], axes: Sequence[str]) -> tuple[str, ...]:
    metrics = row["metrics"]
    return (
        row["set"], row["slice"], labelled(row["treatment"], axes), labelled(row["control"], axes),
        number(metrics.get("evidence"), sign=True), interval(metrics.get("evidence"), sign=True), str(row["better"]),
        str(row["worse"]), number(metrics.get("precision"), sign=True), interval(metrics.get("precision"), sign=True),
        number(metrics["bytes"], 0, sign=True), f"{row['timing']['ratio_p50']:.2f}",
    )  # fmt: skip


def _set_row(row: Mapping[str, Any], ingest: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    seconds = [each["timing"]["seconds"] for each in ingest if each["set"] == row["name"]]
    missing = row["filters_not_applied"]
    return (
        row["name"], *(str(row[name]) for name in ("items", "queries", "asked", "not_askable", "retired", "filters")),
        str(missing["prepare"]), str(missing["find"]), " / ".join(f"{each:.1f}" for each in seconds),
    )  # fmt: skip


def _bench_tables(report: Mapping[str, Any]) -> Iterator[Table]:
    yield Table(
        title="Calls beside the engine's own query",
        note="Calls and the raw ranked query for the same words take turns on one file; the ratio is the median of "
        "pairs. Statements leave BEGIN and ROLLBACK aside.",
        columns=("items>", "shape", "lang", "call", "p50 ms>", "p95 ms>", "engine p50>", "engine p95>", "ratio>",
                 "statements>", "embeddings>"),
        rows=tuple(
            (f"{row['size']:,}", row["shape"], row["lang"], row["call"], *_times(row["timing"]),
             *_times(row["timing"], "engine_ms"), f"{row['timing']['ratio_p50']:.2f}", f"{row['statements']:.1f}",
             f"{row['embeddings']:.1f}")
            for row in report["calls"]
        ),
    )  # fmt: skip
    yield Table(
        title="Ingest",
        note="Batches of 1000 take turns with the same texts put into a bare FTS5 table of another file.",
        columns=("items>", "shape", "lang", "items/s>", "engine items/s>", "file MB>"),
        rows=tuple(
            (f"{row['size']:,}", row["shape"], row["lang"], f"{row['timing']['items_per_second']:,.0f}",
             f"{row['timing']['engine_items_per_second']:,.0f}", f"{row['file_bytes'] / 1e6:.1f}")
            for row in report["ingest"]
        ),
    )  # fmt: skip


def _embedder_tables(report: Mapping[str, Any]) -> Iterator[Table]:
    yield Table(
        title=f"Embedder {report['embedder']}",
        note="Noise is the 95th percentile of the cosines of other pairs in the scope, match the median of relevant "
        "ones. Pooled noise is the median over pairs of sets with different subjects, query and item from one each.",
        columns=("set", "noise>", "match>", "relevant above noise>", "recall@10>", "95 %>", "ms a document>",
                 "ms a query>"),
        rows=tuple(
            (row["set"], f"{row['noise']:.3f}", f"{row['match']:.3f}", f"{row['above_noise']:.3f}",
             number(row.get("recall@10")), interval(row.get("recall@10")),
             *(f"{row['timing'][name]:.2f}" for name in ("ms_per_document", "ms_per_query")))
            for row in (*report["sets"], report["pooled"])
        ),
    )  # fmt: skip


def _tokens_tables(report: Mapping[str, Any]) -> Iterator[Table]:
    yield Table(
        title="Token estimates against exact counts",
        note="Mean relative error, and the share of texts whose estimate is within 15 and 25 % of the count, and more "
        "than 10 % below it.",
        columns=("estimator", "counter", "texts of", "number>", "mean>", "within 15 %>", "within 25 %>", "under>"),
        rows=tuple(
            (row["estimator"], row["counter"], row["group"], str(row["texts"]), f"{row['mean']:+.3f}",
             *(f"{row[name]:.3f}" for name in ("within_15", "within_25", "under_by_10")))
            for row in report["groups"]
        ),
    )  # fmt: skip
    prices = report["prices"]
    yield Table(
        title="Prices that come nearest",
        note="Tokens for one of each feature.",
        columns=("feature", *(f"{name}>" for name in prices)),
        rows=tuple(
            (feature, *(f"{values[feature]:.2f}" for values in prices.values()))
            for feature in next(iter(prices.values()), ())
        ),
    )


def _times(timing: Mapping[str, float], prefix: str = "ms") -> tuple[str, str]:
    return f"{timing[f'{prefix}_p50']:.2f}", f"{timing[f'{prefix}_p95']:.2f}"


_TABLES: Mapping[str, Callable[[Mapping[str, Any]], Iterator[Table]]] = {
    RUN: _run_tables,
    BENCH: _bench_tables,
    EMBEDDER: _embedder_tables,
    TOKENS: _tokens_tables,
}
