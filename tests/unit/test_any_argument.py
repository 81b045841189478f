"""Whatever a caller passes: an answer, or one short error of powerctx's own that can be written down."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

import powerctx_core as powerctx
from powerctx_core import Address, FindRequest, InvalidRequest, Item, PowerctxError, PrepareRequest, SearchRequest

_MOST = 2000
"""Characters of an error, whatever it quotes."""


def nested(depth: int) -> list[Any]:
    """Return lists in lists, deeper than ``repr`` goes."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


LONG = "x" * 1_000_000
ODD = [
    "", " ", LONG, "\ud800", "a\0b", "\x1b[31m", b"x", -1, 10**400, 1e308, float("nan"), float("inf"), True, None, 1j,
    object(), [], [[]], nested(100_000), {}, {1: 1}, {"memory": LONG}, {"a": float("nan")}, ("\ud800",), (LONG,),
    ("a\0",), ("memory/%ff",), {1},
]  # fmt: skip


@pytest.fixture
def ctx() -> Iterator[powerctx.Context]:
    """A store with one item."""
    with powerctx.open("memory://", plugins=(), settings={}) as context:
        context.put([Item(scope_id="s", family="memory", artifact_id="a", text="tides turn")])
        yield context


@contextlib.contextmanager
def told(what: str) -> Iterator[None]:
    """Hold that what is raised is powerctx's own, short, and text."""
    message = ""
    try:
        yield
    except PowerctxError as error:
        message = str(error)
    assert len(message) <= _MOST, what
    assert message.replace("\n", "").isprintable(), what


@pytest.mark.parametrize(
    ("call", "request_class", "more"),
    [
        ("prepare", PrepareRequest, {}),
        ("find", FindRequest, {}),
        ("search", SearchRequest, {"mode": "list"}),
        ("search", SearchRequest, {"mode": "context"}),
        ("search", SearchRequest, {"mode": "bootstrap"}),
    ],
)
def test_any_field(ctx: powerctx.Context, call: str, request_class: Any, more: dict[str, Any]) -> None:
    """Each field of a request takes a value or refuses it."""
    query = None if more.get("mode") == "bootstrap" else "tides"
    for field in attrs.fields(request_class):
        for value in ODD if field.name != "query" else ():
            with told(field.name):
                getattr(ctx, call)(query, **{"scope_id": "s", **more, field.name: value})


@pytest.mark.parametrize("call", ["get", "history", "retire", "purge", "mark_used"])
def test_any_place(ctx: powerctx.Context, call: str) -> None:
    """URIs, addresses and scopes of what is read or changed are taken or refused; nothing else is changed."""
    for value in (*ODD, b"s"):
        for uri, scope in (
            (value, "s"),
            ([value], "s"),
            ("memory/none", value),
            (Address("s", "memory", "none", value), None),
            (Address(value, "memory", "a", 1), None),
            (Address("s", value, "none", 1), None),
        ):
            with told(call):
                getattr(ctx, call)(uri, scope_id=scope)

    assert ctx.get("powerctx://s/memory/a").item.text == "tides turn"


@pytest.mark.parametrize("call", ["get", "history", "retire", "purge", "mark_used"])
@pytest.mark.parametrize("scope", [b"s", 5, "", "\ud800", "a\0b", [], "s" * 300])
@pytest.mark.parametrize("uri", ["memory/a", "powerctx://s/memory/a"])
def test_a_scope_that_is_none(ctx: powerctx.Context, call: str, scope: Any, uri: str) -> None:
    """A scope that cannot be one is refused as such, and no other one is meant by it."""
    with pytest.raises(InvalidRequest, match="scope_id"):
        getattr(ctx, call)(uri, scope_id=scope)

    assert ctx.get("powerctx://s/memory/a").item.text == "tides turn"
