"""The account of a search for a pack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import ceil

import attrs

from powerctx_core.account.retrieved import Retrieved
from powerctx_core.account.telling import Fate
from powerctx_core.recall.stages import Stages
from powerctx_core.receipt.parts import ReceiptError
from powerctx_core.receipt.run import Run, Selection, Used
from powerctx_core.requests import ContextPack, SearchRequest
from powerctx_core.search.answering import Course
from powerctx_core.types import Address

__all__ = ["SearchAccount"]

_FILTERED = "filtered"
"""What does not meet the request's conditions is no candidate, whether the store sees to them or not."""


@attrs.frozen(kw_only=True)
class SearchAccount:
    """What is known of one finished search; see :class:`powerctx_core.account.telling.Account`."""

    answer: ContextPack
    retrieved: Retrieved
    course: Course
    stages: Stages

    @property
    def request(self) -> SearchRequest:
        """What was asked."""
        return self.course.wants.request

    @property
    def thresholds(self) -> Mapping[str, float]:
        """The least ``match`` of an entry."""
        return {"score_threshold": self.course.wants.threshold}

    @property
    def tried(self) -> Sequence[Address]:
        """What competed for the budget, in its order."""
        return [hit.address for hit in self.course.found.hits]

    @property
    def fates(self) -> Mapping[Address, Fate]:
        """What became of each candidate."""
        found, pack = self.course.found, self.course.pack
        fates = {hit.address: Fate(reason) for hit, reason in found.left}
        if pack.late:
            return fates | {hit.address: Fate("late") for hit in found.hits}
        fates |= {found.hits[place].address: Fate(reason) for place, reason in pack.left.items()}
        return (
            fates
            | {
                hit.address: Fate("cut" if rung.cut else "delivered", len(rung.piece.encode()), rung.detail)
                for hit, rung in pack.entries
            }
            | {hit.address: Fate("listed", len(rung.piece.encode()), rung.detail) for hit, rung in pack.listed}
        )

    def run(self) -> Run:
        """Return the record that a receipt is built from.

        Raises:
            ReceiptError: what was delivered is not what was planned.
        """
        answer, pack = self.answer, self.course.pack
        selected = tuple(self._selected())
        if tuple(selection.address for selection in selected) != answer.selected:
            raise ReceiptError("what was delivered is not what was planned")
        policy, gate = self.retrieved.policies
        outcome = answer.diagnostics.outcome
        return Run(
            surface="search",
            query=self.request.query,
            content=answer.rendered or None,
            outcome=outcome,
            empty_reason=None if selected else outcome if pack.framed else "frame",
            partial=answer.diagnostics.partial,
            split=answer.tools is not None,
            policy=policy,
            gate=gate,
            budgets=tuple(self._budgets()),
            rounds=tuple(self.retrieved.told_rounds()),
            searches=tuple(self.retrieved.searches()),
            expanded_by_model=self.retrieved.by_model,
            selected=selected,
            omitted=self._omitted(),
            stages=self.stages.runs,
        )

    def _selected(self) -> Iterator[Selection]:
        for part, entries in (("inject", self.course.pack.entries), ("tools", self.course.pack.listed)):
            for hit, rung in entries:
                yield Selection(
                    address=hit.address,
                    rendered_bytes=len(rung.piece.encode()),
                    truncated=rung.cut,
                    part=part,
                    detail=rung.detail,
                    evidence=hit.candidate.evidence,
                )

    def _budgets(self) -> Iterator[Used]:
        wants, stats = self.course.wants, self.answer.stats
        if wants.limit is not None:
            yield Used(unit="items", requested=wants.limit, used=stats.returned)
        yield Used(unit="tokens", requested=stats.max_tokens, used=stats.used_tokens)
        most = wants.request.inject_max_tokens
        if most is not None:
            yield Used(unit="inject_tokens", requested=most, used=min(ceil(self.course.pack.text_cost), most))

    def _omitted(self) -> Mapping[tuple[str, str], int]:
        """Return (family, reason) -> candidates."""
        found, pack = self.course.found, self.course.pack
        present = {hit.address.family for hit in self.course.recall.hits}
        omitted = Counter(self.retrieved.omitted(present, late=pack.late))
        omitted.update((hit.address.family, reason) for hit, reason in found.left if reason != _FILTERED)
        omitted.update((found.hits[place].address.family, reason) for place, reason in pack.left.items())
        return omitted
