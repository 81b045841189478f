"""What a call retrieved, round by round, and what a receipt tells of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

import attrs

from powerctx_core.recall.expansion import Expanded, Judged
from powerctx_core.recall.gate import GatePolicy
from powerctx_core.recall.group import Group
from powerctx_core.recall.outcome import Recalled
from powerctx_core.recall.policy import RecallPolicy
from powerctx_core.receipt.parts import RecallRound
from powerctx_core.receipt.run import Policy, Search
from powerctx_core.records import FamilySpec

__all__ = ["Retrieved"]

_WITHOUT_VECTORS: Final = ("fts", "none")


@attrs.frozen(kw_only=True)
class Retrieved:
    """What was retrieved.

    Attributes:
        policy: how pools became candidates.
        specs: the families that were asked, in their order.
        references: how many further scopes were.
        by_vector: families that are searched by vector when there is one.
        recall: what was found; ``None`` when no family was asked for.
        gate: what judged it, when something did.
        expanded: the rounds, when there was a gate.
    """

    policy: RecallPolicy
    specs: Sequence[FamilySpec]
    references: int = 0
    by_vector: frozenset[str] = frozenset()
    recall: Recalled | None = None
    gate: GatePolicy | None = None
    expanded: Expanded[Any] | None = None

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

    @property
    def policies(self) -> tuple[Policy, Policy | None]:
        """Identities of the recall policy, and of the gate's."""
        gate = self.gate
        return (
            Policy(policy_id=self.policy.policy_id, policy_digest=self.policy.digest),
            None if gate is None else Policy(policy_id=gate.policy_id, policy_digest=gate.digest),
        )

    @property
    def by_model(self) -> bool:
        """A model took part in a search."""
        groups = (group for judged in self.rounds for groups in judged.groups.values() for group in groups)
        return any(group.cost.generation_calls > 0 for group in groups)

    def told_rounds(self) -> Iterator[RecallRound]:
        """Give each round, a dropped one last."""
        for number, _ in enumerate(self.rounds):
            yield RecallRound(round=number, outcome="completed", retained=True)  # type: ignore[arg-type]  # 0 to 2
        if (dropped := self.dropped_round) is not None:
            yield RecallRound(round=dropped, outcome="expansion_failed", retained=False)  # type: ignore[arg-type]  # 1 or 2

    def searches(self) -> Iterator[Search]:
        """Give each retrieval of every round."""
        yield from self._searches()
        yield from self._searches_again()

    def _searches(self) -> Iterator[Search]:
        """Give each retrieval of the first round."""
        if self.recall is None:
            return
        fetched = self.recall.fetched
        for spec in self.specs:
            family = spec.name
            if family in fetched.failed:
                yield Search(round=0, family=family, mode="none", outcome="failed")
                continue
            groups = fetched.groups.get(family, ())
            for group in groups:
                reason = self._fallback(family, group)
                yield Search(round=0, family=family, mode=group.mode, outcome="completed", fallback_reason=reason)
            asked = 1 + (self.references if spec.searched == "current+references" else 0)
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

    def omitted(self, present: Collection[str], *, late: bool) -> Counter[tuple[str, str]]:
        """Return (family, reason) -> what the last round did not let in, and the flags of families.

        Args:
            present: families with a candidate.
            late: there was no text in time.
        """
        omitted: Counter[tuple[str, str]] = Counter()
        if self.recall is None:
            return omitted
        for spec in self.specs:
            family = spec.name
            rejected = _rejected(self.rounds[-1].groups.get(family, ()))
            if rejected:
                omitted[family, "below_threshold"] = rejected
            if family not in present:
                omitted[family, "late" if family in self.recall.fetched.late else "not_retrieved"] = 1
            elif late:
                omitted[family, "late"] = 1
        return omitted


def _rejected(groups: Iterable[Group]) -> int:
    return sum(group.counts.retrieved - group.counts.admitted for group in groups)
