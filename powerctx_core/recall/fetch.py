"""Asks the families of one call, and stops waiting at the deadline.

Without a deadline, what is kept in the catalogue is read on the caller's thread, all of it from one snapshot; every
other family has a worker of its own, as all have under a deadline.  A family is asked for its scopes in turn and leaves
behind what it has finished, so that what has arrived counts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager
from functools import partial
from typing import Protocol, Self

import attrs

from powerctx_core.errors import PluginError, PoolInvariantError, PowerctxError, StoreError, kind
from powerctx_core.families import stored_pools
from powerctx_core.ports import (
    AdmissionRule,
    Call,
    Family,
    RetrievalRequest,
    SearchingFamily,
    Snapshot,
    VectorIndex,
)
from powerctx_core.recall.embedding import QueryEmbeddings
from powerctx_core.recall.group import FREE, Asked, Cost, Group, RuleFailed, Source
from powerctx_core.recall.policy import RecallPolicy
from powerctx_core.recall.stages import Stages
from powerctx_core.records import FamilySpec
from powerctx_core.types import AdmissionFloor, Deadline, Pool

__all__ = ["Again", "Fetch", "Fetched", "Limits", "Waiting"]

_LOGGER = logging.getLogger("powerctx")

_RESERVE_S, _RESERVE_SHARE = 0.02, 0.25
"""What a call keeps for merging, planning and rendering: so many seconds, or this share of a short deadline."""
_STEPS = 4
_LEAST_RESERVE_S = 1e-5
"""Of a call whose time is over before it begins: stages still end one after another."""


@attrs.frozen(kw_only=True)
class Limits:
    """Until when each stage of a call is waited for; without a deadline, all for ever.

    Attributes:
        call: the caller's deadline.
        retrieval: families are waited for until then; what is left is for planning and rendering.
        native: families and stores are told to stop then, so that they can say so before nobody listens any more.
        embedding: the query's vector is waited for until then, so that words can still be delivered without it.
    """

    call: Deadline
    retrieval: Deadline
    native: Deadline
    embedding: Deadline

    @classmethod
    def of(cls, call: Deadline) -> Self:
        """Return the limits under a deadline: each a step before the one above it, so that no two are equal."""
        left = call.remaining()
        if call.at is None or left is None:
            return cls(call=call, retrieval=call, native=call, embedding=call)
        reserve = max(_LEAST_RESERVE_S, min(_RESERVE_S, left * _RESERVE_SHARE))
        step = reserve / _STEPS
        at = call.at - reserve
        return cls(call=call, retrieval=Deadline(at), native=Deadline(at - step), embedding=Deadline(at - step - step))


@attrs.frozen(kw_only=True)
class Fetched:
    """What has arrived.

    Attributes:
        groups: family -> its groups, in the order of sources and scopes, whatever arrived first.
        late: families and ``family:channel`` that did not answer in time.
        failed: family -> a word for why the call went on without it.
        again: asks once more, at another floor, what only an engine can admit.  Returns it, or ``None`` when some of it
            is not there in time; raises when some of it fails.
    """

    groups: Mapping[str, tuple[Group, ...]]
    late: frozenset[str]
    failed: Mapping[str, str]
    again: Callable[[AdmissionFloor], Again | None] = attrs.field(default=lambda _: Again(), eq=False, repr=False)


@attrs.frozen
class Again:
    """What engines admit at another floor, by family, and what finding it cost."""

    groups: Mapping[str, tuple[Group, ...]] = attrs.field(factory=dict)
    cost: Cost = FREE


class Waiting(Protocol):
    """Workers to wait for; see :class:`powerctx_core.workers.Lanes`."""

    def ask(self, lane: str, job: Callable[[], None], patience: float | None = 0.0) -> Future[None] | None:
        """Run *job*, unless a worker that was left still runs in its lane after *patience* seconds."""

    def leave(self, lane: str, future: Future[None]) -> None:
        """Stop waiting."""


class _Arrival:
    """Where a worker leaves what it has; whoever stops waiting takes what is there in one read.

    Attributes:
        left: the caller has stopped waiting, so that an error that comes now is late and not the call's.
    """

    def __init__(self) -> None:
        self.left = False
        self.groups: tuple[Group, ...] = ()
        self.error: PowerctxError | None = None
        self.reason = ""


_Awaited = tuple[Source, _Arrival]


@attrs.frozen(kw_only=True)
class Fetch:
    """What all retrievals of one call share.

    Attributes:
        explained: returns the error to raise for what a family raised; it names the plugin.
        degrade: go on without a family that fails, instead of raising its error.
        stages: is told how long retrieval and admission take.
    """

    limits: Limits
    policy: RecallPolicy
    snapshot: Callable[[Deadline], AbstractContextManager[Snapshot]]
    vectors: VectorIndex | None
    embeddings: QueryEmbeddings
    explained: Callable[[FamilySpec, BaseException], PowerctxError]
    degrade: bool
    stages: Stages = attrs.field(factory=Stages)

    def __call__(
        self, sources: Sequence[Source], workers: Waiting, known: Mapping[str, tuple[Group, ...]] | None = None
    ) -> Fetched:
        """Ask all sources and return what has arrived when all are done, or the time of retrieval is over.

        Args:
            sources: to ask.
            workers: to ask them on.
            known: what other families of the same call gave before.

        Raises:
            PowerctxError: a family failed, and *degrade* is off; of several, the first in their order.
        """
        arrivals = self._ask(sources, workers)
        groups: dict[str, tuple[Group, ...]] = dict(known or {})
        late: set[str] = set()
        failed: dict[str, str] = {}
        for source, arrival in zip(sources, arrivals, strict=True):
            name, arrived = source.spec.name, arrival.groups
            if arrival.error is not None and not arrival.left:
                if not self.degrade:
                    raise arrival.error
                _LOGGER.warning("going on without the family %s: %s", name, arrival.error)
                failed[name] = arrival.reason
                continue
            groups[name] = arrived
            if len(arrived) < len(source.requests):
                late.add(name)
            late |= {f"{name}:{channel}" for group in arrived for channel in group.late}
        again = partial(self._again, groups, workers)
        return Fetched(groups=groups, late=frozenset(late), failed=failed, again=again)

    def _again(self, groups: Mapping[str, tuple[Group, ...]], workers: Waiting, floor: AdmissionFloor) -> Again | None:
        """Search at *floor* for those of *groups* that only their engine can admit; see :attr:`Fetched.again`."""
        sources = []
        for given in groups.values():
            asked = [group.again for group in given if group.again is not None]
            if asked:
                requests = tuple(each.request for each in asked)
                sources.append(attrs.evolve(asked[0].source, requests=requests, floor=floor))
        before = self.embeddings.made
        arrivals = self._ask(sources, workers) if sources else []
        for source, arrival in zip(sources, arrivals, strict=True):
            if arrival.error is not None and not arrival.left:
                raise arrival.error
            if len(arrival.groups) < len(source.requests):
                return None
        found = {source.spec.name: arrival.groups for source, arrival in zip(sources, arrivals, strict=True)}
        costs = [group.cost for given in found.values() for group in given]
        return Again(found, sum(costs, Cost(embeddings=self.embeddings.made - before)))

    def _ask(self, sources: Sequence[Source], workers: Waiting) -> Sequence[_Arrival]:
        """Ask all sources, and return where they leave what they have."""
        arrivals = [_Arrival() for _ in sources]
        asked = list(zip(sources, arrivals, strict=True))
        if self.limits.call.at is not None:
            if not self.limits.native.passed:
                self._fan_out(asked, workers)
        elif len(sources) == 1 and not sources[0].stored:
            self._retrieve(*asked[0])
        else:
            stored = [each for each in asked if each[0].stored]
            self._fan_out([each for each in asked if not each[0].stored], workers, partial(self._together, stored))
        return arrivals

    def _fan_out(
        self, asked: Sequence[_Awaited], workers: Waiting, meanwhile: Callable[[], None] = lambda: None
    ) -> None:
        """Ask each source on a worker of its own, and wait for them after *meanwhile*."""
        jobs: dict[str, Future[None]] = {}
        waiting = {source.spec.name: partial(self._retrieve, source, arrival) for source, arrival in asked}
        try:
            # Nobody waits behind a family whose last worker is late, so the others are asked first.
            for patient in (False, True):
                for name in [name for name in waiting if name not in jobs]:
                    patience = self.limits.native.remaining() if patient else 0.0
                    if (job := workers.ask(name, waiting[name], patience)) is not None:
                        jobs[name] = job
            meanwhile()
            wait(jobs.values(), self.limits.retrieval.remaining())
        finally:
            for source, arrival in asked:
                job = jobs.get(source.spec.name)
                if job is not None and not job.done():
                    arrival.left = True
                    workers.leave(source.spec.name, job)
        for job in jobs.values():
            if job.done() and not job.cancelled():
                job.result()  # KeyboardInterrupt is the caller's

    def _together(self, asked: Sequence[_Awaited]) -> None:
        """Read what is kept in the catalogue for all sources, in turn, from one snapshot."""
        made: list[tuple[Source, _Arrival, AdmissionRule]] = []
        for source, arrival in asked:
            try:
                made.append((source, arrival, source.make()[1]))
            except BaseException as error:  # noqa: BLE001 - kept, and raised by whoever waits
                self._failed(source, arrival, error)
        requests = [(source.spec, request) for source, _, _ in made for request in source.requests]
        if not requests:
            return
        try:
            with self.snapshot(self.limits.native) as snapshot:
                pools = stored_pools(requests, self._call(snapshot))
                for source, arrival, rule in made:
                    for request in source.requests:
                        scope = self._asked(source, request, rule)
                        with self.stages("retrieve"):
                            pool = next(pools)
                        try:
                            arrival.groups = (*arrival.groups, scope.group(pool, self._missing(request)))
                        except BaseException as error:  # noqa: BLE001 - its rule's
                            self._failed(source, arrival, error)
        except BaseException as error:  # noqa: BLE001 - the store's, which all of them read
            for source, arrival, _ in made:
                self._failed(source, arrival, error)

    def _retrieve(self, source: Source, arrival: _Arrival) -> None:
        """Ask one family for all its scopes; runs on a worker, and on after nobody waits any more."""
        if self.limits.native.passed:
            return
        try:
            family, rule = source.make()
            with self.snapshot(self.limits.native) as snapshot:
                for request in source.requests:
                    if self.limits.native.passed:
                        return
                    asked = self._asked(source, request, rule)
                    self._scope(asked, family, snapshot, arrival)
        except BaseException as error:  # noqa: BLE001 - kept, and raised by whoever waits
            self._failed(source, arrival, error)

    def _scope(self, asked: Asked, family: Family | SearchingFamily, snapshot: Snapshot, arrival: _Arrival) -> None:
        """Ask a family for one scope."""
        before, request = arrival.groups, asked.request
        if isinstance(family, SearchingFamily):
            with self.stages("retrieve"):
                found = family.search(request, asked.source.floor, self._call(snapshot))
            arrival.groups = (*before, asked.searched(found, self._missing(request)))
            return
        call = self._call(snapshot, partial(self._offer, asked, arrival, before))
        with self.stages("retrieve"):
            pool = family.retrieve(request, call)
        if arrival.left:
            return  # nobody looks at it any more, and admission takes time from others
        arrival.groups = (*before, asked.group(pool, self._missing(request)))

    def _asked(self, source: Source, request: RetrievalRequest, rule: AdmissionRule) -> Asked:
        return Asked(source=source, request=request, rule=rule, policy=self.policy, stages=self.stages)

    def _call(self, snapshot: Snapshot, offer: Callable[[Pool], None] = lambda _: None) -> Call:
        return Call(
            deadline=self.limits.native,
            catalogue=snapshot,
            vectors=self.vectors,
            embed=self.embeddings,
            profile=self.embeddings.profile,
            offer=offer,
        )

    def _offer(self, asked: Asked, arrival: _Arrival, before: tuple[Group, ...], pool: Pool) -> None:
        """Leave behind what is ready of a scope, until there is more."""
        missing = frozenset(asked.request.weights) - frozenset(getattr(pool, "channels", ()))
        arrival.groups = (*before, asked.group(pool, missing))

    def _missing(self, request: RetrievalRequest) -> frozenset[str]:
        """Return the channels that were wanted and are late unless the pool has them."""
        wanted = request.weights.get("vector", 0.0) > 0.0
        return frozenset({"vector"} if wanted and self.embeddings.late else ())

    def _failed(self, source: Source, arrival: _Arrival, error: BaseException) -> None:
        """Note what a family raised.

        Raises:
            KeyboardInterrupt: it is one, which is the caller's.
        """
        if isinstance(error, KeyboardInterrupt):
            raise error
        # What was told to stop, and says that it did, has not failed; what fails when nobody waits is late.
        of = type(error)  # an error's own idea of its class is not to be trusted
        stopped = issubclass(of, StoreError | TimeoutError) and self.limits.native.passed
        if stopped or self.limits.retrieval.passed:
            return
        known = issubclass(of, PluginError | RuleFailed) and error.__cause__ is not None
        root = error.__cause__ if known and error.__cause__ is not None else error
        arrival.reason = "invalid" if issubclass(type(root), PoolInvariantError) else kind(root)
        arrival.error = self.explained(source.spec, error)
        if arrival.error is not error:
            arrival.error.__cause__ = root
