"""What was delivered, read back from the content alone: citations and the text under each.

This is the judge of the whole evaluation, so it is strict: content that is not of the ``prepared`` form in every line
is an error, never a guess.
"""

from __future__ import annotations

import json
from typing import Any

import attrs

from powerctx_core import Address, PowerctxError

__all__ = ["CitationError", "Cited", "cited"]

ELLIPSIS = "…"
_OPEN, _CLOSE = "<powerctx>", "</powerctx>"


class CitationError(PowerctxError):
    """Content cannot be read back."""


@attrs.frozen
class Cited:
    """One entry of the content.

    Attributes:
        address: where the citation leads.
        text: as the model reads it, unescaped.
        cut: it says that it was truncated.
    """

    address: Address
    text: str
    cut: bool

    @property
    def body_bytes(self) -> int:
        """UTF-8 bytes of the text."""
        return len(self.text.encode(errors="surrogatepass"))

    def quotes(self, stored: str) -> bool:
        """Whether the text is *stored*, or, where it says that it was cut, a beginning of it before the ellipsis."""
        return stored.startswith(self.text.removesuffix(ELLIPSIS)) if self.cut else stored == self.text


def cited(content: str | None, scope_id: str) -> list[Cited]:
    """Return the entries of prepared *content*, in order; *scope_id* is that of the request.

    Raises:
        CitationError: a line is not what the renderer promises.
    """
    if content is None:
        return []
    lines = content.split("\n")
    if len(lines) < 4 or lines[0] != _OPEN or lines[-2:] != [_CLOSE, ""]:
        raise CitationError("delivered content does not stand between its markers.")
    return [_entry(line, number, scope_id) for number, line in enumerate(lines[2:-2], 3)]


def _entry(line: str, number: int, scope_id: str) -> Cited:
    try:
        value = json.loads(line, object_pairs_hook=_once)
    except ValueError as error:
        raise CitationError(f"line {number} of delivered content is not one JSON object: {error}.") from None
    if not isinstance(value, dict) or not isinstance(value.get("text"), str):
        raise CitationError(f"line {number} of delivered content has no text.")
    ref = value.get("ref")
    if not isinstance(ref, list) or len(ref) not in (3, 4):
        raise CitationError(f"line {number} of delivered content has no citation of three or four parts.")
    family, artifact_id, revision, *scope = ref
    if not all(isinstance(part, str) and part for part in (family, artifact_id, *scope)) or type(revision) is not int:
        raise CitationError(f"line {number} of delivered content has a citation that is no address.")
    address = Address(scope[0] if scope else scope_id, family, artifact_id, revision)
    return Cited(address, value["text"], value.get("cut") is True)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found
