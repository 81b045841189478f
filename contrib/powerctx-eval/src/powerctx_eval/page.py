"""Reports as one HTML page that needs nothing else: no script, no network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from powerctx_eval.baselines import known
from powerctx_eval.charts import Bar, bars, differences
from powerctx_eval.markdown import INTRODUCTION, facts
from powerctx_eval.reports import BENCH, EMBEDDER, RUN, TOKENS, Table, command, labelled, number, tables, varied

__all__ = ["render"]

_STYLE = """
:root{color-scheme:light dark;--paper:#fff;--ink:#1b1b1f;--soft:#5c5f66;--line:#d5d8de;--track:#eceef2;
--k0:#2f6db5;--k1:#b3531c;--k2:#2c7a4b;--k3:#7b4bb0;--focus:#0b57d0}
@media (prefers-color-scheme:dark){:root{--paper:#16181d;--ink:#e8e9ed;--soft:#a4a8b1;--line:#3a3e47;--track:#262a32;
--k0:#7fb2ee;--k1:#f0a06c;--k2:#7ccb99;--k3:#c3a0ee;--focus:#a8c7fa}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:72rem;padding:1rem;background:var(--paper);color:var(--ink);
font:1rem/1.5 system-ui,"Segoe UI",Roboto,"Noto Sans","Noto Sans CJK SC",sans-serif}
a{color:var(--k0)}
h1{font-size:1.6rem;line-height:1.2}h2{font-size:1.3rem;margin-top:2.5rem}h3{font-size:1.05rem;margin:2rem 0 .5rem}
.skip{position:absolute;left:-99rem}.skip:focus{position:static}
:focus-visible{outline:3px solid var(--focus);outline-offset:2px}
nav ul{display:flex;flex-wrap:wrap;gap:.25rem 1rem;padding:0;list-style:none}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,19rem),1fr));gap:1rem}
figure{margin:0;padding:.75rem;border:1px solid var(--line);border-radius:.5rem;max-width:30rem}
figcaption{font-weight:600;margin-bottom:.25rem}
svg{display:block;width:100%;height:auto}
svg text{font:12px system-ui,sans-serif;fill:var(--ink)}svg .value{text-anchor:end;font-weight:600}
svg .label{fill:var(--soft);font-size:11px}
.track{fill:var(--track)}.k0{fill:var(--k0)}.k1{fill:var(--k1)}.k2{fill:var(--k2)}.k3{fill:var(--k3)}
.whisker{stroke:var(--ink);stroke-width:1.5;fill:none}.zero{stroke:var(--soft);stroke-dasharray:3 3}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}
caption{text-align:start;color:var(--soft);padding-bottom:.4rem}
th,td{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:start;white-space:nowrap}
.n{text-align:end}
pre{overflow-x:auto;padding:.6rem;border:1px solid var(--line);border-radius:.4rem}
dl{display:grid;grid-template-columns:minmax(6rem,auto) 1fr;gap:.2rem 1rem;font-size:.85rem}
dt{color:var(--soft);overflow-wrap:anywhere}dd{margin:0;overflow-wrap:anywhere}
"""
_LATE = "median to 95th percentile"
_POLICY = """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">"""
_TITLES = {RUN: "Evidence within budgets", BENCH: "Speed", EMBEDDER: "Embedder", TOKENS: "Tokens"}


def render(reports: Sequence[Mapping[str, Any]]) -> str:
    """Return the page."""
    names = [_TITLES[report["schema"]] for report in reports]
    sections = "".join(_section(report, number, names[number]) for number, report in enumerate(reports))
    links = "".join(f'<li><a href="#r{number}">{escape(name)}</a></li>' for number, name in enumerate(names))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        + _POLICY
        + f"<title>powerctx evaluation</title><style>{_STYLE}</style></head><body>"
        '<a class="skip" href="#main">Skip to the figures</a>'
        f"<header><h1>powerctx evaluation</h1><p>{_marked(INTRODUCTION)}</p>"
        f'<nav aria-label="Reports"><ul>{links}</ul></nav></header><main id="main">{sections}</main></body></html>\n'
    )


def _section(report: Mapping[str, Any], number: int, name: str) -> str:
    shown = tables(report)
    if report["schema"] == RUN:
        shown = [*shown, known(report["plan"]["sets"])]
    drawn = "".join(_charts(report, f"r{number}"))
    told = "".join(f"<dt>{escape(key)}</dt><dd>{_marked(value)}</dd>" for key, value in facts(report))
    return (
        f'<section id="r{number}" aria-labelledby="r{number}-h"><h2 id="r{number}-h">{escape(name)}</h2>{drawn}'
        + "".join(_table(table, f"r{number}-t{place}") for place, table in enumerate(shown) if table.rows)
        + f'<h3>Made with</h3><pre tabindex="0"><code>{escape(command(report))}</code></pre><dl>{told}</dl></section>'
    )


def _charts(report: Mapping[str, Any], ident: str) -> Iterator[str]:
    if report["schema"] == RUN:
        yield from _run_charts(report, ident)
    elif report["schema"] == BENCH:
        rows = [
            Bar(label=f"{row['size']:,} {row['shape']} {row['lang']} {row['call']}", value=row["timing"]["ms_p50"],
                low=row["timing"]["ms_p50"], high=row["timing"]["ms_p95"], shown=f"{row['timing']['ms_p50']:.1f}",
                ends=_LATE,
                kind=int(row["call"] == "find"))
            for row in report["calls"]
        ]  # fmt: skip
        yield _figures("Milliseconds a call: median, whisker to the 95th percentile", ident, [("Calls", rows, bars)])


def _run_charts(report: Mapping[str, Any], ident: str) -> Iterator[str]:
    axes = [axis for axis in varied(report) if axis != "budget"]
    names = dict.fromkeys(labelled(row["arm"], axes) for row in report["results"])
    kinds = {name: place for place, name in enumerate(names)}
    gold = [row for row in report["results"] if row["slice"] == "gold"]
    sets = dict.fromkeys(row["set"] for row in gold)

    def rows(name: str, metric: str) -> list[Bar]:
        return [
            Bar(label=f"{row['arm']['budget']} · {labelled(row['arm'], axes)}", shown=number(row["metrics"][metric]),
                kind=kinds[labelled(row["arm"], axes)], **row["metrics"][metric])
            for row in sorted(gold, key=lambda row: report["plan"]["budgets"].index(row["arm"]["budget"]))
            if row["set"] == name and row["metrics"][metric]["value"] is not None
        ]  # fmt: skip

    def times(name: str) -> list[Bar]:
        return [
            Bar(label=f"{row['arm']['budget']} · {labelled(row['arm'], axes)}", value=row["timing"]["ms_p50"],
                low=row["timing"]["ms_p50"], high=row["timing"]["ms_p95"], shown=f"{row['timing']['ms_p50']:.1f}",
                ends=_LATE,
                kind=kinds[labelled(row["arm"], axes)])
            for row in gold
            if row["set"] == name
        ]  # fmt: skip

    def pairs(name: str) -> list[Bar]:
        return [
            Bar(label=f"{row['treatment']['budget']} · {labelled(row['treatment'], axes)}",
                shown=number(row["metrics"]["evidence"], sign=True), kind=kinds[labelled(row["treatment"], axes)],
                **row["metrics"]["evidence"])
            for row in report["pairs"]
            if row["set"] == name and row["slice"] == "gold"
        ]  # fmt: skip

    yield _figures("Evidence delivered, 0 to 1, with 95 % intervals", f"{ident}-e",
                   [(name, rows(name, "evidence"), lambda *a: bars(*a, top=1.0)) for name in sets])  # fmt: skip
    if report["pairs"]:
        yield _figures(f"Evidence minus that of the control ({report['plan']['control']}), paired", f"{ident}-d",
                       [(name, pairs(name), differences) for name in sets])  # fmt: skip
    yield _figures("Milliseconds of prepare: median, whisker to the 95th percentile", f"{ident}-l",
                   [(name, times(name), bars) for name in sets])  # fmt: skip


def _figures(title: str, ident: str, drawn: Sequence[tuple[str, Sequence[Bar], Any]]) -> str:
    found = "".join(
        f"<figure><figcaption>{escape(name)}</figcaption>{draw(f'{ident}-{place}', f'{title}: {name}', rows)}</figure>"
        for place, (name, rows, draw) in enumerate(drawn)
        if rows
    )
    return f'<h3>{escape(title)}</h3><div class="charts">{found}</div>' if found else ""


def _table(table: Table, ident: str) -> str:
    right = [name.endswith(">") for name in table.columns]
    head = "".join(
        f'<th scope="col"{_side(side)}>{escape(name.removesuffix(">"))}</th>'
        for name, side in zip(table.columns, right, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f'<th scope="row">{escape(cell)}</th>'
            if not place and not side
            else f"<td{_side(side)}>{escape(cell)}</td>"
            for place, (cell, side) in enumerate(zip(row, right, strict=True))
        )
        + "</tr>"
        for row in table.rows
    )
    caption = f"<caption>{_marked(table.note)}</caption>" if table.note else ""
    return (
        f'<h3 id="{ident}">{escape(table.title)}</h3>'
        f'<div class="scroll" role="region" tabindex="0" aria-labelledby="{ident}">'
        f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _side(right: bool) -> str:  # noqa: FBT001 (a cell is on one side or the other)
    return ' class="n"' if right else ""


def _marked(text: str) -> str:
    """Return text with `code` marked as such."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if place % 2 else part for place, part in enumerate(parts))
