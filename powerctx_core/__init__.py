"""Data in, context out: stored knowledge becomes relevant, bounded, cited context for a language-model agent.

Everything public is re-exported here; nothing heavy is imported.
"""

from typing import TYPE_CHECKING, Any

from powerctx_core.errors import (
    CapabilityError,
    ConfigError,
    InvalidRequest,
    NotFound,
    PlanInvariantError,
    PluginError,
    PoolInvariantError,
    PowerctxError,
    StoreError,
    StoreUnavailable,
    redacted_url,
)
from powerctx_core.hookspecs import hookimpl
from powerctx_core.ports import (
    AdmissionRule,
    Call,
    Capability,
    Catalogue,
    Embedder,
    EmbedRequest,
    Family,
    FetchRequest,
    LexicalRequest,
    LexicalResult,
    ListingRequest,
    NearestRequest,
    NeighbourRequest,
    Provider,
    Renderer,
    RetrievalRequest,
    Selection,
    Sink,
    Snapshot,
    Store,
    StoreStatus,
    TokenEstimator,
    Unembedded,
    VectorIndex,
)
from powerctx_core.records import (
    AdmissionSpec,
    CommandSpec,
    EmbedderSpec,
    FamilySpec,
    NoSettings,
    ProviderSpec,
    RendererSpec,
    SinkSpec,
    StoreSpec,
    TokenEstimatorSpec,
)
from powerctx_core.requests import (
    Diagnostics,
    FindRequest,
    Found,
    PreparedContext,
    PrepareRequest,
    SelectedItem,
)
from powerctx_core.types import (
    Address,
    Admission,
    AdmissionCounts,
    AdmissionFloor,
    Candidate,
    Deadline,
    EmbeddingProfile,
    Filters,
    Hit,
    Item,
    Key,
    LexicalHit,
    LexicalStatistics,
    Partition,
    Pool,
    PutResult,
    QueryTerms,
    RawCandidate,
    Revision,
    derived_artifact_id,
    parse_uri,
)

if TYPE_CHECKING:
    from powerctx_core.context import Context, open
    from powerctx_core.memory_store import MemoryStore

__all__ = [
    "Address",
    "Admission",
    "AdmissionCounts",
    "AdmissionFloor",
    "AdmissionRule",
    "AdmissionSpec",
    "Call",
    "Candidate",
    "Capability",
    "CapabilityError",
    "Catalogue",
    "CommandSpec",
    "ConfigError",
    "Context",
    "Deadline",
    "Diagnostics",
    "EmbedRequest",
    "Embedder",
    "EmbedderSpec",
    "EmbeddingProfile",
    "Family",
    "FamilySpec",
    "FetchRequest",
    "Filters",
    "FindRequest",
    "Found",
    "Hit",
    "InvalidRequest",
    "Item",
    "Key",
    "LexicalHit",
    "LexicalRequest",
    "LexicalResult",
    "LexicalStatistics",
    "ListingRequest",
    "MemoryStore",
    "NearestRequest",
    "NeighbourRequest",
    "NoSettings",
    "NotFound",
    "Partition",
    "PlanInvariantError",
    "PluginError",
    "Pool",
    "PoolInvariantError",
    "PowerctxError",
    "PrepareRequest",
    "PreparedContext",
    "Provider",
    "ProviderSpec",
    "PutResult",
    "QueryTerms",
    "RawCandidate",
    "Renderer",
    "RendererSpec",
    "RetrievalRequest",
    "Revision",
    "SelectedItem",
    "Selection",
    "Sink",
    "SinkSpec",
    "Snapshot",
    "Store",
    "StoreError",
    "StoreSpec",
    "StoreStatus",
    "StoreUnavailable",
    "TokenEstimator",
    "TokenEstimatorSpec",
    "Unembedded",
    "VectorIndex",
    "derived_artifact_id",
    "hookimpl",
    "open",
    "parse_uri",
    "redacted_url",
]


def __getattr__(name: str) -> Any:
    # A plugin module needs records and values only; what lies behind these costs as much again.
    if name in {"Context", "open"}:
        from powerctx_core import context

        return getattr(context, name)
    if name == "MemoryStore":
        from powerctx_core.memory_store import MemoryStore

        return MemoryStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
