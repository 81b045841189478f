"""``powerctx ingest``: files into the store."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING

import click

from powerctx_core.cli import output
from powerctx_core.cli.options import Invocation, common, examples
from powerctx_core.cli.progress import Bar
from powerctx_core.errors import InvalidRequest, PowerctxError

if TYPE_CHECKING:
    from powerctx_core.context import Context
    from powerctx_core.ingest import BadLine, Folders, Listing, Reader, Source
    from powerctx_core.types import Item

__all__ = ["Intake", "ingest"]

BATCH = 1000
BATCH_CHARACTERS = 16 << 20
"""A batch ends early when its texts are longer, so that memory stays bounded."""
FAMILIES_SHOWN = 20
FOLDERED = "resource"
"""The family in which folders are items, too."""
PACKAGED = "skill"
"""The family in which a folder with a SKILL.md is one item."""


class Intake:
    """Stores what a reader yields, in atomic batches, and counts.

    Args:
        report: called with each line that is not stored.

    Attributes:
        stored, unchanged, bad: items and lines so far.
        retired: parts of earlier versions of documents.
        scopes: scopes of what was read.
    """

    def __init__(
        self, ctx: Context, report: Callable[[str], object], batch: int = BATCH, *, embed: bool = True
    ) -> None:
        self._embed = embed
        self.stored = 0
        self.unchanged = 0
        self.bad = 0
        self.retired = 0
        self.scopes: set[str] = set()
        self._ctx = ctx
        self._report = report
        self._batch = batch
        self._waiting: list[Item] = []
        self._characters = 0
        self._documents: list[tuple[str, str, str, int, bool]] = []

    def add(self, item: Item) -> None:
        """Take an item; it is stored with its batch."""
        self._waiting.append(item)
        self._characters += len(item.text)
        if len(self._waiting) >= self._batch or self._characters >= BATCH_CHARACTERS:
            self.flush()

    def refuse(self, bad: BadLine) -> None:
        """Report and count what cannot be stored."""
        self.bad += 1
        self._report(str(bad))

    def flush(self) -> None:
        """Store what is waiting.  What the store does not allow is reported, the rest of the batch goes in."""
        batch, self._waiting, self._characters = self._waiting, [], 0
        if not batch:
            return
        try:
            self._put(batch)
        except InvalidRequest:
            for item in batch:
                try:
                    self._put([item])
                except InvalidRequest as error:
                    self.bad += 1
                    self._report(f"{item.artifact_id or item.text[:40]!r} in {item.scope_id!r}: {error}")

    def _put(self, items: list[Item]) -> None:
        results = self._ctx.put(items, embed=self._embed)
        unchanged = sum(result.outcome == "unchanged" for result in results)
        self.unchanged += unchanged
        self.stored += len(results) - unchanged
        self.scopes.update(item.scope_id for item in items)

    def document(self, scope_id: str, family: str, artifact_id: str, *, parts: int, whole: bool) -> None:
        """Note that a document was read: *whole* as one item, or split into *parts*; neither when it is empty."""
        self._documents.append((scope_id, family, artifact_id, parts, whole))

    def retire_leftovers(self) -> None:
        """Retire what an earlier version of the documents left behind: longer, not empty, or split the other way."""
        if not self._documents:
            return

        from powerctx_core.types import Address

        def uri(document: tuple[str, str, str, int, bool], part: int) -> str:
            scope_id, family, artifact_id, *_ = document
            name = f"{artifact_id}#{part}" if part else artifact_id
            return Address(scope_id, family, name, 1).stem

        no_items = [document for document in self._documents if not document[4]]
        self.retired += self._ctx.retire([uri(document, 0) for document in no_items]) if no_items else 0
        more = self._ctx.retire([uri(document, document[3] + 1) for document in self._documents])
        self.retired += more
        if more:
            for document in self._documents:
                part = document[3] + 2
                while self._ctx.retire([uri(document, part)]):
                    self.retired += 1
                    part += 1

    def drop(self) -> None:
        """Forget what is waiting."""
        self._waiting = []


@click.command(
    epilog=examples(
        "powerctx ingest notes/ README.md --scope project:demo --split",
        "powerctx ingest handbook/ --scope project:demo --family resource",
        "powerctx ingest chat.jsonl --map conversation=memory,event=memory",
        "jq -c '.items[]' export.json | powerctx ingest - --scope project:demo",
    )
)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option("--scope", metavar="SCOPE", help="Scope of documents, and of JSON lines that name none.")
@click.option("--family", metavar="FAMILY", help="Store all as this family, whatever the lines say.")
@click.option("--map", "mappings", metavar="A=B,C=D", multiple=True, help="Store family A as B; may be repeated.")
@click.option("--tz", "zone", metavar="ZONE", help="Zone of times without one: Europe/Berlin, +08:00. Default: UTC.")
@click.option("--split", is_flag=True, help="Cut Markdown at headings and long text at paragraphs, to 1900 bytes.")
@click.option(
    "--batch",
    metavar="N",
    type=click.IntRange(1, 100_000),
    default=BATCH,
    show_default=True,
    help="Items stored at once: all of a batch or none.",
)
@click.option("--no-embed", is_flag=True, help="Leave vectors to `powerctx embed`.")
@click.option("--no-progress", is_flag=True, help="Show no progress bar.")
@common
@click.pass_obj
def ingest(
    invocation: Invocation,
    /,
    *,
    paths: tuple[str, ...],
    scope: str | None,
    family: str | None,
    mappings: tuple[str, ...],
    zone: str | None,
    split: bool,
    batch: int,
    no_embed: bool,
    no_progress: bool,
) -> None:
    """Store Markdown (.md), plain text (.txt, .text, .rst) and JSON lines (.jsonl, .ndjson, .json).

    A folder is walked; hidden files and other kinds are passed over. A document's id is its path below that folder,
    its title the first heading. `-` reads JSON lines from standard input.

    As resources (`--family resource`) folders are stored, too, each with a list of what lies in it. As skills
    (`--family skill`) a folder with a SKILL.md becomes one entry, and its other files none.

    Every field of an item is a key of a JSON line: text, family, title, tags, ... with the short forms id, scope, time
    (ISO 8601) and session or conversation (a thread; its lines are numbered in order). Unknown keys go to meta.

    A line that is wrong is reported with its number, the rest goes in, and the exit code is 1. Running the same again
    changes nothing.
    """
    from powerctx_core.ingest import Reader, find_sources

    renamed = _mapping(mappings)
    time_zone = _zone(zone)
    listing = find_sources(paths, skills=family == PACKAGED)
    _check_scope(scope, listing)
    with invocation.open() as ctx:
        specs = {name: ctx.host.spec("powerctx_families", name) for name in ctx.host.names("powerctx_families")}
        families = frozenset(specs)
        _check_families(families, family, renamed)
        total = sum(source.size for source in listing.sources)
        with Bar("reading", total, sizes=True, wanted=not no_progress) as bar:
            reader = Reader(
                scope_id=scope,
                family=family,
                renamed=renamed,
                families=families,
                text_bytes={name: spec.text_bytes for name, spec in specs.items()},
                zone=time_zone,
                split=split,
                progress=bar.advance,
            )
            intake = Intake(ctx, bar.note, batch, embed=not no_embed)
            failure = _take_all(intake, reader, listing, families)
    _count(invocation, intake, reader, listing)
    if failure is not None:
        raise _cut_short(intake, failure) from failure
    _finish(intake, listing)


def _take_all(intake: Intake, reader: Reader, listing: Listing, families: frozenset[str]) -> PowerctxError | None:
    """Store all sources; return what ended it early, if anything did.

    Raises:
        InvalidRequest: as :func:`_take`.
    """
    try:
        for bad in listing.bad:
            intake.refuse(bad)
        folders = None
        if reader.family == FOLDERED and reader.scope_id is not None:
            from powerctx_core.ingest import Folders

            folders = Folders(reader.scope_id, FOLDERED, listing.folders)
        for source in listing.sources:
            _take(intake, reader, source, families, folders)
        if folders is not None:
            _take_folders(intake, folders)
        intake.flush()
        intake.retire_leftovers()
    except InvalidRequest:
        raise
    except PowerctxError as error:
        return error
    return None


def _take_folders(intake: Intake, folders: Folders) -> None:
    """Store the folders around what was read, and note those that are empty now."""
    for item in folders.items():
        intake.add(item)
    # What could not be read this time still lies in its folder.
    for folder_id in () if intake.bad else folders.empty:
        intake.document(folders.scope_id, folders.family, folder_id, parts=0, whole=False)


def _take(
    intake: Intake, reader: Reader, source: Source, families: frozenset[str], folders: Folders | None = None
) -> None:
    """Store one source.

    Raises:
        InvalidRequest: a line is of a family that no installed part declares; the rest of the source is only looked
            through, so that the message names all such families.
    """
    from powerctx_core.ingest import BadLine, UnknownFamily

    unknown: dict[str, BadLine] = {}
    stdin = sys.stdin.buffer if source.path is None else None
    item: Item | None = None
    count = 0
    empty, clean = reader.empty, True
    for entry in reader.read(source, stdin=stdin):
        if isinstance(entry, UnknownFamily):
            if len(unknown) < FAMILIES_SHOWN:
                unknown.setdefault(entry.family, entry)
        elif unknown:
            continue
        elif isinstance(entry, BadLine):
            intake.refuse(entry)
            clean = False
        else:
            item = entry
            count += 1
            if count == 1 and folders is not None and source.kind != "records":
                folders.add(source.artifact_id, item)
            intake.add(item)
    if source.kind != "records" and clean:
        if item is not None:
            split = reader.splits(source)
            intake.document(
                item.scope_id, item.family, source.artifact_id, parts=count if split else 0, whole=not split
            )
        elif reader.empty > empty and reader.scope_id is not None:
            family = reader.family or "memory"
            intake.document(reader.scope_id, family, source.artifact_id, parts=0, whole=False)
    if unknown:
        intake.drop()
        target = "memory" if "memory" in families else next(iter(sorted(families)), "memory")
        before = intake.stored + intake.unchanged
        kept = f"what was stored before it stays ({output.pieces(before, 'item')})" if before else "nothing was stored"
        mapping = ",".join(f"{name}={target}" for name in unknown)
        raise InvalidRequest(
            f"{next(iter(unknown.values()))} Installed: {', '.join(sorted(families)) or 'none'}. "
            f"Pass --family {target} for all, or --map {mapping}; {kept}."
        )


def _cut_short(intake: Intake, failure: PowerctxError) -> PowerctxError:
    """Return what to say when the store failed in the middle: what it says, and what earlier batches left there."""
    before = intake.stored + intake.unchanged
    if not before:
        return failure
    there = f"{output.pieces(before, 'item')} of earlier batches {'is' if before == 1 else 'are'} stored"
    return PowerctxError(f"{failure} {there}; then run the same again, which completes it.")


def _count(invocation: Invocation, intake: Intake, reader: Reader, listing: Listing) -> None:
    """Print the counts."""
    if listing.skipped:
        kinds = ", ".join(f"{ending} ({number})" for ending, number in sorted(listing.skipped.items()))
        output.note(f"passed over: {kinds}")
    if reader.empty:
        output.note(f"passed over, without text: {output.pieces(reader.empty, 'file')}")
    if intake.retired:
        output.note(f"retired, of earlier versions: {output.pieces(intake.retired, 'item')}")
    if invocation.json:
        output.emit_json(
            {
                "stored": intake.stored,
                "unchanged": intake.unchanged,
                "bad": intake.bad,
                "retired": intake.retired,
                "scopes": sorted(intake.scopes),
                "passed_over": dict(Counter(listing.skipped)) | ({"empty": reader.empty} if reader.empty else {}),
            }
        )
    else:
        where = f" in {output.pieces(len(intake.scopes), 'scope')}" if intake.scopes else ""
        output.emit(f"{intake.stored} stored, {intake.unchanged} unchanged, {intake.bad} bad{where}")


def _finish(intake: Intake, listing: Listing) -> None:
    """Say what is left to say.

    Raises:
        click.ClickException: a line was not stored.
    """
    if intake.bad:
        what = "1 line or file was" if intake.bad == 1 else f"{intake.bad} lines or files were"
        raise click.ClickException(f"{what} not stored; correct what is reported above and run the same again.")
    if not listing.sources:
        output.note("nothing to read; name a file, or a folder with .md, .txt or .jsonl files.")


def _check_scope(scope: str | None, listing: Listing) -> None:
    from powerctx_core.types import SCOPE_ID_BYTES, check_identifier

    if scope is not None:
        check_identifier("--scope", scope, SCOPE_ID_BYTES)
        return
    document = next((source for source in listing.sources if source.kind != "records"), None)
    if document is not None:
        raise InvalidRequest(f"{document.name} names no scope; pass --scope, as in --scope project:demo.")


def _check_families(installed: frozenset[str], family: str | None, renamed: Mapping[str, str]) -> None:
    for option, name in [("--family", family), *(("--map", name) for name in renamed.values())]:
        if name is not None and name not in installed:
            known = ", ".join(sorted(installed))
            raise InvalidRequest(
                f"{option}: family {name!r} is declared by no installed part; installed: {known}. "
                "Pass one of them, as in --family memory or --map conversation=memory."
            )


def _mapping(values: Sequence[str]) -> dict[str, str]:
    renamed: dict[str, str] = {}
    for pair in ",".join(values).split(","):
        if not pair.strip():
            continue
        old, equals, new = (part.strip() for part in pair.partition("="))
        if not (old and equals and new):
            raise InvalidRequest(f"--map {pair.strip()!r} is not of the form conversation=memory.")
        if renamed.setdefault(old, new) != new:
            raise InvalidRequest(f"--map names {old!r} twice, as {renamed[old]!r} and {new!r}; keep one.")
    return renamed


def _zone(name: str | None) -> tzinfo:
    if name is None:
        return UTC
    try:
        if name[:1] in "+-":
            zone = datetime.strptime(name, "%z").tzinfo
            if zone is not None:
                return zone
        from zoneinfo import ZoneInfo

        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise InvalidRequest(f"--tz {name!r} is not a time zone; write Europe/Berlin, UTC or +08:00.") from None
