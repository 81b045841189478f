"""The vector index: small partitions are searched in memory and exactly, large ones by Chroma's index.

Chroma proposes, the companion decides: what it does not confirm in the snapshot is dropped, and more is asked for.
Cosines are always computed here from the stored vectors, so that a vector has the same cosine whoever asks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import ceil

import numpy as np

from powerctx_chroma.engine import ChromaEngine
from powerctx_chroma.memory import Array, Held, Vectors, best, cosines
from powerctx_core.ports import NearestRequest, Snapshot, Unembedded
from powerctx_core.types import EmbeddingProfile, Filters, Key
from powerctx_core.vectors import check_vector
from powerctx_sqlalchemy import PartitionRow, RelationalSnapshot
from powerctx_sqlalchemy.paired import Located, Moment, Pairing

__all__ = ["ChromaVectorIndex"]

Found = Sequence[tuple[Key, float]]

_SPARE, _MORE = 1.2, 4
"""What passes a filter is not spread evenly; and how much more is asked for when too little passed."""


class ChromaVectorIndex:
    """A :class:`powerctx_core.ports.VectorIndex`; any thread may use it.

    Args:
        exact_below: partitions of up to so many items, or filters that let no more pass, are searched exactly.
        most_bytes: memory for vectors, and again for whole partitions.
    """

    def __init__(self, pairing: Pairing, engine: ChromaEngine, *, exact_below: int, most_bytes: int) -> None:
        self._pairing = pairing
        self._engine = engine
        self._exact_below = exact_below
        self._memory = Vectors(most_bytes)

    def attach(self, profile: EmbeddingProfile) -> None:
        """Declare the model; see :meth:`powerctx_sqlalchemy.paired.Pairing.attach`."""
        self._pairing.attach(profile)

    def upsert(self, vectors: Mapping[Key, bytes]) -> int:
        """Store vectors of current revisions; see :class:`powerctx_core.ports.VectorIndex`."""
        return self._pairing.upsert(vectors)

    def clear(self) -> int:
        """Delete every vector."""
        return self._pairing.clear()

    def cached(self, texts: Sequence[str]) -> Mapping[str, bytes]:
        """Return the vectors of those texts that a stored revision was embedded with."""
        return self._pairing.cached(texts)

    def unembedded(self, limit: int, after: Key = 0) -> Sequence[Unembedded]:
        """Return up to *limit* current revisions without a vector."""
        return self._pairing.unembedded(limit, after)

    def count(self) -> int:
        """Return the number of vectors of current revisions."""
        return self._pairing.count()

    def nearest(self, requests: Sequence[NearestRequest], snapshot: Snapshot) -> Sequence[Found]:
        """Return ``(key, cosine)`` of each request's members, best first, ties by key.

        Exact in partitions that were never large; in others nearly all of the best are found.
        """
        vectors = [self._query(request.vector) for request in requests]
        if not isinstance(snapshot, RelationalSnapshot):
            return [[] for _ in requests]
        rows = snapshot.rows([request.partition for request in requests])
        return [
            [] if row is None or not row.items or request.k < 1 else self._nearest(snapshot, row, vector, request)
            for request, vector, row in zip(requests, vectors, rows, strict=True)
        ]

    def cosines(self, keys: Sequence[Key], vector: bytes, snapshot: Snapshot) -> Mapping[Key, float]:
        """Return the cosine of every key that has a vector."""
        query = self._query(vector)
        if not keys or not isinstance(snapshot, RelationalSnapshot):
            return {}
        row = snapshot.row_of(keys[0])
        held = None if row is None else self._memory.held(row.id, row.changes)
        if row is None or held is None or any(snapshot.row_of(key) is not row for key in keys):
            reader, profile = self._pairing.reader, self._pairing.profile
            moment = reader.model(snapshot, profile) if row is None else reader.moment(snapshot, row, profile)
            if moment is None:
                return {}
            located = reader.of_keys(snapshot, keys)
            present, values = self._values([located[key] for key in dict.fromkeys(keys) if key in located], moment)
            found = dict(zip(present, cosines(values, query).tolist(), strict=True))
        else:
            scores = cosines(held.values, query)
            asked = np.array(keys, np.int64)
            places = np.searchsorted(held.keys, asked)
            places[places == len(held.keys)] = 0
            there = held.keys[places] == asked if len(held.keys) else np.zeros(len(asked), bool)
            found = dict(zip(asked[there].tolist(), scores[places[there]].tolist(), strict=True))
        return {key: found[key] for key in keys if key in found}

    def _nearest(
        self, snapshot: RelationalSnapshot, row: PartitionRow, vector: Array, request: NearestRequest
    ) -> Found:
        held = self._memory.held(row.id, row.changes)
        moment = self._pairing.reader.moment(snapshot, row, self._pairing.profile)
        if moment is None:
            return []
        filters, k = request.filters, min(request.k, row.items)
        if held is None and (moment.own is None or row.items <= self._exact_below):
            held = self._loaded(snapshot, row, moment)
        if held is not None and not filters:
            return _chosen(held.keys, cosines(held.values, vector), k)
        if held is not None:
            passing = [each.key for each in self._pairing.reader.members(snapshot, row, filters)]
            chosen = np.isin(held.keys, np.array(passing, np.int64))
            return _chosen(held.keys[chosen], cosines(held.values[chosen], vector), k)
        return self._searched(snapshot, row, moment, vector, request)

    def _loaded(self, snapshot: RelationalSnapshot, row: PartitionRow, moment: Moment) -> Held:
        """Return all vectors of a partition."""
        members = sorted(self._pairing.reader.members(snapshot, row, Filters()))
        keys, values = self._values(members, moment)
        held = Held(row.changes, np.array(keys, np.int64), values)
        self._memory.hold(row.id, held)
        return held

    def _searched(
        self, snapshot: RelationalSnapshot, row: PartitionRow, moment: Moment, vector: Array, request: NearestRequest
    ) -> Found:
        """Search a large partition: Chroma proposes entries, until enough of them are confirmed."""
        assert moment.own is not None  # noqa: S101 - else it was searched in memory
        home, filters, k = moment.paired.collection(moment.own), request.filters, min(request.k, row.items)
        wanted, share = k, 1.0
        if filters:
            passing = self._pairing.reader.members(snapshot, row, filters)
            wanted, share = min(k, len(passing)), _SPARE * row.items / max(1, len(passing))
            if len(passing) <= self._exact_below:
                keys, values = self._values(passing, moment)
                return _chosen(np.array(keys, np.int64), cosines(values, vector), k)
        asked = ceil(k * share) + moment.idle
        while True:
            proposed = self._engine.nearest(home, vector.tobytes(), asked)
            confirmed = self._pairing.reader.confirmed(snapshot, proposed, filters)
            if len(confirmed) >= wanted or len(proposed) < asked:
                break
            asked *= _MORE
        # The best as Chroma sees them, among what is confirmed; ties and rounding are settled by our own cosines.
        members = [Located(confirmed[number], number, home.number) for number in proposed if number in confirmed]
        keys, values = self._values(members[: k + moment.idle], moment)
        return _chosen(np.array(keys, np.int64), cosines(values, vector), k)

    def _values(self, members: Sequence[Located], moment: Moment) -> tuple[list[Key], Array]:
        """Return keys and vectors of those entries that Chroma has, in order."""
        keys = {each.number: each.key for each in members}
        homes = {each.number: each.collection for each in members}

        def fetch(numbers: Sequence[int]) -> Mapping[int, bytes]:
            groups: dict[int, list[int]] = defaultdict(list)
            for number in numbers:
                groups[homes[number]].append(number)
            found: dict[int, bytes] = {}
            for home, wanted in groups.items():
                found |= self._engine.read(moment.paired.collection(home), wanted)
            return found

        numbers, vectors = self._memory.read(list(keys), fetch)
        values = np.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), moment.paired.dimensions)
        return [keys[number] for number in numbers], values

    def _query(self, vector: bytes) -> Array:
        check_vector(vector, self._pairing.profile.dimensions)
        return np.frombuffer(vector, "<f4")


def _chosen(keys: Array, scores: Array, k: int) -> Found:
    places = best(scores, keys, k)
    return list(zip(keys[places].tolist(), scores[places].tolist(), strict=True))
