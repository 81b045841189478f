"""The session of one call: asked beside what else is looked for, and told of what was delivered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from functools import partial

import attrs

from powerctx_core.engine import Engine
from powerctx_core.errors import PowerctxError, StoreError
from powerctx_core.recall.fetch import Limits
from powerctx_core.requests import SearchRequest
from powerctx_core.search.turns import Turn, start_of, turn_of
from powerctx_core.types import RawCandidate, Session, SessionKey

__all__ = ["SessionCall"]

_LANE = "store:sessions"
_LEDGER_LANE = "store:ledger"
"""Apart, so that a ledger that cannot be written keeps nobody from reading it."""


@attrs.frozen(kw_only=True)
class SessionCall:
    """A session during one call.  It never holds the call up.

    Attributes:
        late: takes ``session`` when it was not ready in time.
        errors: takes what went wrong without hindering the answer.
    """

    engine: Engine
    request: SearchRequest
    limits: Limits
    late: list[str]
    errors: list[str]

    def ask(self, dedup_turns: int) -> Callable[[], Turn | None]:
        """Begin to ask for the turn, and return what waits for it: ``None`` when it is late.

        Raises:
            CapabilityError: the store keeps no sessions.
        """
        return self._asking(turn_of, dedup_turns)

    def start(self, dedup_turns: int, logs: Sequence[Session | None]) -> Turn | None:
        """Return the turn of a call that gives an agent what it starts with: ``None`` when it is late.

        Args:
            dedup_turns: as of the request.
            logs: the session's log, where the call has read it.

        Raises:
            CapabilityError: the store keeps no sessions.
        """
        return self._asking(partial(start_of, logs=logs), dedup_turns)()

    def _asking(self, turn_of: Callable[..., Turn], dedup_turns: int) -> Callable[[], Turn | None]:
        self.engine.state.check()
        key = SessionKey(self.request.scope_id, self.request.session_id or "")

        def ask() -> Turn:
            # A state store is opened here, where it holds nobody up.
            return turn_of(self.engine.state(), key, dedup_turns, self.request.turn, self.limits.native)

        if self.limits.call.at is None:
            return partial(self._blamed, ask)
        asked = self.engine.lanes.ask(_LANE, ask)
        return partial(self._blamed, partial(self._awaited, asked))

    def _blamed(self, ask: Callable[[], Turn | None]) -> Turn | None:
        with self.engine.blame():
            return ask()

    def _awaited(self, asked: Future[Turn] | None) -> Turn | None:
        if asked is not None:
            try:
                wait([asked], self.limits.retrieval.remaining())
            finally:
                if not asked.done():
                    self.engine.lanes.leave(_LANE, asked)
            if asked.done() and not asked.cancelled():
                try:
                    return asked.result()
                except StoreError:
                    if not self.limits.native.passed:
                        raise
        # A session that is late repeats itself rather than hold up the call.
        self.late.append("session")
        return None

    def record(self, turn: Turn, delivered: Iterable[tuple[RawCandidate, str]]) -> int:
        """Record what is delivered, and the detail of each; an answer that is decided is not lost when that fails."""
        job = partial(turn.record, self.engine.state(), delivered)
        limit = self.engine.settings.retrieval.ledger_timeout_s
        left = self.limits.call.remaining()
        try:
            with self.engine.blame():
                # It is still done, as soon as whoever holds the store lets go of it; nobody waits for it longer.
                future = self.engine.lanes.queue(_LEDGER_LANE, job)
                wait([future], limit if left is None else min(limit, left))
                if future.done():
                    return future.result()
        except PowerctxError as error:
            self.errors.append(f"dedup_turns: {error}")
            return 0
        self.late.append("session")
        self.errors.append(
            "dedup_turns: the store did not record in time what is delivered, so that a later turn may be given it "
            f"again; retrieval.ledger_timeout_s is {limit:g}."
        )
        return 0
