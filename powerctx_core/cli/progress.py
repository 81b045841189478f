"""A progress bar on standard error, when that is a terminal."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from powerctx_core.cli import output

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["Bar"]

STEP = 1 << 15


class Bar:
    """Shows how far a long command is; nothing without a terminal.  A context manager.

    Args:
        total: units of the whole, 0 when unknown.
        sizes: the units are bytes.
        wanted: ``False`` shows nothing.
    """

    def __init__(self, label: str, total: int, *, sizes: bool = False, wanted: bool = True) -> None:
        self._label = label
        self._total = total
        self._sizes = sizes
        self._wanted = wanted and sys.stderr.isatty()
        self._waiting = 0
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if self._wanted:
            try:
                from rich.console import Console
                from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn
            except ModuleNotFoundError:
                return self
            done = DownloadColumn() if self._sizes else MofNCompleteColumn()
            columns = (TextColumn("{task.description}", markup=False), BarColumn(), done)
            self._progress = Progress(*columns, console=Console(file=sys.stderr), transient=True)
            self._task = self._progress.add_task(self._label, total=self._total or None)
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def advance(self, units: int) -> None:
        """Count *units* more as done."""
        if self._progress is None or self._task is None:
            return
        self._waiting += units
        if self._waiting >= STEP:  # telling the bar costs more than reading a line
            self._progress.advance(self._task, self._waiting)
            self._waiting = 0

    def show(self, done: int) -> None:
        """Set what is done."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done)

    def note(self, message: str) -> None:
        """Print one line on standard error, above the bar."""
        if self._progress is None:
            output.note(message)
        else:
            self._progress.console.print(output.plain(message), markup=False, highlight=False, soft_wrap=True)
            self._progress.console.file.flush()
