"""Frozen values that travel between parts.

Nothing here validates beyond what its docstring says: values are checked where they enter (``Item`` and ``Address``
check themselves, requests are checked in :mod:`powerctx_core.requests`) and trusted afterwards.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Self
from urllib.parse import quote, unquote_to_bytes

import attrs

from powerctx_core.errors import InvalidRequest

__all__ = [
    "ABSTRACT_BYTES",
    "ARTIFACT_ID_BYTES",
    "HEAD_BYTES",
    "LAYERS",
    "QUERY_TERMS",
    "SCOPE_ID_BYTES",
    "TAG_BYTES",
    "TAG_COUNT",
    "TEXT_BYTES",
    "Address",
    "Admission",
    "AdmissionCounts",
    "AdmissionFloor",
    "Candidate",
    "Deadline",
    "EmbeddingProfile",
    "Filters",
    "Hit",
    "Item",
    "Key",
    "LexicalHit",
    "LexicalStatistics",
    "Partition",
    "Pool",
    "PutResult",
    "QueryTerms",
    "RawCandidate",
    "Revision",
    "check_identifier",
    "derived_artifact_id",
    "parse_uri",
]

SCOPE_ID_BYTES = 256
ARTIFACT_ID_BYTES = 128
TEXT_BYTES = 1 << 20
TAG_COUNT = 64
TAG_BYTES = 128
ABSTRACT_BYTES = 447
"""Longest abstract made at write time, UTF-8 bytes."""
HEAD_BYTES = 4096
"""Length of the body's head that travels with a candidate, UTF-8 bytes."""
QUERY_TERMS = 64
"""Most distinct query terms used anywhere: in retrieval, coverage and overlap."""
META_DEPTH = 64
"""Deepest nesting of ``meta``; engines with a JSON type stop at 100."""
LAYERS = ("L0", "L1", "L2", "L3")
KINDS = ("item", "directory")
SHORT_TEXT_BYTES = 4096
"""Limit of title, overview-free short fields (title, category, origin, thread), UTF-8 bytes."""

Key = int
"""A store's own handle of one stored revision; opaque to core and valid while the store is open."""

_FAMILY = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_URI = re.compile(r"powerctx://([^/@?#\s]*)/([^/@?#\s]*)/([^@?#\s]*?)(?:@([0-9]{1,10}))?\Z")
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_EMPTY: Mapping[Any, Any] = MappingProxyType({})


def check_identifier(field: str, value: object, limit: int) -> str:
    """Return *value* when it is a usable identifier of at most *limit* UTF-8 bytes.

    Raises:
        InvalidRequest: not a string, empty, too long, not encodable, or holding a control character.
    """
    if not isinstance(value, str):
        raise InvalidRequest(f"{field} must be a string, not {type(value).__name__}.", field=field)
    if not value:
        raise InvalidRequest(f"{field} must not be empty.", field=field)
    size = _utf8_size(field, value)
    if size > limit:
        raise InvalidRequest(f"{field} has {size} bytes; at most {limit} UTF-8 bytes are allowed.", field=field)
    if not value.isprintable() and any(unicodedata.category(char) == "Cc" for char in value):
        raise InvalidRequest(f"{field} {value!r} holds a control character; remove it.", field=field)
    return value


def _utf8_size(field: str, value: str) -> int:
    if value.isascii():
        return len(value)
    try:
        return len(value.encode())
    except UnicodeEncodeError as error:
        raise InvalidRequest(
            f"{field} holds a lone surrogate at character {error.start}, which is not text; remove it.", field=field
        ) from None


def _check_family(field: str, value: object) -> str:
    if not isinstance(value, str) or not _FAMILY.match(value) or len(value) > 64:
        raise InvalidRequest(
            f"{field} {value!r} is not a family name: use lower-case words joined by '-', at most 64 characters.",
            field=field,
        )
    return value


@attrs.frozen
class Address:
    """The exact identity of evidence: one revision of one artifact of one family in one scope."""

    scope_id: str
    family: str
    artifact_id: str
    revision: int

    @property
    def uri(self) -> str:
        """``powerctx://<scope>/<family>/<artifact>@<revision>``, percent-encoded; any id round-trips."""
        return f"{self.stem}@{self.revision}"

    @property
    def stem(self) -> str:
        """The URI without its revision: it means the latest revision."""
        return f"powerctx://{_part(self.scope_id)}/{_part(self.family)}/{_part(self.artifact_id, safe='/')}"

    @classmethod
    def from_receipt(cls, value: Mapping[str, Any]) -> Self:
        """Build the address from a receipt's ``artifact_address`` (v1 writes ``memory`` as ``atomic-memory``)."""
        artifact = value["artifact"]
        family = artifact["family"]
        return cls(
            scope_id=value["scope_id"],
            family="memory" if family == "atomic-memory" else family,
            artifact_id=artifact["artifact_id"],
            revision=artifact["revision"],
        )

    @classmethod
    def parse(cls, uri: str) -> Self:
        """Parse a URI that names an exact revision.

        Raises:
            InvalidRequest: not a powerctx URI, or without ``@revision``.
        """
        scope_id, family, artifact_id, revision = parse_uri(uri)
        if revision is None:
            raise InvalidRequest(f"{uri!r} names no revision; append @1, @2, ….", field="uri")
        return cls(scope_id=scope_id, family=family, artifact_id=artifact_id, revision=revision)


def _part(value: str, *, safe: str = "") -> str:
    return quote(value, safe=safe)


def parse_uri(uri: str) -> tuple[str, str, str, int | None]:
    """Split a URI into scope id, family, artifact id and revision (``None`` when it means the latest).

    Raises:
        InvalidRequest: not a powerctx URI, or a part that is not a valid identifier.
    """
    match = _URI.match(uri) if isinstance(uri, str) else None
    if match is None:
        raise InvalidRequest(
            f"{uri!r} is not a powerctx URI; the form is powerctx://<scope>/<family>/<artifact>@<revision>, "
            "each part percent-encoded.",
            field="uri",
        )
    if _BAD_PERCENT.search(uri):
        raise InvalidRequest(f"{uri!r} holds a % that no two hexadecimal digits follow; write %25.", field="uri")
    try:
        scope_id, family, artifact_id = (unquote_to_bytes(part).decode() for part in match.groups()[:3])
    except UnicodeError:  # bytes that are not UTF-8, or a lone surrogate in the URI itself
        raise InvalidRequest(f"{uri!r} holds bytes that are not UTF-8.", field="uri") from None
    check_identifier("scope_id", scope_id, SCOPE_ID_BYTES)
    _check_family("family", family)
    check_identifier("artifact_id", artifact_id, ARTIFACT_ID_BYTES)
    revision = None if match[4] is None else int(match[4])
    if revision == 0 or (revision is not None and revision >= 1 << 31):
        raise InvalidRequest(f"{uri!r}: revisions count from 1.", field="uri")
    return scope_id, family, artifact_id, revision


@attrs.frozen
class Partition:
    """The unit of retrieval: one family of one scope."""

    scope_id: str
    family: str


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
    size = _utf8_size(field, value)
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
        _check_family("family", self.family)
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
        tags = tuple(dict.fromkeys(self.tags))
        if len(tags) > TAG_COUNT:
            raise InvalidRequest(f"tags has {len(tags)} entries; at most {TAG_COUNT} are allowed.", field="tags")
        for tag in tags:
            check_identifier("tags", tag, TAG_BYTES)
        object.__setattr__(self, "tags", tags)

    def _check_numbers(self) -> None:
        position, confidence = self.position, self.confidence
        if position is not None and (
            isinstance(position, bool) or not isinstance(position, int) or not 0 <= position < 1 << 62
        ):
            raise InvalidRequest(f"position {position!r} must be a whole number from 0 up.", field="position")
        if confidence is not None and (
            isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 <= confidence <= 1
        ):
            raise InvalidRequest(f"confidence {confidence!r} must be a number from 0 to 1.", field="confidence")
        if self.layer is not None and self.layer not in LAYERS:
            raise InvalidRequest(f"layer {self.layer!r} is not one of {', '.join(LAYERS)}.", field="layer")

    def _check_meta(self) -> None:
        if not isinstance(self.meta, Mapping):
            raise InvalidRequest(f"meta must be a JSON object, not {type(self.meta).__name__}.", field="meta")
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
    """

    address: Address
    outcome: str


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


@attrs.frozen
class QueryTerms:
    """A query after analysis.

    Attributes:
        terms: distinct analysed terms, quoted ones first, then by position.
        units: the terms that count as matched units for the compatible policy: words of alphabetic scripts and, for a
            Han run, its distinct characters that are not stop characters; n-grams are not units.
        quoted: terms that come from quoted phrases.
        total: number of distinct terms before any cap.
    """

    terms: tuple[str, ...]
    units: frozenset[str]
    quoted: frozenset[str]
    total: int


@attrs.frozen(kw_only=True)
class LexicalStatistics:
    """Corpus statistics of one partition, over its current items.

    Attributes:
        items: number of items.
        mean_length: mean number of analysed terms in an item, 0 when empty.
        document_frequency: for every query term that occurs, the number of items that hold it.
    """

    items: int
    mean_length: float
    document_frequency: Mapping[str, int]


@attrs.frozen
class LexicalHit:
    """A member of the lexical channel: which query terms it holds, how often, and its length in terms.

    The artifact id breaks ties in rank, before any details are fetched.
    """

    key: Key
    artifact_id: str
    matched: Mapping[str, int]
    length: int


@attrs.frozen(kw_only=True)
class EmbeddingProfile:
    """What must be known of a model to use and compare its vectors.

    Attributes:
        fingerprint: identifies model, version and preparation of text; vectors of different fingerprints never meet.
        dimensions: length of a vector.
        languages: ISO 639-1 codes that it was measured to serve; the vector channel has no weight for others.
        noise: 95th percentile of the cosines of unrelated pairs.
        match: median cosine of relevant pairs.
    """

    fingerprint: str
    dimensions: int
    languages: tuple[str, ...]
    noise: float
    match: float

    def relevance(self, cosine: float) -> float:
        """Return *cosine* on the scale between the anchors: 0 is noise, 1 is a typical match."""
        return min(1.0, max(0.0, (cosine - self.noise) / (self.match - self.noise)))


@attrs.frozen(kw_only=True)
class RawCandidate:
    """A pool member before admission.

    Attributes:
        matched: query term -> occurrences in the item's analysed text; empty when it holds none.
        length: analysed terms in the item.
        cosine: with the query vector, -1..1; ``None`` when there is no vector.
        abstract: the stored (or derived) abstract.
        head: the first at most 4096 UTF-8 bytes of the body, cut at a character boundary.
        body_bytes: length of the whole body, so ``head`` is all of it when they agree.
        evidence: the family's own identity fields, if it declares any.
    """

    address: Address
    length: int
    matched: Mapping[str, int] = _EMPTY
    cosine: float | None = None
    kind: str = "item"
    category: str | None = None
    title: str | None = None
    abstract: str | None = None
    head: str
    body_bytes: int
    overview_bytes: int = 0
    tags: tuple[str, ...] = ()
    created_at: datetime
    updated_at: datetime
    event_time: datetime | None = None
    thread: str | None = None
    position: int | None = None
    confidence: float | None = None
    layer: str | None = None
    origin: str | None = None
    metadata: Mapping[str, Any] = _EMPTY
    evidence: Mapping[str, Any] = _EMPTY


@attrs.frozen(kw_only=True)
class Pool:
    """What one family returned for one scope, every channel, before admission.

    Attributes:
        channels: channel name (``fts``, ``vector``, ``neighbour``) -> member keys; order has no meaning.
        candidates: details of every member.
        neighbours: for each member of ``neighbour``, the members that brought it.
        profile: of the vectors behind the cosines, when there are any.
        mode: what really ran: ``fts``, ``vector``, ``hybrid``, ``snapshot`` or ``none``.
        late: channels that did not answer in time.
    """

    family: str
    scope_id: str
    channels: Mapping[str, tuple[Key, ...]]
    candidates: Mapping[Key, RawCandidate]
    statistics: LexicalStatistics
    mode: str
    terms: tuple[str, ...] = ()
    query_vector: bytes | None = None
    profile: EmbeddingProfile | None = None
    neighbours: Mapping[Key, tuple[Key, ...]] = _EMPTY
    late: frozenset[str] = frozenset()


@attrs.frozen(kw_only=True)
class AdmissionFloor:
    """What a member must reach to be admitted; each policy uses the fields that it defines.

    Attributes:
        coverage: least share of distinct query units matched (0..1).
        matched: least number of matched units when the query has more than two.
        cosine: least raw cosine of a vector member.
        idf_mass: least share of the idf mass of the query's occurring terms; ``None`` where counts decide.
        relevance: a member found by vector alone needs relevance above this; ``None`` where the cosine decides.
    """

    coverage: float = 0.0
    matched: int = 1
    cosine: float | None = None
    idf_mass: float | None = None
    relevance: float | None = None


@attrs.frozen(kw_only=True)
class AdmissionCounts:
    """Per searchable family, scope and round: pool members before, and members after admission, over all channels."""

    family: str
    scope_id: str
    retrieved: int
    admitted: int


@attrs.frozen(kw_only=True)
class Admission:
    """The admitted members per channel, best first, with each member's raw channel score.

    Attributes:
        ranked: channel -> ``(key, score)`` in rank order.
        counts: what was retrieved and admitted.
    """

    ranked: Mapping[str, tuple[tuple[Key, float], ...]]
    counts: AdmissionCounts


@attrs.frozen(kw_only=True)
class Hit:
    """An admitted, fused pool member.

    Attributes:
        score: fused, 0..1, comparable inside one call.
        match: evidence strength 0..1, independent of rank and pool.
        channels: channels that admitted it.
    """

    candidate: RawCandidate
    score: float
    match: float
    channels: tuple[str, ...]
    relevance: float | None = None

    @property
    def address(self) -> Address:
        """The candidate's address."""
        return self.candidate.address


@attrs.frozen(kw_only=True)
class Candidate:
    """What competes for the budget: an address and the text that may be shown.

    Attributes:
        text: the body, or its head when *body_bytes* says that there is more.
        body_bytes: UTF-8 length of the whole body.
        score: fused score, higher is better.
        evidence: the family's own identity fields, if it declares any.
    """

    address: Address
    text: str
    body_bytes: int
    score: float
    hit: Hit | None = None
    evidence: Mapping[str, Any] = _EMPTY


@attrs.frozen
class Deadline:
    """A moment on the monotonic clock after which nobody waits any more; ``None`` is never.

    Attributes:
        at: seconds of :func:`time.monotonic`.
    """

    at: float | None = None

    @classmethod
    def after(cls, seconds: float | None) -> Self:
        """Return the deadline *seconds* from now, or none."""
        return cls(None if seconds is None else time.monotonic() + seconds)

    def remaining(self) -> float | None:
        """Return the seconds left, at least 0, or ``None`` without a deadline."""
        return None if self.at is None else max(0.0, self.at - time.monotonic())

    @property
    def passed(self) -> bool:
        """Whether the moment is over."""
        return self.at is not None and time.monotonic() >= self.at
