"""What a store remembers beside knowledge: sessions, and what was delivered in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import attrs

from powerctx_core.ports.storage import Store
from powerctx_core.types import Deadline, Delivered, Message, Session, SessionKey

__all__ = ["Ledger", "Recording", "SessionStore", "Sessions"]


@attrs.frozen(kw_only=True)
class Recording:
    """What one call delivered.

    Attributes:
        key: the session.
        delivered: what was in the response.
        oldest: what was delivered before this turn may be forgotten.
    """

    key: SessionKey
    delivered: Sequence[Delivered]
    oldest: int


@runtime_checkable
class Ledger(Protocol):
    """What sessions were given.  It knows sessions that have no log, and makes none."""

    def delivered(self, key: SessionKey, deadline: Deadline) -> Mapping[str, Delivered]:
        """Return what is remembered, by URI; statements stop soon after *deadline* where they can."""

    def record(self, recording: Recording) -> None:
        """Remember deliveries as :func:`powerctx_core.types.settled` says.

        One transaction; concurrent calls lose nothing.  A purge of an artifact deletes what is remembered of it.
        """


@runtime_checkable
class Sessions(Protocol):
    """The logs of sessions.  The first write makes a session."""

    def add_message(self, key: SessionKey, message: Message) -> int:
        """Add a message and return how many user turns there are now.

        A ``user`` message starts a turn, unless it bears the ``turn_id`` of the turn that runs.  *message.turn* is the
        store's to set.  One transaction; concurrent calls lose nothing.
        """

    def set_overview(self, key: SessionKey, text: str) -> None:
        """Replace the overview."""

    def add_abstract(self, key: SessionKey, text: str) -> None:
        """Add an abstract of a part of the session."""

    def turns(self, key: SessionKey, deadline: Deadline) -> int | None:
        """Return how many user turns there were, or ``None`` when the session has no log; cheap."""

    def show(self, key: SessionKey, deadline: Deadline) -> Session | None:
        """Return the session with its last messages and abstracts, or ``None`` when it has no log."""


@runtime_checkable
class SessionStore(Store, Protocol):
    """A store that keeps sessions and their ledgers, which not every store does."""

    @property
    def ledger(self) -> Ledger:
        """What sessions were given."""

    @property
    def sessions(self) -> Sessions:
        """The logs of sessions."""
