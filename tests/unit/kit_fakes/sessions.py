"""Logs of sessions that lose, reorder, or count what they should not."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from functools import partial
from typing import Any

import attrs

from kit_fakes.durable import Filed, filed
from kit_fakes.ledgers import folded
from kit_fakes.stores import broken as broken_store
from powerctx_core.types import Deadline, Item, Session, SessionKey

__all__: list[str] = []

CONTRACT = "sessions:SessionContract"
broken = partial(broken_store, contract=CONTRACT)


@broken("sessions.show", "test_no_session_at_first")
def makes_what_is_asked_for(sessions, honest, key, deadline):
    """Asking for a session makes it."""
    return honest(key, deadline) or Session(key=key)


@broken("sessions.show", "test_messages_come_in_order", "test_the_user_starts_turns", "test_any_text_comes_back",
        "test_the_last_messages_are_kept")  # fmt: skip
def sorts_by_time(sessions, honest, key, deadline):
    """The latest message comes first."""
    session = honest(key, deadline)
    return session and attrs.evolve(session, messages=session.messages[::-1])


@broken("sessions.add_message", "test_the_user_starts_turns")
def counts_every_message(sessions, honest, key, message):
    """What the assistant says is a turn, too."""
    turns = honest(key, attrs.evolve(message, role="user"))

    def told(draft: Any) -> int:
        session = draft.sessions[key]
        last = attrs.evolve(session.messages[-1], role=message.role)
        draft.sessions[key] = attrs.evolve(session, messages=(*session.messages[:-1], last))
        return 1

    sessions._commit(told)
    return turns


@broken("sessions.add_message", "test_any_text_comes_back", "test_the_user_starts_turns")
def knows_no_turn_ids(sessions, honest, key, message):
    """The client's ids of turns are dropped."""
    return honest(key, attrs.evolve(message, turn_id=None))


@broken("sessions.show", "test_the_last_messages_are_kept", "test_concurrent_messages_are_kept")
def keeps_ten(sessions, honest, key, deadline):
    """Ten messages are shown."""
    session = honest(key, deadline)
    return session and attrs.evolve(session, messages=session.messages[-10:])


@broken("sessions.show", "test_the_last_messages_are_kept")
def counts_what_is_kept(sessions, honest, key, deadline):
    """Messages that are not kept do not count."""
    session = honest(key, deadline)
    return session and attrs.evolve(session, count=len(session.messages))


@broken("sessions.set_overview", "test_overview_and_abstracts", "test_any_text_comes_back")
def keeps_the_first_overview(sessions, honest, key, text):
    """An overview stays as it was first."""
    session = sessions.show(key, Deadline())
    if session is None or session.overview is None:
        honest(key, text)


@broken("sessions.add_abstract", "test_overview_and_abstracts", "test_any_text_comes_back",
        "test_the_last_messages_are_kept")  # fmt: skip
def keeps_the_last_abstract(sessions, honest, key, text):
    """An abstract replaces the one before."""
    sessions._change(key, lambda session: attrs.evolve(session, abstracts=(text,)))


@broken("sessions.add_message sessions.set_overview sessions.show", "test_sessions_are_told_apart")
def knows_the_id_alone(sessions, honest, key, *more):
    """A session of one name is one session, in every scope, whatever its case."""
    session = honest(SessionKey("s", folded(key.session_id)), *more)
    return attrs.evolve(session, key=key) if isinstance(session, Session) else session


@broken("sessions.add_message", "test_any_text_comes_back")
def strips_blanks(sessions, honest, key, message):
    """White space at the ends of a message is lost."""
    return honest(key, attrs.evolve(message, text=message.text.strip()))


@broken("sessions.add_message", "test_sessions_change_nothing_else")
def stores_messages_as_items(sessions, honest, key, message):
    """What is said is found like knowledge."""
    item = Item(scope_id=key.scope_id, text=message.text or "-", artifact_id="said")
    sessions._commit(lambda draft: bool(draft.shelf(key.scope_id, "memory").write(item, message.at)))
    return honest(key, message)


@broken("sessions.add_message", "test_concurrent_messages_are_kept")
def reads_then_writes(sessions, honest, key, message):
    """Two messages that come at the same time lose one."""
    before = sessions.show(key, Deadline())
    time.sleep(0.002)
    if before is not None:
        sessions._commit(lambda draft: draft.sessions.update({key: before}) is None)
    return honest(key, message)


@filed("test_sessions_stay", contract=CONTRACT)
class Forgets_sessions(Filed):  # noqa: N801 - named as the fault
    """Opening the store again clears the sessions."""

    def opened(self):
        """Open the file, and delete the sessions."""
        store = super().opened()
        if self.count > 1:
            with closing(sqlite3.connect(self.path)) as connection, connection:
                connection.execute("DELETE FROM session")
                connection.execute("DELETE FROM session_text")
        return store

    @property
    def sessions(self):
        """The sessions."""
        return self.inner.sessions
