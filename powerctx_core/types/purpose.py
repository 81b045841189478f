"""Buckets of the search surface, and purposes: how many of each a pack takes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import attrs

__all__ = ["BUCKETS", "CATEGORIES", "DETAIL_CHOICES", "MEMORIES", "PURPOSES", "QUOTA_MAX", "Purpose"]

CATEGORIES = ("events", "entities", "preferences", "experiences")
"""Categories of the family memory that are buckets of their own."""
BUCKETS = (*CATEGORIES, "resources", "skills")
"""Buckets that can have a quota, beside those of plugins' families."""
MEMORIES = "memories"
"""What is left of memory, and topics; it can have no quota."""
QUOTA_MAX = 1000
DETAIL_CHOICES = ("auto", "abstract", "overview", "full")


@attrs.frozen(kw_only=True)
class Purpose:
    """What a pack is for.

    Attributes:
        quotas: bucket -> entries, 0..1000.
        events: share of the budget, 0..1, that events may use before the others had their turn.
    """

    quotas: Mapping[str, int] = attrs.field(default=MappingProxyType({}))
    events: float = attrs.field(default=1.0)

    @quotas.validator
    def _check_quotas(self, attribute: attrs.Attribute[Mapping[str, int]], value: Mapping[str, int]) -> None:
        for bucket, entries in value.items():
            if isinstance(entries, bool) or not isinstance(entries, int) or not 0 <= entries <= QUOTA_MAX:
                raise ValueError(f"{bucket}: must be a whole number from 0 to {QUOTA_MAX}, not {entries!r}", attribute)

    @events.validator
    def _check_events(self, attribute: attrs.Attribute[float], value: float) -> None:
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"must be from 0 to 1, not {value}", attribute)


def _purpose(*quotas: int, events: float) -> Purpose:
    return Purpose(quotas=MappingProxyType(dict(zip(BUCKETS, quotas, strict=True))), events=events)


PURPOSES: Mapping[str, Purpose] = MappingProxyType(
    {
        "chat": _purpose(10, 8, 4, 1, 1, 2, events=0.75),
        "coding": _purpose(4, 6, 2, 4, 8, 6, events=0.40),
    }
)
"""Those that are built in; the setting ``retrieval.purposes`` adds others and overrides these."""
