"""Words of alphabetic scripts: identifiers split and kept whole, contractions opened, accents folded, stems.

One raw token, as the tokenizer cut it, becomes a few terms.  What it becomes depends on the token alone, so it is
remembered: text repeats its words, and most of the cost of analysis is one look-up a word.
"""

from __future__ import annotations

import hashlib
import re
import threading
import unicodedata
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeAlias, TypeVar

from powerctx_core.text.stopwords import CYRILLIC, ENGLISH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["LONGEST_TERM", "Part", "capped", "folded", "parts_of", "pieces_of", "stemmer_version", "terms_of"]

LONGEST_TERM: Final = 64
"""A longer term is cut to its first 44 characters and a digest of the whole, so that different ones stay different."""

_Value = TypeVar("_Value")
_STOPS = ENGLISH | CYRILLIC
_KEEP = 65_536
_LONGEST_REMEMBERED = 128
_MOST_PIECES = 6
# Endings are taken off one by one; no word has more, and a made-up one must not recurse without end.
_MOST_APOSTROPHES = 3

_NOT = {"ca": "can", "wo": "will", "sha": "shall", "ai": "is"}
_BARE_NOT = {
    f"{verb}nt": expanded
    for verb, expanded in [
        *((verb, verb) for verb in "do does did is are was were could should would has have had must need".split()),
        ("ca", "can"),
        ("wo", "will"),
    ]
}
_ENDINGS = {"m": "am", "re": "are", "ve": "have", "ll": "will", "d": "would"}
_LETTERS = {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i", "ħ": "h", "ŧ": "t"}
_LETTERS |= {"أ": "ا", "إ": "ا", "آ": "ا", "ٱ": "ا", "ى": "ي", "ة": "ه", "ـ": "", "ی": "ي", "ک": "ك"}
_LETTERS |= {chr(zero + digit): str(digit) for zero in (0x660, 0x6F0, 0x966) for digit in range(10)}
_SPECIAL = str.maketrans(_LETTERS)

_MARKS = re.compile(
    "(?<!и)\u0306|[\u0300-\u0305\u0307-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u1ab0-\u1ace\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f]"
)
_CAMEL = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SEPARATORS = re.compile(r"[/@:&.\-_,']+")
_NUMBER = re.compile(r"[0-9]+(?:[.,:/-][0-9]+)+")
_VERSIONED = re.compile(r"([A-Za-z]*)([0-9]+(?:[.,:/-][0-9]+)+)(.*)", re.DOTALL)
_MEASURE = re.compile(r"([0-9]+)[a-z]{1,2}\Z")


Part: TypeAlias = tuple[str, bool, bool]
"""
A term; whether it is a stop word; whether it is a unit of coverage (the whole of a compound is not, its parts are).

A plain tuple: a query of 8192 characters of Han makes 16 000 of them.
"""


class _Stems(Protocol):
    def stemWord(self, word: str) -> str: ...  # noqa: N802 - the name is PyStemmer's


_lock = threading.Lock()
_stemmers: dict[str, _Stems] = {}


def _stemmed(word: str) -> str:
    if len(word) <= 2 or not word.isalpha():  # the stemmer leaves two letters as they are
        return word
    if word.isascii():
        language = "english"
    elif "\u0400" <= word[0] <= "\u04ff":
        language = "russian"
    else:
        return word
    with _lock:
        # A stemmer object has a buffer of its own, which two threads must not share.
        stemmer = _stemmers.get(language)
        if stemmer is None:
            import Stemmer  # 5 ms that a process without text does not pay

            stemmer = _stemmers[language] = Stemmer.Stemmer(language, 0)
        return stemmer.stemWord(word)


def stemmer_version() -> str:
    """The version of the stemming library."""
    import Stemmer  # see above

    return str(Stemmer.version())


def capped(term: str) -> str:
    """*term*, or its first 44 characters and 16 digits of digest when it is longer than `LONGEST_TERM`."""
    if len(term) <= LONGEST_TERM:
        return term
    return term[:44] + hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def folded(word: str) -> str:
    """*word* without case and, where the script can do without them, without accents and vowel points."""
    word = word.casefold()
    if word.isascii():
        return word
    word = word.translate(_SPECIAL)
    # Signs of the scripts from Devanagari to Myanmar are letters in all but name and have no place in _MARKS.
    return unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFD", word)))


def _plain(word: str) -> Iterator[Part]:
    """The term of one word without any structure."""
    surface = folded(word)
    if surface:
        yield capped(_stemmed(surface)), surface in _STOPS, True


def _whole(text: str, *, unit: bool = False) -> Iterator[Part]:
    surface = folded(text)
    if surface:
        yield capped(_stemmed(surface)), False, unit


def _segment(word: str) -> Iterator[Part]:
    """A run of letters and digits: camel case and digits split, the whole kept."""
    if word.isalpha() and (word.islower() or word.isupper() or word.istitle() or not word.isascii()):
        bare = _BARE_NOT.get(folded(word)) if len(word) < 9 else None  # shouldnt has eight
        if bare:
            yield from _plain(bare)
            yield from _plain("not")
        else:
            yield from _plain(word)
        return
    if word.isdigit() or not word.isascii():
        yield from _plain(word)
        return
    if measure := _MEASURE.match(word.lower()):
        yield from _whole(word)
        yield from _plain(measure[1])
        return
    pieces = _CAMEL.findall(word) if len(word) <= LONGEST_TERM else []
    pieces = [piece for piece in pieces if len(piece) > 1] if len(pieces) <= _MOST_PIECES else []
    yield from _whole(word, unit=not pieces)
    for piece in pieces:
        yield from _plain(piece)


def _contraction(word: str) -> Iterator[Part]:
    """A word with apostrophes: don't is do and not, Mel's is Mel, O'Brien is kept both ways."""
    head, _, tail = folded(word).rpartition("'")
    if word.count("'") > _MOST_APOSTROPHES:
        yield from _pieces(word)
    elif head.endswith("n") and tail == "t":
        verb = head[:-1].replace("'", "")
        yield from _plain(_NOT.get(verb, verb))
        yield from _plain("not")
    elif tail == "s":
        yield from _compound(word[: word.rindex("'")])
    elif tail in _ENDINGS:
        yield from _compound(word[: word.rindex("'")])
        yield from _plain(_ENDINGS[tail])
    else:
        yield from _pieces(word)


def _pieces(text: str) -> Iterator[Part]:
    """A compound with hyphens, dots, underscores or the like: its parts, and the whole without them."""
    segments = [segment for segment in _SEPARATORS.split(text) if segment]
    if len(segments) == 1:
        yield from _segment(segments[0])
        return
    long = [segment for segment in segments if len(segment) > 1]
    yield from _whole("".join(segments), unit=not long)
    for segment in long:
        yield from _segment(segment)


def _numbered(match: re.Match[str]) -> Iterator[Part]:
    """A number with dots, dashes or commas and what stands around it: v1.2.3, 2024-05-08, 1,000, python3.11."""
    before, number, behind = match.groups()
    if "," in number and re.fullmatch(r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?", number):
        number = number.replace(",", "")
    if before or behind:
        yield from _whole(before + number + behind)
    yield from _whole(number, unit=True)
    if not re.fullmatch(r"[0-9.]+", number):
        for piece in re.split(r"[.,:/-]", number):
            if len(piece) > 1:
                yield from _plain(piece)
    if len(before) > 1:
        yield from _segment(before)
    rest = _SEPARATORS.sub(" ", behind).split()
    for piece in rest:
        if len(piece) > 1:
            yield from _segment(piece)


def _compound(token: str) -> Iterator[Part]:
    if token.isalnum():
        yield from _segment(token)
    elif match := _VERSIONED.match(token):
        yield from _numbered(match)
    elif "@" in token or token.count("/") > 1:
        yield from _whole(token)
        for chunk in re.split("[@/]", token):
            yield from _compound(chunk)
    elif "/" in token or ":" in token:
        for chunk in re.split("[/:]", token):
            yield from _compound(chunk)
    elif "&" in token:
        # R&D, AT&T: the letters alone say nothing.
        yield from _whole(token, unit=len(token) <= 4)
        for chunk in token.split("&"):
            if len(chunk) > 1:
                yield from _compound(chunk)
    elif "'" in token:
        yield from _contraction(token)
    else:
        yield from _pieces(token)


def _analysed(token: str) -> Iterator[Part]:
    token = token.strip("_")
    if token.endswith(("++", "#")):
        # C++, C#, and C/C++, where the suffix belongs to what is behind the last separator.
        head, sign = token.rstrip("+#"), token[len(token.rstrip("+#")) :]
        segments = [segment for segment in _SEPARATORS.split(head) if segment]
        if segments:
            yield from _whole(segments[-1] + sign, unit=True)
        if len(segments) > 1 or len(head) > 1:
            yield from _compound(head)
    elif token.startswith("."):
        # .NET, .gitignore; a decimal like .5 is its digits.
        if token[1:2].isalpha():
            yield from _whole("." + _SEPARATORS.split(token[1:], maxsplit=1)[0])
        yield from _compound(token[1:])
    else:
        yield from _compound(token)


def _distinct(token: str) -> tuple[Part, ...]:
    parts: dict[str, Part] = {}
    for part in _analysed(token):
        parts.setdefault(part[0], part)
    return tuple(parts.values())


class _Remembered(dict[str, "_Value"], Generic[_Value]):
    """Results by token; concurrent misses only compute the same value twice."""

    def __init__(self, compute: Callable[[str], _Value]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, token: str) -> _Value:
        value = self._compute(token)
        if len(token) <= _LONGEST_REMEMBERED:
            if len(self) >= _KEEP:
                self.clear()
            self[token] = value
        return value


_parts = _Remembered(_distinct)
_terms = _Remembered(lambda token: tuple(part[0] for part in _distinct(token)))

terms_of: Callable[[str], tuple[str, ...]] = _terms.__getitem__
"""The distinct terms of one raw token, for the index."""

parts_of: Callable[[str], tuple[Part, ...]] = _parts.__getitem__
"""The distinct terms of one raw token with what a query needs to know of each."""


def pieces_of(token: str) -> Iterator[str]:
    """The pieces of one raw token as they are written: parts of camel case, then what separators part."""
    yield from _CAMEL.findall(token)
    yield from (piece for piece in _SEPARATORS.split(token) if piece)
