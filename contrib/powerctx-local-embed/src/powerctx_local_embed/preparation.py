"""What is done to a text before the model's own normalisation (NFKC, white space) sees it."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["VERSION", "prepared"]

VERSION: Final = 1
"""Raised by every change, here or in the cutting of long texts, that gives any text another vector."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]+")


def prepared(text: str) -> str:
    """Return *text* without lone surrogates, and with one space for each run of white space or control characters.

    Surrogate pairs become the character they stand for.  Never raises.  White space would be folded by the model too,
    but only after the text has been cut to length.
    """
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    return " ".join(_CONTROL.sub(" ", text).split())
