"""How a SQLite file is opened, made, checked, and brought to the newest schema."""

from __future__ import annotations

import sqlite3
import time

import attrs
import sqlalchemy as sa

from powerctx_core.errors import StoreError, StoreUnavailable
from powerctx_sqlalchemy import Database
from powerctx_sqlalchemy.schema import HEAD, create, found_version, migrate
from powerctx_sqlalchemy.tables import analysis, meta, partition, revision
from powerctx_sqlite.direct import driver_of
from powerctx_sqlite.failures import code
from powerctx_sqlite.location import Location, Stamp
from powerctx_sqlite.log import WriteAheadLog
from powerctx_sqlite.settings import SqliteSettings

__all__ = ["Opened", "Opening"]

_KEPT_CONNECTIONS = 8
_CACHE_KIB = 32 << 10
_MMAP_BYTES = 1 << 30
_WAL_PAGES = 4000
_WAL_BYTES = 64 << 20
_TRIES, _PAUSE = 25, 0.02
"""How often, and after how many seconds, a file is opened anew while somebody is just opening or closing it."""
_TABLES = frozenset({table.name for table in (partition, revision, analysis, meta)})
_ENTRIES = frozenset({"store_id", "changes", "analysis_version"})


@attrs.frozen(eq=False)
class Opened:
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


class Opening:
    """Opens the file of one store, as often as it has to be.

    Args:
        database: whose file it is; it explains errors.
        writable: whether this process may write the file, and shall.
        log: that of the file.
    """

    def __init__(
        self, database: Database, location: Location, settings: SqliteSettings, *, writable: bool, log: WriteAheadLog
    ) -> None:
        self._database = database
        self._location = location
        self._settings = settings
        self._writable = writable
        self._log = log

    def is_current(self, opened: Opened) -> bool:
        """Whether what was opened shows what is stored now.

        Raises:
            StoreError: it is another file than that of this name.
        """
        if opened.stamp is None:
            return True
        now = self.required(opened)
        if self._writable:
            return True
        # What is opened with locks stays right while their file exists, and else may have got a log without it.
        return now == opened.stamp if self._location.quiet() else not opened.sealed

    def required(self, opened: Opened) -> Stamp | None:
        """Return the file's stamp; refuse a file that has lost its name: what is written to it is gone."""
        now = self._location.stamp()
        if opened.stamp is not None and not opened.stamp.same_file(now):
            raise StoreError(
                f"{self._location.name} was {'deleted' if now is None else 'replaced'} by another program while it was "
                "open; open the store again, and restore a backup if that was not meant."
            )
        return now

    def existing(self) -> Opened | None:
        """Open the file that there is; ``None`` when nothing was stored in it yet.

        Raises:
            StoreUnavailable: it cannot be used.
        """
        for left in reversed(range(1 if self._writable else _TRIES)):
            modes = self._modes()
            for mode in modes:
                try:
                    return self._opened_as(mode)
                except _ChangedError:
                    if not left:
                        raise StoreUnavailable(self.changed()) from None
                except self._database.errors as error:
                    blocked = code(error).startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY"))
                    final = mode == modes[-1] and (not left or self._location.quiet())
                    if final or not blocked:
                        raise StoreUnavailable(self._unreadable(error)) from error
            time.sleep(_PAUSE)
        raise AssertionError  # the last try returns or raises

    def _modes(self) -> tuple[str, ...]:
        """Return the ways to open the file, best first."""
        if self._writable:
            return ("rw",)
        if not self._location.quiet():
            return ("ro",)
        # Where it can, a reader with locks makes files beside the database and cannot delete them.
        return ("immutable",) if self._location.open_folder() else ("ro", "immutable")

    def _opened_as(self, mode: str) -> Opened | None:
        sealed = mode == "immutable"
        stamp = self._location.settled() if sealed else self._location.stamp()
        opened = Opened(self._made(mode), stamp, sealed)
        try:
            with opened.engine.connect() as connection:
                usable = self._checked(connection)
            self._require_current(opened)
        except BaseException as error:
            opened.engine.dispose()
            if sealed and self._location.stamp() != stamp and isinstance(error, Exception):
                raise _ChangedError from error
            raise
        if usable:
            return opened
        opened.engine.dispose()
        return None

    def _require_current(self, opened: Opened) -> None:
        if not self.is_current(opened):
            raise _ChangedError

    def _unreadable(self, error: Exception) -> str:
        if not self._writable and self._location.log():
            return (
                f"{self._location.name}: the log beside it (-wal) holds commits that cannot be read where the "
                "directory may not be written; open the store once where it is writable."
            )
        return str(self._database.explained(error, "open the store"))

    def changed(self) -> str:
        """Return what to tell when the file was changed while it was read sealed."""
        return (
            f"{self._location.name} was changed by another process while it was read without locks, as it is read-only "
            "here; try again."
        )

    def _checked(self, connection: sa.Connection) -> bool:
        tables = set(connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'").scalars())
        if not tables:
            return False
        if "alembic_version" not in tables or "revision" not in tables:
            raise StoreUnavailable(
                f"{self._location.name} is a SQLite database of something else (it has the tables "
                f"{', '.join(sorted(tables)[:5])}); choose another path."
            )
        found = found_version(connection, self._location.name)
        if found == HEAD:
            self._require_whole(connection, tables)
            return True
        if found is None:
            raise self._damaged("the version of its schema")
        if not self._writable and self._location.writable():
            raise StoreUnavailable(
                f"{self._location.name} has the older schema {found}; any other command, such as `powerctx index`, "
                f"brings it to {HEAD} and keeps all that it holds."
            )
        if not self._writable:
            raise StoreUnavailable(
                f"{self._location.name} has the older schema {found} and is read-only here, so that it cannot be "
                f"brought to {HEAD}; open it once where it is writable."
            )
        self._migrate(connection, found)
        return True

    def _migrate(self, connection: sa.Connection, found: str) -> None:
        """Bring the file to the newest version in one transaction: whatever ends it, the old one stays as it was."""
        connection.rollback()
        doing = f"bring the store from schema {found} to {HEAD}, and left it as it was"
        try:
            with self._database.told(doing):
                driver_of(connection).execute("BEGIN IMMEDIATE")
                # Another process may have migrated it while this one waited.
                if found_version(connection, self._location.name) != HEAD:
                    migrate(connection)
                connection.commit()
        except StoreError as error:
            raise StoreUnavailable(str(error)) from error
        except Exception as error:
            raise StoreUnavailable(
                f"{self._location.name}: could not {doing}: {type(error).__name__}: {error}. Reinstall "
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
            f"{self._location.name} lacks {what}, without which it cannot be used; restore a backup."
        )

    def created(self) -> Opened:
        """Make file and schema, unless another process just did, and open it."""
        self._parent()
        engine = self._made("rwc")
        try:
            with self._database.told("create the store"), engine.connect() as connection:
                self._log.give(driver_of(connection))
                driver_of(connection).execute("BEGIN IMMEDIATE")
                if not self._checked_empty(connection):
                    create(connection, self._database)
                connection.commit()
        except BaseException:
            engine.dispose()
            raise
        return Opened(engine, self._location.stamp())

    def _checked_empty(self, connection: sa.Connection) -> bool:
        tables = connection.exec_driver_sql("SELECT count(*) FROM sqlite_master WHERE name = 'alembic_version'")
        return bool(tables.scalar_one())

    def _parent(self) -> None:
        path = self._location.path
        if path is not None and not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)

    def _made(self, mode: str) -> sa.Engine:
        """Return an engine; nothing is opened yet."""
        target = ":memory:" if self._location.path is None else self._location.uri(mode)

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

        if self._location.path is None:
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
