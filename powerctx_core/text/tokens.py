"""Linear token estimates: no model file, one pass, additive over newline-ended pieces.

Characters are priced by class; runs of digits, punctuation and the like by length.  The sum over all pieces is rounded
up once.  ``seed`` is the rule of the source system; the others are fitted to the tokenizers they are named after.
"""

from __future__ import annotations

import re

from powerctx_core.records import NoSettings

__all__ = ["DeepSeek", "O200k", "Qwen", "Seed"]

_WIDE = re.compile(
    r"[\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)
_EMOJI = re.compile(r"[\u2600-\u27bf\U0001f000-\U0001faff]")
_DENSE = re.compile(r"[0-9!-/:-@\[-`{-~]+")


class _Linear:
    """Prices text by three rates: wide characters, emoji, and everything else; dense runs cost half a character."""

    wide = 1.0
    other = 0.25
    dense = 0.0
    emoji = 2.0

    def __init__(self, settings: NoSettings | None = None) -> None:
        del settings

    def cost(self, text: str) -> float:
        """Return the unrounded number of tokens."""
        length = len(text)
        dense = sum(len(run) for run in _DENSE.findall(text)) if self.dense else 0
        if text.isascii():
            return (length - dense) * self.other + dense * self.dense
        wide = len(_WIDE.findall(text))
        emoji = len(_EMOJI.findall(text))
        rest = length - wide - emoji - dense
        return wide * self.wide + emoji * self.emoji + dense * self.dense + rest * self.other


class Seed(_Linear):
    """1.5 per Han, kana or Hangul character, a quarter for all others."""

    wide = 1.5
    emoji = 0.25


class O200k(_Linear):
    """Near the ``o200k`` vocabulary."""

    wide = 0.9
    dense = 0.5


class Qwen(_Linear):
    """Near the Qwen vocabulary."""

    wide = 0.7
    other = 1 / 3.8
    dense = 0.6


class DeepSeek(Qwen):
    """Near the DeepSeek vocabulary."""
