"""What the gate did in one call: numbers alone, no stored text, no query, no identities."""

from __future__ import annotations

import attrs

from powerctx_core.types.retrieval import AdmissionCounts

__all__ = ["RecallEffort", "Signals"]


@attrs.frozen(kw_only=True)
class Signals:
    """What a verdict of the gate was read from.

    Attributes:
        candidate_count: candidates so far.
        family_count: families that have one.
        distinct_sources: distinct identities.
        top_relevance, mean_relevance: of the raw cosines of scored groups; 0 without any.
        top_gap: how far the best cosine of a family stands above the mean of its good ones; 0 when unknown.
        lexical_overlap: the greatest share of the query's terms that one candidate holds; 1 for a query without terms.
    """

    candidate_count: int
    family_count: int
    distinct_sources: int
    top_relevance: float
    mean_relevance: float
    top_gap: float
    lexical_overlap: float


@attrs.frozen(kw_only=True)
class RecallEffort:
    """How a call judged what it found, and what it did to find more.

    Attributes:
        policy_id, policy_digest: of the gate policy.
        sufficient: the last verdict.
        reason: of the ten of the gate, why it ended there.
        signals: of the last committed round; ``None`` when the first one could not be judged.
        rounds: committed ones, 1 and one for each of *expansion_actions*.
        expansion_actions: a prefix of ``("admission", "policy-floor")``.
        candidates_by_round: candidates gathered up to each round, before ceilings.
        admission_by_family: of the last committed round.
        added_searches, added_embeddings, added_generation_calls: what committed rounds cost beside the first.
        truncated_items: entries that were cut for a budget of the request.
        dropped_items: candidates left out for one: *dropped_below_min_bytes* and *dropped_no_fitting_truncation*.
        recoverable: entries of the pools that the last round rejects and a further one would admit.
        partial: a round was dropped because the deadline passed.
    """

    policy_id: str
    policy_digest: str
    sufficient: bool
    reason: str
    signals: Signals | None
    rounds: int
    expansion_actions: tuple[str, ...]
    candidates_by_round: tuple[int, ...]
    admission_by_family: tuple[AdmissionCounts, ...]
    added_searches: int = 0
    added_embeddings: int = 0
    added_generation_calls: int = 0
    truncated_items: int = 0
    dropped_items: int = 0
    dropped_below_min_bytes: int = 0
    dropped_no_fitting_truncation: int = 0
    recoverable: int = 0
    partial: bool = False
