"""The engine's vector index after a start: loaded in the background, while searches compare every vector.

The first search that uses the index makes the engine load it, or build it when it was never rebuilt (47 s for 30 000
vectors), and the engine's own limits end that search before.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from powerctx_core.errors import PowerctxError
from powerctx_oceanbase import vector_statements as sql
from powerctx_oceanbase.ddl import vector_index
from powerctx_oceanbase.unfinished import WAYS_OUT

if TYPE_CHECKING:
    from powerctx_oceanbase.database import OceanBaseDatabase

__all__ = ["Warming"]

_LOGGER = logging.getLogger("powerctx")
_LIMIT_US = 3_600_000_000
_TRIES, _PAUSE = 20, 1.0


class Warming:
    """Loads the index of a model once a process, on a thread that holds nothing up."""

    def __init__(self, database: OceanBaseDatabase) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._begun: int | None = None
        self._done: int | None = None
        self._since = 0.0
        self._failed: str | None = None
        self._closed = threading.Event()

    def begin(self, number: int, dimensions: int) -> None:
        """Begin to load the index of a model, unless that was begun; returns at once."""
        with self._lock:
            if self._begun == number or self._closed.is_set():
                return
            self._begun, self._failed, self._since = number, None, time.monotonic()
            threading.Thread(
                target=self._run, args=(number, dimensions), name="powerctx-vector-index", daemon=True
            ).start()

    def warm(self, number: int, dimensions: int) -> bool:
        """Whether searches may use the index; begins to load it."""
        if self._done == number:
            return True
        self.begin(number, dimensions)
        return False

    def problem(self) -> str | None:
        """Return what ``doctor`` says, or ``None`` when the index is ready or not needed."""
        if self._failed is not None:
            return f"The vector index could not be loaded; searches compare every vector instead. {self._failed}"
        if self._begun == self._done:
            return None
        return (
            f"The engine is loading its vector index, for {time.monotonic() - self._since:.0f} seconds now; until then "
            "searches of large scopes compare every vector, which is right and slower."
        )

    def _run(self, number: int, dimensions: int) -> None:
        vector = b"\0\0\x80?" + bytes(4 * (dimensions - 1))
        for left in reversed(range(_TRIES)):
            try:
                with self._database.connected(_LIMIT_US) as connection, self._database.told("load the vector index"):
                    connection.exec_driver_sql(sql.approximate_any(number), (vector, vector, 1)).all()
            except PowerctxError as error:
                if not left and not self._closed.is_set():
                    self._failed = str(error)
                    _LOGGER.warning("%s", error)
                if self._closed.wait(_PAUSE):
                    return
            else:
                self._done = number
                return

    def rebuild(self, number: int) -> None:
        """Make the index of a model anew; waits for it."""
        if (hindered := self._database.hindered("rebuild the vector index", *WAYS_OUT)) is not None:
            raise hindered
        with self._database.connected(_LIMIT_US) as connection, self._database.told("rebuild the vector index"):
            call = "CALL DBMS_VECTOR.REBUILD_INDEX(%s, %s, 'embedding')"
            connection.exec_driver_sql(call, (vector_index(number), f"vector_{number}"))

    def close(self) -> None:
        """Stop trying; a statement that runs ends with the engine's connection."""
        self._closed.set()
