"""Safe truncation: at grapheme boundaries, preferably after a sentence, looking only near the cut."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from powerctx_core.types import ABSTRACT_BYTES, HEAD_BYTES

if TYPE_CHECKING:
    import regex

__all__ = [
    "ELLIPSIS",
    "cut_to_bytes",
    "cut_to_chars",
    "derived_abstract",
    "derived_overview",
    "first_bytes",
    "head",
    "surely_keeps",
]

ELLIPSIS = "…"
_SENTENCE_SHARE = 0.75
# A sentence ends behind its closing quotes; Latin full stops need white space behind them so that 3.14 stays whole.
# Looking behind and never giving back keep a long row of full stops linear; the class in front lets all else be skipped
# at the speed of a search for characters.
_SENTENCE = re.compile(
    r"""[.!?。！？…‼⁇\n](?:(?<=[.!?])(?<![.!?]{2})[.!?]*+["'”’)\]]*+(?=\s)"""
    r"""|(?<=[。！？…‼⁇])[。！？…‼⁇]*+["'”’」』）】]*+|(?<=\n))"""
)
_NUMBERED = re.compile(r"\d{1,9}[.)]\s+")
_SAFE = re.compile(
    r"[\x20-\x7e\u3040-\u3096\u30a1-\u30fa\u4e00-\u9fff][\x20-\x7e\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff]"
)
_CLOSING = 16
# A heading that announces a summary, and all up to the next heading.
_SUMMARY = re.compile(
    r"\s*(?:#[^\n]*\n\s*)?#+[ \t]*(?:summary|overview|abstract|tl;?dr|摘要|概要|概述|总结|總結)[ \t:\uff1a]*\n"
    r"(.*?)(?=\n#|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_HEADINGS = 2
"""Fewest headings that say something of a text beyond its first one."""
_OVERVIEW_BYTES = 2000
# Between the two characters of such a pair there is a boundary, whatever stands around them.
_CERTAIN = (
    r"(?r)[\p{GCB=Other}\p{GCB=LV}\p{GCB=LVT}\p{GCB=SpacingMark}][\p{GCB=Other}\p{GCB=LV}\p{GCB=LVT}]"
    r"|(?r)\p{GCB=Extend}[\x20-\x7e\u00c0-\u02ff\u0391-\u0482\U0001f300-\U0001f3fa\U0001f400-\U0001faff]"
)
# A run of flags up to here, and what is attached to its last letter: flags are pairs counted from the run's start.
_FLAGS = r"(?r)(\p{GCB=RI}{2,})[\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}]*"


class _Boundaries(NamedTuple):
    """Compiled patterns, since the library looks at a pattern anew with every call that names it as text."""

    certain: regex.Pattern[str]
    flags: regex.Pattern[str]
    grapheme: regex.Pattern[str]


@cache
def _boundaries() -> _Boundaries:
    """Return the patterns; the import takes 20 ms, and only what is cut at a difficult place needs it."""
    import regex

    return _Boundaries(regex.compile(_CERTAIN), regex.compile(_FLAGS), regex.compile(r"\X"))


def _grapheme_floor(text: str, end: int) -> int:
    """Return the largest grapheme boundary <= *end*, looking back only to the nearest certain one."""
    if end >= len(text):
        return len(text)
    if end <= 0:
        return 0
    if _SAFE.match(text, end - 1):
        return end
    patterns = _boundaries()
    if flags := patterns.flags.match(text, pos=0, endpos=end + 1):
        first, last = flags.start(1), flags.end(1) - 1
        boundary = last - (last - first) % 2
        return boundary if boundary > first else _grapheme_floor(text, first)
    certain = patterns.certain.search(text, pos=0, endpos=end)
    boundary = certain.start() + 1 if certain else 0
    for match in patterns.grapheme.finditer(text, pos=boundary):
        if match.end() > end:
            break
        boundary = match.end()
    return boundary


def cut_to_chars(text: str, limit: int, *, sentences: bool = True) -> str:
    """Return the longest prefix of at most *limit* characters that ends at a grapheme boundary.

    A sentence end in the last quarter of it is preferred when *sentences* is true.  The marker of the cut is the
    caller's to add.
    """
    if limit >= len(text):
        return text
    end = _grapheme_floor(text, max(0, limit))
    if sentences and end > 0:
        best, least = 0, int(end * _SENTENCE_SHARE)
        for match in _SENTENCE.finditer(text, max(0, least - _CLOSING), min(len(text), end + 1)):
            if least <= match.end() <= end:
                best = match.end()
        if best:
            end = _grapheme_floor(text, best)
    return _without_trailing_space(text, end)


def _without_trailing_space(text: str, end: int) -> str:
    kept = len(text[:end].rstrip())
    while kept != end:
        # A space can be part of the grapheme before it (after an Arabic number sign).
        end = _grapheme_floor(text, kept)
        kept = len(text[:end].rstrip())
    return text[:end]


def _chars_in_bytes(text: str, limit: int) -> int:
    if text.isascii():
        return min(limit, len(text))
    return len(text[: max(0, limit)].encode()[: max(0, limit)].decode(errors="ignore"))


def cut_to_bytes(text: str, limit: int, *, sentences: bool = True) -> str:
    """Do what :func:`cut_to_chars` does, with a limit in UTF-8 bytes."""
    return cut_to_chars(text, _chars_in_bytes(text, limit), sentences=sentences)


def surely_keeps(text: str, limit: int, least: int) -> bool:
    """Tell whether :func:`cut_to_bytes` keeps at least *least* bytes, as far as that shows without looking for the cut.

    A cut never falls before a certain boundary below the limit; the later one keeps a sentence end from doing so.
    """
    places = (least, 2 * least)
    if places[-1] > min(limit // 4, len(text) - 1):
        return False
    return all(_SAFE.match(text, place - 1) and text[place - 1] != " " for place in places)


def head(text: str) -> str:
    """Return the first at most 4096 UTF-8 bytes of *text*, cut between characters."""
    return text if len(text) * 4 <= HEAD_BYTES else first_bytes(text, HEAD_BYTES)


def first_bytes(text: str, limit: int) -> str:
    """Return the first at most *limit* UTF-8 bytes of *text*, cut between characters."""
    return text[: _chars_in_bytes(text, limit)]


def derived_abstract(text: str) -> str:
    """Return the abstract of an item that has none: its first heading or sentence, at most 447 UTF-8 bytes."""
    start = text.lstrip()[: 2 * ABSTRACT_BYTES]
    heading = start.split("\n", 1)[0].lstrip("#").strip() if start.startswith("#") else ""
    if heading:
        start = heading
    else:
        number = _NUMBERED.match(start)
        match = _SENTENCE.search(start, number.end() if number else 1)
        end = _grapheme_floor(start, match.end()) if match else 0
        if 0 < end <= ABSTRACT_BYTES:
            start = start[:end]
    start = start.rstrip()
    if len(start.encode()) <= ABSTRACT_BYTES:
        return start
    return cut_to_bytes(start, ABSTRACT_BYTES - len(ELLIPSIS.encode()), sentences=False) + ELLIPSIS


def derived_overview(text: str) -> str | None:
    """Return the overview of a long text: the summary that it begins with, or its headings and its first paragraph.

    Returns ``None`` for what has no headings: its beginning says as much.  At most 2000 UTF-8 bytes.
    """
    if len(text) < ABSTRACT_BYTES:
        return None
    summary = _SUMMARY.match(text)
    if summary and summary[1].strip():
        found = summary[1].strip()
    else:
        lines = text.split("\n")
        headings = [line.strip() for line in lines if line.startswith("#")]
        if len(headings) < _HEADINGS:
            return None
        body = "\n".join(line for line in lines if not line.startswith("#")).strip()
        first = headings.pop(0) if lines[0].startswith("#") else ""
        found = "\n".join([*([first] if first else []), body.split("\n\n", 1)[0].strip(), *headings])
    return cut_to_bytes(found, _OVERVIEW_BYTES, sentences=False)
