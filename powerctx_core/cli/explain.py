"""``powerctx explain``: why exactly these, on a terminal, as a page, or as JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from powerctx_core.cli import output, page_file
from powerctx_core.cli.asking import check_prepare, prepare_options, prepare_request
from powerctx_core.cli.options import Invocation, common, examples, narrowing, query_text, recall_options
from powerctx_core.cli.recall import advice, sizes_of
from powerctx_core.cli.search import lifecycle_option, pack_options, search_parameters, summary
from powerctx_core.errors import InvalidRequest

if TYPE_CHECKING:
    from powerctx_core.context import Context
    from powerctx_core.explanation import ExplainedCandidate, ExplainedRound, Explanation
    from powerctx_core.requests import PrepareRequest, SearchRequest
    from powerctx_core.types import RecallEffort

__all__ = ["explain"]

_SHOWN = 10
_WORDS = 6
_BAR = 28
_OF_PREPARE = frozenset({"max_bytes", "max_chars", "max_items", "sections"})
_OF_BOTH = frozenset(
    {"query", "scope", "references", "families", "policy", "gate", "deadline_ms", "on_family_error"}
    | {"max_tokens", "renderer", "show", "trim", "delivery", "inject_max_tokens"}
)


@click.command(
    epilog=examples(
        'powerctx explain "Why did we choose SQLite?" --scope project:demo',
        'powerctx explain "What broke last week?" --scope project:demo --gate v2 --html why.html',
        'powerctx explain "How do we deploy?" --scope project:demo --mode context --purpose coding --max-tokens 800',
        "powerctx explain --scope project:demo --mode bootstrap --session s1 --lifecycle resume",
    )
)
@click.argument("query", required=False)
@click.option("--html", "page", metavar="FILE", callback=page_file.place,
              help="Draw it as one HTML page that needs nothing else; - writes it to standard output.")  # fmt: skip
@click.option("--all", "every", is_flag=True, help=f"List all that was left out, not {_SHOWN} of each reason.")
@click.option("--mode", metavar="MODE",
              help="context, bootstrap (without a query), or the name of a candidate provider: explain what `search` "
              "gives, not `prepare`.")  # fmt: skip
@lifecycle_option
@prepare_options
@narrowing
@pack_options
@recall_options
@common
@click.pass_obj
def explain(invocation: Invocation, /, *, page: str | None, every: bool, mode: str | None, **asked: Any) -> None:
    """Show how the context for QUERY comes about: what was found, let in, left out and why.

    It asks once, as `prepare` with the same options, or with --mode as `search`, and explains that one answer. In mode
    bootstrap it shows what an agent should know when it starts, slot by slot.
    The page and --json hold the query and the text that is delivered. Nothing is recorded in a session.
    """
    from powerctx_core import wire
    from powerctx_core.requests import PrepareRequest

    request = _request(invocation, mode, asked)
    with invocation.open() as ctx:
        if isinstance(request, PrepareRequest):
            check_prepare(ctx, request)
        elif not request.offered:
            ctx.embedding.warm()
        explanation = ctx.explain(request)
        _note(ctx, explanation)
    if page is not None:
        from powerctx_core.page import page as drawn

        if page == page_file.STANDARD_OUTPUT:
            output.emit(drawn(explanation).rstrip("\n"))
            return
        page_file.write(page, drawn(explanation))
        output.note(f"{page} is written; open it in a browser. It holds the query and the delivered text.")
        return
    if invocation.json:
        output.emit_json(wire.to_json(explanation))
        return
    _show(explanation, _SHOWN if not every else len(explanation.candidates))


def _request(invocation: Invocation, mode: str | None, asked: dict[str, Any]) -> PrepareRequest | SearchRequest:
    """Return the request that the options make.

    Raises:
        InvalidRequest: one of them is not of this mode, or outside its limits.
    """
    from powerctx_core.requests import SearchRequest

    other = _OF_PREPARE if mode is not None else asked.keys() - _OF_PREPARE - _OF_BOTH
    for name in sorted(other):
        value = asked.pop(name)
        if value not in (None, (), False):
            other_mode = "bootstrap" if name == "lifecycle" else "context"
            of = "prepare; leave --mode out" if mode is not None else f"search; add --mode {other_mode}"
            raise InvalidRequest(f"{_option(name)} is an option of {of}.")
    query = asked.pop("query")
    if mode is None:
        if query is None:
            raise InvalidRequest("QUERY is missing; only --mode bootstrap takes none.", field="query")
        return prepare_request(invocation, query=query, **asked)
    query, scope = None if query is None else query_text(query), asked.pop("scope")
    return SearchRequest(query=query, scope_id=scope, mode=mode, **search_parameters(invocation, asked))


def _option(name: str) -> str:
    """Return the option of the running command that is a parameter of this name."""
    parameters = click.get_current_context().command.params
    return next(each.opts[0] for each in parameters if each.name == name)


def _note(ctx: Context, explanation: Explanation) -> None:
    """Say what to do where nothing is delivered."""
    from powerctx_core.requests import ContextPack, PrepareRequest

    request, response = explanation.request, explanation.response
    if response.selected or getattr(request, "sections", None) == ():
        return
    if isinstance(response, ContextPack):
        output.note(summary(response))
    elif isinstance(request, PrepareRequest):
        output.note(advice(ctx, response.diagnostics, request.scope_id, request.references, sizes=sizes_of(request)))


def _show(explanation: Explanation, most: int) -> None:
    from powerctx_core.page.words import title

    output.heading(title(explanation))
    output.emit(output.plain(_summary(explanation)))
    for each in explanation.rounds:
        _round(explanation, each)
    _slots(explanation)
    _budgets(explanation)
    _delivered(explanation)
    _left_out(explanation, most)
    _values(explanation)
    _ran(explanation)


def _summary(explanation: Explanation) -> str:
    from powerctx_core.page.words import searched

    diagnostics = explanation.response.diagnostics
    parts = [
        diagnostics.outcome,
        *_made_by(explanation),
        *(f"{name}: {value}" for name, value in searched(explanation).items()),
        *(f"late: {name}" for name in diagnostics.late),
        *(f"failed: {family} ({reason})" for family, reason in diagnostics.failed),
    ]
    return " · ".join(parts)


def _made_by(explanation: Explanation) -> tuple[str, ...]:
    diagnostics, effort = explanation.response.diagnostics, explanation.effort
    delivered, among = output.pieces(len(explanation.response.selected), "item"), len(explanation.candidates)
    if explanation.slots:
        return (f"{delivered} of {among} offered", f"mode {diagnostics.policy}")
    gate = "gate off" if effort is None else _ended(effort)
    return (f"{delivered} of {among} retrieved", f"recall policy {diagnostics.policy}", gate)


def _ended(effort: RecallEffort) -> str:
    """Return what the gate came to: its last verdict, or why the loop ended before one was enough."""
    return f"gate {effort.policy_id}: {effort.reason} after {output.pieces(effort.rounds, 'round')}"


def _round(explanation: Explanation, each: ExplainedRound) -> None:
    from powerctx_core.page.words import VERDICTS, floor_in_words, next_step

    output.emit()
    title = f"Round {each.number}" + (f" ({each.action})" if each.action else "")
    if each.outcome != "completed":
        output.heading(f"{title}: dropped, nothing of it was used")
        return
    output.heading(title if each.floor is None else f"{title}, let in: {floor_in_words(each.floor)}")
    rows = [
        (pool.family, pool.scope_id, pool.retrieved, pool.admitted, pool.retrieved - pool.admitted)
        for pool in each.pools
    ]
    output.table(("family", "scope", "retrieved>", "admitted>", "rejected>"), rows)
    if each.reason is not None:
        output.emit(f"Verdict: {each.reason}, {VERDICTS.get(each.reason, '')}. {next_step(explanation, each)}")
        _signals(explanation, each)


def _signals(explanation: Explanation, each: ExplainedRound) -> None:
    from powerctx_core.page.words import compared

    rows = [
        (
            signal.words,
            "-" if signal.value is None else f"{signal.value:.4g}",
            "" if signal.threshold is None else f"{signal.threshold:g}",
            signal.told,
        )
        for signal in compared(explanation, each)
    ]
    if rows:
        output.table(("signal", "value>", "threshold>", ""), rows)


def _slots(explanation: Explanation) -> None:
    from powerctx_core.page.words import SLOTS

    if not explanation.slots:
        return
    output.emit()
    rows = [
        (
            each.slot, each.source, f"{each.share:.0%}", each.carried, each.room, each.used, each.entries, each.offered,
            "" if each.left_out is None else each.left_out, SLOTS[each.outcome],
        )
        for each in explanation.slots
    ]  # fmt: skip
    columns = ("slot", "source", "share>", "flowed on>", "room>", "used>", "entries>", "offered>", "not shown>", "")
    _filled(columns, rows, title="Slots, in tokens:")
    for each in explanation.slots:
        if each.content_hash is not None:
            output.emit(output.plain(f"{each.slot} is always the same text: {each.content_hash}"))


def _budgets(explanation: Explanation) -> None:
    receipt = explanation.receipt
    if receipt is None:
        return
    output.emit()
    rows = []
    for budget in receipt.budgets:
        share = budget.used / budget.requested if budget.requested else 0.0
        filled = round(_BAR * share)
        rows.append((budget.unit, "#" * filled + "." * (_BAR - filled), budget.used, budget.requested, f"{share:.0%}"))
    output.table(("budget", "", "used>", "of>", "share>"), rows)


def _delivered(explanation: Explanation) -> None:
    from powerctx_core.explanation import DELIVERED

    order = {address: place for place, address in enumerate(explanation.response.selected, 1)}
    found = [each for each in explanation.candidates if each.fate in DELIVERED]
    if not found:
        return
    found.sort(key=lambda each: order[each.address])
    output.emit()
    several = len(explanation.rounds) > 1
    rows = [
        (
            order[each.address],
            each.slot or "",
            *_row(explanation, each),
            each.round if several and each.round is not None else "",
            each.rendered_bytes,
            _shown(each),
        )
        for each in found
    ]
    _filled(("place>", "slot", *_COLUMNS, "let in in round>", "bytes>", "fate"), rows, title="Delivered:")


def _shown(each: ExplainedCandidate) -> str:
    """Return how a delivered item is shown: whole, cut, listed, or at its tier."""
    return each.fate if each.detail in (None, "full") else f"{each.detail}{', cut' * (each.fate == 'cut')}"


_COLUMNS = ("uri", "found by", "score>", "match>", "share>", "cosine>", "relevance>", "words")


def _filled(columns: Sequence[str], rows: Sequence[tuple[object, ...]], *, title: str) -> None:
    """Print a table without the columns in which no row has anything."""
    kept = [place for place in range(len(columns)) if any(row[place] != "" for row in rows)]
    shown = [tuple(row[place] for place in kept) for row in rows]
    output.table([columns[place] for place in kept], shown, title=title)


def _row(explanation: Explanation, each: ExplainedCandidate) -> tuple[object, ...]:
    words = " ".join(map(explanation.word, each.matched_units[:_WORDS])) + (
        " …" if len(each.matched_units) > _WORDS else ""
    )
    score = "" if each.score is None else f"{each.score:.3f}"
    compared = (
        "" if value is None else f"{value:.2f}" for value in (each.match, each.share, each.cosine, each.relevance)
    )
    return each.address.uri, ",".join(each.channels), score, *compared, words


def _left_out(explanation: Explanation, most: int) -> None:
    from powerctx_core.explanation import DELIVERED
    from powerctx_core.page.words import FATES

    groups: dict[str, list[ExplainedCandidate]] = defaultdict(list)
    for each in explanation.candidates:
        if each.fate not in DELIVERED:
            groups[each.fate].append(each)
    for fate, found in sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])):
        output.emit()
        title = f"Left out, {len(found)}: {FATES.get(fate, fate)} ({fate}):"
        _filled(
            ("slot", *_COLUMNS), [(each.slot or "", *_row(explanation, each)) for each in found[:most]], title=title
        )
        if len(found) > most:
            output.emit(f"and {len(found) - most} more (--all lists them)")
    receipt = explanation.receipt
    if receipt is not None:
        gone = [receipt.families[each.family] for each in receipt.omitted if each.reason == "not_retrieved"]
        if gone:
            output.emit(f"No candidate came from: {', '.join(gone)}.")


def _values(explanation: Explanation) -> None:
    trimming = explanation.response.diagnostics.trimming
    if trimming is None:
        return
    names = [name for name, _ in trimming.weights]
    rows = [
        (
            value.address.uri,
            f"{value.total:.2f}",
            *(f"{getattr(value, name):.2f}" for name in names),
            "" if value.redundant_with is None else value.redundant_with.uri,
        )
        for value in trimming.values
    ]
    heads = [f"{name} x{weight:g}>" for name, weight in trimming.weights]
    output.emit()
    output.table(("uri", "value>", *heads, "near repetition of"), rows, title="Value of each candidate:")


def _ran(explanation: Explanation) -> None:
    receipt = explanation.receipt
    if receipt is None:
        return
    ran = [
        f"{receipt.families[each.family]} {each.mode} {each.outcome}"
        + ("" if each.fallback_reason == "none" else f" ({each.fallback_reason})")
        + ("" if each.count == 1 else f" ×{each.count}")
        for each in receipt.searches
    ]
    took = [f"{each.stage} {each.duration_ms:.2f} ms" for each in receipt.stages]
    output.emit()
    output.emit(output.plain(f"Searches: {', '.join(ran) or 'none'}."))
    output.emit(f"Time by stage: {', '.join(took) or 'none'}.")
