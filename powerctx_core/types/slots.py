"""Slots: what a pack without a query is made of, and how much of the budget each part may use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import attrs

__all__ = ["LIFECYCLES", "SLOTS", "ManifestSlot", "Slot", "manifest"]

LIFECYCLES = ("startup", "resume", "compact", "clear")
"""Why an agent asks for what it should know: it starts, goes on, lost its context to a summary, or was cleared."""


@attrs.frozen(kw_only=True)
class Slot:
    """One part of the pack.  What is ``None`` is as in the built-in slot of the same name.

    Attributes:
        source: name of the candidate provider that fills it.
        share: of the budget, 0..1; what an earlier slot does not use is added.  0 leaves the slot out.
        order: slots stand in the order of this number.
        lifecycles: for which it is filled; all when empty.
    """

    source: str | None = None
    share: float | None = attrs.field(default=None)
    order: float | None = None
    lifecycles: tuple[str, ...] | None = attrs.field(default=None)

    @share.validator
    def _check_share(self, attribute: attrs.Attribute[float | None], value: float | None) -> None:
        if value is not None and not 0.0 <= value <= 1.0:
            raise ValueError(f"must be from 0 to 1, not {value}", attribute)

    @lifecycles.validator
    def _check_lifecycles(
        self, attribute: attrs.Attribute[tuple[str, ...] | None], value: tuple[str, ...] | None
    ) -> None:
        if unknown := [name for name in value or () if name not in LIFECYCLES]:
            raise ValueError(f"names {unknown[0]!r}; it can be {', '.join(LIFECYCLES)}", attribute)


SLOTS: Mapping[str, Slot] = MappingProxyType(
    {
        "identity": Slot(source="latest-profile", share=0.30, order=10.0, lifecycles=()),
        "working_state": Slot(source="recent-events", share=0.25, order=20.0, lifecycles=()),
        "continuity": Slot(source="session-log", share=0.15, order=30.0, lifecycles=("resume", "compact")),
        "listing": Slot(source="recent-items", share=0.20, order=40.0, lifecycles=()),
        "instructions": Slot(source="guide", share=0.10, order=50.0, lifecycles=()),
    }
)
"""Those that are built in; the setting ``retrieval.bootstrap.slots`` changes them and adds others."""
_LAST = Slot(share=0.10, order=45.0, lifecycles=())
"""What a slot of the settings is that no built-in one has the name of: between the listing and the instructions."""


@attrs.frozen(kw_only=True)
class ManifestSlot:
    """One part of the pack, with all that settings leave open.

    Attributes:
        source: name of the candidate provider.
        share: of the budget, 0..1; those of a manifest sum up to 1.
        filled: it is, for the lifecycle that was asked for; else its share is the next slot's.
    """

    name: str
    source: str
    share: float
    filled: bool = True


def manifest(configured: Mapping[str, Slot], lifecycle: str) -> Sequence[ManifestSlot]:
    """Return what a pack is made of, in order.

    A slot that names no source is filled by the provider of its own name.

    Args:
        configured: slots of the settings.
        lifecycle: one of :data:`LIFECYCLES`.
    """
    slots = []
    for name in {**SLOTS, **configured}:
        own, given = SLOTS.get(name, _LAST), configured.get(name, Slot())
        whole = attrs.evolve(own, **{field: value for field, value in attrs.asdict(given).items() if value is not None})
        if whole.share:
            slots.append((whole.order or 0.0, name, whole))
    total = sum(slot.share or 0.0 for _, _, slot in slots)
    return [
        ManifestSlot(
            name=name,
            source=slot.source or name,
            share=(slot.share or 0.0) / total,
            filled=not slot.lifecycles or lifecycle in slot.lifecycles,
        )
        for _, name, slot in sorted(slots, key=lambda each: each[0])
    ]
