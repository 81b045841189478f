"""What must hold of pools and admissions, whoever made them, and which candidates pass a filter.  Pure."""

from __future__ import annotations

from collections.abc import Collection

from powerctx_core.errors import PoolInvariantError
from powerctx_core.ports import RetrievalRequest
from powerctx_core.types import Admission, Filters, Partition, Pool, RawCandidate

__all__ = ["MODES", "accepts", "check_admission", "check_pool"]

MODES = ("none", "snapshot", "fts", "vector", "hybrid")
"""What can have run, weakest first."""
_BESIDE = 2
"""Neighbours that a member has in its thread at most."""


def accepts(filters: Filters, candidate: RawCandidate) -> bool:
    """Tell whether *candidate* passes *filters*, as a store would."""
    if filters.category is not None and candidate.category != filters.category:
        return False
    if not set(filters.tags) <= set(candidate.tags):
        return False
    if filters.since is None and filters.until is None:
        return True
    times = {"created": candidate.created_at, "updated": candidate.updated_at, "event": candidate.event_time}
    time = times[filters.time_field]
    if time is None:
        return False
    return (filters.since is None or filters.since <= time) and (filters.until is None or time < filters.until)


def check_pool(pool: object, request: RetrievalRequest, identity: Collection[str]) -> Pool:
    """Return *pool* when it answers *request*.

    Args:
        pool: what a family returned.
        request: what it was asked for.
        identity: names of the family's own identity fields.

    Raises:
        PoolInvariantError: it is no pool, answers for another partition, has more members than were asked for, names
            one twice, without details, of another partition or outside the filters, or gives evidence that the family
            does not declare.
    """
    partition = request.partition
    if not isinstance(pool, Pool):
        hint = "; parts are synchronous" if type(pool).__name__ == "coroutine" else ""
        raise PoolInvariantError(f"family {partition.family!r} returned {type(pool).__name__} instead of a Pool{hint}.")
    if (pool.scope_id, pool.family) != (partition.scope_id, partition.family):
        raise PoolInvariantError(
            f"family {partition.family!r} was asked for scope {partition.scope_id!r} and answered for family "
            f"{pool.family!r} in scope {pool.scope_id!r}."
        )
    if pool.mode not in MODES:
        raise PoolInvariantError(f"family {partition.family!r}: mode {pool.mode!r} is not one of {', '.join(MODES)}.")
    _check_size(pool, request)
    for name, keys in pool.channels.items():
        missing = sum(key not in pool.candidates for key in keys)
        if missing:
            raise PoolInvariantError(
                f"family {partition.family!r}: channel {name!r} names {missing} members without details."
            )
    for candidate in pool.candidates.values():
        _check_member(candidate, partition, identity)
    if request.filters and not all(accepts(request.filters, candidate) for candidate in pool.candidates.values()):
        raise PoolInvariantError(f"family {partition.family!r}: a member does not pass the request's filters.")
    return pool


def _check_size(pool: Pool, request: RetrievalRequest) -> None:
    """Refuse more than was asked for before anything looks at each member: cutting it would hide the mistake."""
    for name, keys in pool.channels.items():
        most = request.k if name != "neighbour" else _BESIDE * request.neighbours
        if len(keys) > most:
            raise PoolInvariantError(
                f"family {pool.family!r}: channel {name!r} has {len(keys)} members; {most} were asked for."
            )
        if len(set(keys)) < len(keys):
            raise PoolInvariantError(f"family {pool.family!r}: channel {name!r} names a member twice.")
    members = sum(map(len, pool.channels.values()))
    if len(pool.candidates) > members:
        raise PoolInvariantError(
            f"family {pool.family!r}: gives details of {len(pool.candidates)} items and has {members} members."
        )


def _check_member(candidate: RawCandidate, partition: Partition, identity: Collection[str]) -> None:
    address = candidate.address
    if (address.scope_id, address.family) != (partition.scope_id, partition.family) or not address.artifact_id:
        raise PoolInvariantError(
            f"family {partition.family!r}: a member's address does not lie in scope {partition.scope_id!r}."
        )
    if type(address.revision) is not int or address.revision < 1:
        raise PoolInvariantError(
            f"family {partition.family!r}: a member's revision is {address.revision!r}, not 1 or more."
        )
    if candidate.evidence:
        for name, value in candidate.evidence.items():
            if name not in identity or not isinstance(value, str | int):
                raise PoolInvariantError(
                    f"family {partition.family!r}: evidence {name!r} is not among its declared identity fields "
                    f"({', '.join(identity) or 'none'}), or not a string or whole number."
                )


def check_admission(pool: Pool, admission: Admission) -> None:
    """Check what an admission rule returned.

    Raises:
        PoolInvariantError: it admits what the pool does not hold, or its counts cannot be.
    """
    counts = admission.counts
    members = {key for keys in pool.channels.values() for key in keys}
    admitted = {key for ranked in admission.ranked.values() for key, _ in ranked}
    if not admitted <= members:
        raise PoolInvariantError(f"admission admits {len(admitted - members)} members that are not in the pool.")
    if (counts.family, counts.scope_id) != (pool.family, pool.scope_id) or (
        (counts.retrieved, counts.admitted) != (len(members), len(admitted))
    ):
        raise PoolInvariantError(
            f"admission counts {counts.retrieved} retrieved and {counts.admitted} admitted; the pool has "
            f"{len(members)} and {len(admitted)} passed."
        )
