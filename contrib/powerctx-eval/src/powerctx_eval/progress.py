"""How long steps tell how far they are."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Started", "Tick", "quiet", "unseen"]

Tick = Callable[[int], None]
"""Counts units as done."""
Started = Callable[[str, int], Tick]
"""Called with a label and a number of units when a long step starts."""


def unseen(units: int) -> None:
    """Tell nobody."""
    del units


def quiet(label: str, total: int) -> Tick:
    """Start a step that nobody watches."""
    del label, total
    return unseen
