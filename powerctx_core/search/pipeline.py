"""``search`` as a pipeline: a list is what ``find`` gives; a pack is planned, read for, rendered, and recorded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TypeVar

import attrs

from powerctx_core.account.retrieved import Retrieved
from powerctx_core.account.telling import receipt_of
from powerctx_core.assemble.delivery import listing
from powerctx_core.assemble.forms import Forms, Read
from powerctx_core.assemble.value import by_value
from powerctx_core.engine import Engine
from powerctx_core.errors import InvalidRequest, StoreError
from powerctx_core.explaining import explained
from powerctx_core.explanation import Explanation
from powerctx_core.gates import gate_named
from powerctx_core.ports import Selection
from powerctx_core.recall.depth import cut_short, deeper
from powerctx_core.recall.fetch import Limits
from powerctx_core.recall.outcome import Recalled
from powerctx_core.recall.policy import RecallPolicy
from powerctx_core.recall.stages import Stages
from powerctx_core.receipt.parts import Stage
from powerctx_core.receipt.v2 import ReceiptV2
from powerctx_core.records import FamilySpec
from powerctx_core.requests import ContextPack, Found, SearchRequest
from powerctx_core.requests.search import DEFAULT_RENDERER
from powerctx_core.search.account import SearchAccount
from powerctx_core.search.answering import NOTHING, Course, answered
from powerctx_core.search.bodies import read_bodies
from powerctx_core.search.bootstrap import Bootstrap
from powerctx_core.search.bootstrap_account import BootstrapAccount
from powerctx_core.search.competing import Competing, competing
from powerctx_core.search.judging import Planned, Probe, effort_of, judged
from powerctx_core.search.session import SessionCall
from powerctx_core.search.tiering import Pack, Tiering
from powerctx_core.search.turns import Given
from powerctx_core.search.wants import Wants, wants_of
from powerctx_core.types import Address, Deadline, Hit

__all__ = ["Search"]

_T = TypeVar("_T")

_REACH = 64
"""Items that a pack may hold, for the size of pools."""
_CHARACTERS_A_TOKEN = 16
"""More than any text has: no more of a body can be of use to a budget."""


@attrs.frozen(kw_only=True)
class Search:
    """The search surface of one opened store.  Thread-safe; calls block on the store."""

    engine: Engine

    def deadline(self, request: SearchRequest) -> Deadline:
        """Return when a call that begins now has to end."""
        return self.engine.deadline(request.retrieval)

    def __call__(self, request: SearchRequest, deadline: Deadline | None = None) -> Found | ContextPack:
        """Return a list or a pack.

        Args:
            request: what is asked for.
            deadline: of a call that began earlier; by default :meth:`deadline` as of now.

        Raises:
            InvalidRequest: a part, purpose or bucket that is named is not there.
            CapabilityError: the store keeps no sessions, and *dedup_turns* needs them.
            PluginError: a family failed or broke its contract.
            PlanInvariantError: a renderer broke its contract.
            StoreError: the store failed.
        """
        if request.mode == "list":
            return self.engine.find(request.retrieval, deadline)
        wanted = bool(request.include_receipt)
        if request.offered:
            return _with_receipt(self._offered(request, deadline, receipt=wanted))
        return _with_receipt(self._account(request, deadline, receipt=wanted))

    def explain(self, request: SearchRequest, deadline: Deadline | None = None) -> Explanation:
        """Return a pack, and what is known of how it came about; of a session nothing is recorded.

        Args:
            request: what is asked for.
            deadline: as of a call.

        Raises:
            InvalidRequest: it asks for a list; or as a call.
            CapabilityError, PluginError, PlanInvariantError, StoreError: as a call.
        """
        if request.mode == "list":
            raise InvalidRequest(
                "mode is 'list', which is not explained; explain takes prepare, and search in mode context, bootstrap, "
                "or of a candidate provider.",
                field="mode",
            )
        if request.offered:
            started = self._offered(request, deadline, receipt=True, recording=False)
            return attrs.evolve(started, answer=_with_receipt(started)).explanation()
        account = self._account(request, deadline, receipt=True, recording=False)
        return explained(attrs.evolve(account, answer=_with_receipt(account)))

    def _offered(
        self, request: SearchRequest, deadline: Deadline | None, *, receipt: bool, recording: bool = True
    ) -> BootstrapAccount:
        limits = Limits.of(deadline or self.deadline(request))
        stages = Stages(wanted=receipt)
        return Bootstrap(engine=self.engine, request=request, limits=limits, stages=stages, recording=recording)()

    def _account(
        self, request: SearchRequest, deadline: Deadline | None, *, receipt: bool, recording: bool = True
    ) -> SearchAccount:
        limits = Limits.of(deadline or self.deadline(request))
        stages = Stages(wanted=receipt)
        return _Assembling(engine=self.engine, request=request, limits=limits, stages=stages, recording=recording)()


def _with_receipt(account: SearchAccount | BootstrapAccount) -> ContextPack:
    """Return the answer, with a receipt when one was asked for and can be made."""
    receipt = receipt_of(account, 2) if account.request.include_receipt else None
    return attrs.evolve(account.answer, receipt=receipt) if isinstance(receipt, ReceiptV2) else account.answer


class _Assembling:
    """One call for a pack; what it delivers is recorded in its session when it is *recording*."""

    def __init__(
        self, *, engine: Engine, request: SearchRequest, limits: Limits, stages: Stages, recording: bool
    ) -> None:
        self.engine = engine
        self.request = request
        self.limits = limits
        self.stages = stages
        self.recording = recording
        self.late: list[str] = []
        self.errors: list[str] = []
        self.timings: dict[str, float] = {}
        self.renderer = request.renderer or DEFAULT_RENDERER

    def __call__(self) -> SearchAccount:
        engine, request = self.engine, self.request
        specs = engine.searched(request.families)
        every: list[FamilySpec] = [
            engine.host.spec("powerctx_families", name) for name in engine.host.names("powerctx_families")
        ]
        wants = wants_of(
            request,
            specs,
            engine.settings.retrieval.purposes,
            [spec.bucket for spec in every if spec.searchable],
        )
        engine.check_renderer(self.renderer, request.show or ())
        gate = gate_named(request.gate or engine.settings.recall.gate, engine.gates)
        policy = engine.policy(request.policy, gate)
        session = SessionCall(engine=engine, request=request, limits=self.limits, late=self.late, errors=self.errors)
        remembers = request.session_id is not None and bool(wants.dedup_turns or request.bootstrap_exclude)
        asked = session.ask(wants.dedup_turns) if remembers else None
        with self._timed("retrieve"):
            recall = self._recall(specs, policy)
        turn = None if asked is None else asked()
        cooled = Given() if turn is None else turn.cooled
        opening = turn.opening if turn is not None and request.bootstrap_exclude else Given()
        if turn is not None and turn.warning is not None:
            self.errors.append(turn.warning)
        compete = partial(competing, wants=wants, cooled=cooled, order=partial(self._trimmed, specs), opening=opening)
        probe = partial(self._probe, wants, compete)
        probed = probe(recall.hits)
        while probed.plan is not None and probed.found.thinned and probed.plan.wanting:
            with self._timed("retrieve"):
                further = deeper(recall, wants.threshold)
            if further is None:
                break
            # Deeper pools fill the places that there are, and make no more of them.
            probe = partial(self._probe, wants, partial(compete, most=max(_REACH, sum(wants.quotas.values()))))
            recall, probed = further, probe(further.hits)
        expanded = None
        if gate is not None:
            expanded = judged(gate, recall, probed, probe, limits=self.limits, stages=self.stages)
            probed = expanded.probed
            recall = attrs.evolve(recall, hits=list(probed.hits))
        effort = None if gate is None or expanded is None else effort_of(gate, expanded)
        if effort is not None and effort.partial:
            self.late.append("gate")
        found, planned = probed.found, probed.plan
        pack = None if planned is None else self._bounded(partial(self._made, planned, wants.max_tokens))
        if pack is None:
            self.late.append(f"renderer:{self.renderer}")
        recorded = 0
        if turn is not None and pack is not None and wants.dedup_turns and self.recording:
            recorded = session.record(turn, [(hit.candidate, rung.detail) for hit, rung in pack.entries])
        course = Course(
            wants=wants,
            recall=recall,
            found=found,
            cut_short=planned is not None and found.thinned and planned.wanting and cut_short(recall, wants.threshold),
            pack=pack or NOTHING,
            effort=effort,
            turn=turn,
            recorded=recorded,
            late=tuple(self.late),
            errors=tuple(self.errors),
            timings=self.timings,
        )
        retrieved = Retrieved(
            policy=policy,
            specs=specs,
            references=len(request.references),
            by_vector=engine.by_vector(specs),
            recall=recall,
            gate=gate,
            expanded=expanded,
        )
        return SearchAccount(answer=answered(course), retrieved=retrieved, course=course, stages=self.stages)

    def _recall(self, specs: Sequence[FamilySpec], policy: RecallPolicy) -> Recalled:
        retrieval = self.request.retrieval
        return self.engine.retrieve(
            retrieval,
            policy,
            specs,
            self.limits,
            max_items=_REACH,
            least=0,
            filters=retrieval.filters,
            search_type=retrieval.search_type or self.engine.settings.retrieval.default_search_type,
            stages=self.stages,
        )

    def _trimmed(self, specs: Sequence[FamilySpec], hits: Sequence[Hit]) -> Sequence[Hit]:
        """Return the hits in the order of their value, when the request is trimmed by it."""
        if self.request.trim != "value" or not hits:
            return hits
        uses = self.engine.uses([hit.address for hit in hits], self.limits)
        if uses is None:
            self.late.append("usage")
        layers = {spec.name: spec.layer for spec in specs}
        return by_value(hits, uses or {}, layers, self.engine.settings.trim)[0]

    def _bounded(self, job: Callable[[], _T]) -> _T | None:
        """Return what *job* makes with the renderer, or ``None`` when that is late."""
        return self.engine.packing.bounded(job, self.renderer, self.limits.call, counts_tokens=True)

    def _probe(self, wants: Wants, compete: Callable[[Sequence[Hit]], Competing], hits: Sequence[Hit]) -> Probe:
        found = compete(hits)
        return Probe(hits, found, self._bounded(partial(self._planned, wants, found)))

    def _planned(self, wants: Wants, found: Competing) -> Planned:
        with self.engine.packing.blamed(self.renderer), self._timed("plan", "plan"):
            tiering = self._tiering(wants, found)
            plan = tiering.plan({}, reading=True)
            return Planned(tiering, plan, tiering.wanting(plan, _REACH))

    def _made(self, planned: Planned, max_tokens: int) -> Pack:
        packing, tiering, plan = self.engine.packing, planned.tiering, planned.plan
        if plan is not None and plan.unread:
            with self._timed("read", "read"):
                read = self._read(tiering.unread(plan), max_tokens)
            with packing.blamed(self.renderer), self._timed("fit", "plan"):
                plan = tiering.plan(read, reading=False)
        with packing.blamed(self.renderer), self._timed("render", "render"):
            return tiering.pack(plan)

    def _tiering(self, wants: Wants, found: Competing) -> Tiering:
        selection = Selection(
            scope_id=self.request.scope_id,
            show=self.request.show or (),
            titles={spec.name: spec.title for spec in wants.specs.values()},
            envelope=self.request.envelope is not False,
        )
        forms = Forms(
            renderer=self.engine.host.part("powerctx_renderers", self.renderer),
            selection=selection,
            cost=self.engine.packing.estimator().cost,
            item_bytes=self.engine.settings.recall.item_bytes,
        )
        beside = listing(forms) if self.request.delivery == "split" else None
        return Tiering(wants=wants, forms=forms, competing=found, listing=beside)

    def _read(self, hits: Sequence[Hit], max_tokens: int) -> Mapping[Address, Read]:
        """Return the texts that came; a plan goes on with the heads of the others."""
        snapshot = self.engine.store.catalogue.snapshot
        try:
            with self.engine.blame():
                read, whole = read_bodies(
                    hits, snapshot, self.limits, self.engine.lanes, max_tokens * _CHARACTERS_A_TOKEN
                )
        except StoreError as error:
            self.errors.append(f"bodies: {error}")
            return {}
        if not whole:
            self.late.append("bodies")
        return read

    @contextmanager
    def _timed(self, name: str, stage: Stage | None = None) -> Iterator[None]:
        """Note how long the block takes; it is a run of *stage*, where the stages are not noted inside of it."""
        start = time.perf_counter()
        try:
            with nullcontext() if stage is None else self.stages(stage):
                yield
        finally:
            self.timings[name] = self.timings.get(name, 0.0) + (time.perf_counter() - start) * 1000.0
