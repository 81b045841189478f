"""Vectors in numpy: encoding, exact cosines, and a search over sign bits; knows nothing of the database.

Cosines are made by :func:`numpy.vecdot`, row by row: the same row gives the same value to the bit wherever it stands,
and BLAS starts no threads, which here make a matrix product of this size slower and erratic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np

from powerctx_core.vectors import COSINE_DIGITS, check_vector

__all__ = [
    "Array",
    "Exact",
    "Rows",
    "Signs",
    "appended",
    "best",
    "cosines",
    "encoded",
    "float32_bytes",
    "query",
    "stacked",
]

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_CHUNK = 4096
"""Rows that are decoded at a time; so many stay in the processor's cache."""
_WORDS = 8192
"""Sign words that are compared at a time."""
_BITS = 512
"""Rows whose bits are spread out at a time."""
_TOLERANCE = 1e-3
_HALF_TO_SINGLE = np.float32(2.0**112)
_HALF_BITS = np.int32(-0x70002000)
_NEAR, _NEAR_LEAST = 40, 2048
_KEPT, _KEPT_LEAST = 8, 256
"""Of the 40 k rows whose signs are nearest to the query's, the 8 k best by the query's own values are rescored."""


def encoded(vectors: Sequence[bytes], dimensions: int) -> list[bytes]:
    """Return unit-length float32 vectors as float16.

    Raises:
        InvalidRequest: one of them is not a unit-length vector of so many dimensions.
    """
    for vector in vectors:
        if not isinstance(vector, bytes) or len(vector) != dimensions * 4:
            check_vector(vector, dimensions)
    values = np.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), dimensions)
    with np.errstate(invalid="ignore", over="ignore"):
        lengths = np.vecdot(values, values)
    for place in np.flatnonzero(~(np.abs(lengths - 1.0) <= _TOLERANCE)).tolist():
        check_vector(vectors[place], dimensions)
    return [row.tobytes() for row in values.astype("<f2")]


def query(vector: bytes, dimensions: int) -> Array:
    """Return a query's vector as an array; refuses what :func:`encoded` refuses."""
    encoded([vector], dimensions)
    return np.frombuffer(vector, "<f4").astype(np.float32)


def stacked(blobs: Iterable[bytes], dimensions: int) -> Array:
    """Return encoded vectors as rows of float16 bits."""
    return np.frombuffer(b"".join(blobs), "<i2").reshape(-1, dimensions)


def _decoded(rows: Array) -> Array:
    """Return rows of float16 bits as float32: six times as fast as numpy's own conversion; finite values only."""
    bits = rows.astype(np.int32)
    bits <<= 13
    bits &= _HALF_BITS
    values = bits.view(np.float32)
    values *= _HALF_TO_SINGLE
    return values


def float32_bytes(blob: bytes) -> bytes:
    """Return one encoded vector as the port has it."""
    return np.frombuffer(blob, "<f2").astype("<f4").tobytes()


def cosines(rows: Array, vector: Array) -> Array:
    """Return the cosine of *vector* with every row of float16 bits."""
    found = np.empty(len(rows), np.float32)
    for start in range(0, len(rows), _CHUNK):
        np.vecdot(_decoded(rows[start : start + _CHUNK]), vector, out=found[start : start + _CHUNK])
    np.round(np.clip(found, -1.0, 1.0, out=found), COSINE_DIGITS, out=found)
    found += 0.0  # without the sign of a zero
    return found


def best(scores: Array, keys: Array, k: int) -> Array:
    """Return the places of the *k* highest scores, best first, ties by key."""
    places = np.arange(len(scores)) if k >= len(scores) else _at_least(scores, k)
    return places[np.lexsort((keys[places], -scores[places]))[:k]]


def _at_least(scores: Array, k: int) -> Array:
    """Return the places of all scores that are not below the *k*-th highest."""
    cut = len(scores) - k
    return np.flatnonzero(scores >= np.partition(scores, cut)[cut])


def _smallest(distances: Array, keys: Array, count: int) -> Array:
    """Return the places of the *count* smallest of small whole numbers, ties by key, in no order."""
    if count >= len(distances):
        return np.arange(len(distances))
    limit = int(np.searchsorted(np.cumsum(np.bincount(distances)), count))
    below, at = np.flatnonzero(distances < limit), np.flatnonzero(distances == limit)
    missing = count - len(below)
    if missing < len(at):
        at = at[np.argpartition(keys[at], missing - 1)[:missing]]
    return np.concatenate((below, at))


@attrs.frozen(eq=False)
class Exact:
    """Whole vectors, row by row; there is room for more below."""

    values: Array

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        return int(self.values.nbytes)

    def appended(self, size: int, rows: Array) -> Exact:
        """Return this with rows behind the first *size*; shares memory with what it came from."""
        return Exact(appended(self.values, size, rows))

    def kept(self, places: Array) -> Exact:
        """Return a copy of some rows."""
        return Exact(self.values[places])

    def near(self, vector: Array, keys: Array, mask: Array | None, k: int) -> tuple[Array, Array]:
        """Return the places and cosines of the *k* best of the rows of *keys*, or of those in *mask*."""
        if mask is not None and 2 * np.count_nonzero(mask) < len(mask):
            places = np.flatnonzero(mask)
            chosen, scores = Exact(self.values[places]).near(vector, keys[places], None, k)
            return places[chosen], scores
        scores = cosines(self.values[: len(keys)], vector)
        if mask is not None:
            # Below any; cheaper than a copy of the others.
            scores[~mask] = -2.0
        chosen = best(scores, keys, k)
        chosen = chosen[scores[chosen] >= -1.0]
        return chosen, scores[chosen]


@attrs.frozen(eq=False)
class Signs:
    """On which side of the centre each value lies, one bit a dimension, as columns of 64-bit words.

    Without the centre, models whose vectors all point roughly one way would have nearly the same signs for all texts.

    Attributes:
        words: word by row, so that one word of all rows stands together; there is room for more rows.
        centre: the mean of the first vectors.
    """

    words: Array
    centre: Array

    @classmethod
    def of(cls, rows: Array) -> Signs:
        """Hold the signs of rows of float16 bits, seen from their mean."""
        centre = _decoded(rows).mean(axis=0, dtype=np.float32)
        return cls(_columns(rows, centre), centre)

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        return int(self.words.nbytes)

    def appended(self, size: int, rows: Array) -> Signs:
        """Return this with rows behind the first *size*; shares memory with what it came from."""
        return Signs(appended(self.words, size, _columns(rows, self.centre), axis=1), self.centre)

    def kept(self, places: Array) -> Signs:
        """Return a copy of some rows."""
        return Signs(np.ascontiguousarray(self.words[:, places]), self.centre)

    def near(self, vector: Array, keys: Array, mask: Array | None, k: int) -> tuple[Array, None]:
        """Return places that hold nearly all of the *k* best of the rows of *keys*, or of those in *mask*."""
        wanted = _signs(vector - self.centre)
        distances = _distances(self.words[:, : len(keys)], wanted)
        if mask is not None:
            # Farther than any.
            distances[~mask] = 64 * len(wanted) + 1
        chosen = _smallest(distances, keys, max(_NEAR * k, _NEAR_LEAST))
        if mask is not None:
            chosen = chosen[mask[chosen]]
        scores = _sums(np.take(self.words, chosen, axis=1), vector)
        return chosen[best(scores, keys[chosen], max(_KEPT * k, _KEPT_LEAST))], None


Rows: TypeAlias = Exact | Signs


def _columns(rows: Array, centre: Array) -> Array:
    """Return the sign words of rows of float16 bits, word by row."""
    found = np.empty((-(-len(centre) // 64), len(rows)), np.uint64)
    for start in range(0, len(rows), _CHUNK):
        found[:, start : start + _CHUNK] = _signs(_decoded(rows[start : start + _CHUNK]) - centre).T
    return found


def _signs(values: Array) -> Array:
    """Return the signs along the last axis as 64-bit words."""
    packed = np.packbits(values > 0, axis=-1)
    padding = [(0, 0)] * (packed.ndim - 1) + [(0, -packed.shape[-1] % 8)]
    return np.pad(packed, padding).view(np.uint64)


def _distances(words: Array, wanted: Array) -> Array:
    """Return in how many bits each column differs from *wanted*."""
    found = np.empty(words.shape[1], np.uint16)
    differing, counts = np.empty(_WORDS, np.uint64), np.empty(_WORDS, np.uint8)
    for start in range(0, len(found), _WORDS):
        sums = found[start : start + _WORDS]
        bits, ones = differing[: len(sums)], counts[: len(sums)]
        sums[...] = 0
        for word, own in zip(words[:, start : start + _WORDS], wanted, strict=True):
            np.bitwise_xor(word, own, out=bits)
            np.bitwise_count(bits, out=ones)
            np.add(sums, ones, out=sums)
    return found


def _sums(words: Array, vector: Array) -> Array:
    """Return, for each column, the sum of the values of *vector* where its bits are set."""
    rows = np.ascontiguousarray(words.T).view(np.uint8)
    found = np.empty(len(rows), np.float32)
    for start in range(0, len(rows), _BITS):
        bits = np.unpackbits(rows[start : start + _BITS], axis=1, count=len(vector))
        np.vecdot(bits.astype(np.float32), vector, out=found[start : start + _BITS])
    return found


def appended(into: Array, size: int, values: Array, axis: int = 0) -> Array:
    """Return an array with *values* behind the first *size* along *axis*; grows by half when there is no room.

    Readers of an older state look at the first *size* only, so the room behind them may be filled while they do.
    """
    end = size + values.shape[axis]
    if end > into.shape[axis]:
        shape = list(into.shape)
        shape[axis] = end + (end >> 1)
        grown = np.empty(shape, into.dtype)
        np.moveaxis(grown, axis, 0)[:size] = np.moveaxis(into, axis, 0)[:size]
        into = grown
    np.moveaxis(into, axis, 0)[size:end] = np.moveaxis(values, axis, 0)
    return into
