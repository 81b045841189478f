"""``prepare`` and ``find`` as pipelines over the folders below.  Nothing here writes.

One family of a call reads one snapshot: all its scopes see the same state of the store.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial

import attrs

from powerctx_core.account.prepared import PreparedAccount
from powerctx_core.account.retrieved import Retrieved
from powerctx_core.account.telling import receipt_of
from powerctx_core.assemble.envelope import Envelope, by_rank, in_sections, unsearchable
from powerctx_core.assembly import Assembled, Assembly
from powerctx_core.blame import Blame
from powerctx_core.embedding import Embedding
from powerctx_core.errors import (
    InvalidRequest,
)
from powerctx_core.explaining import explained
from powerctx_core.explanation import Explanation
from powerctx_core.gates import Gates, gate_named
from powerctx_core.host import Host
from powerctx_core.packing import Packing
from powerctx_core.ports import CountingStore, Store
from powerctx_core.recall.depth import cut_short, deeper
from powerctx_core.recall.expansion import Expansion
from powerctx_core.recall.fetch import Limits
from powerctx_core.recall.gate import V2, GatePolicy, check_floors
from powerctx_core.recall.outcome import Recalled, diagnostics, empty_outcome, nothing_asked, prepared
from powerctx_core.recall.policy import COMPATIBLE, POWERCTX, RecallPolicy, policy_named
from powerctx_core.recall.stages import Stages
from powerctx_core.recall.uses import uses_of
from powerctx_core.records import FamilySpec, RendererSpec
from powerctx_core.requests import (
    DEFAULT_MAX_ITEMS,
    FindRequest,
    Found,
    PreparedContext,
    PrepareRequest,
)
from powerctx_core.retrieval import Retrieval, ceiling_of
from powerctx_core.secrecy import secrets
from powerctx_core.sessions import StateStore
from powerctx_core.settings import RecallSettings, Settings
from powerctx_core.types import (
    Address,
    Deadline,
    Filters,
    Hit,
    Section,
)
from powerctx_core.workers import Lanes, Workers

__all__ = ["Engine"]

BESIDE = ("resource", "skill")
"""Families that a search asks beside those of ``prepare``, as long as no setting says which there are."""


@attrs.frozen(kw_only=True)
class Engine:
    """The pipelines of one opened store.  Thread-safe; calls block on the store."""

    host: Host
    store: Store
    state: StateStore
    blame: Blame
    settings: Settings
    embedding: Embedding
    gates: Gates
    workers: Workers
    lanes: Lanes
    retrieve: Retrieval = attrs.field(
        init=False,
        default=attrs.Factory(
            lambda self: Retrieval(
                host=self.host,
                store=self.store,
                blame=self.blame,
                settings=self.settings,
                embedding=self.embedding,
                workers=self.workers,
                lanes=self.lanes,
            ),
            takes_self=True,
        ),
    )
    packing: Packing = attrs.field(
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
            InvalidRequest: a family, renderer, policy or gate is not installed.
            PluginError: a family failed or broke its contract.
            PlanInvariantError: a renderer broke its contract.
            StoreError: the store failed.
        """
        account = self._account(request, deadline, Stages(wanted=bool(request.include_receipt)))
        if not request.include_receipt:
            return account.answer
        return attrs.evolve(account.answer, receipt=receipt_of(account, request.receipt_version))

    def explain(self, request: PrepareRequest, deadline: Deadline | None = None) -> Explanation:
        """Return prepared context, and what is known of how it came about.

        Args:
            request: what is asked for.
            deadline: as of :meth:`prepare`.

        Raises:
            InvalidRequest, PluginError, PlanInvariantError, StoreError: as :meth:`prepare`.
        """
        account = self._account(request, deadline, Stages(wanted=True))
        receipt = receipt_of(account, request.receipt_version) if request.include_receipt else None
        response = attrs.evolve(account.answer, receipt=receipt)
        return explained(attrs.evolve(account, answer=response))

    def _account(self, request: PrepareRequest, deadline: Deadline | None, stages: Stages) -> PreparedAccount:
        """Prepare, and return all that is known of it."""
        limits = Limits.of(deadline or self.deadline(request))
        self.check_renderer(request.renderer, request.show)
        gate = gate_named(request.gate or self.settings.recall.gate, self.gates)
        policy = self.policy(request.policy, gate)
        envelope = self._envelope(request, policy)
        known = partial(PreparedAccount, request=request, envelope=envelope, stages=stages)
        retrieved = Retrieved(
            policy=policy,
            specs=envelope.specs,
            references=len(request.references),
            by_vector=self.by_vector(envelope.specs),
            gate=gate,
        )
        if not envelope.specs:
            return known(answer=nothing_asked(policy, request.delivery), retrieved=retrieved)
        recall = self.retrieve(
            request,
            policy,
            envelope.specs,
            limits,
            max_items=envelope.max_items,
            least=0,
            filters=Filters(),
            search_type="auto",
            stages=stages,
        )
        assembly = Assembly(
            packing=self.packing,
            settings=self.settings,
            request=request,
            envelope=envelope,
            uses=partial(self.uses, limits=limits),
            expected=lambda: [hit.address for hit in recall.hits] if gate is None else recall.members,
            deadline=limits.call,
            stages=stages,
        )
        if gate is None:
            pack, expanded = assembly(recall.hits), None
        else:
            expanded = self._expansion(gate, envelope, recall, assembly, limits).run()
            pack = expanded.probed
        effort = None if gate is None or expanded is None else expanded.effort(gate, pack.plan)
        answer = prepared(pack.plan, recall, request, trimming=pack.trimming, late=pack.late, effort=effort)
        return known(answer=answer, retrieved=attrs.evolve(retrieved, recall=recall, expanded=expanded), pack=pack)

    def _expansion(
        self, gate: GatePolicy, envelope: Envelope, recall: Recalled, assembly: Assembly, limits: Limits
    ) -> Expansion[Assembled]:
        return Expansion(
            policy=recall.policy,
            gate=gate,
            ceilings={spec.name: ceiling_of(spec, recall.policy) for spec in envelope.specs},
            query_terms=recall.query.units or frozenset(recall.query.terms),
            probe=assembly,
            deadline=limits.retrieval,
            fetched=recall.fetched,
            first=recall.hits,
            stages=assembly.stages,
        )

    def by_vector(self, specs: Sequence[FamilySpec]) -> frozenset[str]:
        """Return the families of *specs* that are searched by vector when there is one."""
        by_vector = self.settings.retrieval.by_vector
        return frozenset(spec.name for spec in specs if by_vector(spec.name, declared=spec.vectors))

    def uses(self, addresses: Collection[Address], limits: Limits) -> Mapping[tuple[str, str, str], int] | None:
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
        recall = self.retrieve(
            request,
            self.policy(request.policy),
            self.searched(request.families),
            Limits.of(deadline or self.deadline(request)),
            max_items=request.limit,
            least=request.limit,
            filters=request.filters,
            search_type=request.search_type or self.settings.retrieval.default_search_type,
            stages=Stages(),
        )
        least = request.score_threshold or 0.0
        allowed = _allowed(request, recall.hits)
        hits = [hit for hit in allowed if hit.match >= least]
        while len(hits) < request.limit and len(allowed) < len(recall.hits) and (further := deeper(recall, least)):
            recall, allowed = further, _allowed(request, further.hits)
            hits = [hit for hit in allowed if hit.match >= least]
        restricted = bool(recall.hits) and not allowed
        outcome = "delivered" if hits else empty_outcome(recall, restricted=restricted)
        wanting = len(hits) < request.limit and len(allowed) < len(recall.hits)
        return Found(
            hits=tuple(hits[: request.limit]),
            diagnostics=diagnostics(recall, outcome, cut_short=wanting and cut_short(recall, least)),
        )

    def policy(self, name: str | None, gate: GatePolicy | None = None) -> RecallPolicy:
        """Return the recall policy of a call; the source's gate brings the source's, when none is named.

        Raises:
            InvalidRequest: it is not installed, or the gate's own floors ask for more than its floor.
        """
        belonging = COMPATIBLE if gate is V2 else POWERCTX
        policy = policy_named(name or self.settings.recall.policy or belonging.policy_id)
        if gate is not None:
            check_floors(gate, policy, self.gates.place(gate))
        return policy

    def check_renderer(self, name: str, show: Sequence[str]) -> None:
        """Check that the renderer is there before anything is looked for; it is made when there is something to render.

        Raises:
            InvalidRequest: it is not installed, or cannot show what the request wants shown.
        """
        spec: RendererSpec = self.host.spec("powerctx_renderers", name, field="renderer")
        if missing := [each for each in show if each not in spec.shows]:
            able = ", ".join(spec.shows) or "nothing of that kind"
            others = [each for each in self.host.names("powerctx_renderers") if missing[0] in self._shown_by(each)]
            hint = f"; {', '.join(map(repr, others))} can" if others else ""
            raise InvalidRequest(
                f"renderer {spec.name!r} cannot show {missing[0]} (it can show {able}){hint}.", field="show"
            )

    def _shown_by(self, name: str) -> Sequence[str]:
        spec: RendererSpec = self.host.spec("powerctx_renderers", name)
        return spec.shows

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

    def searched(self, names: Sequence[str] | None) -> list[FamilySpec]:
        """Return the families of a search: those that are named, or those of the settings, and what lies beside them.

        Raises:
            InvalidRequest: one is not installed, or not searched by query.
        """
        configured = self.settings.recall.families
        beside = BESIDE if configured == RecallSettings().families else ()
        return self._families(names or (*configured, *beside))

    def _families(self, names: Sequence[str] | None) -> list[FamilySpec]:
        specs = [self._family(name, "families") for name in names or self.settings.recall.families]
        if latest := next((spec for spec in specs if not spec.searchable), None):
            raise InvalidRequest(unsearchable(latest), field="families")
        return specs

    def _family(self, name: str, field: str) -> FamilySpec:
        spec: FamilySpec = self.host.spec("powerctx_families", name, field=field)
        return spec


def _allowed(request: FindRequest, hits: Sequence[Hit]) -> Sequence[Hit]:
    """Return the hits that meet those conditions which the store could not see to."""
    conditions = request.conditions
    return [hit for hit in hits if conditions.hold(hit.candidate)] if conditions else hits
