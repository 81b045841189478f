"""The account of a call of ``prepare``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from powerctx_core.account.retrieved import Retrieved
from powerctx_core.account.telling import Fate
from powerctx_core.assemble.envelope import Envelope
from powerctx_core.assemble.fit import Left
from powerctx_core.assemble.part import SIZE_REASONS, Entry
from powerctx_core.assembly import Assembled
from powerctx_core.recall.stages import Stages
from powerctx_core.receipt.parts import ReceiptError
from powerctx_core.receipt.run import Run, Selection, Used
from powerctx_core.requests import PreparedContext, PrepareRequest
from powerctx_core.types import Address

__all__ = ["PreparedAccount"]

_OF_UNIT: Final = {"tokens": "token_budget", "chars": "char_budget"}
"""Why a candidate is left out that has no room in a size budget which is not bytes."""
_THRESHOLDS: Final = ("min_candidates", "min_top_score", "min_top_gap", "strong_top", "min_lexical_overlap")


@attrs.frozen(kw_only=True)
class PreparedAccount:
    """What is known of one finished call of ``prepare``; see :class:`powerctx_core.account.telling.Account`.

    Attributes:
        answer: without a receipt.
        envelope: what the pack is made of.
        pack: what was made of what was found.
        stages: how long each took.
    """

    request: PrepareRequest
    answer: PreparedContext
    envelope: Envelope
    retrieved: Retrieved
    pack: Assembled | None = None
    stages: Stages = attrs.field(factory=Stages)

    @property
    def thresholds(self) -> Mapping[str, float]:
        """What the gate compares signals with."""
        gate = self.retrieved.gate
        return {} if gate is None else {name: float(getattr(gate, name)) for name in _THRESHOLDS}

    @property
    def tried(self) -> Sequence[Address]:
        """What competed for the budget, in its order."""
        return () if self.pack is None else [hit.address for hit in self.pack.tried]

    @property
    def fates(self) -> Mapping[Address, Fate]:
        """What became of each candidate that competed."""
        pack = self.pack
        if pack is None:
            return {}
        if pack.plan is None:
            return {hit.address: Fate("late") for hit in pack.tried}
        fates = {left.address: Fate(_reason(left)) for left in pack.plan.left}
        fates |= {entry.candidate.address: _delivered(entry, listed=False) for entry in pack.plan.entries}
        fates |= {entry.candidate.address: _delivered(entry, listed=True) for entry in pack.plan.listed}
        return fates

    def run(self) -> Run:
        """Return the record that a receipt is built from.

        Raises:
            ReceiptError: what was delivered is not what was planned.
        """
        answer, diagnostics = self.answer, self.answer.diagnostics
        selected = tuple(self._selected())
        if tuple(selection.address for selection in selected) != answer.selected:
            raise ReceiptError("what was delivered is not what was planned")
        policy, gate = self.retrieved.policies
        return Run(
            query=self.request.query,
            content=answer.content,
            outcome=diagnostics.outcome,
            empty_reason=None if selected else self._empty_reason(),
            partial=diagnostics.partial,
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

    def _empty_reason(self) -> str:
        if self.retrieved.recall is None:
            return "no_section"
        diagnostics = self.answer.diagnostics
        return "frame" if diagnostics.frame_over else diagnostics.outcome

    def _selected(self) -> Iterator[Selection]:
        plan = None if self.pack is None else self.pack.plan
        if plan is not None:
            yield from (_selection(entry, "inject", "full") for entry in plan.entries)
            yield from (_selection(entry, "tools", "abstract") for entry in plan.listed)

    def _budgets(self) -> Iterator[Used]:
        request, plan = self.request, None if self.pack is None else self.pack.plan
        yield Used(unit="items", requested=self.envelope.max_items, used=len(self.answer.selected))
        for unit, requested in (
            ("bytes", request.max_bytes),
            ("chars", request.max_chars),
            ("tokens", request.max_tokens),
            ("inject_tokens", request.inject_max_tokens),
        ):
            if requested is not None:
                yield Used(unit=unit, requested=requested, used=0 if plan is None else plan.used.get(unit, 0))

    def _omitted(self) -> Mapping[tuple[str, str], int]:
        """Return (family, reason) -> candidates."""
        if self.pack is None:
            return {}
        plan = self.pack.plan
        present = {address.family for address in self.tried}
        omitted = self.retrieved.omitted(present, late=plan is None)
        if plan is not None:
            omitted.update((left.address.family, _reason(left)) for left in plan.left)
        return omitted


def _reason(left: Left) -> str:
    """Return the reason as it is told: a size budget other than bytes has a reason of its own."""
    if left.reason in SIZE_REASONS and left.unit is not None:
        return _OF_UNIT.get(left.unit, left.reason)
    return left.reason


def _delivered(entry: Entry, *, listed: bool) -> Fate:
    return Fate("listed" if listed else "cut" if entry.cut else "delivered", len(entry.piece.encode()))


def _selection(entry: Entry, part: str, detail: str) -> Selection:
    return Selection(
        address=entry.candidate.address,
        rendered_bytes=len(entry.piece.encode()),
        truncated=entry.cut,
        part=part,
        detail=detail,
        evidence=entry.candidate.evidence,
    )
