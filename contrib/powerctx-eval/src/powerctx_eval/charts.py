"""Charts as inline SVG: drawn for a phone's width, coloured by the page's own variables, read out by title and text."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import attrs

__all__ = ["Bar", "bars", "differences"]

WIDTH = 360
_LEFT, _RIGHT = 8, 52
_PLOT = WIDTH - _LEFT - _RIGHT
_ROW, _THICK = 40, 12


@attrs.frozen(kw_only=True)
class Bar:
    """One row of a chart.

    Attributes:
        label: above the bar.
        value: its length, with the ends of its interval where there is one.
        shown: the value as text.
        kind: a number from 0 up; rows of one kind have one colour.
        ends: what lies between *low* and *high*.
    """

    label: str
    value: float
    low: float | None = None
    high: float | None = None
    shown: str
    kind: int = 0
    ends: str = "95 % interval"


def bars(ident: str, title: str, rows: Sequence[Bar], *, top: float | None = None) -> str:
    """Return bars from 0 to *top* (the largest end when absent), with whiskers for intervals.

    Args:
        ident: unique on the page; names the parts that a screen reader reads.
        title: what the chart shows.
        rows: from top to bottom.
        top: the value at the right end.
    """
    most = top if top is not None else max([*(max(row.value, row.high or 0.0) for row in rows), 1e-9])
    parts: list[str] = []
    for number, row in enumerate(rows):
        y = number * _ROW + 22
        length = _PLOT * min(1.0, row.value / most)
        parts += [
            _label(y - 6, row.label),
            f'<rect class="track" x="{_LEFT}" y="{y}" width="{_PLOT}" height="{_THICK}" rx="2"/>',
            f'<rect class="k{row.kind % 4}" x="{_LEFT}" y="{y}" width="{length:.1f}" height="{_THICK}" rx="2"/>',
        ]
        if row.low is not None and row.high is not None:
            parts.append(
                _whisker(_LEFT + _PLOT * min(1.0, row.low / most), _LEFT + _PLOT * min(1.0, row.high / most), y)
            )
        parts.append(_value(y, row.shown))
    return _svg(ident, title, rows, parts)


def differences(ident: str, title: str, rows: Sequence[Bar]) -> str:
    """Return points with intervals about a line at 0."""
    far = max([*(abs(end) for row in rows for end in (row.value, row.low or 0.0, row.high or 0.0)), 1e-9]) * 1.05
    middle = _LEFT + _PLOT / 2

    def place(value: float) -> float:
        return middle + value / far * _PLOT / 2

    parts: list[str] = []
    for number, row in enumerate(rows):
        y = number * _ROW + 22
        parts.append(f'<line class="zero" x1="{middle}" y1="{y - 2}" x2="{middle}" y2="{y + _THICK + 2}"/>')
        parts.append(_label(y - 6, row.label))
        if row.low is not None and row.high is not None:
            parts.append(_whisker(place(row.low), place(row.high), y))
        parts += [
            f'<circle class="k{row.kind % 4}" cx="{place(row.value):.1f}" cy="{y + _THICK / 2}" r="5"/>',
            _value(y, row.shown),
        ]
    return _svg(ident, title, rows, parts)


def _svg(ident: str, title: str, rows: Sequence[Bar], parts: Sequence[str]) -> str:
    told = "; ".join(
        f"{row.label}: {row.shown}"
        + (f" ({row.ends} {row.low:.3g} to {row.high:.3g})" if row.low is not None and row.high is not None else "")
        for row in rows
    )
    name = escape(ident, quote=True)
    return (
        f'<svg viewBox="0 0 {WIDTH} {len(rows) * _ROW + 4}" role="img" aria-labelledby="{name}-t {name}-d">'
        f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(told)}</desc>{"".join(parts)}</svg>'
    )


def _label(y: float, text: str) -> str:
    return f'<text class="label" x="{_LEFT}" y="{y}">{escape(text)}</text>'


def _value(y: float, text: str) -> str:
    return f'<text class="value" x="{WIDTH - 4}" y="{y + _THICK - 1}">{escape(text)}</text>'


def _whisker(start: float, end: float, y: float) -> str:
    middle, low, high = y + _THICK / 2, y + 2, y + _THICK - 2
    return (
        f'<path class="whisker" d="M{start:.1f} {middle}H{end:.1f}M{start:.1f} {low}V{high}M{end:.1f} {low}V{high}"/>'
    )
