"""Core's families: evidence that is kept in the catalogue and found through it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from powerctx_core.ports import (
    Call,
    FetchRequest,
    LexicalRequest,
    LexicalResult,
    ListingRequest,
    NearestRequest,
    NeighbourRequest,
    RetrievalRequest,
)
from powerctx_core.recall.checks import SNAPSHOT, accepts
from powerctx_core.recall.ranking import Scorer, rank
from powerctx_core.records import FamilySpec, NoSettings
from powerctx_core.types import Key, LexicalHit, LexicalStatistics, Pool, RawCandidate

__all__ = ["StoredFamily", "stored_pools"]


class StoredFamily:
    """Retrieves what is stored in the catalogue under the family's name.

    Any number of families can be declared with it; it has no settings and no state.
    """

    def __init__(self, spec: FamilySpec, settings: NoSettings | None = None) -> None:
        del settings
        self.spec = spec

    def retrieve(self, request: RetrievalRequest, call: Call) -> Pool:
        """Return the *k* best members of each channel and, when asked for, their neighbours.

        Reads: one lexical match, the nearest vectors and the cosines of the other members, one look-up of neighbours,
        one fetch by key; of a family that is not searchable, one listing of its *k* most recent items.  The words are
        done before the query's vector is waited for; under a deadline they are fetched and offered by then, too, and so
        are the answer when what comes after them hangs or is stopped.
        """
        return next(stored_pools([(self.spec, request)], call))


def stored_pools(asked: Sequence[tuple[FamilySpec, RetrievalRequest]], call: Call) -> Iterator[Pool]:
    """Give what :class:`StoredFamily` retrieves for each request, whatever its scope and family.

    The catalogue is asked once for the words of all of them; what holds none of them costs no more.
    """
    lexical = [
        LexicalRequest(partition=each.partition, query=each.terms, k=each.k, filters=each.filters)
        for spec, each in asked
        if spec.searchable
    ]
    results = iter(call.catalogue.lexical(lexical) if lexical else ())
    for spec, request in asked:
        if not spec.searchable:
            yield _latest(request, call)
            continue
        found = next(results)
        best = rank(found.hits, found.statistics, request.k) if request.weights.get("fts") else []
        if call.deadline.at is not None and request.weights.get("fts") and _by_vector(request, call):
            call.offer(_words(request, call, found, best))
        yield _whole(request, call, found, best)


def _latest(request: RetrievalRequest, call: Call) -> Pool:
    listing = ListingRequest(partition=request.partition, limit=request.k, filters=request.filters)
    listed = dict(enumerate(call.catalogue.listing(listing)))
    return Pool(
        family=request.partition.family,
        scope_id=request.partition.scope_id,
        channels={SNAPSHOT: tuple(listed)},
        candidates=listed,
        statistics=LexicalStatistics(items=len(listed), mean_length=0.0, document_frequency={}),
        mode=SNAPSHOT,
    )


def _by_vector(request: RetrievalRequest, call: Call) -> bool:
    return call.vectors is not None and bool(request.weights.get("vector"))


def _whole(request: RetrievalRequest, call: Call, found: LexicalResult, best: Sequence[LexicalHit]) -> Pool:
    """Return the pool of all channels, given what the words found."""
    vector = call.embed(request.query) if _by_vector(request, call) else None
    nearest, cosines = _nearest(request, call, vector, [hit.key for hit in best])
    brought: dict[Key, tuple[Key, ...]] = {}
    if request.neighbours:
        ranked = _ranked(best, found, cosines, nearest, request.weights)[: request.neighbours]
        alone = {hit.key for hit in best if not hit.threaded}
        brought = _neighbours(request, [key for key in ranked if key not in alone], call)
    channels: dict[str, tuple[Key, ...]] = {}
    if request.weights.get("fts"):
        channels["fts"] = tuple(hit.key for hit in best)
    if vector is not None:
        channels["vector"] = nearest
    if request.neighbours:
        channels["neighbour"] = tuple(brought)
    details = _details(call, channels, found, best, cosines)
    if request.filters and brought:
        # The store restricts what it matches; neighbours come by their place and are held to the same here.
        outside = [key for key in brought if key in details and not accepts(request.filters, details[key])]
        details = {key: details[key] for key in details if key not in set(outside)}
    pool = _pool(request, found, channels, details, mode=_mode(request, searched=vector is not None))
    profile = None if vector is None else call.profile
    return attrs.evolve(pool, neighbours=brought, query_vector=vector, profile=profile)


def _words(request: RetrievalRequest, call: Call, found: LexicalResult, best: Sequence[LexicalHit]) -> Pool:
    """Return the pool of the words alone, to be used when nothing else comes in time."""
    channels = {"fts": tuple(hit.key for hit in best)}
    details = _details(call, channels, found, best, {})
    pool = _pool(request, found, channels, details, mode=_mode(request, searched=False))
    return attrs.evolve(pool, late=frozenset({"vector", "neighbour"} if request.neighbours else {"vector"}))


def _details(
    call: Call,
    channels: Mapping[str, Sequence[Key]],
    found: LexicalResult,
    best: Sequence[LexicalHit],
    cosines: Mapping[Key, float],
) -> Mapping[Key, RawCandidate]:
    """Fetch every member of *channels*, with what is known of it already."""
    fetch = FetchRequest(
        keys=tuple(dict.fromkeys(key for keys in channels.values() for key in keys)),
        terms=found.terms,
        hits={hit.key: hit for hit in best},
        cosines=cosines,
    )
    return call.catalogue.fetch(fetch) if fetch.keys else {}


def _pool(
    request: RetrievalRequest,
    found: LexicalResult,
    channels: Mapping[str, Sequence[Key]],
    details: Mapping[Key, RawCandidate],
    *,
    mode: str,
) -> Pool:
    return Pool(
        family=request.partition.family,
        scope_id=request.partition.scope_id,
        # A vector may outlive its revision for a moment; what is not current has no details.
        channels={name: tuple(key for key in keys if key in details) for name, keys in channels.items()},
        candidates=details,
        statistics=found.statistics,
        terms=found.terms,
        mode=mode,
    )


def _nearest(
    request: RetrievalRequest, call: Call, vector: bytes | None, lexical: Sequence[Key]
) -> tuple[tuple[Key, ...], dict[Key, float]]:
    """Return the nearest members, and the cosine of every member that has a vector."""
    if vector is None or call.vectors is None:
        return (), {}
    nearest = NearestRequest(partition=request.partition, vector=vector, k=request.k, filters=request.filters)
    cosines = dict(call.vectors.nearest([nearest], call.catalogue)[0])
    members = tuple(cosines)
    others = [key for key in lexical if key not in cosines]
    if members and others:
        cosines |= call.vectors.cosines(others, vector, call.catalogue)
    return members, cosines


def _mode(request: RetrievalRequest, *, searched: bool) -> str:
    """Return what really ran."""
    words = bool(request.weights.get("fts")) and bool(request.terms.terms)
    if searched:
        return "hybrid" if words else "vector"
    return "fts" if words else "none"


def _ranked(
    best: Sequence[LexicalHit],
    found: LexicalResult,
    cosines: Mapping[Key, float],
    nearest: Sequence[Key],
    weights: Mapping[str, float],
) -> list[Key]:
    """Return the members, best first, as far as it is known before admission."""
    if not nearest:
        return [hit.key for hit in best]
    scorer = Scorer(found.statistics)
    scores = {hit.key: scorer.score(hit.matched, hit.length)[0] for hit in best}
    top = max(scores.values(), default=0.0) or 1.0
    closest = cosines[nearest[0]] or 1.0
    value = {
        key: weights.get("fts", 0.0) * scores.get(key, 0.0) / top
        + weights.get("vector", 0.0) * cosines.get(key, 0.0) / closest
        for key in (*scores, *nearest)
    }
    return sorted(value, key=lambda key: (-value[key], key))


def _neighbours(request: RetrievalRequest, members: Sequence[Key], call: Call) -> dict[Key, tuple[Key, ...]]:
    if not members:
        return {}
    beside = call.catalogue.neighbours(NeighbourRequest(partition=request.partition, keys=tuple(members)))
    brought: dict[Key, tuple[Key, ...]] = {}
    for member in members:
        for key in beside.get(member, ()):
            brought[key] = (*brought.get(key, ()), member)
    return brought
