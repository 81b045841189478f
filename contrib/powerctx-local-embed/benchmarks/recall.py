"""Measures recall@10 of words, vectors and both: ``python benchmarks/recall.py --data DIR``.

Words are ranked by BM25 over the terms of powerctx; both scores are scaled by min-max over the best 64 of each, and
added with the weight given to the vectors.
"""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
from labelled import Scope, arguments, scopes
from numpy.typing import NDArray

from powerctx_core.text.terms import analyse, analyse_query

Array = NDArray[np.float64]
POOL = 64
WEIGHTS = (0.0, 0.3, 0.5, 0.7, 1.0)


def bm25(scope: Scope) -> Array:
    """Return the score of every item for every query."""
    bags = [analyse(item["text"]) for item in scope.items]
    lengths = np.array([sum(bag.values()) for bag in bags], float)
    postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for place, bag in enumerate(bags):
        for term, occurrences in bag.items():
            postings[term].append((place, occurrences))
    scores = np.zeros((len(scope.queries), len(bags)))
    for row, query in zip(scores, scope.queries, strict=True):
        for term in analyse_query(query["text"]).terms:
            if found := postings.get(term):
                places, occurrences = (np.array(column) for column in zip(*found, strict=True))
                rarity = math.log(1 + (len(bags) - len(found) + 0.5) / (len(found) + 0.5))
                dampened = occurrences + 1.2 * (0.25 + 0.75 * lengths[places] / lengths.mean())
                row[places] += rarity * occurrences * 2.2 / dampened
    return scores


def scaled(scores: Array, known: NDArray[np.bool_]) -> Array:
    """Return min-max of the best 64 of the *known*, 0 for the rest."""
    best = [place for place in np.argsort(-scores, kind="stable")[:POOL] if known[place]]
    result = np.zeros(len(scores))
    if best:
        low, high = scores[best].min(), scores[best].max()
        result[best] = (scores[best] - low) / (high - low) if high > low else 1
    return result


def recalls(scope: Scope, weight: float) -> list[float]:
    """Return the share of its gold that each query has among its first ten."""
    shares = []
    for words, vector, gold in zip(bm25(scope), scope.query_vectors, scope.gold, strict=True):
        cosines = (scope.item_vectors @ vector).astype(float)
        fused = (1 - weight) * scaled(words, words > 0) + weight * scaled(cosines, np.ones(len(cosines), bool))
        shares.append(len(gold & set(np.argsort(-fused, kind="stable")[:10].tolist())) / len(gold))
    return shares


def main() -> None:
    """Print one line a set."""
    shares: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for scope in scopes(arguments(__doc__ or "")):
        for weight in WEIGHTS:
            shares[scope.set_name][weight] += recalls(scope, weight)
    print(f"{'recall@10, weight of vectors':<30}" + "".join(f"{weight:>7}" for weight in WEIGHTS))
    for name, by_weight in shares.items():
        print(f"{name:<30}" + "".join(f"{np.mean(by_weight[weight]):>7.3f}" for weight in WEIGHTS))


if __name__ == "__main__":
    main()
