"""What ``prepare`` and ``explain`` ask with: their options, and the request these make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from powerctx_core.cli.options import Invocation, given_only, listed, query_text, section_list

if TYPE_CHECKING:
    from powerctx_core.context import Context
    from powerctx_core.requests import PrepareRequest

__all__ = [
    "check_names",
    "check_prepare",
    "deadline_options",
    "delivery_options",
    "gate_option",
    "prepare_options",
    "prepare_request",
]

F = TypeVar("F", bound=Callable[..., Any])


_DEADLINE = (
    click.option(
        "--deadline-ms",
        metavar="N",
        type=int,
        help="1..600000 ms, then go on with what has arrived; the setting recall.deadline_ms when absent.",
    ),
    click.option(
        "--on-family-error",
        metavar="WHAT",
        help="fail, or degrade: go on without a family that fails; the setting recall.on_family_error when absent.",
    ),
)
gate_option = click.option(
    "--gate",
    metavar="ID|FILE",
    help="off, id or alias of a gate policy such as v2, or a TOML file of one (a path, or NAME.toml): judge what "
    "was found, and admit more if thin; the setting recall.gate when absent.",
)
_DELIVERY = (
    click.option(
        "--delivery",
        metavar="WHAT",
        help="inject (when absent): everything in the text; split: what is stable, and with --json the rest as a tool.",
    ),
    click.option(
        "--inject-max-tokens",
        metavar="N",
        type=int,
        help="64..32000 tokens of the text, with --delivery split.",
    ),
)
_PREPARE = (
    click.option("--max-bytes", metavar="N", type=int, help="512..32768 UTF-8 bytes; 8000 when no size is given."),
    click.option("--max-tokens", metavar="N", type=int, help="64..32000 tokens, estimated."),
    click.option("--max-chars", metavar="N", type=int, help="128..32768 characters."),
    click.option("--max-items", metavar="N", type=int, help="1..64 entries; 8, or those of --sections, when absent."),
    click.option(
        "--renderer", metavar="NAME", help="An installed text form; `prepared`, or `sections` with --sections."
    ),
    click.option(
        "--sections",
        metavar="A=N,B=M",
        help="Instead of --families: the parts of the text in their order, each a family with the most entries of it; "
        "`default` for the setting assembly.sections, `none` for nothing at all.",
    ),
    click.option(
        "--show", metavar="A,B", help="What to show of each entry: confidence, recall_rank (with --sections)."
    ),
    *_DELIVERY,
    click.option(
        "--trim", metavar="WHAT", help="What decides who stays: rank (when absent), or value (settings trim.*)."
    ),
    gate_option,
    *_DEADLINE,
)


def deadline_options(function: F) -> F:
    """Add ``--deadline-ms`` and ``--on-family-error``."""
    return _with(function, _DEADLINE)


def delivery_options(function: F) -> F:
    """Add ``--delivery`` and ``--inject-max-tokens``."""
    return _with(function, _DELIVERY)


def prepare_options(function: F) -> F:
    """Add the budgets and forms of prepared context, and a deadline."""
    return _with(function, _PREPARE)


def _with(function: F, options: Sequence[Callable[[F], F]]) -> F:
    for option in reversed(options):
        function = option(function)
    return function


def prepare_request(
    invocation: Invocation,
    *,
    query: str,
    scope: str,
    families: str | None,
    sections: str | None,
    show: str | None,
    gate: str | None,
    **more: Any,
) -> PrepareRequest:
    """Return the request that the options make.

    Raises:
        InvalidRequest: one of them is outside its limits.
    """
    from powerctx_core.requests import PrepareRequest

    named = {"families": listed(families), "sections": section_list(sections), "show": listed(show)}
    given = given_only(**named, gate=invocation.gate(gate), **more)
    return PrepareRequest(query=query_text(query), scope_id=scope, **given)


def check_prepare(ctx: Context, request: PrepareRequest) -> None:
    """Check the names in a request, and load the model: one question a process, whose load must not count as its time.

    Raises:
        InvalidRequest: no installed part has a name.
    """
    check_names(ctx, "--renderer", "powerctx_renderers", [request.renderer])
    ctx.embedding.warm()
    check_names(ctx, "--families", "powerctx_families", request.families or ())


def check_names(ctx: Context, option: str, hook: str, names: Iterable[str]) -> None:
    """Raise InvalidRequest for a name that no installed part has: on the command line that is bad usage."""
    for name in names:
        ctx.host.spec(hook, name, field=option)
