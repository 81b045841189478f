"""Counts the terms of a query in the stored terms of items."""

from __future__ import annotations

from collections.abc import Iterable

from powerctx_core.text.terms import encode

__all__ = ["Wanted"]

_SPLIT_ABOVE = 16
"""With more terms than this it is cheaper to split an item's terms than to look for each."""


class Wanted:
    """The terms of one query, made ready to be looked for in many items.

    Attributes:
        codes: encoded term -> term, in the order given.
    """

    __slots__ = ("_needles", "codes")

    def __init__(self, terms: Iterable[str]) -> None:
        self.codes = {encode(term): term for term in terms}
        self._needles = [(f" {code} ", f" {code}:", term) for code, term in self.codes.items()]

    def counted(self, terms: str, repeats: str | None) -> dict[str, int]:
        """Return the terms that an item holds, with their occurrences; see :class:`.rows.Analysed`."""
        if len(self._needles) > _SPLIT_ABOVE:
            return self._counted_in_long(terms, repeats)
        if repeats is None:
            return {term: 1 for needle, _, term in self._needles if needle in terms}
        matched = {}
        for needle, counter, term in self._needles:
            if needle in terms:
                start = repeats.find(counter)
                if start < 0:
                    matched[term] = 1
                else:
                    start += len(counter)
                    matched[term] = int(repeats[start : repeats.index(" ", start)])
        return matched

    def _counted_in_long(self, terms: str, repeats: str | None) -> dict[str, int]:
        codes = self.codes
        matched = {codes[code]: 1 for code in terms.split() if code in codes}
        if matched and repeats is not None:
            for entry in repeats.split():
                code, _, count = entry.partition(":")
                if code in codes:
                    matched[codes[code]] = int(count)
        return matched
