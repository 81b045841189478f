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
    from powerctx_core.context import (
        open as open,
    )
    from powerctx_core.errors import (
        CapabilityError as CapabilityError,
    )
    from powerctx_core.errors import (
        ConfigError as ConfigError,
    )
    from powerctx_core.errors import (
        InvalidRequest as InvalidRequest,
    )
    from powerctx_core.errors import (
        NotFound as NotFound,
    )
    from powerctx_core.errors import (
        PlanInvariantError as PlanInvariantError,
    )
    from powerctx_core.errors import (
        PluginError as PluginError,
    )
    from powerctx_core.errors import (
        PoolInvariantError as PoolInvariantError,
    )
    from powerctx_core.errors import (
        PowerctxError as PowerctxError,
    )
    from powerctx_core.errors import (
        StoreError as StoreError,
    )
    from powerctx_core.errors import (
        StoreUnavailable as StoreUnavailable,
    )
    from powerctx_core.errors import (
        redacted_url as redacted_url,
    )
    from powerctx_core.hookspecs import (
        hookimpl as hookimpl,
    )
    from powerctx_core.memory_store import (
        MemoryStore as MemoryStore,
    )
    from powerctx_core.ports import (
        AdmissionRule as AdmissionRule,
    )
    from powerctx_core.ports import (
        Call as Call,
    )
    from powerctx_core.ports import (
        Capability as Capability,
    )
    from powerctx_core.ports import (
        Catalogue as Catalogue,
    )
    from powerctx_core.ports import (
        Embedder as Embedder,
    )
    from powerctx_core.ports import (
        EmbedRequest as EmbedRequest,
    )
    from powerctx_core.ports import (
        Family as Family,
    )
    from powerctx_core.ports import (
        FetchRequest as FetchRequest,
    )
    from powerctx_core.ports import (
        LexicalRequest as LexicalRequest,
    )
    from powerctx_core.ports import (
        LexicalResult as LexicalResult,
    )
    from powerctx_core.ports import (
        ListingRequest as ListingRequest,
    )
    from powerctx_core.ports import (
        NearestRequest as NearestRequest,
    )
    from powerctx_core.ports import (
        NeighbourRequest as NeighbourRequest,
    )
    from powerctx_core.ports import (
        Provider as Provider,
    )
    from powerctx_core.ports import (
        Renderer as Renderer,
    )
    from powerctx_core.ports import (
        RetrievalRequest as RetrievalRequest,
    )
    from powerctx_core.ports import (
        Selection as Selection,
    )
    from powerctx_core.ports import (
        Sink as Sink,
    )
    from powerctx_core.ports import (
        Snapshot as Snapshot,
    )
    from powerctx_core.ports import (
        Store as Store,
    )
    from powerctx_core.ports import (
        StoreStatus as StoreStatus,
    )
    from powerctx_core.ports import (
        TokenEstimator as TokenEstimator,
    )
    from powerctx_core.ports import (
        Unembedded as Unembedded,
    )
    from powerctx_core.ports import (
        VectorIndex as VectorIndex,
    )
    from powerctx_core.records import (
        AdmissionSpec as AdmissionSpec,
    )
    from powerctx_core.records import (
        CommandSpec as CommandSpec,
    )
    from powerctx_core.records import (
        EmbedderSpec as EmbedderSpec,
    )
    from powerctx_core.records import (
        FamilySpec as FamilySpec,
    )
    from powerctx_core.records import (
        NoSettings as NoSettings,
    )
    from powerctx_core.records import (
        ProviderSpec as ProviderSpec,
    )
    from powerctx_core.records import (
        RendererSpec as RendererSpec,
    )
    from powerctx_core.records import (
        SinkSpec as SinkSpec,
    )
    from powerctx_core.records import (
        StoreSpec as StoreSpec,
    )
    from powerctx_core.records import (
        TokenEstimatorSpec as TokenEstimatorSpec,
    )
    from powerctx_core.requests import (
        Diagnostics as Diagnostics,
    )
    from powerctx_core.requests import (
        FindRequest as FindRequest,
    )
    from powerctx_core.requests import (
        Found as Found,
    )
    from powerctx_core.requests import (
        PreparedContext as PreparedContext,
    )
    from powerctx_core.requests import (
        PrepareRequest as PrepareRequest,
    )
    from powerctx_core.requests import (
        SelectedItem as SelectedItem,
    )
    from powerctx_core.types import (
        Address as Address,
    )
    from powerctx_core.types import (
        Admission as Admission,
    )
    from powerctx_core.types import (
        AdmissionCounts as AdmissionCounts,
    )
    from powerctx_core.types import (
        AdmissionFloor as AdmissionFloor,
    )
    from powerctx_core.types import (
        Candidate as Candidate,
    )
    from powerctx_core.types import (
        Deadline as Deadline,
    )
    from powerctx_core.types import (
        EmbeddingProfile as EmbeddingProfile,
    )
    from powerctx_core.types import (
        Filters as Filters,
    )
    from powerctx_core.types import (
        Hit as Hit,
    )
    from powerctx_core.types import (
        Item as Item,
    )
    from powerctx_core.types import (
        Key as Key,
    )
    from powerctx_core.types import (
        LexicalHit as LexicalHit,
    )
    from powerctx_core.types import (
        LexicalStatistics as LexicalStatistics,
    )
    from powerctx_core.types import (
        Partition as Partition,
    )
    from powerctx_core.types import (
        Pool as Pool,
    )
    from powerctx_core.types import (
        PutResult as PutResult,
    )
    from powerctx_core.types import (
        QueryTerms as QueryTerms,
    )
    from powerctx_core.types import (
        RawCandidate as RawCandidate,
    )
    from powerctx_core.types import (
        Revision as Revision,
    )
    from powerctx_core.types import (
        derived_artifact_id as derived_artifact_id,
    )
    from powerctx_core.types import (
        parse_uri as parse_uri,
    )

_MODULES = {
    "context": ("Context", "open"),
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
    "hookspecs": ("hookimpl",),
    "memory_store": ("MemoryStore",),
    "ports": (
        "AdmissionRule",
        "Call",
        "Capability",
        "Catalogue",
        "EmbedRequest",
        "Embedder",
        "Family",
        "FetchRequest",
        "LexicalRequest",
        "LexicalResult",
        "ListingRequest",
        "NearestRequest",
        "NeighbourRequest",
        "Provider",
        "Renderer",
        "RetrievalRequest",
        "Selection",
        "Sink",
        "Snapshot",
        "Store",
        "StoreStatus",
        "TokenEstimator",
        "Unembedded",
        "VectorIndex",
    ),
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
    "requests": ("Diagnostics", "FindRequest", "Found", "PrepareRequest", "PreparedContext", "SelectedItem"),
    "types": (
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
