"""Families that are searched together: what they cost, what they find, and in which order they are delivered."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import powerctx_core as powerctx
from powerctx_core import AdmissionSpec, FamilySpec, InvalidRequest, Item, hookimpl
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


SCOPES = ("s", "r1", "r2")


@pytest.fixture
def profiled() -> Iterator[powerctx.Context]:
    """A store with two revisions of a profile, and an older one, in each of three scopes, and a note in the first."""
    with powerctx.open("memory://", plugins=(), settings={}) as ctx:
        ctx.put(
            [Item(scope_id=scope, family="profile", artifact_id="old", text=f"Old in {scope}.") for scope in SCOPES]
        )
        for text in ("Forgotten", "Likes tea"):
            ctx.put(
                [
                    Item(scope_id=scope, family="profile", artifact_id="who", text=f"{text} in {scope}.")
                    for scope in SCOPES
                ]
            )
        ctx.put([Item(scope_id="s", artifact_id="note", text="Tea is served at four.")])
        yield ctx


def section(family: str, limit: int = 1) -> list[dict[str, Any]]:
    """Return a request for one section."""
    return [{"family": family, "limit": limit}]


@pytest.mark.parametrize("gate", ["off", "v2"])
@pytest.mark.parametrize("trim", ["rank", "value"])
@pytest.mark.parametrize("policy", ["powerctx.recall.v1", "powercontext.recall.v2"])
def test_a_section_of_profiles_has_the_latest_of_each_scope(
    profiled: powerctx.Context, gate: str, trim: str, policy: str
) -> None:
    """One a scope, the current scope first and the references in their order, whatever the query is."""
    for limit in (1, 2, 8):
        prepared = profiled.prepare(
            "zebra",
            scope_id="s",
            references=["r2", "r1"],
            sections=section("profile", limit),
            gate=gate,
            trim=trim,
            policy=policy,
        )
        assert ["s", "r2", "r1"][:limit] == [address.scope_id for address in prepared.selected]
        assert {("who", 2)} == {(address.artifact_id, address.revision) for address in prepared.selected}
        assert "Likes tea in s." in str(prepared.content)
        assert (("profile", "snapshot"),) == prepared.diagnostics.modes
        assert () == prepared.diagnostics.counts
        if gate != "off":
            assert ("no-content", 1) == (prepared.diagnostics.effort.reason, prepared.diagnostics.effort.rounds)
            assert () == prepared.diagnostics.effort.admission_by_family


def test_profiles_do_not_touch_what_is_searched(profiled: powerctx.Context) -> None:
    """Beside them, a searched section is judged, counted and delivered as without them."""
    alone = profiled.prepare("tea", scope_id="s", sections=section("memory"), gate="v2")
    both = profiled.prepare("tea", scope_id="s", sections=[*section("profile"), *section("memory")], gate="v2")

    assert alone.diagnostics.effort == both.diagnostics.effort
    assert alone.diagnostics.counts == both.diagnostics.counts
    assert ["profile", "memory"] == delivered(both)
    assert (("profile", "snapshot"), ("memory", "fts")) == both.diagnostics.modes


def test_profiles_cost_one_read_a_scope() -> None:
    """Nothing is searched for them, and they are read from the snapshot of the others."""
    watched = Watched()
    with powerctx.open("watched://", plugins=(), extra=[watched], settings={}) as ctx:
        stored(ctx, "profile")
        watched.reads.clear()
        ctx.prepare("alpha", scope_id="s", references=["r"], sections=section("profile"))
        ctx.prepare("alpha", scope_id="s", sections=[*section("profile"), *section("memory")])

    assert [["listing"] * 2, ["lexical", "listing"]] == watched.reads


@pytest.mark.parametrize("unit", ["long ", "长", "😀", "é\u0301", "a\u2028"])
@pytest.mark.parametrize(
    "budget", [{"max_bytes": 512}, {"max_bytes": 900}, {"max_tokens": 128}, {"max_chars": 300}, {}]
)
def test_a_profile_of_any_length_is_cut_within_the_budgets(unit: str, budget: dict[str, int]) -> None:
    """One of 256 KiB is cut at a boundary, marked as cut, and within every budget to the byte."""
    size = 256 << 10
    text = ("Begins here. " + unit * size).encode()[:size].decode(errors="ignore")
    with powerctx.open("memory://", plugins=(), settings={}) as ctx:
        ctx.put([Item(scope_id="s", family="profile", text=text)])
        prepared = ctx.prepare("zebra", scope_id="s", sections=section("profile"), **budget)

    assert [True] == [item.truncated for item in prepared.diagnostics.items]
    content = str(prepared.content)
    assert "Begins here." in content
    assert "…" in content
    assert len(content.encode()) == prepared.content_bytes <= budget.get("max_bytes", 8000)
    assert len(content) <= budget.get("max_chars", 8000)


def test_an_absent_profile_is_no_content() -> None:
    """A scope without one says so, and what is retired is gone."""
    with powerctx.open("memory://", plugins=(), settings={}) as ctx:
        stored(ctx, "memory")
        for _ in range(2):
            prepared = ctx.prepare("alpha", scope_id="s", sections=section("profile"))
            assert ("empty", "no_content") == (prepared.status, prepared.diagnostics.outcome)
            stored(ctx, "profile")
            ctx.retire("powerctx://s/profile/profile-0")


@pytest.mark.parametrize("call", ["prepare", "find"])
def test_profiles_are_not_searched(call: str) -> None:
    """Naming the family says what to ask for instead, whether a request names it or the settings."""
    for settings in ({}, {"recall": {"families": ["memory", "profile"]}}):
        with powerctx.open("memory://", plugins=(), settings=settings) as ctx:
            families = None if settings else ["memory", "profile"]
            with pytest.raises(InvalidRequest, match=r"not searched.*sections=\[\{'family': 'profile', 'limit': 1\}\]"):
                getattr(ctx, call)("alpha", scope_id="s", families=families)


def test_texts_have_the_limit_of_their_family() -> None:
    """A profile has at most 256 KiB, anything else 1 MiB; nothing of a batch is stored when one item is too long."""
    limit = 256 << 10
    with powerctx.open("memory://", plugins=(), settings={}) as ctx:
        ctx.put(
            [Item(scope_id="s", family="profile", text="字" * (limit // 3)), Item(scope_id="s", text="x" * (1 << 20))]
        )
        long = Item(scope_id="s", family="profile", text="字" * (limit // 3 + 1))
        with pytest.raises(InvalidRequest, match=r"text has 262146 bytes; at most 262144 .* 'profile'") as caught:
            ctx.put([Item(scope_id="t", text="short"), long])
        assert "text" == caught.value.field
        assert {"s"} == {partition.scope_id for partition in ctx.partitions()}


class Recent:
    """A family of somebody else that is not searched, with three items of each scope, and one that has no sections."""

    @hookimpl
    def powerctx_families(self) -> list[FamilySpec]:
        """Offer the families."""
        kept = "powerctx_core.families:StoredFamily"
        return [
            FamilySpec(name="diary", factory=kept, searchable=False, pool=3),
            FamilySpec(name="closed", factory=kept, searchable=False, section_range=None),
        ]


def test_any_family_may_not_be_searched() -> None:
    """Core has no rule for its own: the most recent items come first, as many of each scope as the record says."""
    with powerctx.open("memory://", plugins=(), extra=[Recent()], settings={}) as ctx:
        for number in range(5):
            stored_at = {"s": number, "r": 9 - number}
            ctx.put(
                [
                    Item(scope_id=scope, family="diary", artifact_id=str(n), text=f"Day {n}.")
                    for scope, n in stored_at.items()
                ]
            )
        prepared = ctx.prepare("zebra", scope_id="s", references=["r"], sections=section("diary", 5))
        for field, parameters in (
            ("families", {"families": ["closed"]}),
            ("sections", {"sections": section("closed")}),
        ):
            with pytest.raises(InvalidRequest) as caught:
                ctx.prepare("zebra", scope_id="s", **parameters)
            assert field == caught.value.field

    assert ["s4", "s3", "s2", "r5", "r6"] == [address.scope_id + address.artifact_id for address in prepared.selected]
