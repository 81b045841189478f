"""Threads that belong to the core.  Every one is a daemon: nothing here ever holds interpreter exit."""

from __future__ import annotations

import contextvars
import logging
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from powerctx_core.ports import Sink

__all__ = ["Observers", "Workers"]

_LOGGER = logging.getLogger("powerctx")
_WAITING = 1000


_T = TypeVar("_T")


class Workers:
    """A small pool of daemon threads.

    Unlike the standard executor it never holds interpreter exit, whatever a job does: a job that hangs keeps its
    thread and nothing else.  Threads are started when there is work and none is idle, up to *limit*; jobs beyond that
    wait.
    """

    def __init__(self, limit: int, name: str) -> None:
        self._limit = limit
        self._name = name
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0
        self._closed = False

    def submit(self, job: Callable[[], _T]) -> Future[_T]:
        """Run *job* on a worker, with the caller's context variables, and return its future.

        A future that is cancelled before a worker is free for it never runs.  ``SystemExit`` becomes the future's
        exception.

        Raises:
            RuntimeError: the pool was closed.
        """
        future: Future[_T] = Future()
        context = contextvars.copy_context()
        with self._lock:
            if self._closed:
                raise RuntimeError("the worker pool is closed")
            self._jobs.put((future, lambda: context.run(job)))
            if self._idle == 0 and self._threads < self._limit:
                self._threads += 1
                threading.Thread(target=self._run, name=f"{self._name}-{self._threads}", daemon=True).start()
        return future

    def close(self) -> None:
        """Let idle workers end; jobs that run are left alone.  Further calls do nothing."""
        with self._lock:
            if not self._closed:
                self._closed = True
                for _ in range(self._threads):
                    self._jobs.put(None)

    def _run(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            taken = self._jobs.get()
            with self._lock:
                self._idle -= 1
            if taken is None:
                return
            future, job = taken
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(job())
                except BaseException as error:
                    future.set_exception(error)
                # The frame must not keep the job's values alive while it waits for the next one.
                del future, job, taken


class Observers:
    """Gives events to sinks on one thread of its own, in order, without delaying the caller.

    When more than 1000 events wait, new ones are dropped.  A sink that fails is logged once by name and called again
    for the next event.
    """

    def __init__(self, sinks: Mapping[str, Sink]) -> None:
        self._sinks = dict(sinks)
        self._events: queue.Queue[Any] = queue.Queue(_WAITING)
        self._failed: set[str] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def notify(self, event: Any) -> None:
        """Hand *event* over; returns at once."""
        if not self._sinks:
            return
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="powerctx-sinks", daemon=True)
                self._thread.start()
        try:
            self._events.put_nowait(event)
        except queue.Full:
            self._log_once("(queue)", "more than %d events are waiting; new ones are dropped", _WAITING)

    def close(self, timeout: float = 1.0) -> None:
        """Give what is waiting up to *timeout* seconds, then stop.  Further calls do nothing."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            try:
                self._events.put(None, timeout=timeout)
            except queue.Full:
                return
            thread.join(timeout)

    def _run(self) -> None:
        while (event := self._events.get()) is not None:
            for name, sink in self._sinks.items():
                try:
                    sink.observe(event)
                except (Exception, SystemExit) as error:
                    self._log_once(name, "sink %s failed: %s", name, type(error).__name__)

    def _log_once(self, name: str, message: str, *values: object) -> None:
        if name not in self._failed:
            self._failed.add(name)
            _LOGGER.warning(message, *values)
