"""Connections and transactions of one SQLite file."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from powerctx_sqlalchemy import Database
from powerctx_sqlalchemy.schema import HEAD, create, found_version, migrate

from powerctx_core.errors import StoreError, StoreUnavailable
from powerctx_core.types import Deadline
from powerctx_sqlite.failures import explained
from powerctx_sqlite.index import Fts5Index
from powerctx_sqlite.location import Location
from powerctx_sqlite.settings import SqliteSettings

__all__ = ["SqliteDatabase"]

_STEPS = 4000
"""Virtual machine instructions between two looks at the clock, below a millisecond."""
_KEPT_CONNECTIONS = 8
_CACHE_KIB = 32 << 10
_MMAP_BYTES = 1 << 30
_WAL_PAGES = 4000
_WAL_BYTES = 64 << 20


class SqliteDatabase(Database):
    """One file, or one private database in memory.

    A file is opened when it exists, and made by the first write.  Readers take a connection of a pool each and see the
    snapshot of their first statement; writers take turns.  In memory there is one connection, which everybody shares in
    turn.
    """

    errors = (sa.exc.SQLAlchemyError, sqlite3.Error)

    def __init__(self, location: Location, settings: SqliteSettings) -> None:
        self.location = location
        self._settings = settings
        self._index = Fts5Index()
        self._engine: sa.Engine | None = None
        self._opening = threading.Lock()
        self._shared: threading.RLock | None = threading.RLock() if location.path is None else None
        self._depth = 0
        self._closed = False
        self._wrote = False
        self.writable = location.writable()
        if location.path is None:
            self._create()

    @property
    def index(self) -> Fts5Index:
        """The full-text index."""
        return self._index

    def ready(self) -> bool:
        """Whether there is something to read; opens the file when it has come to exist.

        Raises:
            StoreUnavailable: there is a file that cannot be used.
        """
        if self._engine is not None:
            return True
        if self._closed:
            raise StoreError(f"{self.location.name}: the store is closed; open it again.")
        if not self.location.exists():
            return False
        with self._opening:
            return self._engine is not None or self._open()

    def _open(self) -> bool:
        """Open the existing file; ``False`` when nothing was stored in it yet."""
        modes = ("rw",) if self.writable else ("ro", "immutable")
        for mode in modes:
            engine = self._made(mode)
            try:
                with engine.connect() as connection:
                    usable = self._checked(connection)
                break
            except self.errors as error:
                engine.dispose()
                # A reader, too, needs files beside the database, unless nobody can be writing it.
                blocked = _code(error).startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY"))
                if mode == modes[-1] or not blocked or self._pending_log():
                    raise StoreUnavailable(str(self.explained(error, "open the store"))) from error
            except BaseException:
                engine.dispose()
                raise
        if usable:
            self._engine = engine
        else:
            engine.dispose()
        return usable

    def _pending_log(self) -> bool:
        """Whether a log beside the file holds commits that an immutable file would not show."""
        path = self.location.path
        assert path is not None  # noqa: S101 - only asked of files
        log = path.with_name(path.name + "-wal")
        return log.exists() and log.stat().st_size > 0

    def _checked(self, connection: sa.Connection) -> bool:
        tables = set(connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'").scalars())
        if not tables:
            return False
        if "alembic_version" not in tables or "revision" not in tables:
            raise StoreUnavailable(
                f"{self.location.name} is a SQLite database of something else (it has the tables "
                f"{', '.join(sorted(tables)[:5])}); choose another path."
            )
        found = found_version(connection, self.location.name)
        if found == HEAD:
            return True
        if not self.writable:
            raise StoreUnavailable(
                f"{self.location.name} has the older schema {found} and is read-only here, so that it cannot be "
                f"brought to {HEAD}; open it once where it is writable."
            )
        connection.rollback()
        _driver(connection).execute("BEGIN IMMEDIATE")
        # Another process may have migrated it while this one waited.
        if found_version(connection, self.location.name) != HEAD:
            migrate(connection)
        connection.commit()
        return True

    def _create(self) -> None:
        """Make file and schema, unless another process just did."""
        self._parent()
        engine = self._made("rwc")
        try:
            with self.told("create the store"), engine.connect() as connection:
                _driver(connection).execute("BEGIN IMMEDIATE")
                if not self._checked_empty(connection):
                    create(connection, self)
                connection.commit()
        except BaseException:
            engine.dispose()
            raise
        self._engine = engine

    def _checked_empty(self, connection: sa.Connection) -> bool:
        tables = connection.exec_driver_sql("SELECT count(*) FROM sqlite_master WHERE name = 'alembic_version'")
        return bool(tables.scalar_one())

    def _parent(self) -> None:
        path = self.location.path
        if path is not None and not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)

    def _made(self, mode: str) -> sa.Engine:
        """Return an engine; nothing is opened yet."""
        target = ":memory:" if self.location.path is None else self.location.uri(mode)
        readable_only = mode in {"ro", "immutable"}

        def connect() -> sqlite3.Connection:
            connection = sqlite3.connect(
                target, uri=True, isolation_level=None, check_same_thread=False, cached_statements=256
            )
            try:
                self._configure(connection, read_only=readable_only)
            except BaseException:
                connection.close()
                raise
            return connection

        if self.location.path is None:
            return sa.create_engine("sqlite://", creator=connect, poolclass=sa.pool.StaticPool)
        return sa.create_engine(
            "sqlite://", creator=connect, poolclass=sa.pool.QueuePool, pool_size=_KEPT_CONNECTIONS, max_overflow=-1
        )

    def _configure(self, connection: sqlite3.Connection, *, read_only: bool) -> None:
        # First of all, so that the statements below wait for other processes, too.
        connection.execute(f"PRAGMA busy_timeout = {self._settings.busy_timeout_ms}")
        if not read_only:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {self._settings.synchronous}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}")
            connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
            # What is purged is gone, not only unlinked; the cost is within the noise of a write.
            connection.execute("PRAGMA secure_delete = ON")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.execute(f"PRAGMA mmap_size = {_MMAP_BYTES}")

    @contextmanager
    def reading(self, deadline: Deadline) -> Iterator[sa.Connection | None]:
        """Open a read transaction; see :class:`powerctx_sqlalchemy.Database`."""
        if not self.ready():
            yield None
            return
        with self._connection() as connection:
            driver = _driver(connection)
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
    def _connection(self) -> Iterator[sa.Connection]:
        """Take a connection; in memory, the one that there is."""
        engine = self._engine
        if engine is None:
            raise StoreError(f"{self.location.name}: the store is closed; open it again.")
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
                if self._engine is None and not (self.location.exists() and self._open()):
                    self._create()
        with self._connection() as connection:
            if self._depth > 1:
                raise StoreError(
                    f"{self.location.name}: a store in memory cannot be written while the same thread reads a snapshot."
                )
            with self.told("begin a write"):
                _driver(connection).execute("BEGIN IMMEDIATE")
            self._wrote = True
            try:
                yield connection
                with self.told("commit"):
                    connection.commit()
            except BaseException:
                connection.rollback()
                raise

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
        self.checkpoint()

    def checkpoint(self) -> None:
        """Move the log into the file and cut it, when no reader is in the way; never waits long."""
        if self._engine is None or self.location.path is None or not self.writable:
            return
        with self._engine.connect() as connection:
            driver = _driver(connection)
            driver.execute("PRAGMA busy_timeout = 200")
            try:
                driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except sqlite3.Error:
                pass  # Somebody reads: the next writer's checkpoint will do it.
            finally:
                driver.execute(f"PRAGMA busy_timeout = {self._settings.busy_timeout_ms}")

    def close(self) -> None:
        """Release the file; idempotent."""
        with self._opening:
            self._closed = True
            if self._engine is not None:
                if self._wrote:
                    self.checkpoint()
                self._engine.dispose()
                self._engine = None

    def explained(self, error: Exception, doing: str) -> StoreError:
        """Return what to tell about an error."""
        return explained(error, doing, self.location.name)

    def json_values(self, parameter: str) -> sa.FromClause:
        """Return a table over a JSON array."""
        return sa.func.json_each(sa.bindparam(parameter)).table_valued("value", name=parameter)

    def json_rows(self, parameter: str, *columns: str) -> sa.FromClause:
        """Return a table over a JSON array of arrays."""
        extracted = "".join(f", json_extract(value, '$[{n}]') AS {name}" for n, name in enumerate(columns))
        text = sa.text(f"SELECT key AS place{extracted} FROM json_each(:{parameter})")  # noqa: S608 - names of our own
        return text.columns(*(sa.column(name) for name in ("place", *columns))).subquery(parameter)


def _driver(connection: sa.Connection) -> Any:
    return connection.connection.driver_connection


def _code(error: Exception) -> str:
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    return getattr(cause, "sqlite_errorname", "") or ""


def _limit(driver: sqlite3.Connection, at: float) -> None:
    """Interrupt the connection's statements when the monotonic clock has reached *at*."""
    monotonic = time.monotonic
    driver.set_progress_handler(lambda: monotonic() >= at, _STEPS)
