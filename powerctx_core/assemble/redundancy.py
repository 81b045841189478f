"""Which texts say nearly the same as an earlier one.  Pure, linear in the text."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

__all__ = ["redundant"]

_SHINGLE = 4
"""Characters of a shingle: a few words of Han, less than a word of Latin, and both tell texts apart."""
_SKETCH = 64
"""Hashed shingles that are kept of a text, the smallest ones (Broder 1997, "On the resemblance and containment of
documents"): the resemblance of two texts is right within 0.05 as a rule, and exact for texts of no more shingles."""
_UNIT = 2
"""Bytes of a character in UTF-16."""


def redundant(texts: Sequence[str], resemblance: float) -> list[int | None]:
    """Return for each text the place of the first earlier one that it resembles, or ``None``.

    Only texts that resemble no earlier one are compared with, so that a row of small changes is not one group.

    Args:
        texts: in the order in which they are preferred.
        resemblance: least share of common shingles among all of both texts, 0..1; letter case and white space do not
            count.
    """
    kept: list[tuple[int, frozenset[int]]] = []
    found: list[int | None] = []
    for place, text in enumerate(texts):
        sketch = _sketch(text)
        like = next((other for other, known in kept if _resemblance(sketch, known) >= resemblance), None)
        if like is None:
            kept.append((place, sketch))
        found.append(like)
    return found


def _sketch(text: str) -> frozenset[int]:
    data = " ".join(text.casefold().split()).encode("utf-16-le", "surrogatepass")
    size = _SHINGLE * _UNIT
    hashes = {crc32(data[start : start + size]) for start in range(0, max(1, len(data) - size + 1), _UNIT)}
    return frozenset(sorted(hashes)[:_SKETCH])


def _resemblance(first: frozenset[int], second: frozenset[int]) -> float:
    """Return the estimated share of common shingles: among the smallest of both together, those that both have."""
    common = first & second
    if not common:
        return 0.0
    smallest = sorted(first | second)[:_SKETCH]
    return len(common.intersection(smallest)) / len(smallest)
