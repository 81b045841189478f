"""What travels through recall: terms, pools, admissions, hits, candidates."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Self

import attrs

from powerctx_core.errors import InvalidRequest
from powerctx_core.types.address import Address, Key

__all__ = [
    "HEAD_BYTES",
    "QUERY_TERMS",
    "SHOWN",
    "Admission",
    "AdmissionCounts",
    "AdmissionFloor",
    "Candidate",
    "Deadline",
    "EmbeddingProfile",
    "Hit",
    "LexicalHit",
    "LexicalStatistics",
    "Pool",
    "QueryTerms",
    "RawCandidate",
    "Searched",
]

HEAD_BYTES = 4096
"""Length of the body's head that travels with a candidate, UTF-8 bytes."""
QUERY_TERMS = 64
"""Most distinct query terms used anywhere: in retrieval, coverage and overlap."""
SHOWN = ("confidence", "recall_rank", "score")
"""What a request can have shown of an entry beside its identity and text."""

_EMPTY: Mapping[Any, Any] = MappingProxyType({})
_UNKNOWN_TIME = datetime(1970, 1, 1, tzinfo=UTC)


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

    The artifact id breaks ties in rank, before any details are fetched.  An item that is not *threaded* has no
    neighbours to ask for.
    """

    key: Key
    artifact_id: str
    matched: Mapping[str, int]
    length: int
    threaded: bool = True


@attrs.frozen(kw_only=True)
class EmbeddingProfile:
    """What must be known of a model to use and compare its vectors.

    Attributes:
        fingerprint: identifies model, version and preparation of text; vectors of different fingerprints never meet.
        dimensions: length of a vector.
        languages: ISO 639-1 codes that it was measured to serve; the vector channel has no weight for others.
        noise: 95th percentile of the cosines of unrelated pairs.
        match: median cosine of relevant pairs.
        weight: of the vector channel beside words, whose weight is 1, under score fusion.
    """

    fingerprint: str
    dimensions: int
    languages: tuple[str, ...]
    noise: float
    match: float
    weight: float = 0.3

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

    @classmethod
    def of(cls, address: Address, text: str, **fields: Any) -> Self:
        """Return what a provider offers that no store keeps, with all of its text; *fields* are further attributes.

        Of ``kind="note"`` it is nothing that could be read or cited, and is shown as its text alone.
        """
        times = {"created_at": _UNKNOWN_TIME, "updated_at": _UNKNOWN_TIME}
        size = len(text.encode(errors="surrogatepass"))
        return cls(**{**times, "address": address, "length": 0, "head": text, "body_bytes": size, **fields})


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


def _between(low: float, high: float) -> Callable[[object, attrs.Attribute[Any], Any], None]:
    """Return a validator of a number of a floor; ``None`` asks for nothing."""

    def check(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value is not None and not low <= value <= high:
            raise InvalidRequest(
                f"{attribute.name} is {value:g}; {low:g} to {high:g} are allowed.", field=attribute.name
            )

    return check


@attrs.frozen(kw_only=True)
class Searched:
    """What a family that admits inside its engine found for one scope at one floor.

    Attributes:
        pool: what the floor let in, in every channel, and nothing else.
        retrieved: members that the engine weighed, over all channels, admitted or not: at least those of *pool*.
        embeddings, generation_calls: texts embedded and texts generated for this search, beside ``call.embed``.
    """

    pool: Pool
    retrieved: int
    embeddings: int = 0
    generation_calls: int = 0


@attrs.frozen(kw_only=True)
class AdmissionFloor:
    """What a member must reach to be admitted; each policy uses the fields that it defines.

    Attributes:
        coverage: least share of distinct query units matched (0..1).
        matched: least number of matched units when the query has more than two.
        cosine: least raw cosine of a vector member.
        idf_mass: least share of the idf mass of the query's occurring terms; ``None`` where counts decide.
        relevance: a member found by vector alone needs relevance above this; ``None`` where the cosine decides.

    Raises:
        InvalidRequest: a value is outside its range; *field* names it.
    """

    coverage: float = attrs.field(default=0.0, validator=_between(0, 1))
    matched: int = attrs.field(default=1, validator=_between(1, QUERY_TERMS))
    cosine: float | None = attrs.field(default=None, validator=_between(-1, 1))
    idf_mass: float | None = attrs.field(default=None, validator=_between(0, 1))
    relevance: float | None = attrs.field(default=None, validator=_between(0, 1))


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
        shares: key -> share of the query's idf mass that the member holds, where the rule has computed it.
    """

    ranked: Mapping[str, tuple[tuple[Key, float], ...]]
    counts: AdmissionCounts
    shares: Mapping[Key, float] = _EMPTY


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

    @property
    def text(self) -> str:
        """The candidate's body, or its head when there is more of it."""
        return self.candidate.head

    @property
    def evidence(self) -> Mapping[str, Any]:
        """The family's own identity fields, if it declares any."""
        return self.candidate.evidence


@attrs.frozen(kw_only=True)
class Candidate:
    """What competes for the budget: an address and the text that may be shown.

    Attributes:
        text: the body, or its head when *body_bytes* says that there is more.
        body_bytes: UTF-8 length of the whole body.
        score: fused score, higher is better.
        evidence: the family's own identity fields, if it declares any.
        rank: its place among what was recalled of its family, from 1; known when a request wants it shown.
        detail: what *text* is, where a pack has tiers: ``uri``, ``abstract``, ``overview`` or ``full``.
    """

    address: Address
    text: str
    body_bytes: int
    score: float
    title: str | None = None
    hit: Hit | None = None
    evidence: Mapping[str, Any] = _EMPTY
    rank: int | None = None
    detail: str | None = None
