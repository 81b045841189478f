"""Protocols that the parts of a deployment satisfy.

Parts are synchronous and are called from several threads at once unless a docstring says otherwise.  Methods take
values and return values; an argument list never grows, the values do.
"""

from powerctx_core.ports.parts import (
    AdmissionRule,
    Call,
    Embedder,
    EmbedRequest,
    Family,
    Provider,
    Renderer,
    RetrievalRequest,
    SearchingFamily,
    Selection,
    Sink,
    TokenEstimator,
)
from powerctx_core.ports.state import Ledger, Recording, Sessions, SessionStore
from powerctx_core.ports.storage import (
    Capability,
    Catalogue,
    CountingStore,
    FetchRequest,
    LexicalRequest,
    LexicalResult,
    ListingRequest,
    NearestRequest,
    NeighbourRequest,
    Snapshot,
    Store,
    StoreStatus,
    Unembedded,
    Usage,
    VectorIndex,
)

__all__ = [
    "AdmissionRule",
    "Call",
    "Capability",
    "Catalogue",
    "CountingStore",
    "EmbedRequest",
    "Embedder",
    "Family",
    "FetchRequest",
    "Ledger",
    "LexicalRequest",
    "LexicalResult",
    "ListingRequest",
    "NearestRequest",
    "NeighbourRequest",
    "Provider",
    "Recording",
    "Renderer",
    "RetrievalRequest",
    "SearchingFamily",
    "Selection",
    "SessionStore",
    "Sessions",
    "Sink",
    "Snapshot",
    "Store",
    "StoreStatus",
    "TokenEstimator",
    "Unembedded",
    "Usage",
    "VectorIndex",
]
