"""What the other parts of a deployment offer, and what a call hands to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import attrs

from powerctx_core.ports.storage import Snapshot, VectorIndex
from powerctx_core.types import (
    Admission,
    AdmissionFloor,
    Candidate,
    Deadline,
    EmbeddingProfile,
    Filters,
    Partition,
    Pool,
    QueryTerms,
    RawCandidate,
    Searched,
    Session,
)

__all__ = [
    "AdmissionRule",
    "Call",
    "EmbedRequest",
    "Embedder",
    "Family",
    "Offered",
    "Provider",
    "ProviderRequest",
    "Renderer",
    "RetrievalRequest",
    "SearchingFamily",
    "Selection",
    "Sink",
    "TokenEstimator",
]


def _read_only(weights: Mapping[str, float]) -> Mapping[str, float]:
    return MappingProxyType(dict(weights))


@attrs.frozen(kw_only=True)
class RetrievalRequest:
    """One retrieval of one family in one scope.

    Attributes:
        query: the text as given.
        terms: its analysis.
        k: pool size per channel.
        neighbours: number of ranked members whose thread neighbours are wanted as a channel; 0 for none.
        weights: channel -> weight, read-only; a channel without weight is not asked for.
        vector: of the query, as an earlier round of this call left it in ``Pool.query_vector``: nothing has to be
            embedded again.
    """

    query: str
    terms: QueryTerms
    partition: Partition
    k: int
    filters: Filters = Filters()
    neighbours: int = 0
    weights: Mapping[str, float] = attrs.field(factory=lambda: {"fts": 1.0}, converter=_read_only)
    vector: bytes | None = attrs.field(default=None, repr=False)


@attrs.frozen(kw_only=True)
class Call:
    """What one worker of one call may use.

    Attributes:
        deadline: when to stop; nobody waits for the answer much longer, and a ``TimeoutError`` or ``StoreError`` from
            then on means late, not failed.
        catalogue: the snapshot that all reads of this worker share.
        vectors: the vector index, when the store has one and an embedder is open.
        embed: returns the vector of a text, or ``None`` when there is none in time; each text is embedded once.
        profile: of the vectors.
        offer: takes a pool of whole channels that is ready while others are still waited for; the last one offered
            counts when ``retrieve`` does not return by the deadline, or is stopped then, and is checked as a returned
            one.
    """

    deadline: Deadline
    catalogue: Snapshot
    vectors: VectorIndex | None = None
    embed: Callable[[str], bytes | None] = attrs.field(default=lambda _: None)
    profile: EmbeddingProfile | None = None
    offer: Callable[[Pool], None] = attrs.field(default=lambda _: None)


@runtime_checkable
class Family(Protocol):
    """Retrieval of one kind of evidence."""

    def retrieve(self, request: RetrievalRequest, call: Call) -> Pool:
        """Return the pool of one scope before admission.

        Called on any thread, for several calls at once; may block until ``call.deadline``.  Every member must belong
        to ``request.partition``, and a channel has at most ``request.k`` members, ``neighbour`` at most two for each
        of ``request.neighbours``.  What breaks this makes the family's outcome ``invalid``.  A search whose request
        leaves out what a pool holds asks again, at most twice, with a larger ``k`` and all else equal.
        """


@runtime_checkable
class SearchingFamily(Protocol):
    """Retrieval of one kind of evidence whose engine can only admit by itself; it has no ``retrieve``."""

    def search(self, request: RetrievalRequest, floor: AdmissionFloor, call: Call) -> Searched:
        """Return what reaches *floor* in one scope; called as ``Family.retrieve`` is, once a scope and round.

        A lower floor is asked for only when the gate wants more: at most twice, with the same limits, and with the
        query's vector of the first round.  What it lets in must hold all that the higher one let in.  A larger
        ``request.k`` is asked for as of ``Family.retrieve``, with that vector, too.
        """


@attrs.frozen(kw_only=True)
class EmbedRequest:
    """Texts to embed.

    Attributes:
        purpose: ``query`` or ``document``; some models prepare them differently.
        deadline: when to stop; remote embedders map it to their timeouts.
    """

    texts: tuple[str, ...]
    purpose: str = attrs.field(default="document", validator=attrs.validators.in_(("query", "document")))
    deadline: Deadline = Deadline()


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors."""

    @property
    def profile(self) -> EmbeddingProfile:
        """The model's profile; cheap, does not load the model."""

    def embed(self, request: EmbedRequest) -> Sequence[bytes]:
        """Return one unit-length vector a text, in order, as little-endian float32 bytes.

        A text without any content the model knows gives a vector of zeros, which is never stored or searched with.
        Called on any thread, for several callers at once.

        Raises:
            TimeoutError: the request's deadline has passed; before anything is loaded, if it had passed before.
        """


@runtime_checkable
class AdmissionRule(Protocol):
    """Filters a pool by a floor and counts."""

    def admit(self, pool: Pool, query: QueryTerms, floor: AdmissionFloor) -> Admission:
        """Return the admitted members; pure, no I/O."""


@runtime_checkable
class TokenEstimator(Protocol):
    """Prices text in tokens."""

    def cost(self, text: str) -> float:
        """Return the unrounded cost of *text*; sums over newline-ended pieces are rounded up once."""


@attrs.frozen(kw_only=True)
class Selection:
    """What a renderer may know of the whole pack.

    Attributes:
        scope_id: the request's current scope; citations name a scope only when it differs.
        show: what to show of each entry beside its identity, ``confidence``, ``recall_rank`` or ``score``, where it is
            known.
        titles: family -> its title, for headings.
        envelope: whether the text stands in an envelope of the renderer's own; the caller has one otherwise.
    """

    scope_id: str
    show: tuple[str, ...] = ()
    titles: Mapping[str, str] = attrs.field(factory=dict)
    envelope: bool = True


@runtime_checkable
class Renderer(Protocol):
    """Turns selected candidates into pieces of text, each ending in a newline; core joins and measures them.

    One that also has a method ``group(family, selection)`` is asked for a heading wherever the family changes.
    """

    def open(self, selection: Selection) -> str:
        """Return the text before the first entry."""

    def entry(self, candidate: Candidate, ordinal: int, selection: Selection, *, cut: bool) -> tuple[str, str]:
        """Return what stands before and after the escaped text of one entry.

        The lengths may depend on the candidate and *cut*, not on *ordinal*'s neighbours.
        """

    def escape(self, text: str) -> str:
        """Return *text* made harmless, character by character, so that escapes of parts join to that of the whole."""

    def close(self, selection: Selection) -> str:
        """Return the text after the last entry."""


def _no_counts() -> Mapping[str, int]:
    return {}


def _no_session() -> Session | None:
    return None


@attrs.frozen(kw_only=True)
class ProviderRequest:
    """What a provider is asked for.

    Attributes:
        mode: of the search: ``bootstrap``, or the provider's own name.
        lifecycle: why an agent asks: ``startup``, ``resume``, ``compact`` or ``clear``.
        now: when the call began.
        max_tokens: of the whole pack: more is of no use.
        query: of a search in the provider's own mode, where it has one.
        actor, peer_scope: as of ``SearchRequest``.
        counts: family -> current items of the scope; read once a call, by who asks first.
        session: the log of the session, where there is one; read once a call, by who asks first.
    """

    scope_id: str
    mode: str
    lifecycle: str
    now: datetime
    max_tokens: int
    query: str | None = None
    session_id: str | None = None
    actor: str | None = None
    peer_scope: str = "all"
    counts: Callable[[], Mapping[str, int]] = _no_counts
    session: Callable[[], Session | None] = _no_session


@attrs.frozen(kw_only=True)
class Offered:
    """What a provider has.

    Attributes:
        candidates: best first.
        detail: the most that is shown of each: ``abstract``, ``overview`` or ``full``.
        whole: each is shown whole or not at all.
        among: family -> items that the candidates are the best of; the pack says how many of them it does not show.
    """

    candidates: Sequence[RawCandidate] = ()
    detail: str = attrs.field(default="full", validator=attrs.validators.in_(("abstract", "overview", "full")))
    whole: bool = False
    among: Mapping[str, int] = attrs.field(factory=dict)


@runtime_checkable
class Provider(Protocol):
    """Offers candidates to the assembler, for a slot of the bootstrap manifest or for a search in a mode of its own."""

    def candidates(self, request: ProviderRequest, call: Call) -> Offered:
        """Return what there is, best first; nothing is an empty :class:`Offered`.

        Called on any thread, for several calls at once; may block until ``call.deadline``, and reads through
        ``call.catalogue``.  Candidates belong to ``request.scope_id``.
        """


@runtime_checkable
class Sink(Protocol):
    """Observes finished calls; a failure is logged once and ignored."""

    def observe(self, event: Any) -> None:
        """Take note of *event*; return promptly."""
