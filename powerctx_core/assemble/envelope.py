"""Which families a pack is made of, how many entries of each, and in which order they compete for the budget.  Pure."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from powerctx_core.errors import InvalidRequest
from powerctx_core.recall.policy import RecallPolicy
from powerctx_core.records import FamilySpec
from powerctx_core.types import Hit, Section

__all__ = ["Envelope", "by_rank", "in_sections", "unsearchable"]


@attrs.frozen(kw_only=True)
class Envelope:
    """What one pack is made of.

    Attributes:
        specs: its families.
        max_items: entries over all of them.
        family_items: family -> entries of it; families that are not named have no limit of their own.
        sectioned: families follow each other in the order of *specs*, instead of the order of recall.
    """

    specs: tuple[FamilySpec, ...]
    max_items: int
    family_items: tuple[tuple[str, int], ...] = ()
    sectioned: bool = False

    def ordered(self, hits: Sequence[Hit]) -> Sequence[Hit]:
        """Return *hits* in the order in which they compete, those of one family in the order given."""
        if not self.sectioned:
            return hits
        return [each for spec in self.specs for each in hits if each.address.family == spec.name]


def by_rank(specs: Sequence[FamilySpec], max_items: int, policy: RecallPolicy) -> Envelope:
    """Return the envelope of a call without sections: the order of recall, and the policy's limits on entries."""
    if policy.entry_limit is None:
        return Envelope(specs=tuple(specs), max_items=max_items)
    return Envelope(
        specs=tuple(specs),
        max_items=min(max_items, policy.entry_limit),
        family_items=tuple((spec.name, spec.entries) for spec in specs),
    )


def in_sections(
    sections: Sequence[Section], specs: Sequence[FamilySpec], max_items: int | None, max_entries: int
) -> Envelope:
    """Return the envelope of *sections*: an earlier one takes what it needs, and what it leaves is the next one's.

    Args:
        sections: in the order of the text; none make an empty pack.
        specs: of their families, in the same order.
        max_items: as requested; the sum of the sections' limits, as far as *max_entries* allows, when absent.
        max_entries: most entries of any such pack, the setting ``assembly.max_entries``.

    Raises:
        InvalidRequest: a family has no sections, or none of that size, or *max_items* is more than *max_entries*.
    """
    for section, spec in zip(sections, specs, strict=True):
        if spec.section_range is None:
            raise InvalidRequest(f"sections names {spec.name}, a family without sections.", field="sections")
        low, high = spec.section_range
        if not low <= section.limit <= high:
            raise InvalidRequest(
                f"sections asks for {section.limit} entries of {spec.name}; it allows {low} to {high}.",
                field="sections",
            )
    if max_items is not None and max_items > max_entries:
        raise InvalidRequest(
            f"max_items is {max_items}; with sections at most {max_entries} are allowed (the setting "
            "assembly.max_entries, up to 32).",
            field="max_items",
        )
    return Envelope(
        specs=tuple(specs),
        max_items=max_items or min(sum(section.limit for section in sections), max_entries),
        family_items=tuple((section.family, section.limit) for section in sections),
        sectioned=True,
    )


def unsearchable(spec: FamilySpec) -> str:
    """Return the sentence for who wants a family searched that is not found by a query."""
    name = spec.name
    if spec.section_range is None:
        return f"family {name!r} is not searched by query; name another one."
    section = f"{{'family': {name!r}, 'limit': {spec.section_range[0]}}}"
    return (
        f"family {name!r} is not searched by query; ask for its latest text by a section: sections=[{section}], or "
        f"--sections {name}={spec.section_range[0]}."
    )
