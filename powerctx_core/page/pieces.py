"""Pieces of the page.  Every text that comes from outside is escaped here, and nowhere else."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["bar", "chip", "details", "section", "table", "text"]

_FORMAT = frozenset({"Cc", "Cf", "Zl", "Zp", "Co", "Cn", "Cs"})
_KEPT = frozenset("\n\t\u200c\u200d")


def text(value: object) -> str:
    """Return *value* as HTML: markup escaped, and what is not seen or turns the direction of text written out."""
    given = str(value)
    if not given.isprintable():
        given = "".join(char if char in _KEPT or _seen(char) else f"\\u{ord(char):04x}" for char in given)
    return escape(given, quote=True)


def _seen(char: str) -> bool:
    return unicodedata.category(char) not in _FORMAT


def chip(value: object, kind: str = "") -> str:
    """Return a short word that stands out."""
    return f'<span class="chip {kind}">{text(value)}</span>' if kind else f'<span class="chip">{text(value)}</span>'


def bar(share: float, kind: str = "k0") -> str:
    """Return a bar filled to *share* (0 to 1); it repeats a number that stands beside it, and is not read out."""
    width = 100 * min(1.0, max(0.0, share))
    return (
        '<svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="track" width="100" height="6"/><rect class="{kind}" width="{width:.1f}" height="6"/></svg>'
    )


def section(ident: str, title: str, *parts: str) -> str:
    """Return a section with a heading; nothing when there is nothing in it."""
    inner = "".join(parts)
    if not inner:
        return ""
    return f'<section id="{ident}" aria-labelledby="{ident}-h"><h2 id="{ident}-h">{text(title)}</h2>{inner}</section>'


def details(summary: str, inner: str, *, opened: bool = False) -> str:
    """Return what is folded away; *summary* and *inner* are HTML."""
    return f"<details{' open' if opened else ''}><summary>{summary}</summary>{inner}</details>"


def table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table that scrolls by itself when it is wide; cells are HTML.

    A column whose name ends in ``>`` is aligned to the right; the first one heads its row.
    """
    right = [name.endswith(">") for name in columns]
    head = "".join(
        f'<th scope="col"{_side(side)}>{text(name.removesuffix(">"))}</th>'
        for name, side in zip(columns, right, strict=True)
    )
    body = "".join(f"<tr>{_row(row, right)}</tr>" for row in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{text(caption)}">'
        f"<table><caption>{text(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row(cells: Sequence[str], right: Sequence[bool]) -> str:
    return "".join(
        f'<th scope="row"{_side(side)}>{cell}</th>' if not place else f"<td{_side(side)}>{cell}</td>"
        for place, (cell, side) in enumerate(zip(cells, right, strict=True))
    )


def _side(right: bool) -> str:  # noqa: FBT001 (a cell is on one side or the other)
    return ' class="n"' if right else ""
