"""``powerctx eval``: the commands.  What they call is imported when one runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from powerctx_core import InvalidRequest, PowerctxError
from powerctx_core.cli import output
from powerctx_core.cli.options import Invocation, examples
from powerctx_core.cli.progress import Bar

__all__ = ["evaluate"]

F = TypeVar("F", bound=Callable[..., Any])


class BrokenPromise(PowerctxError):
    """Answers of a run were not what the product promises."""


@click.group(name="eval")
def evaluate() -> None:
    """Measure evidence within budgets, speed and embedders; write reports."""


def _flags(function: F) -> F:
    """Add ``--json`` and ``--debug``, as the program's own commands have them."""

    def keep(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        if value:
            setattr(context.ensure_object(Invocation), str(parameter.name), value)
        return value

    for name, about in (("debug", "Show tracebacks of errors."), ("json", "Print JSON on standard output.")):
        function = click.option(
            f"--{name}", is_flag=True, expose_value=False, is_eager=True, callback=keep, help=about
        )(function)
    return function


def _data_options(function: F) -> F:
    for option in (
        click.option("--sets", metavar="A,B", help="Sets to use; all that are known when absent."),
        click.option("--data", metavar="DIR", help="Folder of the sets; else POWERCTX_EVAL_DATA, else ../shared/data."),
    ):
        function = option(function)
    return function


def _seed(function: F) -> F:
    return click.option("--seed", metavar="N", type=click.IntRange(0), help="Of everything random; 7 when absent.")(
        function
    )


def _out(function: F) -> F:
    path = click.Path(path_type=Path)
    return click.option("--out", metavar="FILE", type=path, help="Write the report here, as JSON.")(function)


def _split(values: tuple[str, ...] | str | None) -> tuple[str, ...]:
    """Return the parts of comma-separated values."""
    given = (values,) if isinstance(values, str) else values or ()
    return tuple(dict.fromkeys(part.strip() for value in given for part in value.split(",") if part.strip()))


@evaluate.command(
    epilog=examples(
        "powerctx eval run --preset quick",
        "powerctx eval run --sets locomo --budget bytes=8000,items=64 --store sqlite --out run.json",
        "powerctx eval run --preset gate --gate off --gate v2 --gate mine.toml --out gate.json",
    )
)
@_data_options
@click.option("--preset", metavar="NAME", help="Start from docs, gate or quick; options still count.")
@click.option("--policy", "policies", metavar="ID", multiple=True, help="Recall policies; may be repeated.")
@click.option(
    "--budget",
    "budgets",
    metavar="LIMITS",
    multiple=True,
    help="Such as bytes=8000,items=8 (also tokens=, chars=); may be repeated.",
)
@click.option(
    "--store",
    "stores",
    metavar="URL",
    multiple=True,
    help="memory, sqlite (a temporary file) or the URL of an empty store; may be repeated.",
)
@click.option(
    "--embedder", "embedders", metavar="NAME", multiple=True, help="none or an installed embedder; may be repeated."
)
@click.option(
    "--gate",
    "gates",
    metavar="ID|FILE",
    multiple=True,
    help="off, an installed gate policy or a TOML file of one; may be repeated.",
)
@click.option("--control", metavar="NAME", help="The value to compare others with; the first policy when absent.")
@click.option(
    "--filter-as", type=click.Choice(["tags", "scopes"]), help="What filter_scope of a set means; tags when absent."
)
@click.option("--limit", metavar="N", type=click.IntRange(1), help="Queries of each set at most, drawn by the seed.")
@click.option("--resamples", metavar="N", type=click.IntRange(0), help="Of the bootstrap; 2000 when absent.")
@click.option("--details", metavar="FILE", type=click.Path(path_type=Path), help="Write one JSON line an answer here.")
@_seed
@_out
@_flags
@click.pass_obj
def run(invocation: Invocation, /, *, data: str | None, details: Path | None, out: Path | None, **more: Any) -> None:
    """Measure how much evidence arrives within budgets, control against treatment.

    Every query of every set is asked under every combination of budget, policy, store and embedder. What counts as
    delivered is read from the delivered text by its citations. Figures come with 95 % intervals over queries,
    differences are paired. The data stays where it is.
    """
    from powerctx_eval import run as runs
    from powerctx_eval.data import data_folder

    plan = _plan(invocation, **more)
    folder = data_folder(data)
    with ExitStack() as stack:
        write = None if details is None else _writer(stack, details)
        steps = stack.enter_context(_steps(wanted=not invocation.json))
        report = runs.run(plan, folder, started=steps, details=write)
    _deliver(invocation, report, out)
    if sentences := runs.broken(report):
        raise BrokenPromise(f"answers broke what is promised: {'; '.join(sentences)}.")


def _plan(invocation: Invocation, *, preset: str | None, **given: Any) -> Any:
    """Return the plan: the preset, and over it what was given."""
    from powerctx_eval import arms

    if preset is not None and preset not in arms.PRESETS:
        raise InvalidRequest(f"preset {preset!r} is not one of {', '.join(arms.PRESETS)}.", field="preset")
    stores = given["stores"] or ((invocation.store,) if invocation.store else ())
    wanted = {
        "sets": _split(given["sets"]),
        "policies": _split(given["policies"]),
        "embedders": _split(given["embedders"]),
        "gates": _split(given["gates"]),
        "stores": tuple(dict.fromkeys(stores)),
        "budgets": arms.budgets(given["budgets"]),
        **{name: given[name] for name in ("control", "limit", "seed", "resamples")},
        "filtered_by": given["filter_as"],
    }
    fields = {name: value for name, value in wanted.items() if value not in (None, ())}
    return arms.Plan(**{**arms.PRESETS.get(preset or "", {}), **fields})


@evaluate.command(epilog=examples("powerctx eval bench --sizes 1000,10000 --runs 200"))
@click.option("--sizes", metavar="N,N", default="1000,10000", show_default=True, help="Items stored.")
@click.option(
    "--shape",
    "shapes",
    type=click.Choice(["one-scope", "scopes-of-50"]),
    multiple=True,
    help="How they lie in scopes; may be repeated, both when absent.",
)
@click.option(
    "--lang",
    "languages",
    type=click.Choice(["en", "zh"]),
    multiple=True,
    help="Language of the made text; may be repeated, both when absent.",
)
@click.option("--embedder", metavar="NAME", default="none", show_default=True, help="An installed embedder.")
@click.option("--runs", metavar="N", type=click.IntRange(1), default=200, show_default=True, help="Calls of each kind.")
@_seed
@_out
@_flags
@click.pass_obj
def bench(
    invocation: Invocation,
    /,
    *,
    sizes: str,
    shapes: tuple[str, ...],
    languages: tuple[str, ...],
    embedder: str,
    runs: int,
    seed: int | None,
    out: Path | None,
) -> None:
    """Measure prepare, find and ingest against the engine's own queries on the same SQLite file.

    Calls are paired in one run: each is followed by the raw query for the same words. Text is made, by the seed.
    """
    from powerctx_eval.bench import Workload, bench

    numbers = _split(sizes)
    if not numbers or not all(number.isascii() and number.isdigit() and int(number) for number in numbers):
        raise InvalidRequest(f"sizes {sizes!r} are not numbers such as 1000,10000.", field="sizes")
    workloads = [
        Workload(size=int(size), shape=shape, lang=lang)
        for size in numbers
        for shape in shapes or ("one-scope", "scopes-of-50")
        for lang in languages or ("en", "zh")
    ]
    with _steps(wanted=not invocation.json) as steps:
        report = bench(workloads, embedder=embedder, runs=runs, seed=7 if seed is None else seed, started=steps)
    _deliver(invocation, report, out)


@evaluate.command(epilog=examples("powerctx eval embedder local --sets madial_zh,locomo"))
@click.argument("name")
@_data_options
@click.option(
    "--pairs",
    metavar="N",
    type=click.IntRange(100),
    default=20000,
    show_default=True,
    help="Unrelated pairs drawn from each set.",
)
@click.option("--limit", metavar="N", type=click.IntRange(1), help="Queries of each set at most, drawn by the seed.")
@_seed
@_out
@_flags
@click.pass_obj
def embedder(
    invocation: Invocation,
    /,
    *,
    name: str,
    data: str | None,
    sets: str | None,
    pairs: int,
    limit: int | None,
    seed: int | None,
    out: Path | None,
) -> None:
    """Measure the anchors, the speed and the dense recall of embedder NAME.

    `match` is the median cosine of relevant pairs; `noise` the 95th percentile of unrelated ones, which are a query of
    one set and an item of a set about something else. An embedder's profile declares both.
    """
    from powerctx_eval.data import SETS, data_folder
    from powerctx_eval.embedder import measure

    with _steps(wanted=not invocation.json) as steps:
        report = measure(
            name, data_folder(data), _split(sets) or SETS, pairs=pairs, limit=limit,
            seed=7 if seed is None else seed, started=steps,
        )  # fmt: skip
    _deliver(invocation, report, out)


@evaluate.command(
    epilog=examples("powerctx eval tokens", "powerctx eval tokens --sets cmrc_zh --text notes=docs --fit")
)
@_data_options
@click.option(
    "--pair",
    "pairs",
    metavar="ESTIMATOR=COUNTER",
    multiple=True,
    help="Installed parts to compare; may be repeated. Core's own with powerctx-tokenizers when absent.",
)
@click.option(
    "--text", "texts", metavar="NAME=DIR", multiple=True, help="A further group: the text files below DIR; repeatable."
)
@click.option("--fit", is_flag=True, help="Also print the prices that come nearest to each counter.")
@_seed
@_out
@_flags
@click.pass_obj
def tokens(
    invocation: Invocation,
    /,
    *,
    data: str | None,
    sets: str | None,
    pairs: tuple[str, ...],
    texts: tuple[str, ...],
    fit: bool,
    seed: int | None,
    out: Path | None,
) -> None:
    """Measure how far token estimates are from what tokenizers count.

    Groups of texts are packs of each set's items, single items, packs of JSON lines, the source of Python's own
    library, numbers and identifiers.
    """
    from powerctx_eval.data import SETS, data_folder
    from powerctx_eval.tokens import PAIRS, measure

    with _steps(wanted=not invocation.json) as steps:
        report = measure(
            data_folder(data), _split(sets) or SETS, pairs=_pairs("--pair", pairs) or PAIRS,
            texts={name: Path(place) for name, place in _pairs("--text", texts)},
            seed=7 if seed is None else seed, fit=fit, started=steps,
        )  # fmt: skip
    _deliver(invocation, report, out)


def _pairs(option: str, values: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the two sides of each value."""
    found = []
    for value in values:
        left, middle, right = value.partition("=")
        if not (left and middle and right):
            raise InvalidRequest(f"{option} {value!r} is not of the form LEFT=RIGHT.", field=option.lstrip("-"))
        found.append((left, right))
    return found


@evaluate.command(epilog=examples("powerctx eval report run.json bench.json --markdown report.md --html report.html"))
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE.json…")
@click.option("--markdown", metavar="FILE", type=click.Path(path_type=Path), help="Write Markdown here.")
@click.option("--html", metavar="FILE", type=click.Path(path_type=Path), help="Write one self-contained page here.")
@_flags
@click.pass_obj
def report(invocation: Invocation, /, *, files: tuple[Path, ...], markdown: Path | None, html: Path | None) -> None:
    """Turn reports of run, bench, embedder and tokens into Markdown and one HTML page.

    Without a file to write, Markdown goes to standard output.
    """
    from powerctx_eval import markdown as as_markdown, page
    from powerctx_eval.reports import read

    reports = [read(file) for file in files]
    written = []
    if markdown is not None or html is None:
        text = as_markdown.render(reports, *([] if markdown is None else [markdown.as_posix()]))
        if markdown is None:
            if not invocation.json:
                output.text(text)
        else:
            markdown.write_text(text, encoding="utf-8")
            written.append(str(markdown))
    if html is not None:
        html.write_text(page.render(reports), encoding="utf-8")
        written.append(str(html))
    if invocation.json:
        output.emit_json({"reports": [each["schema"] for each in reports], "written": written})
    elif written:
        output.note(f"wrote {', '.join(written)}")


def _deliver(invocation: Invocation, report: dict[str, Any], out: Path | None) -> None:
    """Write the report to its file, and print it: JSON or tables."""
    from powerctx_eval.reports import tables

    if out is not None:
        out.write_text(json.dumps(report, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    if invocation.json:
        output.emit_json(report)
    else:
        for number, table in enumerate(tables(report)):
            if number:
                output.emit()
            output.table(table.columns, table.rows, title=table.title)
    if out is not None:
        output.note(f"wrote {out}")


@contextmanager
def _steps(*, wanted: bool) -> Iterator[Callable[[str, int], Callable[[int], None]]]:
    """Give a function that starts the bar of the next step and ends that of the last one."""
    stack = ExitStack()

    def start(label: str, total: int) -> Callable[[int], None]:
        stack.close()
        bar = stack.enter_context(Bar(label, total, wanted=wanted))
        return bar.advance

    with stack:
        yield start


def _writer(stack: ExitStack, path: Path) -> Callable[[Mapping[str, Any]], None]:
    stream = stack.enter_context(path.open("w", encoding="utf-8"))
    return lambda row: print(json.dumps(row, ensure_ascii=False), file=stream)
