"""Figures of one answer, and what a figure over many answers is: a ratio of two sums."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import attrs

__all__ = ["METRICS", "Answer", "columns", "judge", "ndcg", "percentile", "recall"]

METRICS: Mapping[str, str] = {
    "evidence": "share of a query's gold items that are delivered",
    "any": "queries with at least one gold item delivered",
    "all": "queries with every gold item delivered",
    "precision": "share of the delivered text that is gold, over answers that deliver something",
    "empty": "queries answered with nothing",
    "bytes": "UTF-8 bytes injected",
    "tokens": "tokens injected, estimated (o200k)",
    "items": "entries delivered",
}
"""Name -> what its mean says."""


@attrs.frozen(kw_only=True)
class Answer:
    """The figures of one answer.

    Attributes:
        gold: number of gold items of the query.
        held: number of them that were delivered.
        body_bytes, gold_bytes: delivered text, and the part of it that is gold; markers and citations do not count.
        not_only: entries outside the query's ``only``.
        forbidden: entries inside its ``must_not``.
    """

    gold: int
    held: int
    items: int
    body_bytes: int
    gold_bytes: int
    content_bytes: int
    tokens: int
    not_only: int
    forbidden: int

    @property
    def evidence(self) -> float:
        """Share of gold that was delivered; 0 without gold."""
        return self.held / self.gold if self.gold else 0.0


def judge(
    delivered: Sequence[tuple[str, int]],
    gold: Collection[str],
    *,
    only: Collection[str] = (),
    must_not: Collection[str] = (),
    content_bytes: int = 0,
    tokens: int = 0,
) -> Answer:
    """Return the figures of an answer.

    Args:
        delivered: (id, bytes of its text) of each entry, which the caller has verified.
        gold: ids that should come back.
        only: ids of all that may come back; empty allows everything.
        must_not: ids that must not come back.
        content_bytes: size of the whole content.
        tokens: the same, in tokens.
    """
    found = {ident for ident, size in delivered if size}
    return Answer(
        gold=len(set(gold)),
        held=len(found & set(gold)),
        items=len(delivered),
        body_bytes=sum(size for _, size in delivered),
        gold_bytes=sum(size for ident, size in delivered if ident in gold),
        content_bytes=content_bytes,
        tokens=tokens,
        not_only=sum(ident not in only for ident, _ in delivered) if only else 0,
        forbidden=sum(ident in must_not for ident, _ in delivered),
    )


def columns(answer: Answer) -> dict[str, tuple[float, float]]:
    """Return metric -> (numerator, denominator) of one answer.

    The figure over many answers is the sum of numerators over the sum of denominators: for most a plain mean.
    """
    share = answer.gold_bytes / answer.body_bytes if answer.body_bytes else 0.0
    return {
        "evidence": (answer.evidence, 1.0),
        "any": (float(answer.held > 0), 1.0),
        "all": (float(answer.gold > 0 and answer.held == answer.gold), 1.0),
        "precision": (share, float(answer.body_bytes > 0)),
        "empty": (float(answer.items == 0), 1.0),
        "bytes": (float(answer.content_bytes), 1.0),
        "tokens": (float(answer.tokens), 1.0),
        "items": (float(answer.items), 1.0),
    }


def recall(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """Return the share of *gold* among the first *k* of *ranked*."""
    return len(set(ranked[:k]) & set(gold)) / len(set(gold))


def ndcg(ranked: Sequence[str], gold: Collection[str], k: int = 10) -> float:
    """Return the normalised discounted cumulative gain of the first *k*, with a gain of 1 for each gold item."""
    wanted = set(gold)
    gain = sum(1 / math.log2(rank + 1) for rank, ident in enumerate(ranked[:k], 1) if ident in wanted)
    return gain / sum(1 / math.log2(rank + 1) for rank in range(1, min(k, len(wanted)) + 1))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least *share* of *values* do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
