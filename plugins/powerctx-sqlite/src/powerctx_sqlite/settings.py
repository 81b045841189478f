"""Settings of the store, ``[parts.sqlite]``; parameters of the URL come before them."""

from __future__ import annotations

import attrs

__all__ = ["MOST_BUSY_MS", "SqliteSettings"]

MOST_BUSY_MS = 3_600_000
"""An hour: who waits longer waits for something that hangs."""
_MOST = (1 << 31) - 1


@attrs.frozen(kw_only=True)
class SqliteSettings:
    """How the file is used.

    Attributes:
        synchronous: ``NORMAL`` (the last commits may be lost in a power failure, never the file) or ``FULL``.
        busy_timeout_ms: how long a writer waits for another one, an hour at most.
        rank_above: partitions of more items than this give the best of their members; smaller ones give all.
        reanalyse_at_most: so many items are analysed anew at open when the analysis has changed.
        vector_memory_mb: memory for the vectors of larger partitions; the least recently used are dropped above it.
        network: whether a file on a network file system may be opened.
        inspect: look only: nothing is created, changed or brought to a newer version; for ``powerctx doctor``.
    """

    synchronous: str = attrs.field(default="NORMAL", validator=attrs.validators.in_(("NORMAL", "FULL")))
    busy_timeout_ms: int = attrs.field(default=30_000)
    rank_above: int = attrs.field(default=2000)
    reanalyse_at_most: int = attrs.field(default=20_000)
    vector_memory_mb: int = attrs.field(default=256)
    network: bool = False
    inspect: bool = False

    @busy_timeout_ms.validator
    def _check_timeout(self, _: attrs.Attribute[int], value: int) -> None:
        if not 0 <= value <= MOST_BUSY_MS:
            raise ValueError(f"must be from 0 to {MOST_BUSY_MS} milliseconds, not {value}")

    @rank_above.validator
    @reanalyse_at_most.validator
    @vector_memory_mb.validator
    def _check_count(self, _: attrs.Attribute[int], value: int) -> None:
        if not 0 <= value <= _MOST:
            raise ValueError(f"must be from 0 to {_MOST}, not {value}")
