"""``prepare`` and ``find`` as pipelines over the folders below.  Nothing here writes.

One family of a call reads one snapshot: all its scopes see the same state of the store.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial

import attrs

from powerctx_core.assemble.envelope import Envelope, by_rank, in_sections
from powerctx_core.assembly import Assembly
from powerctx_core.blame import Blame
from powerctx_core.config import Settings
from powerctx_core.embedding import Embedding
from powerctx_core.errors import (
    CapabilityError,
    ConfigError,
    InvalidRequest,
    PluginError,
    PoolInvariantError,
    PowerctxError,
    StoreError,
    cause,
    made_safe,
    safe_message,
    said,
)
from powerctx_core.host import Host
from powerctx_core.packing import Packing
from powerctx_core.ports import CountingStore, RetrievalRequest, Store
from powerctx_core.recall.embedding import QueryEmbeddings, serves
from powerctx_core.recall.expansion import Expansion
from powerctx_core.recall.fetch import Fetch, Fetched, Limits, RuleFailed, Source
from powerctx_core.recall.fusion import deal, in_order
from powerctx_core.recall.gate import V2, GatePolicy, gate_named
from powerctx_core.recall.outcome import Recalled, diagnostics, empty_outcome, nothing_asked, prepared
from powerctx_core.recall.policy import COMPATIBLE, RecallPolicy, policy_named
from powerctx_core.recall.uses import uses_of
from powerctx_core.records import FamilySpec, RendererSpec
from powerctx_core.requests import (
    DEFAULT_MAX_ITEMS,
    FindRequest,
    Found,
    PreparedContext,
    PrepareRequest,
)
from powerctx_core.secrecy import secrets
from powerctx_core.text.terms import analyse_query
from powerctx_core.types import (
    Address,
    Deadline,
    EmbeddingProfile,
    Filters,
    Hit,
    Partition,
    Section,
)
from powerctx_core.workers import Lanes, Workers

__all__ = ["Engine"]

NEEDS_VECTORS = frozenset({"vector", "hybrid"})
_WITHOUT = "leave it out (families), go on without it (on_family_error degrade), or ask its author."


@attrs.frozen(kw_only=True)
class Engine:
    """The pipelines of one opened store.  Thread-safe; calls block on the store."""

    host: Host
    store: Store
    blame: Blame
    settings: Settings
    embedding: Embedding
    workers: Workers
    lanes: Lanes
    _packing: Packing = attrs.field(
        init=False,
        default=attrs.Factory(
            lambda self: Packing(host=self.host, settings=self.settings, lanes=self.lanes), takes_self=True
        ),
    )

    def deadline(self, request: PrepareRequest | FindRequest) -> Deadline:
        """Return when a call that begins now has to end."""
        given = request.deadline_ms or self.settings.recall.deadline_ms
        return Deadline.after(None if given is None else given / 1000)

    def prepare(self, request: PrepareRequest, deadline: Deadline | None = None) -> PreparedContext:
        """Return prepared context within every budget of the request.

        Args:
            request: what is asked for.
            deadline: of a call that began earlier; by default :meth:`deadline` as of now.

        Raises:
            InvalidRequest: a family, renderer or policy is not installed.
            PluginError: a family failed or broke its contract.
            PlanInvariantError: a renderer broke its contract.
            StoreError: the store failed.
        """
        limits = Limits.of(deadline or self.deadline(request))
        self._check_renderer(request)
        gate = gate_named(request.gate)
        policy = self._policy(request.policy, gate)
        envelope = self._envelope(request, policy)
        if not envelope.specs:
            return nothing_asked(policy, request.delivery)
        recall = self._recall(
            request,
            policy,
            envelope.specs,
            limits,
            max_items=envelope.max_items,
            least=0,
            filters=Filters(),
            search_type="auto",
        )
        assembly = Assembly(
            packing=self._packing,
            settings=self.settings,
            request=request,
            envelope=envelope,
            uses=partial(self._uses, limits=limits),
            expected=[hit.address for hit in recall.hits] if gate is None else recall.members,
            deadline=limits.call,
        )
        if gate is None:
            pack = assembly(recall.hits)
            return prepared(pack.plan, recall, request, trimming=pack.trimming, late=pack.late)
        expansion = Expansion(
            policy=policy,
            gate=gate,
            ceilings={spec.name: _ceiling(spec, policy) for spec in envelope.specs},
            query_terms=recall.query.units or frozenset(recall.query.terms),
            probe=assembly,
            deadline=limits.retrieval,
            fetched=recall.fetched,
        )
        expanded = expansion.run()
        pack = expanded.probed
        answer = prepared(pack.plan, recall, request, trimming=pack.trimming, late=pack.late)
        counts, effort = expanded.counts or answer.diagnostics.counts, expanded.effort(gate, pack.plan)
        return attrs.evolve(answer, diagnostics=attrs.evolve(answer.diagnostics, counts=counts, effort=effort))

    def _uses(self, addresses: Collection[Address], limits: Limits) -> Mapping[tuple[str, str, str], int] | None:
        """Return how often each artifact was used, or ``None`` when that is not known in time."""
        if not isinstance(self.store, CountingStore):
            return {}
        artifacts = list(dict.fromkeys(address.artifact for address in addresses))
        with self.blame():
            return uses_of(self.store.usage, artifacts, limits, self.lanes, secrets(self.settings))

    def find(self, request: FindRequest, deadline: Deadline | None = None) -> Found:
        """Return related items, best first, without bodies.

        Args:
            request: what is asked for.
            deadline: of a call that began earlier; by default :meth:`deadline` as of now.

        Raises:
            InvalidRequest: a family or policy is not installed.
            PluginError: a family failed or broke its contract.
            StoreError: the store failed.
        """
        recall = self._recall(
            request,
            self._policy(request.policy),
            self._families(request.families),
            Limits.of(deadline or self.deadline(request)),
            max_items=request.limit,
            least=request.limit,
            filters=request.filters,
            search_type=request.search_type or self.settings.retrieval.default_search_type,
        )
        hits = tuple(recall.hits[: request.limit])
        outcome = "delivered" if hits else empty_outcome(recall)
        return Found(hits=hits, diagnostics=diagnostics(recall, outcome))

    def _policy(self, name: str | None, gate: GatePolicy | None = None) -> RecallPolicy:
        """Return the policy of a call; the source's gate, when no policy is named, brings the source's."""
        if name is None and gate is V2:
            return COMPATIBLE
        return policy_named(name or self.settings.recall.policy)

    def _check_renderer(self, request: PrepareRequest) -> None:
        """Check that the renderer is there before anything is looked for; it is made when there is something to render.

        Raises:
            InvalidRequest: it is not installed, or cannot show what the request wants shown.
        """
        spec: RendererSpec = self.host.spec("powerctx_renderers", request.renderer, field="renderer")
        if missing := [name for name in request.show if name not in spec.shows]:
            able = ", ".join(spec.shows) or "nothing of that kind"
            raise InvalidRequest(
                f"renderer {spec.name!r} cannot show {missing[0]} (it can show {able}); the renderer 'sections' can.",
                field="show",
            )

    def _envelope(self, request: PrepareRequest, policy: RecallPolicy) -> Envelope:
        if request.sections is None:
            return by_rank(self._families(request.families), request.max_items or DEFAULT_MAX_ITEMS, policy)
        sections = request.sections if isinstance(request.sections, tuple) else self._default_sections()
        specs = [self._family(section.family, "sections") for section in sections]
        return in_sections(sections, specs, request.max_items, self.settings.assembly.max_entries)

    def _default_sections(self) -> list[Section]:
        installed = self.host.names("powerctx_families")
        named = self.settings.assembly.sections.items()
        return [Section(family=family, limit=limit) for family, limit in named if family in installed]

    def _families(self, names: Sequence[str] | None) -> list[FamilySpec]:
        return [self._family(name, "families") for name in names or self.settings.recall.families]

    def _family(self, name: str, field: str) -> FamilySpec:
        spec = self.host.spec("powerctx_families", name, field=field)
        if not isinstance(spec, FamilySpec) or not spec.searchable:
            raise InvalidRequest(f"family {name!r} is not searched by query.", field=field)
        return spec

    def _recall(
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
        )
        sources = []
        for spec in specs:
            retrieval = RetrievalRequest(
                query=request.query,
                terms=query,
                partition=Partition(scope_id=request.scope_id, family=spec.name),
                k=max(policy.pool_size(spec.pool, max_items), least),
                filters=filters,
                neighbours=policy.neighbour_members if policy.neighbour_weight > 0.0 else 0,
                weights=self._weights(spec, policy, embeddings.profile, search_type),
            )
            sources.append(self._source(spec, retrieval, request.references, max(_ceiling(spec, policy), least)))
        fetched = fetch(sources, self.lanes)
        embeddings.settle()
        hits = _ordered(policy, sources, fetched)
        if search_type in NEEDS_VECTORS and embeddings.fallback != "none" and not embeddings.late:
            raise CapabilityError(
                f"search_type {search_type!r} needs the query's vector: {embeddings.reason}; use auto or fts meanwhile."
            )
        return Recalled(policy=policy, query=query, fetched=fetched, hits=hits, embeddings=embeddings)

    def _source(self, spec: FamilySpec, retrieval: RetrievalRequest, references: Sequence[str], ceiling: int) -> Source:
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
            ceiling=ceiling,
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
        if profile is not None:
            own = profile.weight if policy.fusion == "score" else policy.weights.get("vector", 1.0)
            weights["vector"] = self.settings.retrieval.vector_weights.get(spec.name, own)
        return weights


def _ceiling(spec: FamilySpec, policy: RecallPolicy) -> int:
    """Return how many candidates of a family are kept over all scopes."""
    return policy.ceiling or spec.ceiling


def _ordered(policy: RecallPolicy, sources: Sequence[Source], fetched: Fetched) -> list[Hit]:
    """Return the hits of all families in the policy's order, which does not depend on what arrived first."""
    return in_order(
        policy,
        {
            source.spec.name: deal([group.hits for group in fetched.groups[source.spec.name]], source.ceiling)
            for source in sources
            if source.spec.name in fetched.groups
        },
    )
