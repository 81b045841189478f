"""What trimming by value makes of the candidates of one call."""

from __future__ import annotations

import attrs

from powerctx_core.types.address import Address

__all__ = ["TRIMS", "ItemValue", "Trimming"]

TRIMS = ("rank", "value")
"""What decides which candidates stay."""


@attrs.frozen(kw_only=True)
class ItemValue:
    """What one candidate is worth; every share is from 0 to 1 and compares the candidates of one call.

    Attributes:
        total: the mean of the shares by their weights.
        relevance: fused score, over the best one's.
        use: logarithm of how often it was used, over that of the one used most.
        confidence: of the item; half where it has none.
        layer: L0 is 0, L3 is 1.
        recency: halves with every half-life that it is older than the newest; by event time, else by last update.
        redundant_with: a candidate of more value with nearly the same text, behind which this one is tried last.
    """

    address: Address
    total: float
    relevance: float
    use: float
    confidence: float
    layer: float
    recency: float
    redundant_with: Address | None = None


@attrs.frozen(kw_only=True)
class Trimming:
    """How candidates were put in order by value.

    Attributes:
        weights: name of a share -> its weight.
        values: of every candidate, in the order in which they were tried.
    """

    weights: tuple[tuple[str, float], ...]
    values: tuple[ItemValue, ...]
