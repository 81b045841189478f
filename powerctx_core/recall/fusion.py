"""Fusion of one pool's admitted channels into scored hits, and of several pools into one order.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain, zip_longest

import attrs

from powerctx_core.recall.policy import RecallPolicy
from powerctx_core.recall.ranking import Scorer, idf
from powerctx_core.types import QUERY_TERMS, Admission, Hit, Key, Pool, QueryTerms, RawCandidate

__all__ = ["Fused", "deal", "fuse", "in_order", "interleave", "merge"]

_RRF_K = 60
_KNOWN_FAMILIES = ("memory", "topic-memory", "experience")


@attrs.frozen(eq=False)
class Fused:
    """Members of one pool, best first, of which hits are made when they are asked for.

    Attributes:
        candidates: members by key, these and others.
        keys: of the members.
        hit: returns the hit of a member, with its score times a factor.
    """

    candidates: Mapping[Key, RawCandidate] = attrs.field(repr=False)
    keys: Sequence[Key]
    hit: Callable[[Key, float], Hit] = attrs.field(repr=False)

    @cached_property
    def hits(self) -> list[Hit]:
        """The hits of all, as scored."""
        hit = self.hit
        return [hit(key, 1.0) for key in self.keys]


def fuse(
    pool: Pool,
    admission: Admission,
    policy: RecallPolicy,
    *,
    weights: Mapping[str, float] | None = None,
    query: QueryTerms | None = None,
    limit: int | None = None,
) -> Fused:
    """Return the admitted members of one pool, best first, ties by address; at most *limit* of them.

    ``rrf``: each channel adds ``weight / (60 + rank)``, weights normalised to mean 1, and the score is the sum over its
    greatest possible value.  ``score``: each channel adds its weighted share of its own range over the pool, and the
    score is the sum over the weights.  Neighbours get *neighbour_weight* times the best score that brought them, and
    that share on top of a score of their own.

    *weights* (channel -> weight) stand instead of the policy's, when given.  With *query*, the ``match`` of a hit
    counts words of the query that nothing in the scope holds as missed.
    """
    given = policy.weights if weights is None else weights
    channels = {name: members for name, members in admission.ranked.items() if name != "neighbour"}
    used = {name: given.get(name, 1.0) for name in channels if given.get(name, 1.0) > 0.0}
    scores = _rrf(channels, used) if policy.fusion == "rrf" else _min_max(channels, used)
    found_by: dict[Key, tuple[str, ...]] = {}
    for name, members in admission.ranked.items():
        alone = (name,)
        for key, _ in members:
            found_by[key] = (*found_by[key], name) if key in found_by else alone
    if policy.neighbour_weight > 0.0 and admission.ranked.get("neighbour"):
        scores = _with_neighbours(scores, admission.ranked["neighbour"], pool, policy.neighbour_weight)
    scorer = Scorer(pool.statistics)
    known = _known(query, scorer, pool)
    candidates, shares = pool.candidates, admission.shares
    best = []
    for key, score in scores.items():
        # Scope and family are those of the pool.
        address = candidates[key].address
        best.append((-score, address.artifact_id, address.revision, key))
    best.sort()

    def hit(key: Key, factor: float) -> Hit:
        candidate = candidates[key]
        return Hit(
            candidate=candidate,
            score=scores[key] * factor,
            match=_match(candidate, shares.get(key), scorer, pool, known),
            channels=found_by.get(key, ()),
            relevance=candidate.cosine,
        )

    return Fused(candidates, [key for _, _, _, key in best[:limit]], hit)


def _order(hit: Hit) -> tuple[float, str, str, str, int]:
    """Sort key of a hit: the best score first, then its address."""
    address = hit.candidate.address
    return (-hit.score, address.scope_id, address.family, address.artifact_id, address.revision)


def _known(query: QueryTerms | None, scorer: Scorer, pool: Pool) -> float:
    """Return the share of the query's mass that occurs in the scope at all.

    Words that nothing holds weigh as the rarest there are; n-grams are left out: most of a question's never occur.
    """
    if query is None or not scorer.mass:
        return 1.0
    absent = len(query.units - scorer.weights.keys())
    return scorer.mass / (scorer.mass + min(absent, QUERY_TERMS) * idf(max(1, pool.statistics.items), 0))


def _match(candidate: RawCandidate, share: float | None, scorer: Scorer, pool: Pool, known: float) -> float:
    """Return the strength of evidence: the share of the query's mass held, or the relevance, whichever is more."""
    if share is None:
        share = scorer.score(candidate.matched, candidate.length)[1] / scorer.mass if scorer.mass else 0.0
    share *= known
    if candidate.cosine is None or pool.profile is None:
        return share
    return max(share, pool.profile.relevance(candidate.cosine))


def _rrf(channels: Mapping[str, Sequence[tuple[Key, float]]], weights: Mapping[str, float]) -> dict[Key, float]:
    if not weights:
        return {}
    mean = sum(weights.values()) / len(weights)
    greatest = sum(weight / mean for weight in weights.values()) / (_RRF_K + 1)
    scores: dict[Key, float] = {}
    for name in sorted(weights):
        for position, (key, _) in enumerate(channels[name], start=1):
            scores[key] = scores.get(key, 0.0) + weights[name] / mean / (_RRF_K + position) / greatest
    return scores


def _min_max(channels: Mapping[str, Sequence[tuple[Key, float]]], weights: Mapping[str, float]) -> dict[Key, float]:
    total = sum(weights.values())
    scores: dict[Key, float] = {}
    for name in sorted(weights):
        members = channels[name]
        if not members:
            continue
        highest = members[0][1]
        # The range starts at 0, or below it where a channel can be negative: the last member of a pool is evidence
        # still, and must not be worth the same as a member that the channel did not find.
        lowest = min(0.0, members[-1][1])
        span = highest - lowest
        share = weights[name] / total
        for key, score in members:
            scores[key] = scores.get(key, 0.0) + share * ((score - lowest) / span if span > 0.0 else 1.0)
    return scores


def _with_neighbours(
    scores: Mapping[Key, float], neighbours: Iterable[tuple[Key, float]], pool: Pool, weight: float
) -> dict[Key, float]:
    raised = dict(scores)
    for key, _ in neighbours:
        best = max((scores[source] for source in pool.neighbours[key] if source in scores), default=0.0)
        if best > 0.0:
            raised[key] = raised.get(key, 0.0) + weight * best
    top = max(raised.values(), default=0.0)
    return {key: score / top for key, score in raised.items()} if top > 1.0 else raised


def deal(groups: Sequence[Sequence[Hit]], ceiling: int, kept: Sequence[int] = ()) -> list[list[Hit]]:
    """Deal *ceiling* places round-robin over the groups, in their order, and return each group's share.

    A group has its number of *kept* places beforehand, as far as it fills them; the others are dealt.
    """
    if sum(map(len, groups)) <= ceiling:
        return [list(group) for group in groups]
    counts = [min(len(group), places) for group, places in zip(groups, kept or [0] * len(groups), strict=True)]
    left = ceiling - sum(counts)
    while left > 0:
        for number, group in enumerate(groups):
            if left > 0 and counts[number] < len(group):
                counts[number] += 1
                left -= 1
    return [list(group[:count]) for group, count in zip(groups, counts, strict=True)]


def merge(groups: Iterable[Iterable[Hit]]) -> list[Hit]:
    """Return the hits of all groups by fused score, ties by address; each group is in that order."""
    filled = [hits for hits in map(list, groups) if hits]
    if len(filled) == 1:
        return filled[0]
    return sorted(chain.from_iterable(filled), key=_order)


def interleave(families: Mapping[str, Sequence[Sequence[Hit]]]) -> list[Hit]:
    """Return the hits of each family's scopes in turn by rank, then of the families in turn by rank.

    Families come as memory, topic-memory, experience, then the others by name.
    """
    order = sorted(families, key=lambda name: (_place(name), name))
    lanes = [_in_turn(families[name]) for name in order]
    return _in_turn(lanes)


def _place(family: str) -> int:
    return _KNOWN_FAMILIES.index(family) if family in _KNOWN_FAMILIES else len(_KNOWN_FAMILIES)


def _in_turn(lanes: Sequence[Sequence[Hit]]) -> list[Hit]:
    return [hit for row in zip_longest(*lanes) for hit in row if hit is not None]


def in_order(policy: RecallPolicy, by_family: Mapping[str, Sequence[Sequence[Hit]]]) -> list[Hit]:
    """Return the hits of all families in the policy's order, which does not depend on what arrived first."""
    if policy.interleaved:
        return interleave(by_family)
    return merge(group for groups in by_family.values() for group in groups)
