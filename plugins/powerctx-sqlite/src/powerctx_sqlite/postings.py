"""Ranks rows nearly as core does, by what their postings tell.

A posting is a row's id within its partition, which ends in the class of the item's length, and one term's postings are
two lists: the rows that hold it, and of these the ones that hold it more than once.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest

import attrs
from powerctx_sqlalchemy.tables import LENGTH_BITS, typical_length

from powerctx_core.recall.ranking import K1, B

__all__ = ["Postings", "best", "estimated"]

_CLASSES = 1 << LENGTH_BITS
_REPEATED = 3.0
"""Occurrences that stand for more than one: of 2, 2.4 and 3 the last keeps most of core's best."""


@attrs.frozen
class Postings:
    """The rows that hold one term, and those of them that hold it more than once."""

    rows: Sequence[int]
    repeated: Sequence[int]


def estimated(terms: Iterable[tuple[float, Postings]], mean_length: float) -> dict[int, float]:
    """Return the BM25 score of every row in the postings, nearly; each term comes with its weight.

    This is the inner loop of retrieval: 0.1 microseconds a posting.
    """
    norms = [K1 * (1.0 - B + B * typical_length(number) / mean_length) for number in range(_CLASSES)]
    once = [(K1 + 1.0) / (1.0 + norm) for norm in norms]
    more = [_REPEATED * (K1 + 1.0) / (_REPEATED + norm) - gain for norm, gain in zip(norms, once, strict=True)]
    last = _CLASSES - 1
    scores: dict[int, float] = {}
    known = scores.get
    for weight, postings in terms:
        gains = [weight * gain for gain in once]
        for row in postings.rows:
            scores[row] = known(row, 0.0) + gains[row & last]
        if postings.repeated:
            gains = [weight * gain for gain in more]
            for row in postings.repeated:
                scores[row] += gains[row & last]
    return scores


def best(scores: Mapping[int, float], limit: int) -> list[int]:
    """Return the *limit* rows of the highest scores, ties by row, ascending."""
    if len(scores) <= limit:
        return sorted(scores)
    least = nlargest(limit, scores.values())[-1]
    found = [row for row, score in scores.items() if score > least]
    found += sorted(row for row, score in scores.items() if score == least)[: limit - len(found)]
    found.sort()
    return found
