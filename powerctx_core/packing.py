"""From candidates to text with the parts of a host: makes renderer and estimator, bounds them, and names what fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from functools import partial
from math import isfinite
from typing import TypeVar

import attrs

from powerctx_core.assemble.budget import Budget, meters
from powerctx_core.assemble.delivery import plan_split
from powerctx_core.assemble.fit import Plan, plan
from powerctx_core.config import Settings
from powerctx_core.errors import PlanInvariantError, PluginError, cause, safe_message, said, shown
from powerctx_core.host import Host
from powerctx_core.ports import Selection, TokenEstimator
from powerctx_core.requests import PrepareRequest
from powerctx_core.secrecy import secrets
from powerctx_core.types import NOTHING_TO_READ, Candidate, Deadline, Hit
from powerctx_core.workers import Lanes

__all__ = ["Packing"]

_T = TypeVar("_T")
_GRACE_S = 0.01
"""How long after the deadline a text that is nearly ready is waited for, so that a busy machine still delivers."""


@attrs.frozen(kw_only=True)
class Packing:
    """Chooses and renders entries.  Thread-safe."""

    host: Host
    settings: Settings
    lanes: Lanes

    def pack(
        self,
        request: PrepareRequest,
        hits: Sequence[Hit],
        budget: Budget,
        *,
        shown: Callable[[Hit], Candidate],
        selection: Selection,
        layers: Mapping[str, str],
        deadline: Deadline,
        before: Plan | None = None,
    ) -> Plan | None:
        """Return the plan, or ``None`` when the renderer does not get ready by *deadline*.

        Under a deadline a plugin's renderer works on a worker: it may hang, or its factory, or that of an estimator.
        *shown* returns what a renderer sees of a hit; *before* is a plan of other hits for the same request: what both
        begin with is not rendered again.

        Raises:
            PlanInvariantError: the renderer failed or broke its contract.
            PluginError: the token estimator failed.
        """
        if not hits:
            return Plan(text=None, entries=(), tools=NOTHING_TO_READ if request.delivery == "split" else None)
        job = partial(self._plan, request, hits, budget, selection, layers, shown=shown, before=before)
        return self.bounded(job, request.renderer, deadline, counts_tokens=_counts_tokens(request))

    def bounded(self, job: Callable[[], _T], renderer: str, deadline: Deadline, *, counts_tokens: bool) -> _T | None:
        """Return what *job* makes with a renderer, or ``None`` when it is not ready by *deadline*.

        Args:
            job: to be done; errors of the renderer in it belong in :meth:`blamed`.
            renderer: its name.
            deadline: of the call; under one a plugin's parts work on a worker, since they may hang.
            counts_tokens: the job needs the token estimator, too.
        """
        if deadline.at is None or self._own_parts(renderer, counts_tokens=counts_tokens):
            return job()
        lane = f"renderer:{renderer}"
        future = self.lanes.queue(lane, job)
        try:
            wait([future], (deadline.remaining() or 0.0) + _GRACE_S)
        finally:
            if not future.done():
                self.lanes.leave(lane, future)
        return future.result() if future.done() and not future.cancelled() else None

    def _own_parts(self, renderer: str, *, counts_tokens: bool) -> bool:
        """Tell whether renderer and estimator are core's, which do not hang."""
        estimator = self.settings.tokens.estimator
        return self.host.own("powerctx_renderers", renderer) and (
            not counts_tokens or self.host.own("powerctx_token_estimators", estimator)
        )

    @contextmanager
    def blamed(self, renderer: str) -> Iterator[None]:
        """Name the renderer for what is raised in the block, failures of the token estimator aside.

        Raises:
            PlanInvariantError: instead of what was raised.
        """
        try:
            yield
        except (_EstimatorFailed, KeyboardInterrupt):
            raise
        except BaseException as error:
            provider = self.host.provider("powerctx_renderers", renderer)
            hidden = secrets(self.settings, renderer)
            known = type(error) is PlanInvariantError
            what = safe_message(said(error), hidden) if known else cause(error, hidden)
            raise PlanInvariantError(
                f"renderer {renderer!r} of {provider} failed: {what}; use another renderer or ask its author."
            ) from error

    def _plan(
        self,
        request: PrepareRequest,
        hits: Sequence[Hit],
        budget: Budget,
        selection: Selection,
        layers: Mapping[str, str],
        *,
        shown: Callable[[Hit], Candidate],
        before: Plan | None,
    ) -> Plan:
        name = request.renderer
        renderer = self.host.part("powerctx_renderers", name)
        estimator = self.estimator() if _counts_tokens(request) else None
        with self.blamed(name):
            found = meters(budget, estimator)
            if request.delivery == "split":
                own = meters(Budget(max_items=0, max_tokens=request.inject_max_tokens), estimator)
                return plan_split(
                    hits,
                    budget,
                    meters=found,
                    inject_meters=own,
                    renderer=renderer,
                    selection=selection,
                    layers=layers,
                    shown=shown,
                )
            return plan(hits, budget, found, renderer, selection, shown=shown, before=before)

    def estimator(self) -> TokenEstimator:
        """Return the token estimator in force; what goes wrong in it bears its name."""
        name = self.settings.tokens.estimator
        part = self.host.part("powerctx_token_estimators", name)
        title = f"token estimator {name!r} of {self.host.provider('powerctx_token_estimators', name)}"
        return _Estimator(title, part, secrets(self.settings, name))


def _counts_tokens(request: PrepareRequest) -> bool:
    return request.max_tokens is not None or request.inject_max_tokens is not None


class _EstimatorFailed(PluginError):
    """A token estimator failed."""


@attrs.frozen
class _Estimator:
    """A token estimator whose failures bear its name."""

    title: str
    part: TokenEstimator
    hidden: Iterable[str]

    def cost(self, text: str) -> float:
        """Return what the part says.

        Raises:
            PluginError: it failed, or says what is no cost.
        """
        try:
            cost = self.part.cost(text)
            if type(cost) in (int, float) and isfinite(cost) and cost >= 0:
                return cost
            what = safe_message(f"a text costs {shown(cost)}, not a number from 0 up", self.hidden)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            what = cause(error, self.hidden)
            raise self._failed(what) from error
        raise self._failed(what)

    def _failed(self, what: str) -> PluginError:
        return _EstimatorFailed(
            f"The {self.title} failed: {what}; set tokens.estimator to another one or ask its author."
        )
