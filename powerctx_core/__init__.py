"""Data in, context out: stored knowledge becomes relevant, bounded, cited context for a language-model agent.

Everything public is here; each name is imported when it is first used, so that the command line is up at once and a
plugin pays for what it needs only.
"""

import importlib

TYPE_CHECKING = False  # as in typing, which would be most of the time that this import takes
if TYPE_CHECKING:
    from powerctx_core.context import (
        Context as Context,
    )
    from powerctx_core.errors import (
        CapabilityError as CapabilityError,
        ConfigError as ConfigError,
        InvalidRequest as InvalidRequest,
        NotFound as NotFound,
        PlanInvariantError as PlanInvariantError,
        PluginError as PluginError,
        PoolInvariantError as PoolInvariantError,
        PowerctxError as PowerctxError,
        StoreError as StoreError,
        StoreUnavailable as StoreUnavailable,
        redacted_url as redacted_url,
    )
    from powerctx_core.explanation import (
        ExplainedCandidate as ExplainedCandidate,
        ExplainedRound as ExplainedRound,
        Explanation as Explanation,
    )
    from powerctx_core.hookspecs import (
        hookimpl as hookimpl,
    )
    from powerctx_core.memory_store import (
        MemoryStore as MemoryStore,
    )
    from powerctx_core.opening import (
        open as open,
    )
    from powerctx_core.ports import (
        AdmissionRule as AdmissionRule,
        Call as Call,
        Capability as Capability,
        Catalogue as Catalogue,
        CountingStore as CountingStore,
        Embedder as Embedder,
        EmbedRequest as EmbedRequest,
        Family as Family,
        FetchRequest as FetchRequest,
        JoinedListings as JoinedListings,
        Ledger as Ledger,
        LexicalRequest as LexicalRequest,
        LexicalResult as LexicalResult,
        ListingRequest as ListingRequest,
        NearestRequest as NearestRequest,
        NeighbourRequest as NeighbourRequest,
        Offered as Offered,
        Provider as Provider,
        ProviderRequest as ProviderRequest,
        Recording as Recording,
        Renderer as Renderer,
        RetrievalRequest as RetrievalRequest,
        SearchingFamily as SearchingFamily,
        Selection as Selection,
        Sessions as Sessions,
        SessionStore as SessionStore,
        Sink as Sink,
        Snapshot as Snapshot,
        Store as Store,
        StoreStatus as StoreStatus,
        TokenEstimator as TokenEstimator,
        Unembedded as Unembedded,
        Usage as Usage,
        VectorIndex as VectorIndex,
    )
    from powerctx_core.receipt.v1 import (
        ReceiptV1 as ReceiptV1,
    )
    from powerctx_core.receipt.v2 import (
        ReceiptV2 as ReceiptV2,
    )
    from powerctx_core.records import (
        AdmissionSpec as AdmissionSpec,
        CommandSpec as CommandSpec,
        EmbedderSpec as EmbedderSpec,
        FamilySpec as FamilySpec,
        NoSettings as NoSettings,
        ProviderSpec as ProviderSpec,
        RendererSpec as RendererSpec,
        SinkSpec as SinkSpec,
        StoreSpec as StoreSpec,
        TokenEstimatorSpec as TokenEstimatorSpec,
    )
    from powerctx_core.requests import (
        ContextPack as ContextPack,
        Diagnostics as Diagnostics,
        FindRequest as FindRequest,
        Found as Found,
        PackEntry as PackEntry,
        PreparedContext as PreparedContext,
        PrepareRequest as PrepareRequest,
        SearchRequest as SearchRequest,
        SearchStats as SearchStats,
        SelectedItem as SelectedItem,
    )
    from powerctx_core.types import (
        Address as Address,
        Admission as Admission,
        AdmissionCounts as AdmissionCounts,
        AdmissionFloor as AdmissionFloor,
        Candidate as Candidate,
        Deadline as Deadline,
        Delivered as Delivered,
        EmbeddingProfile as EmbeddingProfile,
        Filters as Filters,
        Hit as Hit,
        Item as Item,
        ItemValue as ItemValue,
        Key as Key,
        LexicalHit as LexicalHit,
        LexicalStatistics as LexicalStatistics,
        Message as Message,
        Partition as Partition,
        Pool as Pool,
        PutResult as PutResult,
        QueryTerms as QueryTerms,
        RawCandidate as RawCandidate,
        Readable as Readable,
        RecallEffort as RecallEffort,
        Revision as Revision,
        Searched as Searched,
        Section as Section,
        Session as Session,
        SessionKey as SessionKey,
        Signals as Signals,
        ToolList as ToolList,
        Trimming as Trimming,
        derived_artifact_id as derived_artifact_id,
        parse_uri as parse_uri,
    )

_MODULES = {
    "context": ("Context",),
    "errors": (
        "CapabilityError",
        "ConfigError",
        "InvalidRequest",
        "NotFound",
        "PlanInvariantError",
        "PluginError",
        "PoolInvariantError",
        "PowerctxError",
        "StoreError",
        "StoreUnavailable",
        "redacted_url",
    ),
    "explanation": ("ExplainedCandidate", "ExplainedRound", "Explanation"),
    "hookspecs": ("hookimpl",),
    "memory_store": ("MemoryStore",),
    "opening": ("open",),
    "ports": (
        "AdmissionRule",
        "Call",
        "Capability",
        "Catalogue",
        "CountingStore",
        "EmbedRequest",
        "Embedder",
        "Family",
        "FetchRequest",
        "JoinedListings",
        "Ledger",
        "LexicalRequest",
        "LexicalResult",
        "ListingRequest",
        "NearestRequest",
        "NeighbourRequest",
        "Offered",
        "Provider",
        "ProviderRequest",
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
    ),
    "receipt.v1": ("ReceiptV1",),
    "receipt.v2": ("ReceiptV2",),
    "records": (
        "AdmissionSpec",
        "CommandSpec",
        "EmbedderSpec",
        "FamilySpec",
        "NoSettings",
        "ProviderSpec",
        "RendererSpec",
        "SinkSpec",
        "StoreSpec",
        "TokenEstimatorSpec",
    ),
    "requests": (
        "ContextPack",
        "Diagnostics",
        "FindRequest",
        "Found",
        "PackEntry",
        "PrepareRequest",
        "PreparedContext",
        "SearchRequest",
        "SearchStats",
        "SelectedItem",
    ),
    "types": (
        "Address",
        "Admission",
        "AdmissionCounts",
        "AdmissionFloor",
        "Candidate",
        "Deadline",
        "Delivered",
        "EmbeddingProfile",
        "Filters",
        "Hit",
        "Item",
        "ItemValue",
        "Key",
        "LexicalHit",
        "LexicalStatistics",
        "Message",
        "Partition",
        "Pool",
        "PutResult",
        "QueryTerms",
        "RawCandidate",
        "Searched",
        "Readable",
        "RecallEffort",
        "Revision",
        "Section",
        "Session",
        "SessionKey",
        "Signals",
        "ToolList",
        "Trimming",
        "derived_artifact_id",
        "parse_uri",
    ),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_HOME)  # noqa: PLE0605 - a list, of the names above


def __getattr__(name: str) -> object:
    if (module := _HOME.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
