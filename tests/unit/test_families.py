"""Families that are searched together: what they cost, what they find, and in which order they are delivered."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import powerctx_core as powerctx
from powerctx_core import AdmissionSpec, FamilySpec, Item, hookimpl
from powerctx_core.memory_store import MemoryStore
from powerctx_core.records import StoreSpec

SEARCHED = ("memory", "topic-memory", "experience")


class Watched:
    """A store in memory that notes each snapshot, and what it is asked."""

    def __init__(self) -> None:
        self._store = MemoryStore("memory://", None)
        self.catalogue = self
        self.vectors = None
        self.reads: list[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store if name in {"close", "status"} else self._store.catalogue, name)

    @contextmanager
    def snapshot(self, deadline: Any) -> Iterator[Any]:
        """Open a view that notes the names of the methods that are called."""
        reads: list[str] = []
        self.reads.append(reads)
        with self._store.catalogue.snapshot(deadline) as snapshot:

            class Noted:
                def __getattr__(self, name: str) -> Any:
                    reads.append(name)
                    return getattr(snapshot, name)

            yield Noted()

    @hookimpl
    def powerctx_stores(self) -> list[StoreSpec]:
        """Offer the store."""
        return [StoreSpec(name="watched", schemes=("watched",), factory=lambda url, settings: self)]


def stored(ctx: powerctx.Context, *families: str, number: int = 1, scope: str = "s") -> None:
    """Put items of each family."""
    ctx.put(
        [
            Item(scope_id=scope, family=family, artifact_id=f"{family}-{n}", text=f"alpha {family} {n}")
            for family in families
            for n in range(number)
        ]
    )


def delivered(prepared: powerctx.PreparedContext) -> list[str]:
    """Return the families of what was delivered, in its order."""
    return [address.family for address in prepared.selected]


def test_a_plain_call_reads_one_snapshot_on_the_callers_thread() -> None:
    """All of core's families are read in turn from one view: their words in one call, details where something is."""
    watched = Watched()
    with powerctx.open("watched://", plugins=(), extra=[watched], settings={}) as ctx:
        stored(ctx, *SEARCHED)
        stored(ctx, "memory", scope="r")
        before = threading.active_count()
        watched.reads.clear()
        prepared = ctx.prepare("alpha", scope_id="s", references=["r"])
        assert before == threading.active_count()

    assert sorted([*SEARCHED, "memory"]) == sorted(delivered(prepared))
    assert [["lexical", *["neighbours", "fetch"] * 4]] == watched.reads


def test_an_empty_family_costs_nothing() -> None:
    """Partitions without items are asked for no details."""
    watched = Watched()
    with powerctx.open("watched://", plugins=(), extra=[watched], settings={}) as ctx:
        stored(ctx, "memory")
        watched.reads.clear()
        ctx.prepare("alpha", scope_id="s")
        ctx.find("alpha", scope_id="s")

    assert [["lexical", "neighbours", "fetch"]] * 2 == watched.reads


def test_under_a_deadline_each_family_has_its_own_view() -> None:
    """One that is late holds up no other, so each reads for itself."""
    watched = Watched()
    with powerctx.open("watched://", plugins=(), extra=[watched], settings={}) as ctx:
        stored(ctx, *SEARCHED)
        watched.reads.clear()
        prepared = ctx.prepare("alpha", scope_id="s", deadline_ms=60_000)

    assert {*SEARCHED} == {*delivered(prepared)}
    assert 3 == len(watched.reads)


class Rules:
    """A family whose rule fails, one whose rule is not there, and one that finds by itself."""

    @hookimpl
    def powerctx_admissions(self) -> list[AdmissionSpec]:
        """Offer the rule."""
        return [AdmissionSpec(name="failing", factory=lambda settings: self)]

    @hookimpl
    def powerctx_families(self) -> list[FamilySpec]:
        """Offer the families."""
        kept = "powerctx_core.families:StoredFamily"
        return [
            FamilySpec(name="failing", factory=kept, admission="failing"),
            FamilySpec(name="ruleless", factory=kept, admission="nowhere"),
        ]

    def admit(self, pool: Any, query: Any, floor: Any) -> Any:
        """Raise."""
        raise RuntimeError("boom")


@pytest.mark.parametrize("bad", ["failing", "ruleless"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_fails_of_one_family_is_its_own(bad: str, place: int) -> None:
    """Families that are read together fail apart: a rule that raises, or is not there, takes no other with it."""
    names = [*SEARCHED[:2]]
    names.insert(place, bad)
    settings = {"recall": {"families": names}}
    with powerctx.open("memory://", plugins=(), extra=[Rules()], settings=settings) as ctx:
        stored(ctx, *names)
        with pytest.raises(powerctx.PowerctxError, match=r"boom|nowhere"):
            ctx.prepare("alpha", scope_id="s")
        prepared = ctx.prepare("alpha", scope_id="s", on_family_error="degrade")

    assert {*SEARCHED[:2]} == {*delivered(prepared)}
    assert [bad] == [name for name, _ in prepared.diagnostics.failed]
