"""Which snapshots of this process are open, so that nothing is deleted that one of them may still ask for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Readers"]


class Readers:
    """Counts ticks: what was seen as gone at a tick is asked for by nobody who began at it or later.  Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tick = 0
        self._open: dict[object, int] = {}

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Surround a snapshot, from before its beginning."""
        token = object()
        with self._lock:
            self._open[token] = self._tick
        try:
            yield
        finally:
            with self._lock:
                del self._open[token]

    def tick(self) -> int:
        """Begin a new tick and return it."""
        with self._lock:
            self._tick += 1
            return self._tick

    def oldest(self) -> int:
        """Return the tick at which the oldest open snapshot began, or the present one when none is open."""
        with self._lock:
            return min(self._open.values(), default=self._tick)
