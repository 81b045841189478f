"""Whatever a store raises, in whatever call: the error is of this package, names the store, and shows no secret."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import attrs
import pytest

import powerctx_core as powerctx
from powerctx_core import Item, MemoryStore, PowerctxError, StoreError, StoreSpec, hookimpl

SECRET = 'hunter2-"é'
FORMS = ("hunter2", "\\xe9", "%22")
URL = "leaky://me:pass-in-url@host/db"
URI = "powerctx://s/memory/a"


@attrs.frozen
class _Settings:
    """Settings with a secret."""

    api_key: str = ""


class Leaky(MemoryStore):
    """A store in memory, of which one thing fails once it is broken."""

    broken: str = ""
    error: BaseException = RuntimeError()

    def __getattribute__(self, name: str) -> Any:
        """Give an attribute, or what stands before one that fails."""
        broken = object.__getattribute__(self, "broken")
        if name == broken:
            raise object.__getattribute__(self, "error")
        value = super().__getattribute__(name)
        if name in ("catalogue", "usage") and broken.startswith(f"{name}."):
            return _Failing(value, broken.partition(".")[2], object.__getattribute__(self, "error"))
        return value


class _Failing:
    """Something of which one method, or one of what it gives, fails."""

    def __init__(self, inner: Any, broken: str, error: BaseException) -> None:
        self._inner, self._broken, self._error = inner, broken, error

    def __getattr__(self, name: str) -> Any:
        first, _, rest = self._broken.partition(".")
        if name != first:
            return getattr(self._inner, name)
        if not rest:
            raise self._error
        return lambda *given, **more: _Snapshot(getattr(self._inner, name)(*given, **more), rest, self._error)


class _Snapshot(_Failing):
    def __enter__(self) -> _Failing:
        return _Failing(self._inner.__enter__(), self._broken, self._error)

    def __exit__(self, *given: object) -> Any:
        return self._inner.__exit__(*given)


def _ask(ctx: powerctx.Context, **more: Any) -> Any:
    return ctx.prepare("apple", scope_id="s", **more)


CALLS = {
    "put": ("catalogue.put", lambda ctx: ctx.put([Item(scope_id="s", text="pear")])),
    "get": ("catalogue.snapshot.latest", lambda ctx: ctx.get(URI)),
    "history": ("catalogue.snapshot.history", lambda ctx: ctx.history(URI)),
    "retire": ("catalogue.retire", lambda ctx: ctx.retire(URI)),
    "purge": ("catalogue.purge", lambda ctx: ctx.purge(URI)),
    "mark_used": ("usage.add", lambda ctx: ctx.mark_used(URI)),
    "partitions": ("catalogue.snapshot.partitions", lambda ctx: ctx.partitions()),
    "snapshot": ("catalogue.snapshot", lambda ctx: ctx.partitions()),
    "warm": ("catalogue.snapshot.partitions", lambda ctx: ctx.warm()),
    "reindex": ("catalogue.reindex", lambda ctx: list(ctx.reindex())),
    "status": ("status", lambda ctx: ctx.status()),
    "catalogue": ("catalogue", lambda ctx: ctx.retire(URI)),
    "lexical": ("catalogue.snapshot.lexical", _ask),
    "lexical in time": ("catalogue.snapshot.lexical", lambda ctx: _ask(ctx, deadline_ms=60_000)),
    "fetch": ("catalogue.snapshot.fetch", _ask),
    "find": ("catalogue.snapshot.fetch", lambda ctx: ctx.find("apple", scope_id="s")),
    "counts": ("usage.counts", lambda ctx: _ask(ctx, trim="value")),
}
ERRORS = {
    "raw": RuntimeError(f"no access with {SECRET} to {URL}"),
    "quoted": KeyError(SECRET),
    "own": StoreError(f"no access with {SECRET} to {URL}"),
    "exit": SystemExit(f"no {SECRET}"),
    "abrupt": GeneratorExit(SECRET),
}


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
@pytest.mark.parametrize("call", CALLS)
def test_every_call(call: str, error: BaseException) -> None:
    """An error of any kind is told as the store's, in one safe sentence."""
    broken, ask = CALLS[call]
    store = Leaky("memory://", None)

    @hookimpl
    def powerctx_stores() -> list[StoreSpec]:
        return [StoreSpec(name="leaky", schemes=("leaky",), factory=lambda url, settings: store, settings=_Settings)]

    plugin = SimpleNamespace(__name__="leaks", powerctx_stores=powerctx_stores)
    settings = {"parts": {"leaky": {"api_key": SECRET}}}
    with powerctx.open(URL, plugins=(), extra=[plugin], settings=settings) as ctx:
        ctx.put([Item(scope_id="s", artifact_id="a", text="apple")])
        store.broken, store.error = broken, error
        with pytest.raises(PowerctxError) as caught:
            ask(ctx)
        store.broken = ""
        assert _ask(ctx).content

    message = str(caught.value)
    assert isinstance(caught.value, StoreError)
    assert not any(form in message for form in (*FORMS, "pass-in-url"))
    if not isinstance(error, StoreError):
        assert "store 'leaky' of (given)" in message or "how often items were used" in message
