"""``powerctx config``: the settings in force."""

from __future__ import annotations

import click

from powerctx_core.cli import output
from powerctx_core.cli.options import Invocation, common, examples

__all__ = ["config"]


@click.group(epilog=examples("powerctx config show"))
def config() -> None:
    """Show the settings in force and where they come from.

    Options beat POWERCTX_* variables, these beat powerctx.toml (searched from the working directory upward, then in the
    user's configuration folder), that beats the defaults.
    """


@config.command(epilog=examples("powerctx config show --json"))
@common
@click.pass_obj
def show(invocation: Invocation, /) -> None:
    """Print every effective value and where it came from; secrets are masked.

    What names no installed part is noted on standard error.
    """
    from powerctx_core.config import show as rows

    values = rows(invocation.effective())
    if invocation.json:
        output.emit_json({name: {"value": value, "origin": origin} for name, value, origin in values})
    else:
        output.table(("setting", "value", "from"), values)
    for problem in invocation.host().problems():
        output.note(problem)


@config.command(epilog=examples("powerctx config path"))
@common
@click.pass_obj
def path(invocation: Invocation, /) -> None:
    """Print the path of the settings file in force; without one, say where it would be looked for."""
    file = invocation.effective().file
    if invocation.json:
        output.emit_json({"path": None if file is None else str(file)})
    elif file is not None:
        output.emit(str(file))
    else:
        import platformdirs

        user = platformdirs.user_config_path() / "powerctx" / "powerctx.toml"
        output.note(f"no settings file; write ./powerctx.toml, or {user} for all folders.")
