"""What fates, verdicts and signals are called where people read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from powerctx_core.explanation import ExplainedRound, Explanation
from powerctx_core.requests import ContextPack
from powerctx_core.types import AdmissionFloor

__all__ = [
    "EMPTY",
    "FATES",
    "SLOTS",
    "VERDICTS",
    "Compared",
    "compared",
    "floor_in_words",
    "next_step",
    "percent",
    "searched",
    "title",
]

FATES: Final[Mapping[str, str]] = {
    "delivered": "delivered",
    "cut": "delivered, cut to fit",
    "listed": "listed, to be read on demand",
    "duplicate": "the same evidence again, or the same text",
    "blank": "nothing to show",
    "family_limit": "its family, section or bucket has as many entries as it may",
    "entry_limit": "the pack has as many entries as it may",
    "below_min_bytes": "no room for it whole, and too short to be cut",
    "no_fitting_truncation": "no room, not even for its shortest cut",
    "token_budget": "no room in the budget of tokens",
    "char_budget": "no room in the budget of characters",
    "rerank_not_selected": "the reranker did not choose it",
    "not_retrieved": "nothing of this family was found, or nothing good enough",
    "below_threshold": "too weak: below the floor of every round, or the threshold of the search",
    "filtered": "outside of the conditions of the search",
    "ceiling": "beyond the candidates that its family may bring",
    "cooled": "delivered in an earlier turn, and cooling",
    "excluded": "excluded by the request, or of another actor",
    "toolized": "no room in the list of what can be read",
    "late": "not ready in time",
}
"""Fate of a candidate, or reason of an omission -> words."""

VERDICTS: Final[Mapping[str, str]] = {
    "no-content": "nothing is stored in these scopes",
    "budget-floor": "the budget is full: more could not be delivered",
    "rerank-enabled": "a reranker decided the order",
    "thin-candidates": "too few candidates",
    "thin-families": "a family that has something brought no candidate",
    "weak-top-1": "even the best is far from the query, or does not stand out",
    "weak-lexical": "the best holds too few words of the query",
    "sufficient": "enough was found",
    "at-max-rounds": "all rounds have run, and it is still thin",
    "expansion-failed": "a further round failed; the one before it stands",
}
"""Reason of a verdict -> words."""

_SIGNALS: Final[tuple[tuple[str, str, str | None], ...]] = (
    ("candidate_count", "candidates", "min_candidates"),
    ("family_count", "families with a candidate", None),
    ("distinct_sources", "distinct sources", None),
    ("top_relevance", "best cosine", "min_top_score"),
    ("mean_relevance", "mean cosine", None),
    ("top_gap", "how far the best stands out", "min_top_gap"),
    ("lexical_overlap", "share of the query's words in the best candidate", "min_lexical_overlap"),
)
"""Name of a signal, its words, and the threshold that it is compared with."""

SLOTS: Final[Mapping[str, str]] = {
    "filled": "filled",
    "no_content": "absent: its source has nothing",
    "duplicate": "absent: all of it stands in an earlier slot",
    "excluded": "absent: the request excludes it",
    "budget": "absent: no room for any of it",
    "lifecycle": "absent: not for this lifecycle",
    "not_installed": "absent: its source is not installed",
    "late": "absent: not ready in time",
    "failed": "absent: its source failed",
}
"""Outcome of a slot -> words."""

_COSINES: Final = frozenset({"top_relevance", "mean_relevance", "top_gap"})
"""Signals that say nothing without vectors."""

EMPTY: Final[Mapping[str, str]] = {
    "no_content": "Nothing is stored in these scopes and families.",
    "no_match": "Nothing shares a word or a meaning with the query.",
    "below_threshold": "Something matched, too weakly to be let in.",
    "budget": "Nothing fits the budget.",
    "deadline": "No answer came in time.",
    "source_error": "A family failed.",
    "frame": "What the renderer always writes exceeds the budget.",
    "no_section": "No section was asked for.",
}
"""Why nothing was delivered -> a sentence."""


def percent(share: float) -> str:
    """Return a share as a whole percentage."""
    return f"{share * 100:.0f} %"


def title(explanation: Explanation) -> str:
    """Return what was asked: the query, or what is told without one."""
    request = explanation.request
    if request.query is not None:
        return " ".join(request.query.split())
    mode = getattr(request, "mode", "")
    return "What an agent should know when it starts" if mode == "bootstrap" else f"What {mode} offers"


def searched(explanation: Explanation) -> dict[str, str]:
    """Return what a search was asked with and what its pack shows, by name; nothing of ``prepare``."""
    response = explanation.response
    if not isinstance(response, ContextPack):
        return {}
    stats, request = response.stats, explanation.request
    threshold = dict(explanation.thresholds).get("score_threshold")
    told = {
        "lifecycle": stats.lifecycle,
        "purpose": getattr(request, "purpose", None),
        "least match": None if threshold is None else f"{threshold:g}",
        "turn": f"{stats.dedup['turn']}, after {stats.dedup['turns']} that cool" if stats.dedup else None,
        "tiers": ", ".join(f"{number} {detail}" for detail, number in stats.tier_counts.items()),
        "shows less for": ", ".join(f"{reason} ({number})" for reason, number in stats.lowered.items()),
        "ignored": "; ".join(stats.ignored),
    }
    return {name: value for name, value in told.items() if value}


def floor_in_words(floor: AdmissionFloor) -> str:
    """Return what a member had to reach."""
    if floor.idf_mass is not None:
        words = f"{percent(floor.idf_mass)} of the weight of the query's words"
        words = words if floor.idf_mass > 0.0 else "any word of the query"
        meaning = "any vector" if floor.relevance is None else f"a relevance above {floor.relevance:g}"
        return f"{words}, or {meaning}"
    least = "1 word of the query" if floor.matched <= 1 else f"{floor.matched} words of the query"
    if floor.coverage > 0.0:
        least += f" and {percent(floor.coverage)} of them"
    return least if floor.cosine is None else f"{least}, or a cosine of {floor.cosine:g}"


@attrs.frozen
class Compared:
    """A signal of the gate beside what it is compared with.

    Attributes:
        words: what it is.
        value: ``None`` where it says nothing, since nothing has a vector.
        threshold: the least that is enough; ``None`` where nothing is asked of it.
        told: ``below``, ``reached``, or nothing where it is not compared.
    """

    words: str
    value: float | None
    threshold: float | None
    told: str


def compared(explanation: Explanation, judged: ExplainedRound) -> Iterator[Compared]:
    """Give every signal of a round that was judged."""
    signals, thresholds = judged.signals, dict(explanation.thresholds)
    if signals is None:
        return
    # Families whose first pool held something, as the gate expects a candidate of each.
    matched = {pool.family for pool in explanation.rounds[0].pools if pool.retrieved}
    if len(matched) > 1:
        thresholds["families"] = len(matched)
    strong = signals.top_relevance >= thresholds.get("strong_top", 1.0)
    for name, words, threshold in _SIGNALS:
        value = getattr(signals, name)
        least = thresholds.get("families" if name == "family_count" else threshold or "")
        if name in _COSINES and signals.top_relevance <= 0.0:
            yield Compared(words, None, least, "")
        elif least is None or (name == "top_gap" and strong):
            yield Compared(words, value, None, "" if least is None else "not needed: the best is strong")
        else:
            yield Compared(words, value, least, "below" if value < least else "reached")


def next_step(explanation: Explanation, judged: ExplainedRound) -> str:
    """Return what came of the verdict of a round, as a sentence; nothing when there was none."""
    if judged.sufficient is None or explanation.effort is None:
        return ""
    if judged.reason == "no-content":
        return "Nothing to let in."
    if judged.sufficient:
        return "Enough: nothing more is let in."
    rounds = explanation.rounds
    if judged.number + 1 < len(rounds):
        return f"Not enough: round {judged.number + 1} lets in more of what was retrieved."
    if explanation.effort.partial:
        return "Not enough, but no time is left for a further round."
    if any(pool.admitted < pool.retrieved for pool in judged.pools):
        return "Not enough, but the policy has no further round that would let in more."
    return "Not enough, but everything that was retrieved is let in."
