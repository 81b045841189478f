"""Turns files into items."""

from __future__ import annotations

import base64
import hashlib
import io
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, tzinfo
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import attrs

from powerctx_core.errors import InvalidRequest
from powerctx_core.ingest.documents import read_document, read_skill
from powerctx_core.ingest.sections import PART_BYTES, split_text
from powerctx_core.ingest.sources import BadLine, Source, document_id, system_reason
from powerctx_core.types import (
    ARTIFACT_ID_BYTES,
    TEXT_BYTES,
    Item,
    check_identifier,
    check_text_bytes,
    derived_artifact_id,
)

__all__ = ["Reader", "UnknownFamily"]

LINE_BYTES = 32 << 20
"""Longest JSON line: text, overview and meta at their limits, each character escaped, still fit."""
DOCUMENT_BYTES = 64 << 20
"""Largest document that is split."""
_PROBE_BYTES = 8192
_BINARY = "is a binary file, or text that is not UTF-8."
_BOM = b"\xef\xbb\xbf"

_KEYS = {field.name: field.name for field in attrs.fields(Item)} | {
    "id": "artifact_id",
    "scope": "scope_id",
    "time": "event_time",
    "session": "thread",
    "conversation": "thread",
}
"""Key on the line -> field of the item; of two for one field the one that comes first here wins."""
_RANK = {name: rank for rank, name in enumerate(_KEYS)}
_TIMES = ("event_time", "created_at", "updated_at")
_NAMES = ("artifact_id", "scope_id", "thread")


class UnknownFamily(BadLine):
    """A line of a family that no installed part declares.

    Attributes:
        family: the name on the line.
    """

    def __init__(self, source: str, line: int | None, family: str) -> None:
        super().__init__(source, line, f"family {family[:80]!r} is declared by no installed part.")
        self.family = family


@attrs.define(kw_only=True)
class Reader:
    """Turns the files of one run into items, one after the other; used by one thread.

    A record without id whose derived id an earlier record of the run has, with other content, gets an id of its own:
    the derived one with ``-2``, ``-3`` and so on behind it, in the order of contents, so that the same run again gives
    the same ids.  For that a record without id costs less than 200 bytes until the end of the run.

    Args:
        scope_id: scope of documents and of records that name none.
        family: overrides the family of every record.
        renamed: family on the line -> family to store.
        families: names that are accepted after renaming; every name when ``None``.
        text_bytes: family -> longest text, where it is not 1 MiB.
        zone: of times without a zone.
        split: cut documents at headings and long text at paragraphs.
        progress: called with the bytes read since the last call.

    Attributes:
        empty: number of documents without text, which are passed over.
    """

    scope_id: str | None = None
    family: str | None = None
    renamed: Mapping[str, str] = attrs.field(factory=dict)
    families: frozenset[str] | None = None
    text_bytes: Mapping[str, int] = attrs.field(factory=dict)
    zone: tzinfo = UTC
    split: bool = False
    progress: Callable[[int], object] = lambda _size: None
    empty: int = attrs.field(default=0, init=False)
    _first: dict[str, bytes] = attrs.field(factory=dict, init=False, repr=False)
    _others: dict[str, dict[bytes, int]] = attrs.field(factory=dict, init=False, repr=False)

    def read(self, source: Source, *, stdin: BinaryIO | None = None) -> Iterator[Item | BadLine]:
        """Yield what *source* holds, in its order; never raises for what the file holds or for a file system error.

        Args:
            source: from :func:`find_sources`.
            stdin: what to read for a source without path.
        """
        try:
            if source.path is None:
                yield from self.records(stdin or io.BytesIO(), source.name)
            elif source.kind == "records":
                with source.path.open("rb") as file:
                    yield from self.records(file, source.name)
            else:
                yield from self._document(source, source.path)
        except OSError as error:
            yield BadLine(source.name, None, system_reason(error))

    def splits(self, source: Source) -> bool:
        """Tell whether a document is stored in parts; a skill never is."""
        return self.split and source.kind != "skill"

    def records(self, file: BinaryIO, name: str) -> Iterator[Item | BadLine]:
        """Yield the items of JSON lines, and a :class:`BadLine` for each line that is none."""
        if isinstance(file, io.BufferedReader) and _binary(file.peek(_PROBE_BYTES)[:_PROBE_BYTES]):
            yield BadLine(name, None, _BINARY)
            return
        places: Counter[tuple[str | None, str]] = Counter()
        for number, line in enumerate(iter(partial(file.readline, LINE_BYTES), b""), 1):
            self.progress(len(line))
            if number == 1:
                line = line.removeprefix(_BOM)  # noqa: PLW2901 - the same line without its mark
                if (reason := _not_lines(line, name)) is not None:
                    yield BadLine(name, None, reason)
                    return
            if len(line) >= LINE_BYTES and not line.endswith(b"\n"):
                while (rest := file.readline(LINE_BYTES)) and not rest.endswith(b"\n"):
                    self.progress(len(rest))
                yield BadLine(name, number, f"is longer than {LINE_BYTES >> 20} MiB.")
                continue
            if not line or line.isspace():
                continue
            try:
                fields = self._fields(_parsed(line, name, number), name, number)
                _place(fields, places)
                if self.split and _long(fields["text"]):
                    if "artifact_id" not in fields:
                        fields["artifact_id"] = self._derived(fields)
                    yield from map(self._checked, _parts(fields))
                else:
                    item = self._checked(Item(**fields))
                    yield item if item.artifact_id is not None else self._told_apart(item)
            except BadLine as error:
                yield error
            except InvalidRequest as error:
                yield BadLine(name, number, str(error))

    def _fields(self, record: dict[str, Any], name: str, number: int) -> dict[str, Any]:
        """Return the arguments of the record's item."""
        fields, extra, written = _sorted_out(record)
        if "text" not in fields:
            raise BadLine(name, number, 'has no "text".')
        if fields.setdefault("scope_id", self.scope_id) is None:
            raise BadLine(name, number, 'has no "scope"; add it or pass --scope.')
        given = fields.get("meta")
        if extra and (given is None or type(given) is dict):
            fields["meta"] = {**extra, **given} if given else extra
        for field in _NAMES:
            if type(fields.get(field)) is int:
                fields[field] = str(fields[field])
        for field in _TIMES:
            if field in fields:
                fields[field] = self._time(written.get(field, field), fields[field])
        if "tags" in fields:
            fields["tags"] = _tags(fields["tags"])
        family = self.family or fields.get("family", "memory")
        if type(family) is str:
            family = self.renamed.get(family, family)
            if self.families is not None and family not in self.families:
                raise UnknownFamily(name, number, family)
        fields["family"] = family
        return fields

    def _told_apart(self, item: Item) -> Item:
        """Return *item*, with an id of its own when its derived one stands for another content in this run."""
        derived = derived_artifact_id(item)
        own = self._occurrence(derived, item)
        return item if own == derived else attrs.evolve(item, artifact_id=own)

    def _derived(self, fields: dict[str, Any]) -> str:
        """Return the id of a record without one whose text may be too long for an item."""
        text = fields["text"]
        item = Item(**fields | {"text": hashlib.sha256(text.encode()).hexdigest()})
        identity = json.dumps([str(fields.get(name)) for name in ("scope_id", "family", "thread", "position", "text")])
        derived = base64.b32encode(hashlib.sha256(identity.encode()).digest()[:10]).decode().lower()
        return self._occurrence(derived, item)

    def _occurrence(self, derived: str, item: Item) -> str:
        content = item.digest
        if self._first.setdefault(derived, content) == content:
            return derived
        others = self._others.setdefault(derived, {})
        return f"{derived}-{others.setdefault(content, len(others) + 2)}"

    def _time(self, key: str, value: object) -> datetime:
        try:
            time = datetime.fromisoformat(value.strip())  # type: ignore[attr-defined]  # what has no strip is no text
            return time if time.tzinfo is not None else time.replace(tzinfo=self.zone)
        except (AttributeError, ValueError, OverflowError):
            shown = json.dumps(value, ensure_ascii=False)[:60]
            raise InvalidRequest(f"{key} {shown} is not a date; write 2026-01-31 or 2026-01-31T12:00:00Z.") from None

    def _document(self, source: Source, path: Path) -> Iterator[Item | BadLine]:
        """Yield the document as one item, or its parts."""
        limit = DOCUMENT_BYTES if self.splits(source) else TEXT_BYTES + len(_BOM)
        with path.open("rb") as file:
            data = file.read(limit + 1)
        self.progress(len(data))
        if len(data) > limit:
            parts = self.split or source.kind == "skill"
            hint = "cut it into several files." if parts else "pass --split to store it in parts."
            yield BadLine(source.name, None, f"is longer than {limit >> 20} MiB; {hint}")
            return
        if b"\0" in data:
            yield BadLine(source.name, None, _BINARY)
            return
        try:
            text = data.decode("utf-8-sig").replace("\r\n", "\n")
        except UnicodeDecodeError as error:
            yield BadLine(source.name, None, f"is not UTF-8 (byte {error.start}); convert it.")
            return
        if not text.strip():
            self.empty += 1
            return
        try:
            stem = source.artifact_id.rpartition("/")[2] if source.kind == "skill" else document_id(path.stem)
            yield from self._document_items(source, stem, text)
        except InvalidRequest as error:
            yield BadLine(source.name, None, str(error))

    def _document_items(self, source: Source, stem: str, text: str) -> Iterator[Item]:
        markdown = source.kind == "markdown"
        document = read_skill(text) if source.kind == "skill" else read_document(text, markdown=markdown)
        fields: dict[str, Any] = {
            "scope_id": self.scope_id,
            "family": self.family or "memory",
            "artifact_id": source.artifact_id,
            "text": document.text,
            "title": document.title or stem,
        }
        if not document.text.strip():
            self.empty += 1
        elif self.splits(source):
            yield from map(self._checked, _parts(fields, markdown=markdown))
        else:
            if source.files:
                fields["meta"] = {"files": list(source.files)}
            yield self._checked(Item(**fields, abstract=document.abstract))

    def _checked(self, item: Item) -> Item:
        check_text_bytes(item, self.text_bytes.get(item.family, TEXT_BYTES))
        return item


def _place(fields: dict[str, Any], places: Counter[tuple[str | None, str]]) -> None:
    """Give a record with a thread its position there: its place in the file.

    Counted before the item is checked, since correcting a bad line later must not move the ones behind it.
    """
    thread, scope_id = fields.get("thread"), fields["scope_id"]
    if type(thread) is str and type(scope_id) is str:
        place = (scope_id, thread)
        fields.setdefault("position", places[place])
        places[place] += 1


def _long(text: object) -> bool:
    if type(text) is not str or len(text) * 4 <= PART_BYTES:
        return False
    try:
        return len(text.encode()) > PART_BYTES
    except UnicodeEncodeError:
        return False  # no text at all, which the item will say


def _parts(fields: dict[str, Any], *, markdown: bool = False) -> Iterator[Item]:
    """Yield the parts of one long text as a thread of its own: ``id#1``, ``id#2`` and so on."""
    base = document_id(check_identifier("artifact_id", fields["artifact_id"], ARTIFACT_ID_BYTES))
    for index, (title, text) in enumerate(split_text(fields["text"], markdown=markdown)):
        part = {"artifact_id": f"{base}#{index + 1}", "thread": base, "position": index, "text": text}
        yield Item(**(fields | part | ({"title": title} if title else {})))


def _sorted_out(record: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, str]]:
    """Return a record's fields, what goes to ``meta``, and field -> key where the two differ.

    Of two keys for one field the one that comes first in ``_KEYS`` wins; the other's value goes to ``meta``.
    """
    fields: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    written: dict[str, str] = {}
    for key, value in record.items():
        if value is None:
            continue
        field = _KEYS.get(key)
        if field is None:
            extra[key] = value
            continue
        if field in fields:
            other = written.get(field, field)
            if _RANK[key] > _RANK[other]:
                extra[key] = value
                continue
            extra[other] = fields[field]
            written.pop(field, None)
        fields[field] = value
        if key != field:
            written[field] = key
    return fields, extra, written


def _parsed(line: bytes, name: str, number: int) -> dict[str, Any]:
    try:
        record = json.loads(line.decode(), object_pairs_hook=_once, parse_constant=_refused)
    except UnicodeDecodeError as error:
        raise BadLine(name, number, f"is not UTF-8 (byte {error.start} of the line).") from None
    except json.JSONDecodeError as error:
        raise BadLine(name, number, f"is not JSON: {error.msg} at character {error.pos + 1}.") from None
    except (ValueError, RecursionError) as error:
        raise BadLine(name, number, f"is not JSON that can be read: {str(error)[:120]}.") from None
    if type(record) is not dict:
        raise BadLine(name, number, "is not a JSON object.")
    return record


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of *pairs*; of a key that stands there twice nobody knows which value is meant."""
    record = dict(pairs)
    if len(record) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {json.dumps(twice[:60])} stands twice in one object")
    return record


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is no number of JSON")


def _tags(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(type(tag) is str for tag in value):
        raise InvalidRequest("tags must be a list of strings.", field="tags")
    return tuple(value)


def _binary(start: bytes) -> bool:
    """Whether a file that starts so is no text; a NUL behind a first line of JSON is that line's own matter."""
    first, _, _ = start.lstrip().partition(b"\n")
    return b"\0" in start and (b"\0" in first or not first.removeprefix(_BOM).startswith(b"{"))


def _not_lines(first: bytes, name: str) -> str | None:
    """Return why a file that starts with the line *first* holds no JSON lines at all, or ``None``."""
    if _binary(first[:_PROBE_BYTES]):
        return _BINARY
    if first.strip() in (b"[", b"{") or (name.lower().endswith(".json") and first.lstrip()[:1] == b"["):
        return "is one JSON value, not one object on each line; convert it, e.g. with jq -c '.[]'."
    return None
