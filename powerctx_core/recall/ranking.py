"""Core's own ranking of lexical members, so that order is the same on every engine.

BM25 after Robertson and Zaragoza (2009) with k1 = 1.2 and b = 0.75, and the idf ``ln(1 + (N - df + 0.5) / (df + 0.5))``
of Lucene, which is never negative.  N, df and the mean length are those of one family in one scope.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import fsum, log

from powerctx_core.types import LexicalHit, LexicalStatistics

__all__ = ["K1", "B", "Scorer", "idf", "rank"]

K1 = 1.2
B = 0.75
_GAIN = K1 + 1.0
_DIGITS = 9


def idf(items: int, document_frequency: int) -> float:
    """Return the inverse document frequency of a term that *document_frequency* of *items* items hold."""
    return log(1.0 + (items - document_frequency + 0.5) / (document_frequency + 0.5))


class Scorer:
    """BM25 and idf mass of items of one partition, for one query.

    Attributes:
        weights: idf of every query term that occurs.
        mass: sum of the weights.
    """

    __slots__ = ("_base", "_slope", "mass", "weights")

    def __init__(self, statistics: LexicalStatistics) -> None:
        items = statistics.items
        self.weights = {term: idf(items, count) for term, count in statistics.document_frequency.items() if count > 0}
        self.mass = round(fsum(self.weights.values()), _DIGITS)
        self._base = K1 * (1.0 - B)
        self._slope = K1 * B / (statistics.mean_length or 1.0)

    def score(self, matched: Mapping[str, int], length: int) -> tuple[float, float]:
        """Return the BM25 score of an item and the idf mass of the terms it holds."""
        norm = self._base + self._slope * length
        weights = self.weights
        score = held = 0.0
        for term, count in matched.items():
            if term in weights:
                weight = weights[term]
                held += weight
                score += weight * count * _GAIN / (count + norm)
        # Stores list terms in any order, and sums differ by it in the last bits: those are no reason for another rank.
        return round(score, _DIGITS), round(held, _DIGITS)


def rank(hits: Iterable[LexicalHit], statistics: LexicalStatistics, k: int) -> list[LexicalHit]:
    """Return the *k* best hits by BM25, best first, ties by artifact id.

    Linear in the number of hits times the terms of the query.
    """
    score = Scorer(statistics).score
    # Keys are distinct, so that the hits themselves are never compared.
    scored = [(-score(hit.matched, hit.length)[0], hit.artifact_id, hit.key, hit) for hit in hits]
    scored.sort()
    return [hit for _, _, _, hit in scored[:k]]
