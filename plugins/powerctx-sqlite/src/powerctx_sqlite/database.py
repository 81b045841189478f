"""Connections and transactions of one SQLite file."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import sqlalchemy as sa

from powerctx_core.errors import StoreError, StoreUnavailable
from powerctx_core.types import Deadline
from powerctx_sqlalchemy import Database
from powerctx_sqlalchemy.schema import HEAD, create, found_version, migrate
from powerctx_sqlalchemy.tables import analysis, meta, partition, revision
from powerctx_sqlite.direct import fetched
from powerctx_sqlite.failures import explained
from powerctx_sqlite.index import Fts5Index
from powerctx_sqlite.location import Location, Stamp
from powerctx_sqlite.settings import SqliteSettings

__all__ = ["SqliteDatabase"]

_STEPS = 4000
"""Virtual machine instructions between two looks at the clock, below a millisecond."""
_KEPT_CONNECTIONS = 8
_CACHE_KIB = 32 << 10
_MMAP_BYTES = 1 << 30
_WAL_PAGES = 4000
_WAL_BYTES = 64 << 20
_LOG_BYTES = 20 << 20
"""A log that has outgrown its checkpoints: readers, one after the other, kept every writer from beginning it anew."""
_BRIEF_MS = 200
"""How long is waited for what can be done another time."""
_TRIES, _PAUSE = 25, 0.02
"""How often, and after how many seconds, a file is opened anew while somebody is just opening or closing it."""
_TABLES = frozenset({table.name for table in (partition, revision, analysis, meta)})
_ENTRIES = frozenset({"store_id", "changes", "analysis_version"})


@attrs.frozen(eq=False)
class _Opened:
    """The file, or the memory, as it was opened.

    Attributes:
        stamp: of the file at that time; ``None`` in memory.
        sealed: whether it is read as a file that nobody writes, without locks: every read makes sure of that.
    """

    engine: sa.Engine
    stamp: Stamp | None
    sealed: bool = False


class _ChangedError(Exception):
    """The file was changed while it was opened sealed."""


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
        self._settings = settings
        self._index = Fts5Index()
        self._opened: _Opened | None = None
        self._opening = threading.Lock()
        self._shared: threading.RLock | None = threading.RLock() if location.path is None else None
        self._depth = 0
        self._closed = False
        self._wrote = False
        self._logging = location.path is None
        self._log_limit = _LOG_BYTES
        self.writable = location.writable() and not location.inspected
        if location.path is None:
            self._create()

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
        if opened is not None and self._current(opened):
            return True
        with self._opening:
            opened = self._opened
            if opened is not None:
                if self._current(opened):
                    return True
                self._opened = None
                opened.engine.dispose()
            if self._closed:
                raise StoreError(f"{self.location.name}: the store is closed; open it again.")
            return (opened is not None or self.location.exists()) and self._open()

    def _current(self, opened: _Opened) -> bool:
        """Whether what was opened shows what is stored now.

        Raises:
            StoreError: it is another file than that of this name.
        """
        if opened.stamp is None:
            return True
        now = self._required(opened)
        if self.writable:
            return True
        # What is opened with locks stays right while their file exists, and else may have got a log without it.
        return now == opened.stamp if self.location.quiet() else not opened.sealed

    def _required(self, opened: _Opened) -> Stamp | None:
        """Return the file's stamp; refuse a file that has lost its name: what is written to it is gone."""
        now = self.location.stamp()
        if opened.stamp is not None and not opened.stamp.same_file(now):
            raise StoreError(
                f"{self.location.name} was {'deleted' if now is None else 'replaced'} by another program while it was "
                "open; open the store again, and restore a backup if that was not meant."
            )
        return now

    def _open(self) -> bool:
        """Open the existing file; ``False`` when nothing was stored in it yet."""
        for left in reversed(range(1 if self.writable else _TRIES)):
            modes = self._modes()
            for mode in modes:
                try:
                    return self._opened_as(mode)
                except _ChangedError:
                    if not left:
                        raise StoreUnavailable(self._changed()) from None
                except self.errors as error:
                    blocked = _code(error).startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY"))
                    final = mode == modes[-1] and (not left or self.location.quiet())
                    if final or not blocked:
                        raise StoreUnavailable(self._unreadable(error)) from error
            time.sleep(_PAUSE)
        raise AssertionError  # the last try returns or raises

    def _modes(self) -> tuple[str, ...]:
        """Return the ways to open the file, best first."""
        if self.writable:
            return ("rw",)
        if not self.location.quiet():
            return ("ro",)
        # Where it can, a reader with locks makes files beside the database and cannot delete them.
        return ("immutable",) if self.location.open_folder() else ("ro", "immutable")

    def _opened_as(self, mode: str) -> bool:
        sealed = mode == "immutable"
        stamp = self.location.settled() if sealed else self.location.stamp()
        opened = _Opened(self._made(mode), stamp, sealed)
        try:
            with opened.engine.connect() as connection:
                usable = self._checked(connection)
            self._require_current(opened)
        except BaseException as error:
            opened.engine.dispose()
            if sealed and self.location.stamp() != stamp and isinstance(error, Exception):
                raise _ChangedError from error
            raise
        if usable:
            self._opened = opened
        else:
            opened.engine.dispose()
        return usable

    def _require_current(self, opened: _Opened) -> None:
        if not self._current(opened):
            raise _ChangedError

    def _unreadable(self, error: Exception) -> str:
        if not self.writable and self.location.log():
            return (
                f"{self.location.name}: the log beside it (-wal) holds commits that cannot be read where the directory "
                "may not be written; open the store once where it is writable."
            )
        return str(self.explained(error, "open the store"))

    def _changed(self) -> str:
        return (
            f"{self.location.name} was changed by another process while it was read without locks, as it is read-only "
            "here; try again."
        )

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
            self._require_whole(connection, tables)
            return True
        if found is None:
            raise self._damaged("the version of its schema")
        if not self.writable and self.location.writable():
            raise StoreUnavailable(
                f"{self.location.name} has the older schema {found}; any other command, such as `powerctx index`, "
                f"brings it to {HEAD} and keeps all that it holds."
            )
        if not self.writable:
            raise StoreUnavailable(
                f"{self.location.name} has the older schema {found} and is read-only here, so that it cannot be "
                f"brought to {HEAD}; open it once where it is writable."
            )
        self._migrate(connection, found)
        return True

    def _migrate(self, connection: sa.Connection, found: str) -> None:
        """Bring the file to the newest version in one transaction: whatever ends it, the old one stays as it was."""
        connection.rollback()
        doing = f"bring the store from schema {found} to {HEAD}, and left it as it was"
        try:
            with self.told(doing):
                _driver(connection).execute("BEGIN IMMEDIATE")
                # Another process may have migrated it while this one waited.
                if found_version(connection, self.location.name) != HEAD:
                    migrate(connection)
                connection.commit()
        except StoreError as error:
            raise StoreUnavailable(str(error)) from error
        except Exception as error:
            raise StoreUnavailable(
                f"{self.location.name}: could not {doing}: {type(error).__name__}: {error}. Reinstall "
                "powerctx-sqlalchemy and alembic, or open the store with the version that wrote it."
            ) from error

    def _require_whole(self, connection: sa.Connection, tables: set[str]) -> None:
        missing = sorted(_TABLES - tables)
        if missing:
            raise self._damaged(f"the table {missing[0]}")
        entries = sorted(_ENTRIES - set(connection.execute(sa.select(meta.c.name)).scalars()))
        if entries:
            raise self._damaged(f"the row {entries[0]} of the table meta")

    def _damaged(self, what: str) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self.location.name} lacks {what}, without which it cannot be used; restore a backup."
        )

    def _create(self) -> None:
        """Make file and schema, unless another process just did."""
        self._parent()
        engine = self._made("rwc")
        try:
            with self.told("create the store"), engine.connect() as connection:
                self._log(_driver(connection))
                _driver(connection).execute("BEGIN IMMEDIATE")
                if not self._checked_empty(connection):
                    create(connection, self)
                connection.commit()
        except BaseException:
            engine.dispose()
            raise
        self._opened = _Opened(engine, self.location.stamp())

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

        def connect() -> sqlite3.Connection:
            connection = sqlite3.connect(
                target, uri=True, isolation_level=None, check_same_thread=False, cached_statements=256
            )
            try:
                self._configure(connection, mode)
            except BaseException:
                connection.close()
                raise
            return connection

        if self.location.path is None:
            return sa.create_engine("sqlite://", creator=connect, poolclass=sa.pool.StaticPool)
        return sa.create_engine(
            "sqlite://", creator=connect, poolclass=sa.pool.QueuePool, pool_size=_KEPT_CONNECTIONS, max_overflow=-1
        )

    def _configure(self, connection: sqlite3.Connection, mode: str) -> None:
        # First of all, so that the statements below wait for other processes, too.
        connection.execute(f"PRAGMA busy_timeout = {self._settings.busy_timeout_ms}")
        if mode in {"rw", "rwc"}:
            connection.execute(f"PRAGMA synchronous = {self._settings.synchronous}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}")
            connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
            # What is purged is gone, not only unlinked; the cost is within the noise of a write.
            connection.execute("PRAGMA secure_delete = ON")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        # Without locks another process may cut the file, and reading behind its end through a map ends the process.
        connection.execute(f"PRAGMA mmap_size = {0 if mode == 'immutable' else _MMAP_BYTES}")

    def _log(self, driver: sqlite3.Connection) -> None:
        """Give the file a write-ahead log unless it has one; while somebody reads it, it stays as it is for now."""
        if self._logging:
            return
        driver.execute(f"PRAGMA busy_timeout = {_BRIEF_MS}")
        try:
            self._logging = driver.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
        except sqlite3.OperationalError as error:
            if not _code(error).startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                raise
        finally:
            driver.execute(f"PRAGMA busy_timeout = {self._settings.busy_timeout_ms}")

    @contextmanager
    def reading(self, deadline: Deadline) -> Iterator[sa.Connection | None]:
        """Open a read transaction; see :class:`powerctx_sqlalchemy.Database`."""
        if not self.ready():
            yield None
            return
        opened = self._usable()
        with self._unchanged(opened), self._connection(opened) as connection:
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
    def _unchanged(self, opened: _Opened) -> Iterator[None]:
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
            raise StoreError(self._changed()) from failure
        if failure is not None:
            raise failure

    def _usable(self) -> _Opened:
        opened = self._opened
        if opened is None:
            raise StoreError(f"{self.location.name}: the store is closed; open it again.")
        return opened

    @contextmanager
    def _connection(self, opened: _Opened) -> Iterator[sa.Connection]:
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
                if self._opened is None and not (self.location.exists() and self._open()):
                    self._create()
        opened = self._usable()
        with self._connection(opened) as connection:
            if self._depth > 1:
                raise StoreError(
                    f"{self.location.name}: a store in memory cannot be written while the same thread reads a snapshot."
                )
            with self.told("begin a write"):
                self._log(_driver(connection))
                _driver(connection).execute("BEGIN IMMEDIATE")
            self._wrote = True
            try:
                yield connection
                self._required(opened)
                with self.told("commit"):
                    connection.commit()
            except BaseException:
                connection.rollback()
                raise
        if self.location.path is not None and self.location.log() > self._log_limit:
            # Waits for the readers of now, briefly; those that begin meanwhile read the file and not the log.
            self.checkpoint()
            # While one of them goes on for long, not every writer waits for it.
            self._log_limit = self.location.log() + _LOG_BYTES

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
        engine = self._engine
        if engine is None or self.location.path is None or not self.writable:
            return
        with engine.connect() as connection:
            driver = _driver(connection)
            driver.execute(f"PRAGMA busy_timeout = {_BRIEF_MS}")
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
                self._opened = None

    def explained(self, error: Exception, doing: str) -> StoreError:
        """Return what to tell about an error."""
        return explained(error, doing, self.location.name)

    def fetched(
        self, connection: sa.Connection, statement: sa.Select[Any] | sa.TextClause, values: Mapping[str, Any]
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


def _driver(connection: sa.Connection) -> Any:
    return connection.connection.driver_connection


def _code(error: Exception) -> str:
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    return getattr(cause, "sqlite_errorname", "") or ""


def _limit(driver: sqlite3.Connection, at: float) -> None:
    """Interrupt the connection's statements when the monotonic clock has reached *at*."""
    monotonic = time.monotonic
    driver.set_progress_handler(lambda: monotonic() >= at, _STEPS)
