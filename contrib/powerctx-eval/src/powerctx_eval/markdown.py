"""Reports as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from powerctx_eval.baselines import known
from powerctx_eval.reports import RUN, Table, command, tables

__all__ = ["facts", "render"]

INTRODUCTION = (
    "What is measured here is what an agent gets: the context that `prepare` delivers within a budget, read back from "
    "the delivered text by its citations. Intervals are 95 %, by bootstrap over queries."
)

ELSEWHERE = (
    "The labelled sets are read from `--data DIR`, `POWERCTX_EVAL_DATA` or `../shared/data` and are no part of this "
    "repository."
)


def render(reports: Sequence[Mapping[str, Any]], target: str = "evaluation.md") -> str:
    """Return one Markdown document of all reports; *target* is the file that its commands write."""
    lines = ["# Evaluation", "", INTRODUCTION, "", "## Make it again", "", "```sh"]
    lines += [f"{command(report)} --out report{number}.json" for number, report in enumerate(reports, 1)]
    files = " ".join(f"report{number}.json" for number in range(1, len(reports) + 1))
    lines += [f"powerctx eval report {files} --markdown {target}", "```", ""]
    if any(report["schema"] == RUN for report in reports):
        lines += [ELSEWHERE, ""]
    for report in reports:
        lines += ["## Made with", "", *(f"* {name}: {value}" for name, value in facts(report)), ""]
        shown = tables(report)
        if report["schema"] == RUN:
            shown = [*shown, known(report["plan"]["sets"])]
        for table in shown:
            if table.rows:
                lines += _table(table)
    return "\n".join(lines).rstrip("\n") + "\n"


def facts(report: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield what the report was made with, for people."""
    environment = report["environment"]
    machine = environment["machine"]
    yield "made", f"{report['started_at']} in {report['timing']['seconds']:.0f} s"
    yield (
        "commit",
        f"`{environment['commit'] or 'unknown'}`"
        + (" (changed since)" if str(environment["commit"]).endswith("+") else ""),
    )
    versions = {"Python": environment["python"], "SQLite": environment["sqlite"], **environment["packages"]}
    yield "versions", ", ".join(f"{name} {version}" for name, version in versions.items())
    yield "analysis", f"`{environment['analysis_version']}`"
    yield "machine", f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}"
    for policy, digest in report.get("policies", {}).items():
        yield f"policy {policy}", f"`{digest or 'unknown'}`"
    for gate, digest in report.get("gates", {}).items():
        yield f"gate {gate}", f"`{digest}`"
    for name, values in report.get("embedders", {}).items():
        yield f"embedder {name}", ", ".join(f"{key} {value}" for key, value in values.items())
    if "plan" in report:
        plan = report["plan"]
        limit = "all" if plan["limit"] is None else f"at most {plan['limit']}"
        yield "queries", f"{limit} of each set; seed {plan['seed']}, {plan['resamples']} resamples"
        yield "stores", ", ".join(plan["stores"])


def _table(table: Table) -> list[str]:
    names = [_cell(name.removesuffix(">")) for name in table.columns]
    rule = ["---:" if name.endswith(">") else "---" for name in table.columns]
    lines = [f"### {table.title}", ""]
    if table.note:
        lines += [table.note, ""]
    rows = [names, rule, *([_cell(cell) for cell in row] for row in table.rows)]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows), ""]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
