"""What one section of a pack asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from powerctx_core.errors import InvalidRequest, shown
from powerctx_core.types.address import check_family

__all__ = ["DEFAULT_SECTIONS", "SECTION_LIMIT", "Section", "sections_of"]

DEFAULT_SECTIONS = "default"
"""Stands for the sections of the setting ``assembly.sections``."""
SECTION_LIMIT = 64
"""Most entries that any section may ask for; a family allows fewer."""


@attrs.frozen(kw_only=True)
class Section:
    """At most *limit* entries of *family*.

    Args:
        family: name of an installed family.
        limit: 1..64; the family says how many it allows.

    Raises:
        InvalidRequest: either is outside these limits.
    """

    family: str
    limit: int

    def __attrs_post_init__(self) -> None:
        check_family("sections", self.family)
        limit = self.limit
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= SECTION_LIMIT:
            raise InvalidRequest(
                f"sections asks for {shown(limit)} entries of {self.family}; it must be a whole number from 1 to "
                f"{SECTION_LIMIT}.",
                field="sections",
            )


def sections_of(value: Any) -> tuple[Section, ...] | str | None:
    """Return the sections that a request names: values or mappings with ``family`` and ``limit``, or ``"default"``.

    Raises:
        InvalidRequest: something else, or a family twice.
    """
    if value is None or (isinstance(value, str) and value == DEFAULT_SECTIONS):
        return value
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise InvalidRequest(
            f"sections is {shown(value)}; it must be {DEFAULT_SECTIONS!r} or a list such as "
            "[{'family': 'memory', 'limit': 6}].",
            field="sections",
        )
    sections = tuple(each if isinstance(each, Section) else _section(each) for each in value)
    families = [section.family for section in sections]
    if twice := next((family for family in families if families.count(family) > 1), None):
        raise InvalidRequest(f"sections names the family {twice!r} twice; give it one section.", field="sections")
    return sections


def _section(value: Any) -> Section:
    names = [field.name for field in attrs.fields(Section)]
    if not isinstance(value, Mapping) or set(value) != set(names):
        raise InvalidRequest(
            f"sections holds {shown(value)}; each section has {' and '.join(names)}, and nothing else.",
            field="sections",
        )
    return Section(**value)
