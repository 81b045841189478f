"""The sessions of an opened store, as callers write and read them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import cast

from powerctx_core.blame import Blame
from powerctx_core.errors import CapabilityError, InvalidRequest, NotFound, redacted_url, shown
from powerctx_core.ports import Sessions, SessionStore, Store
from powerctx_core.types import (
    ROLES,
    SESSION_ID_BYTES,
    TEXT_BYTES,
    Deadline,
    Message,
    Session,
    SessionKey,
    check_identifier,
    utf8_size,
)

__all__ = ["SessionLogs", "StateStore"]


class StateStore:
    """What keeps the sessions of an opened store: itself, or else the store of the setting ``state``.

    The latter is opened when it is first asked for.  Thread-safe.
    """

    def __init__(self, store: Store, url: str | None, open_store: Callable[[str], Store]) -> None:
        self._own = store if isinstance(store, SessionStore) else None
        self._url = url
        self._open = open_store
        self._lock = threading.Lock()
        self._opened: SessionStore | None = None

    @property
    def keeps(self) -> bool:
        """Whether sessions are kept at all."""
        return self._own is not None or self._url is not None

    def check(self) -> None:
        """Raise CapabilityError when no sessions are kept."""
        if not self.keeps:
            raise CapabilityError(
                "sessions need a store that keeps them, which this one does not; let the setting state name one that "
                "does, such as sqlite:///state.db, use another store, or leave session_id out."
            )

    def __call__(self) -> SessionStore:
        """Return the store that keeps sessions.

        Raises:
            CapabilityError: none does, or that of the setting does not.
            StoreUnavailable: that of the setting cannot be opened.
        """
        self.check()
        if self._own is not None or self._url is None:
            return cast("SessionStore", self._own)
        with self._lock:
            if self._opened is None:
                opened = self._open(self._url)
                if not isinstance(opened, SessionStore):
                    opened.close()
                    raise CapabilityError(
                        f"the setting state is {redacted_url(self._url)}, a store that keeps no sessions; name one "
                        "that does, such as sqlite:///state.db."
                    )
                self._opened = opened
            return self._opened

    def forget(self, artifacts: Sequence[tuple[str, str, str]]) -> None:
        """Forget that anybody was given artifacts that are purged, where another store knows of it."""
        if self._own is None and self._url is not None:
            self().catalogue.purge(artifacts)


class SessionLogs:
    """What was said in sessions, and what they are about.

    Each belongs to one scope.  The first write makes a session.  The last 20 messages and abstracts are kept; turns of
    the user are the clock by which ``dedup_turns`` counts.  Thread-safe; calls block on the store.
    """

    def __init__(self, state: StateStore, blame: Blame, check_open: Callable[[], None]) -> None:
        self._state = state
        self._blame = blame
        self._check_open = check_open

    def add_message(self, session_id: str, role: str, text: str, *, scope_id: str, turn_id: str | None = None) -> int:
        """Add a message and return how many user turns there are now.

        Args:
            session_id: at most 128 UTF-8 bytes.
            role: ``user`` starts a turn; ``assistant``, ``system``, ``tool`` do not.
            text: not blank, at most 1 MiB.
            scope_id: whom the session belongs to; the same id in another scope is another session.
            turn_id: the client's name of the turn, at most 128 bytes: further messages of the user that bear it
                belong to the same turn.

        Raises:
            InvalidRequest: an argument is outside its limits.
            CapabilityError: the store keeps no sessions.
            StoreError: the store refused; nothing was added.
        """
        key = SessionKey(scope_id, session_id)
        if role not in ROLES:
            raise InvalidRequest(f"role is {shown(role)}; it must be one of {', '.join(ROLES)}.", field="role")
        if turn_id is not None:
            check_identifier("turn_id", turn_id, SESSION_ID_BYTES)
        message = Message(role=role, text=_text(text), at=datetime.now(UTC), turn_id=turn_id)
        with self._blame():
            return self._sessions().add_message(key, message)

    def set_overview(self, session_id: str, text: str, *, scope_id: str) -> None:
        """Say what a session is about, instead of what was said of it before; arguments and errors as above."""
        key, text = SessionKey(scope_id, session_id), _text(text)
        with self._blame():
            self._sessions().set_overview(key, text)

    def add_abstract(self, session_id: str, text: str, *, scope_id: str) -> None:
        """Add an abstract of a part of a session; arguments and errors as above."""
        key, text = SessionKey(scope_id, session_id), _text(text)
        with self._blame():
            self._sessions().add_abstract(key, text)

    def show(self, session_id: str, *, scope_id: str) -> Session:
        """Return a session.

        Raises:
            NotFound: nothing was ever written to it; being given something makes no session.
            InvalidRequest, CapabilityError, StoreError: as above.
        """
        key = SessionKey(scope_id, session_id)
        with self._blame():
            found = self._sessions().show(key, Deadline())
        if found is None:
            raise NotFound(
                f"session {session_id!r} of scope {scope_id!r} has no log; `powerctx session add-message` begins one."
            )
        return found

    def _sessions(self) -> Sessions:
        self._check_open()
        return self._state().sessions


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidRequest(f"text must be a string, not {type(value).__name__}.", field="text")
    if not value.strip():
        raise InvalidRequest("text must not be blank.", field="text")
    size = utf8_size("text", value)
    if size > TEXT_BYTES:
        raise InvalidRequest(f"text has {size} bytes; at most {TEXT_BYTES} UTF-8 bytes are allowed.", field="text")
    return value
