"""Threads that belong to the core.  Every one is a daemon: nothing here ever holds interpreter exit."""

from __future__ import annotations

import contextvars
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from powerctx_core.errors import PowerctxError
from powerctx_core.ports import Sink

__all__ = ["Lanes", "Observers", "Workers"]

_LOGGER = logging.getLogger("powerctx")
_WAITING = 1000
_WIDTH = 4
_RETURNING_S = 0.1
"""How long a worker that was left is taken to be late, and not to hang."""


_T = TypeVar("_T")


class Workers:
    """A small pool of daemon threads.

    Unlike the standard executor it never holds interpreter exit, whatever a job does: a job that hangs keeps its
    thread and nothing else.  Threads are started when there is work and none is idle, up to *limit*; jobs beyond that
    wait.

    Attributes:
        limit: the most threads.
    """

    def __init__(self, limit: int, name: str) -> None:
        self.limit = limit
        self._name = name
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._free = 0
        """Threads that wait for a job, or are just starting, less the jobs that wait for a thread."""
        self._closed = False

    def submit(self, job: Callable[[], _T]) -> Future[_T]:
        """Run *job* on a worker, with the caller's context variables, and return its future.

        A future that is cancelled before a worker is free for it never runs.  ``SystemExit`` becomes the future's
        exception.

        Raises:
            PowerctxError: the pool was closed.
        """
        future: Future[_T] = Future()
        context = contextvars.copy_context()
        with self._lock:
            if self._closed:
                raise PowerctxError("This context is closed; open a new one.")
            self._jobs.put((future, lambda: context.run(job)))
            self._free -= 1
            self._start()
        return future

    def widen(self, limit: int) -> None:
        """Allow *limit* threads, for the jobs that wait, too; never fewer than before."""
        with self._lock:
            self.limit = max(limit, self.limit)
            if not self._closed:
                self._start()

    def _start(self) -> None:
        """Start the threads that there is work for: a job never waits behind one that may hang while one can be had."""
        while self._free < 0 and self._threads < self.limit:
            self._threads += 1
            self._free += 1
            threading.Thread(target=self._run, name=f"{self._name}-{self._threads}", daemon=True).start()

    def close(self) -> None:
        """Let idle workers end; jobs that run are left alone.  Further calls do nothing."""
        with self._lock:
            if not self._closed:
                self._closed = True
                for _ in range(self._threads):
                    self._jobs.put(None)

    def _run(self) -> None:
        while (taken := self._jobs.get()) is not None:
            future, job = taken
            if future.set_running_or_notify_cancel():
                self._finish(future, job)
            else:
                self._free_again()
            # The frame must not keep the job's values alive while it waits for the next one.
            del future, job, taken

    def _finish(self, future: Future[Any], job: Callable[[], Any]) -> None:
        try:
            result = job()
        except BaseException as error:
            self._free_again()
            future.set_exception(error)
        else:
            # Before the result is known, so that whoever waits for it finds this thread free for the next job.
            self._free_again()
            future.set_result(result)

    def _free_again(self) -> None:
        with self._lock:
            self._free += 1


class Lanes:
    """Daemon workers for parts that may hang: a few threads for each name, so that none waits for another's.

    A caller that stops waiting says so by :meth:`leave`.  While a worker that was left has not returned, :meth:`ask`
    gives its name no further one.  A name has one worker until a first job of it has returned, then up to *width*: what
    hangs from the start costs one thread, what begins to hang later those of the calls that wait for it then.
    """

    def __init__(self, name: str, width: int = _WIDTH) -> None:
        self._name = name
        self._width = width
        self._lock = threading.Lock()
        self._pools: dict[str, Workers] = {}
        self._left: dict[str, dict[Future[Any], float]] = {}
        self._closed = False

    def ask(self, lane: str, job: Callable[[], _T], patience: float | None = 0.0) -> Future[_T] | None:
        """Run *job* on a worker of *lane*, as :meth:`Workers.submit`; ``None`` when one that was left still runs.

        Args:
            lane: name of the part.
            job: what to do.
            patience: seconds to wait for a worker that was left just now and may be about to return; ``None`` is as
                long as it is not taken to hang, a tenth of a second.

        Raises:
            PowerctxError: the lanes were closed.
        """
        with self._lock:
            left = {job: since for job, since in self._left.get(lane, {}).items() if not job.done()}
            self._left[lane] = left
        if left:
            grace = max(0.0, max(left.values()) + _RETURNING_S - time.monotonic())
            if wait(left, grace if patience is None else min(patience, grace)).not_done:
                return None
        return self.queue(lane, job)

    def queue(self, lane: str, job: Callable[[], _T]) -> Future[_T]:
        """Run *job* on the next free worker of *lane*, behind those that were left, too.

        Raises:
            PowerctxError: the lanes were closed.
        """
        with self._lock:
            pool = self._pools.get(lane)
            if pool is None:
                pool = self._pools[lane] = Workers(1, f"{self._name}-{lane}")
                if self._closed:
                    pool.close()
        future = pool.submit(job)
        if pool.limit < self._width:
            future.add_done_callback(lambda done: None if done.cancelled() else pool.widen(self._width))
        return future

    def leave(self, lane: str, future: Future[Any]) -> None:
        """Stop waiting for a job: it never runs when it has not begun, else its worker counts as left."""
        if future.cancel():
            return
        with self._lock:
            self._left[lane] = {**self._left.get(lane, {}), future: time.monotonic()}

    def close(self) -> None:
        """Let idle workers end; jobs that run are left alone.  Further calls do nothing."""
        with self._lock:
            self._closed = True
            pools = list(self._pools.values())
        for pool in pools:
            pool.close()


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
