"""Asks candidate providers: each what it has for one slot; a failure bears the provider's name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from datetime import datetime
from functools import cache, partial
from itertools import islice

import attrs

from powerctx_core.engine import Engine
from powerctx_core.errors import PluginError, PowerctxError, StoreError, cause, made_safe, shown
from powerctx_core.ports import Call, Offered, Provider, ProviderRequest, Snapshot
from powerctx_core.recall.checks import candidate_problem, is_text
from powerctx_core.recall.fetch import Limits
from powerctx_core.requests import SearchRequest
from powerctx_core.secrecy import secrets
from powerctx_core.slot_sources import NOTES
from powerctx_core.types import RawCandidate, Session, SessionKey

__all__ = ["HOOK", "Asking"]

HOOK = "powerctx_candidate_providers"


@attrs.frozen(kw_only=True)
class Asking:
    """The providers of one call.

    Attributes:
        late: takes the names of those that were not ready in time.
        failed: takes the names of those that failed, and why, when the call goes on without them.
        logs: takes the log of the session, or ``None`` where it has none, when a provider reads it.
    """

    engine: Engine
    request: SearchRequest
    limits: Limits
    lifecycle: str
    now: datetime
    max_tokens: int
    late: list[str]
    failed: dict[str, str]
    logs: list[Session | None]

    def __call__(self, names: Sequence[str]) -> Mapping[str, Offered]:
        """Return what each provider offers, in one view of the store; under a deadline, each on a worker of its own.

        Raises:
            PluginError: a provider failed or broke its contract, and failures are not gone on without.
            StoreError: the store failed.
        """
        answers = self._together(names) if self.limits.call.at is None else self._apart(names)
        offers = {}
        for name, answer in answers.items():
            if isinstance(answer, Offered):
                offers[name] = answer
            elif (self.request.on_family_error or self.engine.settings.recall.on_family_error) != "degrade":
                raise answer
            else:
                self.failed[name] = "invalid" if isinstance(answer, _Invalid) else type(answer).__name__
        return offers

    def _together(self, names: Sequence[str]) -> dict[str, Offered | PowerctxError]:
        with self.engine.blame(), self.engine.store.catalogue.snapshot(self.limits.native) as view:
            request = self._asked(view)
            return {name: self._answer(name, request, view) for name in names}

    def _apart(self, names: Sequence[str]) -> dict[str, Offered | PowerctxError]:
        jobs: dict[str, Future[dict[str, Offered | PowerctxError]]] = {}
        try:
            for name in names:
                job = self.engine.lanes.ask(f"provider:{name}", partial(self._together, [name]))
                if job is not None:
                    jobs[name] = job
            wait(jobs.values(), self.limits.retrieval.remaining())
        finally:
            for name, job in jobs.items():
                if not job.done():
                    self.engine.lanes.leave(f"provider:{name}", job)
        answers: dict[str, Offered | PowerctxError] = {}
        for name in names:
            found = self._arrived(jobs.get(name))
            if found is None:
                self.late.append(f"provider:{name}")
            else:
                answers |= found
        return answers

    def _arrived(
        self, job: Future[dict[str, Offered | PowerctxError]] | None
    ) -> dict[str, Offered | PowerctxError] | None:
        if job is None or not job.done() or job.cancelled():
            return None
        try:
            found = job.result()
        except StoreError:
            if self.limits.native.passed:
                return None
            raise
        # What fails once it has to end was stopped.
        broken = any(not isinstance(answer, Offered | _Invalid) for answer in found.values())
        return None if broken and self.limits.native.passed else found

    def _asked(self, view: Snapshot) -> ProviderRequest:
        request = self.request

        def counts() -> Mapping[str, int]:
            return {each.family: count for each, count in view.partitions(request.scope_id).items()}

        def session() -> Session | None:
            if request.session_id is None or not self.engine.state.keeps:
                return None
            log = self.engine.state().sessions.show(
                SessionKey(request.scope_id, request.session_id), self.limits.native
            )
            self.logs.append(log)
            return log

        return ProviderRequest(
            scope_id=request.scope_id,
            mode=request.mode,
            lifecycle=self.lifecycle,
            now=self.now,
            max_tokens=self.max_tokens,
            query=request.query,
            session_id=request.session_id,
            actor=request.actor,
            peer_scope=request.peer_scope or "all",
            counts=cache(counts),
            session=cache(session),
        )

    def _answer(self, name: str, request: ProviderRequest, view: Snapshot) -> Offered | PowerctxError:
        """Return what a provider offers, or the error to raise for what it raised."""
        call = Call(deadline=self.limits.native, catalogue=view)
        try:
            provider: Provider = self.engine.host.part(HOOK, name)
            return self._checked(name, provider.candidates(request, call))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - it is raised where the order of the providers says
            return self._explained(name, error)

    def _checked(self, name: str, offered: object) -> Offered:
        if not isinstance(offered, Offered):
            raise self._broken(name, f"offers {shown(offered)}, not an Offered")
        candidates = tuple(islice(offered.candidates, _MOST + 1))
        if len(candidates) > _MOST:
            raise self._broken(name, f"offers more than {_MOST} candidates")
        own = self.engine.host.own(HOOK, name)
        for each in candidates:
            if not isinstance(each, RawCandidate):
                raise self._broken(name, f"offers {shown(each)}, not a RawCandidate")
            if each.address.scope_id != self.request.scope_id:
                raise self._broken(name, f"offers {shown(each.address.uri)}, which belongs to another scope")
            if each.address.family == NOTES and not own:
                raise self._broken(name, f"offers {shown(each.address.uri)}, whose family is core's own")
            if not all(map(is_text, (each.head, each.title or "", each.abstract or ""))):
                raise self._broken(name, f"offers {shown(each.address.uri)} with a text that is not Unicode")
            # What core's own offer is what the store lists.
            if not own and (problem := candidate_problem(each, self.request.scope_id)):
                raise self._broken(name, f"offers a candidate that is none: {problem}")
        among = dict(offered.among)
        if not all(isinstance(family, str) and type(count) is int and count >= 0 for family, count in among.items()):
            raise self._broken(name, f"offers among={shown(among)}, not a whole number from 0 up for each family")
        return attrs.evolve(offered, candidates=candidates, among=among)

    def _broken(self, name: str, what: str) -> PowerctxError:
        return _Invalid(f"{self._title(name)} {what}; {_WITHOUT}")

    def _title(self, name: str) -> str:
        return f"The candidate provider {name!r} of {self.engine.host.provider(HOOK, name)}"

    def _explained(self, name: str, error: BaseException) -> PowerctxError:
        hidden = secrets(self.engine.settings, name) | self.engine.blame.hidden
        if isinstance(error, PowerctxError):
            own = isinstance(error, _Invalid) or self.engine.host.own(HOOK, name)
            return made_safe(error, hidden, "" if own else self._title(name))
        if self.engine.host.own(HOOK, name):  # core's providers raise nothing of their own
            return self.engine.blame.error(error)
        return PluginError(f"{self._title(name)} failed: {cause(error, hidden)}; {_WITHOUT}")


_MOST = 1000
"""Candidates of one provider: more than any budget holds."""
_WITHOUT = "go on without it (on_family_error degrade), give its slot the share 0, or ask its author."


class _Invalid(PluginError):
    """A provider broke its contract."""
