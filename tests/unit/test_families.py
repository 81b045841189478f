"""Families that are searched together: what they cost, what they find, and in which order they are delivered."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import permutations
from pathlib import Path
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


COMPATIBLE = "powercontext.recall.v2"
POLICIES = ("powerctx.recall.v1", COMPATIBLE)


@pytest.fixture
def full() -> Iterator[powerctx.Context]:
    """A store with twenty items of each family in the current scope, and of those three in a reference."""
    with powerctx.open("memory://", plugins=(), settings={}) as ctx:
        stored(ctx, *SEARCHED, "resource", "skill", number=20)
        stored(ctx, *SEARCHED, "resource", "skill", number=3, scope="r")
        yield ctx


@pytest.mark.parametrize("gate", ["off", "v2"])
def test_the_compatible_policy_keeps_its_limits_of_entries(full: powerctx.Context, gate: str) -> None:
    """Eight entries of all families, two of them experiences, families in turn, however many are asked for."""
    prepared = full.prepare(
        "alpha", scope_id="s", references=["r"], policy=COMPATIBLE, gate=gate, max_items=64, max_bytes=32768
    )

    families = delivered(prepared)
    assert 8 == len(families)
    assert 2 == families.count("experience")
    assert ["memory", "topic-memory", "experience"] * 2 == families[:6]
    skills = full.prepare("alpha", scope_id="s", families=["skill"], policy=COMPATIBLE, max_items=64)
    assert 4 == len(skills.selected)


def test_some_families_are_of_the_current_scope_alone(full: powerctx.Context) -> None:
    """Topics, resources and skills of references are not asked for."""
    found = full.find(
        "alpha", scope_id="s", references=["r"], families=[*SEARCHED, "resource", "skill"], limit=1000
    )  # fmt: skip

    assert {"memory", "experience"} == {hit.address.family for hit in found.hits if hit.address.scope_id == "r"}
    assert {("memory", "r"), ("experience", "r")} == {
        (each.family, each.scope_id) for each in found.diagnostics.counts if each.scope_id == "r"
    }


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("gate", ["off", "v2"])
def test_the_order_does_not_depend_on_that_of_the_families(full: powerctx.Context, policy: str, gate: str) -> None:
    """Families in any order, and from workers or one after the other, give the same bytes."""
    contents = {
        full.prepare(
            "alpha 1 memory", scope_id="s", references=["r"], families=names, policy=policy, gate=gate, deadline_ms=wait
        ).content
        for names in permutations(SEARCHED)
        for wait in (None, 60_000)
    }

    assert 1 == len(contents)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_named_set_of_families_is_never_widened(policy: str) -> None:
    """A thin answer makes the gate admit more of what was named, and of nothing else."""
    with powerctx.open("memory://", plugins=(), settings={}) as ctx:
        stored(ctx, *SEARCHED)
        prepared = ctx.prepare("alpha zebra quagga", scope_id="s", families=["experience"], policy=policy, gate="v2")

    effort = prepared.diagnostics.effort
    assert effort is not None
    assert effort.reason in {"thin-candidates", "at-max-rounds"}
    assert {"experience"} == {counts.family for counts in (*prepared.diagnostics.counts, *effort.admission_by_family)}
    assert ["experience"] == delivered(prepared)


@pytest.mark.parametrize("policy", POLICIES)
def test_equal_evidence_in_two_places_is_two_pieces_of_evidence(policy: str) -> None:
    """One id and one text in two scopes and two families have four identities, each delivered once."""
    with powerctx.open("memory://", plugins=(), settings={}) as ctx:
        ctx.put(
            [
                Item(scope_id=scope, family=family, artifact_id="same", text="alpha beta")
                for scope in ("s", "r")
                for family in ("memory", "experience")
            ]
        )
        prepared = ctx.prepare("alpha beta", scope_id="s", references=["r"], policy=policy, gate="v2", max_items=64)

    places = [(address.scope_id, address.family) for address in prepared.selected]
    expected = [(scope, family) for scope in ("s", "r") for family in ("memory", "experience")]
    assert sorted(expected) == sorted(places)


def test_experiences_have_vectors_when_settings_say_so() -> None:
    """By default they are found by words; a weight embeds and searches them, and 0 does neither with any family."""
    for weights, modes in (
        ({}, {"memory": "hybrid", "topic-memory": "hybrid", "experience": "fts"}),
        ({"experience": 0.3, "memory": 0.0}, {"memory": "fts", "topic-memory": "hybrid", "experience": "hybrid"}),
    ):
        settings = {"retrieval": {"vector_weights": weights, "embedding_timeout_s": 60.0}}
        with powerctx.open("memory://", plugins=(), embedder="hash", settings=settings) as ctx:
            stored(ctx, *SEARCHED)
            prepared = ctx.prepare("alpha", scope_id="s")
            assert ctx.store.vectors is not None
            assert modes == dict(prepared.diagnostics.modes)
            assert list(modes.values()).count("hybrid") == ctx.store.vectors.count()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("gate", ["off", "v2"])
def test_a_scope_without_vectors_is_found_by_words(policy: str, gate: str) -> None:
    """An embedder is open, and nothing has a vector: words admit, and no error says that vectors are missing."""
    settings = {"retrieval": {"embedding_timeout_s": 60.0}}
    with powerctx.open("memory://", plugins=(), embedder="hash", settings=settings) as ctx:
        ctx.put([Item(scope_id="s", family=family, text=f"alpha beta {family}") for family in SEARCHED], embed=False)
        prepared = ctx.prepare("alpha beta", scope_id="s", policy=policy, gate=gate)

    assert {*SEARCHED} == {*delivered(prepared)}
    assert "none" == prepared.diagnostics.fallback


@pytest.mark.parametrize("gate", ["off", "v2"])
def test_no_section_asks_no_family(full: powerctx.Context, gate: str) -> None:
    """``sections=[]`` counts, judges and delivers nothing."""
    prepared = full.prepare("alpha", scope_id="s", sections=[], gate=gate)

    assert ("empty", "no_content", (), ()) == (
        prepared.status,
        prepared.diagnostics.outcome,
        prepared.diagnostics.counts,
        prepared.diagnostics.modes,
    )


def test_stores_give_the_same_pack_of_several_families(tmp_path: Path) -> None:
    """In memory and in SQLite, by both policies, with and without the gate and a deadline: the same bytes."""
    pytest.importorskip("powerctx_sqlite")
    packs: list[list[str | None]] = []
    for url in ("memory://", f"sqlite:///{tmp_path / 'notes.db'}"):
        with powerctx.open(url, settings={}) as ctx:
            stored(ctx, *SEARCHED, "profile", number=20)
            stored(ctx, *SEARCHED, "profile", number=3, scope="r")
            ask = partial(ctx.prepare, "alpha 1 memory 7", scope_id="s", references=["r"])
            packs.append(
                [
                    ask(policy=policy, gate=gate, deadline_ms=wait, sections=sections).content
                    for policy in POLICIES
                    for gate in ("off", "v2")
                    for wait in (None, 60_000)
                    for sections in (None, "default", section("profile", 2))
                ]
            )

    assert packs[0] == packs[1]
    assert all(packs[0])
