"""Intervals by resampling queries: seeded, and the same queries for everything compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

__all__ = ["LEVEL", "Interval", "Resamples"]

LEVEL = 0.95
_CELLS = 4_000_000
"""Resampled cells held at once."""

Floats = NDArray[np.float64]


@attrs.frozen
class Interval:
    """A figure and its interval; all ``None`` when it is over nothing."""

    value: float | None
    low: float | None
    high: float | None

    def as_json(self) -> dict[str, float | None]:
        """Return the three with six decimals."""
        return {
            name: None if number is None else round(number, 6)
            for name, number in (("value", self.value), ("low", self.low), ("high", self.high))
        }


class Resamples:
    """*count* resamples of *size* queries, made once and used for every figure over these queries.

    Equal seeds give equal intervals.  Differences use the same resample on both sides, which is what pairs them.
    """

    def __init__(self, size: int, *, count: int, seed: int) -> None:
        self._size, self._count, self._seed = size, count, seed

    def ratios(self, numerators: Floats, denominators: Floats) -> tuple[Floats, Floats]:
        """Return the figure of every column, and of every column in every resample (resamples × columns).

        A figure is the sum of a column of *numerators* over that of *denominators* (queries × columns); it is not a
        number where there is nothing to divide by.
        """
        rng = np.random.default_rng(self._seed)
        rows = max(1, _CELLS // max(1, self._size))
        chance = np.full(self._size, 1 / self._size) if self._size else np.empty(0)
        drawn: list[Floats] = []
        for start in range(0, self._count if self._size else 0, rows):
            times = rng.multinomial(self._size, chance, size=min(rows, self._count - start)).astype(np.float64)
            drawn.append(_divided(times @ numerators, times @ denominators))
        whole = _divided(numerators.sum(axis=0), denominators.sum(axis=0))
        return whole, np.concatenate(drawn) if drawn else np.empty((0, numerators.shape[1]))


def intervals(whole: Floats, resampled: Floats, *, level: float = LEVEL) -> list[Interval]:
    """Return a percentile interval for every column."""
    found = []
    for column, value in enumerate(whole):
        sample = resampled[:, column]
        sample = sample[~np.isnan(sample)]
        if np.isnan(value) or not sample.size:
            found.append(Interval(None if np.isnan(value) else float(value), None, None))
            continue
        low, high = np.quantile(sample, [(1 - level) / 2, (1 + level) / 2])
        found.append(Interval(float(value), float(low), float(high)))
    return found


def mean_interval(values: Sequence[float], *, count: int, seed: int, level: float = LEVEL) -> Interval:
    """Return the mean of *values* with its interval."""
    column = np.asarray(values, dtype=np.float64).reshape(-1, 1)
    whole, resampled = Resamples(len(values), count=count, seed=seed).ratios(column, np.ones_like(column))
    return intervals(whole, resampled, level=level)[0]


def _divided(above: Any, below: Any) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = np.where(below > 0, above / below, np.nan)
    return found
