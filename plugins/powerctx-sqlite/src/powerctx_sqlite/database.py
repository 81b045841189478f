"""Connections and transactions of one SQLite file."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from powerctx_core.errors import StoreError
from powerctx_core.types import Deadline
from powerctx_sqlalchemy import Database
from powerctx_sqlite.direct import driver_of, fetched
from powerctx_sqlite.failures import explained
from powerctx_sqlite.index import Fts5Index
from powerctx_sqlite.location import Location
from powerctx_sqlite.log import WriteAheadLog
from powerctx_sqlite.opening import Opened, Opening
from powerctx_sqlite.settings import SqliteSettings

__all__ = ["SqliteDatabase"]

_STEPS = 4000
"""Virtual machine instructions between two looks at the clock, below a millisecond."""


class SqliteDatabase(Database):
    """One file, or one private database in memory.

    A file is opened when it exists, and made by the first write.  Readers take a connection of a pool each and see the
    snapshot of their first statement; writers take turns.  In memory there is one connection, which everybody shares in
    turn.

    Readers, too, need the files that SQLite keeps beside the database while it is open for writing.  Who may not make
    them, or shall not, reads the file *sealed* while they do not exist: without locks, as if nobody could write it.
    Since somebody can, the file's stamp is compared at the beginning of a read, which opens the file anew when that has
    changed, and at its end, which refuses what was read.
    """

    errors = (sa.exc.SQLAlchemyError, sqlite3.Error)

    def __init__(self, location: Location, settings: SqliteSettings) -> None:
        self.location = location
        self._index = Fts5Index()
        self._opened: Opened | None = None
        self._opening = threading.Lock()
        self._shared: threading.RLock | None = threading.RLock() if location.path is None else None
        self._depth = 0
        self._closed = False
        self._wrote = False
        self.writable = location.writable() and not location.inspected
        self._log = WriteAheadLog(location, settings.busy_timeout_ms)
        self._places = Opening(self, location, settings, writable=self.writable, log=self._log)
        if location.path is None:
            self._opened = self._places.created()

    @property
    def index(self) -> Fts5Index:
        """The full-text index."""
        return self._index

    @property
    def name(self) -> str:
        """The path."""
        return self.location.name

    @property
    def _engine(self) -> sa.Engine | None:
        return None if self._opened is None else self._opened.engine

    @property
    def sealed(self) -> bool:
        """Whether the file is read as one that nobody writes."""
        return self._opened is not None and self._opened.sealed

    def exists(self) -> bool:
        """Whether there is a file with content."""
        return self.location.exists()

    def ready(self) -> bool:
        """Whether there is something to read; opens the file when it has come to exist.

        Raises:
            StoreUnavailable: there is a file that cannot be used.
            StoreError: the file that was open is not there any more.
        """
        opened = self._opened
        if opened is not None and self._places.is_current(opened):
            return True
        with self._opening:
            opened = self._opened
            if opened is not None:
                if self._places.is_current(opened):
                    return True
                self._opened = None
                opened.engine.dispose()
            if self._closed:
                raise StoreError(f"{self.location.name}: the store is closed; open it again.")
            if opened is not None or self.location.exists():
                self._opened = self._places.existing()
            return self._opened is not None

    @contextmanager
    def reading(self, deadline: Deadline) -> Iterator[sa.Connection | None]:
        """Open a read transaction; see :class:`powerctx_sqlalchemy.Database`."""
        if not self.ready():
            yield None
            return
        opened = self._usable()
        with self._unchanged(opened), self._connection(opened) as connection:
            driver = driver_of(connection)
            if deadline.at is not None:
                _limit(driver, deadline.at)
            try:
                with self.told("read"):
                    if not driver.in_transaction:
                        driver.execute("BEGIN")
                yield connection
            finally:
                if deadline.at is not None:
                    driver.set_progress_handler(None, 0)

    @contextmanager
    def _unchanged(self, opened: Opened) -> Iterator[None]:
        """Refuse what was read inside when the file was sealed and has changed since."""
        failure: Exception | None = None
        try:
            yield
        except Exception as error:
            if not opened.sealed:
                raise
            failure = error
        if opened.sealed and self.location.stamp() != opened.stamp:
            self._index = Fts5Index()  # The old one remembers what it has read.
            raise StoreError(self._places.changed()) from failure
        if failure is not None:
            raise failure

    def _usable(self) -> Opened:
        opened = self._opened
        if opened is None:
            raise StoreError(f"{self.location.name}: the store is closed; open it again.")
        return opened

    @contextmanager
    def _connection(self, opened: Opened) -> Iterator[sa.Connection]:
        """Take a connection; in memory, the one that there is."""
        engine = opened.engine
        if self._shared is None:
            with self.told("open a connection"):
                connection = engine.connect()
            with connection:
                yield connection
            return
        with self._shared:
            self._depth += 1
            try:
                with engine.connect() as connection:
                    yield connection
            finally:
                self._depth -= 1

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Open a write transaction; see :class:`powerctx_sqlalchemy.Database`."""
        self._require_writable()
        if not self.ready():
            with self._opening:
                if self._opened is None and self.location.exists():
                    self._opened = self._places.existing()
                if self._opened is None:
                    self._opened = self._places.created()
        opened = self._usable()
        with self._connection(opened) as connection:
            if self._depth > 1:
                raise StoreError(
                    f"{self.location.name}: a store in memory cannot be written while the same thread reads a snapshot."
                )
            with self.told("begin a write"):
                self._log.give(driver_of(connection))
                driver_of(connection).execute("BEGIN IMMEDIATE")
            self._wrote = True
            try:
                yield connection
                self._places.required(opened)
                with self.told("commit"):
                    connection.commit()
            except BaseException:
                connection.rollback()
                raise
        self._log.shorten(opened.engine)

    def _require_writable(self) -> None:
        if not self.writable:
            raise StoreError(
                f"{self.location.name} is read-only here, so that nothing can be stored in it; make the file and its "
                "directory writable, or choose another store."
            )

    @contextmanager
    def erasing(self) -> Iterator[None]:
        """Empty the log, which still holds the pages as they were; deleted rows are overwritten at once."""
        yield
        self._checkpoint()

    def _checkpoint(self) -> None:
        engine = self._engine
        if engine is not None and self.writable:
            self._log.checkpoint(engine)

    def close(self) -> None:
        """Release the file; idempotent."""
        with self._opening:
            self._closed = True
            if self._engine is not None:
                if self._wrote:
                    self._checkpoint()
                self._engine.dispose()
                self._opened = None

    def explained(self, error: Exception, doing: str) -> StoreError:
        """Return what to tell about an error."""
        return explained(error, doing, self.location.name)

    joins_listings = True

    def fetched(
        self,
        connection: sa.Connection,
        statement: sa.Select[Any] | sa.CompoundSelect[Any] | sa.TextClause,
        values: Mapping[str, Any],
    ) -> Sequence[Sequence[Any]]:
        """Return rows without what SQLAlchemy adds: a fifth of the time of a whole retrieval."""
        return fetched(connection, statement, values)

    def json_values(self, parameter: str) -> sa.FromClause:
        """Return a table over a JSON array."""
        return sa.func.json_each(sa.bindparam(parameter)).table_valued("value", name=parameter)

    def json_rows(self, parameter: str, *columns: str) -> sa.FromClause:
        """Return a table over a JSON array of arrays."""
        extracted = "".join(f", json_extract(value, '$[{n}]') AS {name}" for n, name in enumerate(columns))
        text = sa.text(f"SELECT key AS place{extracted} FROM json_each(:{parameter})")  # noqa: S608 - names of our own
        return text.columns(*(sa.column(name) for name in ("place", *columns))).subquery(parameter)


def _limit(driver: sqlite3.Connection, at: float) -> None:
    """Interrupt the connection's statements when the monotonic clock has reached *at*."""
    monotonic = time.monotonic
    driver.set_progress_handler(lambda: monotonic() >= at, _STEPS)
