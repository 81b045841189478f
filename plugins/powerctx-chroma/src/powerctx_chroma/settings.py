"""Settings of the store, ``[parts.chroma]`` and ``[parts.chroma-server]``; parameters of the URL come before them."""

from __future__ import annotations

import attrs

__all__ = ["ChromaSettings"]

_MOST = (1 << 31) - 1


@attrs.frozen(kw_only=True)
class ChromaSettings:
    """How Chroma is used.

    Attributes:
        tenant: of the server.
        database: of the server; it has to exist.
        token: sent to the server as ``Authorization: Bearer`` and ``X-Chroma-Token``.
        timeout_s: seconds that the server may take for one answer, ten minutes at most.
        exact_below: partitions of up to so many vectors share a collection and are searched exactly, from memory.
        documents: store the embedded text beside each vector, for who looks into Chroma; no search reads it.
        ef_search: how thoroughly Chroma's index is searched.
        vector_memory_mb: memory for vectors that were read; what was read first goes first.
        inspect: look only: nothing is repaired or brought to a newer version; for ``powerctx doctor``.
    """

    tenant: str = "default_tenant"
    database: str = "default_database"
    token: str = attrs.field(default="", repr=False)
    timeout_s: float = attrs.field(default=30.0)
    exact_below: int = attrs.field(default=1000)
    documents: bool = True
    ef_search: int = attrs.field(default=200)
    vector_memory_mb: int = attrs.field(default=256)
    inspect: bool = False

    @timeout_s.validator
    def _check_timeout(self, _: attrs.Attribute[float], value: float) -> None:
        if not 0.1 <= value <= 600:
            raise ValueError(f"must be from 0.1 to 600 seconds, not {value}")

    @exact_below.validator
    @vector_memory_mb.validator
    def _check_count(self, _: attrs.Attribute[int], value: int) -> None:
        if not 0 <= value <= _MOST:
            raise ValueError(f"must be from 0 to {_MOST}, not {value}")

    @ef_search.validator
    def _check_search(self, _: attrs.Attribute[int], value: int) -> None:
        if not 1 <= value <= 10_000:
            raise ValueError(f"must be from 1 to 10000, not {value}")
