"""Why one answer is what it is: the way of each candidate from its pool to the text.

Unlike a receipt an explanation holds the answer, and the query's words; it is for whoever may see these.
"""

from __future__ import annotations

from typing import Final, Literal

import attrs

from powerctx_core.receipt.parts import SPARSE
from powerctx_core.receipt.v2 import ReceiptV2, SlotUse
from powerctx_core.requests import ContextPack, PreparedContext, PrepareRequest, SearchRequest
from powerctx_core.types import Address, AdmissionCounts, AdmissionFloor, RecallEffort, Signals

__all__ = ["DELIVERED", "ExplainedCandidate", "ExplainedRound", "Explanation"]

DELIVERED: Final = ("delivered", "cut", "listed")
"""Fates of what was delivered: whole, cut, or in the list of what can be read."""


@attrs.frozen(kw_only=True)
class ExplainedRound:
    """One round of admission.

    Attributes:
        number: 0, or that of a further round.
        action: ``""`` for the first one, then ``admission`` and ``policy-floor``.
        outcome: ``expansion_failed`` when it was begun and dropped: nothing more is known of it.
        floor: what a member had to reach.
        pools: members before and after admission, per family and scope.
        reason: of the verdict; ``None`` when nobody judged.
        sufficient: the verdict.
        signals: what it was read from.
        budget_bounded: the budget could hold nothing more.
    """

    number: int
    action: str = ""
    outcome: Literal["completed", "expansion_failed"] = "completed"
    floor: AdmissionFloor | None = None
    pools: tuple[AdmissionCounts, ...] = ()
    reason: str | None = None
    sufficient: bool | None = None
    signals: Signals | None = None
    budget_bounded: bool = False


@attrs.frozen(kw_only=True)
class ExplainedCandidate:
    """One member of a pool.

    Attributes:
        title: as stored.
        rank: its place in the order in which candidates were tried, from 1; ``None`` when it was none.
        channels: which found it, and admitted it where it was admitted.
        score: fused, 0..1; ``None`` when it was not ranked.
        match: strength of the evidence, 0..1.
        share: of the query's words that it holds, 0..1, as the floor counts them: by weight where it asks for a weight,
            else by number; ``None`` when it is there whatever the query is.
        cosine: to the query, -1..1, where it has one.
        relevance: the same on the scale of the embedder's profile, 0..1: 0 is noise, 1 is a typical match.
        matched_units: words of the query that it holds, as terms; :meth:`Explanation.word` says what they are there.
        round: the first whose floor it passed; ``None`` when none let it in.
        fate: what became of it: one of :data:`DELIVERED`, or why not: a reason of receipts, or ``ceiling`` when its
            family may bring no more candidates, or ``filtered`` when it is not of what was asked for.
        detail: ``uri``, ``abstract``, ``overview`` or ``full``: how much a pack of tiers shows of it.
        rendered_bytes: UTF-8 bytes of its piece of the text.
        body_bytes: of its whole text.
        slot: of a start: the slot that it was offered for.
    """

    address: Address
    title: str | None
    rank: int | None
    channels: tuple[str, ...]
    score: float | None
    match: float | None
    share: float | None
    cosine: float | None
    relevance: float | None
    matched_units: tuple[str, ...]
    round: int | None
    fate: str
    detail: str | None = None
    rendered_bytes: int = 0
    body_bytes: int
    slot: str | None = attrs.field(default=None, metadata=SPARSE)


@attrs.frozen(kw_only=True)
class Explanation:
    """One call of ``prepare`` or ``search``, and all that is known of how its answer came about.

    Attributes:
        response: what the call returns.
        receipt: of version 2; ``None`` when it cannot be made, which the log tells.
        effort: what the gate did, when it is on.
        rounds: each, the dropped one included.
        thresholds: name -> value of what the gate compares signals with; of a search ``score_threshold``, the least
            ``match`` of an entry.
        query_units: words of the query that count, as terms: what they are looked up by, most often their stems.
        query_words: term and word, for those of *query_units* that the query writes otherwise.
        candidates: every member of every pool: in the order in which they were tried, then what was not tried.  Of a
            start: what was offered for each slot, and what the pack says of its own.
        slots: of a start: what the pack is made of, filled or not.
    """

    request: PrepareRequest | SearchRequest
    response: PreparedContext | ContextPack
    receipt: ReceiptV2 | None
    effort: RecallEffort | None
    rounds: tuple[ExplainedRound, ...]
    thresholds: tuple[tuple[str, float], ...]
    query_units: tuple[str, ...]
    candidates: tuple[ExplainedCandidate, ...]
    slots: tuple[SlotUse, ...] = ()
    query_words: tuple[tuple[str, str], ...] = ()

    def word(self, unit: str) -> str:
        """Return one of *query_units* as the query writes it."""
        return dict(self.query_words).get(unit, unit)

    @property
    def content(self) -> str | None:
        """The delivered text; ``None`` when there is none."""
        response = self.response
        return response.content if isinstance(response, PreparedContext) else response.rendered or None
