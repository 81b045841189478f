"""Ledgers: what is remembered of a session's deliveries, for whom, and how long."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import cast

import attrs
import pytest

from powerctx_core.ports import Capability, Ledger, Recording, SessionStore, Store
from powerctx_core.testing.contracts.store import StoreContract
from powerctx_core.testing.database import Database
from powerctx_core.testing.threads import at_once
from powerctx_core.types import LEDGER_ENTRIES, Address, Deadline, Delivered, SessionKey

__all__ = ["LedgerContract"]

KEY = SessionKey("s", "session")


def given(
    artifact_id: str, turn: int = 1, detail: str = "full", *, scope_id: str = "s", revision: int = 1
) -> Delivered:
    """Return a delivery."""
    uri = Address(scope_id, "memory", artifact_id, revision).uri
    return Delivered(uri=uri, turn=turn, detail=detail, at=Database.at(turn % 1000 + 0.25))


def remembered(ledger: Ledger, key: SessionKey = KEY) -> list[Delivered]:
    """Return what is remembered of a session, in the order of URIs."""
    found = ledger.delivered(key, Deadline())

    assert all(uri == entry.uri for uri, entry in found.items())
    return sorted(found.values(), key=lambda entry: entry.uri)


def record(ledger: Ledger, *delivered: Delivered, key: SessionKey = KEY, oldest: int = 0) -> None:
    """Record what one call delivered."""
    ledger.record(Recording(key=key, delivered=delivered, oldest=oldest))


class LedgerContract(StoreContract):
    """What a store that keeps ledgers must hold to."""

    @pytest.fixture
    def ledger(self, store: Store) -> Ledger:
        """Give the ledgers of a fresh store."""
        return cast("SessionStore", store).ledger

    def test_nothing_was_given_at_first(self, ledger: Ledger) -> None:
        """A session that nobody knows was given nothing."""
        assert remembered(ledger) == []

    def test_deliveries_are_remembered(self, ledger: Ledger) -> None:
        """Every delivery is there with its turn, detail and time, those of earlier calls beside those of later ones."""
        first = [given("a", 0), given("b", 0, "abstract")]
        record(ledger, *first)
        later = [given("c", 2, "overview"), given("资料/😀", 1 << 40)]
        record(ledger, *later)

        assert remembered(ledger) == sorted([*first, *later], key=lambda entry: entry.uri)

    def test_texts_are_remembered(self, ledger: Ledger) -> None:
        """The digest of a text stays with its delivery, that of the latest one, and none is no digest."""
        old, new = sha256(b"old").hexdigest(), sha256(b"new").hexdigest()
        record(ledger, *(attrs.evolve(given(name), text_digest=old) for name in "abc"))
        later = [attrs.evolve(given("a", 2), text_digest=new), given("b", 2), given("d")]
        record(ledger, *later)

        assert remembered(ledger) == sorted(
            [*later, attrs.evolve(given("c"), text_digest=old)], key=lambda entry: entry.uri
        )

    def test_the_latest_turn_counts(self, ledger: Ledger) -> None:
        """What is given again stands at its latest turn, whichever is recorded last; revisions are told apart."""
        record(ledger, given("a", 1), given("b", 5))
        record(ledger, given("a", 3, "abstract"), given("b", 4), given("b", 4, revision=2))

        assert remembered(ledger) == [given("a", 3, "abstract"), given("b", 5), given("b", 4, revision=2)]

    def test_old_deliveries_are_forgotten(self, ledger: Ledger) -> None:
        """What lies before the oldest turn of interest goes, and what is of that turn stays."""
        record(ledger, *(given(name, turn) for turn, name in enumerate("abcd")))
        record(ledger, given("e", 9), oldest=2)

        assert remembered(ledger) == [given("c", 2), given("d", 3), given("e", 9)]

    def test_recording_nothing_forgets_nothing(self, ledger: Ledger) -> None:
        """A call that delivered nothing leaves the ledger alone."""
        record(ledger, given("a", 1))
        record(ledger, oldest=9)

        assert remembered(ledger) == [given("a", 1)]

    def test_a_ledger_is_bounded(self, ledger: Ledger) -> None:
        """Of more deliveries than are remembered the latest stay."""
        for turn in range(3):
            record(ledger, *(given(f"{turn}-{number:03}", turn) for number in range(LEDGER_ENTRIES // 2)))
        found = remembered(ledger)

        assert len(found) == LEDGER_ENTRIES
        assert {entry.turn for entry in found} == {1, 2}

    def test_ledgers_are_told_apart(self, ledger: Ledger) -> None:
        """Sessions and scopes whose names differ in case, accent, width or a space at the end share nothing."""
        names = ["a", "A", "á", "a\u0301", "ａ", "a ", "a%", "a_", "😀", "资料"]
        keys = [*(SessionKey("s", name) for name in names), *(SessionKey(name, "session") for name in names)]
        for number, key in enumerate(keys):
            record(ledger, given(str(number)), key=key)

        assert [remembered(ledger, key) for key in keys] == [[given(str(number))] for number in range(len(keys))]

    def test_deliveries_are_told_apart(self, ledger: Ledger) -> None:
        """Artifacts whose ids differ in case alone are two, and the longest ids are remembered whole."""
        longest = given("资" * 42, scope_id="资" * 85)
        record(ledger, given("a"), given("A"), longest)

        assert remembered(ledger) == sorted([given("a"), given("A"), longest], key=lambda entry: entry.uri)

    def test_a_ledger_makes_no_session(self, store: Store, ledger: Ledger) -> None:
        """A session that was given something, and has no log, is not there."""
        record(ledger, given("a"))

        assert cast("SessionStore", store).sessions.show(KEY, Deadline()) is None

    def test_a_purge_forgets_deliveries(self, db: Database, ledger: Ledger) -> None:
        """What is purged was given to nobody, so that it comes back when it is stored again; the others stay."""
        names = ["a", "a/b", "ab", "A"]
        for name in names:
            db.add(name)
        other = SessionKey("elsewhere", "x")
        record(ledger, *map(given, names), given("a", revision=2))
        record(ledger, given("a"), given("ab"), key=other)
        db.purge("a")

        assert remembered(ledger) == sorted(map(given, names[1:]), key=lambda entry: entry.uri)
        assert remembered(ledger, other) == [given("ab")]

    def test_recording_changes_nothing_else(self, db: Database, ledger: Ledger) -> None:
        """Revisions, what is found and their order stay as they are."""
        for name in "ab":
            db.add(name, "t")
        before = db.listing(), db.history("a"), db.found("t")
        record(ledger, given("a"))

        assert before == (db.listing(), db.history("a"), db.found("t"))

    def test_concurrent_deliveries_are_kept(self, ledger: Ledger) -> None:
        """Calls of one session on several threads lose nothing."""

        def deliver(thread: int) -> None:
            for number in range(6):
                record(ledger, given(f"{thread}-{number}", number))

        at_once(*(partial(deliver, thread) for thread in range(4)))

        assert len(remembered(ledger)) == 4 * 6

    @pytest.mark.needs(Capability.DURABLE)
    def test_a_ledger_stays(self, ledger: Ledger, reopen: Callable[[], Store]) -> None:
        """What was given is known when the store is opened again."""
        record(ledger, given("a", 7, "abstract"))

        assert remembered(cast("SessionStore", reopen()).ledger) == [given("a", 7, "abstract")]
