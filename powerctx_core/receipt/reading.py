"""What the published schema asks of the JSON of a receipt beyond the types of its values.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from powerctx_core.receipt.parts import is_sparse, limits_of

__all__ = ["faults", "has_shape"]

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def has_shape(cls: type[attrs.AttrsInstance]) -> bool:
    """Tell whether *cls* is a part of a receipt that asks for more than types."""
    return any(is_sparse(field) or limits_of(field) for field in attrs.fields(cls))


def faults(cls: type[attrs.AttrsInstance], form: Mapping[str, Any]) -> Iterator[tuple[attrs.Attribute[Any], str]]:
    """Give each field of *cls* that *form*, whose values have the right types, gives otherwise than the schema says."""
    fields = attrs.fields(cls)
    for field in fields:
        if field.name not in form:
            if not is_sparse(field):
                yield field, "is required"
            continue
        value = form[field.name]
        if value is None:
            if is_sparse(field):
                yield field, "is null; leave it out instead"
            continue
        for name, limit in limits_of(field).items():
            if (sentence := _broken(name, limit, value)) is not None:
                yield field, sentence
    choices = [each["required"] for each in getattr(cls, "JSON_SCHEMA", {}).get("oneOf", ())]
    if choices and sum(all(name in form for name in names) for names in choices) != 1:
        names = " or ".join(name for names in choices for name in names)
        yield (
            next(field for field in fields if field.name == choices[0][0]),
            f"is wrong: exactly one of {names} is wanted",
        )


def _broken(name: str, limit: Any, value: Any) -> str | None:
    if name == "minimum" and value < limit:
        return f"must be at least {limit}, not {value}"
    if name == "maxItems" and len(value) > limit:
        return f"must have at most {limit} entries, not {len(value)}"
    # A pattern's last sign is the end of the text, before which Python allows the end of a line.
    if name == "pattern" and not re.fullmatch(limit.removeprefix("^").removesuffix("$"), value):
        return f"must be of the form {limit}"
    if name == "format" and not _UUID.fullmatch(value):
        return "must be a UUID"
    return None
