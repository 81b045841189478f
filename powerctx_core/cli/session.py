"""``powerctx session``: the logs of sessions."""

from __future__ import annotations

import click

from powerctx_core.cli import output
from powerctx_core.cli.options import Invocation, common, examples, query_text

__all__ = ["session"]

_SHOWN = 60
_scope = click.option("--scope", metavar="SCOPE", required=True, help="The scope that the session belongs to.")


@click.group(epilog=examples('powerctx session add-message s1 "And on Friday?" --scope project:demo'))
def session() -> None:
    """Keep the log of a session: messages, whose turns are the clock of --dedup-turns, and what it is about."""


@session.command(
    "add-message", epilog=examples('powerctx session add-message s1 "And on Friday?" --scope project:demo')
)
@click.argument("session_id", metavar="SESSION")
@click.argument("text")
@click.option("--role", metavar="ROLE", default="user", help="user (when absent), assistant, system or tool.")
@click.option("--turn-id", metavar="ID", help="Your name of the turn: messages that bear it belong to one turn.")
@_scope
@common
@click.pass_obj
def add_message(
    invocation: Invocation, /, *, session_id: str, text: str, role: str, turn_id: str | None, scope: str
) -> None:
    """Add a message to SESSION; `-` reads it from standard input.  A message of the user starts a turn."""
    with invocation.open() as ctx:
        turns = ctx.sessions.add_message(session_id, role, query_text(text), scope_id=scope, turn_id=turn_id)
    if invocation.json:
        output.emit_json({"turns": turns})
    else:
        output.emit(output.pieces(turns, "turn"))


@session.command("set-overview", epilog=examples('powerctx session set-overview s1 "Release" --scope project:demo'))
@click.argument("session_id", metavar="SESSION")
@click.argument("text")
@_scope
@common
@click.pass_obj
def set_overview(invocation: Invocation, /, *, session_id: str, text: str, scope: str) -> None:
    """Say what SESSION is about; `-` reads it from standard input."""
    with invocation.open() as ctx:
        ctx.sessions.set_overview(session_id, query_text(text), scope_id=scope)
    _done(invocation, "overview set")


@session.command("add-abstract", epilog=examples("powerctx session add-abstract s1 - --scope project:demo < part.txt"))
@click.argument("session_id", metavar="SESSION")
@click.argument("text")
@_scope
@common
@click.pass_obj
def add_abstract(invocation: Invocation, /, *, session_id: str, text: str, scope: str) -> None:
    """Add an abstract of a part of SESSION; `-` reads it from standard input."""
    with invocation.open() as ctx:
        ctx.sessions.add_abstract(session_id, query_text(text), scope_id=scope)
    _done(invocation, "abstract added")


@session.command("show", epilog=examples("powerctx session show s1 --scope project:demo --json"))
@click.argument("session_id", metavar="SESSION")
@_scope
@common
@click.pass_obj
def show(invocation: Invocation, /, *, session_id: str, scope: str) -> None:
    """Show SESSION: what it is about, its turns, and its last messages."""
    from powerctx_core import wire

    with invocation.open() as ctx:
        found = ctx.sessions.show(session_id, scope_id=scope)
    if invocation.json:
        output.emit_json(wire.to_json(found))
        return
    output.emit(f"{output.pieces(found.turns, 'turn')}, {output.pieces(found.count, 'message')}")
    if found.overview:
        output.emit(f"overview: {output.plain(found.overview)}")
    for abstract in found.abstracts:
        output.emit(f"abstract: {output.plain(abstract)}")
    if found.messages:
        output.table(
            ("turn>", "role", "text"),
            ((message.turn, message.role, _short(message.text)) for message in found.messages),
        )


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _done(invocation: Invocation, what: str) -> None:
    if invocation.json:
        output.emit_json({})
    else:
        output.emit(what)
