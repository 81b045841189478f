"""A session during one call: which turn this is, what was delivered in earlier ones, and what is recorded of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Self

import attrs

from powerctx_core.assemble.budget import utf8_bytes
from powerctx_core.ports import Recording, SessionStore
from powerctx_core.types import BOOTSTRAP_LINE, STARTED, Deadline, Delivered, RawCandidate, Session, SessionKey

__all__ = ["Given", "Turn", "start_of", "turn_of", "whole_text"]

_APART = timedelta(minutes=10)
"""A turn of a session that counts neither messages nor turns."""
_KEPT = 4
"""Deliveries are remembered for this many times the turns that they cool for."""


@attrs.frozen
class Given:
    """What a session was given: URIs, and digests of whole texts, which may come again under another URI."""

    uris: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()

    @classmethod
    def of(cls, entries: Iterable[Delivered]) -> Self:
        """Return what *entries* of a ledger stand for."""
        given = list(entries)
        texts = frozenset(entry.text_digest for entry in given if entry.text_digest is not None)
        return cls(frozenset(entry.uri for entry in given), texts)

    def holds(self, raw: RawCandidate) -> bool:
        """Tell whether a candidate was given, or its text was."""
        return raw.address.uri in self.uris or (bool(self.texts) and _digest(whole_text(raw)) in self.texts)


def whole_text(raw: RawCandidate) -> str | None:
    """Return the text of a candidate, or ``None`` when there is none, or more of it than what travels with it."""
    return raw.head if raw.head and raw.body_bytes == utf8_bytes(raw.head) else None


def _digest(text: str | None) -> str | None:
    return None if text is None else sha256(text.encode(errors="surrogatepass")).hexdigest()


@attrs.frozen(kw_only=True)
class Turn:
    """One call of a session.

    Attributes:
        number: on the session's clock.
        latest: the greatest turn that something is known to be delivered in.
        cooled: what was delivered in the turns before that count; a line of it at the start does not keep it away.
        opening: what was delivered when the agent last started.
        dedup_turns: how many these turns are.
    """

    key: SessionKey
    number: int
    latest: int
    cooled: Given
    opening: Given
    dedup_turns: int

    @property
    def warning(self) -> str | None:
        """What is to be said of a clock that went back, as one does that is read off messages and counted, too."""
        if self.number >= self.latest:
            return None
        return (
            f"dedup_turns: turn {self.number} is before {self.latest}, in which this session was given something, so "
            "that it may be given the same again; pass a turn that grows, or begin another session."
        )

    def record(self, store: SessionStore, delivered: Iterable[tuple[RawCandidate, str]]) -> int:
        """Record what was delivered, and at which detail, and return how many; a bare URI counts as nothing."""
        now = datetime.now(UTC)
        entries = [
            Delivered(
                uri=raw.address.uri, turn=self.number, detail=detail, at=now, text_digest=_digest(whole_text(raw))
            )
            for raw, detail in delivered
            if detail != "uri"
        ]
        if entries:
            oldest = self.number - _KEPT * self.dedup_turns
            store.ledger.record(Recording(key=self.key, delivered=entries, oldest=oldest))
        return len(entries)


def turn_of(store: SessionStore, key: SessionKey, dedup_turns: int, turn: int | None, deadline: Deadline) -> Turn:
    """Return the turn of a call that begins now.

    The clock counts turns of the user in the session's log.  A client that records no messages says the *turn*; without
    either, calls more than ten minutes apart are of different turns, one for each ten minutes since the last delivery:
    it is the only time that is known, since a call that delivers nothing is not recorded.
    """
    known = store.ledger.delivered(key, deadline)
    number = turn
    if number is None:
        number = store.sessions.turns(key, deadline)
    if number is None:
        number = _by_time(known, datetime.now(UTC))
    cooled = Given.of(
        entry
        for entry in known.values()
        if number - dedup_turns <= entry.turn < number and entry.detail != BOOTSTRAP_LINE
    )
    started = [entry for entry in known.values() if entry.detail in STARTED]
    last = max((entry.at for entry in started), default=None)
    opening = Given.of(entry for entry in started if entry.at == last)
    latest = max((entry.turn for entry in known.values()), default=number)
    return Turn(key=key, number=number, latest=latest, cooled=cooled, opening=opening, dedup_turns=dedup_turns)


def start_of(
    store: SessionStore,
    key: SessionKey,
    dedup_turns: int,
    turn: int | None,
    deadline: Deadline,
    *,
    logs: Sequence[Session | None] = (),
) -> Turn:
    """Return the turn of a call that gives an agent what it starts with, which leaves out nothing of before.

    It asks the store for no more than the number takes, by the clock of :func:`turn_of`.  *logs* holds the session's
    log where the call has read it, and ``None`` where that has found none.
    """
    number = turn
    if number is None:
        log = next(iter(logs), None)
        number = log.turns if log is not None else None if logs else store.sessions.turns(key, deadline)
    if number is None:
        number = _by_time(store.ledger.delivered(key, deadline), datetime.now(UTC))
    return Turn(key=key, number=number, latest=number, cooled=Given(), opening=Given(), dedup_turns=dedup_turns)


def _by_time(known: Mapping[str, Delivered], now: datetime) -> int:
    last = max(known.values(), key=lambda entry: (entry.turn, entry.at), default=None)
    if last is None:
        return 0
    return last.turn + max(0, (now - last.at - now.resolution) // _APART)
