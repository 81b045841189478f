"""One byte form for every value, so that two who mean the same thing get the same digest."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import attrs

__all__ = ["canonical_json", "sha256_of"]


def canonical_json(value: Any) -> bytes:
    """Return *value* as canonical JSON (RFC 8785): sorted keys, no spaces, numbers as ECMAScript writes them.

    Frozen attrs values count as objects of their fields; mappings, lists and tuples may hold them.

    Raises:
        ValueError: a number is not finite, or a whole one is beyond 2**53 - 1 either way.
        TypeError: something has no JSON form.
    """
    import rfc8785  # only digests need it

    try:
        return rfc8785.dumps(_plain(value))
    except rfc8785.CanonicalizationError as error:
        raise ValueError(str(error)) from None


def sha256_of(value: Any) -> str:
    """Return ``sha256:`` and the digest, in hex, of the canonical JSON of *value*.

    Raises:
        ValueError, TypeError: as :func:`canonical_json`.
    """
    return "sha256:" + hashlib.sha256(canonical_json(value)).hexdigest()


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if attrs.has(type(value)):
        return {field.name: _plain(getattr(value, field.name)) for field in attrs.fields(type(value))}
    raise TypeError(f"{type(value).__name__} has no JSON form")
