"""What a document says of itself: its title, its abstract and its text.  Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

import attrs

from powerctx_core.errors import InvalidRequest
from powerctx_core.ingest.sections import TITLE_BYTES, markdown_title, without_headings
from powerctx_core.text.cut import ELLIPSIS, cut_to_bytes, derived_abstract
from powerctx_core.types import ABSTRACT_BYTES, SHORT_TEXT_BYTES

__all__ = ["Document", "front_matter", "one_line", "read_document", "read_skill", "short_abstract"]

_FRONT_MATTER_CHARACTERS = 1 << 16
_OPENED = re.compile(r"---[ \t]*\n(?=[\w-]+[ \t]*:)")
_FRONT_MATTER = re.compile(_OPENED.pattern + r"(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"([\w-]+)[ \t]*:(?:[ \t]+(.*))?\Z")
_BLOCK = re.compile(r"[|>][+-]?\d?[+-]?(?:[ \t]+#.*)?\Z")
_COMMENT = re.compile(r"(?:\A|[ \t]+)#.*\Z")


@attrs.frozen
class Document:
    """What is stored of a document.

    Attributes:
        abstract: ``None`` leaves it to be made of the text.
    """

    title: str | None
    abstract: str | None
    text: str


def read_document(text: str, *, markdown: bool) -> Document:
    """Return a document.

    The title is its first heading, else that of its front matter; the description there is the abstract, else how a
    long text begins behind its headings.
    """
    if not markdown:
        return Document(None, None, text)
    fields, body = front_matter(text)
    title = markdown_title(body) or one_line(fields.get("title", ""), TITLE_BYTES)
    description = one_line(fields.get("description", ""), SHORT_TEXT_BYTES)
    return Document(title or None, description or _beginning(body), body)


def read_skill(text: str) -> Document:
    """Return a skill: name and description of its front matter are title and abstract, what follows is its text.

    The description stands before the text as well, since by its words a skill is found.

    Raises:
        InvalidRequest: the front matter does not end.
    """
    fields, body = front_matter(text)
    if body is text and _OPENED.match(text):
        raise InvalidRequest("its front matter does not end; add a line --- behind it.")
    description = one_line(fields.get("description", ""), SHORT_TEXT_BYTES)
    title = one_line(fields.get("name", ""), TITLE_BYTES) or markdown_title(body)
    known = not description or description in " ".join(body.split())
    whole = body if known else f"{description}\n\n{body}".rstrip()
    return Document(title or None, description or _beginning(whole), whole)


def short_abstract(text: str) -> str:
    """Return the first sentence behind the headings of a text, or else its first heading."""
    return derived_abstract(without_headings(text))


def _beginning(text: str) -> str | None:
    """Return the abstract of a text that is longer than one; a short text stands for itself."""
    return short_abstract(text) if len(text.encode()) > ABSTRACT_BYTES else None


def front_matter(text: str) -> tuple[Mapping[str, str], str]:
    """Return the fields of the front matter of *text*, and *text* without it.

    Of YAML that is one value a field, plain, quoted or as a block, on one line in the end; names are in lower case, and
    of two fields of one name the first counts.  What is no field is passed over, so that nothing here can fail.
    """
    match = _FRONT_MATTER.match(text, 0, min(len(text), _FRONT_MATTER_CHARACTERS))
    if match is None:
        return {}, text
    found: list[tuple[str, list[str]]] = []
    for line in match[1].split("\n"):
        if field := _FIELD.match(line):
            found.append((field[1].lower(), [(field[2] or "").strip()]))
        elif found and line[:1] in (" ", "\t"):
            found[-1][1].append(line.strip())
    return {name: _value(lines) for name, lines in reversed(found)}, text[match.end() :]


def _value(lines: list[str]) -> str:
    first, *more = lines
    if _BLOCK.match(first):
        return " ".join(line for line in more if line)
    value = " ".join(line for line in lines if line)
    quote = value[:1]
    if quote in ("'", '"') and (end := value.rfind(quote)) > 0:
        inner = value[1:end]
        return inner.replace("''", "'") if quote == "'" else inner.replace('\\"', '"').replace("\\\\", "\\")
    return _COMMENT.sub("", value)


def one_line(text: str, limit: int) -> str:
    """Return *text* on one line, cut to *limit* UTF-8 bytes with a mark behind it."""
    line = " ".join(text.split())
    if len(line.encode()) <= limit:
        return line
    return cut_to_bytes(line, limit - len(ELLIPSIS.encode()), sentences=False) + ELLIPSIS
