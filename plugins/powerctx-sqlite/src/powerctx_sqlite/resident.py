"""Partitions whose vectors are kept in memory, brought up to date by what has changed since."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable

import attrs
import numpy as np

from powerctx_sqlalchemy.tables import LENGTH_BITS
from powerctx_sqlite.signs import Array, Exact, Rows, Signs, appended

__all__ = ["EXACT", "Held", "Residents"]

EXACT = 16_000
"""Partitions of up to so many vectors are searched exactly."""
_OUTGROWN = 1.25
"""A partition that grows beyond so many times that is loaded anew."""
_DEAD = 0.25
"""Removed rows are kept until they are this share."""


@attrs.frozen(eq=False)
class Held:
    """The vectors of one partition at one moment.

    Attributes:
        stamp: the partition's change counter of that moment.
        profile: the id of the model.
        size: number of rows.
        keys: of the rows; an older state may share the array, and a newer one fill what is behind *size*.
        dead: which of the rows were removed, or ``None`` for none.
    """

    stamp: int
    profile: int
    size: int
    keys: Array
    rows: Rows
    dead: Array | None = None

    @classmethod
    def of(cls, stamp: int, profile: int, batches: Iterable[tuple[Array, Array]]) -> Held:
        """Hold vectors that come in batches of keys and rows."""
        keys = [np.empty(0, np.int64)]
        waiting: list[Array] = []
        rows: Rows | None = None
        size = 0
        for some, values in batches:
            keys.append(some)
            if rows is not None:
                rows = rows.appended(size, values)
            else:
                waiting.append(values)
                if size + len(some) > EXACT:
                    rows = Signs.of(np.concatenate(waiting))
            size += len(some)
        if rows is None:
            rows = Exact(np.concatenate(waiting) if waiting else np.empty((0, 0), np.int16))
        return cls(stamp, profile, size, np.concatenate(keys), rows)

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        return self.rows.nbytes + int(self.keys.nbytes) + (0 if self.dead is None else self.size)

    @property
    def fitting(self) -> bool:
        """Whether the number of rows suits the way they are held."""
        alive = self.size if self.dead is None else self.size - int(np.count_nonzero(self.dead))
        return alive <= EXACT * _OUTGROWN if isinstance(self.rows, Exact) else alive > EXACT

    def changed(self, stamp: int, keys: Array, rows: Array, removed: Array) -> Held:
        """Return the state after some rows were added, or replaced, and some removed."""
        dead = self.dead
        gone = _among(self.keys[: self.size], np.concatenate((removed, keys)))
        if gone.any():
            dead = gone if dead is None else dead | gone
        if len(keys):
            if dead is not None:
                dead = np.concatenate((dead, np.zeros(len(keys), bool)))
            held = attrs.evolve(
                self,
                size=self.size + len(keys),
                keys=appended(self.keys, self.size, keys),
                rows=self.rows.appended(self.size, rows) if self.size else Exact(rows),
            )
        else:
            held = self
        return attrs.evolve(held, stamp=stamp, dead=dead).compacted()

    def compacted(self) -> Held:
        """Return this without removed rows, when they are many."""
        if self.dead is None or np.count_nonzero(self.dead) <= _DEAD * self.size:
            return self
        places = np.flatnonzero(~self.dead)
        return attrs.evolve(self, size=len(places), keys=self.keys[places], rows=self.rows.kept(places), dead=None)

    def near(self, vector: Array, k: int, allowed: Array | None, *, removed: bool) -> tuple[Array, Array | None]:
        """Return keys that hold the *k* nearest among *allowed*, best first, with their cosines when it was exact.

        With *removed*, also those that were removed, which a reader of an older state may still see.
        """
        keys = self.keys[: self.size]
        mask = None if self.dead is None or removed else ~self.dead
        if allowed is not None:
            inside = _among(keys, allowed)
            mask = inside if mask is None else mask & inside
        places, cosines = self.rows.near(vector, keys, mask, k)
        return keys[places], cosines


def _among(keys: Array, some: Array) -> Array:
    """Return which of the keys of one partition are among *some*; their sequences lie close together."""
    return np.isin(keys >> LENGTH_BITS, some >> LENGTH_BITS)


@attrs.define(eq=False)
class _Entry:
    lock: threading.Lock = attrs.field(factory=threading.Lock)
    held: Held | None = None


class Residents:
    """The partitions in memory, the least recently used of which are dropped.

    Args:
        most: bytes that they may take together; a single larger one is kept while it is in use.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._entries: OrderedDict[int, _Entry] = OrderedDict()

    def held(self, partition: int, stamp: int, load: Callable[[Held | None], Held]) -> Held:
        """Return the state of *stamp* or a newer one; one thread loads it, others that need it wait."""
        with self._lock:
            entry = self._entries.setdefault(partition, _Entry())
            self._entries.move_to_end(partition)
        held = entry.held
        if held is not None and held.stamp >= stamp:
            return held
        with entry.lock:
            held = entry.held
            if held is None or held.stamp < stamp:
                held = entry.held = load(held)
        self._trim()
        return held

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._entries.clear()

    def nbytes(self) -> int:
        """Return the memory in use."""
        with self._lock:
            return sum(entry.held.nbytes for entry in self._entries.values() if entry.held is not None)

    def _trim(self) -> None:
        with self._lock:
            sizes = {
                partition: 0 if entry.held is None else entry.held.nbytes for partition, entry in self._entries.items()
            }
            total = sum(sizes.values())
            for partition, size in list(sizes.items())[:-1]:
                if total <= self._most:
                    break
                del self._entries[partition]
                total -= size
