"""``powerctx plugins`` and ``powerctx check``: what is installed and whether it works."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs
import click

from powerctx_core.cli import output
from powerctx_core.cli.options import Invocation, common, examples
from powerctx_core.errors import PluginError

if TYPE_CHECKING:
    from powerctx_core.host import Host, PluginStatus

__all__ = ["check", "plugins"]


@click.command(epilog=examples("powerctx plugins", "POWERCTX_PLUGINS=sqlite powerctx plugins --json"))
@common
@click.pass_obj
def plugins(invocation: Invocation, /) -> None:
    """List every installed plugin: distribution, version, state and parts.

    A plugin that failed is listed with its reason; `powerctx check NAME` also loads what is only imported when it is
    used. POWERCTX_PLUGINS="" switches all but the core's own parts off, a
    list of names allows only these.
    """
    host = invocation.host()
    report = [attrs.evolve(each, reason=invocation.without_secrets(each.reason)) for each in host.report()]
    if invocation.json:
        output.emit_json([_status(status) for status in report])
    else:
        output.table(
            ("name", "distribution", "version", "state", "parts"),
            (
                (status.name, status.distribution, status.version, status.state, status.reason or _parts(status.hooks))
                for status in report
            ),
        )
    for problem in (*host.problems(), *_shadowed(host)):
        output.note(invocation.without_secrets(problem))


@click.command(epilog=examples("powerctx check sqlite"))
@click.argument("name")
@common
@click.pass_obj
def check(invocation: Invocation, /, *, name: str) -> None:
    """Load everything of the plugin NAME (or distribution NAME) and make its parts.

    On failure show the whole traceback and exit 1. A store is only made for a URL: `powerctx doctor --store URL`.
    """
    host = invocation.host()
    try:
        loaded = host.check(name)
    except PluginError as error:
        cause = error.__cause__
        if cause is not None and not invocation.debug:  # with --debug the chain is printed anyway
            sys.stderr.write(invocation.without_secrets("".join(traceback.format_exception(cause))))
        raise
    if invocation.json:
        output.emit_json([_status(status) for status in loaded])
        return
    for status in loaded:
        who = f"{status.distribution} {status.version}".strip()
        output.emit(output.plain(f"{status.name} ({who}): all of it loads: {_parts(status.hooks)}"))


def _shadowed(host: Host) -> Iterator[str]:
    """Give one sentence for each command of a plugin that can never run."""
    from powerctx_core.cli.program import COMMANDS  # which imports this module when it runs the command

    for name in host.names("powerctx_commands"):
        if name in COMMANDS:
            yield (
                f"The command {name!r} of {host.provider('powerctx_commands', name)} is never run, since powerctx has "
                "one of that name; ask its author to rename it."
            )


def _status(status: PluginStatus) -> dict[str, Any]:
    return {
        "name": status.name,
        "distribution": status.distribution,
        "version": status.version,
        "state": status.state,
        "reason": status.reason,
        "hooks": {hook: list(names) for hook, names in status.hooks.items()},
    }


def _parts(hooks: Mapping[str, tuple[str, ...]]) -> str:
    return "; ".join(f"{hook.removeprefix('powerctx_')}: {', '.join(names)}" for hook, names in hooks.items())
