"""The companion's catalogue, with the vectors told of what it writes and of who reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from powerctx_core.ports import Catalogue, Snapshot
from powerctx_core.types import Deadline, Item, PutResult
from powerctx_sqlalchemy.paired.pairing import Pairing

__all__ = ["PairedCatalogue"]


class PairedCatalogue:
    """A :class:`powerctx_core.ports.Catalogue` over that of the companion.

    Attributes:
        purged: whether anything was purged since it was opened.
    """

    def __init__(self, companion: Catalogue, pairing: Pairing) -> None:
        self._companion = companion
        self._pairing = pairing
        self.purged = False

    @contextmanager
    def snapshot(self, deadline: Deadline) -> Iterator[Snapshot]:
        """Open a read view of the companion, whose vectors stay until it is closed."""
        with self._pairing.readers.reading(), self._companion.snapshot(deadline) as snapshot:
            yield snapshot

    def put(self, items: Sequence[Item]) -> Sequence[PutResult]:
        """Store items; see :class:`powerctx_core.ports.Catalogue`."""
        results = self._companion.put(items)
        self._pairing.tidy()
        return results

    def retire(self, artifacts: Sequence[tuple[str, str, str]]) -> int:
        """Take artifacts out of retrieval."""
        retired = self._companion.retire(artifacts)
        self._pairing.tidy()
        return retired

    def purge(self, artifacts: Sequence[tuple[str, str, str]]) -> int:
        """Delete artifacts for good, also from the engine.

        Raises:
            StoreError: the engine cannot be reached; it deletes them with the next write, or when it is next opened.
        """
        purged = self._companion.purge(artifacts)
        if purged:
            self.purged = True
            self._pairing.sweep(at_once=True)
        return purged

    def reindex(self, *, limit: int | None = None) -> Iterable[int]:
        """Analyse all items anew; vectors stay."""
        return self._companion.reindex(limit=limit)
