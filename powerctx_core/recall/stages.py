"""How long the stages of one call take, when somebody wants to know."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType

from powerctx_core.receipt.parts import Stage

__all__ = ["Stages"]

_UNTIMED = nullcontext()


class Stages:
    """Notes each run of a stage, on whatever thread; does nothing when it is not *wanted*."""

    def __init__(self, *, wanted: bool = False) -> None:
        self._wanted = wanted
        self._runs: list[tuple[Stage, float]] = []

    def __call__(self, stage: Stage) -> AbstractContextManager[None]:
        """Return a block that is one run of *stage*."""
        return _Run(self._runs, stage) if self._wanted else _UNTIMED

    @property
    def runs(self) -> tuple[tuple[Stage, float], ...]:
        """Each run so far, with its seconds."""
        return tuple(self._runs)


class _Run:
    """One run of a stage."""

    __slots__ = ("_runs", "_stage", "_start")

    def __init__(self, runs: list[tuple[Stage, float]], stage: Stage) -> None:
        self._runs, self._stage = runs, stage

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runs.append((self._stage, time.perf_counter() - self._start))
