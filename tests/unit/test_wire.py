"""Serialised forms, and the strict way back."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, strategies as st

from powerctx_core import (
    Address,
    Diagnostics,
    FindRequest,
    Found,
    Hit,
    InvalidRequest,
    Item,
    PreparedContext,
    PrepareRequest,
    PutResult,
    RawCandidate,
    Revision,
)
from powerctx_core.errors import redacted
from powerctx_core.wire import canonical, structure, to_json

NOON = datetime(2026, 1, 31, 12, 0, 0, 250, tzinfo=UTC)
ADDRESS = Address("project:demo", "memory", "a/b", 2)
DIAGNOSTICS = Diagnostics(outcome="delivered", request_id="r-1", policy="p")
CANDIDATE = RawCandidate(
    address=ADDRESS,
    length=3,
    head="the body",
    body_bytes=8,
    category="events",
    abstract="short",
    tags=("x",),
    created_at=NOON,
    updated_at=NOON,
)


def test_prepared():
    """A prepared context has exactly four keys."""
    value = PreparedContext(status="ready", content="abc\n", content_bytes=4, diagnostics=DIAGNOSTICS)

    assert {
        "schema": "powercontext.prepared-context.v1",
        "status": "ready",
        "content": "abc\n",
        "content_bytes": 4,
    } == to_json(value)


def test_found():
    """Entries hold address, scores of six digits and the abstract, but no body and no diagnostics."""
    hit = Hit(candidate=CANDIDATE, score=1 / 3, match=0.12345678, channels=("fts",))

    form = to_json(Found(hits=(hit,), diagnostics=DIAGNOSTICS))

    assert ["entries"] == list(form)
    (entry,) = form["entries"]
    assert ("powerctx://project%3Ademo/memory/a/b@2", 0.333333, 0.123457, "short", "events") == tuple(
        entry[key] for key in ("uri", "score", "match", "abstract", "category")
    )
    assert ("2026-01-31T12:00:00.000250Z", None) == (entry["updated_at"], entry["event_time"])
    assert "the body" not in json.dumps(form)
    assert form == json.loads(json.dumps(form))


def test_revision_and_put_result():
    """A revision is its whole item with URI, revision and state; a put result is URI and outcome."""
    item = Item(scope_id="project:demo", artifact_id="a/b", text="t", tags=("x",), meta={"k": [1]}, created_at=NOON)

    form = to_json(Revision(address=ADDRESS, item=item, state="current"))

    assert {
        "uri": ADDRESS.uri,
        "revision": 2,
        "state": "current",
        "text": "t",
        "tags": ["x"],
        "meta": {"k": [1]},
        "created_at": "2026-01-31T12:00:00.000250Z",
        "event_time": None,
    }.items() <= form.items()
    assert form == json.loads(json.dumps(form))
    assert [{"uri": ADDRESS.uri, "outcome": "created"}] == to_json([PutResult(address=ADDRESS, outcome="created")])


def test_unknown_type():
    """A value without a serialised form is refused by name."""
    with pytest.raises(TypeError, match="Diagnostics has no serialised form; it exists for ContextPack, Exp"):
        to_json(DIAGNOSTICS)


def test_canonical():
    """The canonical form is sorted, compact and without what only measures the call, at any depth but in ``meta``."""
    response = {
        "b": 1,
        "timings_ms": {"x": 1.5},
        "a": "é",
        "receipt": {"receipt_id": "u", "request_id": "v", "stages": [{"stage": "plan", "duration_ms": 3, "count": 1}]},
        "meta": {"request_id": "mine"},
    }

    assert (
        '{"a":"é","b":1,"meta":{"request_id":"mine"},"receipt":{"stages":[{"count":1,"stage":"plan"}]}}'.encode()
        == canonical(response)
    )


def test_canonical_of_a_response():
    """Two answers that differ in diagnostics only have one canonical form."""
    first, second = (
        PreparedContext(
            status="empty",
            content=None,
            content_bytes=0,
            diagnostics=Diagnostics(outcome="no_match", request_id=request_id, policy="p"),
        )
        for request_id in ("1", "2")
    )

    assert canonical(first) == canonical(second)


def test_requests():
    """JSON becomes a request: lists to tuples, absent fields to defaults, times with their zone."""
    assert PrepareRequest(query="q", scope_id="s", references=("a", "b"), max_items=3) == structure(
        PrepareRequest, {"query": "q", "scope_id": "s", "references": ["a", "b"], "max_items": 3, "families": None}
    )
    found = structure(FindRequest, {"query": "q", "scope_id": "s", "since": "2026-01-31T12:00:00+02:00"})
    assert datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=2))) == found.since


@pytest.mark.parametrize(
    ("cls", "fields", "field", "message"),
    [
        (PrepareRequest, {"quer": "q"}, "quer", "quer is unknown; did you mean 'query'? allowed: query, scope_id"),
        (PrepareRequest, {"scope_id": None}, "scope_id", "scope_id must be a string, not None."),
        (PrepareRequest, {"max_items": 1.9}, "max_items", "max_items must be a whole number, not 1.9."),
        (PrepareRequest, {"max_items": "3"}, "max_items", "max_items must be a whole number, not '3'."),
        (PrepareRequest, {"max_items": True}, "max_items", "max_items must be a whole number, not True."),
        (PrepareRequest, {"max_items": 99}, "max_items", "max_items is 99; it must be a whole number from 1 to 64."),
        (PrepareRequest, {"references": "a"}, "references", "references must be a list, not 'a'."),
        (PrepareRequest, {"references": ["a", 1]}, "references", "references.1 must be a string, not 1."),
        (PrepareRequest, {"query": " "}, "query", "query must not be blank."),
        (
            FindRequest,
            {"since": "2026-01-31T12:00:00"},
            "since",
            "since must be a date and time with a zone, such as 2026-01-31T12:00:00Z, not '2026-01-31T12:00:00'.",
        ),
        (FindRequest, {"since": "yesterday"}, "since", "since must be a date and time with a zone"),
        (FindRequest, {"since": 1738324800}, "since", "since must be a date and time with a zone"),
        (FindRequest, {"time_field": "made"}, "time_field", "time_field 'made' is not one of created, updated, event."),
        (Item, {"meta": [1]}, "meta", "meta must be a mapping, not [1]."),
        (Item, {"confidence": "high"}, "confidence", "confidence must be a number, not 'high'."),
        (Item, {"layer": "L9"}, "layer", "layer 'L9' is not one of L0, L1, L2, L3."),
    ],
)
def test_refused(cls, fields, field, message):
    """A field that is unknown, of the wrong type or outside its limits is refused by name, with what is allowed."""
    base = {"scope_id": "s", "text": "t"} if cls is Item else {"query": "q", "scope_id": "s"}

    with pytest.raises(InvalidRequest) as caught:
        structure(cls, {**base, **fields})
    assert field == caught.value.field
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(("given_", "message"), [({}, "query is required."), ([], "PrepareRequest must be a mapping")])
def test_missing(given_, message):
    """What is required and absent is named; what is no object is refused."""
    with pytest.raises(InvalidRequest, match=message):
        structure(PrepareRequest, given_)


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20).filter(str.strip)


@given(
    st.builds(
        Item,
        scope_id=TEXT,
        text=TEXT,
        artifact_id=st.none() | TEXT,
        title=st.none() | TEXT,
        tags=st.lists(TEXT, max_size=3).map(tuple),
        event_time=st.none() | st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 (the zone is the strategy's)
        position=st.none() | st.integers(0, 1 << 40),
        confidence=st.none() | st.floats(0, 1),
        meta=st.dictionaries(TEXT, st.none() | st.booleans() | st.integers() | TEXT, max_size=3),
    )
)
def test_item_round_trip(item):
    """Any item comes back from its JSON text as it was."""
    assert item == structure(Item, json.loads(json.dumps(to_json(item))))


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("no route to db://me:pw@host/x?token=abc, giving up", "no route to db://***@host/x?token=***  giving up"),
        ("token=abc is no URL", "token=abc is no URL"),
        ("line one\ndb://a:b@c\nline three", "line one\ndb://***@c\nline three"),
    ],
)
def test_redacted(message, shown):
    """Only the URLs in a message lose their secrets; the rest of it stays."""
    assert shown.split() == redacted(message).split()
