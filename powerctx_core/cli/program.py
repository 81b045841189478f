"""The root command: finds commands without importing them, and turns every failure into one line and an exit code."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from powerctx_core.cli import output
from powerctx_core.cli.options import Invocation, common, examples
from powerctx_core.errors import ConfigError, InvalidRequest, PluginError, PowerctxError, cause

if TYPE_CHECKING:
    from powerctx_core.host import Host

__all__ = ["COMMANDS", "Program", "program"]

COMMANDS: Mapping[str, tuple[str, str]] = {
    "demo": ("demo:demo", "Show it on the packaged sample: ingest, three questions, why these answers."),
    "ingest": ("ingest:ingest", "Store Markdown, plain text and JSON lines."),
    "prepare": ("recall:prepare", "Print context for a question, ready to give to a model."),
    "explain": ("explain:explain", "Show why exactly these: rounds, pools, verdicts, what was left out."),
    "find": ("recall:find", "List related items, best first."),
    "search": ("search:search", "List what is related, or print a pack of it that can be used as it is."),
    "recall": ("search:recall", "Print what belongs to one turn of an agent."),
    "read": ("items:read", "Print the text of one item."),
    "forget": ("items:forget", "Take items out of retrieval, or delete them for good."),
    "history": ("items:history", "List the revisions of one item."),
    "session": ("session:session", "Keep the log of a session."),
    "plugins": ("plugins:plugins", "List what is installed, and what is wrong with it."),
    "check": ("plugins:check", "Load everything of one plugin and show why it fails."),
    "config": ("config:config", "Show the settings in force and where they come from."),
    "embed": ("embed:embed", "Make vectors for what has none."),
    "doctor": ("doctor:doctor", "Check store, plugins and disk space."),
    "index": ("doctor:index", "Analyse all stored items anew."),
}
"""Name -> where the command is, in this package, and its line in the help.  No plugin can replace one."""

INTERRUPTED = 130
PIPE_CLOSED = 141


class Program(click.Group):
    """The root command."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **more: Any) -> NoReturn:
        """Run and exit; the arguments are click's."""
        invocation = Invocation()
        try:
            _prepare_streams()
            more["standalone_mode"] = False
            code = super().main(args, *rest, obj=invocation, **more)
            sys.stdout.flush()
        except BrokenPipeError:
            _close_stdout()
            sys.exit(PIPE_CLOSED)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            sys.exit(error.exit_code)
        except click.ClickException as error:
            _report(_usage(error), error, invocation)
            sys.exit(error.exit_code)
        except (InvalidRequest, ConfigError) as error:
            _report(str(error), error, invocation)
            sys.exit(2)
        except PowerctxError as error:
            _report(str(error), error, invocation)
            sys.exit(1)
        except (KeyboardInterrupt, click.Abort):
            sys.exit(INTERRUPTED)
        except OSError as error:
            _report(f"{error}.", error, invocation)
            sys.exit(1)
        except SystemExit:
            raise
        except BaseException as error:  # noqa: BLE001 (a defect is a failed run, shown in one line like any other)
            hint = "" if invocation.debug else " Run it again with --debug and report the traceback."
            _report(f"unexpected {cause(error)}.{hint}", error, invocation)
            sys.exit(1)
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an interrupt ends it quietly."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            _close_stdout()
            raise click.exceptions.Exit(PIPE_CLOSED) from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the own commands, then those of plugins."""
        return [*COMMANDS, *_plugin_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command, or return ``None`` when there is none of that name."""
        if cmd_name in COMMANDS:
            module, _, name = COMMANDS[cmd_name][0].partition(":")
            command: click.Command = getattr(importlib.import_module(f"powerctx_core.cli.{module}"), name)
            return command
        if cmd_name.startswith("-"):
            return None
        host = _host(ctx)
        if host is None or cmd_name not in host.names("powerctx_commands"):
            return None
        part = host.part("powerctx_commands", cmd_name)
        if isinstance(part, click.Command):
            return part
        raise PluginError(
            f"command {cmd_name!r} of {host.provider('powerctx_commands', cmd_name)} is no click.Command but a "
            f"{type(part).__name__}; report it to its author."
        )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that *args* starts with."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            close = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
            ctx.fail(f"No such command {name!r}." + (f" Did you mean {close[0]!r}?" if close else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])
        if rows := [(name, output.plain(about)) for name, about in _plugin_commands(ctx).items()]:
            with formatter.section("Commands of plugins"):
                formatter.write_dl(rows)


def _plugin_commands(ctx: click.Context) -> dict[str, str]:
    host = _host(ctx)
    if host is None:
        return {}
    names = [name for name in host.names("powerctx_commands") if name not in COMMANDS]
    return {name: host.spec("powerctx_commands", name).about or "(no description)" for name in names}


def _host(ctx: click.Context) -> Host | None:
    """Return the host, or ``None`` when the settings cannot be read: help and the own commands work without."""
    try:
        return ctx.ensure_object(Invocation).host()
    except PowerctxError:
        return None


def _usage(error: click.ClickException) -> str:
    message = error.format_message()
    if isinstance(error, click.UsageError) and error.ctx is not None:
        end = "" if message.endswith(("?", ".")) else "."
        message = f"{message}{end} See `{error.ctx.command_path} --help`."
    return message


def _report(message: str, error: BaseException, invocation: Invocation) -> None:
    if invocation.debug:
        sys.stderr.write(invocation.without_secrets("".join(traceback.format_exception(error))))
    output.note(f"error: {invocation.without_secrets(message)}")


def _prepare_streams() -> None:
    """Make output never fail for a character: UTF-8 into pipes and files, replacements on a terminal that has less.

    A stream that the caller closed is opened on nothing, in the order of the descriptors, so that no file of ours gets
    the number of a standard stream.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - as long as the process
    for stream in (sys.stdout, sys.stderr):
        if (reconfigure := getattr(stream, "reconfigure", None)) is None:
            continue
        if stream.encoding.lower().replace("-", "") == "utf8" or stream.isatty():
            reconfigure(errors="backslashreplace")
        else:
            reconfigure(encoding="utf-8", errors="backslashreplace")


def _close_stdout() -> None:
    """Send what is still buffered nowhere: the reader is gone."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # not a real file
        return


@click.group(
    cls=Program,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=examples(
        "powerctx demo",
        "powerctx ingest notes/ --scope project:demo",
        'powerctx prepare "Why did we choose SQLite?" --scope project:demo',
    ),
)
@common
@click.option("--version", is_flag=True, help="Print the version and exit.")
@click.pass_context
def program(ctx: click.Context, *, version: bool) -> None:
    """Data in, context out: give a model what you know that matters, within a budget, and see why.

    Settings come from options, POWERCTX_* variables and powerctx.toml; `powerctx config show` prints those in force.
    """
    if version:
        import importlib.metadata

        try:
            number = importlib.metadata.version("powerctx-core")
        except importlib.metadata.PackageNotFoundError:
            number = "(not installed)"
        click.echo(f"powerctx {number}")
        ctx.exit()
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
