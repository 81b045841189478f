"""Makes connections: to a server, or to the engine of a directory."""

from __future__ import annotations

import os
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import pymysql
import sqlalchemy as sa
from pymysql.constants import CR

from powerctx_core.errors import StoreUnavailable
from powerctx_oceanbase import embedded, failures, unfinished
from powerctx_oceanbase.location import Location
from powerctx_oceanbase.settings import OceanBaseSettings

__all__ = ["BreakableConnection", "Connector", "seen"]

_SEEN_S, _SEEN_PAUSE = 10.0, 0.05
_CHANGES_TABLES = ("CREATE", "ALTER", "DROP", "CALL")

T = TypeVar("T")


def seen(look: Callable[[], T]) -> T:
    """Return what *look* gives, as soon as the engine knows the database or table that it is about.

    ``CREATE ... IF NOT EXISTS`` comes back at once while another process is making the same, which others see later.
    """
    end = time.monotonic() + _SEEN_S
    while True:
        try:
            return look()
        except (pymysql.MySQLError, sa.exc.DBAPIError) as error:
            if failures.code(error) not in failures.MISSING or time.monotonic() > end:
                raise
        time.sleep(_SEEN_PAUSE)


class BreakableConnection(pymysql.connections.Connection):
    """The driver's connection, of which every failure is one of the driver's errors.

    Where a connection breaks, or what answers breaks the protocol, the driver may stumble over its own objects
    (AttributeError, struct.error, ...), which nobody could tell from a stored value that makes no sense.

    A statement that changes tables and takes too long is given up, but the engine finishes it: it stays connected until
    then.  An engine whose client goes away at a certain moment of such a statement never ends it, and changes no table
    any more until it starts again.
    """

    _changes_tables = False
    _sock: socket.socket  # its stubs lack it

    def connect(self, sock: Any = None) -> None:
        """Connect, and greet."""
        with self._broken():
            try:
                super().connect(sock)
            except RuntimeError as error:  # of a package that the server's way to authenticate needs
                raise pymysql.OperationalError(CR.CR_AUTH_PLUGIN_CANNOT_LOAD, str(error)) from error

    def query(self, sql: Any, unbuffered: bool = False) -> int:  # noqa: FBT001, FBT002 - the signature of the driver
        """Carry out a statement, and read its first result."""
        self._changes_tables = isinstance(sql, str) and sql.lstrip()[:6].upper().startswith(_CHANGES_TABLES)
        with self._broken():
            return super().query(sql, unbuffered)

    def next_result(self, unbuffered: bool = False) -> int:  # noqa: FBT001, FBT002 - the signature of the driver
        """Read the next result."""
        with self._broken():
            return super().next_result(unbuffered)

    def commit(self) -> None:
        """Commit."""
        with self._broken():
            super().commit()

    def rollback(self) -> None:
        """Roll back."""
        with self._broken():
            super().rollback()

    def wait_at_most(self, seconds: float) -> None:
        """Count as broken from now on when nothing comes for so long while a statement runs."""
        self._read_timeout = self._write_timeout = seconds

    @contextmanager
    def _broken(self) -> Iterator[None]:
        try:
            yield
        except pymysql.MySQLError as error:
            # Every error of the server has a number; without one it is the driver that lost the thread.
            if error.args and isinstance(error.args[0], int):
                raise
            raise self._lost(error) from error
        except UnicodeEncodeError:  # of what is asked for
            raise
        except Exception as error:
            raise self._lost(error) from error

    def _force_close(self) -> None:
        if self._changes_tables and isinstance(sys.exception(), TimeoutError):
            kept = socket.socket(fileno=os.dup(self._sock.fileno()))
            name = "powerctx-oceanbase-answer"
            threading.Thread(target=_closed_when_answered, args=(kept,), name=name, daemon=True).start()
        super()._force_close()  # type: ignore[misc]  # its stubs lack it

    def _lost(self, error: Exception) -> pymysql.OperationalError:
        self._force_close()
        return pymysql.OperationalError(CR.CR_SERVER_LOST, f"the connection broke ({type(error).__name__})")


def _closed_when_answered(kept: socket.socket) -> None:
    with kept, suppress(OSError):
        kept.settimeout(None)
        kept.recv(1)


class Connector:
    """Knows how a database is reached; starts the engine of a directory when it is first needed."""

    def __init__(self, location: Location, settings: OceanBaseSettings) -> None:
        self._location = location
        self._settings = settings
        self._engine: embedded.Engine | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._context: ssl.SSLContext | None = None

    def exists(self) -> bool:
        """Whether there may be a database; see :func:`powerctx_oceanbase.embedded.present`."""
        directory = self._location.directory
        return directory is None or self._engine is not None or embedded.present(directory)

    def connect(self, database: str | None = None, *, anywhere: bool = False) -> BreakableConnection:
        """Return a new connection that reads one snapshot a transaction, in *database* or in that of the URL."""
        name = None if anywhere else database or self._location.database
        engine = self._started()
        if engine is None:
            return self._connected(name, self._server())
        # A socket of this machine; the driver would read all certificates of the system first, for 50 ms.
        options = {**engine.options(), "ssl_disabled": True}
        try:
            return self._connected(name, options)
        except pymysql.MySQLError as error:
            if failures.code(error) not in failures.CONNECTION:
                raise
            # Somebody has ended the engine: what was committed is kept, and read when it starts again.
            engine.restart(options["unix_socket"])
            return self._connected(name, {**engine.options(), "ssl_disabled": True})

    def _connected(self, database: str | None, target: dict[str, Any]) -> BreakableConnection:
        settings = self._settings
        return BreakableConnection(
            **target,
            database=database,
            charset="utf8mb4",
            autocommit=False,
            connect_timeout=settings.connect_timeout_s,
            # As long as it greets; who takes it afterwards says how long its statements may take.
            read_timeout=settings.connect_timeout_s,
            write_timeout=settings.connect_timeout_s,
            init_command=(
                "SET SESSION transaction_isolation = 'REPEATABLE-READ', "
                f"ob_trx_lock_timeout = {settings.lock_timeout_ms * 1000}"
            ),
        )

    def _server(self) -> dict[str, Any]:
        location, tls = self._location, self._settings.tls
        target: dict[str, Any] = {
            "host": location.host,
            "port": location.port,
            "user": location.user,
            "password": location.password,
        }
        if tls == "off":
            target["ssl_disabled"] = True
        elif tls != "prefer":
            target["ssl"] = self._context = self._context or _context(verified=tls == "verify")
        return target

    def create_database(self) -> None:
        """Make the database unless it exists."""
        name = self._location.database
        try:
            self.connect().close()
            return
        except pymysql.MySQLError as error:
            if failures.code(error) not in failures.MISSING:
                raise StoreUnavailable(str(failures.explained(error, "open the store", self._location.name))) from error
        try:
            connection = self.connect(anywhere=True)
            try:
                connection.cursor().execute(f"CREATE DATABASE IF NOT EXISTS `{name}` DEFAULT CHARSET utf8mb4")
            finally:
                connection.close()
            seen(self.connect).close()
        except pymysql.MySQLError as error:
            if failures.timed_out(error):
                raise self.stuck("create the store", self._settings.connect_timeout_s) from error
            if failures.code(error) in failures.CONNECTION:
                raise StoreUnavailable(
                    str(failures.explained(error, "create the store", self._location.name))
                ) from error
            raise StoreUnavailable(
                f"{self._location.name}: the database {name} does not exist and could not be made "
                f"({failures.code(error)}); create it, or grant CREATE to this user."
            ) from error

    def hindrance(self, *counts: str) -> str | None:
        """Return why the engine cannot do what it should, and the way out, as far as this user may know.

        Args:
            counts: which hindrances to look for, of :data:`powerctx_oceanbase.unfinished.WAYS_OUT`.
        """
        with suppress(pymysql.MySQLError, StoreUnavailable):
            connection = self.connect(anywhere=True)
            with connection, connection.cursor() as cursor:
                for count in counts:
                    cursor.execute(count)
                    if cursor.fetchall() != ((0,),):
                        return unfinished.WAYS_OUT[count](self._location)
        return None

    def stuck(self, doing: str, seconds: float) -> StoreUnavailable:
        """Return the error to raise when the engine did not change its tables in so many seconds."""
        why = self.hindrance(*unfinished.WAYS_OUT) or "see whether it is busy, and try again"
        return StoreUnavailable(
            f"{self._location.name}: could not {doing}: the engine made no table in {seconds:.0f} seconds; {why}."
        )

    def _started(self) -> embedded.Engine | None:
        directory = self._location.directory
        if directory is None:
            return None
        with self._lock:
            if self._closed:
                raise StoreUnavailable(f"{self._location.name}: the store is closed; open it again.")
            if self._engine is None:
                self._engine = embedded.started(directory)
            return self._engine

    def close(self) -> None:
        """Let the engine go; idempotent."""
        with self._lock:
            self._closed = True
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.release()


def _context(*, verified: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if not verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
