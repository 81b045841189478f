"""When an entry shows a title, and how much of it."""

from __future__ import annotations

from powerctx_core.text.cut import ELLIPSIS, cut_to_chars
from powerctx_core.types import Candidate

__all__ = ["short_title"]

_CHARACTERS = 120


def short_title(candidate: Candidate) -> str:
    """Return the title to show, at most 120 characters and a mark of the cut, or nothing.

    A heading that opens the body anyway is not worth its bytes twice.
    """
    title = candidate.title
    if not title or title in candidate.text[: len(title) + 8]:
        return ""
    short = cut_to_chars(title, _CHARACTERS, sentences=False)
    return short if short == title else f"{short}{ELLIPSIS}"
