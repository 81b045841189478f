"""Logs of sessions: messages, turns, overview and abstracts."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from powerctx_core.ports import Capability, Sessions, SessionStore, Store
from powerctx_core.testing.contracts.store import StoreContract
from powerctx_core.testing.database import Database
from powerctx_core.testing.threads import at_once
from powerctx_core.types import SESSION_MESSAGES, Deadline, Message, Session, SessionKey

__all__ = ["SessionContract"]

KEY = SessionKey("s", "session")


def say(role: str, text: str = "t", turn_id: str | None = None, *, second: float = 0) -> Message:
    """Return a message before it is added."""
    return Message(role=role, text=text, at=Database.at(second), turn_id=turn_id)


def shown(sessions: Sessions, key: SessionKey = KEY) -> Session:
    """Return a session, which has to be there."""
    session = sessions.show(key, Deadline())

    assert session is not None, f"session {key.session_id!r} of scope {key.scope_id!r} is not there"
    return session


class SessionContract(StoreContract):
    """What a store that keeps logs of sessions must hold to."""

    @pytest.fixture
    def sessions(self, store: Store) -> Sessions:
        """Give the sessions of a fresh store."""
        return cast("SessionStore", store).sessions

    def test_no_session_at_first(self, sessions: Sessions) -> None:
        """A session that nobody has written to is not there, and asking for it makes none."""
        assert sessions.show(KEY, Deadline()) is None
        assert sessions.turns(KEY, Deadline()) is None
        assert sessions.show(KEY, Deadline()) is None

    def test_messages_come_in_order(self, sessions: Sessions) -> None:
        """Messages are there as they were added, in that order, whatever their times say."""
        said = [("user", "one", 3.5), ("assistant", "two", 1.25), ("tool", "three", 2), ("system", "four", 0)]
        for role, text, second in said:
            sessions.add_message(KEY, say(role, text, second=second))
        session = shown(sessions)

        assert [(m.role, m.text, m.at) for m in session.messages] == [(r, t, Database.at(at)) for r, t, at in said]
        assert session.count == 4
        assert session.key == KEY

    def test_the_user_starts_turns(self, sessions: Sessions) -> None:
        """Only messages of the user start a turn, and those that bear its id belong to the turn that runs."""
        said = [
            ("system", None, 0), ("user", None, 1), ("assistant", None, 1), ("user", "x", 2), ("tool", "x", 2),
            ("user", "x", 2), ("assistant", "y", 2), ("user", "y", 3), ("user", None, 4), ("user", None, 5),
        ]  # fmt: skip
        turns = [sessions.add_message(KEY, say(role, turn_id=turn_id)) for role, turn_id, _ in said]
        session = shown(sessions)

        assert turns == [turn for _, _, turn in said]
        assert [(m.role, m.turn_id, m.turn) for m in session.messages] == said
        assert session.turns == sessions.turns(KEY, Deadline()) == 5

    def test_the_last_messages_are_kept(self, sessions: Sessions) -> None:
        """Of many messages and abstracts the last twenty are there, and all are counted."""
        for number in range(SESSION_MESSAGES + 3):
            sessions.add_message(KEY, say("user", str(number)))
            sessions.add_abstract(KEY, str(number))
        session = shown(sessions)
        last = [str(number) for number in range(3, SESSION_MESSAGES + 3)]

        assert [message.text for message in session.messages] == last
        assert list(session.abstracts) == last
        assert (session.count, session.turns) == (SESSION_MESSAGES + 3, SESSION_MESSAGES + 3)

    def test_overview_and_abstracts(self, sessions: Sessions) -> None:
        """Each of them makes a session; an overview replaces the one before, an abstract comes behind the others."""
        sessions.set_overview(KEY, "first")
        assert shown(sessions).overview == "first"
        sessions.add_abstract(KEY, "one")
        sessions.set_overview(KEY, "second")
        sessions.add_abstract(KEY, "two")
        session = shown(sessions)

        assert (session.overview, session.abstracts) == ("second", ("one", "two"))
        assert (session.turns, session.messages) == (0, ())
        assert sessions.turns(KEY, Deadline()) == 0
        other = SessionKey("s", "other")
        sessions.add_abstract(other, "alone")
        assert (shown(sessions, other).abstracts, shown(sessions, other).overview) == (("alone",), None)

    def test_sessions_are_told_apart(self, sessions: Sessions) -> None:
        """Sessions and scopes whose names differ in case, accent, width or a space at the end share nothing."""
        names = ["a", "A", "á", "a\u0301", "ａ", "a ", "a%", "😀", "资料", "资" * 42]
        keys = [*(SessionKey("s", name) for name in names), *(SessionKey(name, "session") for name in names)]
        for number, key in enumerate(keys):
            sessions.add_message(key, say("user", str(number)))
            sessions.set_overview(key, str(number))
        found = [shown(sessions, key) for key in keys]

        assert [(s.turns, s.overview, s.messages[0].text) for s in found] == [
            (1, str(number), str(number)) for number in range(len(keys))
        ]

    def test_any_text_comes_back(self, sessions: Sessions) -> None:
        """Texts are kept character by character: white space, line ends, NUL, and the longest that items may have."""
        texts = [" a \r\n\tb ", "\x00\x85\u2028", "资料😀e\u0301\u202e", "'; DROP TABLE session; --", "x" * (1 << 20)]
        for text in texts:
            sessions.add_message(KEY, say("user", text, turn_id=text[:100]))
            sessions.add_abstract(KEY, text)
            sessions.set_overview(KEY, text)
            assert shown(sessions).overview == text
        session = shown(sessions)

        assert [message.text for message in session.messages] == texts
        assert [message.turn_id for message in session.messages] == [text[:100] for text in texts]
        assert list(session.abstracts) == texts

    def test_sessions_change_nothing_else(self, db: Database, sessions: Sessions) -> None:
        """Revisions, what is found and their order stay as they are, and messages are no items."""
        db.add("a", "t")
        before = db.listing(), db.history("a"), db.found("t")
        sessions.add_message(KEY, say("user", "t"))
        sessions.set_overview(KEY, "t")
        sessions.add_abstract(KEY, "t")

        assert before == (db.listing(), db.history("a"), db.found("t"))

    def test_concurrent_messages_are_kept(self, sessions: Sessions) -> None:
        """Messages added on several threads are all there, each in a turn of its own."""

        def talk() -> list[int]:
            return [sessions.add_message(KEY, say("user")) for _ in range(5)]

        turns = [turn for turns in at_once(*[talk] * 4) for turn in turns]
        session = shown(sessions)

        assert sorted(turns) == list(range(1, 21))
        assert session.count == session.turns == len(session.messages) == 20

    @pytest.mark.needs(Capability.DURABLE)
    def test_sessions_stay(self, sessions: Sessions, reopen: Callable[[], Store]) -> None:
        """A session is there when the store is opened again, and its turn goes on."""
        sessions.add_message(KEY, say("user", turn_id="x"))
        sessions.set_overview(KEY, "about")
        again = cast("SessionStore", reopen()).sessions

        assert again.add_message(KEY, say("user", turn_id="x")) == 1
        session = shown(again)
        assert (session.overview, session.count, session.turns) == ("about", 2, 1)
