"""Document frequencies kept in the process until their partition changes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

__all__ = ["Frequencies"]

_PARTITIONS = 64
_TERMS = 50_000


class Frequencies:
    """Counts by partition and term; every thread may use it.

    A count belongs to one value of the partition's change counter.  A snapshot that is older than what is kept asks the
    engine and leaves the cache alone.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, tuple[int, dict[str, int]]] = OrderedDict()

    def of(
        self,
        partition: int,
        changes: int,
        codes: Sequence[str],
        count: Callable[[Sequence[str]], Mapping[str, int]],
    ) -> Mapping[str, int]:
        """Return how many items hold each code; *count* is asked for those that are not known, at most once."""
        with self._lock:
            stamp, known = self._kept.get(partition, (-1, {}))
            found = {code: known[code] for code in codes if code in known} if stamp == changes else {}
        missing = [code for code in codes if code not in found]
        if missing:
            counted = count(missing)
            new = {code: counted.get(code, 0) for code in missing}
            found.update(new)
            self._keep(partition, changes, new)
        return found

    def _keep(self, partition: int, changes: int, counts: Mapping[str, int]) -> None:
        with self._lock:
            stamp, known = self._kept.get(partition, (-1, {}))
            if stamp > changes:
                return
            if stamp < changes or len(known) > _TERMS:
                known = {}
            known.update(counts)
            self._kept[partition] = (changes, known)
            self._kept.move_to_end(partition)
            while len(self._kept) > _PARTITIONS:
                self._kept.popitem(last=False)
