"""``powerctx prepare`` and ``powerctx find``: what belongs to a question."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from powerctx_core.cli import output
from powerctx_core.cli.asking import (
    check_names,
    check_prepare,
    deadline_options,
    prepare_options,
    prepare_request,
)
from powerctx_core.cli.options import (
    Invocation,
    common,
    examples,
    listed,
    listing,
    narrowed,
    narrowing,
    query_text,
    recall_options,
)
from powerctx_core.errors import InvalidRequest

if TYPE_CHECKING:
    from powerctx_core.context import Context
    from powerctx_core.records import FamilySpec
    from powerctx_core.requests import Diagnostics, FindRequest, PrepareRequest
    from powerctx_core.types import Hit, RecallEffort, ToolList

__all__ = ["advice", "find", "gate_note", "hit_rows", "missing", "prepare", "restricts", "sizes_of", "to_read"]

SCOPES_SHOWN = 5


@click.command(
    epilog=examples(
        'powerctx prepare "Why did we choose SQLite?" --scope project:demo --max-bytes 4000',
        'echo "部署在哪一天？" | powerctx prepare - --scope project:demo --reference company',
        'powerctx prepare "What broke last week?" --scope project:demo --sections memory=4 --show confidence',
        'powerctx prepare "Who likes tea?" --scope project:demo --gate v2 --policy powerctx.recall.v1',
    )
)
@click.argument("query")
@click.option("--receipt", "include_receipt", is_flag=True, help="Say on standard error what it was made of and why.")
@click.option("--receipt-version", metavar="N", type=int, help="1 (when absent), or 2, which can say everything.")
@prepare_options
@recall_options
@common
@click.pass_obj
def prepare(
    invocation: Invocation,
    /,
    *,
    include_receipt: bool,
    receipt_version: int | None,
    **asked: Any,
) -> None:
    """Print context for QUERY on standard output, and one line about it on standard error.

    `-` reads the query from standard input. Every given budget holds. When there is nothing to deliver, standard output
    stays empty, the line says why and what to do, and the exit code is 0. With --json standard output is exactly the
    response. A receipt is about the text and no part of it: it comes on standard error, as one line of JSON, or in
    the response. `powerctx explain` shows more.
    """
    from powerctx_core import wire

    if receipt_version is not None and not include_receipt:
        raise InvalidRequest("--receipt-version needs --receipt.", field="receipt_version")
    request = prepare_request(invocation, include_receipt=include_receipt, receipt_version=receipt_version, **asked)
    with invocation.open() as ctx:
        check_prepare(ctx, request)
        prepared = ctx.prepare(request)
        if invocation.json:
            output.emit_json(wire.to_json(prepared))
            output.notes(missing(prepared.diagnostics))
            return
        if prepared.receipt is not None:
            output.json_note(wire.to_json(prepared.receipt))
        tools = prepared.tools.items if prepared.tools is not None else ()
        if prepared.content is None and not tools:
            if request.sections == ():
                output.note("empty (no_content): no section was asked for; name one with --sections.")
            else:
                sizes = sizes_of(request)
                line = [advice(ctx, prepared.diagnostics, request.scope_id, request.references, sizes=sizes)]
                output.note(" · ".join([*line, *gate_note(prepared.diagnostics.effort)]))
            return
    if prepared.content is not None:
        output.text(prepared.content)
    diagnostics = prepared.diagnostics
    budget = f" of {request.max_bytes}" if request.max_bytes is not None else ""
    cut = sum(item.truncated for item in diagnostics.items if item.part == "inject")
    line = [
        diagnostics.outcome,
        output.pieces(len(diagnostics.items) - len(tools), "item") + (f" ({cut} cut)" if cut else ""),
        *to_read(prepared.tools),
        f"{prepared.content_bytes}{budget} bytes",
        _modes(diagnostics),
    ]
    if diagnostics.fallback != "none":
        line.append(f"words alone ({diagnostics.fallback})")
    output.note(" · ".join([*line, *gate_note(diagnostics.effort), *missing(diagnostics)]))


def to_read(tools: ToolList | None) -> list[str]:
    """Return what the line about a pack says of its list, when there is anything in it."""
    count = 0 if tools is None else len(tools.items)
    return [f"{output.pieces(count, 'item')} to read by a tool (--json shows it)"] if count else []


@click.command(epilog=examples('powerctx find "deploy on friday" --scope project:demo --limit 20 --since 2026-01-01'))
@click.argument("query")
@listing
@narrowing
@deadline_options
@recall_options
@common
@click.pass_obj
def find(
    invocation: Invocation,
    /,
    *,
    query: str,
    scope: str,
    families: str | None,
    **more: Any,
) -> None:
    """List items related to QUERY, best first, without their bodies.

    `-` reads the query from standard input. `score` orders the hits of one call; `match` is the strength of the
    evidence, 0 to 1, comparable between calls.
    """
    from powerctx_core import wire
    from powerctx_core.requests import FindRequest

    request = FindRequest(query=query_text(query), scope_id=scope, **narrowed({"families": listed(families), **more}))
    with invocation.open() as ctx:
        check_names(ctx, "--families", "powerctx_families", request.families or ())
        if request.search_type != "fts":
            ctx.embedding.warm()
        found = ctx.find(request)
        if invocation.json:
            output.emit_json(wire.to_json(found))
            output.notes(missing(found.diagnostics))
            return
        if not found.hits:
            output.note(
                advice(ctx, found.diagnostics, request.scope_id, request.references, filtered=restricts(request))
            )
            return
    output.table(("rank>", "score>", "match>", "uri", "abstract"), hit_rows(found.hits))
    output.notes(missing(found.diagnostics))


def gate_note(effort: RecallEffort | None) -> list[str]:
    """Return what the gate did, if it is on: the reason, and the candidates by round where there were several."""
    if effort is None:
        return []
    rounds = " → ".join(map(str, effort.candidates_by_round))
    return [f"gate: {effort.reason}" + (f" ({rounds} candidates)" if effort.expansion_actions else "")]


def sizes_of(request: PrepareRequest) -> list[str]:
    """Return the options of the sizes that bound the answer, given or by default."""
    options = {
        "--max-bytes": request.max_bytes,
        "--max-chars": request.max_chars,
        "--max-tokens": request.max_tokens,
        "--inject-max-tokens": request.inject_max_tokens,
    }
    return [name for name, size in options.items() if size is not None]


def advice(
    ctx: Context,
    diagnostics: Diagnostics,
    scope_id: str,
    references: Iterable[str],
    *,
    filtered: bool = False,
    sizes: Sequence[str] = (),
) -> str:
    """Return the line about an empty answer: its outcome, and what to do next.

    *filtered* says that tags, a category or times restricted what could be found; *sizes* are options that bound it.
    """
    outcome = diagnostics.outcome
    retrieved = sum(counts.retrieved for counts in diagnostics.counts)
    searched = ", ".join([scope_id, *references])
    if outcome == "no_content":
        partitions = ctx.partitions()
        stored = sorted({partition.scope_id for partition in partitions} - {scope_id, *references})
        others = sorted({partition.family for partition in partitions if partition.scope_id in (scope_id, *references)})
        hint = f"store something with `powerctx ingest PATH --scope {scope_id}`"
        asked = {family for family, _ in diagnostics.modes}
        # What core's own families hold is stored, and was looked for above.
        installed = ctx.host.names("powerctx_families")
        unasked = [name for name in installed if name not in asked and not ctx.host.own("powerctx_families", name)]
        if others:
            hint = f"it holds the families {', '.join(others)}: pass {_named(ctx, others)}"
        elif stored:
            shown = ", ".join(stored[:SCOPES_SHOWN]) + (", …" if len(stored) > SCOPES_SHOWN else "")
            hint += f", or pass a --scope that holds something: {shown}"
        if unasked and not others:
            hint += f"; installed and not asked: {', '.join(unasked)} (--families, or the setting recall.families)"
        why = f"nothing is stored in scope {searched} (families: {_families(diagnostics)}); {hint}"
    elif outcome == "no_match" and filtered:
        why = f"nothing in scope {searched} passes the filters and shares a word with the query; loosen the filters"
    elif outcome == "no_match":
        why = f"nothing in scope {searched} shares a word with the query; use other words, or add a --reference"
    elif outcome == "below_threshold":
        many = "1 item shares" if retrieved == 1 else f"{retrieved} items share"
        why = f"{many} words with the query, too few of them; name the matter more exactly"
    elif diagnostics.frame_over:
        units = " and ".join(diagnostics.frame_over)
        why = f"what the renderer always writes exceeds the budget in {units}; raise it, or name another --renderer"
    elif outcome == "budget":
        why = f"nothing fits the budget; raise {' and '.join(sizes)}"
    elif outcome == "deadline":
        why = f"no answer in time: {', '.join(diagnostics.late)}; run it again, or raise --deadline-ms"
    elif outcome == "source_error":
        why = f"failed: {_failed(diagnostics)}; leave it out with --families, and see `powerctx plugins`"
    else:
        why = "see `powerctx doctor`"
    return f"empty ({outcome}): {why}."


def restricts(request: FindRequest) -> bool:
    """Tell whether a request restricts what can be found, beside by its words."""
    return bool(request.filters or request.conditions or request.score_threshold)


def hit_rows(hits: Sequence[Hit]) -> Iterator[tuple[object, ...]]:
    """Return rank, score, match, URI and abstract of each hit."""
    return map(_row, range(1, len(hits) + 1), hits)


def _row(rank: int, hit: Hit) -> tuple[object, ...]:
    shown = hit.candidate.abstract or hit.candidate.title
    return rank, f"{hit.score:.3f}", f"{hit.match:.2f}", hit.address.uri, shown


def missing(diagnostics: Diagnostics) -> list[str]:
    """Return what to say when the answer is not all that there could be; nothing otherwise."""
    late = [f"late: {', '.join(diagnostics.late)}"] if diagnostics.late else []
    failed = [f"failed: {_failed(diagnostics)}"] if diagnostics.failed else []
    return [f"partial, {'; '.join([*late, *failed])}"] if diagnostics.partial else []


def _failed(diagnostics: Diagnostics) -> str:
    return ", ".join(f"{family} ({reason})" for family, reason in diagnostics.failed)


def _modes(diagnostics: Diagnostics) -> str:
    """Return what ran for each family that has something."""
    found = {counts.family for counts in diagnostics.counts if counts.retrieved}
    found |= {item.address.family for item in diagnostics.items}
    return ", ".join(f"{family} {mode}" for family, mode in diagnostics.modes if family in found) or "none"


def _families(diagnostics: Diagnostics) -> str:
    return ", ".join(family for family, _ in diagnostics.modes) or "none"


def _named(ctx: Context, families: Sequence[str]) -> str:
    """Return the option that asks for *families*: by a section where none of them is found by a query."""
    installed = ctx.host.names("powerctx_families")
    latest = [name for name in families if name in installed and not _spec(ctx, name).searchable]
    found = [name for name in families if name not in latest]
    if found:
        return f"--families {','.join(found)}"
    return f"--sections {','.join(f'{name}=1' for name in latest)}"


def _spec(ctx: Context, family: str) -> FamilySpec:
    spec: FamilySpec = ctx.host.spec("powerctx_families", family)
    return spec
