"""Options that every command has, and what is known of the running invocation."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import click

from powerctx_core.errors import InvalidRequest, blanked, redacted, shown

if TYPE_CHECKING:
    from powerctx_core.config import Effective
    from powerctx_core.context import Context
    from powerctx_core.host import Host

__all__ = [
    "Invocation",
    "common",
    "examples",
    "given_only",
    "listed",
    "listing",
    "narrowed",
    "narrowing",
    "query_text",
    "recall_options",
    "section_list",
]

F = TypeVar("F", bound=Callable[..., Any])


class Invocation:
    """One run of the program.

    Attributes:
        store: URL given on the command line.
        embedder: name of an embedder given on the command line.
        json: print one JSON value on standard output.
        debug: show tracebacks.
        gate_file: of a gate policy given on the command line.
    """

    def __init__(self) -> None:
        self.store: str | None = None
        self.embedder: str | None = None
        self.json = False
        self.debug = False
        self.gate_file: Path | None = None
        self._host: Host | None = None
        self._effective: Effective | None = None

    def effective(self) -> Effective:
        """Read the settings; store and embedder of the command line, as far as it is parsed, are among them.

        Raises:
            ConfigError: see :func:`powerctx_core.config.load`.
        """
        from powerctx_core import config

        self._effective = config.load(flags={"store": self.store, "embedder": self.embedder})
        return self._effective

    def without_secrets(self, message: str) -> str:
        """Return *message* without the secrets of the settings, as far as these were read, and without passwords."""
        if self._effective is not None:
            from powerctx_core.secrecy import secrets

            message = blanked(message, secrets(self._effective.settings))
        return redacted(message)

    def host(self) -> Host:
        """Return the plugin host of a command that opens no store, made once.

        Raises:
            ConfigError: as :meth:`effective`.
        """
        if self._host is None:
            from powerctx_core.host import Host

            self._host = Host.compose(self.effective().settings)
            click.get_current_context().find_root().call_on_close(self._host.close)
        return self._host

    def open(self) -> Context:
        """Open the store in force; the caller closes it.

        Raises:
            ConfigError: a setting is wrong.
            StoreUnavailable: the store cannot be opened.
        """
        from powerctx_core import opening

        settings = self.effective().settings
        if self.gate_file is not None:
            files = (*settings.recall.gate_files, self.gate_file)
            settings = attrs.evolve(settings, recall=attrs.evolve(settings.recall, gate_files=files))
        return opening.open(settings=settings)

    def gate(self, value: str | None) -> str | None:
        """Return the id of the gate that ``--gate`` names; the policy of a file is there for the store opened next.

        Raises:
            ConfigError: it names a file that cannot be used.
        """
        from powerctx_core.gates import is_path, read_gate
        from powerctx_core.toml_file import expanded

        if value is None or not is_path(value):
            return value
        self.gate_file = Path(value)
        return read_gate(expanded(self.gate_file)).policy_id


def _keep(name: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    def callback(ctx: click.Context, _: click.Parameter, value: Any) -> Any:
        if value is not None and value is not False:
            setattr(ctx.ensure_object(Invocation), name, value)
        return value

    return callback


def common(function: F) -> F:
    """Add ``--store``, ``--embedder``, ``--json`` and ``--debug``, which may stand before or after the command."""
    for option in (
        click.option("--debug", is_flag=True, expose_value=False, is_eager=True, callback=_keep("debug"),
                     help="Show tracebacks of errors."),
        click.option("--json", is_flag=True, expose_value=False, callback=_keep("json"),
                     help="Print JSON on standard output."),
        click.option("--embedder", metavar="NAME", expose_value=False, callback=_keep("embedder"),
                     help="An installed embedder, such as `local`; else the setting `embedder`, else words alone."),
        click.option("--store", metavar="URL", expose_value=False, callback=_keep("store"),
                     help="The store; else POWERCTX_STORE, the setting `store`, or a file in the user's data folder."),
    ):  # fmt: skip
        function = option(function)
    return function


def examples(*lines: str) -> str:
    """Return the end of a help text: commands as they are typed."""
    return "\n".join(["\b", "Example:", *(f"  {line}" for line in lines)])


def recall_options(function: F) -> F:
    """Add what ``prepare`` and ``find`` share."""
    for option in (
        click.option("--policy", metavar="ID", help="Recall policy, by its id; the setting recall.policy when absent."),
        click.option("--families", metavar="A,B", help="Kinds of evidence; the setting recall.families when absent."),
        click.option("--reference", "references", metavar="SCOPE", multiple=True,
                     help="A further scope to read; may be repeated."),
        click.option("--scope", metavar="SCOPE", required=True, help="The scope to read."),
    ):  # fmt: skip
        function = option(function)
    return function


def listing(function: F) -> F:
    """Add what restricts a list alone."""
    level = click.option("--level", metavar="WHAT", help="item, directory or all (when absent), in lists.")
    return click.option("--target-uri", metavar="URI", help="Only this, and what lies below it, in lists.")(
        level(function)
    )


def narrowing(function: F) -> F:
    """Add what restricts a search; :func:`narrowed` turns it into parameters."""
    for option in (
        click.option("--score-threshold", metavar="N", type=float, help="0..1: the least strength of evidence."),
        click.option("--filter", metavar="JSON",
                     help='Field -> value, list of values, or {"gte": …, "lte": …}; fields are category, layer, '
                          "origin, thread, tags and meta.KEY."),
        click.option("--time-field", metavar="FIELD",
                     help="created, updated (when absent) or event: what the times mean."),
        click.option("--search-type", metavar="TYPE", help="auto (when absent), fts, vector or hybrid."),
        click.option("--until", metavar="TIME", help="Only items before this time."),
        click.option("--since", metavar="TIME", help="Only items from this time on, such as 2026-01-31 (UTC)."),
        click.option("--tag", "tags", metavar="TAG", multiple=True,
                     help="Only items with this tag; may be repeated."),
        click.option("--category", "categories", metavar="NAME", multiple=True,
                     help="Only this category; may be repeated."),
        click.option("--limit", metavar="N", type=int, help="1..1000 entries; 10 in a list when absent."),
    ):  # fmt: skip
        function = option(function)
    return function


def narrowed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a search as parameters of a request; what was not given is not among them.

    Raises:
        InvalidRequest: a time or the filter cannot be read.
    """
    values = dict(options)
    filters = values.pop("filter")
    since, until = values.pop("since"), values.pop("until")
    return given_only(
        **values,
        filter=None if filters is None else _json("--filter", filters),
        since=None if since is None else _moment("since", since),
        until=None if until is None else _moment("until", until),
    )


def given_only(**values: Any) -> dict[str, Any]:
    """Return the values that were given, so that the others keep the request's own defaults."""
    return {name: value for name, value in values.items() if value is not None}


def _moment(name: str, value: str) -> datetime:
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        raise InvalidRequest(
            f"--{name} {shown(value)} is not a date; write 2026-01-31 or 2026-01-31T12:00:00Z."
        ) from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _json(option: str, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidRequest(f"{option} is not JSON: {error}.") from None
    except ValueError:  # Python's limit
        raise InvalidRequest(f"{option} has a whole number of too many digits; shorten it.") from None
    except RecursionError:
        raise InvalidRequest(f"{option} is nested too deep; write a field and a value, a list, or bounds.") from None


def listed(value: str | None) -> tuple[str, ...] | None:
    """Return the parts of a comma-separated value."""
    if value is None:
        return None
    return tuple(name for part in value.split(",") if (name := part.strip()))


def section_list(value: str | None) -> list[dict[str, Any]] | str | None:
    """Return the sections that an option names: ``memory=6,experience=2``, ``default``, or ``none`` at all.

    Raises:
        InvalidRequest: it is of another form.
    """
    if value is None or value == "default":
        return value
    if value == "none":
        return []
    sections = []
    for part in listed(value) or ():
        family, equals, limit = part.partition("=")
        if not equals or not limit.strip().isdecimal():
            raise InvalidRequest(
                f"--sections has {shown(part)}; write family=entries, such as memory=6,experience=2, or default, "
                "or none.",
                field="sections",
            )
        sections.append({"family": family.strip(), "limit": int(limit)})
    if not sections:
        raise InvalidRequest("--sections is empty; write none for no section at all.", field="sections")
    return sections


def query_text(value: str) -> str:
    """Return the query: *value*, or standard input for ``-``.

    Raises:
        InvalidRequest: standard input is not UTF-8.
    """
    if value != "-":
        return value
    data = sys.stdin.buffer.read(1 << 20)
    try:
        return data.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            f"the query on standard input is not UTF-8 (byte {error.start}); convert it.", field="query"
        ) from None
