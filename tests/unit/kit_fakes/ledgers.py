"""Ledgers that remember too much, too little, or for somebody else."""

from __future__ import annotations

import sqlite3
import time
import unicodedata
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from typing import Any

import attrs

from kit_fakes.durable import Filed, filed
from kit_fakes.stores import assembled, broken as broken_store
from powerctx_core.types import Address, Deadline, Delivered, Item, Message, SessionKey

__all__: list[str] = []

CONTRACT = "ledger:LedgerContract"
broken = partial(broken_store, contract=CONTRACT)


def folded(name: str) -> str:
    """Return a name as a collation without regard to case and accents sees it."""
    return "".join(c for c in unicodedata.normalize("NFD", name.casefold()) if not unicodedata.combining(c))


@broken("ledger.delivered", "test_nothing_was_given_at_first")
def gave_a_greeting(ledger, honest, key, deadline):
    """A session that nobody knows was given something."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    uri = Address("s", "memory", "hello", 1).uri
    return honest(key, deadline) or {uri: Delivered(uri=uri, turn=0, detail="full", at=at)}


@broken(
    "ledger.record",
    "test_a_ledger_is_bounded",
    "test_concurrent_deliveries_are_kept",
    "test_deliveries_are_remembered",
    "test_old_deliveries_are_forgotten",
    "test_texts_are_remembered",
    "test_the_latest_turn_counts",
)
def keeps_the_last_call(ledger, honest, recording):
    """A call replaces what earlier calls gave."""
    if recording.delivered:
        ledger._commit(lambda draft: draft.ledgers.pop(recording.key, None) is None or True)
    honest(recording)


@broken("ledger.record", "test_deliveries_are_remembered")
def knows_no_overview(ledger, honest, recording):
    """An overview counts as an abstract."""
    whole = [
        attrs.evolve(each, detail="abstract") if each.detail == "overview" else each for each in recording.delivered
    ]
    honest(attrs.evolve(recording, delivered=whole))


@broken("ledger.record", "test_texts_are_remembered")
def knows_no_texts(ledger, honest, recording):
    """A delivery is known by its URI alone."""
    honest(attrs.evolve(recording, delivered=[attrs.evolve(each, text_digest=None) for each in recording.delivered]))


@broken("ledger.record", "test_texts_are_remembered")
def keeps_the_first_text(ledger, honest, recording):
    """The text that was given first stays with its URI."""
    known = ledger.delivered(recording.key, Deadline())
    before = [
        attrs.evolve(each, text_digest=known[each.uri].text_digest) if each.uri in known else each
        for each in recording.delivered
    ]
    honest(attrs.evolve(recording, delivered=before))


@broken("ledger.record", "test_the_latest_turn_counts")
def the_last_call_counts(ledger, honest, recording):
    """An earlier turn that is recorded later replaces the later one."""
    uris = {each.uri for each in recording.delivered}

    def forget(draft: Any) -> int:
        known = draft.ledgers.get(recording.key, {})
        draft.ledgers[recording.key] = {uri: entry for uri, entry in known.items() if uri not in uris}
        return 1

    ledger._commit(forget)
    honest(recording)


@broken("ledger.record", "test_old_deliveries_are_forgotten")
def forgets_nothing(ledger, honest, recording):
    """What lies before the oldest turn of interest stays."""
    honest(attrs.evolve(recording, oldest=0))


@broken("ledger.record", "test_recording_nothing_forgets_nothing")
def forgets_at_every_call(ledger, honest, recording):
    """A call that gives nothing forgets what is old."""

    def forget(draft: Any) -> int:
        known = draft.ledgers.get(recording.key, {})
        draft.ledgers[recording.key] = {u: each for u, each in known.items() if each.turn >= recording.oldest}
        return 1

    honest(recording)
    ledger._commit(forget)


@broken("ledger.record", "test_a_ledger_is_bounded")
def grows_for_ever(ledger, honest, recording):
    """There is no bound."""

    def change(draft: Any) -> int:
        known = dict(draft.ledgers.get(recording.key, {}))
        for each in recording.delivered:
            if each.uri not in known or known[each.uri].turn <= each.turn:
                known[each.uri] = each
        draft.ledgers[recording.key] = {u: each for u, each in known.items() if each.turn >= recording.oldest}
        return 1

    if recording.delivered:
        ledger._commit(change)


@broken("ledger.record ledger.delivered", "test_ledgers_are_told_apart")
def knows_the_id_alone(ledger, honest, asked, *more):
    """A session of one name is one session, in every scope, whatever its case."""
    key = asked if more else asked.key
    key = SessionKey("s", folded(key.session_id))
    return honest(key, *more) if more else honest(attrs.evolve(asked, key=key))


@broken("ledger.delivered", "test_deliveries_are_told_apart")
def ignores_case_of_ids(ledger, honest, key, deadline):
    """Of two URIs that differ in case alone one is known."""
    found = {folded(uri): (uri, entry) for uri, entry in honest(key, deadline).items()}
    return dict(found.values())


@broken("ledger.record", "test_deliveries_are_told_apart")
def cuts_long_uris(ledger, honest, recording):
    """A URI is kept up to its thousandth byte."""
    short = [attrs.evolve(each, uri=each.uri[:1000]) for each in recording.delivered]
    honest(attrs.evolve(recording, delivered=short))


@broken("ledger.record", "test_a_ledger_makes_no_session")
def makes_a_session(ledger, honest, recording):
    """A delivery begins the session's log."""
    from powerctx_core.memory_sessions import MemorySessions

    message = Message(role="user", text="hello", at=datetime(2026, 1, 1, tzinfo=UTC))
    MemorySessions(ledger._state, ledger._commit).add_message(recording.key, message)
    honest(recording)


@assembled("test_a_purge_forgets_deliveries", contract=CONTRACT)
def outlives_a_purge() -> dict[str, Any]:
    """What was purged counts as given."""
    kept: dict[Any, Any] = {}

    def record(ledger: Any, honest: Any, recording: Any) -> None:
        honest(recording)
        kept.setdefault(id(ledger), {})[recording.key] = ledger._state().ledgers.get(recording.key, {})

    def delivered(ledger: Any, honest: Any, key: Any, deadline: Any) -> Any:
        return dict(kept.get(id(ledger), {}).get(key, {})) or honest(key, deadline)

    return {"ledger.record": record, "ledger.delivered": delivered}


@broken("ledger.record", "test_recording_changes_nothing_else")
def touches_the_item(ledger, honest, recording):
    """A delivery is written into the item as a revision."""
    honest(recording)

    def touch(draft: Any) -> int:
        for each in recording.delivered:
            address = Address.parse(each.uri)
            shelf = draft.shelf(address.scope_id, address.family)
            artifact = shelf.artifacts.get(address.artifact_id)
            if artifact is not None:
                item: Item = attrs.evolve(artifact.rows[-1].item, meta={"given": True})
                shelf.write(item, each.at)
        return 1

    ledger._commit(touch)


@broken("ledger.record", "test_concurrent_deliveries_are_kept")
def reads_then_writes(ledger, honest, recording):
    """Two calls that record at the same time lose one."""
    known = ledger.delivered(recording.key, Deadline())
    time.sleep(0.002)
    honest(recording)
    new = {each.uri for each in recording.delivered}

    def write(draft: Any) -> int:
        ledger_now = draft.ledgers.get(recording.key, {})
        draft.ledgers[recording.key] = {u: each for u, each in ledger_now.items() if u in known or u in new}
        return 1

    if recording.delivered:
        ledger._commit(write)


@filed("test_a_ledger_stays", contract=CONTRACT)
class Forgets_deliveries(Filed):  # noqa: N801 - named as the fault
    """Opening the store again clears the ledgers."""

    def opened(self):
        """Open the file, and delete what it knew of deliveries."""
        store = super().opened()
        if self.count > 1:
            with closing(sqlite3.connect(self.path)) as connection, connection:
                connection.execute("DELETE FROM delivery")
        return store

    @property
    def ledger(self):
        """The ledgers."""
        return self.inner.ledger

    @property
    def sessions(self):
        """The sessions."""
        return self.inner.sessions
