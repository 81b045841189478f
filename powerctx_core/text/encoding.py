"""Terms as plain [a-z0-9] words, so that no engine's tokenizer splits, folds, stops or drops them.

The code of a term is one of four kinds, told apart by its first two characters:

* the term itself, when it is three or more of ``a-z0-9``, no stop word of a known engine and not like a code;
* ``z0`` and three digits of base 36 a character (``z`` and four for the rare ones): a pair of Han characters takes 8;
* ``z1`` and the ASCII text, ``z`` escaping what is not ``a-y0-9``, for identifiers and short words;
* ``z2`` and 128 bits of digest, when any of these would be longer than 64.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from powerctx_core.text.stopwords import ENGLISH, NEGATIONS

__all__ = ["LONGEST_CODE", "VERSION", "encode"]

VERSION: Final = 1
LONGEST_CODE: Final = 64
"""No code is longer: engines cut or drop words at 64 (Oracle Text) or 84 (InnoDB, OceanBase) characters."""

_PLAIN = re.compile(r"(?!z[0-9])[a-z0-9]{3,64}\Z")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_ESCAPES = {"z": "zz"} | dict(zip("_.-+#@/&:'~", (f"z{letter}" for letter in "abcdefghijk"), strict=True))
# What InnoDB, OceanBase and Oracle Text stop beyond our own list; short words are encoded anyway.
_ENGINE_STOPS = (
    ENGLISH
    | NEGATIONS
    | frozenset("almost although com could either mr mrs ms must non still therefore und www one".split())
)
_KEEP = 65_536


class _Codes(dict[str, str]):
    """Codes of words seen lately; concurrent misses only compute the same value twice."""

    def __missing__(self, term: str) -> str:
        code = _encoded(term)
        if len(term) <= LONGEST_CODE:
            if len(self) >= _KEEP:
                self.clear()
            self[term] = code
        return code


class _Characters(dict[str, str]):
    """Codes of characters, since pairs of Han can be too many to remember."""

    def __missing__(self, character: str) -> str:
        if len(self) >= _KEEP:
            self.clear()
        code = self[character] = _wide(character)
        return code


_codes = _Codes()
_characters = _Characters()


def encode(term: str) -> str:
    """The code of *term*, by which stores index and look it up.

    Args:
        term: any string; what `analyse` and `analyse_query` give.

    Returns:
        Two to 64 characters of ``a-z0-9``, different for different terms: exactly so up to the length limit, by a
        128-bit digest above it.  Pure, thread-safe, the same in every process.
    """
    return _codes[term]


def _encoded(term: str) -> str:
    if not term.isascii():
        code = "z0" + "".join(map(_characters.__getitem__, term))
    elif _PLAIN.match(term) and term not in _ENGINE_STOPS:
        return term
    else:
        code = "z1" + "".join(map(_escaped, term))
    if len(code) > LONGEST_CODE:
        digest = hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        return "z2" + _base36(int.from_bytes(digest, "big"), 25)
    return code


def _escaped(character: str) -> str:
    if character != "z" and (character.isdigit() or "a" <= character <= "y"):
        return character
    return _ESCAPES.get(character) or "zy" + _base36(ord(character), 2)


def _wide(character: str) -> str:
    point = ord(character)
    # 35 * 36 * 36 = 45 360 short codes: Han first, then syllables, then all the rest below U+3200.
    if 0x4E00 <= point < 0xA000:
        return _base36(point - 0x4E00, 3)
    if 0xAC00 <= point < 0xD7A4:
        return _base36(point - 0xAC00 + 0x5200, 3)
    if point < 0x3200:
        return _base36(point + 0x5200 + 0x2BA4, 3)
    return "z" + _base36(point, 4)


def _base36(number: int, width: int) -> str:
    digits = []
    for _ in range(width):
        number, digit = divmod(number, 36)
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))
