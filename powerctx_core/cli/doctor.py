"""``powerctx doctor`` and ``powerctx index``: health and care of the store."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable
from urllib.parse import unquote

import attrs
import click

from powerctx_core.cli import output
from powerctx_core.cli.options import Invocation, common, examples
from powerctx_core.cli.progress import Bar
from powerctx_core.errors import PowerctxError, redacted_url

if TYPE_CHECKING:
    from powerctx_core.config import Settings
    from powerctx_core.context import Context
    from powerctx_core.host import Host
    from powerctx_core.ports import StoreStatus
    from powerctx_core.types import Deadline

__all__ = ["doctor", "index"]

LOW_SPACE = 100 << 20
CHECK_SECONDS = 10.0
"""How long a store reads what it holds; what it did not come to is named."""


@runtime_checkable
class Checking(Protocol):
    """A store that can read all that it holds, to find what single reads would not notice."""

    def check(self, deadline: Deadline) -> StoreStatus:
        """Do as ``status``, and more as far as *deadline* lets; never raises, creates or changes anything."""


@click.command(epilog=examples("powerctx doctor --store sqlite:///notes.db"))
@common
@click.pass_obj
def doctor(invocation: Invocation, /) -> None:
    """Check the store in force, the plugins and the disk; exit 1 when something is wrong.

    All that is stored is read, for ten seconds at most. Nothing is created or changed.
    """
    from powerctx_core.config import default_store_url

    settings = invocation.effective().settings
    url = settings.store or default_store_url()
    origin = settings.origins.get("store", "default")
    facts: dict[str, str] = {"store": f"{redacted_url(url)} (from: {origin})"}
    problems: list[str] = []
    host = invocation.host()
    problems += [
        f"plugin {status.name!r} ({status.state}): {status.reason}; run `powerctx check {status.name}`."
        for status in host.report()
        if status.state not in ("ok", "disabled")
    ]
    problems += host.problems()
    known = settings.embedder is None or settings.embedder in host.names("powerctx_embedders")
    # An embedder that is not there is a problem by now, and must not hide what the store says.
    settings = _looking(settings, host)
    _store(settings if known else attrs.evolve(settings, embedder=None), facts, problems)
    _disk(url, facts, problems)
    # Plugins and stores word them themselves.
    facts = {name: invocation.without_secrets(fact) for name, fact in facts.items()}
    problems = [invocation.without_secrets(problem) for problem in problems]
    if invocation.json:
        output.emit_json({"facts": facts, "problems": problems})
    else:
        output.table(("what", "value"), facts.items())
        for problem in problems:
            output.emit(output.plain(f"problem: {problem}"))
    if problems:
        raise click.ClickException(f"{output.pieces(len(problems), 'problem')} found, see above.")
    if not invocation.json:
        output.emit("all is well")


def _store(settings: Settings, facts: dict[str, str], problems: list[str]) -> None:
    """Add what the store says of itself; one that cannot be opened is a problem, not an end."""
    from powerctx_core import opening
    from powerctx_core.types import Deadline

    try:
        with opening.open(settings=settings) as ctx:
            store = ctx.store
            status = store.check(Deadline.after(CHECK_SECONDS)) if isinstance(store, Checking) else ctx.status()
            facts["location"] = redacted_url(status.location)
            facts.update({name: str(value) for name, value in status.facts.items()})
            problems.extend(status.problems)
            partitions = ctx.partitions()
            scopes = {partition.scope_id for partition in partitions}
            held = output.pieces(sum(partitions.values()), "item")
            facts["content"] = f"{held} in {output.pieces(len(scopes), 'scope')}"
            facts |= _embedding(ctx, problems)
    except PowerctxError as error:
        # What cannot be read was told already by who looked at all of it.
        if not any(str(error).partition(": ")[2] in problem for problem in problems):
            problems.append(str(error))


def _looking(settings: Settings, host: Host) -> Settings:
    """Return settings under which opening the store creates and changes nothing.

    A store whose settings have the field ``inspect`` is opened so, and so is one that it is composed of; others do not
    change anything by being opened.
    """
    parts = dict(settings.parts)
    for name in host.names("powerctx_stores"):
        fields = {field.name for field in attrs.fields(host.spec("powerctx_stores", name).settings)}
        if "inspect" in fields:
            parts[name] = {**parts.get(name, {}), "inspect": True}
    return attrs.evolve(settings, parts=parts)


def _embedding(ctx: Context, problems: list[str]) -> dict[str, str]:
    """Return what is known of embedder and vectors."""
    if ctx.settings.embedder is None:
        return {"embedder": "none: words alone"}
    if ctx.embedding.problem is not None:
        problems.append(str(ctx.embedding.problem))
    profile = ctx.host.part("powerctx_embedders", ctx.settings.embedder).profile
    index = ctx.store.vectors
    held = "the store keeps no vectors" if index is None else output.pieces(index.count(), "vector")
    return {"embedder": f"{ctx.settings.embedder} ({profile.fingerprint}, {profile.dimensions} dimensions), {held}"}


def _disk(url: str, facts: dict[str, str], problems: list[str]) -> None:
    """Add the free space where the store is a file and has not said it itself."""
    scheme, _, rest = url.partition("://")
    name = unquote(rest.partition("?")[0]).removeprefix("/")
    if "free space" in facts or not scheme.startswith("sqlite") or not name:
        return
    file = Path(name).absolute()
    # A name that is too long is the store's to tell; Path.is_dir() raises of it.
    folder = next((each for each in (file, *file.parents) if os.path.isdir(each)), None)  # noqa: PTH112 - as above
    if folder is not None:
        free = shutil.disk_usage(folder).free
        facts["free space"] = f"{free / (1 << 30):.1f} GiB in {folder}"
        if free < LOW_SPACE:
            problems.append(f"only {free >> 20} MiB are free in {folder}; make room.")


@click.command(epilog=examples("powerctx index --rebuild"))
@click.option("--rebuild", is_flag=True, help="Analyse all items anew; it can be interrupted and taken up again.")
@common
@click.pass_obj
def index(invocation: Invocation, /, *, rebuild: bool) -> None:
    """Analyse all stored items anew, after a change of the text analysis.

    Without --rebuild only print what the index holds.
    """
    with invocation.open() as ctx:
        partitions = ctx.partitions()
        total = sum(partitions.values())
        done = 0
        if rebuild:
            with Bar("analysing", total) as bar:
                for done in ctx.reindex():
                    bar.show(done)
        held: Mapping[str, int] = {f"{each.scope_id} {each.family}": number for each, number in partitions.items()}
    if invocation.json:
        output.emit_json({"analysed": done, "items": total} if rebuild else {"items": total})
    elif rebuild:
        output.emit(f"{output.pieces(done, 'item')} analysed")
    else:
        output.table(("partition", "items>"), sorted(held.items()))
