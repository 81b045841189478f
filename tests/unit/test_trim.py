"""Trimming by value: weights, shares, near repetitions, usage counts, and that reading never counts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import attrs
import pytest

import powerctx_core as powerctx
from powerctx_core import Deadline, FamilySpec, InvalidRequest, Item, StoreSpec, hookimpl
from powerctx_core.assemble.redundancy import redundant
from powerctx_core.assemble.value import by_value
from powerctx_core.config import structure
from powerctx_core.memory_store import MemoryStore
from powerctx_core.settings import TrimSettings
from powerctx_core.types import Address, Hit, ItemValue, RawCandidate

DAY = datetime(2026, 1, 1, tzinfo=UTC)
NOTHING = TrimSettings(relevance=0, use=0, confidence=0, layer=0, recency=1)


def candidate(name: str, score: float = 1.0, text: str | None = None, family: str = "memory", **fields: object) -> Hit:
    """Return a hit as retrieval makes them, with a text of its own."""
    body = text or f"{name * 60} tells of its own affairs."
    address = Address("s", family, name, 1)
    values: dict[str, object] = {"created_at": DAY, "updated_at": DAY} | fields
    raw = RawCandidate(address=address, length=1, head=body, body_bytes=len(body.encode()), **values)  # type: ignore[arg-type]  # the values of a test are of many types
    return Hit(candidate=raw, score=score, match=1.0, channels=("fts",))


def names(candidates: list[Hit]) -> str:
    """Return the ids in their order."""
    return "".join(each.address.artifact_id for each in candidates)


def only(share: str) -> TrimSettings:
    """Return settings in which one share decides."""
    weights = {
        field.name: 0.0
        for field in attrs.fields(TrimSettings)
        if field.name in ("relevance", "use", "confidence", "layer", "recency")
    }
    return TrimSettings(**{**weights, share: 1.0})


def test_relevance_is_of_the_best() -> None:
    """The best score of the call is 1, the others are in proportion."""
    found, trimming = by_value([candidate("a", 0.4), candidate("b", 0.8)], {}, {}, only("relevance"))

    assert "ba" == names(found)
    assert [1.0, 0.5] == [value.relevance for value in trimming.values]
    assert [1.0, 0.5] == [value.total for value in trimming.values]


def test_use_is_logarithmic() -> None:
    """What is used most is 1, what never was 0, and the first uses count most."""
    uses = {("s", "memory", "a"): 1, ("s", "memory", "b"): 100}
    found, trimming = by_value([candidate(name) for name in "abc"], uses, {}, only("use"))

    assert "bac" == names(found)
    assert [1.0, pytest.approx(0.1502, abs=1e-4), 0.0] == [value.use for value in trimming.values]


def test_confidence_layer_and_recency() -> None:
    """Confidence is the item's, or half; layers go from 0 to 1, the family's where the item has none; age halves."""
    given = [
        candidate("a", confidence=0.9, layer="L0", updated_at=DAY - timedelta(days=30)),
        candidate("b", layer="L3", event_time=DAY - timedelta(days=60)),
        candidate("c", family="skill", confidence=0.1),
    ]
    values = {
        value.address.artifact_id: value
        for value in by_value(given, {}, {"memory": "L1", "skill": "L2"}, TrimSettings())[1].values
    }

    assert {"a": 0.9, "b": 0.5, "c": 0.1} == {name: value.confidence for name, value in values.items()}
    assert {"a": 0.0, "b": 1.0, "c": pytest.approx(2 / 3)} == {name: value.layer for name, value in values.items()}
    assert {"a": 0.5, "b": 0.25, "c": 1.0} == {name: value.recency for name, value in values.items()}


def test_the_total_is_the_weighted_mean() -> None:
    """A share counts by its weight, and all weights together are 1."""
    settings = TrimSettings(relevance=2, use=1, confidence=1, layer=0, recency=0)
    (value,) = by_value([candidate("a", confidence=0.5)], {("s", "memory", "a"): 3}, {}, settings)[1].values

    assert (2 * 1.0 + 1.0 + 0.5) / 4 == value.total


def test_the_same_state_gives_the_same_order_at_any_time() -> None:
    """Age counts from the newest candidate: shifted by a century, the values are the same."""
    later = timedelta(days=36_525)
    first, second = (
        by_value(
            [candidate(name, updated_at=DAY + shift + timedelta(days=n)) for n, name in enumerate("abc")],
            {},
            {},
            TrimSettings(),
        )
        for shift in (timedelta(), later)
    )

    assert names(first[0]) == names(second[0])
    assert first[1] == second[1]


def test_equal_values_keep_the_order_of_recall() -> None:
    """Ties are the rank's."""
    assert "bca" == names(by_value([candidate(name) for name in "bca"], {}, {}, NOTHING)[0])


def test_near_repetitions_come_last() -> None:
    """Of texts that are nearly equal the most valuable stays in place, and the others follow all else, by value."""
    text = "We chose SQLite because it needs no server, and a backup is the copy of one file, made at night."
    given = [
        candidate("a", 0.9, text),
        candidate("b", 1.0, text.replace("at night", "at noon")),
        candidate("c", 0.1),
        candidate("d", 0.8, text.upper()),
    ]
    found, trimming = by_value(given, {}, {}, TrimSettings())

    assert "bcad" == names(found)
    assert [None, None, given[1].address, given[1].address] == [value.redundant_with for value in trimming.values]


@pytest.mark.parametrize(
    ("first", "second", "alike"),
    [
        (
            "我们选择 SQLite，因为它不需要服务器，备份只是复制一个文件。",
            "我们选择SQLite，因为它不需要服务器，备份只是复制一个文件！",
            True,
        ),
        (
            "我们选择 SQLite，因为它不需要服务器，备份只是复制一个文件。",
            "我们每周二和周四发布新版本，由值班的人负责，周五不发布任何版本。",
            False,
        ),
        ("a", "a", True),
        ("a", "b", False),
        ("The  same\nwords.", "the same words.", True),
        ("x" * 5000, "x" * 4000, True),
        ("Deploy on Tuesday and Thursday, never on Friday.", "Deploy on Monday and Wednesday, never on Sunday.", False),
    ],
)
def test_redundant(first: str, second: str, alike: bool) -> None:
    """Letter case, white space and a sign do not tell texts apart; other words do, in any script."""
    assert [None, 0 if alike else None] == redundant([first, second], 0.7)


def test_redundant_is_against_what_is_kept() -> None:
    """A row of small changes is not one group: what is unlike the first is kept, and compared with from then on."""
    words = [f"word{number}" for number in range(40)]
    row = [" ".join(words[start : start + 20]) for start in range(0, 20, 4)]

    found = redundant(row, 0.6)
    assert None in found[1:]
    assert all(found[place] is None or found[found[place]] is None for place in range(len(row)))


class _Families:
    @hookimpl
    def powerctx_families(self) -> Iterator[FamilySpec]:
        yield FamilySpec(name="rule", factory="powerctx_core.families:StoredFamily", title="Rules", layer="L3")


@pytest.fixture
def ctx() -> Iterator[powerctx.Context]:
    """A store with notes that match one query more and less."""
    with powerctx.open("memory://", plugins=(), extra=[_Families()], settings={}) as ctx:
        ctx.put(
            [
                Item(scope_id="s", artifact_id=name, text=f"release {'release ' * (6 - n)}{name * 40}")
                for n, name in enumerate("abcdef")
            ]
        )
        yield ctx


def _ids(prepared: powerctx.PreparedContext) -> str:
    return "".join(address.artifact_id for address in prepared.selected)


def test_used_notes_stay(ctx: powerctx.Context) -> None:
    """What was said to be used is kept before what is a little more relevant; by rank it is not."""
    by_rank = ctx.prepare("release", scope_id="s", max_items=2)
    for _ in range(5):
        assert 1 == ctx.mark_used("powerctx://s/memory/d@1")

    assert "d" not in _ids(by_rank)
    assert _ids(by_rank) == _ids(ctx.prepare("release", scope_id="s", max_items=2))
    assert "d" in _ids(ctx.prepare("release", scope_id="s", max_items=2, trim="value"))


def test_values_are_told(ctx: powerctx.Context) -> None:
    """Weights and the value of every candidate, delivered or not, are in the diagnostics; by rank there are none."""
    ctx.mark_used(["powerctx://s/memory/f"])
    prepared = ctx.prepare("release", scope_id="s", max_items=2, trim="value")
    trimming = prepared.diagnostics.trimming

    assert trimming is not None
    assert (("relevance", 1.0), ("use", 0.3), ("confidence", 0.2), ("layer", 0.1), ("recency", 0.1)) == trimming.weights
    assert set("abcdef") == {value.address.artifact_id for value in trimming.values}
    assert prepared.selected == tuple(value.address for value in trimming.values[:2])
    assert {1.0, 0.0} == {value.use for value in trimming.values}
    assert all(isinstance(value, ItemValue) and 0 <= value.total <= 1 for value in trimming.values)
    assert ctx.prepare("release", scope_id="s").diagnostics.trimming is None


def test_weights_are_settings() -> None:
    """Each weight changes what stays."""
    notes = [
        Item(scope_id="s", artifact_id="best", text="release release release notes"),
        Item(scope_id="s", artifact_id="sure", text="release of something else", confidence=1.0),
        Item(scope_id="s", artifact_id="high", text="release of another thing", layer="L3", confidence=0.0),
        Item(
            scope_id="s",
            artifact_id="new",
            text="release of the third kind",
            event_time=DAY + timedelta(days=9999),
            confidence=0.0,
        ),
        Item(scope_id="s", artifact_id="used", text="release and yet more of it", confidence=0.0),
    ]
    found = {}
    for weight, name in (
        ("relevance", "best"),
        ("confidence", "sure"),
        ("layer", "high"),
        ("recency", "new"),
        ("use", "used"),
    ):
        weights = {**dict.fromkeys(("relevance", "use", "confidence", "layer", "recency"), 0.01), weight: 10.0}
        with powerctx.open("memory://", plugins=(), settings={"trim": weights}) as ctx:
            ctx.put(notes)
            ctx.mark_used("powerctx://s/memory/used")
            found[name] = _ids(ctx.prepare("release", scope_id="s", max_items=1, trim="value"))

    assert {name: name for name in found} == found


def test_value_within_sections(ctx: powerctx.Context) -> None:
    """Sections keep their order; inside each the most valuable come first."""
    ctx.put([Item(scope_id="s", family="rule", artifact_id=name, text=f"release rule {name * 9}") for name in "xyz"])
    ctx.mark_used("powerctx://s/rule/z")
    sections = [{"family": "memory", "limit": 1}, {"family": "rule", "limit": 2}]
    prepared = ctx.prepare("release", scope_id="s", sections=sections, trim="value")

    assert ["memory", "rule", "rule"] == [address.family for address in prepared.selected]
    assert "z" == prepared.selected[1].artifact_id


def test_reading_never_counts(ctx: powerctx.Context) -> None:
    """``prepare`` and ``find`` leave the counts, and everything else, as they are."""
    ctx.mark_used("powerctx://s/memory/a")
    before = ctx.store.catalogue.state()  # type: ignore[attr-defined]  # of the store in memory
    for trim in ("rank", "value"):
        ctx.prepare("release", scope_id="s", trim=trim)
    ctx.find("release", scope_id="s")

    assert before is ctx.store.catalogue.state()  # type: ignore[attr-defined]  # of the store in memory


def test_mark_used_takes_what_names_items(ctx: powerctx.Context) -> None:
    """Addresses and URIs, one or many, each artifact once in a call; what is not stored is not counted."""
    prepared = ctx.prepare("release", scope_id="s", max_items=2)

    assert 2 == ctx.mark_used(prepared.selected)
    assert 1 == ctx.mark_used(["powerctx://s/memory/a", "powerctx://s/memory/a@1", "powerctx://s/memory/none"])
    with pytest.raises(InvalidRequest, match="not a powerctx URI"):
        ctx.mark_used("nonsense")
    with pytest.raises(InvalidRequest, match="uris must be a list"):
        ctx.mark_used(3)  # type: ignore[arg-type]  # what the check is for


def test_a_store_without_counts() -> None:
    """Value trimming goes on without uses; ``mark_used`` says what is missing."""

    class Bare:
        vectors = None

        def __init__(self, url: str, settings: object) -> None:
            self.inner = MemoryStore("memory://", powerctx.NoSettings())
            self.catalogue = self.inner.catalogue
            self.status, self.close = self.inner.status, self.inner.close

    class Plugin:
        @hookimpl
        def powerctx_stores(self) -> Iterator[StoreSpec]:
            yield StoreSpec(name="bare", factory=Bare, schemes=("bare",))

    with powerctx.open("bare://", plugins=(), extra=[Plugin()], settings={}) as ctx:
        ctx.put([Item(scope_id="s", text="release")])
        assert 1 == len(ctx.prepare("release", scope_id="s", trim="value").selected)
        with pytest.raises(powerctx.CapabilityError, match="mark_used needs a store that keeps usage counts"):
            ctx.mark_used("powerctx://s/memory/a")


class _Counts:
    """Counts of a store of somebody else, which answers with what *answer* returns or raises."""

    def __init__(self, answer: Callable[[Deadline], object]) -> None:
        self.answer = answer

    def add(self, artifacts: object) -> int:
        return 0

    def counts(self, artifacts: object, deadline: Deadline) -> object:
        return self.answer(deadline)


def _answering(answer: Callable[[Deadline], object]) -> powerctx.Context:
    """Open a store in memory whose counts are *answer*'s."""

    class Plugin:
        @hookimpl
        def powerctx_stores(self) -> Iterator[StoreSpec]:
            yield StoreSpec(name="counting", factory=make, schemes=("counting",))

    def make(url: str, settings: powerctx.NoSettings) -> MemoryStore:
        store = MemoryStore("memory://", settings)
        store._usage = _Counts(answer)  # type: ignore[assignment]  # answers as a broken store does
        return store

    ctx = powerctx.open("counting://", plugins=(), extra=[Plugin()], settings={})
    ctx.put([Item(scope_id="s", text="release")])
    return ctx


@pytest.mark.parametrize("raises", [False, True])
def test_counts_that_are_late_are_named(raises: bool) -> None:
    """A store that hangs over its counts, or stops when it is told to, does not hold the answer: ``usage`` is late."""
    done = threading.Event()

    def hang(deadline: Deadline) -> object:
        done.wait(deadline.remaining() if raises else 10.0)
        raise powerctx.StoreError("stopped")

    with _answering(hang) as ctx:
        began = time.monotonic()
        prepared = ctx.prepare("release", scope_id="s", trim="value", deadline_ms=400)
        took = time.monotonic() - began
        done.set()

    assert ("usage",) == prepared.diagnostics.late
    assert prepared.diagnostics.partial
    assert "delivered" == prepared.diagnostics.outcome
    assert took < 5.0


@pytest.mark.parametrize("deadline_ms", [None, 60_000])
@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda _: 1 / 0, "ZeroDivisionError"),
        (lambda _: {("s", "memory", "a"): -3}, "a count is no whole number from 0 up"),
        (lambda _: {("s", "memory", "a"): "many"}, "a count is no whole number from 0 up"),
        (lambda _: None, "it returned NoneType instead of a mapping"),
    ],
)
def test_counts_that_are_none_are_the_stores_fault(
    answer: Callable[[Deadline], object], told: str, deadline_ms: int | None
) -> None:
    """What a store does wrong with its counts ends the call with one sentence about it; by rank it is not asked."""
    with _answering(answer) as ctx:
        with pytest.raises(powerctx.StoreError, match=f"could not tell how often items were used: .*{told}"):
            ctx.prepare("release", scope_id="s", trim="value", deadline_ms=deadline_ms)
        assert 1 == len(ctx.prepare("release", scope_id="s", deadline_ms=deadline_ms).selected)


def test_one_more_read_and_no_write(tmp_path: Path) -> None:
    """By value a call runs one statement more than by rank, and neither writes."""
    with powerctx.open(f"sqlite:///{tmp_path}/x.db", plugins=("sqlite",), settings={}) as ctx:
        ctx.put([Item(scope_id="s", text=f"release {number}") for number in range(9)])
        ctx.mark_used(ctx.find("release", scope_id="s").hits[0].address)
        for trim in ("rank", "value"):
            ctx.prepare("release", scope_id="s", trim=trim)
        seen: list[str] = []
        driver = ctx.store._database._engine  # type: ignore[attr-defined]  # of the SQLite store
        with driver.connect() as connection:
            connection.connection.driver_connection.set_trace_callback(seen.append)
        counted = []
        for trim in ("rank", "value"):
            seen.clear()
            ctx.prepare("release", scope_id="s", trim=trim)
            counted.append([word for statement in seen if (word := statement.split()[0]) not in ("BEGIN", "ROLLBACK")])

    assert {"SELECT"} == {word for words in counted for word in words}
    assert 1 == len(counted[1]) - len(counted[0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"trim": {"use": -1}}, "trim.use"),
        ({"trim": {"half_life_days": 0}}, "trim.half_life_days"),
        ({"trim": {"redundancy": 0}}, "trim.redundancy"),
        (
            {"trim": dict.fromkeys(("relevance", "use", "confidence", "layer", "recency"), 0)},
            "give at least one weight",
        ),
    ],
)
def test_bad_settings(settings: dict[str, object], message: str) -> None:
    """A weight below 0, or no weight at all, is refused with its name."""
    with pytest.raises(powerctx.ConfigError, match=message):
        structure(settings)


def test_unknown_trim(ctx: powerctx.Context) -> None:
    """There are two ways to trim."""
    with pytest.raises(InvalidRequest, match="trim is 'age'; it must be rank or value"):
        ctx.prepare("release", scope_id="s", trim="age")
