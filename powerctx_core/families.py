"""Core's family: evidence that is kept in the catalogue and found through it."""

from __future__ import annotations

import attrs

from powerctx_core.errors import PoolInvariantError
from powerctx_core.ports import Call, LexicalRequest, NeighbourRequest, RetrievalRequest
from powerctx_core.recall.ranking import rank
from powerctx_core.records import FamilySpec, NoSettings
from powerctx_core.types import Key, Pool

__all__ = ["StoredFamily", "check_pool"]


class StoredFamily:
    """Retrieves what is stored in the catalogue under the family's name.

    Any number of families can be declared with it; it has no settings and no state.
    """

    def __init__(self, spec: FamilySpec, settings: NoSettings | None = None) -> None:
        del settings
        self.spec = spec

    def retrieve(self, request: RetrievalRequest, call: Call) -> Pool:
        """Return the *k* best lexical members and, when asked for, their thread neighbours.

        Reads: one lexical match, one fetch by key, and one look-up of neighbours with one more fetch.
        """
        snapshot = call.catalogue
        found = snapshot.lexical(
            [LexicalRequest(partition=request.partition, query=request.terms, k=request.k, filters=request.filters)]
        )[0]
        best = rank(found.hits, found.statistics, request.k)
        keys = tuple(hit.key for hit in best)
        brought: dict[Key, tuple[Key, ...]] = {}
        if request.neighbours and keys:
            brought = self._neighbours(request, keys, call)
        details = snapshot.fetch([*keys, *(key for key in brought if key not in set(keys))]) if keys else {}
        candidates = dict(details)
        for hit in best:
            candidates[hit.key] = attrs.evolve(details[hit.key], matched=hit.matched, length=hit.length)
        channels: dict[str, tuple[Key, ...]] = {"fts": keys}
        if request.neighbours:
            channels["neighbour"] = tuple(brought)
        return Pool(
            family=request.partition.family,
            scope_id=request.partition.scope_id,
            channels=channels,
            candidates=candidates,
            statistics=found.statistics,
            terms=found.terms,
            neighbours=brought,
            mode="fts" if found.terms else "none",
        )

    @staticmethod
    def _neighbours(request: RetrievalRequest, keys: tuple[Key, ...], call: Call) -> dict[Key, tuple[Key, ...]]:
        members = keys[: request.neighbours]
        beside = call.catalogue.neighbours(NeighbourRequest(partition=request.partition, keys=members))
        brought: dict[Key, tuple[Key, ...]] = {}
        for member in members:
            for key in beside.get(member, ()):
                brought[key] = (*brought.get(key, ()), member)
        return brought


def check_pool(pool: Pool, request: RetrievalRequest) -> None:
    """Check what a family returned.

    Raises:
        PoolInvariantError: it answers for another partition, or names members without details, or members of another
            partition.
    """
    partition = request.partition
    if (pool.scope_id, pool.family) != (partition.scope_id, partition.family):
        raise PoolInvariantError(
            f"family {partition.family!r} was asked for scope {partition.scope_id!r} and answered for family "
            f"{pool.family!r} in scope {pool.scope_id!r}."
        )
    for name, keys in pool.channels.items():
        missing = [key for key in keys if key not in pool.candidates]
        if missing:
            raise PoolInvariantError(
                f"family {partition.family!r}: channel {name!r} names {len(missing)} members without details."
            )
    for candidate in pool.candidates.values():
        address = candidate.address
        if (address.scope_id, address.family) != (partition.scope_id, partition.family) or not address.artifact_id:
            raise PoolInvariantError(
                f"family {partition.family!r}: a member's address does not lie in scope {partition.scope_id!r}."
            )
