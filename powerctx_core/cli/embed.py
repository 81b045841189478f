"""``powerctx embed``: vectors for stored items."""

from __future__ import annotations

import click

from powerctx_core.cli import output
from powerctx_core.cli.options import Invocation, common, examples
from powerctx_core.cli.progress import Bar

__all__ = ["embed"]


@click.command(epilog=examples("powerctx embed --embedder local", "powerctx embed --embedder local --rebuild"))
@click.option("--rebuild", is_flag=True, help="Delete all vectors first, as after a change of model.")
@common
@click.pass_obj
def embed(invocation: Invocation, /, *, rebuild: bool) -> None:
    """Make vectors for every item that has none, with the embedder in force.

    It can be interrupted and taken up again. Texts that were embedded before are not embedded again.
    """
    with invocation.open() as ctx:
        steps = ctx.embed(rebuild=rebuild)
        done = 0
        with Bar("embedding", sum(ctx.partitions().values())) as bar:
            for done in steps:
                bar.show(done)
        index = ctx.store.vectors
        vectors = 0 if index is None else index.count()
    if invocation.json:
        output.emit_json({"embedded": done, "vectors": vectors})
    else:
        output.emit(f"{output.pieces(done, 'item')} embedded, {output.pieces(vectors, 'vector')} in store")
