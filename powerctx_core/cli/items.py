"""``powerctx read``, ``forget`` and ``history``: single items."""

from __future__ import annotations

import sys

import click

from powerctx_core.cli import output
from powerctx_core.cli.options import Invocation, common, examples

__all__ = ["forget", "history", "read"]

_scope = click.option("--scope", metavar="SCOPE", help="What a relative URI, as a pack shows it, belongs to.")


@click.command(
    epilog=examples(
        'powerctx read "powerctx://project%3Ademo/memory/adr-0017@1"',
        "powerctx read memory/adr-0017 --scope project:demo",
    )
)
@click.argument("uri")
@_scope
@common
@click.pass_obj
def read(invocation: Invocation, /, *, uri: str, scope: str | None) -> None:
    """Print the text of one item: the exact revision that URI names, or the latest without @revision.

    An exact revision stays readable after the item was changed or retired. With --json all its fields.
    """
    from powerctx_core import wire

    with invocation.open() as ctx:
        revision = ctx.get(uri, scope_id=scope)
    if invocation.json:
        output.emit_json(wire.to_json(revision))
    else:
        output.text(revision.item.text)


@click.command(
    epilog=examples(
        'powerctx history "powerctx://project%3Ademo/memory/adr-0017"',
        "powerctx history memory/adr-0017 --scope project:demo",
    )
)
@click.argument("uri")
@_scope
@common
@click.pass_obj
def history(invocation: Invocation, /, *, uri: str, scope: str | None) -> None:
    """List the revisions of one item, oldest first."""
    from powerctx_core import wire

    with invocation.open() as ctx:
        revisions = ctx.history(uri, scope_id=scope)
    if invocation.json:
        output.emit_json([wire.to_json(revision) for revision in revisions])
        return
    output.table(
        ("revision>", "state", "updated", "bytes>", "uri", "abstract"),
        (
            (
                revision.address.revision,
                revision.state,
                revision.item.updated_at.isoformat(" ", "seconds") if revision.item.updated_at else None,
                len(revision.item.text.encode()),
                revision.address.uri,
                revision.item.abstract or revision.item.title,
            )
            for revision in revisions
        ),
    )


@click.command(
    epilog=examples(
        'powerctx forget "powerctx://project%3Ademo/memory/adr-0017"',
        "powerctx forget memory/adr-0017 --scope project:demo",
        'powerctx forget --purge --yes "powerctx://project%3Ademo/memory/secret"',
    )
)
@click.argument("uris", metavar="URI...", nargs=-1, required=True)
@_scope
@click.option("--purge", is_flag=True, help="Delete all revisions for good instead.")
@click.option("--yes", is_flag=True, help="Do not ask before --purge.")
@common
@click.pass_obj
def forget(invocation: Invocation, /, *, uris: tuple[str, ...], scope: str | None, purge: bool, yes: bool) -> None:
    """Take items out of retrieval at once; their exact revisions stay readable.

    A revision in a URI has no meaning here: the whole item is meant. When one URI names nothing, nothing is done.
    """
    with invocation.open() as ctx:
        revisions = sum(len(ctx.history(uri, scope_id=scope)) for uri in dict.fromkeys(uris))
        if purge and not yes:
            _confirm(f"Delete {output.pieces(revisions, 'revision')} of {output.pieces(len(uris), 'item')} for good?")
        number = ctx.purge(uris, scope_id=scope) if purge else ctx.retire(uris, scope_id=scope)
    if invocation.json:
        output.emit_json({"purged_revisions" if purge else "retired": number})
    elif purge:
        output.emit(f"{output.pieces(number, 'revision')} deleted")
    else:
        output.emit(f"{output.pieces(number, 'item')} retired")


def _confirm(question: str) -> None:
    """Ask on the terminal.

    Raises:
        click.UsageError: there is nobody to ask.
        click.exceptions.Exit: the answer is no.
    """
    if not sys.stdin.isatty():
        raise click.UsageError("--purge deletes for good; add --yes to do it without being asked")
    if not click.confirm(question, err=True):
        output.note("nothing was deleted.")
        raise click.exceptions.Exit(1)
