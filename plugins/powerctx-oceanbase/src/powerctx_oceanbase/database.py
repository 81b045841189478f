"""Connections and transactions of one database."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import pymysql
import sqlalchemy as sa

from powerctx_core.errors import StoreError, StoreUnavailable
from powerctx_core.types import Deadline
from powerctx_oceanbase import failures, unfinished
from powerctx_oceanbase.connecting import BreakableConnection, Connector, seen
from powerctx_oceanbase.ddl import LOCK, TABLES, bucket, first_number, table_statements
from powerctx_oceanbase.index import TermsIndex
from powerctx_oceanbase.location import Location
from powerctx_oceanbase.settings import OceanBaseSettings
from powerctx_sqlalchemy import Database
from powerctx_sqlalchemy.schema import HEAD, create, found_version, migrate
from powerctx_sqlalchemy.tables import meta

__all__ = ["LONGEST_READ_S", "OceanBaseDatabase"]

_TRIES, _PAUSE = 20, 0.02
"""How often a transaction that another one undid is begun again, and the first pause."""
_MAKE_S = 60
"""A table that is not made in so many seconds never is."""
_GRACE_S = 5
"""Longer than the engine takes to end a statement of its own accord; afterwards it counts as hung."""
_LEAST_US = 2_000
LONGEST_READ_S = 86_400
"""No read transaction lasts longer."""
_LONG_US = LONGEST_READ_S * 1_000_000
_PROFILE_PREFIX = "vector_"
_READ_COMMITTED = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"


class OceanBaseDatabase(Database):
    """One database of a server, or of the engine of a directory.

    It is opened when it exists, and made by the first write.  Readers take a connection of a pool each and see the
    snapshot of their first statement (REPEATABLE READ).  Writers lock the row of the change counter first, so that they
    take turns and never wait for each other crosswise: the engine does not detect deadlocks.
    """

    errors = (sa.exc.SQLAlchemyError, pymysql.MySQLError, OSError)

    def __init__(self, location: Location, settings: OceanBaseSettings) -> None:
        self.location = location
        self.settings = settings
        self._index = TermsIndex()
        self._connector = Connector(location, settings)
        self._engine = sa.create_engine(
            "mysql+pymysql://",
            creator=self._connector.connect,
            poolclass=sa.pool.QueuePool,
            pool_size=settings.pool,
            max_overflow=-1,
            pool_use_lifo=True,
            # Whoever gives a connection back has committed or rolled back: see _given_back().
            pool_reset_on_return=None,
        )
        self._opening = threading.Lock()
        self._usable = False
        self._closed = False
        self._buckets = 1

    @property
    def name(self) -> str:
        """The URL, without user and password."""
        return self.location.name

    @property
    def index(self) -> TermsIndex:
        """The full-text index."""
        return self._index

    @property
    def buckets(self) -> int:
        """Parts that the tables are made of."""
        return self._buckets

    @property
    def _write_us(self) -> int:
        return self.settings.write_timeout_s * 1_000_000

    def ready(self) -> bool:
        """Whether there is something to read; opens the database when it has come to exist.

        Raises:
            StoreUnavailable: there is a database that cannot be used.
        """
        if self._closed:
            raise StoreError(f"{self.location.name}: the store is closed; open it again.")
        if self._usable:
            return True
        with self._opening:
            if not self._usable and self._connector.exists():
                try:
                    self._usable = self._open()
                except self.errors as error:
                    raise StoreUnavailable(str(self.explained(error, "open the store"))) from error
        return self._usable

    def _open(self) -> bool:
        """Open what is there; ``False`` when nothing was stored in it yet."""
        try:
            with self._given_back(self._engine.connect()) as connection:
                self._limit(connection, self._write_us)
                found = found_version(connection, self.location.name)
                if found is None:
                    return False
                if found != HEAD:
                    connection.rollback()
                    with self._schema_lock():
                        if found_version(connection, self.location.name) != HEAD:
                            migrate(connection)
                            connection.commit()
                self._check(connection)
        except sa.exc.DBAPIError as error:
            if failures.code(error) in failures.MISSING:
                return False
            raise
        return True

    def _check(self, connection: sa.Connection) -> None:
        known = dict(connection.execute(sa.select(meta.c.name, meta.c.value)).all())
        missing = sorted({"store_id", "changes", "analysis_version", "buckets", "partitions"} - known.keys())
        if missing:
            raise StoreUnavailable(
                f"{self.location.name} lacks the row {missing[0]} of the table meta, without which it cannot be used; "
                "restore a backup."
            )
        self._buckets = int(known["buckets"])

    @contextmanager
    def _schema_lock(self) -> Iterator[None]:
        """Let one process at a time change the schema.

        Statements that do so commit, so that the lock is a row that another connection holds; GET_LOCK has let several
        in at once.
        """
        with self.making("make the schema") as connection:
            connection.exec_driver_sql(f"CREATE TABLE IF NOT EXISTS {LOCK} (id INT NOT NULL PRIMARY KEY)")
        with self.connected() as holder:
            with self.told("wait for another process that makes or migrates the schema"):
                seen(lambda: holder.exec_driver_sql(f"INSERT IGNORE INTO {LOCK} VALUES (1)"))  # noqa: S608 - a name of our own
                holder.commit()
                holder.exec_driver_sql(_READ_COMMITTED)
                holder.exec_driver_sql(f"SELECT id FROM {LOCK} FOR UPDATE").all()  # noqa: S608 - a name of our own
            yield

    def _create(self) -> None:
        """Make database and schema, unless another process just did."""
        self._connector.create_database()
        with self._schema_lock(), self.making("create the store") as connection:
            if self._made(connection):
                return
            names = set(connection.exec_driver_sql("SHOW TABLES").scalars())
            if names - TABLES:
                raise StoreUnavailable(
                    f"{self.location.name} is a database of something else (it has the tables "
                    f"{', '.join(sorted(names - TABLES)[:5])}); name another database."
                )
            if "revision" in names and connection.exec_driver_sql("SELECT 1 FROM revision LIMIT 1").first() is not None:
                raise StoreUnavailable(
                    f"{self.location.name} lacks the version of its schema, without which it cannot be used; restore a "
                    "backup."
                )
            # What a process left behind that was ended while it made the schema: nothing was stored yet.
            for name in sorted(names - {LOCK}):
                connection.exec_driver_sql(f"DROP TABLE IF EXISTS `{name}`")
            create(connection, self)
            connection.commit()

    def _made(self, connection: sa.Connection) -> bool:
        try:
            return found_version(connection, self.location.name) is not None
        except sa.exc.DBAPIError as error:
            if failures.code(error) in failures.MISSING:
                return False
            raise

    def create_tables(self, connection: sa.Connection) -> None:
        """Make the tables, with all indexes inside."""
        for statement in table_statements(self.settings.buckets):
            connection.exec_driver_sql(statement)
        rows = [("buckets", str(self.settings.buckets)), ("partitions", "0"), ("profiles", "0")]
        connection.execute(sa.insert(meta), [{"name": name, "value": value} for name, value in rows])

    @contextmanager
    def connected(self, limit_us: int | None = None) -> Iterator[sa.Connection]:
        """Take a connection of the pool; what it is asked may take *limit_us*, or what a write may."""
        with self._given_back(self._taken(lambda: limit_us or self._write_us)) as connection:
            yield connection

    @contextmanager
    def making(self, doing: str) -> Iterator[sa.Connection]:
        """Take a connection to make or drop tables with; the engine would wait for its lock of tables without end.

        Raises:
            StoreError: what was tried failed, or took more than a minute (or what a write may take).
        """
        limit = min(self._write_us, _MAKE_S * 1_000_000)
        with self.connected(limit) as connection:
            try:
                yield connection
            except self.errors as error:
                if not failures.timed_out(error):
                    raise self.explained(error, doing) from error
                raise self._connector.stuck(doing, limit / 1e6) from error

    def hindered(self, doing: str, *counts: str) -> StoreUnavailable | None:
        """Return the error to raise when something that nobody ends is in the way; see :meth:`Connector.hindrance`."""
        why = self._connector.hindrance(*counts)
        return None if why is None else StoreUnavailable(f"{self.location.name}: could not {doing}: {why}.")

    def _taken(self, limit_us: Callable[[], int], first: str | None = None) -> sa.Connection:
        """Return a connection that has carried out its *first* statement, if one is given.

        One that broke in the pool, while nobody used it, is replaced: nothing was asked of it before.
        """
        for last in (False, True):
            limit = limit_us()
            with self.told("open a connection"):
                connection = self._engine.connect()
                try:
                    self._limit(connection, limit)
                    if first is not None:
                        connection.exec_driver_sql(first)
                except BaseException as error:
                    self._undo(connection)
                    connection.close()
                    if last or failures.code(error) not in failures.CONNECTION:
                        raise
                else:
                    return connection
        raise AssertionError  # the last try returns or raises

    @contextmanager
    def _given_back(self, connection: sa.Connection) -> Iterator[sa.Connection]:
        """Undo what is open on a connection at the end, and give it back to the pool.

        If that fails the connection is thrown away, and nobody is told: what was read is right, what was not committed
        is undone by the engine, and what made an earlier statement fail was raised there.
        """
        try:
            yield connection
        finally:
            self._undo(connection)
            connection.close()

    def _undo(self, connection: sa.Connection) -> None:
        try:
            connection.rollback()
        except self.errors:
            with suppress(*self.errors):
                connection.invalidate()

    @contextmanager
    def reading(self, deadline: Deadline) -> Iterator[sa.Connection | None]:
        """Open a read transaction; see :class:`powerctx_sqlalchemy.Database`."""
        if not self.ready():
            yield None
            return
        # Said aloud: a transaction that begins by itself has no limit.
        taken = self._taken(lambda: self._left_us(deadline), "START TRANSACTION READ ONLY")
        with self._given_back(taken) as connection:
            yield connection

    def _left_us(self, deadline: Deadline) -> int:
        """Return how long a read may take."""
        left = deadline.remaining()
        if left is None:
            return _LONG_US
        if left <= 0:
            raise StoreError(f"{self.location.name}: could not read: the deadline is over.")
        return min(max(_LEAST_US, int(left * 1e6)), _LONG_US)

    def _limit(self, connection: sa.Connection, limit: int) -> None:
        """Limit what the connection's next transaction may take; asks the engine only for another limit."""
        if connection.info.get("limit", 0) != limit:
            driver = connection.connection.driver_connection
            if isinstance(driver, BreakableConnection):
                driver.wait_at_most((self._write_us if limit == _LONG_US else limit) / 1e6 + _GRACE_S)
            # Both are needed: a statement ends at the first of them, and the next one of the transaction is refused.
            connection.exec_driver_sql(f"SET ob_query_timeout = {limit}, ob_trx_timeout = {limit}")
            connection.info["limit"] = limit

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Open a write transaction; see :class:`powerctx_sqlalchemy.Database`."""
        if not self.ready():
            with self._opening:
                if not self._usable:
                    self._create()
            self.ready()
        with self._given_back(self._taken(lambda: self._write_us, _READ_COMMITTED)) as connection:
            with self.told("begin a write"):
                self._begin(connection)
            try:
                yield connection
                with self.told("commit"):
                    connection.commit()
            except BaseException:
                self._undo(connection)
                raise
            # What was written is kept, whatever comes of this.
            with suppress(*self.errors):
                self._index.settle(connection)

    def _begin(self, connection: sa.Connection) -> None:
        """Take the writers' lock; afterwards every statement sees what is committed."""
        for left in reversed(range(_TRIES)):
            try:
                connection.exec_driver_sql("SELECT value FROM meta WHERE name = 'changes' FOR UPDATE").all()
                return
            except self.errors as error:
                if not left or failures.code(error) not in failures.SERIALISATION:
                    raise
                connection.rollback()
                time.sleep(_PAUSE * (_TRIES - left))
                connection.exec_driver_sql(_READ_COMMITTED)

    def partition_ids(self, connection: sa.Connection, scopes: Sequence[str]) -> Sequence[int]:
        """Return new ids: bucket first, then a number; the engine's own numbers leap by a million at every start."""
        current = int(connection.exec_driver_sql("SELECT value FROM meta WHERE name = 'partitions'").scalar_one())
        numbers = [
            first_number(bucket(scope, self._buckets)) + number for number, scope in enumerate(scopes, current + 1)
        ]
        connection.exec_driver_sql(
            "UPDATE meta SET value = %s WHERE name = 'partitions'", (str(current + len(scopes)),)
        )
        return numbers

    def removed(self, connection: sa.Connection, ids: Sequence[int]) -> None:
        """Delete the vectors of revisions that leave retrieval."""
        super().removed(connection, ids)
        number = connection.exec_driver_sql("SELECT id FROM embedding_profile").scalar()
        if number is not None and ids:
            connection.exec_driver_sql(
                f"DELETE FROM {_PROFILE_PREFIX}{number} WHERE id IN ({', '.join(map(str, ids))})"  # noqa: S608 - numbers
            )

    def close(self) -> None:
        """Release connections and engine; idempotent."""
        with self._opening:
            if not self._closed:
                self._closed = True
                self._usable = False
                self._engine.dispose()
                self._connector.close()

    def explained(self, error: Exception, doing: str) -> StoreError:
        """Return what to tell about an error."""
        locked = self.hindered(doing, unfinished.TRANSACTIONS) if failures.code(error) == failures.LOCKED else None
        return locked or failures.explained(error, doing, self.location.name)

    def keyed(self, table: sa.Table, parameter: str) -> tuple[sa.FromClause, Sequence[sa.ColumnElement[bool]]]:
        """Name ids in the statement: joining a table made of JSON takes three times as long."""
        return table, (table.c.id.in_(sa.bindparam(parameter, expanding=True)),)

    def keys(self, ids: Sequence[int]) -> object:
        """Return what is bound for ids."""
        return list(ids)

    def json_values(self, parameter: str) -> sa.FromClause:
        """Return a table over a JSON array of numbers."""
        text = f"SELECT value FROM JSON_TABLE(:{parameter}, '$[*]' COLUMNS (value BIGINT PATH '$')) asked"  # noqa: S608 - names of our own
        return sa.text(text).columns(sa.column("value")).subquery(parameter)

    def json_rows(self, parameter: str, *columns: str) -> sa.FromClause:
        """Return a table over a JSON array of arrays; what is text is compared as bytes."""
        told = ", ".join(
            f"{name} {'BIGINT' if name.endswith('partition_id') else 'VARBINARY(1024)'} PATH '$[{n}]'"
            for n, name in enumerate(columns)
        )
        text = (
            f"SELECT place - 1 AS place, {', '.join(columns)} "  # noqa: S608 - names of our own
            f"FROM JSON_TABLE(:{parameter}, '$[*]' COLUMNS (place FOR ORDINALITY, {told})) asked"
        )
        return sa.text(text).columns(*(sa.column(name) for name in ("place", *columns))).subquery(parameter)
