"""Threads that belong to the core.  Every one is a daemon: nothing here ever holds interpreter exit."""

from __future__ import annotations

import contextvars
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import partial
from typing import Any, TypeVar

from powerctx_core.errors import PowerctxError
from powerctx_core.types import Deadline

__all__ = ["Lanes", "Workers", "awaited"]

_WIDTH = 4
_TURN_S, _TURN_SHARE = 0.01, 2.0
"""Longest turn of a job, and its length over the processor time that such jobs take."""
_FORGETTING = 0.25
"""Weight of the last job in what jobs of a pool are known to take."""
_OVERDUE_S = 1.0
"""How long after its deadline an awaited call that has begun is waited for: a busy machine lets it end late."""
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
        turn: most seconds that a job has before the next one begins beside it.  Jobs that compute share one
            interpreter: side by side each takes as long as all of them, and whoever wakes up meanwhile waits for each.
            So the next one begins when the last one has ended, or has had twice the processor time that such jobs take:
            those that wait for something else have next to no turn.
    """

    def __init__(self, limit: int, name: str, turn: float = 0.0) -> None:
        self.limit = limit
        self.turn = turn
        self._name = name
        self._last: tuple[Future[Any], float] | None = None
        """The job that began last, as long as it runs, and when its turn ends."""
        self._computes = 0.0
        """Seconds of processor time that a job takes."""
        self._watching = 0
        """Threads that wait for the end of a turn."""
        self._jobs: OrderedDict[Future[Any], tuple[Callable[[], Any], Deadline]] = OrderedDict()
        self._change = threading.Condition(threading.Lock())
        self._threads = 0
        self._free = 0
        """Threads that wait for a job, or are just starting, less the jobs that wait for a thread."""
        self._closed = False

    def submit(self, job: Callable[[], _T], until: Deadline = Deadline()) -> Future[_T]:
        """Run *job* on a worker, with the caller's context variables, and return its future.

        A future that is cancelled before a worker is free for it never runs, and nothing is kept of it.  Whatever the
        job raises becomes the future's exception.

        Args:
            job: what to do.
            until: when nobody waits for it any more; a job that has not begun by then is cancelled.

        Raises:
            PowerctxError: the pool was closed.
        """
        future: Future[_T] = Future()
        future.add_done_callback(self._forget)
        context = contextvars.copy_context()
        with self._change:
            if self._closed:
                raise PowerctxError("This context is closed; open a new one.")
            overdue = [each for each, (_, end) in self._jobs.items() if end.passed]
            self._jobs[future] = (lambda: context.run(job), until)
            self._free -= 1
            self._call()
        self._start()
        for each in overdue:
            each.cancel()
        return future

    def _forget(self, future: Future[Any]) -> None:
        """Take a job that was cancelled out of the queue: it may stand behind one that hangs for ever."""
        if not future.cancelled():
            return
        with self._change:
            waited = self._jobs.pop(future, None) is not None
            self._free += waited
        if waited:
            future.set_running_or_notify_cancel()  # whoever waits for it is told

    def widen(self, limit: int) -> None:
        """Allow *limit* threads, for the jobs that wait, too; never fewer than before."""
        with self._change:
            self.limit = max(limit, self.limit)
        self._start()

    def _start(self) -> None:
        """Start the threads that there is work for: a job never waits behind one that may hang while one can be had."""
        while True:
            with self._change:
                if self._free >= 0 or self._threads >= self.limit or self._closed:
                    return
                self._threads += 1
                self._free += 1
                number = self._threads
            # Not under the lock, which the thread needs to begin.
            threading.Thread(target=self._run, name=f"{self._name}-{number}", daemon=True).start()

    def close(self) -> None:
        """Let idle workers end; jobs that run are left alone.  Further calls do nothing."""
        with self._change:
            self._closed = True
            self._change.notify_all()

    def _run(self) -> None:
        while (taken := self._next()) is not None:
            future, job, until = taken
            if until.passed:
                future.cancel()
            if future.set_running_or_notify_cancel():
                self._finish(future, job)
            else:
                self._free_again(future)
            # The frame must not keep the job's values alive while it waits for the next one.
            del future, job, taken

    def _next(self) -> tuple[Future[Any], Callable[[], Any], Deadline] | None:
        """Wait for a job and take it; ``None`` when there is none and the pool was closed."""
        with self._change:
            while (left := self._left()) != 0.0:
                if left is None and self._closed:
                    return None
                self._watching += left is not None
                self._change.wait(left)
                self._watching -= left is not None
            future, (job, until) = self._jobs.popitem(last=False)
            if self.turn:
                self._last = future, time.monotonic() + min(self.turn, _TURN_SHARE * self._computes)
            self._call()
            return future, job, until

    def _call(self) -> None:
        """Wake a thread for the next job, or to wait for its turn when no other one does; the lock is held."""
        left = self._left()
        if left == 0.0 or (left is not None and not self._watching):
            self._change.notify()

    def _left(self) -> float | None:
        """Return the seconds until the next job may begin; ``None`` without one; the lock is held."""
        if not self._jobs:
            return None
        return 0.0 if self._last is None else max(0.0, self._last[1] - time.monotonic())

    def _finish(self, future: Future[Any], job: Callable[[], Any]) -> None:
        begun = time.thread_time()
        try:
            result = job()
        except BaseException as error:
            self._free_again(future, time.thread_time() - begun)
            future.set_exception(error)
        else:
            # Before the result is known, so that whoever waits for it finds this thread free for the next job.
            self._free_again(future, time.thread_time() - begun)
            future.set_result(result)

    def _free_again(self, future: Future[Any], computed: float | None = None) -> None:
        with self._change:
            self._free += 1
            if computed is not None:
                self._computes += (computed - self._computes) * _FORGETTING
            if self._last is not None and self._last[0] is future:
                self._last = None


class Lanes:
    """Daemon workers for parts that may hang: a few threads for each name, so that none waits for another's.

    A caller that stops waiting says so by :meth:`leave`.  While a worker that was left has not returned, :meth:`ask`
    gives its name no further one.  A name has one worker until a first job of it has returned, then up to *width*: what
    hangs from the start costs one thread, what begins to hang later those of the calls that wait for it then.  Jobs
    that compute have turns.
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
            left = self._still_left(lane)
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
                pool = self._pools[lane] = Workers(1, f"{self._name}-{lane}", _TURN_S)
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
            left = self._still_left(lane)
            if not future.done():
                self._left[lane] = {**left, future: time.monotonic()}

    def _still_left(self, lane: str) -> dict[Future[Any], float]:
        """Return the jobs that were left and still run, and forget the others; the lock is held."""
        left = {job: since for job, since in self._left.pop(lane, {}).items() if not job.done()}
        if left:
            self._left[lane] = left
        return left

    def close(self) -> None:
        """Let idle workers end; jobs that run are left alone.  Further calls do nothing."""
        with self._lock:
            self._closed = True
            pools = list(self._pools.values())
        for pool in pools:
            pool.close()


async def awaited(threads: Workers, call: Callable[[Deadline], _T], deadline: Deadline) -> _T:
    """Return the result of *call*, made on one of *threads*; without one by *deadline*, that of a call that is late."""
    import asyncio  # who does not await does not load it

    future = threads.submit(partial(call, deadline))
    answer = asyncio.wrap_future(future)
    try:
        await asyncio.wait([answer], timeout=deadline.remaining())
        if not answer.done() and not future.cancel():
            await asyncio.wait([answer], timeout=_OVERDUE_S)
        if answer.done() and not answer.cancelled():
            return answer.result()
    finally:
        future.cancel()
        answer.cancel()  # what it ends with later is nobody's
    # It asks for nothing any more, so that it does not keep the event loop.
    return call(Deadline.after(0.0))
