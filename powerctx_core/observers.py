"""Gives finished calls to sinks, each on a thread of its own: none delays a call, another sink, or the end."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from powerctx_core.errors import kind
from powerctx_core.ports import Sink

__all__ = ["Observers", "within"]

_LOGGER = logging.getLogger("powerctx")
_WAITING: Final = 1000


class Observers:
    """Hands events to sinks, in order, and never waits for one.

    Each sink has one daemon thread from its first event on.  While more than 1000 events wait for it, as when it hangs,
    further ones are dropped and counted.  What it raises is logged once by its name and type, and it is called again
    for the next event.
    """

    def __init__(self, sinks: Mapping[str, Sink]) -> None:
        self._watched = tuple(_Watched(name, sink) for name, sink in sinks.items())

    def notify(self, event: Any) -> None:
        """Hand *event* to every sink; returns at once."""
        for each in self._watched:
            each.notify(event)

    @property
    def dropped(self) -> Mapping[str, int]:
        """Name of each sink that missed events -> how many."""
        return {each.name: each.dropped for each in self._watched if each.dropped}

    def close(self, timeout: float = 1.0) -> None:
        """Give what is waiting up to *timeout* seconds in all, then stop.  Further calls do nothing."""
        end = time.monotonic() + timeout
        for each in self._watched:
            each.stop()
        for each in self._watched:
            each.join(max(0.0, end - time.monotonic()))


class _Watched:
    """One sink, its thread and what waits for it."""

    def __init__(self, name: str, sink: Sink) -> None:
        self.name = name
        self.dropped = 0
        self._sink = sink
        # One place is left for the word to stop.
        self._events: queue.Queue[Any] = queue.Queue(_WAITING + 1)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._abandoned = False
        self._failed = False

    def notify(self, event: Any) -> None:
        with self._lock:
            if self._stopped:
                return
            if self._events.qsize() >= _WAITING:
                self.dropped += 1
                first = self.dropped == 1
            else:
                self._events.put_nowait(event)
                first = False
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"powerctx-sink-{self.name}", daemon=True)
                self._thread.start()
        if first:
            _LOGGER.warning("sink %s is slow or hangs: %d events wait, further ones are dropped", self.name, _WAITING)

    def stop(self) -> None:
        """Take no further events; those that wait are still given."""
        with self._lock:
            if not self._stopped:
                self._stopped = True
                self._events.put_nowait(_END)

    def join(self, timeout: float) -> None:
        """Wait up to *timeout* seconds for the last event; what waits then is given up."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        thread.join(timeout)
        self._abandoned = True
        # The last one is the word to stop.
        if missed := self.dropped + max(0, self._events.qsize() - 1):
            _LOGGER.warning("sink %s missed %d events", self.name, missed)

    def _run(self) -> None:
        while (event := self._events.get()) is not _END and not self._abandoned:
            try:
                self._sink.observe(event)
            except BaseException as error:  # the thread is all that it can end
                if not self._failed:
                    self._failed = True
                    _LOGGER.warning("sink %s failed: %s", self.name, kind(error))


_END: Final = object()


def within(seconds: float, job: Callable[[], object]) -> bool:
    """Run *job* on a daemon thread, wait up to *seconds* for it, and return whether it has ended.

    Raises:
        BaseException: what *job* raised in that time.
    """
    raised: list[BaseException] = []

    def run() -> None:
        try:
            job()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name="powerctx-closing", daemon=True)
    thread.start()
    thread.join(seconds)
    if raised:
        raise raised[0]
    return not thread.is_alive()
