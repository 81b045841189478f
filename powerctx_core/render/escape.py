"""Stored text made harmless for each text form.

Every function works character by character – ``f(a + b) == f(a) + f(b)`` – so that parts can be measured alone, and
none lets through a control character, a line separator that only some readers know, or a format character
(bidirectional overrides, joiners, tags), which a reader does not see and a model does.
"""

from __future__ import annotations

import re

__all__ = ["json_escape", "visible", "xml_attribute", "xml_escape"]

# C0 but for tab and line feed, DEL, C1 (with NEL), every format character, line and paragraph separators, lone
# surrogates, non-characters.
_UNSEEN = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e"
    r"\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff"
    r"\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_JSON = re.compile(rf'["\\<\t\n{_UNSEEN}]')
_XML_TEXT = re.compile(f"[&<>{_UNSEEN}]")
_XML_ATTRIBUTE = re.compile(rf"[&<>\"'\t\n{_UNSEEN}]")
_VISIBLE = re.compile(rf"[\n{_UNSEEN}]")

_JSON_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_XML_NAMED = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"}
_XML_REFUSED = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def _code(char: str) -> str:
    """Return the JSON escape of *char*; characters beyond 16 bits are a surrogate pair."""
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def json_escape(text: str) -> str:
    """Return *text* as the inside of a JSON string, with ``<`` escaped too, so that no tag parser can misread it."""
    return _JSON.sub(lambda match: _JSON_SHORT.get(match[0]) or _code(match[0]), text)


def _reference(match: re.Match[str]) -> str:
    """Return the reference of a character, or the replacement character where XML 1.0 has no way to write it."""
    char = match[0]
    return _XML_NAMED.get(char) or ("\ufffd" if _XML_REFUSED.match(char) else f"&#x{ord(char):x};")


def xml_escape(text: str) -> str:
    """Return *text* as the text of an XML element; line feeds and tabs stay, what cannot be seen is a reference."""
    return _XML_TEXT.sub(_reference, text)


def xml_attribute(text: str) -> str:
    """Return *text* as the inside of a quoted XML attribute, on one line."""
    return _XML_ATTRIBUTE.sub(_reference, text)


def visible(text: str) -> str:
    """Return *text* on one line, with what cannot be seen, tabs aside, written out as in JSON."""
    return _VISIBLE.sub(lambda match: _code(match[0]), text)
