"""Settings of the family: the table below ``[parts]`` that has its name."""

from __future__ import annotations

import attrs

__all__ = ["NotesSettings"]


@attrs.frozen(kw_only=True)
class NotesSettings:
    """Where the notes are.

    Attributes:
        file: the JSON file.
    """

    file: str = "notes.json"
