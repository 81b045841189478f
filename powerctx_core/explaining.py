"""From what is known of a call to its explanation.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import attrs

from powerctx_core.account.retrieved import Retrieved
from powerctx_core.account.telling import Account, Fate, receipt_of
from powerctx_core.explanation import ExplainedCandidate, ExplainedRound, Explanation
from powerctx_core.recall.checks import SNAPSHOT
from powerctx_core.recall.expansion import ACTIONS, Judged
from powerctx_core.recall.ranking import Scorer
from powerctx_core.receipt.v2 import ReceiptV2
from powerctx_core.text.terms import written
from powerctx_core.types import QUERY_TERMS, Address, AdmissionFloor, Hit, Key, Pool, RawCandidate

__all__ = ["explained"]


def explained(account: Account) -> Explanation:
    """Return the explanation of a call."""
    receipt = receipt_of(account, 2)
    retrieved = account.retrieved
    units = frozenset[str]()
    if retrieved.recall is not None:
        units = retrieved.recall.query.units or frozenset(retrieved.recall.query.terms)
    return Explanation(
        request=account.request,
        response=account.answer,
        receipt=receipt if isinstance(receipt, ReceiptV2) else None,
        effort=account.answer.diagnostics.effort,
        rounds=tuple(_rounds(retrieved)),
        thresholds=tuple(account.thresholds.items()),
        query_units=tuple(sorted(units)),
        query_words=tuple(sorted(written(account.request.query or "", units).items())),
        candidates=_candidates(account, units),
    )


def _rounds(retrieved: Retrieved) -> Iterator[ExplainedRound]:
    for number, judged in enumerate(retrieved.rounds):
        verdict = judged.assessment
        yield ExplainedRound(
            number=number,
            action=ACTIONS[number - 1] if number else "",
            floor=judged.floor,
            pools=tuple(group.counts for groups in judged.groups.values() for group in groups if group.searched),
            reason=None if verdict is None else verdict.reason,
            sufficient=None if verdict is None else verdict.sufficient,
            signals=None if verdict is None else verdict.signals,
            budget_bounded=judged.bounded,
        )
    if (dropped := retrieved.dropped_round) is not None:
        yield ExplainedRound(number=dropped, action=ACTIONS[dropped - 1], outcome="expansion_failed")


@attrs.frozen(kw_only=True)
class _Seen:
    """What is known of one member of a pool.

    Attributes:
        pool: that it is a member of.
        channels: those that admitted it, in the last round that did; else those that found it.
        round: the first that admitted it.
        hit: its record, when it was ranked.
    """

    raw: RawCandidate
    pool: Pool
    channels: tuple[str, ...]
    round: int | None = None
    hit: Hit | None = None


def _members(rounds: tuple[Judged, ...]) -> dict[Address, _Seen]:
    """Return every member of every pool, in the order of families, scopes and pools."""
    seen: dict[Address, _Seen] = {}
    for number, judged in enumerate(rounds):
        for groups in judged.groups.values():
            for group in groups:
                hits = {hit.address: hit for hit in group.hits}
                passed = _channels(group.ranked)
                for key, raw in group.candidates.items():
                    before = seen.get(raw.address)
                    known = before or _Seen(raw=raw, pool=group.pool, channels=_found_by(raw))
                    if key in passed:
                        known = attrs.evolve(
                            known,
                            channels=passed[key],
                            round=number if known.round is None else known.round,
                            hit=hits.get(raw.address) or known.hit,
                        )
                    seen[raw.address] = known
    return seen


def _channels(ranked: Mapping[str, object]) -> dict[Key, tuple[str, ...]]:
    found: dict[Key, tuple[str, ...]] = {}
    for name, members in ranked.items():
        for key, _ in members:  # type: ignore[attr-defined]  # pairs
            found[key] = (*found.get(key, ()), name)
    return found


def _found_by(raw: RawCandidate) -> tuple[str, ...]:
    """Return by what a member that was not admitted came in, as far as it shows."""
    return (*(("fts",) if raw.matched else ()), *(("vector",) if raw.cosine is not None else ()))


def _candidates(account: Account, units: frozenset[str]) -> tuple[ExplainedCandidate, ...]:
    members, fates = _members(account.retrieved.rounds), account.fates
    tried = list(dict.fromkeys(account.tried))
    ranks = {address: rank for rank, address in enumerate(tried, 1)}
    rest = [address for address in members if address not in ranks]
    rest.sort(key=lambda address: (members[address].round is None, -_strength(members[address])))
    share = partial(_share, account.retrieved.policy.floor, units, {})
    return tuple(
        _candidate(members[address], ranks.get(address), fates, units, share(members[address]))
        for address in [*(address for address in tried if address in members), *rest]
    )


def _strength(seen: _Seen) -> float:
    return seen.hit.score if seen.hit is not None else float(len(seen.raw.matched))


def _share(floor: AdmissionFloor, units: frozenset[str], scorers: dict[int, Scorer], seen: _Seen) -> float | None:
    """Return the share of the query's words that a member holds, as *floor* counts; *scorers* are made once a pool."""
    raw, pool = seen.raw, seen.pool
    if SNAPSHOT in seen.channels:
        return None
    if floor.idf_mass is None:
        return min(1.0, len(units & raw.matched.keys()) / min(len(units), QUERY_TERMS)) if units else 0.0
    scorer = scorers.get(id(pool)) or scorers.setdefault(id(pool), Scorer(pool.statistics))
    return scorer.score(raw.matched, raw.length)[1] / scorer.mass if scorer.mass else 0.0


def _candidate(
    seen: _Seen, rank: int | None, fates: Mapping[Address, Fate], units: frozenset[str], share: float | None
) -> ExplainedCandidate:
    raw, hit, profile = seen.raw, seen.hit, seen.pool.profile
    fate = fates.get(raw.address) or Fate("below_threshold" if seen.round is None else "ceiling")
    return ExplainedCandidate(
        address=raw.address,
        title=raw.title,
        rank=rank,
        channels=seen.channels,
        score=None if hit is None else hit.score,
        match=None if hit is None else hit.match,
        share=share,
        cosine=raw.cosine,
        relevance=None if raw.cosine is None or profile is None else profile.relevance(raw.cosine),
        matched_units=tuple(sorted(units & raw.matched.keys())),
        round=seen.round,
        fate=fate.name,
        detail=fate.detail,
        rendered_bytes=fate.rendered_bytes,
        body_bytes=raw.body_bytes,
    )
