"""What ``search`` returns in mode ``context``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from powerctx_core.receipt.v2 import ReceiptV2
from powerctx_core.requests.answers import Diagnostics, Found
from powerctx_core.types import Address, RecallEffort, ToolList

__all__ = ["ContextPack", "PackEntry", "SearchStats", "recalled"]


@attrs.frozen(kw_only=True)
class PackEntry:
    """One entry of a pack.

    Attributes:
        ref: what the text shows as its URI.
        bucket: that it counts for; of a pack without a query, its slot.
        category: of the item, where it has one.
        score: fused, 0..1, as found: what orders, before penalties.
        match: strength of the evidence, 0..1.
        detail: as rendered: ``uri``, ``abstract``, ``overview`` or ``full``.
        text: what it shows, as stored, a mark of a cut aside.
        cut: *text* is the beginning of what *detail* says.
        origin: ``actor``, ``self`` (nobody's) or ``other``.
        tokens: of the rendered entry, rounded up.
    """

    address: Address
    ref: str
    bucket: str
    category: str | None
    score: float
    match: float
    detail: str
    text: str
    cut: bool
    origin: str
    tokens: int

    @property
    def uri(self) -> str:
        """The exact URI."""
        return self.address.uri


@attrs.frozen(kw_only=True)
class SearchStats:
    """How a pack came about, without any stored text.

    Attributes:
        outcome: as of :class:`Diagnostics`.
        searched: bucket -> what was found of it.
        candidates: what competed for the budget.
        threshold_removed: found, and below the threshold.
        filtered: found, and outside of conditions that the store could not apply.
        top_match: the strongest evidence that was found.
        excluded: named by *exclude_uris*, or of another actor under ``peer_scope=actor``.
        cooled: delivered in an earlier turn.
        deduped: left out for a text that equals an earlier one's.
        dropped: what competed and is neither in the pack nor listed.
        returned: entries.
        tier_counts: detail -> entries.
        lowered: why entries show less than all: ``budget``, ``cap``, ``ceiling``, ``cooled`` -> entries.
        max_tokens, used_tokens: the budget, and what the text costs by the estimator in force.
        query_expansion: ``off``.
        planned_queries: what was searched for.
        rewrite: ``off``.
        gate: what the gate judged and did, when it is on.
        dedup: with *dedup_turns*, the turn of this call, and how many deliveries were recorded.
        ignored: parameters that had no effect, and why.
        partial, late, failed, deepened, cut_short: as of :class:`Diagnostics`.
        timings_ms: stage -> milliseconds.
        errors: what went wrong without hindering the answer.
        lifecycle: of a pack without a query.
        split: of a split delivery, how many items are ``listed``, how many were ``toolized`` (left out for want of room
            in the list), and ``inject_tokens`` and ``inject_max_tokens``: what the text alone takes, and may take.
        slots: of a pack without a query, slot -> its source, the tokens it had (``room``) and used, its ``entries``,
            ``left_out`` where it says how many, and the ``content_hash`` of a text that is always the same.
    """

    outcome: str
    searched: Mapping[str, int] = attrs.field(factory=dict)
    candidates: int = 0
    threshold_removed: int = 0
    filtered: int = 0
    top_match: float | None = None
    excluded: int = 0
    cooled: int = 0
    deduped: int = 0
    dropped: int = 0
    returned: int = 0
    tier_counts: Mapping[str, int] = attrs.field(factory=dict)
    lowered: Mapping[str, int] = attrs.field(factory=dict)
    max_tokens: int
    used_tokens: int = 0
    query_expansion: str = "off"
    planned_queries: tuple[str, ...] = ()
    rewrite: str = "off"
    rewrite_usage: Mapping[str, int] | None = None
    gate: RecallEffort | None = None
    dedup: Mapping[str, Any] = attrs.field(factory=dict)
    ignored: tuple[str, ...] = ()
    partial: bool = False
    late: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    deepened: int = 0
    cut_short: bool = False
    timings_ms: Mapping[str, float] = attrs.field(factory=dict)
    errors: tuple[str, ...] = ()
    lifecycle: str | None = None
    slots: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    split: Mapping[str, int | None] | None = None


@attrs.frozen(kw_only=True)
class ContextPack:
    """A pack that can be given to a model as it is.

    Attributes:
        entries: in the order of the text.
        rendered: the text; empty without entries; the stable part when delivery is split.
        tools: what the agent can read on demand; ``None`` unless delivery is split.
        digest: bullets about it, when a rewrite was asked for and succeeded.
        deprecated: parameters that will be gone, where some were used.
        receipt: what it was made of and why, when that was asked for and could be told.  It is about the text and no
            part of it: never give it to a model.
    """

    entries: tuple[PackEntry, ...]
    rendered: str
    stats: SearchStats
    digest: str = ""
    tools: ToolList | None = None
    deprecated: tuple[str, ...] = ()
    diagnostics: Diagnostics = attrs.field(repr=False)
    receipt: ReceiptV2 | None = attrs.field(default=None, repr=False)

    @property
    def inject(self) -> str | None:
        """The stable part when delivery is split: what *rendered* holds."""
        return None if self.tools is None else self.rendered

    @property
    def selected(self) -> tuple[Address, ...]:
        """Addresses of the entries, in their order; of a split delivery those that are listed come behind."""
        listed = () if self.tools is None else self.tools.items
        return (*(entry.address for entry in self.entries), *(each.address for each in listed))


def recalled(found: Found | ContextPack, deprecated: tuple[str, ...]) -> ContextPack:
    """Return the pack that mode ``context`` gives, with the old names that its call used."""
    assert isinstance(found, ContextPack)  # noqa: S101 - of mode context
    return attrs.evolve(found, deprecated=deprecated) if deprecated else found
