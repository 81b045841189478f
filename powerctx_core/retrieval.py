"""Retrieval: asks the families of one call, and puts what they found into the policy's order.  Nothing here writes.

One family of a call reads one snapshot: all its scopes see the same state of the store.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from powerctx_core.blame import Blame
from powerctx_core.embedding import Embedding
from powerctx_core.errors import (
    CapabilityError,
    ConfigError,
    PluginError,
    PoolInvariantError,
    PowerctxError,
    StoreError,
    cause,
    made_safe,
    safe_message,
    said,
)
from powerctx_core.families import StoredFamily
from powerctx_core.host import Host
from powerctx_core.ports import RetrievalRequest, Store
from powerctx_core.recall.depth import ordered
from powerctx_core.recall.embedding import QueryEmbeddings, serves
from powerctx_core.recall.fetch import Fetch, Limits
from powerctx_core.recall.group import RuleFailed, Source
from powerctx_core.recall.outcome import Recalled
from powerctx_core.recall.policy import RecallPolicy
from powerctx_core.recall.stages import Stages
from powerctx_core.records import FamilySpec
from powerctx_core.requests import FindRequest, PrepareRequest
from powerctx_core.secrecy import secrets
from powerctx_core.settings import Settings
from powerctx_core.text.terms import analyse_query
from powerctx_core.types import EmbeddingProfile, Filters, Partition
from powerctx_core.workers import Lanes, Workers

__all__ = ["Retrieval", "ceiling_of"]

_STORED = (StoredFamily, "powerctx_core.families:StoredFamily")
NEEDS_VECTORS = frozenset({"vector", "hybrid"})
_WITHOUT = "leave it out (families), go on without it (on_family_error degrade), or ask its author."


@attrs.frozen(kw_only=True)
class Retrieval:
    """Retrieves from one opened store.  Thread-safe; calls block on the store."""

    host: Host
    store: Store
    blame: Blame
    settings: Settings
    embedding: Embedding
    workers: Workers
    lanes: Lanes

    def __call__(
        self,
        request: PrepareRequest | FindRequest,
        policy: RecallPolicy,
        specs: Sequence[FamilySpec],
        limits: Limits,
        *,
        max_items: int,
        least: int,
        filters: Filters,
        search_type: str,
        stages: Stages,
    ) -> Recalled:
        """Fetch, admit, fuse and window every (family, scope), and put the hits in the policy's order.

        *least* is how far pools and ceilings reach at least: a list may be longer than a pack.
        """
        query = analyse_query(request.query)
        embeddings = self._embeddings(request.query, search_type, limits)
        fetch = Fetch(
            limits=limits,
            policy=policy,
            snapshot=self.store.catalogue.snapshot,
            vectors=None if embeddings.profile is None else self.store.vectors,
            embeddings=embeddings,
            explained=self._explained,
            degrade=(request.on_family_error or self.settings.recall.on_family_error) == "degrade",
            stages=stages,
        )
        sources = []
        for spec in specs:
            retrieval = RetrievalRequest(
                query=request.query,
                terms=query,
                partition=Partition(scope_id=request.scope_id, family=spec.name),
                k=max(policy.pool_size(spec.pool, max_items), least) if spec.searchable else spec.pool,
                filters=filters,
                neighbours=policy.neighbour_members if spec.searchable and policy.neighbour_weight > 0.0 else 0,
                weights=self._weights(spec, policy, embeddings.profile, search_type) if spec.searchable else {},
            )
            asked = self._source(spec, retrieval, request.references, policy)
            sources.append(attrs.evolve(asked, ceiling=max(asked.ceiling, least)))
        fetched = fetch(sources, self.lanes)
        embeddings.settle()
        if search_type in NEEDS_VECTORS and embeddings.fallback != "none" and not embeddings.late:
            raise CapabilityError(
                f"search_type {search_type!r} needs the query's vector: {embeddings.reason}; use auto or fts meanwhile."
            )
        return Recalled(
            policy=policy,
            query=query,
            fetched=fetched,
            hits=ordered(policy, sources, fetched.groups),
            embeddings=embeddings,
            sources=sources,
            ask=lambda again, known: None if limits.native.passed else fetch(again, self.lanes, known),
        )

    def _source(
        self, spec: FamilySpec, retrieval: RetrievalRequest, references: Sequence[str], policy: RecallPolicy
    ) -> Source:
        """Return how to ask a family: *retrieval* for its scope, and the same for the scopes of *references*."""
        further = references if spec.searched == "current+references" else ()
        requests = [
            retrieval,
            *(
                attrs.evolve(retrieval, partition=Partition(scope_id=scope_id, family=spec.name))
                for scope_id in further
            ),
        ]
        part = self.host.part
        return Source(
            spec=spec,
            requests=tuple(requests),
            ceiling=ceiling_of(spec, policy),
            floor=policy.floor,
            stored=spec.factory in _STORED,
            make=lambda: (part("powerctx_families", spec.name), part("powerctx_admissions", spec.admission)),
        )

    def _explained(self, spec: FamilySpec, error: BaseException) -> PowerctxError:
        """Return the error to raise for what a family raised."""
        # A family passes on what the store raised.
        hidden = secrets(self.settings, spec.name) | self.blame.hidden
        provider = self.host.provider("powerctx_families", spec.name)
        own = self.host.own("powerctx_families", spec.name)
        kind = type(error)  # an error's own idea of its class is not to be trusted
        if issubclass(kind, RuleFailed):
            return self._misruled(spec, error.__cause__ or error)
        if issubclass(kind, PoolInvariantError):
            return PluginError(f"{provider}: {safe_message(said(error), hidden).rstrip('.')}; {_WITHOUT}")
        if issubclass(kind, StoreError | CapabilityError | ConfigError | PluginError):
            # Of the store, the settings or the host; a family of somebody else's may raise them, too, and is named.
            return made_safe(error, hidden, "" if own else f"family {spec.name!r} of {provider}")  # type: ignore[arg-type]  # is one of these
        if own:  # core's family raises nothing of its own
            return self.blame.error(error)
        return PluginError(f"family {spec.name!r} of {provider} failed: {cause(error, hidden)}; {_WITHOUT}")

    def _misruled(self, spec: FamilySpec, error: BaseException) -> PowerctxError:
        """Return the error to raise for what the admission rule of a family raised."""
        provider = self.host.provider("powerctx_admissions", spec.admission)
        hidden = secrets(self.settings, spec.admission)
        if issubclass(type(error), PoolInvariantError):
            told = safe_message(said(error), hidden).rstrip(".")
            return PluginError(f"{provider}: admission rule {spec.admission!r}: {told}; {_WITHOUT}")
        return PluginError(
            f"admission rule {spec.admission!r} of {provider} failed for the family {spec.name!r}: "
            f"{cause(error, hidden)}; ask its author."
        )

    def _embeddings(self, query: str, search_type: str, limits: Limits) -> QueryEmbeddings:
        """Begin to embed the query, when vectors are wanted, there is an embedder, and it serves the query."""
        embedder = self.embedding.ready
        problem = self.embedding.problem
        wanted = search_type in NEEDS_VECTORS
        if wanted and problem is not None:
            raise problem
        if wanted and (embedder is None or self.store.vectors is None):
            raise CapabilityError(
                f"search_type {search_type!r} needs an embedder and a store with vectors; open one with "
                "embedder=… (or the setting `embedder`), or use auto or fts."
            )
        unused = search_type == "fts" or self.store.vectors is None
        if embedder is not None and (unused or not (wanted or serves(embedder.profile, query))):
            embedder = None
        embeddings = QueryEmbeddings(
            embedder,
            self.workers.submit,
            timeout=self.settings.retrieval.embedding_timeout_s,
            deadline=limits.embedding,
            told=self.embedding.told,
        )
        if problem is not None and search_type != "fts":
            embeddings.unavailable(str(problem))
        embeddings.start(query)
        return embeddings

    def _weights(
        self, spec: FamilySpec, policy: RecallPolicy, profile: EmbeddingProfile | None, search_type: str
    ) -> dict[str, float]:
        """Return the weight of each channel that takes part."""
        weights = {} if search_type == "vector" else {"fts": policy.weights.get("fts", 1.0)}
        retrieval = self.settings.retrieval
        if profile is not None and retrieval.by_vector(spec.name, declared=spec.vectors):
            own = profile.weight if policy.fusion == "score" else policy.weights.get("vector", 1.0)
            weights["vector"] = retrieval.vector_weights.get(spec.name, own)
        return weights


def ceiling_of(spec: FamilySpec, policy: RecallPolicy) -> int:
    """Return how many candidates of a family are kept over all scopes."""
    return policy.ceiling or spec.ceiling
