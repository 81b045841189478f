"""The embedder without a model: what its contract does not say."""

from __future__ import annotations

import math
import sys
from array import array

import pytest
from hypothesis import given, strategies as st

from powerctx_core import Deadline, EmbedRequest
from powerctx_core.hash_embed import HashEmbedder, HashSettings

EMBEDDER = HashEmbedder(HashSettings())
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)  # lone surrogates too


def embed(*texts: str) -> list[bytes]:
    """Embed as documents."""
    return EMBEDDER.embed(EmbedRequest(texts=texts))


def values(vector: bytes) -> list[float]:
    """Read the bytes."""
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return list(numbers)


def cosine(one: bytes, other: bytes) -> float:
    """Compare two vectors of unit length."""
    return math.fsum(a * b for a, b in zip(values(one), values(other), strict=True))


def test_profile() -> None:
    """The fingerprint names the dimensions; both languages that are tested are served."""
    profile = HashEmbedder(HashSettings(dimensions=128)).profile

    assert ("hash-64-v1", 64) == (EMBEDDER.profile.fingerprint, EMBEDDER.profile.dimensions)
    assert ("hash-128-v1", 128) == (profile.fingerprint, profile.dimensions)
    assert {"en", "zh"} <= set(profile.languages)


@given(st.lists(ANY_TEXT, max_size=5))
def test_any_text(texts: list[str]) -> None:
    """Any string has a vector of length 1, or of zeros, and the same whatever stands beside it."""
    together = embed(*texts)

    assert [embed(text)[0] for text in texts] == together
    for vector in together:
        assert cosine(vector, vector) == pytest.approx(1, abs=1e-6) or vector == bytes(256)


@pytest.mark.parametrize("text", ["", " \n", "...?!", "\x00", "\ud800"])
def test_no_content(text: str) -> None:
    """A text without a term gives zeros."""
    assert [bytes(256)] == embed(text)


def test_shared_terms() -> None:
    """Texts that share terms are nearer than others, in English and in Chinese."""
    query, near, far = embed("Which database?", "The database is SQLite.", "Anna plays the violin.")
    assert cosine(query, near) > cosine(query, far) + 0.2

    query, near, far = embed("用什么数据库？", "数据库是SQLite。", "安娜拉小提琴。")
    assert cosine(query, near) > cosine(query, far) + 0.2


def test_deadline() -> None:
    """A passed deadline is an error that says how far it came."""
    with pytest.raises(TimeoutError, match="'hash' had done 0 of 1 texts"):
        EMBEDDER.embed(EmbedRequest(texts=("cat",), deadline=Deadline.after(0)))


@pytest.mark.parametrize("dimensions", [1, 0, -1, 65_537])
def test_bad_dimensions(dimensions: int) -> None:
    """Dimensions out of range are refused, with the range."""
    with pytest.raises(ValueError, match="must be from 2 to 65536"):
        HashSettings(dimensions=dimensions)
