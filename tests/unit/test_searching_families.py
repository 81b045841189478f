"""A family whose engine admits by itself: searched once a scope and round, at its floor, its cost counted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import attrs
import pytest
from kit_fakes.searching import Engine

import powerctx_core as powerctx
from powerctx_core import (
    Address,
    FamilySpec,
    InvalidRequest,
    Item,
    LexicalStatistics,
    PluginError,
    Pool,
    RawCandidate,
    Searched,
    hookimpl,
)
from powerctx_core.testing import FamilyContract


class Engines:
    """Offers the honest engine of the kit's fakes."""

    @hookimpl
    def powerctx_families(self) -> list[FamilySpec]:
        """Offer the family."""
        return [FamilySpec(name="engine", factory=Engine)]


class TestEngine(FamilyContract):
    """An honest one passes the whole contract."""

    family_name = "engine"
    plugins = ()
    extra = (Engines(),)


DAY = datetime(2026, 1, 1, tzinfo=UTC)
VECTOR = bytes(8)
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
QUERY = " ".join(WORDS)
LATE_MS, HANGS_S = 400, 20.0


class Archive:
    """An engine with one text for each number of the query's words; floors are shares of them, and one text has none.

    Attributes:
        asked: every search.
        act: is called with the number of each search, before it.
        change: is applied to each answer.
    """

    def __init__(
        self,
        act: Callable[[int], object] = lambda _: None,
        change: Callable[[Searched], Any] = lambda found: found,
        held: tuple[int, ...] = (1, 2),
    ) -> None:
        self.asked: list[tuple[Any, Any]] = []
        self.act = act
        self.change = change
        self.held = held

    def search(self, request: Any, floor: Any, call: Any) -> Any:
        """Return the texts that hold the floor's share of the words."""
        self.asked.append((request, floor))
        self.act(len(self.asked))
        scope_id, family = request.partition.scope_id, request.partition.family
        found = {}
        for key, number in enumerate(self.held):
            if number / len(WORDS) >= max(floor.idf_mass or 0.0, floor.coverage):
                text = " ".join(WORDS[:number])
                found[key] = RawCandidate(
                    address=Address(scope_id, family, f"{scope_id}-{number}", 1),
                    matched=dict.fromkeys(WORDS[:number], 1),
                    length=number,
                    head=text,
                    body_bytes=len(text),
                    created_at=DAY,
                    updated_at=DAY,
                )
        frequency = {word: n for word in WORDS if (n := sum(word in each.matched for each in found.values()))}
        pool = Pool(
            family=family,
            scope_id=scope_id,
            channels={"fts": tuple(found)},
            candidates=found,
            statistics=LexicalStatistics(items=len(self.held), mean_length=2.0, document_frequency=frequency),
            terms=tuple(frequency),
            mode="fts",
            query_vector=VECTOR,
        )
        embeddings = 0 if request.vector is not None else 1
        return self.change(Searched(pool=pool, retrieved=len(self.held) + 1, embeddings=embeddings, generation_calls=1))


class Plugin:
    """Offers archives by name."""

    def __init__(self, **archives: Any) -> None:
        self.archives = archives

    @hookimpl
    def powerctx_families(self) -> list[FamilySpec]:
        """Offer the families."""
        return [
            FamilySpec(name=name, factory=lambda spec, settings: self.archives[spec.name], vectors=False)
            for name in self.archives
        ]


def opened(*families: str, **archives: Any) -> powerctx.Context:
    """Open a store whose calls ask *families*, or all archives."""
    settings = {"recall": {"families": list(families or archives)}}
    return powerctx.open("memory://", plugins=(), extra=[Plugin(**archives)], settings=settings)


def names(prepared: powerctx.PreparedContext) -> set[str]:
    """Return the ids of what was delivered."""
    return {address.artifact_id for address in prepared.selected}


def test_without_a_gate_it_is_searched_once_a_scope() -> None:
    """At the policy's floor; what the engine weighed and admitted is counted as it says."""
    archive = Archive()
    with opened(archive=archive) as ctx:
        prepared = ctx.prepare(QUERY, scope_id="s", references=["r"])
        found = ctx.find(QUERY, scope_id="s")

    assert {"s-2", "r-2"} == names(prepared)
    assert [("s", 3, 1), ("r", 3, 1)] == [
        (counts.scope_id, counts.retrieved, counts.admitted) for counts in prepared.diagnostics.counts
    ]
    assert {"s-2"} == {hit.address.artifact_id for hit in found.hits}
    assert [0.2] * 3 == [floor.idf_mass for _, floor in archive.asked]


@pytest.mark.parametrize("deadline", [None, 60_000])
def test_a_round_is_a_new_search_with_the_first_ones_vector(deadline: int | None) -> None:
    """Scopes are searched once a round, with the same limits; what that costs is told, and words of others are not."""
    archive, other = Archive(), Archive(held=(6, 6, 6))
    with opened("archive", "memory", archive=archive, other=other) as ctx:
        ctx.put([Item(scope_id="s", text="alpha one"), Item(scope_id="s", text="nothing of it")])
        prepared = ctx.prepare(
            QUERY, scope_id="s", references=["r"], gate="v2", policy="powerctx.recall.v1", deadline_ms=deadline
        )

    effort = prepared.diagnostics.effort
    assert effort is not None
    assert 3 == effort.rounds
    assert 2 * effort.rounds == len(archive.asked)
    assert {"s-1", "r-1"} <= names(prepared)
    for scope in "sr":
        first, *more = [request for request, _ in archive.asked if request.partition.scope_id == scope]
        assert [first.k] * len(more) == [request.k for request in more]
        assert [None, *[VECTOR] * len(more)] == [request.vector for request in [first, *more]]
    assert [0.2, 0.1, 0.0] == [floor.idf_mass for _, floor in archive.asked[::2]]
    further = 2 * (effort.rounds - 1)
    assert (further, 0, further) == (effort.added_searches, effort.added_embeddings, effort.added_generation_calls)


def test_the_receipt_names_every_search() -> None:
    """Each round of it is a search of that round; a pool that is admitted again is none."""
    with opened("archive", "memory", archive=Archive()) as ctx:
        ctx.put([Item(scope_id="s", text="alpha one")])
        prepared = ctx.prepare(
            QUERY, scope_id="s", gate="v2", policy="powerctx.recall.v1", include_receipt=True, receipt_version=2
        )

    effort, receipt = prepared.diagnostics.effort, prepared.receipt
    assert effort is not None
    searched = {(group.round, receipt.families[group.family]) for group in receipt.searches}
    assert {(0, "archive"), (1, "archive"), (2, "archive"), (0, "memory")} == searched


@pytest.mark.parametrize("bad", [1, 2, 3, 4])
@pytest.mark.parametrize("error", [RuntimeError("boom"), SystemExit(1), TimeoutError("slow")], ids=repr)
def test_a_round_that_fails_is_dropped_whole(bad: int, error: BaseException) -> None:
    """Every search of a further round failing in turn: the round before it is delivered, as without that round."""

    def act(number: int) -> None:
        if number == bad + 2:  # the first round asks both scopes
            raise error

    asked = {"scope_id": "s", "references": ["r"], "policy": "powerctx.recall.v1"}
    with opened(archive=Archive(act)) as ctx:
        prepared = ctx.prepare(QUERY, gate="v2", **asked)
        without = ctx.prepare(QUERY, gate="off", **asked)

    effort = prepared.diagnostics.effort
    assert effort is not None
    assert ("ready", 1 + (bad > 2)) == (prepared.status, effort.rounds)
    assert effort.reason == "expansion-failed"
    assert 2 * (effort.rounds - 1) == effort.added_searches == effort.added_generation_calls
    if bad <= 2:
        assert prepared.content == without.content


def test_a_round_that_is_late_is_dropped_whole() -> None:
    """A search that hangs in a further round takes what the first one gave, in time."""
    ended = threading.Event()
    archive = Archive(lambda number: number > 1 and ended.wait(HANGS_S))
    try:
        with opened("archive", "memory", archive=archive) as ctx:
            ctx.put([Item(scope_id="s", text="alpha one")])
            started = time.monotonic()
            asked = {"gate": "v2", "policy": "powerctx.recall.v1", "include_receipt": True, "receipt_version": 2}
            prepared = ctx.prepare(QUERY, scope_id="s", deadline_ms=LATE_MS, **asked)
            assert time.monotonic() - started < HANGS_S / 2
    finally:
        ended.set()

    effort = prepared.diagnostics.effort
    assert effort is not None
    assert (1, True, 0) == (effort.rounds, effort.partial, effort.added_searches)
    assert (True, ("gate",)) == (prepared.diagnostics.partial, prepared.diagnostics.late)
    assert prepared.receipt is not None
    assert prepared.receipt.partial
    assert {"s-2"} <= names(prepared)


def test_what_fails_at_first_fails_the_call_or_is_left_out() -> None:
    """The first round is as of any family."""

    def fail(_: int) -> None:
        raise RuntimeError("boom")

    with opened("archive", "memory", archive=Archive(fail)) as ctx:
        ctx.put([Item(scope_id="s", text=QUERY)])
        with pytest.raises(PluginError, match=r"family 'archive' of .* failed: RuntimeError: boom"):
            ctx.prepare(QUERY, scope_id="s")
        prepared = ctx.prepare(QUERY, scope_id="s", on_family_error="degrade", gate="v2")

    assert ("archive", "RuntimeError") in prepared.diagnostics.failed
    assert "ready" == prepared.status


@pytest.mark.parametrize(
    ("change", "told"),
    {
        "a pool": (lambda found: found.pool, "returned Pool instead of a Searched"),
        "nothing": (lambda found: None, "returned NoneType instead of a Searched"),
        "fewer retrieved": (lambda found: attrs.evolve(found, retrieved=0), "admits 1 of 0 members that it retrieved"),
        "no number": (lambda found: attrs.evolve(found, embeddings=True), "embeddings is True, not a whole number"),
        "negative": (lambda found: attrs.evolve(found, generation_calls=-1), "generation_calls is -1, not a whole"),
        "not ranked": (
            lambda found: attrs.evolve(
                found,
                pool=attrs.evolve(
                    found.pool, statistics=attrs.evolve(found.pool.statistics, document_frequency={"zeta": 1})
                ),
            ),
            "1 members that it admits cannot be ranked",
        ),
        "another scope": (
            lambda found: attrs.evolve(found, pool=attrs.evolve(found.pool, scope_id="x")),
            "answered for family 'archive' in scope 'x'",
        ),
    }.values(),
)
def test_answers_are_checked(change: Callable[[Searched], Any], told: str) -> None:
    """A mistake is the family's by name, in the first round; in a further one the round is dropped."""
    asked = {"scope_id": "s", "policy": "powerctx.recall.v1"}
    with opened(archive=Archive(change=change)) as ctx, pytest.raises(PluginError, match=told) as caught:
        ctx.prepare(QUERY, **asked)
    assert "leave it out" in str(caught.value)

    archive = Archive()
    archive.change = lambda found: change(found) if len(archive.asked) > 1 else found
    with opened(archive=archive) as ctx:
        prepared = ctx.prepare(QUERY, gate="v2", **asked)
    assert {"s-2"} == names(prepared)
    assert "expansion-failed" == prepared.diagnostics.effort.reason


def test_it_has_one_method() -> None:
    """A family that would retrieve and search is refused: nobody could say which is meant."""

    class Both(Archive):
        def retrieve(self, request: Any, call: Any) -> None: ...

    with opened(both=Both()) as ctx, pytest.raises(PluginError, match="with both retrieve and search"):
        ctx.prepare(QUERY, scope_id="s")


def test_ceilings_hold_over_its_rounds() -> None:
    """However much lower floors let in, a family stays within its ceiling over all scopes."""
    archive = Archive(held=(2, *[1] * 60))
    archive_ids = iter(range(10_000))
    honest = archive.search

    def many(request: Any, floor: Any, call: Any) -> Any:
        found = honest(request, floor, call)
        members = {
            key: attrs.evolve(each, address=attrs.evolve(each.address, artifact_id=f"m{next(archive_ids)}"))
            for key, each in found.pool.candidates.items()
        }
        return attrs.evolve(found, pool=attrs.evolve(found.pool, candidates=members))

    archive.search = many  # type: ignore[method-assign]  # of this one alone
    with opened(archive=archive) as ctx:
        prepared = ctx.prepare(
            QUERY, scope_id="s", references=["r"], gate="v2", policy="powerctx.recall.v1", max_items=64, max_bytes=32768
        )

    effort = prepared.diagnostics.effort
    assert effort is not None
    assert effort.rounds > 1
    assert len(prepared.selected) + sum(number for _, number in prepared.diagnostics.omitted) <= 64


def test_a_request_may_name_it_and_nothing_widens_that() -> None:
    """A family that is not named is not searched, in any round."""
    archive, other = Archive(), Archive()
    with opened("archive", archive=archive, other=other) as ctx:
        prepared = ctx.prepare(QUERY, scope_id="s", families=["archive"], gate="v2", policy="powerctx.recall.v1")
        with pytest.raises(InvalidRequest):
            ctx.prepare(QUERY, scope_id="s", families=["nowhere"])

    assert prepared.diagnostics.effort.rounds > 1
    assert [] == other.asked
    assert {"archive"} == {counts.family for counts in prepared.diagnostics.counts}
