"""Calls on threads of their own, for the contracts that look at what happens at the same moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier, BrokenBarrierError
from typing import Any

__all__ = ["at_once", "meeting"]


def at_once(*calls: Callable[[], object]) -> list[Any]:
    """Run calls in threads of their own and return what they return, in their order.

    Raises:
        BaseException: what the first of them raised, where it did not merely miss the others at a barrier.
    """
    with ThreadPoolExecutor(len(calls)) as pool:
        futures = [pool.submit(call) for call in calls]
    errors = [error for future in futures if (error := future.exception()) is not None]
    # Who fails breaks the barrier, so that the others' errors are of its making.
    errors.sort(key=lambda error: isinstance(error, BrokenBarrierError))
    if errors:
        raise errors[0]
    return [future.result() for future in futures]


@contextmanager
def meeting(barrier: Barrier) -> Iterator[None]:
    """Surround what meets others at *barrier*: when it fails nobody waits there for it."""
    try:
        yield
    except BaseException:
        barrier.abort()
        raise
