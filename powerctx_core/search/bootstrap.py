"""A pack without a query: what an agent should know when it starts, or what one provider offers."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from math import ceil

import attrs

from powerctx_core.assemble.forms import Forms, Read
from powerctx_core.engine import Engine
from powerctx_core.errors import InvalidRequest, StoreError, shown
from powerctx_core.ports import Offered, Selection
from powerctx_core.recall.fetch import Limits
from powerctx_core.recall.stages import Stages
from powerctx_core.receipt.parts import Stage
from powerctx_core.records import FamilySpec
from powerctx_core.requests import SEARCH_MODES, ContextPack, Diagnostics, PackEntry, SearchRequest, SearchStats
from powerctx_core.requests.search import DEFAULT_MAX_TOKENS, DEFAULT_RENDERER
from powerctx_core.search.bodies import read_bodies
from powerctx_core.search.bootstrap_account import BootstrapAccount
from powerctx_core.search.offers import HOOK, Asking
from powerctx_core.search.session import SessionCall
from powerctx_core.search.slots import Filled, Filling, Supply
from powerctx_core.search.turns import Turn
from powerctx_core.types import BOOTSTRAP, BOOTSTRAP_LINE, Address, Hit, ManifestSlot, Session, manifest

__all__ = ["Bootstrap"]

_LIFECYCLE = "startup"
_DEDUP_TURNS = 5
_CHARACTERS_A_TOKEN = 16


@attrs.frozen
class _Made:
    """The slots of a pack, its text, what that costs, and whether what stands around the entries has room."""

    filled: Sequence[Filled] = ()
    text: str = ""
    cost: float = 0.0
    framed: bool = True

    @property
    def entries(self) -> list[tuple[Hit, str]]:
        """What stands in the pack: hit and detail."""
        return [(hit, rung.detail) for slot in self.filled for hit, rung in slot.entries]


class Bootstrap:
    """One call for such a pack; what it delivers is recorded in its session when it is *recording*."""

    def __init__(
        self, *, engine: Engine, request: SearchRequest, limits: Limits, stages: Stages, recording: bool
    ) -> None:
        self.engine = engine
        self.request = request
        self.limits = limits
        self.stages = stages
        self.recording = recording
        self.renderer = request.renderer or DEFAULT_RENDERER
        self.lifecycle = request.lifecycle or _LIFECYCLE
        self.max_tokens = request.max_tokens or DEFAULT_MAX_TOKENS
        self.late: list[str] = []
        self.failed: dict[str, str] = {}
        self.errors: list[str] = []
        self.logs: list[Session | None] = []
        self.timings: dict[str, float] = {}

    def __call__(self) -> BootstrapAccount:
        """Return the pack, and what is known of how it came about.

        Raises:
            InvalidRequest: there is no such mode or renderer.
            PluginError, StoreError, PlanInvariantError, CapabilityError: as :class:`powerctx_core.search.Search`.
        """
        engine, request = self.engine, self.request
        engine.check_renderer(self.renderer, ())
        slots = self._slots()
        dedup_turns = self._dedup_turns()
        session = SessionCall(engine=engine, request=request, limits=self.limits, late=self.late, errors=self.errors)
        if dedup_turns:
            engine.state.check()
        with self._timed("retrieve", "retrieve"):
            supplies = self._supplies(slots)
        turn = session.start(dedup_turns, self.logs) if dedup_turns else None
        job = partial(self._made, supplies)
        made = engine.packing.bounded(job, self.renderer, self.limits.call, counts_tokens=True)
        if made is None:
            self.late.append(f"renderer:{self.renderer}")
            made = _Made([Filled(supply=supply, late=True) for supply in supplies])
        recorded = 0
        if turn is not None and self.recording:
            delivered = [
                (hit.candidate, BOOTSTRAP if detail == "full" else BOOTSTRAP_LINE)
                for hit, detail in made.entries
                if detail != "uri" and hit.candidate.kind != "note"
            ]
            recorded = session.record(turn, delivered)
        return BootstrapAccount(
            request=request,
            answer=self._answered(made, turn, recorded),
            slots=tuple(made.filled),
            framed=made.framed,
            stages=self.stages,
        )

    def _slots(self) -> Sequence[ManifestSlot]:
        """Return the slots, whether or not what they are filled with is installed."""
        installed, mode = self.engine.host.names(HOOK), self.request.mode
        if mode != "bootstrap":
            if mode not in installed:
                modes = ", ".join((*SEARCH_MODES, *installed))
                raise InvalidRequest(f"mode is {shown(mode)}; it must be one of {modes}.", field="mode")
            return [ManifestSlot(name=mode, source=mode, share=1.0)]
        slots = manifest(self.engine.settings.retrieval.bootstrap.slots, self.lifecycle)
        self.errors += [
            f"slot {slot.name}: no candidate provider {slot.source!r} is installed" for slot in slots
            if slot.filled and slot.source not in installed
        ]  # fmt: skip
        return slots

    def _dedup_turns(self) -> int:
        request = self.request
        if request.session_id is None:
            return 0
        if request.dedup_turns is None:
            return _DEDUP_TURNS if self.engine.state.keeps else 0
        return request.dedup_turns

    def _supplies(self, slots: Sequence[ManifestSlot]) -> list[Supply]:
        asking = Asking(
            engine=self.engine,
            request=self.request,
            limits=self.limits,
            lifecycle=self.lifecycle,
            now=datetime.now(UTC),
            max_tokens=self.max_tokens,
            late=self.late,
            failed=self.failed,
            logs=self.logs,
        )
        installed = self.engine.host.names(HOOK)
        wanted = dict.fromkeys(slot.source for slot in slots if slot.filled)
        offers = asking([name for name in wanted if name in installed])
        return [self._supply(slot, offers) for slot in slots]

    def _supply(self, slot: ManifestSlot, offers: Mapping[str, Offered]) -> Supply:
        if not slot.filled:
            return Supply(slot=slot, absent="lifecycle")
        if slot.source in offers:
            return Supply(slot=slot, offered=offers[slot.source])
        if slot.source in self.failed:
            return Supply(slot=slot, absent="failed")
        late = f"provider:{slot.source}" in self.late
        return Supply(slot=slot, absent="late" if late else "not_installed")

    def _made(self, supplies: Sequence[Supply]) -> _Made:
        packing = self.engine.packing
        with packing.blamed(self.renderer), self._timed("plan", "plan"):
            filling = self._filling(supplies)
            filled = filling.fill({}, reading=True)
            unread = filling.unread(filled)
        if unread:
            with self._timed("read", "read"):
                read = self._read(unread)
            with packing.blamed(self.renderer), self._timed("fit", "plan"):
                filled = filling.fill(read, reading=False)
        with packing.blamed(self.renderer), self._timed("render", "render"):
            return _Made(*filling.text(filled), framed=filling.framed)

    def _filling(self, supplies: Sequence[Supply]) -> Filling:
        host, places = self.engine.host, self.request.excluded
        titles: dict[str, str] = {}
        for name in host.names("powerctx_families"):
            spec: FamilySpec = host.spec("powerctx_families", name)
            titles[name] = spec.title
        forms = Forms(
            renderer=host.part("powerctx_renderers", self.renderer),
            selection=Selection(
                scope_id=self.request.scope_id, titles=titles, envelope=self.request.envelope is not False
            ),
            cost=self.engine.packing.estimator().cost,
            item_bytes=self.engine.settings.recall.item_bytes,
            paragraphs=True,
        )
        return Filling(
            scope_id=self.request.scope_id,
            supplies=supplies,
            forms=forms,
            max_tokens=self.max_tokens,
            excluded=lambda address: any(place.holds(*address.artifact) for place in places),
        )

    def _read(self, hits: Sequence[Hit]) -> dict[Address, Read]:
        """Return the texts that came; a plan goes on with the heads of the others."""
        snapshot = self.engine.store.catalogue.snapshot
        try:
            with self.engine.blame():
                most = self.max_tokens * _CHARACTERS_A_TOKEN
                read, whole = read_bodies(hits, snapshot, self.limits, self.engine.lanes, most)
        except StoreError as error:
            self.errors.append(f"bodies: {error}")
            return {}
        if not whole:
            self.late.append("bodies")
        return dict(read)

    def _answered(self, made: _Made, turn: Turn | None, recorded: int) -> ContextPack:
        entries = tuple(self._entries(made))
        late = tuple(sorted(self.late))
        told = Diagnostics(
            outcome=self._outcome(made),
            request_id=uuid.uuid4().hex,
            policy=self.request.mode,
            partial=bool(late or self.failed),
            late=late,
            failed=tuple(self.failed.items()),
            modes=tuple(dict.fromkeys((entry.address.family, "snapshot") for entry in entries)),
        )
        asked = [slot.supply for slot in made.filled if slot.supply.slot.filled]
        offered = {supply.slot.name: len(supply.offered.candidates) for supply in asked}
        stats = SearchStats(
            outcome=told.outcome,
            searched=offered,
            candidates=sum(offered.values()),
            dropped=max(0, sum(offered.values()) - len(entries)),
            returned=len(entries),
            tier_counts=dict(sorted(Counter(entry.detail for entry in entries).items())),
            max_tokens=self.max_tokens,
            used_tokens=ceil(made.cost),
            dedup={} if turn is None else {"turn": turn.number, "turns": turn.dedup_turns, "recorded": recorded},
            partial=told.partial,
            late=late,
            failed=told.failed,
            timings_ms={stage: round(spent, 3) for stage, spent in self.timings.items()},
            errors=tuple(self.errors),
            lifecycle=self.lifecycle,
            slots={slot.supply.slot.name: slot.told for slot in made.filled if slot.entries},
        )
        return ContextPack(entries=entries, rendered=made.text, stats=stats, diagnostics=told)

    def _outcome(self, made: _Made) -> str:
        if made.entries:
            return "delivered"
        if self.late:
            return "deadline"
        if self.failed:
            return "source_error"
        return "budget" if any(slot.supply.offered.candidates for slot in made.filled) else "no_content"

    def _entries(self, made: _Made) -> Iterator[PackEntry]:
        relative = self.request.envelope is not False
        for slot in made.filled:
            for hit, rung in slot.entries:
                origin = hit.candidate.origin
                whose = "self" if origin is None else "actor" if origin == self.request.actor else "other"
                yield PackEntry(
                    address=hit.address,
                    ref=hit.address.ref(self.request.scope_id if relative else None),
                    bucket=slot.supply.slot.name,
                    category=hit.candidate.category,
                    score=hit.score,
                    match=hit.match,
                    detail=rung.detail,
                    text=rung.text,
                    cut=rung.cut,
                    origin=whose,
                    tokens=ceil(rung.cost),
                )

    @contextmanager
    def _timed(self, name: str, stage: Stage) -> Iterator[None]:
        """Note how long the block takes, as a run of *stage*."""
        start = time.perf_counter()
        try:
            with self.stages(stage):
                yield
        finally:
            self.timings[name] = self.timings.get(name, 0.0) + (time.perf_counter() - start) * 1000.0
