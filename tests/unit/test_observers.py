"""Sinks: told of everything, by threads of their own, so that none delays a call, another sink or the end."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from asyncio import CancelledError
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import powerctx_core as powerctx
from powerctx_core import Item, SinkSpec, hookimpl
from powerctx_core.observers import Observers
from powerctx_core.types import RecallEffort


class _Recording:
    def __init__(self) -> None:
        self.events: list[object] = []
        self.threads: set[str] = set()
        self.told = threading.Semaphore(0)

    def observe(self, event: object) -> None:
        self.events.append(event)
        self.threads.add(threading.current_thread().name)
        self.told.release()


class _Failing:
    def __init__(self, kind: type[BaseException] = SystemExit) -> None:
        self._kind = kind

    def observe(self, event: object) -> None:
        raise self._kind(f"secret {event}")


def test_sinks_see_every_event_in_order_on_another_thread() -> None:
    """Closing waits for what was handed over before."""
    sink = _Recording()
    observers = Observers({"recording": sink})

    for number in range(100):
        observers.notify(number)
    observers.close()
    observers.close()

    assert list(range(100)) == sink.events
    assert threading.current_thread().name not in sink.threads


@pytest.mark.parametrize("kind", [SystemExit, GeneratorExit, CancelledError, KeyboardInterrupt, RuntimeError])
def test_a_failing_sink_is_logged_once_and_harms_nobody(
    kind: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever is raised stays inside; the log names the sink and holds nothing of the event."""
    sink = _Recording()
    observers = Observers({"bad": _Failing(kind), "good": sink})

    with caplog.at_level(logging.WARNING, "powerctx"):
        observers.notify("canary")
        observers.notify("canary")
        observers.close()

    assert sink.events == ["canary", "canary"]
    assert [record.getMessage() for record in caplog.records] == [f"sink bad failed: {kind.__name__}"]


class _Blocked:
    """Blocks until it is released, then records."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.release = threading.Event()
        self.ended = threading.Event()
        self.events: list[object] = []

    def observe(self, event: object) -> None:
        self.begun.set()
        self.release.wait(60)
        self.events.append(event)
        self.ended.set()


@pytest.fixture
def blocked() -> Iterator[_Blocked]:
    """A sink that hangs as long as the test runs."""
    sink = _Blocked()
    yield sink
    sink.release.set()


def test_a_sink_that_hangs_costs_nobody_anything(blocked: _Blocked, caplog: pytest.LogCaptureFixture) -> None:
    """It keeps one thread; others see every event; what it misses is counted, and told once and at the end."""
    good = _Recording()
    before = threading.active_count()
    observers = Observers({"blocked": blocked, "good": good})
    with caplog.at_level(logging.WARNING, "powerctx"):
        for number in range(3001):
            observers.notify(number)
            assert good.told.acquire(timeout=60)
            assert blocked.begun.wait(60)
        assert before + 2 == threading.active_count()
        dropped = dict(observers.dropped)
        observers.close(timeout=0.05)

    assert list(range(3001)) == good.events
    assert {"blocked": 2000} == dropped
    assert [
        "sink blocked is slow or hangs: 1000 events wait, further ones are dropped",
        "sink blocked missed 3000 events",
    ] == [record.getMessage() for record in caplog.records]


def test_after_the_end_nothing_is_given(blocked: _Blocked) -> None:
    """A sink that comes back when all is closed is left alone with what it had."""
    observers = Observers({"blocked": blocked})
    for number in range(10):
        observers.notify(number)
    assert blocked.begun.wait(60)
    observers.close(timeout=0.0)
    observers.notify(10)
    thread = next(each for each in threading.enumerate() if each.name == "powerctx-sink-blocked")
    blocked.release.set()
    thread.join(60)

    assert not thread.is_alive()
    assert [0] == blocked.events


def test_no_thread_without_sinks_or_events() -> None:
    """A context without sinks starts nothing."""
    before = threading.active_count()
    Observers({}).notify("event")
    Observers({"quiet": _Recording()}).close()

    assert before == threading.active_count()


def _opened(**sinks: Any) -> powerctx.Context:
    @hookimpl
    def powerctx_sinks() -> list[SinkSpec]:
        return [SinkSpec(name=name, factory=lambda settings, sink=sink: sink) for name, sink in sinks.items()]

    plugin = SimpleNamespace(__name__="watching", powerctx_sinks=powerctx_sinks)
    return powerctx.open("memory://", plugins=(), extra=[plugin], settings={"sinks": list(sinks)})


def test_a_sink_that_hangs_does_not_hold_the_close(blocked: _Blocked) -> None:
    """Neither in ``observe`` nor in its own ``close``: closing returns while it hangs still."""
    blocked.close = lambda: blocked.release.wait(60)  # type: ignore[attr-defined]  # a sink may have one
    context = _opened(blocked=blocked)
    context.prepare("alpha", scope_id="s")
    assert blocked.begun.wait(60)
    context.close()

    assert not blocked.release.is_set()
    assert not blocked.ended.is_set()


_HANGS = """
import threading, types
import powerctx_core as powerctx

class Hangs:
    def observe(self, event):
        threading.Event().wait()
    close = lambda self: threading.Event().wait()

@powerctx.hookimpl
def powerctx_sinks():
    return [powerctx.SinkSpec(name="hangs", factory=lambda settings: Hangs())]

ctx = powerctx.open("memory://", plugins=(), extra=[types.SimpleNamespace(__name__="x", powerctx_sinks=powerctx_sinks)],
                    settings={"sinks": ["hangs"]})
ctx.prepare("alpha", scope_id="s")
if CLOSED:
    ctx.close()
print("end")
"""


@pytest.mark.parametrize("closed", [True, False])
def test_a_sink_that_hangs_does_not_hold_the_end_of_the_program(closed: bool) -> None:
    """The process ends, whether the store was closed or not."""
    code = _HANGS.replace("CLOSED", str(closed))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False)

    assert (0, "end\n") == (done.returncode, done.stdout)


QUERY = "canary-question alpha beta gamma"


def test_effort_is_told_and_holds_numbers_alone() -> None:
    """A sink gets it with the outcome; it holds no word of query or items, no identity, and no verdict on an item."""
    sink = _Recording()
    with _opened(recording=sink) as context:
        context.put(
            Item(
                scope_id="s",
                artifact_id=f"canary-{number}",
                text=f"canary-text alpha {number}",
                title="canary-title",
                tags=("canary-tag",),
                meta={"canary-meta": 1},
            )
            for number in range(4)
        )
        prepared = context.prepare(QUERY, scope_id="s", gate="v2")
        plain = context.prepare(QUERY, scope_id="s")
        context.find(QUERY, scope_id="s")

    told: list[Any] = sink.events
    effort = told[0].effort
    assert prepared.diagnostics == told[0]
    assert isinstance(effort, RecallEffort)
    assert "canary" not in repr(effort)
    assert (None, None) == (told[1].effort, told[2].effort)
    assert plain.diagnostics == told[1]
    assert "canary-question" not in repr(told)
    assert "canary-t" not in repr(told)
    assert "canary-m" not in repr(told)
