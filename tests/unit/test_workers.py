"""Threads of the core."""

from __future__ import annotations

import logging
import threading
from asyncio import CancelledError

import pytest

from powerctx_core.workers import Observers


class _Recording:
    def __init__(self) -> None:
        self.events: list[object] = []
        self.threads: set[str] = set()

    def observe(self, event: object) -> None:
        self.events.append(event)
        self.threads.add(threading.current_thread().name)


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


def test_a_blocked_sink_never_delays_the_caller() -> None:
    """Events beyond the queue's length are dropped instead."""
    gate = threading.Event()

    class Blocked:
        def observe(self, event: object) -> None:
            gate.wait(30)

    observers = Observers({"blocked": Blocked()})
    for number in range(3000):
        observers.notify(number)
    observers.close(timeout=0.01)
    gate.set()


def test_no_thread_without_sinks_or_events() -> None:
    """A context without sinks starts nothing."""
    before = threading.active_count()
    Observers({}).notify("event")
    Observers({"quiet": _Recording()}).close()

    assert before == threading.active_count()
