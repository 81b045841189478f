"""Cuts documents into parts: Markdown at its headings, long text at paragraphs, lines, sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from powerctx_core.text.cut import cut_to_bytes

__all__ = ["PART_BYTES", "TITLE_BYTES", "markdown_title", "split_text", "without_headings"]

PART_BYTES = 1900
"""Longest part, UTF-8 bytes: a part is delivered whole under the default ``recall.item_bytes`` of 2000."""
TITLE_BYTES = 256

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*\n?\Z")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*\n?\Z")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_PARAGRAPH = re.compile(r"\n[ \t]*\n+")


def markdown_title(text: str) -> str | None:
    """Return the first heading of *text*, or ``None``."""
    return next((_title([heading[1]]) for _, heading in _marked(text) if heading and heading[1]), None)


def without_headings(text: str) -> str:
    """Return *text* from its first line that is neither blank nor a heading; all of it when there is none."""
    lines = list(_marked(text))
    for place, (line, heading) in enumerate(lines):
        underlined = place + 1 < len(lines) and (below := lines[place + 1][1]) is not None and below[2]
        if heading is None and not underlined and not line.isspace():
            return "".join(each for each, _ in lines[place:])
    return text


def split_text(text: str, *, markdown: bool = False) -> Iterator[tuple[str | None, str]]:
    """Yield the parts of *text* in order, each at most 1900 bytes of UTF-8 and not blank, with the headings above it.

    Nothing but white space is lost.  A section without text of its own stays with the next one.
    """
    sections: Iterable[tuple[list[str], str]] = _sections(text) if markdown else [([], text)]
    for path, section in sections:
        for part in _packed(_pieces(section)):
            if body := part.strip("\n").rstrip():
                yield _title(path), body


def _title(path: list[str]) -> str | None:
    title = " ".join(" > ".join(name for name in path if name).split())
    return cut_to_bytes(title, TITLE_BYTES, sentences=False) or None


def _marked(text: str) -> Iterator[tuple[str, tuple[int, str, bool] | None]]:
    """Yield each line of Markdown, and what it heads, if it does and stands in no fence."""
    fence = ""
    previous = ""
    for line in _LINE.findall(text):
        opened = _FENCE.match(line)
        heading = None
        if fence:
            if opened and opened[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif opened:
            fence = opened[1]
        else:
            heading = _heading(line, previous)
        previous = line
        yield line, heading


def _sections(text: str) -> Iterator[tuple[list[str], str]]:
    """Yield (headings from the outermost to its own, text with its heading line) of each section of Markdown."""
    path: list[tuple[int, str]] = []
    lines: list[str] = []
    filled = 0  # lines that are neither blank nor headings
    for line, heading in _marked(text):
        if heading is None:
            lines.append(line)
            filled += not line.isspace()
            continue
        level, name, underlined = heading
        start = [lines.pop(), line] if underlined else [line]
        if filled > underlined:
            yield [name for _, name in path], "".join(lines)
            lines = []
        path = [(depth, above) for depth, above in path if depth < level] + [(level, name)]
        lines += start
        filled = 0
    if lines:
        yield [name for _, name in path], "".join(lines)


def _heading(line: str, previous: str) -> tuple[int, str, bool] | None:
    """Return (level, text, the text is on the line before) when *line* makes a heading."""
    if match := _HEADING.match(line):
        return len(match[1]), (match[2] or "").strip(), False
    if (match := _UNDERLINE.match(line)) and previous[:1].isalnum():
        return (1 if match[1][0] == "=" else 2), previous.strip(), True
    return None


def _pieces(text: str) -> Iterator[str]:
    """Yield *text* in pieces of at most a part's length: paragraphs, else lines, else sentences."""
    start = 0
    ends = [match.end() for match in _PARAGRAPH.finditer(text)]
    for end in [*ends, len(text)]:
        paragraph = text[start:end]
        start = end
        if _fits(paragraph):
            yield paragraph
            continue
        for line in _LINE.findall(paragraph):
            if _fits(line):
                yield line
            else:
                yield from _cut(line)


def _cut(line: str) -> Iterator[str]:
    position = 0
    while position < len(line):
        window = line[position : position + PART_BYTES + 64]
        if blank := len(window) - len(window.lstrip()):
            position += blank
            continue
        piece = cut_to_bytes(window, PART_BYTES)
        if not piece:  # one cluster longer than a part
            piece = window.encode()[:PART_BYTES].decode(errors="ignore")
        yield piece
        position += len(piece)


def _packed(pieces: Iterable[str]) -> Iterator[str]:
    """Join neighbours as long as they fit into one part."""
    held: list[str] = []
    size = 0
    for piece in pieces:
        length = len(piece.encode())
        if held and size + length > PART_BYTES:
            yield "".join(held)
            held, size = [], 0
        held.append(piece)
        size += length
    if held:
        yield "".join(held)


def _fits(text: str) -> bool:
    return len(text) <= PART_BYTES and len(text.encode()) <= PART_BYTES
