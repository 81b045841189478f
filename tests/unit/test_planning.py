"""What planning costs, counted; and what its smallest budgets and usual packs deliver."""

from __future__ import annotations

import json

import pytest

import powerctx_core as powerctx
from powerctx_core.assemble.budget import Budget, Meter, utf8_bytes
from powerctx_core.assemble.fit import plan
from powerctx_core.ports import Renderer, Selection
from powerctx_core.render.flat_xml import FlatXml
from powerctx_core.render.plain import Plain
from powerctx_core.render.prepared import Prepared
from powerctx_core.render.sections import Sections
from powerctx_core.text.tokens import O200k
from powerctx_core.types import Address, Candidate

_SELECTION = Selection(scope_id="s")
_RENDERERS = pytest.mark.parametrize(
    "renderer", [Prepared(), FlatXml(), Plain(), Sections()], ids=lambda r: type(r).__name__
)


class _Counting:
    """A renderer that counts the characters it escapes, and what is measured of the text it writes."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer
        self.escaped = self.measured = self.entries = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._renderer, name)

    def escape(self, text: str) -> str:
        self.escaped += len(text)
        return self._renderer.escape(text)

    def entry(self, *arguments: object, **more: object) -> tuple[str, str]:
        self.entries += 1
        return self._renderer.entry(*arguments, **more)  # type: ignore[arg-type]  # what came is passed on

    def meter(self, unit: str, limit: int) -> Meter:
        cost = {"bytes": utf8_bytes, "chars": len, "tokens": O200k().cost}[unit]

        def counted(text: str) -> float:
            self.measured += len(text)
            return cost(text)

        return Meter(unit, limit, counted)


def _candidates(count: int, characters: int) -> list[Candidate]:
    text = ("资料库里有很多东西。" * characters)[:characters]
    return [
        Candidate(address=Address("s", "memory", f"i{n}", 1), text=text, body_bytes=len(text.encode()), score=1.0)
        for n in range(count)
    ]


def _counted(
    renderer: Renderer, count: int, characters: int, limits: dict[str, int], item_bytes: int = 2000
) -> _Counting:
    counting = _Counting(renderer)
    budget = Budget(max_items=64, item_bytes=item_bytes)
    meters = [counting.meter(unit, limit) for unit, limit in limits.items()]
    plan(_candidates(count, characters), budget, meters, counting, _SELECTION)  # type: ignore[arg-type]  # a renderer that counts stands in for one
    return counting


_LIMITS = pytest.mark.parametrize(
    "limits",
    [{"bytes": 8000}, {"chars": 8000}, {"tokens": 1600}, {"bytes": 8000, "chars": 8000, "tokens": 1600}],
    ids="+".join,
)


@_RENDERERS
@_LIMITS
def test_candidates_that_do_not_fit_cost_next_to_nothing(renderer: Renderer, limits: dict[str, int]) -> None:
    """Behind a full budget a candidate is asked for its frame and its first 64 bytes and no more.

    That is once for what is longer than an entry may be, and twice for what might be shown whole.
    """
    for characters, times in ((830, 1), (600, 2)):
        few, many = (_counted(renderer, count, characters, limits) for count in (32, 64))

        assert (many.escaped - few.escaped) / 32 <= times * 64
        assert (many.entries - few.entries) / 32 <= times
        assert (many.measured - few.measured) / 32 <= times * len(limits) * (64 + 250)


@_RENDERERS
@_LIMITS
def test_the_work_is_linear_in_the_text(renderer: Renderer, limits: dict[str, int]) -> None:
    """Twice the text and twice the budget are twice the work; nothing is rendered again and again to find what fits."""
    half = _counted(renderer, 16, 400, limits, item_bytes=4000)
    full = _counted(renderer, 16, 800, {unit: 2 * limit for unit, limit in limits.items()}, item_bytes=4000)

    assert full.escaped <= 2.2 * half.escaped + 4000
    assert full.measured <= 2.2 * half.measured + 16_000


@_RENDERERS
def test_an_entry_that_fits_is_escaped_once(renderer: Renderer) -> None:
    """A pack that fits whole costs one pass over its text, and the first 64 bytes of each once more."""
    found = _counted(renderer, 8, 300, {"bytes": 32_000})

    assert found.escaped <= 8 * (300 + 64)


def test_at_512_bytes_a_short_item_is_delivered() -> None:
    """With 100 bytes of text and ids and scope of together 50 the smallest budget is enough."""
    with powerctx.open("memory://", plugins=(), settings={}) as ctx:
        text = "needle " + "x" * 93
        ctx.put([powerctx.Item(scope_id="s" * 14, artifact_id="a" * 36, text=text)])
        for renderer in ("prepared", "flat-xml", "sections", "plain"):
            prepared = ctx.prepare("needle", scope_id="s" * 14, max_bytes=512, renderer=renderer)
            assert text in str(prepared.content)
            assert not prepared.diagnostics.items[0].truncated


def test_what_does_not_fit_the_smallest_budget_is_told_as_such() -> None:
    """Nothing that could be shortened fits beside a scope's name of 256 characters: the outcome is ``budget``."""
    with powerctx.open("memory://", plugins=(), settings={}) as ctx:
        ctx.put([powerctx.Item(scope_id="资" * 80, text="needle in a haystack")])
        prepared = ctx.prepare("needle", scope_id="资" * 80, max_bytes=512, renderer="flat-xml")

    assert ("empty", "budget") == (prepared.status, prepared.diagnostics.outcome)
    assert ("bytes",) == prepared.diagnostics.frame_over


@pytest.mark.parametrize(("id_characters", "least"), [(16, 0.80), (36, 0.75)])
def test_ten_items_of_300_bytes_are_mostly_body(id_characters: int, least: float) -> None:
    """With derived ids at least 80 % of the text is what was stored, with ids of 36 characters 75 %."""
    with powerctx.open("memory://", plugins=(), settings={}) as ctx:
        items = [
            powerctx.Item(
                scope_id="project:demo",
                artifact_id=f"{number:0{id_characters}}",
                text=f"needle {number} ".ljust(300, "x"),
            )
            for number in range(10)
        ]
        ctx.put(items)
        prepared = ctx.prepare("needle", scope_id="project:demo", max_items=10)

    lines = str(prepared.content).split("\n")[2:-2]
    assert 10 == len(lines)
    assert least <= sum(len(json.loads(line)["text"]) for line in lines) / prepared.content_bytes


@_RENDERERS
def test_what_stands_again_is_not_rendered_again(renderer: Renderer) -> None:
    """Entries that a plan begins with as the one before it did cost no rendering; all others do, each once."""
    counting = _Counting(renderer)
    budget = Budget(max_items=8)
    candidates = _candidates(10, 100)
    before = plan(candidates[:6], budget, (), counting, _SELECTION)  # type: ignore[arg-type]  # as above
    made = []
    for later in (candidates, [*candidates[:2], candidates[9], *candidates[2:9]], candidates[1:]):
        counting.entries = counting.escaped = 0
        plan(later, budget, (), counting, _SELECTION, before=before)  # type: ignore[arg-type]  # as above
        made.append(counting.entries)

    assert [2, 6, 8] == made
