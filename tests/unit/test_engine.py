"""``prepare`` and ``find`` over the in-memory store."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import pytest

import powerctx_core as powerctx
from powerctx_core import (
    Admission,
    AdmissionCounts,
    AdmissionSpec,
    FamilySpec,
    Item,
    Pool,
    PoolInvariantError,
    RendererSpec,
    SinkSpec,
    hookimpl,
)
from powerctx_core.families import StoredFamily

_NOTES = (
    "We chose SQLite because it needs no server.",
    "Deployments happen on Tuesdays and Thursdays.",
    "Mina prefers short pull requests.",
    "我们决定不使用缓存，因为数据经常变化。",
    "资料库迁移在周五晚上进行。",
)


@pytest.fixture
def ctx() -> Iterator[powerctx.Context]:
    """A context over an in-memory store with a few notes in ``project:demo``."""
    with powerctx.open("memory://", settings={}, plugins=()) as context:
        context.put([Item(scope_id="project:demo", text=text, artifact_id=f"n{n}") for n, text in enumerate(_NOTES)])
        yield context


def _open(*hooks: object, settings: Mapping[str, Any] | None = None) -> powerctx.Context:
    return powerctx.open("memory://", settings=settings or {}, plugins=(), extra=hooks)


def test_prepare_delivers_cited_notes_in_four_keys(ctx: powerctx.Context) -> None:
    """The serialised answer has exactly four keys, and its size is exact."""
    from powerctx_core import wire

    prepared = ctx.prepare("Why did we choose SQLite?", scope_id="project:demo")

    value = wire.to_json(prepared)
    assert list(value) == ["schema", "status", "content", "content_bytes"]
    assert (value["schema"], value["status"]) == ("powercontext.prepared-context.v1", "ready")
    assert len(value["content"].encode()) == value["content_bytes"]
    assert [address.artifact_id for address in prepared.selected] == ["n0"]
    assert json.loads(value["content"].splitlines()[2])["ref"] == ["memory", "n0", 1]


@pytest.mark.parametrize(
    ("query", "expected"),
    [("缓存", "n3"), ("資料庫", "n4"), ("资料", "n4"), ("deployment on tuesday", "n1"), ("MINA", "n2")],
)
def test_words_meet_across_scripts_and_forms(ctx: powerctx.Context, query: str, expected: str) -> None:
    """Sub-words of Han, traditional characters, inflections and case find what they mean."""
    assert expected == ctx.prepare(query, scope_id="project:demo").selected[0].artifact_id


@pytest.mark.parametrize(
    ("scope", "query", "outcome"),
    [
        ("project:demo", "SQLite", "delivered"),
        ("project:empty", "SQLite", "no_content"),
        ("project:demo", "zebra giraffe", "no_match"),
    ],
)
def test_nothing_stored_is_told_from_nothing_found(ctx: powerctx.Context, scope: str, query: str, outcome: str) -> None:
    """Each kind of empty answer has a name of its own."""
    prepared = ctx.prepare(query, scope_id=scope)

    assert outcome == prepared.diagnostics.outcome
    assert (prepared.content is None) == (prepared.content_bytes == 0) == (prepared.status == "empty")


def test_what_matches_too_little_is_below_threshold(ctx: powerctx.Context) -> None:
    """A pool whose every member is rejected is reported as such, with its counts."""
    words = " ".join(f"word{n}" for n in range(12))
    ctx.put([Item(scope_id="s", text=words), Item(scope_id="s", text="common ground")])
    ctx.put([Item(scope_id="s", text=f"common thing number{n}") for n in range(20)])

    prepared = ctx.prepare(f"{words} common", scope_id="s")

    counts = prepared.diagnostics.counts[0]
    assert (counts.retrieved, counts.admitted) == (22, 1)


def test_a_budget_too_small_for_anything_is_called_budget(ctx: powerctx.Context) -> None:
    """Candidates that do not fit are counted by reason."""
    ctx.put([Item(scope_id="s", text="needle " + "x" * 40, artifact_id="a" * 128)])

    prepared = ctx.prepare("needle", scope_id="s", max_chars=128)

    assert (prepared.diagnostics.outcome, prepared.diagnostics.omitted) == ("budget", (("below_min_bytes", 1),))


def test_a_short_item_fits_the_smallest_budget(ctx: powerctx.Context) -> None:
    """At 512 bytes an item of 100 bytes is delivered whole, and long ones are cut."""
    ctx.put([Item(scope_id="project:an-average-scope", text="needle " + "y" * 93)])
    ctx.put([Item(scope_id="long", text="needle " + "z" * 4000)])

    short = ctx.prepare("needle", scope_id="project:an-average-scope", max_bytes=512)
    long = ctx.prepare("needle", scope_id="long", max_bytes=512)

    assert [item.truncated for item in short.diagnostics.items] == [False]
    assert [item.truncated for item in long.diagnostics.items] == [True]
    assert long.content_bytes in range(480, 513)


@pytest.mark.parametrize(("ident", "share"), [(16, 0.80), (36, 0.75)])
def test_most_of_ten_items_is_body(ctx: powerctx.Context, ident: int, share: float) -> None:
    """Ten items of 300 bytes are at least 80 % body with derived ids, 75 % with ids of 36 characters."""
    items = [Item(scope_id="s", text=f"needle {n:03} " + "w" * 289, artifact_id=f"{n:0{ident}}") for n in range(10)]
    ctx.put(items)

    prepared = ctx.prepare("needle", scope_id="s", max_items=10)

    assert (10, {300}) == (len(prepared.selected), {len(item.text) for item in items})
    assert share <= 3000 / prepared.content_bytes


def test_references_are_read_and_cited_with_their_scope(ctx: powerctx.Context) -> None:
    """An item of another scope carries that scope in its citation; ids may repeat between scopes."""
    ctx.put([Item(scope_id="other", text="SQLite is in the other scope too.", artifact_id="n0")])

    prepared = ctx.prepare("SQLite", scope_id="project:demo", references=["other", "project:demo"])

    refs = [json.loads(line)["ref"] for line in (prepared.content or "").splitlines()[2:-1]]
    assert sorted([["memory", "n0", 1], ["memory", "n0", 1, "other"]]) == sorted(refs)


def test_find_lists_without_bodies_and_filters(ctx: powerctx.Context) -> None:
    """Tags and category restrict the pool inside the store."""
    ctx.put(
        [
            Item(scope_id="t", text="alpha one", tags=("red", "blue"), category="events"),
            Item(scope_id="t", text="alpha two", tags=("red",), category="events"),
            Item(scope_id="t", text="alpha three", category="entities"),
        ]
    )

    assert len(ctx.find("alpha", scope_id="t").hits) == 3
    assert len(ctx.find("alpha", scope_id="t", tags=["red"]).hits) == 2
    assert len(ctx.find("alpha", scope_id="t", tags=["red", "blue"]).hits) == 1
    assert len(ctx.find("alpha", scope_id="t", categories=["events"]).hits) == 2
    assert len(ctx.find("alpha", scope_id="t", limit=1).hits) == 1


def test_retired_items_are_gone_and_revive_with_a_new_revision(ctx: powerctx.Context) -> None:
    """Exact revisions stay readable; the URI without a revision answers NotFound."""
    uri = "powerctx://project%3Ademo/memory/n0"

    assert ctx.retire(uri) == 1
    assert ctx.prepare("SQLite", scope_id="project:demo").selected == ()
    with pytest.raises(powerctx.NotFound):
        ctx.get(uri)
    assert _NOTES[0] == ctx.get(f"{uri}@1").item.text
    assert ctx.put([Item(scope_id="project:demo", text=_NOTES[0], artifact_id="n0")])[0].outcome == "revived"
    assert ctx.get(uri).address.revision == 2
    assert ctx.purge(uri) == 2
    with pytest.raises(powerctx.NotFound):
        ctx.history(uri)


@pytest.mark.parametrize(
    ("parameters", "part"),
    [
        ({"query": ""}, "query"),
        ({"query": "x" * 8193}, "8193"),
        ({"query": "x\ud800"}, "surrogate"),
        ({"scope_id": ""}, "scope_id"),
        ({"scope_id": "a\x00"}, "control"),
        ({"scope_id": "界" * 86}, "258 bytes"),
        ({"max_bytes": 511}, "from 512 to 32768"),
        ({"max_bytes": True}, "True"),
        ({"max_items": 65}, "from 1 to 64"),
        ({"references": "abc"}, "list of strings"),
        ({"references": [f"r{n}" for n in range(32)]}, "at most 31"),
        ({"families": []}, "empty"),
        ({"families": ["nope"]}, "memory"),
        ({"renderer": "nope"}, "prepared"),
        ({"policy": "nope"}, "powerctx.recall.v1"),
        ({"max_byte": 1}, "max_bytes"),
    ],
)
def test_a_bad_parameter_is_one_clear_sentence(ctx: powerctx.Context, parameters: dict[str, Any], part: str) -> None:
    """The message names the field, the value or the allowed values."""
    values = {"query": "sqlite", "scope_id": "project:demo"} | parameters
    query = values.pop("query")

    with pytest.raises(powerctx.PowerctxError, match=part.replace(".", r"\.")) as caught:
        ctx.prepare(query, **values)
    assert "\n" not in str(caught.value)


def test_filters_hold_for_neighbours_too(ctx: powerctx.Context) -> None:
    """An item that the filters exclude does not come back as the neighbour of one that they admit."""
    common = {"scope_id": "f", "thread": "t"}
    ctx.put(
        [
            Item(text="before", position=0, tags=("private",), category="hr", artifact_id="m0", **common),
            Item(text="sqlite database", position=1, tags=("public",), category="it", artifact_id="m1", **common),
            Item(text="after", position=2, tags=("private",), category="hr", artifact_id="m2", **common),
        ]
    )

    def found(**filters: Any) -> set[str]:
        return {hit.address.artifact_id for hit in ctx.find("sqlite database", scope_id="f", **filters).hits}

    assert found() == {"m0", "m1", "m2"}
    assert found(tags=["public"]) == {"m1"}
    assert found(categories=["it"]) == {"m1"}


def test_a_body_that_starts_with_white_space_shows_its_words(ctx: powerctx.Context) -> None:
    """Leading blanks never use up what may be shown; a body that is blank as far as it can be shown takes no place."""
    ctx.put([Item(scope_id="w", text="\n" * 1990 + "hello database " + "x" * 100, artifact_id="near")])
    ctx.put([Item(scope_id="v", text=" " * 5000 + "hello database")])

    near = ctx.prepare("database", scope_id="w")
    far = ctx.prepare("database", scope_id="v")

    assert "hello database" in (near.content or "")
    assert (far.diagnostics.outcome, dict(far.diagnostics.omitted)) == ("below_threshold", {"blank": 1})


def test_match_counts_words_that_nothing_holds(ctx: powerctx.Context) -> None:
    """One of nine words is weak evidence, even when it is the only one that occurs at all."""
    ctx.put([Item(scope_id="b", text="A blue door.")])

    whole = ctx.find("blue door", scope_id="b").hits[0].match
    part = ctx.find("purple elephants juggling blue bananas under volcanic moonlight", scope_id="b").hits[0].match

    assert whole == 1.0
    assert part < 0.2


def test_find_reaches_as_far_as_its_limit(ctx: powerctx.Context) -> None:
    """A list is not cut by a policy's ceiling for packs."""
    ctx.put([Item(scope_id="many", text=f"needle number{n}") for n in range(200)])

    for policy in ("powerctx.recall.v1", "powercontext.recall.v2"):
        assert len(ctx.find("needle", scope_id="many", limit=150, policy=policy).hits) == 150


_MISUSES: dict[str, tuple[Any, str]] = {
    "limit None": (lambda ctx: ctx.find("x", scope_id="s", limit=None), "limit"),
    "limit of 5001 digits": (lambda ctx: ctx.find("x", scope_id="s", limit=10**5000), "limit"),
    "position of 5001 digits": (lambda ctx: Item(scope_id="s", text="x", position=10**5000), "position"),
    "confidence of 5001 digits": (lambda ctx: Item(scope_id="s", text="x", confidence=10**5000), "confidence"),
    "surrogate tag": (lambda ctx: ctx.find("x", scope_id="s", tags=["\udcff"]), "surrogate"),
    "65 tags": (lambda ctx: ctx.find("x", scope_id="s", tags=[f"t{n}" for n in range(65)]), "at most 64"),
    "surrogate categories": (lambda ctx: ctx.find("x", scope_id="s", categories=["\udcff"]), "surrogate"),
    "unknown search type": (lambda ctx: ctx.find("x", scope_id="s", search_type="magic"), "auto, fts, vector, hybrid"),
    "put None": (lambda ctx: ctx.put(None), "items must be a list"),
    "put one item": (lambda ctx: ctx.put(Item(scope_id="s", text="x")), "items must be a list"),
    "put text": (lambda ctx: ctx.put(["x"]), "Item values"),
    "retire a number": (lambda ctx: ctx.retire(1), "uris must be a list"),
    "retire numbers": (lambda ctx: ctx.retire([1]), "not a powerctx URI"),
    "get nonsense": (lambda ctx: ctx.get("nonsense"), "not a powerctx URI"),
    "get a surrogate": (lambda ctx: ctx.get(powerctx.Address("s\ud800", "memory", "a", 1)), "no address"),
    "get a revision of text": (lambda ctx: ctx.get(powerctx.Address("s", "memory", "a", "x")), "not a powerctx URI"),
    "open nothing": (lambda ctx: powerctx.open(""), "name a store"),
    "open a number": (lambda ctx: powerctx.open(1), "name a store"),
}


@pytest.mark.parametrize(("call", "part"), _MISUSES.values(), ids=_MISUSES)
def test_misuse_is_an_invalid_request(ctx: powerctx.Context, call: Any, part: str) -> None:
    """Whatever is passed, the error is ours and says what is wrong."""
    with pytest.raises(powerctx.InvalidRequest, match=part):
        call(ctx)


class _Wrong:
    """Changes what the stored family returns."""

    def __init__(self, change: Any) -> None:
        self._family = StoredFamily(FamilySpec(name="wrong", factory="x"))
        self._change = change

    def retrieve(self, request: Any, call: Any) -> Pool:
        return self._change(self._family.retrieve(request, call), request)


def _wrong_family(change: Any) -> object:
    class Plugin:
        @staticmethod
        @hookimpl
        def powerctx_families() -> list[FamilySpec]:
            return [FamilySpec(name="wrong", factory=lambda spec, settings: _Wrong(change))]

    return Plugin()


def _raise(pool: Pool, request: Any) -> Pool:
    raise RuntimeError("boom")


def _exit(pool: Pool, request: Any) -> Pool:
    raise SystemExit(0)


def _with_first(pool: Pool, **changes: Any) -> Pool:
    key, raw = next(iter(pool.candidates.items()))
    return attrs.evolve(pool, candidates={**pool.candidates, key: attrs.evolve(raw, **changes)})


@pytest.mark.parametrize(
    "change",
    [
        _raise,
        lambda pool, request: attrs.evolve(pool, scope_id="elsewhere"),
        lambda pool, request: attrs.evolve(pool, family="memory"),
        lambda pool, request: attrs.evolve(pool, channels={"fts": (10**9,)}),
        lambda pool, request: None,
        _exit,
        lambda pool, request: attrs.evolve(pool, mode="magic"),
        lambda pool, request: _with_first(pool, evidence={"ref": [1]}),
        lambda pool, request: _with_first(pool, address=powerctx.Address("s", "wrong", "a", 0)),
        lambda pool, request: _with_first(pool, address=powerctx.Address("other", "wrong", "a", 1)),
    ],
    ids=[
        "raises",
        "another scope",
        "another family",
        "unknown member",
        "no pool",
        "exits",
        "unknown mode",
        "undeclared evidence",
        "revision 0",
        "member of another scope",
    ],
)
def test_a_broken_family_is_named_and_never_repaired(change: Any) -> None:
    """The call fails with the family's name and its provider; other families are not affected by its presence."""
    with _open(_wrong_family(change)) as context:
        context.put([Item(scope_id="s", text="alpha", family="wrong"), Item(scope_id="s", text="alpha")])

        with pytest.raises(powerctx.PluginError, match=r"wrong|given"):
            context.prepare("alpha", scope_id="s", families=["wrong"])
        assert len(context.prepare("alpha", scope_id="s").selected) == 1


def test_an_admission_rule_that_miscounts_is_refused() -> None:
    """Counts that cannot be are an error, not a number in a report."""

    class Miscounting:
        def admit(self, pool: Pool, query: Any, floor: Any) -> Admission:
            ranked = {name: tuple((key, 1.0) for key in keys) for name, keys in pool.channels.items()}
            counts = AdmissionCounts(family=pool.family, scope_id=pool.scope_id, retrieved=1, admitted=7)
            return Admission(ranked=ranked, counts=counts)

    class Plugin:
        @staticmethod
        @hookimpl
        def powerctx_admissions() -> list[AdmissionSpec]:
            return [AdmissionSpec(name="miscounting", factory=lambda settings: Miscounting())]

        @staticmethod
        @hookimpl
        def powerctx_families() -> list[FamilySpec]:
            return [FamilySpec(name="counted", factory="powerctx_core.families:StoredFamily", admission="miscounting")]

    with _open(Plugin()) as context:
        context.put([Item(scope_id="s", text="alpha", family="counted")])
        with pytest.raises(powerctx.PluginError, match="admission counts 1 retrieved and 7 admitted") as caught:
            context.prepare("alpha", scope_id="s", families=["counted"])
    assert isinstance(caught.value.__cause__, PoolInvariantError)


def test_a_declared_family_needs_no_retrieval_code() -> None:
    """A plugin's family over the stored one is written, found and cited under its own name."""

    class Plugin:
        @staticmethod
        @hookimpl
        def powerctx_families() -> list[FamilySpec]:
            return [FamilySpec(name="ticket", factory="powerctx_core.families:StoredFamily", title="Tickets")]

    with _open(Plugin(), settings={"recall": {"families": ["memory", "ticket"]}}) as context:
        context.put([Item(scope_id="s", text="alpha note"), Item(scope_id="s", text="alpha ticket", family="ticket")])

        prepared = context.prepare("alpha", scope_id="s")

    assert {"memory", "ticket"} == {address.family for address in prepared.selected}


def test_an_unknown_family_cannot_be_written(ctx: powerctx.Context) -> None:
    """An item of a family that no part declares would never be found, so it is refused with the families there are."""
    with pytest.raises(powerctx.PowerctxError, match="memory"):
        ctx.put([Item(scope_id="s", text="x", family="conversation")])


class _Forgetful:
    """A renderer that forgets the final newline."""

    def open(self, selection: Any) -> str:
        return "start"

    def entry(self, candidate: Any, ordinal: int, selection: Any, *, cut: bool) -> tuple[str, str]:
        return "-", "\n"

    def escape(self, text: str) -> str:
        return text

    def close(self, selection: Any) -> str:
        return ""


def test_a_renderer_that_breaks_its_promise_gives_no_pack() -> None:
    """The planner refuses pieces without a newline instead of measuring wrongly."""

    class Plugin:
        @staticmethod
        @hookimpl
        def powerctx_renderers() -> list[RendererSpec]:
            return [RendererSpec(name="forgetful", factory=lambda settings: _Forgetful())]

    with _open(Plugin()) as context:
        context.put([Item(scope_id="s", text="alpha")])
        with pytest.raises(powerctx.PlanInvariantError, match="newline"):
            context.prepare("alpha", scope_id="s", renderer="forgetful")


@pytest.mark.parametrize("error", [SystemExit(0), ValueError("boom"), KeyError()])
def test_a_renderer_that_fails_is_named(error: BaseException) -> None:
    """Nothing that a renderer raises ends the process or passes as something else."""

    class Failing(_Forgetful):
        def escape(self, text: str) -> str:
            raise error

    class Plugin:
        @staticmethod
        @hookimpl
        def powerctx_renderers() -> list[RendererSpec]:
            return [RendererSpec(name="failing", factory=lambda settings: Failing())]

    with _open(Plugin()) as context:
        context.put([Item(scope_id="s", text="alpha")])
        with pytest.raises(powerctx.PlanInvariantError, match="failing"):
            context.prepare("alpha", scope_id="s", renderer="failing")


def test_sinks_named_in_settings_see_diagnostics() -> None:
    """A sink is called once a call, after the answer, with no stored text."""
    seen: list[Any] = []

    class Recording:
        def observe(self, event: Any) -> None:
            seen.append(event)

    class Plugin:
        @staticmethod
        @hookimpl
        def powerctx_sinks() -> list[SinkSpec]:
            return [SinkSpec(name="recording", factory=lambda settings: Recording())]

    with _open(Plugin(), settings={"sinks": ["recording"]}) as context:
        context.put([Item(scope_id="s", text="canary alpha")])
        context.prepare("alpha", scope_id="s")

    assert [event.outcome for event in seen] == ["delivered"]
    assert "canary" not in repr(seen)


def test_token_and_character_budgets_hold_together(ctx: powerctx.Context) -> None:
    """Every budget that is given holds at once on the final text."""
    from powerctx_core.text.tokens import O200k

    ctx.put([Item(scope_id="s", text=f"needle 针 {n} " + "字词" * 60 + "word " * 40) for n in range(20)])

    prepared = ctx.prepare("needle", scope_id="s", max_items=64, max_tokens=400, max_chars=900, max_bytes=2000)

    content = prepared.content or ""
    assert len(content.encode()) <= 2000
    assert len(content) <= 900
    assert O200k().cost(content) <= 400
    assert prepared.selected


def test_closing_twice_is_harmless() -> None:
    """A second close does nothing."""
    context = _open()
    context.close()
    context.close()
