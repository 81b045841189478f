"""Canonical JSON: one form for every value, whoever writes it."""

from __future__ import annotations

import hashlib
import json
from types import MappingProxyType
from typing import Any

import attrs
import pytest
from hypothesis import given, strategies as st

from powerctx_core.canonical import canonical_json, sha256_of

_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
_NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
_JSON = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner),
    max_leaves=12,
)


@attrs.frozen
class _Pair:
    one: Any
    two: Any = ()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"b": 1.0, "a": 0.35, "c": -0.0}, b'{"a":0.35,"b":1,"c":0}'),
        ([1e21, 1e-7, 100000000000000000000.0, 5e-324], b"[1e+21,1e-7,100000000000000000000,5e-324]"),
        # Keys are sorted by UTF-16 units: an emoji stands before a full-width letter.
        ({"\uff21": 1, "\U0001f600": 2}, '{"\U0001f600":2,"\uff21":1}'.encode()),
        ('字\x07\u2028"\\\n', '"字\\u0007\u2028\\"\\\\\\n"'.encode()),
        (_Pair(MappingProxyType({"x": (True, None)})), b'{"one":{"x":[true,null]},"two":[]}'),
    ],
)  # fmt: skip
def test_the_form(value: object, expected: bytes) -> None:
    """It is that of RFC 8785; values and read-only mappings are objects, tuples are lists."""
    assert expected == canonical_json(value)
    assert "sha256:" + hashlib.sha256(expected).hexdigest() == sha256_of(value)


@given(_JSON)
def test_laws(value: Any) -> None:
    """It is JSON of the same value, and the same again when it is read and written once more."""
    form = canonical_json(value)
    read = json.loads(form, parse_int=_number)

    assert value == read
    assert form == canonical_json(read)


def _number(digits: str) -> float:
    """Read a number as what wrote it: beyond 2**53 it was no whole one."""
    return int(digits) if abs(int(digits)) < 2**53 else float(digits)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**53, [-(2**53)]])
def test_numbers_that_not_everybody_reads_alike(value: object) -> None:
    """They are refused."""
    with pytest.raises(ValueError, match=r"\w"):
        canonical_json(value)


@pytest.mark.parametrize("value", [object(), {1, 2}, b"x", {"a": {"b": object()}}])
def test_what_is_no_json(value: object) -> None:
    """It is refused by its type."""
    with pytest.raises(TypeError, match="has no JSON form"):
        canonical_json(value)
