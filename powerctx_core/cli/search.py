"""``powerctx search`` and ``powerctx recall``: a list, or a pack that can be given to a model as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from powerctx_core.cli import output
from powerctx_core.cli.asking import deadline_options, delivery_options, gate_option
from powerctx_core.cli.options import (
    Invocation,
    common,
    examples,
    given_only,
    listed,
    listing,
    narrowed,
    narrowing,
    query_text,
    recall_options,
)
from powerctx_core.cli.recall import advice, gate_note, hit_rows, missing, restricts, to_read
from powerctx_core.errors import InvalidRequest, shown

if TYPE_CHECKING:
    from powerctx_core.requests import ContextPack, SearchStats

__all__ = ["lifecycle_option", "pack_options", "recall", "search", "search_parameters", "summary"]

F = TypeVar("F", bound=Callable[..., Any])


def _form_options(function: F) -> F:
    """Add the parameters of a pack that ``prepare`` has, too."""
    for option in (
        click.option("--trim", metavar="WHAT", help="What decides who stays: rank (when absent), or value."),
        gate_option,
        delivery_options,
        click.option("--show", metavar="A,B", help="What to show of each entry, such as score."),
        click.option("--renderer", metavar="NAME", help="An installed text form; flat-xml when absent."),
        click.option("--max-tokens", metavar="N", type=int, help="64..32000 tokens of text; 1600 when absent."),
    ):
        function = option(function)
    return function


def pack_options(function: F) -> F:
    """Add the parameters of a pack, which ``prepare`` and lists have none of; :func:`search_parameters` reads them."""
    for option in (
        click.option("--turn", metavar="N", type=int, help="A number that grows with every turn, without messages."),
        click.option("--session", "session_id", metavar="ID", help="The session, of this scope."),
        click.option("--peer-scope", metavar="WHAT", help="all (when absent), or actor: those of --actor and nobody."),
        click.option("--other-peer-penalty", metavar="N", help="0..1, or bucket=N,…: items of others stand behind."),
        click.option("--actor", metavar="NAME", help="Who asks; items of another origin stand behind."),
        click.option("--rewrite", is_flag=True, default=None, help="Rewrite the pack as bullets; needs a generator."),
        click.option("--no-envelope", is_flag=True, help="Leave the envelope around the text to the caller."),
        click.option("--exclude-uri", "exclude_uris", metavar="URI", multiple=True,
                     help="Leave this out, and what lies below it; may be repeated."),
        click.option("--bootstrap-exclude", is_flag=True, default=None,
                     help="With --session: leave out what was delivered in mode bootstrap the last time."),
        click.option("--dedup-turns", metavar="N", type=int,
                     help="0..100, with --session: leave out what was delivered in this many turns before."),
        click.option("--detail", metavar="WHAT", help="auto (when absent), abstract, overview, full; or bucket=WHAT."),
        click.option("--purpose", metavar="NAME", help="chat, coding, or one of the settings: default quotas."),
        click.option("--quotas", metavar="A=N,B=M", help="Entries of each bucket, such as events=4,skills=2."),
    ):  # fmt: skip
        function = option(function)
    return function


lifecycle_option = click.option(
    "--lifecycle", metavar="WHY", help="startup (when absent), resume, compact or clear, in mode bootstrap."
)
_receipt = click.option(
    "--receipt",
    "include_receipt",
    is_flag=True,
    default=None,
    help="Say on standard error what the pack was made of and why.",
)


@click.command(
    epilog=examples(
        'powerctx search "How do we deploy?" --scope project:demo --mode context --max-tokens 800',
        "powerctx search --scope project:demo --mode bootstrap --session s1 --lifecycle resume",
        'powerctx search "deploy" --scope project:demo --filter \'{"layer": ["L2", "L3"]}\'',
    )
)
@click.argument("query", required=False)
@lifecycle_option
@click.option(
    "--mode",
    metavar="MODE",
    help="list (when absent), what find gives; context, a pack; bootstrap, without a query, a pack of what an "
    "agent should know when it starts; or the name of a candidate provider, a pack of what it offers.",
)
@listing
@narrowing
@_receipt
@pack_options
@_form_options
@deadline_options
@recall_options
@common
@click.pass_obj
def search(invocation: Invocation, /, *, query: str | None, scope: str, **options: Any) -> None:
    """List what is related to QUERY, or with --mode context print a pack of it inside --max-tokens.

    `-` reads the query from standard input. A pack goes to standard output, one line about it to standard error. With
    --json standard output is exactly the response. A receipt is about the text and no part of it: it comes on standard
    error, as one line of JSON, or in the response. `powerctx explain` with the same --mode shows more.
    """
    from powerctx_core.requests import ContextPack, SearchRequest

    asked = None if query is None else query_text(query)
    request = SearchRequest(query=asked, scope_id=scope, **search_parameters(invocation, options))
    with invocation.open() as ctx:
        if not request.offered:
            ctx.embedding.warm()
        found = ctx.search(request)
        if isinstance(found, ContextPack):
            _show(
                invocation, found, excluding=request.exclude_uris is not None, opening=bool(request.bootstrap_exclude)
            )
            return
        restricted = restricts(request.retrieval)
        _show_list(
            invocation,
            found,
            lambda: advice(ctx, found.diagnostics, scope, request.references, filtered=restricted),
        )


@click.command(epilog=examples('powerctx recall "How do we deploy?" --scope project:demo --session s1'))
@click.argument("query")
@narrowing
@_receipt
@pack_options
@_form_options
@deadline_options
@recall_options
@common
@click.pass_obj
def recall(invocation: Invocation, /, *, query: str, scope: str, **options: Any) -> None:
    """Print what belongs to QUERY in this turn: search --mode context with the defaults of every turn.

    These are --purpose coding, --score-threshold 0.35, and --dedup-turns 5 with a --session.
    """
    parameters = search_parameters(invocation, options)
    with invocation.open() as ctx:
        ctx.embedding.warm()
        pack = ctx.recall(query_text(query), scope_id=scope, **parameters)
    _show(invocation, pack, excluding="exclude_uris" in parameters, opening=bool(parameters.get("bootstrap_exclude")))


def search_parameters(invocation: Invocation, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as parameters of a request; what was not given is not among them.

    Raises:
        InvalidRequest: one of them cannot be read.
        ConfigError: a gate's file cannot be read.
    """
    values = {**options, "gate": invocation.gate(options["gate"])}
    quotas, detail, penalty = (values.pop(name) for name in ("quotas", "detail", "other_peer_penalty"))
    lists = {name: listed(values.pop(name)) for name in ("families", "show")}
    envelope = False if values.pop("no_envelope") else None
    excluded = values.pop("exclude_uris") or None
    return narrowed(values) | given_only(
        **lists,
        quotas=None if quotas is None else _buckets("--quotas", quotas, int),
        detail=_buckets("--detail", detail, str) if detail is not None and "=" in detail else detail,
        other_peer_penalty=None if penalty is None else _penalty(penalty),
        envelope=envelope,
        exclude_uris=excluded,
    )


def _penalty(text: str) -> float | dict[str, Any]:
    if "=" in text:
        return _buckets("--other-peer-penalty", text, float)
    return float(_number("--other-peer-penalty", text, float))


def _buckets(option: str, text: str, convert: Callable[[str], Any]) -> dict[str, Any]:
    found = {}
    for part in listed(text) or ():
        bucket, equals, value = (piece.strip() for piece in part.partition("="))
        if not bucket or not equals or not value:
            raise InvalidRequest(f"{option} has {shown(part)}; write bucket=value, such as events=4,skills=2.")
        found[bucket] = _number(option, value, convert)
    return found


def _number(option: str, text: str, convert: Callable[[str], Any]) -> Any:
    try:
        return convert(text)
    except ValueError:
        raise InvalidRequest(f"{option} has {shown(text)}, which is no number.") from None


def _show(invocation: Invocation, pack: ContextPack, *, excluding: bool, opening: bool) -> None:
    """Print a pack, and one line about it; see :func:`summary`."""
    from powerctx_core import wire

    if invocation.json:
        output.emit_json(wire.to_json(pack))
        output.notes(missing(pack.diagnostics))
        return
    if pack.receipt is not None:
        output.json_note(wire.to_json(pack.receipt))
    if pack.rendered:
        output.text(pack.rendered)
    output.note(summary(pack, excluding=excluding, opening=opening))


def summary(pack: ContextPack, *, excluding: bool = False, opening: bool = False) -> str:
    """Return the line about a pack.

    Args:
        pack: that it is about.
        excluding: it counts what was left out also when that is nothing.
        opening: what the session was given as it started was left out, too.
    """
    stats = pack.stats
    tiers = ", ".join(f"{count} {detail}" for detail, count in stats.tier_counts.items())
    why = _why(stats, opening=opening)
    line = [
        f"empty ({stats.outcome})" if not pack.selected else stats.outcome,
        *([why] if why else []),
        *([f"{output.pieces(stats.returned, 'entry').replace('entrys', 'entries')} ({tiers})"] if tiers else []),
        *to_read(pack.tools),
        f"{stats.used_tokens} of {stats.max_tokens} tokens",
        *gate_note(stats.gate),
        *([f"{stats.cooled} delivered before"] if stats.cooled else []),
        *([f"excluded {stats.excluded}"] if excluding or stats.excluded else []),
        *(f"ignored: {each}" for each in stats.ignored),
        *stats.errors,
        *missing(pack.diagnostics),
    ]
    return " · ".join(line)


def _why(stats: SearchStats, *, opening: bool) -> str | None:
    """Return why a pack is empty, and what to do."""
    removed = [
        *([f"the filters left out {stats.filtered}"] if stats.filtered else []),
        *([f"exclusions left out {stats.excluded}"] if stats.excluded else []),
    ]
    if stats.outcome == "budget":
        return "nothing fits the budget; raise --max-tokens"
    if stats.outcome == "below_threshold":
        return "what was found is too weak; name the matter more exactly, or lower --score-threshold"
    if stats.outcome == "no_match" and stats.excluded and opening:
        return "what was found was delivered when the session started, or is excluded"
    if stats.outcome == "no_match" and removed:
        return f"{' and '.join(removed)} of what was found; loosen them"
    if stats.outcome == "no_match" and stats.top_match is not None:
        return "what was found was delivered before, or has no quota"
    if stats.outcome == "no_match":
        return "nothing is related to the query; use other words, or add a --reference"
    return None


def _show_list(invocation: Invocation, found: Any, why: Callable[[], str]) -> None:
    from powerctx_core import wire

    if invocation.json:
        output.emit_json(wire.to_json(found))
    elif found.hits:
        output.table(("rank>", "score>", "match>", "uri", "abstract"), hit_rows(found.hits))
    else:
        output.note(why())
        return
    output.notes(missing(found.diagnostics))
