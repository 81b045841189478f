"""What is known of one finished call of ``prepare``, and the receipt made of it.

Everything here was there before anybody asked: a receipt asks no store and no model.
"""

from __future__ import annotations

import logging
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import attrs

from powerctx_core.assemble.envelope import Envelope
from powerctx_core.assemble.fit import Left
from powerctx_core.assemble.part import SIZE_REASONS, Entry
from powerctx_core.assembly import Assembled
from powerctx_core.errors import kind
from powerctx_core.recall.expansion import Expanded, Judged
from powerctx_core.recall.fetch import Fetched
from powerctx_core.recall.gate import GatePolicy
from powerctx_core.recall.group import Group
from powerctx_core.recall.outcome import Recalled
from powerctx_core.recall.policy import RecallPolicy
from powerctx_core.recall.stages import Stages
from powerctx_core.receipt.making import Receipt, make
from powerctx_core.receipt.parts import RecallRound, ReceiptError
from powerctx_core.receipt.run import Policy, Run, Search, Selection, Used
from powerctx_core.requests import PreparedContext, PrepareRequest

__all__ = ["Account", "receipt_of"]

_LOGGER = logging.getLogger("powerctx")
_OF_UNIT: Final = {"tokens": "token_budget", "chars": "char_budget"}
"""Why a candidate is left out that has no room in a size budget which is not bytes."""
_WITHOUT_VECTORS: Final = ("fts", "none")


@attrs.frozen(kw_only=True)
class Account:
    """What is known of one finished call.

    Attributes:
        answer: without a receipt.
        policy: how pools became candidates.
        gate: what judged them, when something did.
        envelope: what the pack is made of.
        recall: what was found; ``None`` when no family was asked for.
        pack: what was made of it.
        expanded: the rounds, when there was a gate.
        by_vector: families that are searched by vector when there is one.
        stages: how long each took.
    """

    request: PrepareRequest
    answer: PreparedContext
    policy: RecallPolicy
    gate: GatePolicy | None
    envelope: Envelope
    recall: Recalled | None = None
    pack: Assembled | None = None
    expanded: Expanded[Assembled] | None = None
    by_vector: frozenset[str] = frozenset()
    stages: Stages = attrs.field(factory=Stages)

    @property
    def rounds(self) -> tuple[Judged, ...]:
        """Each committed round; without a gate there is one, which nobody judged."""
        if self.expanded is not None:
            return self.expanded.rounds
        if self.recall is None:
            return ()
        return (Judged(floor=self.policy.floor, groups=self.recall.fetched.groups),)

    @property
    def dropped_round(self) -> int | None:
        """The number of the round that was begun and dropped."""
        if self.expanded is None or not self.expanded.dropped:
            return None
        return len(self.expanded.rounds)

    def run(self) -> Run:
        """Return the record that a receipt is built from.

        Raises:
            ReceiptError: what was delivered is not what was planned.
        """
        answer, diagnostics = self.answer, self.answer.diagnostics
        selected = tuple(self._selected())
        if tuple(selection.address for selection in selected) != answer.selected:
            raise ReceiptError("what was delivered is not what was planned")
        return Run(
            query=self.request.query,
            content=answer.content,
            outcome=diagnostics.outcome,
            empty_reason=None if selected else self._empty_reason(),
            partial=diagnostics.partial,
            split=answer.tools is not None,
            policy=Policy(policy_id=self.policy.policy_id, policy_digest=self.policy.digest),
            gate=None if self.gate is None else Policy(policy_id=self.gate.policy_id, policy_digest=self.gate.digest),
            budgets=tuple(self._budgets()),
            rounds=tuple(self._rounds()),
            searches=(*self._searches(), *self._searches_again()),
            expanded_by_model=any(group.cost.generation_calls > 0 for group in self._groups()),
            selected=selected,
            omitted=self._omitted(),
            stages=self.stages.runs,
        )

    def _groups(self) -> Iterator[Group]:
        """Give the groups of all rounds."""
        for judged in self.rounds:
            for groups in judged.groups.values():
                yield from groups

    def _empty_reason(self) -> str:
        if self.recall is None:
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

    def _rounds(self) -> Iterator[RecallRound]:
        for number, _ in enumerate(self.rounds):
            yield RecallRound(round=number, outcome="completed", retained=True)  # type: ignore[arg-type]  # 0 to 2
        if (dropped := self.dropped_round) is not None:
            yield RecallRound(round=dropped, outcome="expansion_failed", retained=False)  # type: ignore[arg-type]  # 1 or 2

    def _searches(self) -> Iterator[Search]:
        """Give each retrieval of the first round."""
        if self.recall is None:
            return
        fetched = self.recall.fetched
        for spec in self.envelope.specs:
            family = spec.name
            if family in fetched.failed:
                yield Search(round=0, family=family, mode="none", outcome="failed")
                continue
            groups = fetched.groups.get(family, ())
            for group in groups:
                reason = self._fallback(family, group)
                yield Search(round=0, family=family, mode=group.mode, outcome="completed", fallback_reason=reason)
            asked = 1 + (len(self.request.references) if spec.searched == "current+references" else 0)
            for _ in range(asked - len(groups)):
                yield Search(round=0, family=family, mode="none", outcome="late")

    def _searches_again(self) -> Iterator[Search]:
        """Give each retrieval of later rounds, which search only where an engine admits, with the vector of before."""
        for number, judged in enumerate(self.rounds[1:], 1):
            for group in (group for groups in judged.groups.values() for group in groups if group.again is not None):
                family = group.counts.family
                reason = self._fallback(family, group)
                yield Search(
                    round=number,
                    family=family,
                    mode=group.mode,
                    outcome="completed",
                    fallback_reason="reused_fts_fallback" if reason.startswith("inference") else reason,
                )

    def _fallback(self, family: str, group: Group) -> str:
        """Return why a search by words had no vector."""
        if "vector" in group.late:
            return "deadline"
        if self.recall is None or family not in self.by_vector or group.mode not in _WITHOUT_VECTORS:
            return "none"
        return self.recall.embeddings.fallback

    def _omitted(self) -> Mapping[tuple[str, str], int]:
        """Return (family, reason) -> candidates."""
        omitted: Counter[tuple[str, str]] = Counter()
        if self.recall is None or self.pack is None:
            return omitted
        plan, fetched = self.pack.plan, self.recall.fetched
        if plan is not None:
            omitted.update((left.candidate.address.family, reason_of(left)) for left in plan.left)
        present = {candidate.address.family for candidate in self.pack.candidates}
        for spec in self.envelope.specs:
            family = spec.name
            rejected = _rejected(self.rounds[-1].groups.get(family, ()))
            if rejected:
                omitted[family, "below_threshold"] = rejected
            if family in present:
                if plan is None:
                    omitted[family, "late"] = 1
            else:
                omitted[family, "late" if _is_late(fetched, family) else "not_retrieved"] = 1
        return omitted


def reason_of(left: Left) -> str:
    """Return the reason as it is told: a size budget other than bytes has a reason of its own."""
    if left.reason in SIZE_REASONS and left.unit is not None:
        return _OF_UNIT.get(left.unit, left.reason)
    return left.reason


def _selection(entry: Entry, part: str, detail: str) -> Selection:
    return Selection(
        address=entry.candidate.address,
        rendered_bytes=len(entry.piece.encode()),
        truncated=entry.cut,
        part=part,
        detail=detail,
        evidence=entry.candidate.evidence,
    )


def _rejected(groups: Iterable[Group]) -> int:
    return sum(group.counts.retrieved - group.counts.admitted for group in groups)


def _is_late(fetched: Fetched, family: str) -> bool:
    return family in fetched.late


def receipt_of(account: Account, version: int) -> Receipt | None:
    """Return the receipt of a call, or ``None``, with one line in the log, when there can be none.

    Nothing that happens here changes or loses the answer.
    """
    request_id = account.answer.diagnostics.request_id
    try:
        return make(account.run(), version, str(uuid.UUID(request_id)))
    except ReceiptError as error:
        reason = str(error)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong, the answer stands
        reason = kind(error)
    instead = "; ask for version 2 (receipt_version)" if version == 1 else ""
    _LOGGER.warning("no receipt of version %d for the request %s: %s%s", version, request_id, reason, instead)
    return None
