"""What happened in one call, as a receipt tells it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import attrs

from powerctx_core.receipt.parts import RecallRound, Stage
from powerctx_core.receipt.rerank import Rerank
from powerctx_core.receipt.v2 import SlotUse
from powerctx_core.types import Address

__all__ = ["Policy", "Run", "Search", "Selection", "Used"]


@attrs.frozen(kw_only=True)
class Policy:
    """A policy that was in force.

    Attributes:
        policy_digest: ``sha256:`` of its canonical form.
    """

    policy_id: str
    policy_digest: str


@attrs.frozen(kw_only=True)
class Search:
    """One retrieval of one family in one scope; what is equal is counted together.

    Attributes:
        mode: what ran: ``fts``, ``vector``, ``hybrid``, ``snapshot``, ``code`` or ``none``; never ``auto``.
        outcome: ``completed``, ``not_run``, ``failed`` or ``late``.
        fallback_reason: why words alone had to do, or ``none``.
    """

    round: int
    family: str
    mode: str
    outcome: str
    fallback_reason: str = "none"


@attrs.frozen(kw_only=True)
class Selection:
    """One delivered entry.

    Attributes:
        rendered_bytes: UTF-8 bytes of its piece of the text.
        truncated: it was cut.
        part: ``inject`` or ``tools``.
        detail: ``uri``, ``abstract``, ``overview`` or ``full``.
        evidence: the identity fields that its family declares.
    """

    address: Address
    rendered_bytes: int
    truncated: bool
    part: str
    detail: str
    evidence: Mapping[str, str | int] = MappingProxyType({})


@attrs.frozen(kw_only=True)
class Used:
    """One budget.

    Attributes:
        unit: ``items``, ``bytes``, ``chars``, ``tokens`` or ``inject_tokens``.
        requested: its limit.
        used: what was taken of it.
    """

    unit: str
    requested: int
    used: int


@attrs.frozen(kw_only=True)
class Run:
    """The record of one call that a receipt is built from.

    Attributes:
        surface: ``prepare``, ``search`` or ``bootstrap``.
        query: for its digest alone; ``None`` where there was none.
        content: the delivered text, for its digest alone.
        outcome: as in the diagnostics.
        empty_reason: why nothing was delivered.
        partial: something was late or failed.
        split: delivery was split.
        gate: the policy that judged, when one did.
        searches: each retrieval that ran or should have run.
        reranks: each call of a reranker.
        expanded_by_model: a model made further queries, or took part in a search.
        selected: in the order of delivery.
        omitted: (family, reason) -> candidates.
        stages: each run of a stage, with its seconds.
        lifecycle: of a start: why the agent asked.
        slots: of a start: what the pack is made of.
    """

    surface: str = "prepare"
    query: str | None = attrs.field(repr=False)
    content: str | None = attrs.field(repr=False)
    outcome: str
    empty_reason: str | None = None
    partial: bool = False
    split: bool = False
    policy: Policy
    gate: Policy | None = None
    budgets: tuple[Used, ...] = ()
    rounds: tuple[RecallRound, ...]
    searches: tuple[Search, ...] = ()
    reranks: tuple[Rerank, ...] = ()
    expanded_by_model: bool = False
    selected: tuple[Selection, ...] = ()
    omitted: Mapping[tuple[str, str], int] = MappingProxyType({})
    stages: tuple[tuple[Stage, float], ...] = ()
    lifecycle: str | None = None
    slots: tuple[SlotUse, ...] = ()
