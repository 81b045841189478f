"""Fan-out: asks the families of one call, each on a worker of its own, and stops waiting at the deadline.

A family is asked for its scopes in turn and leaves behind what it has finished, so that what has arrived counts.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager
from functools import partial
from typing import Protocol, Self

import attrs

from powerctx_core.errors import PluginError, PoolInvariantError, PowerctxError, StoreError, kind
from powerctx_core.ports import AdmissionRule, Call, Family, RetrievalRequest, Snapshot, VectorIndex
from powerctx_core.recall.checks import check_admission, check_pool
from powerctx_core.recall.embedding import QueryEmbeddings
from powerctx_core.recall.fusion import fuse
from powerctx_core.recall.policy import RecallPolicy
from powerctx_core.recall.stages import Stages
from powerctx_core.records import FamilySpec
from powerctx_core.types import AdmissionCounts, AdmissionFloor, Deadline, Hit, Key, Pool, RawCandidate

__all__ = ["Fetch", "Fetched", "Group", "Limits", "RuleFailed", "Source", "Waiting"]

_LOGGER = logging.getLogger("powerctx")

_RESERVE_S, _RESERVE_SHARE = 0.02, 0.25
"""What a call keeps for merging, planning and rendering: so many seconds, or this share of a short deadline."""
_STEPS = 4


class RuleFailed(Exception):
    """A family's admission rule raised its ``__cause__``."""


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
        reserve = min(_RESERVE_S, left * _RESERVE_SHARE)
        step = reserve / _STEPS
        at = call.at - reserve
        return cls(call=call, retrieval=Deadline(at), native=Deadline(at - step), embedding=Deadline(at - step - step))


@attrs.frozen(kw_only=True)
class Group:
    """What one family gave for one scope: the window of fused hits, and what is reported of its pool.

    Attributes:
        matched: the pool had members, before admission.
        items: stored in the partition.
        late: channels that did not answer in time.
        candidates: members of the pool by key, admitted or not.
        ranked: what was admitted, by channel.
        at: returns what the same pool gives at another floor; asks nobody, and may raise what the admission rule does.
    """

    counts: AdmissionCounts
    hits: Sequence[Hit]
    mode: str
    terms: tuple[str, ...]
    matched: bool
    items: int
    late: frozenset[str]
    candidates: Mapping[Key, RawCandidate] = attrs.field(repr=False)
    ranked: Mapping[str, Sequence[tuple[Key, float]]]
    at: Callable[[AdmissionFloor], Group] = attrs.field(eq=False, repr=False)


@attrs.frozen(kw_only=True)
class Source:
    """A family to ask.

    Attributes:
        requests: one a scope, in the order of the scopes.
        ceiling: hits that are kept of each scope.
        make: returns the family and its admission rule, which are made at their first use; may block.
    """

    spec: FamilySpec
    requests: tuple[RetrievalRequest, ...]
    ceiling: int
    make: Callable[[], tuple[Family, AdmissionRule]]


@attrs.frozen(kw_only=True)
class Fetched:
    """What has arrived.

    Attributes:
        groups: family -> its groups, in the order of sources and scopes, whatever arrived first.
        late: families and ``family:channel`` that did not answer in time.
        failed: family -> a word for why the call went on without it.
    """

    groups: Mapping[str, tuple[Group, ...]]
    late: frozenset[str]
    failed: Mapping[str, str]


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

    def __call__(self, sources: Sequence[Source], workers: Waiting) -> Fetched:
        """Ask all sources and return what has arrived when all are done, or the time of retrieval is over.

        A single source is asked on the caller's thread when there is no deadline.

        Raises:
            PowerctxError: a family failed, and *degrade* is off; of several, the first in their order.
        """
        arrivals = [_Arrival() for _ in sources]
        if len(sources) == 1 and self.limits.call.at is None:
            self._retrieve(sources[0], arrivals[0])
        elif not self.limits.native.passed:
            self._fan_out(sources, arrivals, workers)
        groups: dict[str, tuple[Group, ...]] = {}
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
        return Fetched(groups=groups, late=frozenset(late), failed=failed)

    def _fan_out(self, sources: Sequence[Source], arrivals: Sequence[_Arrival], workers: Waiting) -> None:
        jobs: dict[str, Future[None]] = {}
        waiting = {
            source.spec.name: partial(self._retrieve, source, arrival)
            for source, arrival in zip(sources, arrivals, strict=True)
        }
        try:
            # Nobody waits behind a family whose last worker is late, so the others are asked first.
            for patient in (False, True):
                for name in [name for name in waiting if name not in jobs]:
                    patience = self.limits.native.remaining() if patient else 0.0
                    if (job := workers.ask(name, waiting[name], patience)) is not None:
                        jobs[name] = job
            wait(jobs.values(), self.limits.retrieval.remaining())
        finally:
            for source, arrival in zip(sources, arrivals, strict=True):
                job = jobs.get(source.spec.name)
                if job is not None and not job.done():
                    arrival.left = True
                    workers.leave(source.spec.name, job)
        for job in jobs.values():
            if job.done() and not job.cancelled():
                job.result()  # KeyboardInterrupt is the caller's

    def _retrieve(self, source: Source, arrival: _Arrival) -> None:
        """Ask one family for all its scopes; runs on a worker, and on after nobody waits any more."""
        if self.limits.native.passed:
            return
        try:
            parts = source.make()
            with self.snapshot(self.limits.native) as snapshot:
                for request in source.requests:
                    if self.limits.native.passed:
                        return
                    self._scope(source, request, parts, snapshot, arrival)
        except KeyboardInterrupt:  # the caller's
            raise
        except BaseException as error:  # noqa: BLE001 - kept, and raised by whoever waits
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

    def _scope(
        self,
        source: Source,
        request: RetrievalRequest,
        parts: tuple[Family, AdmissionRule],
        snapshot: Snapshot,
        arrival: _Arrival,
    ) -> None:
        family, rule = parts
        before = arrival.groups

        def offer(pool: object) -> None:
            missing = frozenset(request.weights) - frozenset(getattr(pool, "channels", ()))
            arrival.groups = (*before, self._group(source, request, rule, pool, missing))

        call = Call(
            deadline=self.limits.native,
            catalogue=snapshot,
            vectors=self.vectors,
            embed=self.embeddings,
            profile=self.embeddings.profile,
            offer=offer,
        )
        with self.stages("retrieve"):
            pool = family.retrieve(request, call)
        wanted = source.spec.vectors and request.weights.get("vector", 0.0) > 0.0
        missing = frozenset({"vector"} if wanted and self.embeddings.late else ())
        arrival.groups = (*before, self._group(source, request, rule, pool, missing))

    def _group(
        self,
        source: Source,
        request: RetrievalRequest,
        rule: AdmissionRule,
        returned: object,
        missing: frozenset[str],
    ) -> Group:
        """Check what a family returned, and admit and fuse it at the floor of the policy."""
        if inspect.iscoroutine(returned):
            returned.close()
        pool = check_pool(returned, request, source.spec.identity)
        late = pool.late | (missing - frozenset(pool.channels))
        with self.stages("assess"):
            return _Admitting(source, request, rule, pool, late, self.policy)(self.policy.floor)


@attrs.frozen
class _Admitting:
    """A checked pool of one family and scope, which can be admitted and fused at any floor."""

    source: Source
    request: RetrievalRequest
    rule: AdmissionRule
    pool: Pool
    late: frozenset[str]
    policy: RecallPolicy

    def __call__(self, floor: AdmissionFloor) -> Group:
        """Return what *floor* lets in.

        Raises:
            RuleFailed: the admission rule raised, or broke its contract.
        """
        pool, request = self.pool, self.request
        try:
            admission = check_admission(pool, self.rule.admit(pool, request.terms, floor))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise RuleFailed(self.source.spec.admission) from error
        hits = fuse(pool, admission, self.policy, weights=request.weights, query=request.terms)
        return Group(
            counts=admission.counts,
            hits=hits[: self.source.ceiling],
            mode=pool.mode,
            terms=tuple(pool.terms),
            matched=any(pool.channels.values()),
            items=pool.statistics.items,
            late=self.late,
            candidates=pool.candidates,
            ranked=admission.ranked,
            at=self,
        )
