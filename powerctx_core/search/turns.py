"""A session during one call: which turn this is, what was delivered in earlier ones, and what is recorded of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

import attrs

from powerctx_core.ports import Recording, SessionStore
from powerctx_core.types import BOOTSTRAP, Deadline, Delivered, SessionKey

__all__ = ["Turn", "turn_of"]

_APART = timedelta(minutes=10)
"""A turn of a session that counts neither messages nor turns."""
_KEPT = 4
"""Deliveries are remembered for this many times the turns that they cool for."""


@attrs.frozen(kw_only=True)
class Turn:
    """One call of a session.

    Attributes:
        number: on the session's clock.
        latest: the greatest turn that something is known to be delivered in.
        cooled: URIs that were delivered in the turns before that count.
        opening: URIs that were delivered when the agent last started.
        dedup_turns: how many these are.
    """

    key: SessionKey
    number: int
    latest: int
    cooled: frozenset[str]
    opening: frozenset[str]
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

    def record(self, store: SessionStore, delivered: Iterable[tuple[str, str]]) -> int:
        """Record (URI, detail) of what was delivered, and return how many; a bare URI counts as nothing."""
        now = datetime.now(UTC)
        entries = [
            Delivered(uri=uri, turn=self.number, detail=detail, at=now) for uri, detail in delivered if detail != "uri"
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
    cooled = frozenset(uri for uri, entry in known.items() if number - dedup_turns <= entry.turn < number)
    started = [entry for entry in known.values() if entry.detail == BOOTSTRAP]
    last = max((entry.at for entry in started), default=None)
    opening = frozenset(entry.uri for entry in started if entry.at == last)
    latest = max((entry.turn for entry in known.values()), default=number)
    return Turn(key=key, number=number, latest=latest, cooled=cooled, opening=opening, dedup_turns=dedup_turns)


def _by_time(known: Mapping[str, Delivered], now: datetime) -> int:
    last = max(known.values(), key=lambda entry: (entry.turn, entry.at), default=None)
    if last is None:
        return 0
    return last.turn + max(0, (now - last.at - now.resolution) // _APART)
