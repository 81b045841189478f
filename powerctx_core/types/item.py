"""What is stored: items, their revisions, and restrictions on them."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import attrs

from powerctx_core.errors import InvalidRequest, shown
from powerctx_core.types.address import (
    ARTIFACT_ID_BYTES,
    SCOPE_ID_BYTES,
    Address,
    Key,
    check_family,
    check_identifier,
    utf8_size,
)

__all__ = [
    "ABSTRACT_BYTES",
    "KINDS",
    "LAYERS",
    "META_DEPTH",
    "SHORT_TEXT_BYTES",
    "TAG_BYTES",
    "TAG_COUNT",
    "TEXT_BYTES",
    "TIERS",
    "Filters",
    "Item",
    "PutResult",
    "Revision",
    "check_text_bytes",
    "derived_artifact_id",
]

TEXT_BYTES = 1 << 20
TAG_COUNT = 64
TAG_BYTES = 128
SHORT_TEXT_BYTES = 4096
"""Limit of title, abstract and the like (category, origin, thread), UTF-8 bytes."""
META_DEPTH = 64
"""Deepest nesting of ``meta``; engines with a JSON type stop at 100."""
ABSTRACT_BYTES = 447
"""Longest abstract made at write time, UTF-8 bytes."""
LAYERS = ("L0", "L1", "L2", "L3")
TIERS = ("abstract", "overview", "full")
"""How much of an item is shown, from least to most."""
KINDS = ("item", "directory")

_EMPTY: Mapping[Any, Any] = MappingProxyType({})


def _utc(field: str, value: datetime | None) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise InvalidRequest(f"{field} must be a datetime, not {type(value).__name__}.", field=field)
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidRequest(f"{field} {value.isoformat()} has no time zone; add one.", field=field)
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise InvalidRequest(f"{field} {value.isoformat()} is out of range in UTC.", field=field) from None


def _text(field: str, value: object, limit: int, *, required: bool = False) -> None:
    if value is None and not required:
        return
    if not isinstance(value, str):
        raise InvalidRequest(f"{field} must be a string, not {type(value).__name__}.", field=field)
    size = utf8_size(field, value)
    if size > limit:
        raise InvalidRequest(
            f"{field} has {size} bytes; at most {limit} UTF-8 bytes are allowed (ingest --split cuts long text).",
            field=field,
        )


def _deeper(value: object, levels: int) -> bool:
    layer = [value]
    for _ in range(levels):
        layer = [
            child
            for container in layer
            if isinstance(container, dict | list)
            for child in (container.values() if isinstance(container, dict) else container)
        ]
    return any(isinstance(value, dict | list) for value in layer)


def _odd_key(value: object) -> object:
    """Return a key that is no string, of the mappings in *value*, or ``None``."""
    layer: list[object] = [value]
    for _ in range(META_DEPTH):
        below: list[object] = []
        for container in layer:
            if isinstance(container, Mapping):
                for key, child in container.items():
                    if not isinstance(key, str):
                        return repr(key) if key is None else key
                    below.append(child)
            elif isinstance(container, list | tuple):
                below += container
        layer = below
    return None


@attrs.frozen(kw_only=True)
class Item:
    """One unit to store.  ``put`` turns it into a revision.

    Args:
        scope_id: tenant-like partition, 1..256 UTF-8 bytes, no control characters.
        text: the body, not blank, at most 1 MiB of UTF-8.
        family: kind of evidence, by default ``memory``.
        artifact_id: 1..128 UTF-8 bytes; derived from scope, family, thread, position and text when absent.
        kind: ``item`` or ``directory``.
        thread, position: the conversation or document it belongs to, and its place there.
        confidence: 0..1.
        layer: ``L0``..``L3``; the family's own when absent.
        created_at, updated_at, event_time: aware datetimes, kept in UTC with microseconds.
        meta: JSON object.

    Raises:
        InvalidRequest: any field outside these limits; ``error.field`` names it.
    """

    scope_id: str
    text: str
    family: str = "memory"
    artifact_id: str | None = None
    kind: str = "item"
    category: str | None = None
    title: str | None = None
    abstract: str | None = None
    overview: str | None = None
    tags: tuple[str, ...] = ()
    created_at: datetime | None = None
    updated_at: datetime | None = None
    event_time: datetime | None = None
    thread: str | None = None
    position: int | None = None
    confidence: float | None = None
    layer: str | None = None
    origin: str | None = None
    meta: Mapping[str, Any] = _EMPTY

    def __attrs_post_init__(self) -> None:
        check_identifier("scope_id", self.scope_id, SCOPE_ID_BYTES)
        check_family("family", self.family)
        _text("text", self.text, TEXT_BYTES, required=True)
        if not self.text or self.text.isspace():
            raise InvalidRequest("text must not be blank.", field="text")
        if self.artifact_id is not None:
            check_identifier("artifact_id", self.artifact_id, ARTIFACT_ID_BYTES)
        if self.kind not in KINDS:
            raise InvalidRequest(f"kind {self.kind!r} is not one of {', '.join(KINDS)}.", field="kind")
        for field in ("category", "title", "origin", "thread"):
            _text(field, getattr(self, field), SHORT_TEXT_BYTES)
        _text("abstract", self.abstract, SHORT_TEXT_BYTES)
        _text("overview", self.overview, TEXT_BYTES)
        if self.tags or not isinstance(self.tags, tuple):
            self._check_tags()
        for field in ("created_at", "updated_at", "event_time"):
            if (value := getattr(self, field)) is not None:
                object.__setattr__(self, field, _utc(field, value))
        self._check_numbers()
        if self.meta is not _EMPTY:
            self._check_meta()

    def _check_tags(self) -> None:
        if isinstance(self.tags, str) or not isinstance(self.tags, Sequence):
            raise InvalidRequest("tags must be a list of strings.", field="tags")
        for tag in self.tags:
            check_identifier("tags", tag, TAG_BYTES)
        tags = tuple(dict.fromkeys(self.tags))
        if len(tags) > TAG_COUNT:
            raise InvalidRequest(f"tags has {len(tags)} entries; at most {TAG_COUNT} are allowed.", field="tags")
        object.__setattr__(self, "tags", tags)

    def _check_numbers(self) -> None:
        position, confidence = self.position, self.confidence
        if position is not None and (
            isinstance(position, bool) or not isinstance(position, int) or not 0 <= position < 1 << 62
        ):
            raise InvalidRequest(f"position {shown(position)} must be a whole number from 0 up.", field="position")
        if confidence is not None and (
            isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 <= confidence <= 1
        ):
            raise InvalidRequest(f"confidence {shown(confidence)} must be a number from 0 to 1.", field="confidence")
        if self.layer is not None and self.layer not in LAYERS:
            raise InvalidRequest(f"layer {self.layer!r} is not one of {', '.join(LAYERS)}.", field="layer")

    def _check_meta(self) -> None:
        if not isinstance(self.meta, Mapping):
            raise InvalidRequest(f"meta must be a JSON object, not {type(self.meta).__name__}.", field="meta")
        odd = _odd_key(self.meta)
        if odd is not None:
            raise InvalidRequest(f"meta has the key {shown(odd)}; keys must be strings.", field="meta")
        try:
            encoded = json.dumps(dict(self.meta), ensure_ascii=False, allow_nan=False)
            # A parsed copy: later changes of the caller's own dict must not reach into a frozen value.
            parsed = json.loads(encoded)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidRequest(f"meta is not JSON: {error}.", field="meta") from None
        _text("meta", encoded, TEXT_BYTES)
        if _deeper(parsed, META_DEPTH):
            raise InvalidRequest(f"meta is nested too deeply; at most {META_DEPTH} levels are allowed.", field="meta")
        object.__setattr__(self, "meta", MappingProxyType(parsed))

    @property
    def digest(self) -> bytes:
        """SHA-256 of the content fields; equal digests are the same content."""
        values = (
            self.text, self.title, self.abstract, self.overview, self.category, self.tags, self.thread, self.position,
            None if self.event_time is None else self.event_time.isoformat(),
            None if self.confidence is None else float(self.confidence), self.layer, self.kind,
        )  # fmt: skip
        encoded = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
        if self.meta:
            encoded += json.dumps(dict(self.meta), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(encoded.encode()).digest()


def check_text_bytes(item: Item, limit: int) -> None:
    """Check an item's text against the limit of its family.

    Args:
        item: whose text has at most 1 MiB already.
        limit: UTF-8 bytes.

    Raises:
        InvalidRequest: it is longer.
    """
    if limit < TEXT_BYTES and (size := utf8_size("text", item.text)) > limit:
        raise InvalidRequest(
            f"text has {size} bytes; at most {limit} UTF-8 bytes are allowed in the family {item.family!r}; shorten "
            "it, or store it as another family.",
            field="text",
        )


def derived_artifact_id(item: Item) -> str:
    """Return the id of an item that names none: 16 base32 characters (80 bits) of a SHA-256.

    The hash covers scope, family, thread, position and text, so equal text elsewhere is another artifact.
    """
    identity = json.dumps(
        (item.scope_id, item.family, item.thread, item.position, item.text), ensure_ascii=False, separators=(",", ":")
    )
    return base64.b32encode(hashlib.sha256(identity.encode()).digest()[:10]).decode().lower()


@attrs.frozen(kw_only=True)
class Revision:
    """One stored, immutable revision of an item.

    Attributes:
        state: ``current``, ``superseded`` or ``retired``.
        item: the content; its ``artifact_id`` and times are always set.
    """

    address: Address
    item: Item
    state: str


@attrs.frozen(kw_only=True)
class PutResult:
    """What ``put`` did with one item, in the order given.

    Attributes:
        outcome: ``created``, ``updated`` (a new revision), ``revived`` or ``unchanged``.
        key: the store's handle of the revision that holds the content now, to store its vector by; only a store without
            vectors may leave it out.
    """

    address: Address
    outcome: str
    key: Key | None = attrs.field(default=None, eq=False)


@attrs.frozen(kw_only=True)
class Filters:
    """Restrictions that a store applies before it builds a pool.

    Attributes:
        tags: all must be present.
        since, until: half-open window ``since <= t < until`` on *time_field*; aware datetimes.
        time_field: ``created``, ``updated`` or ``event``.
        category: exact value, when given.
    """

    tags: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    time_field: str = "updated"
    category: str | None = None

    def __bool__(self) -> bool:
        return bool(self.tags or self.since or self.until or self.category is not None)
