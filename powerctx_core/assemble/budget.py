"""Budgets: every given one holds at once, exactly, on the final text."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

import attrs

from powerctx_core.errors import PlanInvariantError
from powerctx_core.ports import TokenEstimator

__all__ = ["MIN_CUT_BYTES", "Budget", "Meter", "meters"]

MIN_CUT_BYTES = 64
"""A body is never cut below this many UTF-8 bytes."""
_TOKEN_SLACK = 1e-9


@attrs.frozen(kw_only=True)
class Budget:
    """What one pack may use.

    Attributes:
        max_items: entries over all families.
        max_bytes, max_chars, max_tokens: size of the whole text, in UTF-8 bytes, code points, estimated tokens.
        item_bytes: longest body of one entry, UTF-8 bytes; longer ones are cut.
        family_items: entries of single families.
    """

    max_items: int
    max_bytes: int | None = None
    max_chars: int | None = None
    max_tokens: int | None = None
    item_bytes: int = 2000
    family_items: tuple[tuple[str, int], ...] = ()


def utf8_bytes(text: str) -> int:
    """Return the UTF-8 length of *text*; constant time for ASCII."""
    return len(text) if text.isascii() else len(text.encode())


@attrs.frozen
class Meter:
    """One size budget: a limit and how text is priced.  Prices of newline-ended pieces add up."""

    unit: str
    limit: int
    cost: Callable[[str], float]

    def check(self, text: str) -> int:
        """Return what the final text costs, rounded up.

        Raises:
            PlanInvariantError: it costs more than the limit.
        """
        cost = self.cost(text) if text else 0.0
        if cost > self.limit + _TOKEN_SLACK:
            raise PlanInvariantError(f"output-budget: the text costs {ceil(cost)} {self.unit}, over {self.limit}")
        return min(ceil(cost), self.limit)


def meters(budget: Budget, estimator: TokenEstimator | None) -> tuple[Meter, ...]:
    """Return a meter for each size budget that is set; *estimator* prices tokens."""
    found: list[Meter] = []
    if budget.max_bytes is not None:
        found.append(Meter("bytes", budget.max_bytes, utf8_bytes))
    if budget.max_chars is not None:
        found.append(Meter("chars", budget.max_chars, len))
    if budget.max_tokens is not None:
        if estimator is None:
            raise PlanInvariantError("a token budget needs a token estimator")
        found.append(Meter("tokens", budget.max_tokens, estimator.cost))
    return tuple(found)
