"""The account of a pack that is made of what candidate providers offer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import attrs

from powerctx_core.account.telling import receipt_of
from powerctx_core.canonical import sha256_of
from powerctx_core.explanation import ExplainedCandidate, Explanation
from powerctx_core.recall.checks import SNAPSHOT
from powerctx_core.recall.stages import Stages
from powerctx_core.receipt.parts import ReceiptError
from powerctx_core.receipt.run import Policy, Run, Search, Selection, Used
from powerctx_core.receipt.v2 import ReceiptV2
from powerctx_core.requests import ContextPack, SearchRequest
from powerctx_core.search.slots import Filled

__all__ = ["BootstrapAccount"]


@attrs.frozen(kw_only=True)
class BootstrapAccount:
    """What is known of one finished call; see :class:`powerctx_core.account.telling.Told`.

    Attributes:
        answer: without a receipt, unless one was asked for.
        slots: every slot of the manifest, filled or not.
        framed: there was room for what stands around the entries.
    """

    request: SearchRequest
    answer: ContextPack
    slots: Sequence[Filled]
    framed: bool
    stages: Stages

    def run(self) -> Run:
        """Return the record that a receipt is built from.

        Raises:
            ReceiptError: what was delivered is not what was planned.
        """
        answer = self.answer
        selected = tuple(self._selected())
        if tuple(selection.address for selection in selected) != answer.selected:
            raise ReceiptError("what was delivered is not what was planned")
        outcome, stats = answer.diagnostics.outcome, answer.stats
        manifest = sha256_of([each.supply.slot for each in self.slots])
        return Run(
            surface="bootstrap",
            query=self.request.query,
            content=answer.rendered or None,
            outcome=outcome,
            empty_reason=None if selected else outcome if self.framed else "frame",
            partial=answer.diagnostics.partial,
            policy=Policy(policy_id=self.request.mode, policy_digest=manifest),
            budgets=(Used(unit="tokens", requested=stats.max_tokens, used=stats.used_tokens),),
            rounds=(),
            searches=tuple(self._searches()),
            selected=selected,
            omitted=self._omitted(),
            stages=self.stages.runs,
            lifecycle=stats.lifecycle,
            slots=tuple(each.use for each in self.slots),
        )

    def explanation(self) -> Explanation:
        """Return what became of each candidate, slot by slot."""
        receipt = receipt_of(self, 2)
        return Explanation(
            request=self.request,
            response=self.answer,
            receipt=receipt if isinstance(receipt, ReceiptV2) else None,
            effort=None,
            rounds=(),
            thresholds=(),
            query_units=(),
            candidates=tuple(self._candidates()),
            slots=tuple(each.use for each in self.slots),
        )

    def _selected(self) -> Iterator[Selection]:
        for slot in self.slots:
            for hit, rung in slot.entries:
                yield Selection(
                    address=hit.address,
                    rendered_bytes=len(rung.piece.encode()),
                    truncated=rung.cut,
                    part="inject",
                    detail=rung.detail,
                    evidence=hit.candidate.evidence,
                )

    def _searches(self) -> Iterator[Search]:
        """Give each family that a source read its latest of."""
        for slot in self.slots:
            offered = slot.supply.offered
            read = dict.fromkeys(each.address.family for each in offered.candidates if each.kind != "note")
            for family in read | dict.fromkeys(offered.among):
                yield Search(round=0, family=family, mode=SNAPSHOT, outcome="completed")

    def _omitted(self) -> Mapping[tuple[str, str], int]:
        """Return (family, reason) -> candidates; a text that is late is a flag of each family."""
        omitted = Counter(
            (raw.address.family, reason) for slot in self.slots for raw, _, reason in slot.candidates() if reason
        )
        return {key: 1 if key[1] == "late" else count for key, count in omitted.items()}

    def _candidates(self) -> Iterator[ExplainedCandidate]:
        rank = 0
        for slot in self.slots:
            for place, (raw, rung, reason) in enumerate(slot.candidates()):
                rank += place not in slot.aside
                yield ExplainedCandidate(
                    address=raw.address,
                    title=raw.title,
                    rank=None if place in slot.aside else rank,
                    channels=() if raw.kind == "note" else (SNAPSHOT,),
                    score=None,
                    match=None,
                    share=None,
                    cosine=None,
                    relevance=None,
                    matched_units=(),
                    round=None,
                    fate=reason or ("cut" if rung is not None and rung.cut else "delivered"),
                    detail=None if rung is None else rung.detail,
                    rendered_bytes=0 if rung is None else len(rung.piece.encode()),
                    body_bytes=raw.body_bytes,
                    slot=slot.supply.slot.name,
                )
