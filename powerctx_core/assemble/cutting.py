"""How much of a text fits a price.  Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

from powerctx_core.assemble.budget import MIN_CUT_BYTES, utf8_bytes
from powerctx_core.text.cut import cut_to_chars

__all__ = ["last_paragraph", "longest_cut", "prefix_by_price"]

_PARAGRAPH = re.compile(r"\n[ \t\r]*\n")
_PARAGRAPH_SHARE = 0.5


def prefix_by_price(price: Callable[[int], float], length: int, room: float) -> int:
    """Return how many of *length* characters cost at most *room*: tokens do not add up, so it is searched for.

    The cost is nearly proportional to the length, so that what is left, shared out, hits within a few characters;
    every third step halves what is still possible, so that no price list makes the search long.

    Args:
        price: returns what the first so many characters cost.
        length: of the text.
        room: what they may cost.
    """
    low, high = 0, length
    # Most of what is tried has no room even for a mark, and its whole text is never priced.
    least = price(0)
    if least > room:
        return 0
    most = price(length)
    if most <= room:
        return length
    step = 0
    while high - low > 1:
        step += 1
        middle = (low + high) // 2
        if step % 3 and most > least:
            middle = low + int((high - low) * (room - least) / (most - least))
            middle = min(max(middle, low + 1), high - 1)
        cost = price(middle)
        if cost <= room:
            low, least = middle, cost
        else:
            high, most = middle, cost
    return low


def longest_cut(body: str, limit: int, fits: Callable[[str], bool], *, sentences: bool = True) -> str | None:
    """Return the longest beginning of *body*, at most *limit* characters, that *fits*, or ``None``.

    It ends at a grapheme, preferably (with *sentences*) after a sentence, and has at least 64 bytes.
    """
    while limit > 0:
        shorter = cut_to_chars(body, limit, sentences=sentences) if limit < len(body) else body
        if utf8_bytes(shorter) < MIN_CUT_BYTES:
            # A sentence end may lie so early that the cut falls below the least length; then any grapheme will do.
            shorter = cut_to_chars(body, limit, sentences=False)
            if utf8_bytes(shorter) < MIN_CUT_BYTES:
                return None
        if fits(shorter):
            return shorter
        # Only an estimator that is not monotone gets here.
        limit = min(limit - 1, len(shorter) * 9 // 10)
    return None


def last_paragraph(body: str, limit: int) -> int:
    """Return where the last paragraph of the first *limit* characters ends; 0 when less than half would be left."""
    ends = [match.start() for match in _PARAGRAPH.finditer(body, 0, limit + 2)]
    last = max((len(body[:end].rstrip()) for end in ends if end <= limit), default=0)
    return last if last >= limit * _PARAGRAPH_SHARE and utf8_bytes(body[:last]) >= MIN_CUT_BYTES else 0
