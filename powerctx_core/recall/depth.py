"""How far pools reach: what a request leaves out may be all that they hold, while more matches behind it.

Pools are as deep as a pack or a list can use.  What is delivered before, excluded, filtered or repeated takes places in
them all the same, so that a call that such things leave with too little asks once more, for deeper pools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from powerctx_core.recall.fusion import deal, in_order
from powerctx_core.recall.group import Group, Source
from powerctx_core.recall.outcome import Recalled
from powerctx_core.recall.policy import RecallPolicy
from powerctx_core.types import Hit

__all__ = ["DEPTHS", "cut_short", "deeper", "ordered"]

DEPTHS = (256, 1000)
"""Members per channel, and hits per family, of each further look: at most two, whatever is left out."""
_TAIL = 16
"""Hits at the end of a pool that tell what lies behind it."""


def ordered(policy: RecallPolicy, sources: Sequence[Source], groups: Mapping[str, Sequence[Group]]) -> list[Hit]:
    """Return the hits of all families in the policy's order, which does not depend on what arrived first."""
    return in_order(
        policy,
        {
            source.spec.name: deal([group.hits for group in groups[source.spec.name]], source.ceiling)
            for source in sources
            if source.spec.name in groups
        },
    )


def cut_short(recall: Recalled, least: float) -> bool:
    """Tell whether more of at least *least* ``match`` may lie behind the pools."""
    return any(_cut(source, recall.fetched.groups.get(source.spec.name, ()), least) for source in recall.sources)


def deeper(recall: Recalled, least: float) -> Recalled | None:
    """Return the same with deeper pools, or ``None`` when there are none, or they are not there in time.

    Only the families are asked that may have more, each once, with the vector that the query has already.

    Args:
        recall: what was found so far.
        least: ``match`` of what is of any use.

    Raises:
        PowerctxError: as the first time.
    """
    cut = [source for source in recall.sources if _cut(source, recall.fetched.groups.get(source.spec.name, ()), least)]
    reached = max((source.ceiling for source in cut), default=DEPTHS[-1])
    depth = next((each for each in DEPTHS if each > reached), None)
    if depth is None:
        return None
    sources = [_at(source, recall.fetched.groups[source.spec.name], depth) for source in cut]
    found = recall.ask(sources, recall.fetched.groups)
    if found is None or found.late or found.failed:
        return None
    asked = {source.spec.name: source for source in sources}
    every = [asked.get(source.spec.name, source) for source in recall.sources]
    return attrs.evolve(
        recall,
        fetched=attrs.evolve(found, late=recall.fetched.late, failed=recall.fetched.failed),
        hits=ordered(recall.policy, every, found.groups),
        sources=every,
        deepened=recall.deepened + 1,
    )


def _at(source: Source, groups: Sequence[Group], depth: int) -> Source:
    vector = next((group.pool.query_vector for group in groups if group.pool.query_vector is not None), None)
    requests = tuple(attrs.evolve(each, k=max(each.k, depth), vector=vector) for each in source.requests)
    return attrs.evolve(source, requests=requests, ceiling=max(source.ceiling, depth))


def _cut(source: Source, groups: Sequence[Group], least: float) -> bool:
    """Tell whether a family may have more: its pools are full of what was admitted, and good enough to the end."""
    if sum(len(group.hits) for group in groups) > source.ceiling:
        return True
    return any(
        group.searched
        and _full(group, request.k, source.ceiling)
        and any(hit.match >= least for hit in group.hits[-_TAIL:])
        for group, request in zip(groups, source.requests, strict=False)
    )


def _full(group: Group, k: int, ceiling: int) -> bool:
    # Behind a member that the floor rejects there is no better one, so that a channel that is not admitted whole ends.
    return len(group.hits) >= ceiling or any(
        len(members) >= k for channel, members in group.ranked.items() if channel != "neighbour"
    )
