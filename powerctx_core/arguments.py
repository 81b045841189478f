"""What callers hand in, in any of the forms that the public calls take."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import attrs

from powerctx_core.errors import (
    InvalidRequest,
    shown,
)
from powerctx_core.requests import (
    FindRequest,
    PrepareRequest,
    SearchRequest,
)
from powerctx_core.types import (
    Address,
    parse_uri,
)

__all__ = ["artifact_named", "artifacts_named", "as_text", "listed", "request_of", "to_explain"]

_T = TypeVar("_T")
_R = TypeVar("_R", PrepareRequest, FindRequest, SearchRequest)


def request_of(cls: type[_R], request: str | _R | None, parameters: Mapping[str, Any]) -> _R:
    """Return the request object that the keyword form stands for."""
    if isinstance(request, cls):
        if parameters:
            raise InvalidRequest(
                f"{cls.__name__} was given together with {', '.join(sorted(parameters))}; use one form."
            )
        return request
    allowed = [field.name for field in attrs.fields(cls)]
    for name in parameters:
        if name not in allowed or name == "query":
            close = difflib.get_close_matches(name, allowed, n=1)
            hint = f" Did you mean {close[0]}?" if close and close[0] != name else ""
            raise InvalidRequest(
                f"{name!r} is not a parameter here.{hint} Allowed are {', '.join(n for n in allowed if n != 'query')}.",
                field=name,
            )
    if "scope_id" not in parameters:
        raise InvalidRequest("scope_id is missing: name the scope to read.", field="scope_id")
    return cls(query=request, **parameters)  # type: ignore[arg-type]  # the request checks its own fields


def to_explain(
    request: str | PrepareRequest | SearchRequest, parameters: Mapping[str, Any]
) -> PrepareRequest | SearchRequest:
    """Return the request to be explained: of ``prepare``, unless it is one of ``search``."""
    if isinstance(request, SearchRequest):
        return request_of(SearchRequest, request, parameters)
    return request_of(PrepareRequest, request, parameters)


def artifact_named(uri: str | Address, scope_id: str | None = None) -> tuple[str, str, str, int | None]:
    """Return scope, family, artifact id and (where it says one) revision of a URI or an address.

    A URI may be relative to *scope_id*.

    Raises:
        InvalidRequest: it is neither.
    """
    # An address that somebody made by hand is checked like text.
    try:
        named = parse_uri(uri.uri if isinstance(uri, Address) else uri, scope_id)
    except (TypeError, UnicodeEncodeError, RecursionError):
        raise InvalidRequest(f"{shown(uri)} is no address.", field="uri") from None
    if isinstance(uri, Address) and uri.artifact != named[:3]:  # bytes are written as text is
        raise InvalidRequest(f"{shown(uri)} is no address.", field="uri")
    return named


def listed(field: str, values: Iterable[_T]) -> list[_T]:
    """Return *values* as a list.

    Raises:
        InvalidRequest: it is text, or nothing that can be gone through.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidRequest(f"{field} must be a list, not {type(values).__name__}.", field=field)
    return list(values)


def as_text(uri: str | Address) -> str:
    """Return the URI of what a caller named."""
    return uri.uri if isinstance(uri, Address) else uri


def artifacts_named(
    uris: str | Address | Iterable[str | Address], scope_id: str | None = None
) -> list[tuple[str, str, str]]:
    """Return the artifacts of one URI or of many, each once, without revisions; they may be relative to *scope_id*.

    Raises:
        InvalidRequest: one of them is no URI.
    """
    many = [uris] if isinstance(uris, str | Address) else listed("uris", uris)
    return list(dict.fromkeys(artifact_named(uri, scope_id)[:3] for uri in many))
