"""The setting ``state``: sessions of a store that keeps none, in another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import powerctx_core as powerctx
from powerctx_core import (
    Address,
    CapabilityError,
    ContextPack,
    Deadline,
    Delivered,
    Item,
    MemoryStore,
    NoSettings,
    Recording,
    SessionKey,
    StoreSpec,
    StoreUnavailable,
    hookimpl,
)

S = "project:demo"
SESSION = {"scope_id": S, "session_id": "s1", "dedup_turns": 5}


class Bare:
    """A store of somebody else, with a catalogue alone, which outlives what opens it."""

    vectors = None

    def __init__(self, held: MemoryStore) -> None:
        self.catalogue = held.catalogue
        self.status = held.status

    def close(self) -> None:
        """Keep everything."""


@pytest.fixture
def opened() -> Callable[..., powerctx.Context]:
    """Give what opens the same store with settings."""
    held = MemoryStore("memory://", NoSettings())

    class Plugin:
        @hookimpl
        def powerctx_stores(self) -> Iterator[StoreSpec]:
            yield StoreSpec(name="bare", factory=lambda url, settings: Bare(held), schemes=("bare",))

    def open_it(**settings: Any) -> powerctx.Context:
        return powerctx.open("bare://", plugins=["sqlite"], extra=[Plugin()], settings=settings)

    with open_it() as ctx:
        ctx.put([Item(scope_id=S, artifact_id=f"n{n}", text=f"Walrus note {n}.") for n in range(3)])
    return open_it


def pack(ctx: powerctx.Context, **parameters: Any) -> ContextPack:
    """Return a pack of a session."""
    found = ctx.search("walrus", mode="context", **{**SESSION, **parameters})
    assert isinstance(found, ContextPack)
    return found


def test_sessions_and_ledger_survive_a_restart(opened: Callable[..., powerctx.Context], tmp_path: Path) -> None:
    """The log is read again, and what was delivered before is not delivered in the next turn."""
    state = f"sqlite:///{tmp_path / 'state.db'}"
    with opened(state=state) as ctx:
        assert ctx.sessions.add_message("s1", "user", "Which walrus?", scope_id=S) == 1
        first = pack(ctx)
        assert first.stats.dedup["recorded"] == len(first.entries) == 3
    with opened(state=state) as ctx:
        assert ctx.sessions.show("s1", scope_id=S).messages[0].text == "Which walrus?"
        assert pack(ctx).rendered == first.rendered
        assert ctx.sessions.add_message("s1", "user", "And now?", scope_id=S) == 2
        assert pack(ctx).stats.cooled == 3


def test_a_start_is_remembered(opened: Callable[..., powerctx.Context], tmp_path: Path) -> None:
    """Mode ``bootstrap`` reads the session's log there, and records in its ledger."""
    with opened(state=f"sqlite:///{tmp_path / 'state.db'}") as ctx:
        ctx.sessions.set_overview("s1", "All about walruses.", scope_id=S)
        started = ctx.search(scope_id=S, mode="bootstrap", session_id="s1", lifecycle="resume")
        assert isinstance(started, ContextPack)
        assert "All about walruses." in started.rendered
        assert started.stats.dedup["recorded"] > 0


def test_it_is_opened_when_it_is_asked_for(opened: Callable[..., powerctx.Context], tmp_path: Path) -> None:
    """Calls without a session do not need it, whatever is wrong with it; the first one with a session says so."""
    with opened(state=f"nothing://{tmp_path}") as ctx:
        assert ctx.prepare("walrus", scope_id=S).content
        assert pack(ctx, session_id=None, dedup_turns=None).entries
        with pytest.raises(StoreUnavailable, match="nothing"):
            pack(ctx)
    file = tmp_path / "state.db"
    with opened(state=f"sqlite:///{file}") as ctx:
        assert ctx.find("walrus", scope_id=S).hits
        assert not file.exists()
        ctx.sessions.add_message("s1", "user", "Which walrus?", scope_id=S)
        assert file.exists()


def test_a_purge_forgets_who_was_given_it(opened: Callable[..., powerctx.Context], tmp_path: Path) -> None:
    """Not even the URI stays in the ledger; the others do."""
    state = f"sqlite:///{tmp_path / 'state.db'}"
    with opened(state=state) as ctx:
        pack(ctx)
        assert ctx.purge("memory/n1", scope_id=S) == 1
    with powerctx.open(state, plugins=["sqlite"], settings={}) as kept:
        assert isinstance(kept.store, powerctx.SessionStore)
        uris = kept.store.ledger.delivered(SessionKey(S, "s1"), Deadline())
        assert {uri.rpartition("/")[2] for uri in uris} == {"n0@1", "n2@1"}


@pytest.mark.parametrize("url", ["memory://", "sqlite:///FILE"])
def test_a_purge_forgets_what_is_stored_elsewhere(tmp_path: Path, url: str) -> None:
    """A store that keeps the sessions of another one has nothing to delete but what was delivered."""
    with powerctx.open(url.replace("FILE", str(tmp_path / "state.db")), plugins=["sqlite"], settings={}) as ctx:
        assert isinstance(ctx.store, powerctx.SessionStore)
        key = SessionKey(S, "s1")
        given = [
            Delivered(uri=Address(S, "memory", name, 1).uri, turn=1, detail="full", at=datetime(2026, 1, 1, tzinfo=UTC))
            for name in ("gone", "gone2", "kept")
        ]
        ctx.store.ledger.record(Recording(key=key, delivered=given, oldest=0))
        assert ctx.purge(["memory/gone", "memory/gone2"], scope_id=S) == 0
        assert list(ctx.store.ledger.delivered(key, Deadline())) == [given[2].uri]
        assert not ctx.partitions()


def test_without_it_the_error_names_it(opened: Callable[..., powerctx.Context]) -> None:
    """So does one that names a store which keeps no sessions either."""
    with opened() as ctx:
        for call in (lambda: pack(ctx), lambda: ctx.sessions.add_message("s1", "user", "Hello.", scope_id=S)):
            with pytest.raises(CapabilityError, match="let the setting state name one that does"):
                call()
    with opened(state="bare://") as ctx, pytest.raises(CapabilityError, match="the setting state is bare://, a store"):
        pack(ctx)


def test_a_store_that_keeps_sessions_needs_no_other(tmp_path: Path) -> None:
    """Its own are used, and the other store is never opened."""
    with powerctx.open("memory://", plugins=["sqlite"], settings={"state": f"nothing://{tmp_path}"}) as ctx:
        ctx.put([Item(scope_id=S, text="Walrus note.")])
        assert pack(ctx).stats.dedup["recorded"] == 1
        assert ctx.purge(pack(ctx).entries[0].uri) == 1


def test_its_password_is_not_shown(opened: Callable[..., powerctx.Context]) -> None:
    """Neither by settings nor by errors."""
    with opened(state="nothing://me:hunter22@host/db") as ctx:
        assert "hunter22" not in repr(ctx.settings)
        with pytest.raises(StoreUnavailable) as caught:
            pack(ctx)
    assert "hunter22" not in str(caught.value)
