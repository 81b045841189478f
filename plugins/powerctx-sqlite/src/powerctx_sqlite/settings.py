"""Settings of the store, ``[parts.sqlite]``; parameters of the URL come before them."""

from __future__ import annotations

import attrs

__all__ = ["SqliteSettings"]


@attrs.frozen(kw_only=True)
class SqliteSettings:
    """How the file is used.

    Attributes:
        synchronous: ``NORMAL`` (the last commits may be lost in a power failure, never the file) or ``FULL``.
        busy_timeout_ms: how long a writer waits for another one.
        rank_above: partitions of more items than this give the best of their members; smaller ones give all.
        reanalyse_at_most: so many items are analysed anew at open when the analysis has changed.
        vector_memory_mb: memory for the vectors of larger partitions; the least recently used are dropped above it.
        network: whether a file on a network file system may be opened.
    """

    synchronous: str = "NORMAL"
    busy_timeout_ms: int = 30_000
    rank_above: int = 2000
    reanalyse_at_most: int = 20_000
    vector_memory_mb: int = 256
    network: bool = False
