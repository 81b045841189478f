"""Truncation never exceeds its limit, never splits what a reader sees as one character, and looks only near the cut."""

import time

import pytest
import regex
from hypothesis import example, given, settings, strategies as st

from powerctx_core.text.cut import ELLIPSIS, cut_to_bytes, cut_to_chars, derived_abstract, head, surely_keeps

FAMILY = "👩\u200d👩\u200d👧\u200d👦"
PIECES = [
    *"ab 1.!?\n\t\"')",
    *"。！？…」北京大学火锅かなカナ한국어",
    "\r\n",
    "\u3000",
    "\u2028",
    "\x85",
    "\x00",
    "\ufeff",
    "e\u0301",
    "\u0301",
    "か\u3099",
    "क्षि",  # Devanagari: consonant, virama, consonant, vowel sign
    "नी",
    "ก็",  # Thai
    "\u1100\u1161\u11a8",  # Hangul jamo, L V T
    "\u1161",
    "가\u11a8",  # LV syllable and a trailing jamo
    "🇨🇳",
    "🇩",
    "👍🏽",
    FAMILY,
    "\u200d",
    "\ufe0f",
    "\u20e3",
    "\u0600",  # Arabic number sign: joins what follows, a space too
    "\U000110bd",
    "\U0001f3f4\U000e0067\U000e0062\U000e007f",  # a flag made of tag characters
]
TEXTS = st.one_of(st.lists(st.sampled_from(PIECES), max_size=60).map("".join), st.text(max_size=60))


def boundaries(text: str) -> set[int]:
    """Return every grapheme boundary of the whole text."""
    return {0, *(match.end() for match in regex.finditer(r"\X", text))}


@given(TEXTS, st.integers(-1, 70), st.booleans())
@example("a\u0600 b", 3, False)
@example("。\u0301b", 1, True)
@settings(max_examples=500, deadline=None)
def test_characters(text: str, limit: int, sentences: bool) -> None:
    """A cut is a prefix within the limit that ends at a boundary of the whole text, the same every time."""
    cut = cut_to_chars(text, limit, sentences=sentences)

    assert len(cut) <= max(0, limit)
    assert text.startswith(cut)
    assert len(cut) in boundaries(text)
    assert cut_to_chars(text, limit, sentences=sentences) == cut


@given(TEXTS, st.integers(-1, 250), st.booleans())
@settings(max_examples=500, deadline=None)
def test_bytes(text: str, limit: int, sentences: bool) -> None:
    """The same holds for a limit in UTF-8 bytes."""
    cut = cut_to_bytes(text, limit, sentences=sentences)

    assert len(cut.encode()) <= max(0, limit)
    assert text.startswith(cut)
    assert len(cut) in boundaries(text)
    assert cut_to_bytes(text, limit, sentences=sentences) == cut


@given(TEXTS, st.integers(0, 70))
@settings(max_examples=500, deadline=None)
def test_longest(text: str, limit: int) -> None:
    """Without sentences only white space at the end is given up, with the sign that it is joined to if there is one."""
    cut = cut_to_chars(text, limit, sentences=False)
    longest = max(end for end in boundaries(text) if end <= limit)

    assert cut.rstrip() == cut or len(cut) == len(text)
    assert all(char.isspace() or regex.match(r"\p{GCB=Prepend}", char) for char in text[len(cut) : longest])


@given(TEXTS)
@settings(max_examples=200, deadline=None)
def test_roomy(text: str) -> None:
    """A text that fits comes back as it is, trailing white space included."""
    assert cut_to_chars(text, len(text)) == text
    assert cut_to_bytes(text, len(text.encode())) == text


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("One two. Three four", 12, "One two. Thr"),  # the sentence ends before the last quarter
        ("One two three. Four", 17, "One two three."),
        ("One two three.Four five", 17, "One two three.Fou"),  # no white space: 3.14, example.com
        ("Pi is nearly 3.14159 or so", 16, "Pi is nearly 3.1"),
        ("He said: “Go away.” And left", 21, "He said: “Go away.”"),
        ("我们选择了数据库。因为简单", 11, "我们选择了数据库。"),
        ("他说：“我们走吧！”然后走了", 12, "他说：“我们走吧！”"),
        ("first line\nsecond line", 13, "first line"),
        ("One two three. Four", 14, "One two three."),  # ends exactly at the limit
        ("Wait... what?! Yes", 15, "Wait... what?!"),
    ],
)
def test_sentences(text: str, limit: int, expected: str) -> None:
    """A sentence end in the last quarter is preferred; closing quotes stay with their sentence."""
    assert cut_to_chars(text, limit) == expected


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("a" + FAMILY + "b", 7, "a"),
        ("a" + FAMILY + "b", 8, "a" + FAMILY),
        ("🇨🇳🇩🇪🇫🇷", 3, "🇨🇳"),
        ("🇨🇳🇩🇪🇫🇷", 4, "🇨🇳🇩🇪"),
        ("👍🏽👍🏽", 3, "👍🏽"),
        ("a" + "\u0301" * 50 + "b", 20, ""),
        ("xa" + "\u0301" * 50 + "b", 20, "x"),
        ("각\u1100\u1161\u11a8", 3, "각"),
        ("ab\r\ncd", 3, "ab"),
        ("नमस्ते", 3, "नम"),
    ],
)
def test_graphemes(text: str, limit: int, expected: str) -> None:
    """Families, flags, skin tones, floods of accents, jamo, CRLF and conjuncts are kept whole or dropped whole."""
    assert cut_to_chars(text, limit, sentences=False) == expected


@pytest.mark.parametrize("unit", ["слово ", "한국어", "ภาษาไทย", "हिन्दी में ", "مرحبا ", "👍🏽", "é", "北京", "e\u0301"])
def test_local(unit: str) -> None:
    """Where a megabyte is cut, only the neighbourhood of the cut is looked at, in any script."""
    text = unit * (900_000 // len(unit))
    started = time.thread_time()
    for limit in range(800_000, 800_100):
        cut_to_chars(text, limit, sentences=False)

    assert time.thread_time() - started < 2.0


@pytest.mark.parametrize("unit", [".", "!?", "。", "\u0301", "🇨", "\u200d", "\u1100", "\n", '."', "\u0600"])
def test_floods(unit: str) -> None:
    """A megabyte of one awkward character is cut in linear time."""
    text = unit * (1_000_000 // len(unit)) + "x"
    started = time.thread_time()
    cut = cut_to_chars(text, 999_000)

    assert time.thread_time() - started < 3.0
    assert len(cut) <= 999_000


@given(st.text(max_size=1500))
@example("é" * 2048)
@example("北" * 1366)
@example("😀" * 1025)
@settings(max_examples=200, deadline=None)
def test_head(text: str) -> None:
    """A head is the longest prefix of at most 4 096 bytes that ends between characters."""
    kept = head(text)
    rest = text[len(kept) :]

    assert text.startswith(kept)
    assert len(kept.encode()) <= 4096
    assert not rest or len((kept + rest[0]).encode()) > 4096


@given(st.one_of(TEXTS, st.text(min_size=1, max_size=2000), st.text("a北.。 \n#", max_size=1200)))
@example("\n" * 5000 + "late start")
@example("a" + "\u0301" * 1000)
@example("#" * 600)
@example("# \n\nbody")
@settings(max_examples=500, deadline=None)
def test_abstract(text: str) -> None:
    """The abstract of any text that is not blank is not blank, at most 447 bytes, and the same every time."""
    abstract = derived_abstract(text)

    assert len(abstract.encode()) <= 447
    assert abstract == abstract.rstrip()
    assert bool(abstract.strip()) == bool(text.strip())
    assert derived_abstract(text) == abstract


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We chose SQLite. It is simple.", "We chose SQLite."),
        ("我们选择了 SQLite。因为简单。", "我们选择了 SQLite。"),
        ("## Why SQLite?\n\nBecause.", "Why SQLite?"),
        ("# 1. Introduction\n\nText", "1. Introduction"),
        ("# Dr. No\nText", "Dr. No"),
        ("1. Install it. Then run it.", "1. Install it."),
        ("#\n\nText", "#"),
        ("first line\nsecond line", "first line"),
        ("   \n\n  padded. text", "padded."),
        ("no end", "no end"),
        ("a" * 447, "a" * 447),
        ("a" * 448, "a" * 444 + ELLIPSIS),
        ("北" * 149, "北" * 149),
        ("北" * 150, "北" * 148 + ELLIPSIS),
        ("北" * 150 + "。", "北" * 148 + ELLIPSIS),
    ],
)
def test_abstract_examples(text: str, expected: str) -> None:
    """The first heading or sentence is the abstract; a numbered heading or list entry is not cut behind its number."""
    assert derived_abstract(text) == expected


@given(
    st.lists(st.sampled_from([*PIECES, "of", "北京"]), max_size=300).map("".join),
    st.integers(0, 300),
    st.integers(1, 16),
)
@settings(max_examples=500, deadline=None)
def test_what_surely_keeps_something_keeps_it(text: str, limit: int, least: int) -> None:
    """The look ahead never promises more than the cut keeps."""
    if surely_keeps(text, limit, least):
        assert len(cut_to_bytes(text, limit).encode()) >= least


@pytest.mark.parametrize(
    "text", ["资料库里有很多东西。" * 50, "It needs no server, and one file is easy to copy. " * 50]
)
def test_the_look_ahead_sees_what_is_plain(text: str) -> None:
    """Of ordinary text it tells without a cut that the least length is kept; of what is too short it does not."""
    assert any(surely_keeps(text[start:], 2000, 64) for start in range(3))
    assert not surely_keeps(text[:100], 2000, 64)
    assert not surely_keeps(text, 400, 64)
