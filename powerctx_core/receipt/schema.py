"""JSON Schemas of receipts, made from their types."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Any, Final

import attrs

from powerctx_core.receipt.parts import is_sparse, limits_of

__all__ = ["json_schema"]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_SCALARS: Final = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def json_schema(cls: type[attrs.AttrsInstance]) -> dict[str, Any]:
    """Return the schema of what :func:`powerctx_core.receipt.parts.plain` makes of values of *cls*.

    Every key is required but the sparse ones, and no other is allowed.  What a class has as ``JSON_SCHEMA`` is added.

    Raises:
        TypeError: a field is of a type that has no schema here.
    """
    found: dict[str, Any] = {}
    whole = _object(cls, found)
    return {"$schema": DIALECT, "title": cls.__name__, **whole, "$defs": dict(sorted(found.items()))}


def _object(cls: type[attrs.AttrsInstance], found: dict[str, Any]) -> dict[str, Any]:
    annotations = typing.get_type_hints(cls)
    fields = attrs.fields(cls)
    return {
        "description": (cls.__doc__ or "").partition("\n")[0],
        "type": "object",
        "properties": {field.name: _bounded(annotations[field.name], field, found) for field in fields},
        "required": [field.name for field in fields if not is_sparse(field)],
        "additionalProperties": False,
        **getattr(cls, "JSON_SCHEMA", {}),
    }


def _bounded(annotation: Any, field: attrs.Attribute[Any], found: dict[str, Any]) -> dict[str, Any]:
    schema = _schema(annotation, found)
    if is_sparse(field) and "anyOf" in schema:  # a field that is left out is never null
        schema = next(each for each in schema["anyOf"] if each != {"type": "null"})
    if not (limits := limits_of(field)):
        return schema
    if "anyOf" in schema:
        rest = [each if each == {"type": "null"} else {**each, **limits} for each in schema["anyOf"]]
        return {"anyOf": rest}
    return {**schema, **limits}


def _schema(annotation: Any, found: dict[str, Any]) -> dict[str, Any]:
    if annotation in _SCALARS:
        return {"type": _SCALARS[annotation]}
    origin, members = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return {"const": members[0]} if len(members) == 1 else {"enum": list(members)}
    if origin in (typing.Union, types.UnionType):
        if all(typing.get_origin(each) is typing.Literal for each in members):
            return {"enum": [value for each in members for value in typing.get_args(each)]}
        return {"anyOf": [_schema(each, found) for each in members]}
    if origin is tuple:
        return {"type": "array", "items": _schema(members[0], found)}
    if origin is Mapping or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return {"type": "object", "additionalProperties": _schema(members[1], found)}
    if attrs.has(annotation):
        if annotation.__name__ not in found:
            found[annotation.__name__] = {}  # so that it is not made twice
            found[annotation.__name__] = _object(annotation, found)
        return {"$ref": f"#/$defs/{annotation.__name__}"}
    raise TypeError(f"{annotation!r} has no JSON Schema here")
