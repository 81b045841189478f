"""The calls that ask an opened store, and who is told of their answers."""

from __future__ import annotations

import attrs

from powerctx_core.engine import Engine
from powerctx_core.explanation import Explanation
from powerctx_core.observers import Observers
from powerctx_core.requests import ContextPack, FindRequest, Found, PreparedContext, PrepareRequest, SearchRequest
from powerctx_core.search.pipeline import Search
from powerctx_core.types import Deadline

__all__ = ["Asking"]


@attrs.frozen(kw_only=True)
class Asking:
    """Answers requests, and tells the sinks of each answer.  Thread-safe; calls block on the store.

    A call's *deadline* is of one that began earlier; by default it is :meth:`deadline` as of now.
    """

    engine: Engine
    observers: Observers
    _search: Search = attrs.field(
        init=False, default=attrs.Factory(lambda self: Search(engine=self.engine), takes_self=True)
    )

    def deadline(self, request: PrepareRequest | FindRequest | SearchRequest) -> Deadline:
        """Return when a call that begins now has to end."""
        return self._search.deadline(request) if isinstance(request, SearchRequest) else self.engine.deadline(request)

    def prepare(self, request: PrepareRequest, deadline: Deadline | None = None) -> PreparedContext:
        """Return what :meth:`Engine.prepare` does."""
        prepared = self.engine.prepare(request, deadline)
        self._tell(prepared)
        return prepared

    def find(self, request: FindRequest, deadline: Deadline | None = None) -> Found:
        """Return what :meth:`Engine.find` does."""
        found = self.engine.find(request, deadline)
        self._tell(found)
        return found

    def search(self, request: SearchRequest, deadline: Deadline | None = None) -> Found | ContextPack:
        """Return what :class:`Search` does."""
        found = self._search(request, deadline)
        self._tell(found)
        return found

    def explain(self, request: PrepareRequest | SearchRequest, deadline: Deadline | None = None) -> Explanation:
        """Return what :meth:`Engine.explain` or :meth:`Search.explain` does."""
        if isinstance(request, SearchRequest):
            explanation = self._search.explain(request, deadline)
        else:
            explanation = self.engine.explain(request, deadline)
        self._tell(explanation.response)
        return explanation

    def _tell(self, answer: PreparedContext | ContextPack | Found) -> None:
        """Tell the sinks; of receipts only those that were asked for."""
        self.observers.notify(answer.diagnostics)
        if not isinstance(answer, Found) and answer.receipt is not None:
            self.observers.notify(answer.receipt)
