"""What token estimates count, and that prices of lines add up exactly."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from powerctx_core.text.tokens import DeepSeek, Features, O200k, Qwen, Seed, features

LINES = st.lists(st.text(max_size=40).map(lambda text: text.replace("\n", " ") + "\n"), max_size=6)


def counted(text: str) -> dict[str, float]:
    """Return the features that are there."""
    return {name: value for name, value in features(text)._asdict().items() if value}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("two words", {"words": 2, "letters": 8}),
        ("camelCaseX", {"words": 1, "letters": 10, "humps": 2}),
        ("v2: 2026-11", {"words": 1, "letters": 1, "digits": 7, "numbers": 3, "punctuation": 2, "clusters": 2}),
        ("a\n\nb", {"words": 2, "letters": 2, "lines": 2}),
        ('{"a":1}', {"words": 1, "letters": 1, "digits": 1, "numbers": 1, "punctuation": 5, "clusters": 3}),
        ("Größe ćž", {"words": 2, "letters": 7}),
        ("ộ ƒ", {"extended": 2}),
        ("ΑΒγ", {"greek": 3}),
        ("Привет", {"cyrillic": 6}),
        ("שלום مرحبا", {"semitic": 9}),
        ("नमस्ते ქართული", {"indic": 13}),
        ("สวัสดี", {"thai": 6}),
        ("한국어 \u1112\u1161", {"hangul": 5}),
        ("… → ✅", {"symbols": 3}),
        ("ひらカナ", {"kana": 4}),
        ("。、！", {"marks": 3}),
        ("北京㐀龥", {"han": 4}),
        ("😀𠀀", {"astral": 2}),
        ("\ud800", {"hangul": 1}),
    ],
)
def test_features(text, expected):
    """Each character is counted once, with its script; runs of letters, digits and punctuation once each."""
    assert counted(text) == expected


@given(st.text(st.characters(exclude_characters=" \t"), max_size=60))
def test_nothing_is_free(text):
    """Every character but white space and controls is a feature, so no text is priced at nothing."""
    found = features(text)
    sizes = sum(found) - found.words - found.humps - found.numbers - found.clusters
    seen = sum((char > " " and char != "\x7f") or char == "\n" for char in text)

    assert sizes == seen


@given(LINES)
def test_lines_add_up(lines):
    """The features of a text are exactly the sums over its lines."""
    parts = [features(line) for line in lines]

    assert features("".join(lines)) == Features(*map(sum, zip(*parts, strict=True))) if parts else True


@pytest.mark.parametrize("estimator", [Seed(), O200k(), Qwen(), DeepSeek()])
def test_costs(estimator):
    """Nothing costs nothing, more text costs more, and the seed's rule is kept: 1.5 a Han character, else a quarter."""
    assert estimator.cost("") == 0
    assert 0 < estimator.cost("word") < estimator.cost("word and more words")
    assert Seed().cost("北京ab") == 3.5
