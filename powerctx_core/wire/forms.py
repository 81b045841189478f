"""Responses and stored values as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import attrs

from powerctx_core.explanation import ExplainedCandidate, Explanation
from powerctx_core.receipt.parts import plain
from powerctx_core.receipt.v1 import ReceiptV1
from powerctx_core.receipt.v2 import ReceiptV2
from powerctx_core.requests import ContextPack, Found, PackEntry, PreparedContext, SearchStats
from powerctx_core.types import Address, Hit, Item, Message, PutResult, Revision, Session, ToolList, Trimming

__all__ = ["canonical", "to_json"]

SCORE_DIGITS = 6
VOLATILE = frozenset({"timings_ms", "receipt_id", "request_id", "duration_ms"})
"""Keys that may differ between two equal answers."""


def to_json(value: Any) -> Any:
    """Return *value* (a response, a revision, an item, or a list of them) as what ``json.dumps`` accepts.

    Diagnostics are not serialised.

    Raises:
        TypeError: there is no serialised form for this type.
    """
    if isinstance(value, list | tuple):
        return [to_json(each) for each in value]
    form = _FORMS.get(type(value))
    if form is None:
        raise TypeError(f"{type(value).__name__} has no serialised form; it exists for {_form_names()}.")
    return form(value)


def _form_names() -> str:
    return ", ".join(sorted(cls.__name__ for cls in _FORMS))


def _prepared(value: PreparedContext) -> dict[str, Any]:
    form: dict[str, Any] = {
        "schema": value.schema,
        "status": value.status,
        "content": value.content,
        "content_bytes": value.content_bytes,
    }
    if value.tools is not None:
        form |= {"inject": value.inject, "tools": _tools(value.tools)}
    if value.receipt is not None:
        form["receipt"] = plain(value.receipt)
    return form


def _explanation(value: Explanation) -> dict[str, Any]:
    diagnostics = value.response.diagnostics
    trimming = diagnostics.trimming
    slots = {"slots": [plain(each) for each in value.slots]} if value.slots else {}
    return {
        "response": to_json(value.response),
        "outcome": diagnostics.outcome,
        "partial": diagnostics.partial,
        "late": list(diagnostics.late),
        "failed": dict(diagnostics.failed),
        "receipt": None if value.receipt is None else plain(value.receipt),
        "effort": None if value.effort is None else _rounded(plain(value.effort)),
        "rounds": [_rounded(plain(each)) for each in value.rounds],
        "thresholds": dict(value.thresholds),
        "query_units": list(value.query_units),
        "query_words": dict(value.query_words),
        "candidates": [_explained(each) for each in value.candidates],
        "trimming": None if trimming is None else _trimming(trimming),
        **slots,
    }


def _explained(value: ExplainedCandidate) -> dict[str, Any]:
    form = _rounded(plain(value))
    return {"uri": value.address.uri, **{name: each for name, each in form.items() if name != "address"}}


def _trimming(value: Trimming) -> dict[str, Any]:
    def uri(address: Address | None) -> str | None:
        return None if address is None else address.uri

    values = []
    for each in value.values:
        shares = {name: round(getattr(each, name), SCORE_DIGITS) for name in ("total", *dict(value.weights))}
        values.append({"uri": uri(each.address), **shares, "redundant_with": uri(each.redundant_with)})
    return {"weights": dict(value.weights), "values": values}


def _rounded(value: Any) -> Any:
    """Return a form with its numbers at the digits that scores have."""
    if isinstance(value, float):
        return round(value, SCORE_DIGITS)
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value


def _tools(value: ToolList) -> dict[str, Any]:
    items = [{"uri": each.address.uri, "abstract": each.abstract} for each in value.items]
    return {"items": items, "mcp": value.mcp(), "openai": value.openai()}


def _found(value: Found) -> dict[str, Any]:
    return {"entries": [_hit(hit) for hit in value.hits]}


def _hit(hit: Hit) -> dict[str, Any]:
    candidate = hit.candidate
    return {
        "uri": candidate.address.uri,
        "family": candidate.address.family,
        "kind": candidate.kind,
        "category": candidate.category,
        "score": round(hit.score, SCORE_DIGITS),
        "match": round(hit.match, SCORE_DIGITS),
        "channels": list(hit.channels),
        "title": candidate.title,
        "abstract": candidate.abstract,
        "tags": list(candidate.tags),
        "created_at": _time(candidate.created_at),
        "updated_at": _time(candidate.updated_at),
        "event_time": _time(candidate.event_time),
        "thread": candidate.thread,
        "position": candidate.position,
        "confidence": candidate.confidence,
        "layer": candidate.layer,
        "origin": candidate.origin,
        "body_bytes": candidate.body_bytes,
    }


def _item(item: Item) -> dict[str, Any]:
    return {field.name: _plain(getattr(item, field.name)) for field in attrs.fields(Item)}


def _revision(value: Revision) -> dict[str, Any]:
    return {"uri": value.address.uri, "revision": value.address.revision, "state": value.state, **_item(value.item)}


def _put_result(value: PutResult) -> dict[str, Any]:
    return {"uri": value.address.uri, "outcome": value.outcome}


def _pack(value: ContextPack) -> dict[str, Any]:
    stats = {field.name: _plain(getattr(value.stats, field.name)) for field in attrs.fields(SearchStats)}
    stats["top_match"] = None if value.stats.top_match is None else round(value.stats.top_match, SCORE_DIGITS)
    stats["failed"] = dict(value.stats.failed)
    if value.tools is None:
        del stats["split"]
    stats["gate"] = None if value.stats.gate is None else _rounded(plain(value.stats.gate))
    form: dict[str, Any] = {
        "entries": [_pack_entry(entry) for entry in value.entries],
        "rendered": value.rendered,
        "digest": value.digest,
        "stats": stats,
    }
    if value.tools is not None:
        form |= {"inject": value.inject, "tools": _tools(value.tools)}
    if value.deprecated:
        form["deprecated"] = list(value.deprecated)
    if value.receipt is not None:
        form["receipt"] = plain(value.receipt)
    return form


def _pack_entry(value: PackEntry) -> dict[str, Any]:
    return {
        "uri": value.uri,
        "ref": value.ref,
        "bucket": value.bucket,
        "category": value.category,
        "family": value.address.family,
        "score": round(value.score, SCORE_DIGITS),
        "match": round(value.match, SCORE_DIGITS),
        "detail": value.detail,
        "text": value.text,
        "cut": value.cut,
        "origin": value.origin,
        "tokens": value.tokens,
    }


def _session(value: Session) -> dict[str, Any]:
    return {
        "scope_id": value.key.scope_id,
        "session_id": value.key.session_id,
        "turns": value.turns,
        "overview": value.overview,
        "abstracts": list(value.abstracts),
        "messages": [
            {field.name: _plain(getattr(message, field.name)) for field in attrs.fields(Message)}
            for message in value.messages
        ],
        "count": value.count,
    }


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return _time(value)
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def _time(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat().replace("+00:00", "Z")


_FORMS: dict[type, Any] = {
    PreparedContext: _prepared,
    Found: _found,
    Revision: _revision,
    Item: _item,
    PutResult: _put_result,
    Explanation: _explanation,
    Session: _session,
    ContextPack: _pack,
    ReceiptV1: plain,
    ReceiptV2: plain,
}


def canonical(response: Any) -> bytes:
    """Return the form in which two answers are compared: sorted keys, compact, nothing that merely measures the call.

    ``timings_ms``, ``receipt_id``, ``request_id`` and stage durations are left out, except inside ``meta``, which is
    stored content.

    Args:
        response: a response object, or its JSON form.
    """
    form = response if isinstance(response, dict) else to_json(response)
    return json.dumps(
        _stable(form), ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
    ).encode()


def _stable(value: Any) -> Any:
    if isinstance(value, list):
        return [_stable(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: each if key == "meta" else _stable(each) for key, each in value.items() if key not in VOLATILE}
