"""The request of ``prepare``."""

from __future__ import annotations

import attrs

from powerctx_core.errors import InvalidRequest, shown
from powerctx_core.requests.checks import (
    DEFAULT_MAX_BYTES,
    MAX_BYTES,
    MAX_ITEMS,
    MAX_TOKENS,
    MIN_BYTES,
    MIN_TOKENS,
    RECEIPT_VERSIONS,
    check_choice,
    check_delivery,
    check_flag,
    check_limits,
    check_named,
    check_query,
    check_whole,
    checked_families,
    checked_names,
    checked_scopes,
)
from powerctx_core.types import (
    DELIVERIES,
    SHOWN,
    TRIMS,
    Section,
    sections_of,
)

__all__ = ["PrepareRequest"]


@attrs.define(frozen=True, kw_only=True, slots=False)
class PrepareRequest:
    """Ask for prepared context.

    Args:
        query: 1..8192 characters, not blank.
        scope_id: current scope.
        references: at most 31 further scopes to read.
        families: kinds of evidence; the setting ``recall.families`` when absent.
        sections: instead of *families*, the parts of the pack in their order, each a family with the most entries of
            it; ``"default"`` takes those of the setting ``assembly.sections``, and none at all are an empty answer.
        show: what to show of each entry, where it is known: ``confidence``, ``recall_rank``.
        renderer: name of an installed renderer; ``sections`` for a pack of sections, else ``prepared``, when absent.
        max_bytes: 512..32768 UTF-8 bytes; 8000 when no size budget is given.
        max_tokens, max_chars: further size budgets; every given one holds.
        max_items: 1..64 entries, 8 when absent; with sections their sum, within the setting ``assembly.max_entries``.
        trim: what decides who stays when not all fits: ``rank``, or ``value``, which weighs use, confidence, layer and
            age, too, and takes near repetitions last (settings ``trim.*``).
        delivery: ``inject`` puts everything into the text; ``split`` puts only what is stable there (layers L2 and L3)
            and lists the rest in ``tools``, to be read on demand.  The size budgets hold for both together.
        inject_max_tokens: 64..32000, a further budget of the text alone, when delivery is split.
        policy: id of an installed recall policy; the setting ``recall.policy`` when absent.
        gate: ``off``, or id or alias of a gate policy (``v2``): judges whether what was found is enough, and admits
            more of it within the same budgets if not; the setting ``recall.gate`` when absent.
        deadline_ms: 1..600000 milliseconds from the call, after which it goes on with what has arrived and names in
            ``diagnostics.late`` what has not; the setting ``recall.deadline_ms`` when absent, else as long as it takes.
        on_family_error: ``fail`` raises when a family fails, ``degrade`` goes on without it and names it in
            ``diagnostics.failed``; the setting ``recall.on_family_error`` when absent.
        include_receipt: say in the answer's ``receipt`` what it was made of and why; ``None`` is false.
        receipt_version: 1, the source system's contract, or 2, which can say everything and always fits its size.

    Raises:
        InvalidRequest: a field is outside its limits; ``error.field`` names it.
    """

    query: str
    scope_id: str
    references: tuple[str, ...] = ()
    families: tuple[str, ...] | None = None
    sections: tuple[Section, ...] | str | None = None
    show: tuple[str, ...] = ()
    renderer: str = attrs.field(
        default=attrs.Factory(lambda self: "prepared" if self.sections is None else "sections", takes_self=True)
    )
    max_bytes: int | None = None
    max_tokens: int | None = None
    max_chars: int | None = None
    max_items: int | None = None
    trim: str = "rank"
    delivery: str = "inject"
    inject_max_tokens: int | None = None
    policy: str | None = None
    gate: str | None = None
    deadline_ms: int | None = None
    on_family_error: str | None = None
    include_receipt: bool | None = False
    receipt_version: int = 1

    def __attrs_post_init__(self) -> None:
        check_query(self.query)
        object.__setattr__(self, "references", checked_scopes(self.scope_id, self.references))
        object.__setattr__(self, "families", checked_families(self.families))
        self._check_sections()
        check_named("renderer", self.renderer)
        check_named("policy", self.policy, optional=True)
        check_named("gate", self.gate, optional=True)
        check_whole("max_bytes", self.max_bytes, MIN_BYTES, MAX_BYTES)
        check_whole("max_tokens", self.max_tokens, MIN_TOKENS, MAX_TOKENS)
        check_whole("max_chars", self.max_chars, MIN_BYTES // 4, MAX_BYTES)
        check_whole("max_items", self.max_items, 1, MAX_ITEMS)
        check_choice("trim", self.trim, TRIMS)
        check_choice("delivery", self.delivery, DELIVERIES)
        check_delivery(self.delivery, self.inject_max_tokens)
        check_limits(self.deadline_ms, self.on_family_error)
        self._check_receipt()
        if self.max_bytes is None and self.max_tokens is None and self.max_chars is None:
            object.__setattr__(self, "max_bytes", DEFAULT_MAX_BYTES)

    def _check_receipt(self) -> None:
        check_flag("include_receipt", self.include_receipt)
        object.__setattr__(self, "include_receipt", bool(self.include_receipt))
        check_whole("receipt_version", self.receipt_version, *RECEIPT_VERSIONS, optional=False)

    def _check_sections(self) -> None:
        object.__setattr__(self, "sections", sections_of(self.sections))
        if self.sections is not None and self.families is not None:
            raise InvalidRequest("families and sections exclude each other; sections name families.", field="families")
        object.__setattr__(self, "show", checked_names("show", self.show))
        if unknown := [name for name in self.show if name not in SHOWN]:
            raise InvalidRequest(f"show names {shown(unknown[0])}; it can be {', '.join(SHOWN)}.", field="show")
