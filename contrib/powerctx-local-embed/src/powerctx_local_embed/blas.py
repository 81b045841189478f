"""How many threads numpy's BLAS may use."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import numpy as np  # noqa: F401 - so that its BLAS is there to be found
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # no type information

__all__ = ["blas_threads"]

_lock: Final = threading.Lock()


@cache
def _controller() -> Any:
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def blas_threads(most: int) -> Iterator[None]:
    """Let BLAS use at most *most* threads, or as many as it likes for 0.

    A matrix of forty rows is not worth a second thread, and threads that wait by spinning cost eight times the time on
    a machine with other work.  BLAS knows one number for the whole process.  So only the first of several contexts that
    overlap, on whatever thread, sets it, and sets it back when it ends; what is left of the others then runs on more
    threads, which changes speed but no result.
    """
    if not most:
        yield
        return
    controller = _controller()
    limit = None
    with _lock:
        if any(library["num_threads"] > most for library in controller.info()):
            limit = controller.limit(limits=most, user_api="blas")
            limit.__enter__()
    try:
        yield
    finally:
        if limit is not None:
            with _lock:
                limit.__exit__(None, None, None)
