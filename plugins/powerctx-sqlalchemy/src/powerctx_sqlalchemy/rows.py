"""Values to rows and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

import attrs

from powerctx_core.text.cut import derived_abstract, head
from powerctx_core.text.terms import analyse, analysed_text, encode
from powerctx_core.types import Address, Item, Partition, RawCandidate, Revision
from powerctx_sqlalchemy.tables import TAG_SEPARATOR, revision

__all__ = [
    "CANDIDATE",
    "REVISION",
    "Analysed",
    "analysed",
    "candidate",
    "joined_tags",
    "microseconds",
    "moment",
    "split_tags",
    "stored",
    "threaded",
    "values",
]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOTHING: Mapping[str, Any] = MappingProxyType({})

CANDIDATE = (
    revision.c.id,
    revision.c.artifact_id,
    revision.c.number,
    revision.c.kind,
    revision.c.category,
    revision.c.title,
    revision.c.abstract,
    revision.c.body_bytes,
    revision.c.overview_bytes,
    revision.c.tags,
    revision.c.created_at,
    revision.c.updated_at,
    revision.c.event_time,
    revision.c.thread,
    revision.c.position,
    revision.c.confidence,
    revision.c.layer,
    revision.c.origin,
    revision.c.meta,
    revision.c.head,
)
"""The columns that :func:`candidate` takes, in its order."""

REVISION = (
    revision.c.current,
    revision.c.retired_at,
    revision.c.artifact_id,
    revision.c.number,
    revision.c.kind,
    revision.c.category,
    revision.c.title,
    revision.c.abstract,
    revision.c.abstract_given,
    revision.c.tags,
    revision.c.created_at,
    revision.c.updated_at,
    revision.c.event_time,
    revision.c.thread,
    revision.c.position,
    revision.c.confidence,
    revision.c.layer,
    revision.c.origin,
    revision.c.meta,
    revision.c.head,
    revision.c.rest,
    revision.c.overview,
)
"""The columns that :func:`stored` takes, in its order."""


def microseconds(value: datetime) -> int:
    """Return an aware datetime as microseconds since 1970."""
    delta = value - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def moment(value: int) -> datetime:
    """Return microseconds since 1970 as a datetime in UTC."""
    return _EPOCH + timedelta(microseconds=value)


@attrs.frozen
class Analysed:
    """The terms of one item as they are stored.

    Attributes:
        terms: distinct encoded terms, each between spaces.
        repeats: counts above one as `` term:count ``, or ``None``.
        length: analysed terms in the item, repeats included.
    """

    terms: str
    repeats: str | None
    length: int


def analysed(title: str | None, text: str, category: str | None, tags: tuple[str, ...]) -> Analysed:
    """Analyse the content of one item for the index."""
    occurrences = analyse(analysed_text(title, text, category, tags))
    if not occurrences:
        return Analysed(" ", None, 0)
    length = sum(occurrences.values())
    repeats = None
    if length > len(occurrences):
        repeats = f" {' '.join(f'{encode(term)}:{count}' for term, count in occurrences.items() if count > 1)} "
    return Analysed(f" {' '.join(map(encode, occurrences))} ", repeats, length)


def values(item: Item, digest: bytes, created_at: int, now: int) -> tuple[Any, ...]:
    """Return the columns of ``revision`` from ``digest`` on."""
    text, overview, event_time = item.text, item.overview, item.event_time
    start = head(text)
    return (
        digest,
        item.kind,
        item.category,
        item.title,
        derived_abstract(text) if item.abstract is None else item.abstract,
        0 if item.abstract is None else 1,
        len(text) if text.isascii() else len(text.encode()),
        len(overview.encode()) if overview else 0,
        joined_tags(item.tags),
        created_at,
        now if item.updated_at is None else microseconds(item.updated_at),
        None if event_time is None else microseconds(event_time),
        item.thread,
        item.position,
        item.confidence,
        item.layer,
        item.origin,
        json.dumps(dict(item.meta), ensure_ascii=False, separators=(",", ":")) if item.meta else None,
        start,
        text[len(start) :] or None,
        overview,
    )


def threaded(thread: str | None, position: int | None) -> int:
    """Return 1 for an item that can have neighbours, else 0."""
    return 0 if thread is None or position is None else 1


def joined_tags(tags: tuple[str, ...]) -> str | None:
    """Return tags as they are stored."""
    return f"{TAG_SEPARATOR}{TAG_SEPARATOR.join(tags)}{TAG_SEPARATOR}" if tags else None


def split_tags(value: str | None) -> tuple[str, ...]:
    """Return stored tags as they were given."""
    return tuple(value[1:-1].split(TAG_SEPARATOR)) if value else ()


def _metadata(value: str | None) -> Mapping[str, Any]:
    return MappingProxyType(json.loads(value)) if value else _NOTHING


def candidate(
    partition: Partition,
    row: Sequence[Any],
    length: int | None,
    matched: Mapping[str, int] = _NOTHING,
    cosine: float | None = None,
) -> RawCandidate:
    """Build a candidate of *partition* from the columns of :data:`CANDIDATE`, and what retrieval knows of it."""
    (
        _, artifact_id, number, kind, category, title, abstract, body_bytes, overview_bytes,
        tags, created_at, updated_at, event_time, thread, position, confidence, layer, origin, meta, start,
    ) = row  # fmt: skip
    created = _EPOCH + timedelta(0, 0, created_at)
    return RawCandidate(
        address=Address(partition.scope_id, partition.family, artifact_id, number),
        length=length or 0,
        matched=matched,
        cosine=cosine,
        kind=kind,
        category=category,
        title=title,
        abstract=abstract,
        head=start,
        body_bytes=body_bytes,
        overview_bytes=overview_bytes,
        tags=split_tags(tags) if tags else (),
        created_at=created,
        updated_at=created if updated_at == created_at else _EPOCH + timedelta(0, 0, updated_at),
        event_time=None if event_time is None else _EPOCH + timedelta(0, 0, event_time),
        thread=thread,
        position=position,
        confidence=confidence,
        layer=layer,
        origin=origin,
        metadata=MappingProxyType(json.loads(meta)) if meta else _NOTHING,
    )


def stored(scope_id: str, family: str, row: Sequence[Any]) -> Revision:
    """Build a revision from the columns of :data:`REVISION`."""
    (
        current, retired_at, artifact_id, number, kind, category, title, abstract, abstract_given, tags, created_at,
        updated_at, event_time, thread, position, confidence, layer, origin, meta, start, rest, overview,
    ) = row  # fmt: skip
    item = Item(
        scope_id=scope_id,
        family=family,
        text=start + rest if rest else start,
        artifact_id=artifact_id,
        kind=kind,
        category=category,
        title=title,
        abstract=abstract if abstract_given else None,
        overview=overview,
        tags=split_tags(tags),
        created_at=moment(created_at),
        updated_at=moment(updated_at),
        event_time=None if event_time is None else moment(event_time),
        thread=thread,
        position=position,
        confidence=confidence,
        layer=layer,
        origin=origin,
        meta=_metadata(meta),
    )
    state = "current" if current else "superseded" if retired_at is None else "retired"
    return Revision(address=Address(scope_id, family, artifact_id, number), item=item, state=state)
