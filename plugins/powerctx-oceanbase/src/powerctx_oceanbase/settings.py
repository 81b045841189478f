"""Settings of the store, ``[parts.oceanbase]`` and ``[parts.seekdb]``; parameters of the URL come before them."""

from __future__ import annotations

import attrs

__all__ = ["MOST_BUCKETS", "OceanBaseSettings"]

_MOST = (1 << 31) - 1
MOST_BUCKETS = 64


_TLS = ("prefer", "off", "on", "verify")


@attrs.frozen(kw_only=True)
class OceanBaseSettings:
    """How the database is used.

    Attributes:
        pool: connections that are kept; more are opened when more threads read at once.
        connect_timeout_s: how long is waited for the server to answer a new connection.
        lock_timeout_ms: how long a writer waits for another one.
        write_timeout_s: how long one batch may take.
        buckets: parts that the tables are made of, by a hash of the scope, for clusters; only read when a store is
            made; a power of two.
        rank_above: partitions of more items than this give the best of their members; smaller ones give all.
        exact_below: partitions of up to so many items are searched by comparing every vector.
        reanalyse_at_most: so many items are analysed anew at open when the analysis has changed.
        tls: how a server is spoken to: over TLS if it offers that (``prefer``), never (``off``), or only, with any
            certificate (``on``) or one that the system trusts (``verify``).
    """

    pool: int = attrs.field(default=8)
    connect_timeout_s: int = attrs.field(default=10)
    lock_timeout_ms: int = attrs.field(default=30_000)
    write_timeout_s: int = attrs.field(default=600)
    buckets: int = attrs.field(default=1)
    rank_above: int = attrs.field(default=2000)
    exact_below: int = attrs.field(default=8000)
    reanalyse_at_most: int = attrs.field(default=20_000)
    tls: str = attrs.field(default="prefer")

    @tls.validator
    def _check_tls(self, _: attrs.Attribute[str], value: str) -> None:
        if value not in _TLS:
            raise ValueError(f"must be {', '.join(_TLS[:-1])} or {_TLS[-1]}, not {value!r}")

    @pool.validator
    @connect_timeout_s.validator
    @lock_timeout_ms.validator
    @write_timeout_s.validator
    def _check_positive(self, _: attrs.Attribute[int], value: int) -> None:
        if not 1 <= value <= 3_600_000:
            raise ValueError(f"must be from 1 to 3600000, not {value}")

    @rank_above.validator
    @exact_below.validator
    @reanalyse_at_most.validator
    def _check_count(self, _: attrs.Attribute[int], value: int) -> None:
        if not 0 <= value <= _MOST:
            raise ValueError(f"must be from 0 to {_MOST}, not {value}")

    @buckets.validator
    def _check_buckets(self, _: attrs.Attribute[int], value: int) -> None:
        if value.bit_count() != 1 or value > MOST_BUCKETS:
            raise ValueError(f"must be a power of two from 1 to {MOST_BUCKETS}, not {value}")
