"""Labelled sets: ``<folder>/<set>/items.jsonl`` and ``queries.jsonl``, read where they lie and never copied."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs

from powerctx_core import InvalidRequest, Item

__all__ = ["SETS", "EvalItem", "EvalQuery", "EvalSet", "data_folder", "load"]

SETS = ("locomo", "madial_zh", "madial_en", "cmrc_zh", "cosqa_code", "precisionmem_en")
"""The known sets, in the order of reports; any other folder of the same form can be named too."""
VARIABLE = "POWERCTX_EVAL_DATA"
PINNED = "pinned"


@attrs.frozen(kw_only=True)
class EvalItem:
    """One item to store.

    Attributes:
        item: as it is given to ``put``; its artifact id is the set's own id.
        retired: it is superseded in the set, so it is stored and then retired.
    """

    item: Item
    retired: bool = False


@attrs.frozen(kw_only=True)
class EvalQuery:
    """One labelled query.

    Attributes:
        references: further scopes to read.
        tags: what the answer is to be restricted to: any of them.
        gold: ids of the items that should come back.
        only: when not empty, ids of the only items that may come back.
        must_not: ids that must not come back.
        adversarial: its gold is a trap, so it is reported apart.
    """

    id: str
    text: str
    scope_id: str
    gold: frozenset[str]
    references: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    only: frozenset[str] = frozenset()
    must_not: frozenset[str] = frozenset()
    adversarial: bool = False
    lang: str = ""
    category: str = ""


SUBJECTS = {"locomo": "everyday talk", "madial_en": "everyday talk", "madial_zh": "everyday talk"}
"""Sets that are about the same kind of things; any other set is a subject of its own."""


@attrs.frozen(kw_only=True)
class EvalSet:
    """One set.

    Attributes:
        digest: SHA-256 over both files.
        filtered_by: how ``filter_scope`` is meant: ``tags`` or ``scopes``.
    """

    name: str
    items: tuple[EvalItem, ...]
    queries: tuple[EvalQuery, ...]
    digest: str
    filtered_by: str = "tags"

    @property
    def subject(self) -> str:
        """What the set is about; items of another subject are unrelated to its queries."""
        return SUBJECTS.get(self.name, self.name)

    @property
    def scope_ids(self) -> frozenset[str]:
        """Every scope that holds items or is asked."""
        asked = {scope for query in self.queries for scope in (query.scope_id, *query.references)}
        return frozenset({entry.item.scope_id for entry in self.items} | asked)


def data_folder(given: str | os.PathLike[str] | None = None, environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder of the sets: *given*, else ``POWERCTX_EVAL_DATA``, else ``../shared/data``.

    Raises:
        InvalidRequest: there is no such folder.
    """
    environ = os.environ if environ is None else environ
    folder = Path(given or environ.get(VARIABLE) or Path("..") / "shared" / "data")
    if not folder.is_dir():
        raise InvalidRequest(
            f"the evaluation data is not at {folder}; name its folder with --data DIR or {VARIABLE}.", field="data"
        )
    return folder


def load(folder: Path, name: str, *, filtered_by: str = "tags") -> EvalSet:
    """Read one set.

    Scopes are prefixed with the set's name, so that sets can share a store.  ``session`` becomes the thread, within
    its conversation; the order of the file becomes the position there; ``time`` becomes the event time, UTC.

    Args:
        folder: as :func:`data_folder` returns it.
        name: of a folder in it.
        filtered_by: ``tags`` turns an item's ``scopes`` into tags and a query's ``filter_scope`` into a filter on
            them; ``scopes`` makes every one a scope of its own, the first of which is asked and the others referred to.

    Raises:
        InvalidRequest: the set is not there, or a line of it is not of the form.
    """
    here = folder / name
    for file in ("items.jsonl", "queries.jsonl"):
        if not (here / file).is_file():
            there = ", ".join(sorted(path.parent.name for path in folder.glob("*/items.jsonl"))) or "none"
            raise InvalidRequest(f"set {name!r} has no {file} in {folder}; sets there: {there}.", field="sets")
    digest = hashlib.sha256()
    items = [*_items(name, _lines(here / "items.jsonl", digest), filtered_by)]
    queries = [*_queries(name, _lines(here / "queries.jsonl", digest), filtered_by)]
    found = EvalSet(
        name=name, items=tuple(items), queries=tuple(queries), digest="sha256:" + digest.hexdigest(),
        filtered_by=filtered_by,
    )  # fmt: skip
    _check(found)
    return found


def _lines(path: Path, digest: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (place, record) of every line that is not blank."""
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            digest.update(line)
            if not line.strip():
                continue
            place = f"{path}:{number}"
            try:
                record = json.loads(line)
            except ValueError as error:
                raise InvalidRequest(f"{place} is not JSON: {error}.", field="data") from None
            if not isinstance(record, dict):
                raise InvalidRequest(f"{place} is not a JSON object.", field="data")
            yield place, record


def _items(name: str, lines: Iterator[tuple[str, Mapping[str, Any]]], filtered_by: str) -> Iterator[EvalItem]:
    places: Counter[tuple[str, str]] = Counter()
    for place, record in lines:
        scope = _text(record, "scope", place)
        labels = _names(record, "scopes", place)
        thread = position = None
        if session := record.get("session"):
            thread = f"{scope}/{session}"
            position = places[scope, thread]
            places[scope, thread] += 1
        tags = (*(labels if filtered_by == "tags" else ()), *((PINNED,) if record.get("pinned") else ()))
        scope_id = _scoped(name, scope, labels[0] if filtered_by == "scopes" and labels else None)
        try:
            item = Item(
                scope_id=scope_id, text=_text(record, "text", place), artifact_id=_text(record, "id", place),
                tags=tags, event_time=_time(record.get("time")), thread=thread, position=position,
            )  # fmt: skip
        except (InvalidRequest, ValueError) as error:
            raise InvalidRequest(f"{place}: {error}", field="data") from None
        yield EvalItem(item=item, retired=bool(record.get("superseded_by")))


def _queries(name: str, lines: Iterator[tuple[str, Mapping[str, Any]]], filtered_by: str) -> Iterator[EvalQuery]:
    for place, record in lines:
        scope = _text(record, "scope", place)
        labels = _names(record, "filter_scope", place)
        scopes = [_scoped(name, scope, label) for label in labels] if filtered_by == "scopes" and labels else []
        yield EvalQuery(
            id=_text(record, "id", place),
            text=_text(record, "text", place),
            scope_id=scopes[0] if scopes else _scoped(name, scope, None),
            references=tuple(scopes[1:]),
            tags=labels if filtered_by == "tags" else (),
            gold=frozenset(_names(record, "gold", place)),
            only=frozenset(_names(record, "only", place)),
            must_not=frozenset(_names(record, "must_not", place)),
            adversarial=record.get("answerable") is False,
            lang=str(record.get("lang") or ""),
            category=str(record.get("category") or ""),
        )


def _scoped(name: str, scope: str, label: str | None) -> str:
    return f"{name}/{scope}" if label is None else f"{name}/{scope}/{label}"


def _text(record: Mapping[str, Any], key: str, place: str) -> str:
    value = record.get(key)
    if not isinstance(value, str):
        raise InvalidRequest(f"{place} has no {key!r} that is a string.", field="data")
    return value


def _names(record: Mapping[str, Any], key: str, place: str) -> tuple[str, ...]:
    value = record.get(key) or ()
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(each, str) for each in value):
        raise InvalidRequest(f"{place}: {key!r} is not a list of strings.", field="data")
    return tuple(dict.fromkeys(value))


def _time(value: Any) -> datetime | None:
    if value is None:
        return None
    time = datetime.fromisoformat(str(value))
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


def _check(found: EvalSet) -> None:
    ids = Counter(entry.item.artifact_id for entry in found.items)
    if doubled := [name for name, count in ids.items() if count > 1]:
        raise InvalidRequest(f"set {found.name!r} has the id {doubled[0]!r} twice.", field="data")
    known = frozenset(ids)
    for query in found.queries:
        if unknown := sorted(query.gold - known):
            raise InvalidRequest(
                f"set {found.name!r}: query {query.id!r} wants {unknown[0]!r}, which is not there.", field="data"
            )
