"""``prepare`` and ``find`` as pipelines over the folders below.  Nothing here writes.

One call reads one snapshot: every family and scope of it sees the same state of the store.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

import attrs

from powerctx_core.assemble.budget import Budget, meters, utf8_bytes
from powerctx_core.assemble.fit import Plan, plan
from powerctx_core.config import Settings
from powerctx_core.embedding import Embedding
from powerctx_core.errors import (
    CapabilityError,
    InvalidRequest,
    PlanInvariantError,
    PluginError,
    PoolInvariantError,
    PowerctxError,
)
from powerctx_core.host import Host
from powerctx_core.ports import Call, RetrievalRequest, Selection, Store
from powerctx_core.recall.checks import MODES, check_admission, check_pool
from powerctx_core.recall.embedding import QueryEmbeddings, serves
from powerctx_core.recall.fusion import deal, fuse, interleave, merge
from powerctx_core.recall.policy import RecallPolicy, policy_named
from powerctx_core.records import FamilySpec
from powerctx_core.requests import (
    Diagnostics,
    FindRequest,
    Found,
    PreparedContext,
    PrepareRequest,
    SelectedItem,
)
from powerctx_core.text.terms import analyse_query
from powerctx_core.types import (
    Admission,
    Candidate,
    Deadline,
    EmbeddingProfile,
    Filters,
    Hit,
    Partition,
    Pool,
    QueryTerms,
)
from powerctx_core.workers import Workers

__all__ = ["Engine"]

NEEDS_VECTORS = frozenset({"vector", "hybrid"})


@attrs.frozen
class _Group:
    """One (family, scope): its pool, what was admitted, and the window of fused hits."""

    spec: FamilySpec
    pool: Pool
    admission: Admission
    hits: list[Hit]


@attrs.frozen
class _Recall:
    """What one round of recall gave, before any budget."""

    policy: RecallPolicy
    query: QueryTerms
    groups: list[_Group]
    hits: list[Hit]
    embeddings: QueryEmbeddings


@attrs.frozen(kw_only=True)
class Engine:
    """The pipelines of one opened store.  Thread-safe; calls block on the store."""

    host: Host
    store: Store
    settings: Settings
    embedding: Embedding
    workers: Workers

    def prepare(self, request: PrepareRequest) -> PreparedContext:
        """Return prepared context within every budget of the request.

        Raises:
            InvalidRequest: a family, renderer or policy is not installed.
            PluginError: a family failed or broke its contract.
            PlanInvariantError: a renderer broke its contract.
            StoreError: the store failed.
        """
        renderer = self.host.part("powerctx_renderers", request.renderer, field="renderer")
        policy = self._policy(request.policy)
        specs = self._families(request.families)
        estimator = None
        if request.max_tokens is not None:
            estimator = self.host.part("powerctx_token_estimators", self.settings.tokens.estimator)
        recall = self._recall(
            request, policy, specs, max_items=request.max_items, least=0, filters=Filters(), search_type="auto"
        )
        limits = {spec.name: spec.entries for spec in specs} if policy.entry_limit is not None else {}
        budget = Budget(
            max_items=min(request.max_items, policy.entry_limit or request.max_items),
            max_bytes=request.max_bytes,
            max_chars=request.max_chars,
            max_tokens=request.max_tokens,
            item_bytes=self.settings.recall.item_bytes,
            family_items=tuple(limits.items()),
        )
        candidates = [_candidate(hit) for hit in recall.hits]
        try:
            found = plan(candidates, budget, meters(budget, estimator), renderer, Selection(scope_id=request.scope_id))
        except PlanInvariantError as error:
            raise PlanInvariantError(f"renderer {request.renderer!r}: {error}") from error
        except PowerctxError:
            raise
        except (Exception, SystemExit) as error:
            raise PlanInvariantError(
                f"renderer {request.renderer!r} of {self.host.provider('powerctx_renderers', request.renderer)} "
                f"failed: {type(error).__name__}: {error}; use another renderer or ask its author."
            ) from error
        return _prepared(found, recall)

    def find(self, request: FindRequest) -> Found:
        """Return related items, best first, without bodies.

        Raises:
            InvalidRequest: a family or policy is not installed.
            PluginError: a family failed or broke its contract.
            StoreError: the store failed.
        """
        policy = self._policy(request.policy)
        specs = self._families(request.families)
        search_type = request.search_type or self.settings.retrieval.default_search_type
        recall = self._recall(
            request,
            policy,
            specs,
            max_items=request.limit,
            least=request.limit,
            filters=request.filters,
            search_type=search_type,
        )
        hits = tuple(recall.hits[: request.limit])
        outcome = "delivered" if hits else _empty_outcome(recall)
        return Found(hits=hits, diagnostics=_diagnostics(recall, outcome))

    def _policy(self, name: str | None) -> RecallPolicy:
        return policy_named(name or self.settings.recall.policy)

    def _families(self, names: Sequence[str] | None) -> list[FamilySpec]:
        specs = []
        for name in names or self.settings.recall.families:
            spec = self.host.spec("powerctx_families", name, field="families")
            if not isinstance(spec, FamilySpec) or not spec.searchable:
                raise InvalidRequest(f"family {name!r} is not searched by query.", field="families")
            specs.append(spec)
        return specs

    def _recall(
        self,
        request: PrepareRequest | FindRequest,
        policy: RecallPolicy,
        specs: Sequence[FamilySpec],
        *,
        max_items: int,
        least: int,
        filters: Filters,
        search_type: str,
    ) -> _Recall:
        """Fetch, admit, fuse and window every (family, scope), and put the hits in the policy's order.

        *least* is how far pools and ceilings reach at least: a list may be longer than a pack.
        """
        query = analyse_query(request.query)
        groups: list[_Group] = []
        by_family: dict[str, list[list[Hit]]] = {}
        deadline = Deadline()
        embeddings = self._embeddings(request.query, search_type, deadline)
        with self.store.catalogue.snapshot(deadline) as snapshot:
            call = Call(
                deadline=deadline,
                catalogue=snapshot,
                vectors=None if embeddings.profile is None else self.store.vectors,
                embed=embeddings,
                profile=embeddings.profile,
            )
            for spec in specs:
                weights = self._weights(spec, policy, embeddings.profile, search_type)
                references = request.references if spec.searched == "current+references" else ()
                ceiling = max(policy.ceiling or spec.ceiling, least)
                pool_size = max(policy.pool_size(spec.pool, max_items), least)
                found = [
                    self._group(
                        spec,
                        RetrievalRequest(
                            query=request.query,
                            terms=query,
                            partition=Partition(scope_id=scope_id, family=spec.name),
                            k=pool_size,
                            filters=filters,
                            neighbours=policy.neighbour_members if policy.neighbour_weight > 0.0 else 0,
                            weights=weights,
                        ),
                        call,
                        policy,
                        ceiling,
                    )
                    for scope_id in (request.scope_id, *references)
                ]
                groups.extend(found)
                by_family[spec.name] = deal([group.hits for group in found], ceiling)
        hits = (
            interleave(by_family) if policy.interleaved else merge(g for groups_ in by_family.values() for g in groups_)
        )
        if search_type in NEEDS_VECTORS and embeddings.fallback != "none":
            raise CapabilityError(
                f"search_type {search_type!r} needs the query's vector: {embeddings.reason}; use auto or fts meanwhile."
            )
        return _Recall(policy=policy, query=query, groups=groups, hits=hits, embeddings=embeddings)

    def _embeddings(self, query: str, search_type: str, deadline: Deadline) -> QueryEmbeddings:
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
            deadline=deadline,
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

    def _group(
        self, spec: FamilySpec, request: RetrievalRequest, call: Call, policy: RecallPolicy, ceiling: int
    ) -> _Group:
        family = self.host.part("powerctx_families", spec.name)
        rule = self.host.part("powerctx_admissions", spec.admission)
        try:
            pool = family.retrieve(request, call)
            check_pool(pool, request.partition, spec.identity)
            admission = rule.admit(pool, request.terms, policy.floor)
            check_admission(pool, admission)
        except PoolInvariantError as error:
            raise PluginError(f"{self.host.provider('powerctx_families', spec.name)}: {error}") from error
        except PowerctxError:
            raise
        except (Exception, SystemExit) as error:
            raise PluginError(
                f"family {spec.name!r} of {self.host.provider('powerctx_families', spec.name)} failed: "
                f"{type(error).__name__}: {error}; leave it out with families=… or ask its author."
            ) from error
        hits = fuse(pool, admission, policy, weights=request.weights, query=request.terms)
        return _Group(spec, pool, admission, hits[:ceiling])


def _candidate(hit: Hit) -> Candidate:
    raw = hit.candidate
    return Candidate(
        address=raw.address,
        text=raw.head,
        body_bytes=raw.body_bytes,
        score=hit.score,
        title=raw.title,
        hit=hit,
        evidence=raw.evidence,
    )


def _empty_outcome(recall: _Recall) -> str:
    """Tell apart: nothing stored, nothing matched, nothing good enough."""
    if any(keys for group in recall.groups for keys in group.pool.channels.values()):
        return "below_threshold"
    if all(group.pool.statistics.items == 0 for group in recall.groups):
        return "no_content"
    return "no_match"


def _modes(groups: Sequence[_Group]) -> Mapping[str, str]:
    """Return what ran for each family: the strongest mode over its scopes."""
    modes: dict[str, str] = {}
    for group in groups:
        known = modes.get(group.spec.name, "none")
        modes[group.spec.name] = max(known, group.pool.mode, key=MODES.index)
    return modes


def _diagnostics(recall: _Recall, outcome: str, found: Plan | None = None) -> Diagnostics:
    late = tuple(sorted({name for group in recall.groups for name in group.pool.late}))
    items: tuple[SelectedItem, ...] = ()
    if found is not None:
        items = tuple(
            SelectedItem(address=entry.candidate.address, rendered_bytes=utf8_bytes(entry.piece), truncated=entry.cut)
            for entry in found.entries
        )
    return Diagnostics(
        outcome=outcome,
        request_id=uuid.uuid4().hex,
        policy=recall.policy.policy_id,
        partial=bool(late),
        late=late,
        fallback=recall.embeddings.fallback,
        embeddings=recall.embeddings.made,
        modes=tuple(_modes(recall.groups).items()),
        counts=tuple(group.admission.counts for group in recall.groups),
        terms_used=len({term for group in recall.groups for term in group.pool.terms}),
        terms_total=recall.query.total,
        omitted=tuple(found.omitted.items()) if found is not None else (),
        items=items,
    )


def _prepared(found: Plan, recall: _Recall) -> PreparedContext:
    text = found.text
    if text is not None:
        return PreparedContext(
            status="ready",
            content=text,
            content_bytes=utf8_bytes(text),
            diagnostics=_diagnostics(recall, "delivered", found),
        )
    unfit = any(reason in found.omitted for reason in ("below_min_bytes", "no_fitting_truncation"))
    outcome = "budget" if unfit else _empty_outcome(recall)
    return PreparedContext(
        status="empty", content=None, content_bytes=0, diagnostics=_diagnostics(recall, outcome, found)
    )
