"""What the entry point names; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator

from powerctx_acme_notes.settings import NotesSettings
from powerctx_core import FamilySpec, hookimpl

__all__ = ["powerctx_families"]


@hookimpl
def powerctx_families() -> Iterator[FamilySpec]:
    """Offer the notes."""
    yield FamilySpec(
        name="notes",
        factory="powerctx_acme_notes.family:NotesFamily",
        settings=NotesSettings,
        title="Notes",
        identity=("url",),
        vectors=False,
        about="notes of a tracker, from a JSON file",
    )
