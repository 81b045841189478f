"""One receipt of one run, in the version that was asked for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from powerctx_core.receipt import v1, v2
from powerctx_core.receipt.parts import ReceiptError, RoundNumber, StageTiming, digest, query_digest
from powerctx_core.receipt.rerank import (
    Configuration,
    Prompt,
    Rerank,
    RerankFallback,
    RerankOutcome,
    config_digest,
)
from powerctx_core.receipt.run import Policy, Run, Search, Selection, Used
from powerctx_core.receipt.v1 import ReceiptV1
from powerctx_core.receipt.v2 import (
    BudgetUse,
    OmittedGroup,
    PolicyIdentity,
    ReceiptV2,
    RerankConfig,
    RerankGroup,
    SearchGroup,
    SelectedItem,
)

__all__ = ["Receipt", "build", "make"]

Receipt = ReceiptV1 | ReceiptV2
_USUAL: Final = {"inject": "full", "tools": "abstract"}
"""The detail that each part shows."""


def make(run: Run, version: int, receipt_id: str) -> Receipt:
    """Return the receipt of *run*.

    Args:
        run: the record of the call.
        version: 1 or 2.
        receipt_id: a UUID, for correlation in logs only.

    Raises:
        ReceiptError: there is none: evidence is missing, it is too large, or version 1 cannot say it.
    """
    receipt = build(run, receipt_id)
    if version == 1:
        return v1.of(receipt)
    v2.check(receipt)
    return receipt


def build(run: Run, receipt_id: str) -> ReceiptV2:
    """Return the receipt of *run*.

    Args:
        run: the record of the call.
        receipt_id: a UUID, for correlation in logs only.

    Raises:
        ReceiptError: evidence is missing.
    """
    scopes = _Table(selection.address.scope_id for selection in run.selected)
    families = _Table(
        sorted(
            {selection.address.family for selection in run.selected}
            | {search.family for search in run.searches}
            | {family for family, _ in run.omitted}
        )
    )
    rerankers = _Rerankers.of(run.reranks)
    return ReceiptV2(
        receipt_id=receipt_id,
        surface=_as(run.surface),
        query_digest=None if run.query is None else query_digest(run.query),
        content_digest=None if run.content is None else digest(run.content.encode()),
        content_bytes=0 if run.content is None else len(run.content.encode()),
        outcome=_as(run.outcome),
        empty_reason=_as(run.empty_reason),
        partial=run.partial,
        split=run.split,
        truncated=any(selection.truncated for selection in run.selected),
        non_deterministic=run.expanded_by_model or rerankers.non_deterministic,
        recall_policy=_identity(run.policy),
        gate_policy=None if run.gate is None else _identity(run.gate),
        budgets=tuple(map(_budget, run.budgets)),
        scopes=scopes.rows,
        families=families.rows,
        prompts=rerankers.prompts,
        rerank_configs=rerankers.configs,
        rounds=tuple(sorted(run.rounds, key=lambda each: each.round)),
        searches=_searches(run.searches, families),
        reranks=rerankers.groups,
        selected=tuple(_selected(selection, scopes, families) for selection in run.selected),
        omitted=_omitted(run.omitted, families),
        stages=_stages(run.stages),
        lifecycle=_as(run.lifecycle),
        slots=run.slots,
    )


class _Table:
    """Values in the order of their first mention, and the position of each."""

    def __init__(self, values: Iterable[str]) -> None:
        self.rows = tuple(dict.fromkeys(values))
        self._places = {value: place for place, value in enumerate(self.rows)}

    def __getitem__(self, value: str) -> int:
        return self._places[value]


def _as(value: Any) -> Any:
    """Return a word of the record as one of the receipt: they are the same, and a test holds them together."""
    return value


def _identity(policy: Policy) -> PolicyIdentity:
    return PolicyIdentity(policy_id=policy.policy_id, policy_digest=policy.policy_digest)


def _budget(used: Used) -> BudgetUse:
    return BudgetUse(unit=_as(used.unit), requested=used.requested, used=used.used)


def _searches(searches: Iterable[Search], families: _Table) -> tuple[SearchGroup, ...]:
    groups = [
        SearchGroup(
            round=_as(search.round),
            family=families[search.family],
            mode=_as(search.mode),
            outcome=_as(search.outcome),
            fallback_reason=_as(search.fallback_reason),
            count=count,
        )
        for search, count in Counter(searches).items()
    ]
    return tuple(
        sorted(groups, key=lambda each: (each.round, each.family, each.mode, each.outcome, each.fallback_reason))
    )


def _selected(selection: Selection, scopes: _Table, families: _Table) -> SelectedItem:
    address = selection.address
    return SelectedItem(
        scope=scopes[address.scope_id],
        family=families[address.family],
        artifact_id=address.artifact_id,
        revision=address.revision,
        rendered_bytes=selection.rendered_bytes,
        truncated=selection.truncated,
        part=_as(selection.part),
        detail=None if selection.detail == _USUAL[selection.part] else _as(selection.detail),
        evidence=dict(selection.evidence) if selection.evidence else None,
    )


def _omitted(omitted: Mapping[tuple[str, str], int], families: _Table) -> tuple[OmittedGroup, ...]:
    groups = [
        OmittedGroup(family=families[family], reason=_as(reason), count=count)
        for (family, reason), count in omitted.items()
        if count > 0
    ]
    return tuple(sorted(groups, key=lambda each: (each.family, each.reason)))


def _stages(runs: Sequence[tuple[Any, float]]) -> tuple[StageTiming, ...]:
    seconds: dict[Any, list[float]] = defaultdict(list)
    for stage, duration in runs:
        seconds[stage].append(duration)
    return tuple(
        StageTiming(stage=stage, duration_ms=round(sum(durations) * 1000, 3), count=len(durations))
        for stage, durations in sorted(seconds.items())
    )


@attrs.frozen(kw_only=True)
class _Rerankers:
    """The calls of rerankers as tables."""

    prompts: tuple[Prompt, ...]
    configs: tuple[RerankConfig, ...]
    groups: tuple[RerankGroup, ...]

    @property
    def non_deterministic(self) -> bool:
        return any(config.non_deterministic for config in self.configs)

    @classmethod
    def of(cls, reranks: Sequence[Rerank]) -> _Rerankers:
        """Return the tables.

        Raises:
            ReceiptError: a reranker gave no configuration.
        """
        known: dict[str, Configuration] = {}
        calls: Counter[tuple[RoundNumber, str, RerankOutcome, RerankFallback]] = Counter()
        for rerank in reranks:
            if rerank.configuration is None:
                raise ReceiptError("a reranker ran and does not say with which configuration")
            name = config_digest(rerank.configuration)
            known[name] = rerank.configuration
            calls[rerank.round, name, rerank.outcome, rerank.fallback_reason] += 1
        order = sorted(known)
        prompts: list[Prompt] = []
        for name in order:
            prompt = known[name].prompt
            if prompt is not None and prompt not in prompts:
                prompts.append(prompt)
        configs = tuple(_config(name, known[name], prompts) for name in order)
        groups = tuple(
            RerankGroup(round=number, config=order.index(name), outcome=outcome, fallback_reason=reason, count=count)
            for (number, name, outcome, reason), count in sorted(calls.items())
        )
        return cls(prompts=tuple(prompts), configs=configs, groups=groups)


def _config(name: str, configuration: Configuration, prompts: Sequence[Prompt]) -> RerankConfig:
    return RerankConfig(
        config_digest=name,
        policy_id=configuration.policy_id,
        model=configuration.model,
        effective_settings=dict(sorted(configuration.effective_settings.items())),
        timeout_seconds=configuration.timeout_seconds,
        max_requests=configuration.max_requests,
        prompt=None if configuration.prompt is None else prompts.index(configuration.prompt),
        non_deterministic=configuration.non_deterministic,
    )
