"""Receipts of version 2: of every surface and family, and always within their size.

Scopes, families, configurations and prompts are tables; what refers to them gives a position.  Version 1 is made of
version 2 (:mod:`powerctx_core.receipt.v1`), so that both say the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import attrs

from powerctx_core.receipt.parts import (
    SPARSE,
    Fallback,
    RecallRound,
    ReceiptError,
    RoundNumber,
    StageTiming,
    encoded,
    limited,
    plain,
)
from powerctx_core.receipt.rerank import (
    Prompt,
    RerankFallback,
    RerankOutcome,
    Setting,
)
from powerctx_core.types import Address

__all__ = ["SCHEMA", "ReceiptV2", "SlotUse", "check", "most_bytes"]

SCHEMA: Final = "powercontext.prepared-context-receipt.v2"
_BYTES, _BYTES_EACH, _FEW, _MANY = 32_768, 256, 32, 64
_DIGEST = limited(pattern="^sha256:[0-9a-f]{64}$")
_PLACE, _COUNT, _SIZE = limited(minimum=0), limited(minimum=1), limited(minimum=0)

Mode = Literal["fts", "vector", "hybrid", "snapshot", "code", "none"]
Outcome = Literal["delivered", "no_content", "no_match", "below_threshold", "budget", "deadline", "source_error"]
EmptyReason = Literal[
    "no_content", "no_match", "below_threshold", "budget", "deadline", "source_error", "frame", "no_section"
]
SlotOutcome = Literal[
    "filled", "no_content", "duplicate", "excluded", "budget", "lifecycle", "not_installed", "late", "failed"
]
Reason = Literal[
    "duplicate",
    "blank",
    "family_limit",
    "entry_limit",
    "below_min_bytes",
    "no_fitting_truncation",
    "rerank_not_selected",
    "not_retrieved",
    "below_threshold",
    "cooled",
    "excluded",
    "token_budget",
    "char_budget",
    "toolized",
    "late",
]


@attrs.frozen(kw_only=True)
class PolicyIdentity:
    """A policy that was in force, and the digest of its canonical form."""

    policy_id: str
    policy_digest: str = attrs.field(metadata=_DIGEST)


@attrs.frozen(kw_only=True)
class BudgetUse:
    """One budget: what was requested, and what of it was used."""

    unit: Literal["items", "bytes", "chars", "tokens", "inject_tokens"]
    requested: int = attrs.field(metadata=_SIZE)
    used: int = attrs.field(metadata=_SIZE)


@attrs.frozen(kw_only=True)
class SearchGroup:
    """Retrievals that are alike: those of a family in several scopes, most often.

    Attributes:
        family: position in ``families``.
        mode: what really ran.
        outcome: ``late`` ones did not answer by the deadline; whether they had begun is not known.
        fallback_reason: why words alone had to do; ``deadline`` when the call's own deadline ended the wait.
        count: how many.
    """

    round: RoundNumber
    family: int = attrs.field(metadata=_PLACE)
    mode: Mode
    outcome: Literal["completed", "not_run", "failed", "late"]
    fallback_reason: Fallback | Literal["deadline"]
    count: int = attrs.field(metadata=_COUNT)


@attrs.frozen(kw_only=True)
class RerankConfig:
    """What a reranker was called with.

    Attributes:
        config_digest: of all of it and the prompt, as canonical JSON (RFC 8785).
        prompt: position in ``prompts``; null for a declared deterministic reranker.
    """

    config_digest: str = attrs.field(metadata=_DIGEST)
    policy_id: str
    model: str | None
    effective_settings: Mapping[str, Setting]
    timeout_seconds: float
    max_requests: int
    prompt: int | None = attrs.field(metadata=_PLACE)
    non_deterministic: bool


@attrs.frozen(kw_only=True)
class RerankGroup:
    """Calls of rerankers that are alike.

    Attributes:
        config: position in ``rerank_configs``.
    """

    round: RoundNumber
    config: int = attrs.field(metadata=_PLACE)
    outcome: RerankOutcome
    fallback_reason: RerankFallback
    count: int = attrs.field(metadata=_COUNT)


@attrs.frozen(kw_only=True)
class SelectedItem:
    """One delivered entry.

    Attributes:
        scope: position in ``scopes``.
        family: position in ``families``.
        rendered_bytes: UTF-8 bytes of its piece of the text.
        truncated: it was cut.
        part: ``tools`` when it is listed to be read, and does not stand in the text.
        detail: how much of it is shown; left out where it is what the part shows: ``full`` in the text, ``abstract``
            in the list.
        evidence: the identity fields that its family declares.
    """

    scope: int = attrs.field(metadata=_PLACE)
    family: int = attrs.field(metadata=_PLACE)
    artifact_id: str
    revision: int = attrs.field(metadata=_COUNT)
    rendered_bytes: int = attrs.field(metadata=_SIZE)
    truncated: bool = attrs.field(default=False, metadata=SPARSE)
    part: Literal["inject", "tools"] = attrs.field(default="inject", metadata=SPARSE)
    detail: Literal["uri", "abstract", "overview", "full"] | None = attrs.field(default=None, metadata=SPARSE)
    evidence: Mapping[str, str | int] | None = attrs.field(default=None, metadata=SPARSE)


@attrs.frozen(kw_only=True)
class OmittedGroup:
    """Candidates of one family that were left out for one reason.

    Attributes:
        family: position in ``families``.
        count: how many; ``not_retrieved`` and ``late`` are flags of their family, and 1.
    """

    family: int = attrs.field(metadata=_PLACE)
    reason: Reason
    count: int = attrs.field(metadata=_COUNT)


@attrs.frozen(kw_only=True)
class SlotUse:
    """One slot of a pack that is made without a search, filled or not.

    Attributes:
        slot: its name.
        source: name of the candidate provider.
        outcome: ``filled``, or why it is absent: the source has nothing (``no_content``), what it has stands in an
            earlier slot (``duplicate``) or is ``excluded``, has no room (``budget``), or the slot is not of this
            ``lifecycle``; the source is ``not_installed``, was ``late``, or ``failed``.
        share: of the budget, 0..1, by the settings; those of all slots sum up to 1.
        room: tokens that it might use: its share, and what flowed on to it.
        carried: how many of these earlier slots left.
        used: how many it used.
        offered: candidates of the source.
        entries: of ``selected``, in which the slots stand in this order.
        left_out: items that are not shown, where the text says how many.
        content_hash: of the slot's texts, where its source says that each is shown whole.
    """

    slot: str
    source: str
    outcome: SlotOutcome
    share: float = attrs.field(metadata=limited(minimum=0))
    room: int = attrs.field(metadata=_SIZE)
    carried: int = attrs.field(metadata=_SIZE)
    used: int = attrs.field(metadata=_SIZE)
    offered: int = attrs.field(metadata=_SIZE)
    entries: int = attrs.field(metadata=_SIZE)
    left_out: int | None = attrs.field(default=None, metadata={**SPARSE, **_SIZE})
    content_hash: str | None = attrs.field(default=None, metadata={**SPARSE, **_DIGEST})


@attrs.frozen(kw_only=True)
class ReceiptV2:
    """What one answer was made of and why.

    Attributes:
        surface: the call it is the receipt of; ``bootstrap`` is any search of what candidate providers offer.
        query_digest: null when there was no query.
        content_digest: of the delivered text; null when there is none.
        content_bytes: its UTF-8 length.
        outcome: as in the diagnostics of the call.
        empty_reason: why nothing was delivered; null when something was.
        partial: something was late or failed.
        split: delivery was split into text and tools.
        truncated: an entry was cut.
        non_deterministic: a model reranker, or a model that made further queries or took part in a search, was called.
        selected: in the order of delivery.
        lifecycle: of ``bootstrap``: why the agent asked.
        slots: of ``bootstrap``: what the pack is made of, in order.
    """

    schema: Literal["powercontext.prepared-context-receipt.v2"] = SCHEMA
    receipt_id: str = attrs.field(metadata=limited(format="uuid"))
    surface: Literal["prepare", "search", "bootstrap"]
    query_digest: str | None = attrs.field(metadata=_DIGEST)
    content_digest: str | None = attrs.field(metadata=_DIGEST)
    content_bytes: int = attrs.field(metadata=_SIZE)
    outcome: Outcome
    empty_reason: EmptyReason | None
    partial: bool
    split: bool
    truncated: bool
    non_deterministic: bool
    recall_policy: PolicyIdentity
    gate_policy: PolicyIdentity | None
    budgets: tuple[BudgetUse, ...]
    scopes: tuple[str, ...]
    families: tuple[str, ...]
    prompts: tuple[Prompt, ...]
    rerank_configs: tuple[RerankConfig, ...]
    rounds: tuple[RecallRound, ...] = attrs.field(metadata=limited(maxItems=3))
    searches: tuple[SearchGroup, ...]
    reranks: tuple[RerankGroup, ...]
    selected: tuple[SelectedItem, ...]
    omitted: tuple[OmittedGroup, ...]
    stages: tuple[StageTiming, ...] = attrs.field(metadata=limited(maxItems=8))
    lifecycle: Literal["startup", "resume", "compact", "clear"] | None = attrs.field(default=None, metadata=SPARSE)
    slots: tuple[SlotUse, ...] = attrs.field(default=(), metadata=SPARSE)

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Addresses of what was selected, in the order of delivery."""
        return tuple(
            Address(self.scopes[item.scope], self.families[item.family], item.artifact_id, item.revision)
            for item in self.selected
        )


def most_bytes(entries: int) -> int:
    """Return the greatest size of a receipt with so many selected entries, in UTF-8 bytes of its compact JSON."""
    return _BYTES + _BYTES_EACH * max(0, min(entries, _MANY) - _FEW)


def check(receipt: ReceiptV2) -> None:
    """Check the size.

    Raises:
        ReceiptError: it is larger than :func:`most_bytes`.  That takes long identity fields of a plugin's family,
            families by the dozen, or scope and artifact ids made of quotation marks alone.
    """
    size, most = len(encoded(plain(receipt))), most_bytes(len(receipt.selected))
    if size > most:
        raise ReceiptError(f"it has {size} bytes; {most} are the most")
