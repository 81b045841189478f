"""How many items hold the common terms, kept in the process."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping

__all__ = ["COMMON", "Frequencies"]

COMMON = 4096
"""A term in fewer items is read as fast as it is remembered."""
_PARTITIONS = 64
_TERMS = 50_000


class Frequencies:
    """Counts of common terms by partition; every thread may use it.

    A count is exact for one value of the partition's change counter, and afterwards still tells that a term is common.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, dict[str, tuple[int, int]]] = OrderedDict()

    def known(self, partition: int, codes: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Return (count, change counter) of those codes that were common when they were last counted."""
        with self._lock:
            kept = self._kept.get(partition)
            return {code: kept[code] for code in codes if code in kept} if kept else {}

    def keep(self, partition: int, changes: int, counts: Mapping[str, int]) -> None:
        """Remember those of *counts* that are large; what an older snapshot counted replaces nothing newer."""
        common = {code: (count, changes) for code, count in counts.items() if count >= COMMON}
        if not common:
            return
        with self._lock:
            kept = self._kept.setdefault(partition, {})
            if len(kept) > _TERMS:
                kept.clear()
            kept.update({code: new for code, new in common.items() if kept.get(code, (0, -1))[1] <= changes})
            self._kept.move_to_end(partition)
            while len(self._kept) > _PARTITIONS:
                self._kept.popitem(last=False)
