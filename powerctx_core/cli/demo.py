"""``powerctx demo``: the whole way from files to context, on the packaged sample."""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import attrs
import click

from powerctx_core.cli import output
from powerctx_core.cli.ingest import Intake
from powerctx_core.cli.options import Invocation, common, examples
from powerctx_core.cli.progress import Bar
from powerctx_core.errors import CapabilityError, StoreError

if TYPE_CHECKING:
    from powerctx_core.context import Context
    from powerctx_core.requests import PreparedContext
    from powerctx_core.types import Address, Hit

__all__ = ["demo"]

MAX_BYTES = 8000
MAX_ITEMS = 8


@attrs.frozen(kw_only=True)
class Answer:
    """One question of the demo and what came of it.

    Attributes:
        hits: what recall found, by address, for the explanation.
        stored, searched: items in the store, and in the question's scope.
        milliseconds: time that ``prepare`` took.
    """

    question: str
    scope_id: str
    prepared: PreparedContext
    hits: dict[Address, Hit]
    stored: int
    searched: int
    milliseconds: float


@click.command(epilog=examples("powerctx demo", "powerctx demo --json"))
@common
@click.pass_obj
def demo(invocation: Invocation, /) -> None:
    """Show it on the packaged sample, English and Chinese: ingest, three questions, and why these answers.

    The store is a temporary SQLite file that is deleted afterwards; nothing of yours is read or written.
    """
    from powerctx_core import sample

    questions = [record for record in _records(sample.questions().read_text("utf-8")) if record.get("demo")]
    with (
        tempfile.TemporaryDirectory(prefix="powerctx-demo-", ignore_cleanup_errors=True) as folder,
        _opened(invocation, Path(folder) / "demo.db") as ctx,
    ):
        started = time.perf_counter()
        stored = _ingest(ctx)
        seconds = time.perf_counter() - started
        if not invocation.json:
            output.emit(f"{stored} items ingested in {seconds:.2f} s, from {sample.SCOPE}")
        answers = [_answer(ctx, record) for record in questions]
    if invocation.json:
        output.emit_json([_serialised(answer) for answer in answers])
        return
    for number, answer in enumerate(answers, 1):
        _show(number, answer)
    output.emit()
    # Under `uv run` the program is on no path of the user's own.
    program = "uv run powerctx" if os.environ.get("UV") else "powerctx"
    output.emit(f"Now your own: {program} ingest FOLDER --scope project:mine --split")
    output.emit(f'              {program} prepare "QUESTION" --scope project:mine')


def _opened(invocation: Invocation, file: Path) -> Context:
    """Open the temporary store with default settings; only which plugins may load is the user's.

    Raises:
        CapabilityError: no installed plugin serves SQLite.
    """
    from powerctx_core import config, opening

    settings = config.Settings(plugins=invocation.effective().settings.plugins)
    try:
        return opening.open(f"sqlite:///{file.as_posix()}", settings=settings)
    except StoreError as error:
        if "sqlite" not in invocation.host().names("powerctx_stores"):
            raise CapabilityError(
                "the demo keeps its sample in SQLite, and no plugin for it is in use; install it with: "
                "pip install powerctx-sqlite (or add sqlite to POWERCTX_PLUGINS)."
            ) from error
        raise


def _ingest(ctx: Context) -> int:
    from powerctx_core import sample
    from powerctx_core.ingest import BadLine, Reader

    source = sample.items()
    with source.open("rb") as file, Bar("ingesting the sample", 0, sizes=True) as bar:
        intake = Intake(ctx, bar.note)
        families = frozenset(ctx.host.names("powerctx_families"))
        for entry in Reader(families=families, progress=bar.advance).records(cast("BinaryIO", file), "items.jsonl"):
            if isinstance(entry, BadLine):
                intake.refuse(entry)
            else:
                intake.add(entry)
        intake.flush()
    return intake.stored


def _records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def _answer(ctx: Context, record: dict[str, Any]) -> Answer:
    question, scope_id = record["text"], record["scope"]
    found = ctx.find(question, scope_id=scope_id, limit=64)
    started = time.perf_counter()
    prepared = ctx.prepare(question, scope_id=scope_id, max_bytes=MAX_BYTES, max_items=MAX_ITEMS)
    milliseconds = (time.perf_counter() - started) * 1000
    partitions = ctx.partitions()
    return Answer(
        question=question,
        scope_id=scope_id,
        prepared=prepared,
        hits={hit.address: hit for hit in found.hits},
        stored=sum(partitions.values()),
        searched=sum(number for partition, number in partitions.items() if partition.scope_id == scope_id),
        milliseconds=milliseconds,
    )


def _rows(answer: Answer) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for rank, item in enumerate(answer.prepared.diagnostics.items, 1):
        hit = answer.hits.get(item.address)
        score, match = (f"{hit.score:.3f}", f"{hit.match:.2f}") if hit is not None else ("", "")
        share = f"{item.rendered_bytes} ({item.rendered_bytes * 100 / MAX_BYTES:.0f} %)"
        rows.append((rank, item.address.uri, score, match, share, "cut" if item.truncated else ""))
    return rows


def _summary(answer: Answer) -> str:
    diagnostics = answer.prepared.diagnostics
    matched = sum(counts.retrieved for counts in diagnostics.counts)
    admitted = sum(counts.admitted for counts in diagnostics.counts)
    return (
        f"{answer.searched} of {answer.stored} items in store, {matched} matched, {admitted} admitted, "
        f"{len(diagnostics.items)} delivered, {answer.prepared.content_bytes} of {MAX_BYTES} bytes, "
        f"{answer.milliseconds:.1f} ms"
    )


def _show(number: int, answer: Answer) -> None:
    output.emit()
    output.heading(f"Question {number}: {answer.question}")
    output.emit()
    if answer.prepared.content is None:
        output.emit(f"(empty: {answer.prepared.diagnostics.outcome})")
    else:
        output.text(answer.prepared.content)
    output.emit()
    output.table(("rank>", "uri", "score>", "match>", "bytes of the budget>", ""), _rows(answer), title="Why these:")
    output.emit(_summary(answer))


def _serialised(answer: Answer) -> dict[str, Any]:
    from powerctx_core import wire

    return {
        "question": answer.question,
        "scope_id": answer.scope_id,
        "prepared": wire.to_json(answer.prepared),
        "outcome": answer.prepared.diagnostics.outcome,
        "items": [
            {"uri": item.address.uri, "rendered_bytes": item.rendered_bytes, "truncated": item.truncated}
            for item in answer.prepared.diagnostics.items
        ],
        "summary": _summary(answer),
    }
