"""Sessions of an agent: their log, and what was delivered in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

import attrs

from powerctx_core.types.address import SCOPE_ID_BYTES, check_identifier

__all__ = [
    "BOOTSTRAP",
    "BOOTSTRAP_LINE",
    "LEDGER_ENTRIES",
    "ROLES",
    "SESSION_ID_BYTES",
    "SESSION_MESSAGES",
    "STARTED",
    "Delivered",
    "Message",
    "Session",
    "SessionKey",
    "settled",
]

SESSION_ID_BYTES = 128
SESSION_MESSAGES = 20
"""How many of the last messages, and of the last abstracts, a session is shown with."""
LEDGER_ENTRIES = 500
"""How many deliveries of a session are remembered, the latest ones."""
BOOTSTRAP = "bootstrap"
"""The detail of what an agent was given the text of as it started."""
BOOTSTRAP_LINE = "bootstrap-line"
"""The detail of what an agent was told less of than its text as it started, such as a name and a line."""
STARTED = frozenset({BOOTSTRAP, BOOTSTRAP_LINE})
"""The details of all that an agent was given as it started."""
ROLES = ("user", "assistant", "system", "tool")


@attrs.frozen
class SessionKey:
    """A session of one scope; the same id in another scope is another session.

    Raises:
        InvalidRequest: an id is no usable identifier.
    """

    scope_id: str
    session_id: str

    def __attrs_post_init__(self) -> None:
        check_identifier("scope_id", self.scope_id, SCOPE_ID_BYTES)
        check_identifier("session_id", self.session_id, SESSION_ID_BYTES)


@attrs.frozen(kw_only=True)
class Message:
    """One message of a session.

    Attributes:
        role: one of ``user``, ``assistant``, ``system``, ``tool``.
        at: when it was added.
        turn: the user turn that it belongs to, from 1; 0 before the first.
        turn_id: the client's name of that turn, if it gives one.
    """

    role: str
    text: str
    at: datetime
    turn: int = 0
    turn_id: str | None = None


@attrs.frozen(kw_only=True)
class Session:
    """The log of a session.

    Attributes:
        turns: how many user turns it has had.
        turn_id: the client's name of the last one, if it gave one.
        overview: what it is about, as the client wrote it last.
        abstracts: of its parts, the last 20, oldest first.
        messages: the last 20, oldest first.
        count: all messages that were added.
    """

    key: SessionKey
    turns: int = 0
    turn_id: str | None = None
    overview: str | None = None
    abstracts: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    count: int = 0

    def starts_turn(self, message: Message) -> bool:
        """Tell whether *message* begins a user turn here: one of the user that is not a part of the turn that runs."""
        running = self.turns > 0 and message.turn_id is not None and message.turn_id == self.turn_id
        return message.role == "user" and not running


@attrs.frozen(kw_only=True)
class Delivered:
    """What a session was given, and when.

    Attributes:
        uri: exact, with its revision.
        turn: on the session's clock.
        detail: at which it was given, never ``uri``: a bare URI does not count as given; ``bootstrap`` when an agent
            was given it as it started, and ``bootstrap-line`` when it was shown less of it then than the text; these
            are remembered whatever the turn.
        at: when.
        text_digest: SHA-256 of its text in hexadecimal, where all of that was known: the same text under another URI
            was given with it.
    """

    uri: str
    turn: int
    detail: str
    at: datetime
    text_digest: str | None = None


def settled(
    known: Mapping[str, Delivered], given: Iterable[Delivered], oldest: int, most: int = LEDGER_ENTRIES
) -> dict[str, Delivered]:
    """Return a session's ledger with what was given just now; every store keeps it like this.  Pure.

    An entry stands at its latest turn; of those since *oldest*, and of what an agent started with, the *most* latest
    stay.

    Args:
        known: by URI.
        given: to be added.
        oldest: the first turn that is still of interest.
        most: how many are kept.
    """
    ledger = dict(known)
    for entry in given:
        before = ledger.get(entry.uri)
        if before is None or before.turn <= entry.turn:
            ledger[entry.uri] = entry
    kept = sorted(
        (entry for entry in ledger.values() if entry.turn >= oldest or entry.detail in STARTED),
        key=lambda entry: (entry.turn, entry.at, entry.uri),
        reverse=True,
    )
    return {entry.uri: entry for entry in kept[:most]}
