"""What both versions of a receipt hold, and how their values become JSON.

The types mirror the JSON: names of attributes are the keys.  A *sparse* field is left out of the JSON when it has its
default.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from typing import Any, Final, Literal

import attrs

__all__ = [
    "SPARSE",
    "Fallback",
    "RecallRound",
    "ReceiptError",
    "RoundNumber",
    "Stage",
    "StageTiming",
    "digest",
    "encoded",
    "is_sparse",
    "limited",
    "limits_of",
    "plain",
    "query_digest",
]

RoundNumber = Literal[0, 1, 2]
Stage = Literal["retrieve", "rerank", "assess", "expand", "plan", "read", "render", "rewrite"]
Fallback = Literal["none", "inference_unavailable", "inference_timeout", "reused_fts_fallback"]

_SPARSE: Final = "powerctx: sparse"
_LIMITS: Final = "powerctx: limits"
SPARSE: Final[dict[str, Any]] = {_SPARSE: True}
"""Metadata of a field that the JSON leaves out when it has its default."""


class ReceiptError(Exception):
    """A receipt cannot be made; the message names no content."""


def limited(**limits: Any) -> dict[str, Any]:
    """Return metadata of a field: further keywords of its JSON Schema, such as ``minimum`` or ``maxItems``."""
    return {_LIMITS: limits}


def is_sparse(field: attrs.Attribute[Any]) -> bool:
    """Tell whether the JSON leaves *field* out when it has its default."""
    return bool(field.metadata.get(_SPARSE))


def limits_of(field: attrs.Attribute[Any]) -> dict[str, Any]:
    """Return the further keywords of the JSON Schema of *field*."""
    return dict(field.metadata.get(_LIMITS, {}))


@attrs.frozen(kw_only=True)
class RecallRound:
    """One round of admission.

    Attributes:
        round: 0, or that of an expansion.
        outcome: ``expansion_failed`` when it was begun and dropped.
        retained: its candidates reached the pack.
    """

    round: RoundNumber
    outcome: Literal["completed", "expansion_failed"]
    retained: bool


@attrs.frozen(kw_only=True)
class StageTiming:
    """What a stage took in one call, over all its runs; stages run beside each other, so that they do not add up.

    Attributes:
        duration_ms: their sum, in milliseconds.
        count: how often it ran.
    """

    stage: Stage
    duration_ms: float = attrs.field(metadata=limited(minimum=0))
    count: int = attrs.field(metadata=limited(minimum=1))


def digest(data: bytes) -> str:
    """Return ``sha256:`` and the hexadecimal digest of *data*."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def query_digest(query: str) -> str:
    """Return the digest of a query: of the UTF-8 of its NFC form without white space around it."""
    return digest(unicodedata.normalize("NFC", query.strip()).encode())


def plain(value: Any) -> Any:
    """Return a receipt, or a part of one, as what ``json.dumps`` accepts."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is tuple:
        return [plain(each) for each in value]
    if (fields := _FIELDS.get(kind)) is None:
        if not attrs.has(kind):
            return dict(value)
        fields = _FIELDS[kind] = _fields(kind)
    form = {}
    for name, default in fields:
        given = getattr(value, name)
        if default is attrs.NOTHING or given != default:
            form[name] = plain(given)
    return form


_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_FIELDS: dict[type, tuple[tuple[str, Any], ...]] = {}
"""Of each class, its fields with the default at which they are left out."""


def _fields(cls: type[attrs.AttrsInstance]) -> tuple[tuple[str, Any], ...]:
    return tuple((field.name, field.default if is_sparse(field) else attrs.NOTHING) for field in attrs.fields(cls))


def encoded(form: Any) -> bytes:
    """Return the JSON of a form as its size is counted: compact, UTF-8."""
    return json.dumps(form, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
