"""How many threads numpy's BLAS may use."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import numpy as np  # noqa: F401 - so that its BLAS is there to be found
from threadpoolctl import OpenBLASController, ThreadpoolController  # type: ignore[import-untyped]  # no type information

__all__ = ["blas_threads"]


class _Limit:
    """The limit of the process: the first of several users that overlap sets it, the last one sets it back.

    They may be different threads, so none keeps the control that threadpoolctl gives to whoever sets a limit.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._set: Any = None

    def take(self, most: int) -> None:
        with self._lock:
            if not self._users and any(library["num_threads"] > most for library in _controller().info()):
                self._set = _controller().limit(limits=most, user_api="blas")
                OpenBLASController.clear_controlling_thread()
            self._users += 1

    def give_back(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users and self._set is not None:
                self._set.restore_original_limits()
                self._set = None
                OpenBLASController.clear_controlling_thread()


_LIMIT: Final = _Limit()


@cache
def _controller() -> Any:
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def blas_threads(most: int) -> Iterator[None]:
    """Let BLAS use at most *most* threads, or as many as it likes for 0.

    A matrix of forty rows is not worth a second thread, and threads that wait by spinning cost eight times the time on
    a machine with other work.  Where threads share a matrix, some of BLAS's kernels round differently, so that the last
    bits of a vector would depend on their number.  BLAS knows one number for the whole process: of contexts that
    overlap, on whatever thread, the first sets it and the last sets it back.
    """
    if not most:
        yield
        return
    _LIMIT.take(most)
    try:
        yield
    finally:
        _LIMIT.give_back()
