"""Normalisation, and the scripts that put no spaces between words.

Han, kana, Hangul and the scripts of South-East Asia are indexed as single characters and pairs, which finds any part
of a word (北京 in 北京大学) and measures as well as a segmenter does.
Everything costs next to nothing for text that does not need it: a check by one character class decides each step.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from operator import add
from typing import TYPE_CHECKING, Final, NamedTuple

from powerctx_core.text.stopwords import HAN_CHARACTERS, HANGUL, NEGATIONS, RUN_PHRASES
from powerctx_core.text.words import Part, capped

if TYPE_CHECKING:
    from collections.abc import Iterator

    import regex

__all__ = [
    "WORDS",
    "add_clusters",
    "add_hangul",
    "add_run",
    "cluster_parts",
    "hangul_parts",
    "mixed",
    "normalised",
    "ranges",
    "run_parts",
    "table_version",
]

_HAN: Final = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_KANA: Final = "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31f0-\u31ff"
_SYLLABLES: Final = "\uac00-\ud7a3"
_PUNCTUATION: Final = (
    "\u00a0-\u00a9\u00ab-\u00b1\u00b4\u00b6-\u00b8\u00bb-\u00bf\u00d7\u00f7\u2000-\u206f\u20a0-\u20bf\u2190-\u21ff\u2500-\u257f"
    "\u3000-\u3004\u3008-\u3020\u3030\u303d\u30a0\u30fb\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\ufffd"
)
_WORD: Final = r"\.?{w}+(?:['.\-@/&:]{w}+|,[0-9]{{3}}(?![0-9]))*(?:\+\+|#(?!{w}))?"

WORDS = re.compile(_WORD.format(w="[A-Za-z0-9_]"))
"""Raw tokens of text that has no other letters; no repeat shares a character with the next, so it is linear."""
_UNSPACED = (
    r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}\p{Tai_Le}\p{New_Tai_Lue}\p{Tai_Tham}\p{Javanese}\p{Balinese}"
)

_INVISIBLE = "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff\U000e0100-\U000e01ef"
_COMPATIBLE = (
    "\u00aa\u00b2\u00b3\u00b9\u00ba\u00bc-\u00be\u0132\u0133\u013f\u0140\u0149\u017f\u01c4-\u01cc\u01f1-\u01f3\u02b0-\u02b8"
    "\u2070-\u209c\u2100-\u211f\u2121\u2123-\u214f\u2150-\u2189\u2460-\u24ff\u3131-\u318e\u3200-\u33ff\ufb00-\ufb06\ufb13-\ufb17"
    "\ufb20-\ufb4f\ufb50-\ufdf9\ufe70-\ufefc\uff03\uff06\uff0b\uff0d-\uff19\uff20-\uff3a\uff3f\uff41-\uff5a\uff66-\uffdc"
    "\U0001d400-\U0001d7ff\U0001f100-\U0001f1e5"
)
# Between letters of alphabets only: ‘时代’的 is a quotation.
_APOSTROPHES = re.compile("(?<=[0-9A-Za-z\u00c0-\u058f])[\u2018\u2019\u02bc](?=[A-Za-z\u00c0-\u058f])")
_HYPHENS = re.compile("[\u2010-\u2012]")

_PHRASES = re.compile(RUN_PHRASES)
_PARTICLES = frozenset("을를이가은는에의도로와과만야")


class _Ranges(NamedTuple):
    cjk: re.Pattern[str]
    han: re.Pattern[str]
    kana: re.Pattern[str]
    hangul: re.Pattern[str]
    other: re.Pattern[str]
    """A character that `WORDS`, *cjk* and *hangul* do not understand, so that `mixed` is needed."""
    foldable: re.Pattern[str]
    invisible: re.Pattern[str]
    compatible: re.Pattern[str]


@cache
def ranges() -> _Ranges:
    """The character classes of text that is not ASCII; compiling them takes 10 ms, at the first such text."""
    return _Ranges(
        cjk=re.compile(f"[{_HAN}{_KANA}]+"),
        han=re.compile(f"[{_HAN}]"),
        kana=re.compile(f"[{_KANA}]"),
        hangul=re.compile(f"[{_SYLLABLES}]+"),
        other=re.compile(f"[^\\x00-\\x7f{_HAN}{_KANA}{_SYLLABLES}{_PUNCTUATION}]"),
        foldable=re.compile(f"[{_INVISIBLE}{_COMPATIBLE}\u2018\u2019\u02bc\u2010-\u2012]"),
        invisible=re.compile(f"[{_INVISIBLE}]+"),
        compatible=re.compile(f"[{_COMPATIBLE}]+"),
    )


class _Traditional(NamedTuple):
    pattern: re.Pattern[str]
    simplified: dict[str, str]
    version: str


@cache
def _traditional() -> _Traditional:
    """The character table of OpenCC, asked once; 25 ms at the first Han character of a process."""
    import hashlib  # with the rest of the table

    import opencc  # a native library that most processes never need

    characters = [chr(point) for first, last in ((0x3400, 0x4DC0), (0x4E00, 0xA000)) for point in range(first, last)]
    converted = opencc.OpenCC("t2s").convert("\n".join(characters)).split("\n")
    table = {old: new for old, new in zip(characters, converted, strict=True) if old != new and len(new) == 1}
    # A result that is itself in the table would make folding depend on how often it is done.
    simplified = {old: table.get(new, new) for old, new in table.items()}
    digest = hashlib.blake2b("".join(map(add, simplified, simplified.values())).encode(), digest_size=6).hexdigest()
    return _Traditional(re.compile(f"[{''.join(simplified)}]"), simplified, digest)


def table_version() -> str:
    """A digest of the table that folds traditional characters: equal tables of two library versions are one version."""
    return _traditional().version


class _Mixed(NamedTuple):
    tokens: regex.Pattern[str]
    flood: regex.Pattern[str]
    clusters: regex.Pattern[str]


@cache
def mixed() -> _Mixed:
    """The patterns for text in any script; imports `regex`, 20 ms, at the first such text."""
    import regex  # see the docstring

    word = rf"[[\p{{L}}\p{{M}}\p{{N}}_]--[{_HAN}{_KANA}{_SYLLABLES}{_UNSPACED}]]"
    return _Mixed(
        regex.compile(
            rf"(?P<run>[{_HAN}{_KANA}]+)|(?P<hangul>[{_SYLLABLES}]+)|(?P<clusters>[[{_UNSPACED}]&&[\p{{L}}\p{{M}}\p{{N}}]]+)"
            rf"|(?P<word>{_WORD.format(w=word)})"
            r"|(?P<emoji>[\U0001f1e6-\U0001f1ff]{2}|[\p{Extended_Pictographic}--[\u0000-\u00ff\u2000-\u206f\u2122\u2190-\u21ff\u3030\u303d\u3297\u3299]])",
            regex.VERSION1,
        ),
        regex.compile(r"(\p{M}{30})\p{M}+", regex.VERSION1),
        regex.compile(
            r"[\u0e40-\u0e44\u0ec0-\u0ec4]?[^\p{M}\u0e30\u0e32\u0e33\u0e45\u0eb0\u0eb2\u0eb3][\p{M}\u0e30\u0e32\u0e33\u0e45\u0eb0\u0eb2\u0eb3]*|.",
            regex.VERSION1,
        ),
    )


def normalised(text: str) -> str:
    """*text* composed (NFC), widths and other compatible forms folded, invisible characters out, Han simplified.

    Case and accents stay, since camel case and words are told by them; ``‘`` and ``“`` stay, since they quote.

    Args:
        text: text that is not ASCII, of any length.

    Returns:
        The same object when there is nothing to do.  Linear: floods of combining marks are cut to 30 before they are
        ordered.
    """
    patterns = ranges()
    if patterns.other.search(text):
        text = mixed().flood.sub(r"\1", text)
    text = unicodedata.normalize("NFC", text)
    if patterns.foldable.search(text):
        text = patterns.invisible.sub("", text)
        text = patterns.compatible.sub(_compatible, text)
        text = _APOSTROPHES.sub("'", text)
        text = _HYPHENS.sub("-", text)
        text = unicodedata.normalize("NFC", text)
    if patterns.cjk.search(text):
        traditional = _traditional()
        if traditional.pattern.search(text):
            text = "".join(map(traditional.simplified.get, text, text))
    return text


def _compatible(match: re.Match[str]) -> str:
    return unicodedata.normalize("NFKC", match[0])


def add_run(bag: list[str], run: str) -> None:
    """Add the terms of a run of Han and kana to *bag*: its characters and its pairs."""
    bag += run
    bag += map(add, run, run[1:])


def add_hangul(bag: list[str], word: str) -> None:
    """Add the terms of a Korean word to *bag*: its syllables, its pairs and, when it has three or more, the word."""
    add_run(bag, word)
    if len(word) > 2:  # two syllables are their own pair
        bag.append(capped(word))


def add_clusters(bag: list[str], text: str) -> None:
    """Add the terms of a run without spaces to *bag*: its clusters of letter and marks, and their pairs."""
    clusters = _clusters(text)
    bag += clusters
    bag += map(capped, map(add, clusters, clusters[1:]))


def _clusters(text: str) -> list[str]:
    return [capped(cluster) for cluster in mixed().clusters.findall(text)]


def _stop_places(run: str) -> list[bool]:
    stops = [character in HAN_CHARACTERS for character in run]
    for match in _PHRASES.finditer(run):
        for place in range(*match.span()):
            stops[place] = run[place] not in NEGATIONS
    return stops


def run_parts(run: str) -> list[Part]:
    """The terms of a run of Han and kana in a query.

    A character of Han is a unit.  A single kana says too little to be asked for, unless it is the whole run; so the
    unit of kana is the pair.
    """
    stops = _stop_places(run)
    if len(run) == 1:
        return [(run, stops[0], True)]
    is_han = ranges().han.match
    han = [is_han(character) is not None for character in run] if ranges().kana.search(run) else [True] * len(run)
    parts: list[Part] = []
    for character, pair, stop, before, here, previous in zip(
        run, ("", *map(add, run, run[1:])), stops, (True, *stops), han, (True, *han), strict=False
    ):
        if pair:
            parts.append((pair, stop and before, not (here or previous)))
        if here:
            parts.append((character, stop, True))
    return parts


def hangul_parts(word: str) -> Iterator[Part]:
    """The terms of a Korean word in a query: its pairs, and what is left of two syllables without a particle.

    The pairs are the units, since a word with another particle would not be found as a whole.
    """
    stop = word in HANGUL
    if len(word) == 1:
        yield word, stop, True
        return
    for pair in map(add, word, word[1:]):
        yield pair, stop, True
    if len(word) > 2:  # as in add_hangul
        yield capped(word), stop, False
    elif word[1] in _PARTICLES:
        yield word[0], stop, False


def cluster_parts(text: str) -> Iterator[Part]:
    """The terms of a run without spaces in a query: its pairs, or its only cluster."""
    clusters = _clusters(text)
    if len(clusters) == 1:
        yield clusters[0], False, True
    for pair in map(add, clusters, clusters[1:]):
        yield capped(pair), False, True
