"""The way from retrieved to fitted, family by family: its numbers, and its picture as plain SVG."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Final

import attrs

from powerctx_core.explanation import DELIVERED, ExplainedRound, Explanation

__all__ = ["STEPS", "Flow", "drawn", "flow", "kinds"]

STEPS: Final = ("retrieved", "admitted", "selected", "fitted")
"""In the pools; let in by the floor; chosen to compete; delivered."""
COLOURS: Final = 8
_WIDTH, _HEIGHT, _TOP = 360, 172, 34
_COLUMN: Final = 12
_PLACES: Final = tuple(16 + step * (_WIDTH - 32 - _COLUMN) / (len(STEPS) - 1) for step in range(len(STEPS)))
_LEAST: Final = 2.0


@attrs.frozen
class Flow:
    """One family in one round: a number for each of :data:`STEPS`."""

    family: str
    numbers: tuple[int, int, int, int]


def kinds(explanation: Explanation) -> dict[str, int]:
    """Return family -> its colour: those that were searched in their order, then those that are read as they are."""
    names = dict.fromkeys(
        [
            *(pool.family for each in explanation.rounds for pool in each.pools),
            *(each.address.family for each in explanation.candidates),
        ]
    )
    return {name: place % COLOURS for place, name in enumerate(names)}


def flow(explanation: Explanation, stage: ExplainedRound) -> list[Flow]:
    """Return the flows of one round: what is selected and fitted was let in by this round or an earlier one."""
    retrieved, admitted = Counter[str](), Counter[str]()
    for pool in stage.pools:
        retrieved[pool.family] += pool.retrieved
        admitted[pool.family] += pool.admitted
    selected, fitted = Counter[str](), Counter[str]()
    searched = {pool.family for pool in stage.pools}
    for candidate in explanation.candidates:
        family = candidate.address.family
        if family not in searched:  # its latest is read, and nothing judges it
            retrieved[family] += 1
            admitted[family] += 1
        if candidate.round is not None and candidate.round <= stage.number and candidate.rank is not None:
            selected[family] += 1
            fitted[family] += candidate.fate in DELIVERED
    return [
        Flow(family, (retrieved[family], admitted[family], selected[family], fitted[family]))
        for family in kinds(explanation)
    ]


def drawn(ident: str, title: str, flows: Sequence[Flow], colours: dict[str, int]) -> str:
    """Return the picture of a round: at each step a bar of all families, and bands to the next.

    Args:
        ident: unique on the page.
        title: what it shows, for who cannot see it.
        flows: of the families.
        colours: family -> its colour.
    """
    totals = [sum(each.numbers[step] for each in flows) for step in range(len(STEPS))]
    scale = (_HEIGHT - _TOP - 2 - _LEAST * len(flows)) / max(1, *totals)
    bands: list[str] = []
    bars: list[str] = []
    heights = [0.0] * len(STEPS)
    for each in flows:
        sizes = [number * scale + _LEAST * (number > 0) for number in each.numbers]
        kind = colours.get(each.family, 0)
        for step, size in enumerate(sizes):
            place, top = _PLACES[step], _TOP + heights[step]
            if step and sizes[step - 1]:
                before, start = _PLACES[step - 1] + _COLUMN, _TOP + heights[step - 1]
                middle = (before + place) / 2
                bands.append(
                    f'<path class="band k{kind}" d="M{before:.1f} {start:.1f}C{middle:.1f} {start:.1f} {middle:.1f} '
                    f"{top:.1f} {place:.1f} {top:.1f}V{top + size:.1f}C{middle:.1f} {top + size:.1f} {middle:.1f} "
                    f'{start + sizes[step - 1]:.1f} {before:.1f} {start + sizes[step - 1]:.1f}Z"/>'
                )
            if size:
                bars.append(
                    f'<rect class="k{kind}" x="{place:.1f}" y="{top:.1f}" width="{_COLUMN}" height="{size:.1f}"/>'
                )
        heights = [height + size for height, size in zip(heights, sizes, strict=True)]
    labels = [_label(step, total) for step, total in enumerate(totals)]
    told = "; ".join(
        f"{each.family}: " + ", ".join(f"{number} {step}" for number, step in zip(each.numbers, STEPS, strict=True))
        for each in flows
    )
    name = escape(ident, quote=True)
    return (
        f'<svg class="flow" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-labelledby="{name}-t {name}-d">'
        f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(told)}</desc>'
        f"{''.join(bands)}{''.join(bars)}{''.join(labels)}</svg>"
    )


def _label(step: int, total: int) -> str:
    anchor = ("start", "middle", "middle", "end")[step]
    place = _PLACES[step] + (0.0, _COLUMN / 2, _COLUMN / 2, _COLUMN)[step]
    return (
        f'<text class="total" x="{place:.1f}" y="14" text-anchor="{anchor}">{total}</text>'
        f'<text class="step" x="{place:.1f}" y="27" text-anchor="{anchor}">{STEPS[step]}</text>'
    )
