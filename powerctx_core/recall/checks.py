"""What must hold of pools and admissions, whoever made them, and which candidates pass a filter.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from math import inf

import attrs

from powerctx_core.errors import InvalidRequest, PoolInvariantError, shown
from powerctx_core.ports import RetrievalRequest
from powerctx_core.types import (
    ARTIFACT_ID_BYTES,
    HEAD_BYTES,
    LAYERS,
    Admission,
    Filters,
    Key,
    LexicalStatistics,
    Partition,
    Pool,
    RawCandidate,
    Searched,
    check_family,
    check_identifier,
)

__all__ = [
    "MODES",
    "SNAPSHOT",
    "accepts",
    "candidate_problem",
    "check_admission",
    "check_pool",
    "check_searched",
    "is_text",
]

MODES = ("none", "snapshot", "fts", "vector", "hybrid")
"""What can have run, weakest first."""
CHANNELS = ("fts", "vector", "neighbour")
SNAPSHOT = "snapshot"
"""Mode and channel of what is not searched by query."""
_BESIDE = 2
"""Neighbours that a member has in its thread at most."""
_COSINE = 1.001
"""Stores keep vectors in half precision, so that a cosine may pass 1 by a little."""
_SHARE = 1.001
_REVISIONS = 10**10 - 1
"""The largest number that a URI can name."""
_WHOLE = 1 << 63


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


def check_pool(pool: object, request: RetrievalRequest, identity: Collection[str], *, searched: bool = True) -> Pool:
    """Return *pool* when it answers *request*.

    What is checked is everything that ranking, planning and rendering rely on, so that a family's mistake is the
    family's and nobody else's.  Values must be of the plain types: a subclass may say anything of itself.

    Args:
        pool: what a family returned.
        request: what it was asked for.
        identity: names of the family's own identity fields.
        searched: by query; else it has one channel, ``snapshot``.

    Raises:
        PoolInvariantError: it is no pool, answers for another partition, has more members than were asked for, names
            one twice, without details, of another partition or outside the filters, holds what is no text or no
            possible number, or gives evidence that the family does not declare.
    """
    family = request.partition.family
    if not isinstance(pool, Pool):
        hint = "; parts are synchronous" if type(pool).__name__ == "coroutine" else ""
        raise PoolInvariantError(f"family {family!r} returned {type(pool).__name__} instead of a Pool{hint}.")
    try:
        problem = _pool_problem(pool, request, identity, CHANNELS if searched else (SNAPSHOT,))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # What is of another shape than a pool's values have; the text of the error is the family's own.
        raise PoolInvariantError(f"family {family!r}: its pool is malformed ({type(error).__name__}).") from error
    if problem:
        raise PoolInvariantError(f"family {family!r}: {problem}.")
    return _plain(pool)


def check_searched(searched: object, request: RetrievalRequest, identity: Collection[str]) -> Searched:
    """Return what a family that admits inside its engine returned, when it answers *request*.

    Raises:
        PoolInvariantError: it is no such value, its pool is none for the request, or its numbers cannot be.
    """
    family = request.partition.family
    if not isinstance(searched, Searched):
        raise PoolInvariantError(f"family {family!r} returned {type(searched).__name__} instead of a Searched.")
    pool = check_pool(searched.pool, request, identity)
    for name in ("retrieved", "embeddings", "generation_calls"):
        value = getattr(searched, name)
        if type(value) is not int or value < 0:
            raise PoolInvariantError(f"family {family!r}: {name} is {shown(value)}, not a whole number from 0 up.")
    if searched.retrieved < len(pool.candidates):
        raise PoolInvariantError(
            f"family {family!r}: it admits {len(pool.candidates)} of {searched.retrieved} members that it retrieved."
        )
    return attrs.evolve(searched, pool=pool)


def _plain(pool: Pool) -> Pool:
    """Return the pool in mappings of our own: what a family keeps hold of may change after it was checked."""
    return attrs.evolve(
        pool,
        channels={name: tuple(keys) for name, keys in pool.channels.items()},
        candidates={
            key: attrs.evolve(each, evidence=dict(each.evidence)) if each.evidence else each
            for key, each in pool.candidates.items()
        },
        neighbours={key: tuple(sources) for key, sources in pool.neighbours.items()},
    )


def _pool_problem(pool: Pool, request: RetrievalRequest, identity: Collection[str], channels: Sequence[str]) -> str:
    """Return what is wrong with a pool, or nothing."""
    partition, filters = request.partition, request.filters
    if not _same(pool.scope_id, partition.scope_id) or not _same(pool.family, partition.family):
        return (
            f"it was asked for scope {partition.scope_id!r} and answered for family {pool.family!r} in scope "
            f"{pool.scope_id!r}"
        )
    if pool.mode not in MODES:
        return f"mode {shown(pool.mode)} is not one of {', '.join(MODES)}"
    if not all(map(is_text, pool.terms)):
        return "a term of it is no text"
    if problem := _size_problem(pool, request, channels) or _statistics_problem(pool.statistics):
        return problem
    for candidate in pool.candidates.values():
        if type(candidate) is not RawCandidate:
            return f"a member is {shown(candidate)}, not a RawCandidate"
        if problem := _member_problem(candidate, partition) or _evidence_problem(candidate, identity):
            return problem
        if filters and not accepts(filters, candidate):
            return "a member does not pass the request's filters"
    if len({candidate.address for candidate in pool.candidates.values()}) < len(pool.candidates):
        return "two members have one address"
    return ""


def _size_problem(pool: Pool, request: RetrievalRequest, channels: Sequence[str]) -> str:
    """Tell of more than was asked for, before anything looks at each member: cutting it would hide the mistake."""
    for name, keys in pool.channels.items():
        if name not in channels:
            return f"channel {name!r} is not one of {', '.join(channels)}"
        most = request.k if name != "neighbour" else _BESIDE * request.neighbours
        if len(keys) > most:
            return f"channel {name!r} has {len(keys)} members; {most} were asked for"
        if len(set(keys)) < len(keys):
            return f"channel {name!r} names a member twice"
        missing = sum(key not in pool.candidates for key in keys)
        if missing:
            return f"channel {name!r} names {missing} members without details"
    members = sum(map(len, pool.channels.values()))
    if len(pool.candidates) > members:
        return f"it gives details of {len(pool.candidates)} items and has {members} members"
    return ""


def _statistics_problem(statistics: LexicalStatistics) -> str:
    items, mean = statistics.items, statistics.mean_length
    if type(items) is not int or items < 0:
        return f"statistics count {shown(items)} items"
    if type(mean) not in (int, float) or not 0.0 <= mean < inf:
        return f"the mean length is {shown(mean)}"
    for term, frequency in statistics.document_frequency.items():
        if type(frequency) is not int or not 0 < frequency <= items:
            return f"{shown(term)} is said to be in {shown(frequency)} of {items} items"
    return ""


def candidate_problem(candidate: RawCandidate, scope_id: str) -> str:
    """Return what is wrong with a candidate of any family in a scope, or nothing; its head may be of any length."""
    try:
        family = candidate.address.family
        check_family("family", family)
        check_identifier("artifact_id", candidate.address.artifact_id, ARTIFACT_ID_BYTES)
        return _member_problem(candidate, Partition(scope_id, family), inf) or _evidence_problem(
            candidate, candidate.evidence
        )
    except InvalidRequest as error:
        return f"a member's {error}".removesuffix(".")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return f"a member is malformed ({type(error).__name__})"


def _member_problem(candidate: RawCandidate, partition: Partition, head_bytes: float = HEAD_BYTES) -> str:
    address = candidate.address
    if (
        not _same(address.scope_id, partition.scope_id)
        or not _same(address.family, partition.family)
        or not is_text(address.artifact_id)
        or not address.artifact_id
    ):
        return f"a member's address does not lie in scope {partition.scope_id!r}"
    if type(address.revision) is not int or not 0 < address.revision <= _REVISIONS:
        return "a member's revision is not a number from 1 up"
    if type(candidate.length) is not int or candidate.length < 0:
        return f"a member has the length {shown(candidate.length)}"
    if not _is_number(candidate.cosine, -_COSINE, _COSINE):
        return f"a member has the cosine {shown(candidate.cosine)}"
    if not _is_number(candidate.confidence, 0.0, 1.0):
        return f"a member has the confidence {shown(candidate.confidence)}, not a number from 0 to 1"
    if candidate.layer is not None and candidate.layer not in LAYERS:
        return f"a member has the layer {shown(candidate.layer)}; {', '.join(LAYERS)} are the ones there are"
    for time in (candidate.created_at, candidate.updated_at, candidate.event_time):
        if time is not None and (type(time) is not datetime or time.utcoffset() is None):
            return f"a member has the time {shown(time)}, not a datetime with a time zone"
    for term, occurrences in candidate.matched.items():
        if type(occurrences) is not int or occurrences < 1:
            return f"a member holds {shown(term)} {shown(occurrences)} times"
    return _text_problem(candidate, head_bytes)


def _text_problem(candidate: RawCandidate, head_bytes: float) -> str:
    head, size = candidate.head, candidate.body_bytes
    if not is_text(head):
        return "a member's head is no text"
    length = len(head) if head.isascii() else len(head.encode())
    if length > head_bytes:
        return f"a member's head has {length} bytes; {head_bytes} are the most"
    if type(size) is not int or size < length:
        return f"a member's body is said to have {shown(size)} bytes, and its head has {length}"
    overview = candidate.overview_bytes
    if type(overview) is not int or overview < 0:
        return f"a member's overview is said to have {shown(overview)} bytes"
    named = (candidate.title, candidate.category, candidate.abstract, candidate.origin, candidate.thread)
    for value in (*named, *candidate.tags):
        if value is not None and not is_text(value):
            return "a member's title, category, abstract, origin, thread or tag is no text"
    if not is_text(candidate.kind):
        return f"a member is of the kind {shown(candidate.kind)}"
    return ""


def _evidence_problem(candidate: RawCandidate, identity: Collection[str]) -> str:
    for name, value in candidate.evidence.items():
        whole = type(value) is int and -_WHOLE <= value <= _WHOLE
        if name not in identity or not (whole or is_text(value)):
            return (
                f"evidence {name!r} is not among its declared identity fields ({', '.join(identity) or 'none'}), or "
                "not a string or whole number"
            )
    return ""


def _is_number(value: object, least: float, most: float) -> bool:
    """Tell whether *value* is absent, or a plain number in its range; not a number compares with nothing."""
    return value is None or (type(value) in (int, float) and least <= value <= most)  # type: ignore[operator]  # a number


def _same(value: object, wanted: str) -> bool:
    return type(value) is str and value == wanted


def is_text(value: object) -> bool:
    """Tell whether *value* is plain text that can be written down."""
    if type(value) is not str:
        return False
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return True


def check_admission(pool: Pool, admission: object) -> Admission:
    """Return *admission* when it can be one of *pool*.

    Raises:
        PoolInvariantError: it is none, admits what the pool's channels do not hold or something twice, is not in order,
            holds what is no possible number, or its counts cannot be.
    """
    if not isinstance(admission, Admission):
        raise PoolInvariantError(f"admission returned {type(admission).__name__} instead of an Admission.")
    counts = admission.counts
    for name, ranked in admission.ranked.items():
        _check_ranked(name, ranked, frozenset(pool.channels.get(name, ())))
    if not all(0.0 <= share <= _SHARE for share in admission.shares.values()):
        raise PoolInvariantError("admission gives a share that is not from 0 to 1.")
    members = {key for keys in pool.channels.values() for key in keys}
    admitted = {key for ranked in admission.ranked.values() for key, _ in ranked}
    if (counts.family, counts.scope_id) != (pool.family, pool.scope_id) or (
        (counts.retrieved, counts.admitted) != (len(members), len(admitted))
    ):
        raise PoolInvariantError(
            f"admission counts {counts.retrieved} retrieved and {counts.admitted} admitted; the pool has "
            f"{len(members)} and {len(admitted)} passed."
        )
    return admission


def _check_ranked(name: str, ranked: Sequence[tuple[Key, float]], members: Collection[Key]) -> None:
    last = inf
    seen = set()
    for key, score in ranked:
        if key not in members:
            raise PoolInvariantError(f"admission admits a member to {name!r} that is not in the pool's channel.")
        if key in seen:
            raise PoolInvariantError(f"admission admits a member to {name!r} twice.")
        if not -inf < score <= last:
            raise PoolInvariantError(f"admission gives {name!r} the score {score!r}, which is out of order.")
        last = score
        seen.add(key)
