"""Sessions and their ledgers in memory, in the state that the catalogue publishes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from powerctx_core.memory_state import Draft, State
from powerctx_core.ports import Recording
from powerctx_core.types import SESSION_MESSAGES, Deadline, Delivered, Message, Session, SessionKey, settled

__all__ = ["MemoryLedger", "MemorySessions"]

_Commit = Callable[[Callable[[Draft], int]], int]


class _Stated:
    """A part over the state of a catalogue in memory.

    Args:
        state: returns the state of this moment.
        commit: publishes what a change makes of a draft.
    """

    def __init__(self, state: Callable[[], State], commit: _Commit) -> None:
        self._state = state
        self._commit = commit


class MemoryLedger(_Stated):
    """A :class:`powerctx_core.ports.Ledger`."""

    def delivered(self, key: SessionKey, deadline: Deadline) -> Mapping[str, Delivered]:  # noqa: ARG002 - as for a snapshot
        """Return what is remembered of a session, by URI."""
        return dict(self._state().ledgers.get(key, {}))

    def record(self, recording: Recording) -> None:
        """Remember deliveries."""

        def change(draft: Draft) -> int:
            known = draft.ledgers.get(recording.key, {})
            draft.ledgers[recording.key] = settled(known, recording.delivered, recording.oldest)
            return 1

        if recording.delivered:
            self._commit(change)


class MemorySessions(_Stated):
    """A :class:`powerctx_core.ports.Sessions`."""

    def add_message(self, key: SessionKey, message: Message) -> int:
        """Add a message and return how many user turns there are now."""
        turns = 0

        def change(draft: Draft) -> int:
            nonlocal turns
            session = draft.sessions.get(key) or Session(key=key)
            turns = session.turns + session.starts_turn(message)
            added = attrs.evolve(message, turn=turns)
            draft.sessions[key] = attrs.evolve(
                session,
                turns=turns,
                turn_id=message.turn_id if message.role == "user" else session.turn_id,
                messages=(*session.messages, added)[-SESSION_MESSAGES:],
                count=session.count + 1,
            )
            return 1

        self._commit(change)
        return turns

    def set_overview(self, key: SessionKey, text: str) -> None:
        """Replace the overview."""
        self._change(key, lambda session: attrs.evolve(session, overview=text))

    def add_abstract(self, key: SessionKey, text: str) -> None:
        """Add an abstract of a part of the session."""
        self._change(
            key, lambda session: attrs.evolve(session, abstracts=(*session.abstracts, text)[-SESSION_MESSAGES:])
        )

    def turns(self, key: SessionKey, deadline: Deadline) -> int | None:  # noqa: ARG002 - as for a snapshot
        """Return how many user turns there were, or ``None`` when the session has no log."""
        session = self._state().sessions.get(key)
        return None if session is None else session.turns

    def show(self, key: SessionKey, deadline: Deadline) -> Session | None:  # noqa: ARG002 - as for a snapshot
        """Return the session, or ``None`` when it has no log."""
        return self._state().sessions.get(key)

    def _change(self, key: SessionKey, change: Callable[[Session], Session]) -> None:
        def changed(draft: Draft) -> int:
            draft.sessions[key] = change(draft.sessions.get(key) or Session(key=key))
            return 1

        self._commit(changed)
