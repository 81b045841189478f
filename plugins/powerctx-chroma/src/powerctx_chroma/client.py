"""Chroma's client: made when it is first needed, without telemetry, with errors that say what to do."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from powerctx_chroma.location import Location
from powerctx_chroma.lock import DirectoryLock
from powerctx_core.errors import PowerctxError, StoreError, StoreUnavailable, cause

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

__all__ = ["Client"]

_LOGGER = logging.getLogger(__name__)
_PATIENCE = 1.0
"""Seconds after which a user is told what takes so long."""


class Client:
    """The client of one store; any thread may use it.

    Args:
        lock: of the directory, if there is one.
        timeout_s: of one answer of a server.
    """

    def __init__(self, location: Location, lock: DirectoryLock | None, *, timeout_s: float) -> None:
        self.location = location
        self._lock = lock
        self._timeout = timeout_s
        self._opening = threading.Lock()
        self._opened: ClientAPI | None = None
        self._closed = False

    def exists(self) -> bool:
        """Whether there may be something: a directory in which Chroma never wrote has nothing."""
        data = self.location.data
        return data is None or self._opened is not None or data.exists()

    def get(self) -> ClientAPI:
        """Return the client, made at its first use, which imports Chroma and makes the directory.

        Raises:
            StoreError: the store was closed.
            StoreUnavailable: Chroma cannot be imported, or its directory or server not be opened.
        """
        if self._opened is not None:
            return self._opened
        with self._opening:
            if self._closed:
                raise StoreError(f"{self.location.name}: the store is closed; open it again.")
            if self._opened is None:
                if self._lock is not None:
                    self._lock.acquire()
                with _announced(f"loading Chroma and opening {self.location.name}"), self.told("open"):
                    self._opened = self._made()
        return self._opened

    def _made(self) -> ClientAPI:
        import chromadb
        from chromadb.config import Settings

        # Nothing from the environment or a file: a trace or a token of another program is not this store's.
        quiet: dict[str, Any] = {
            "anonymized_telemetry": False,
            "chroma_otel_collection_endpoint": "",
            "chroma_otel_granularity": None,
        }
        location = self.location
        if location.directory is not None:
            return chromadb.PersistentClient(str(location.directory), settings=Settings(**quiet))
        if not location.host:
            return chromadb.EphemeralClient(settings=Settings(**quiet))
        token = location.token
        headers = {"Authorization": f"Bearer {token}", "X-Chroma-Token": token} if token else {}
        self._reach(headers)
        client = chromadb.HttpClient(
            host=location.host,
            port=location.port,
            ssl=location.tls,
            headers=headers,
            settings=Settings(**quiet),
            tenant=location.tenant,
            database=location.database,
        )
        for session in _sessions(client):
            session.timeout = self._timeout
        return client

    def _reach(self, headers: dict[str, str]) -> None:
        """Ask the server for a sign of life: Chroma's client asks as soon as it is made, and waits for ever."""
        import httpx

        host = f"[{self.location.host}]" if ":" in self.location.host else self.location.host
        scheme = "https" if self.location.tls else "http"
        place = f"{scheme}://{host}:{self.location.port}/api/v2/heartbeat"
        httpx.get(place, headers=headers, timeout=self._timeout).raise_for_status()

    @contextmanager
    def told(self, doing: str) -> Iterator[None]:
        """Turn what Chroma, its HTTP client and its engine raise inside into a :class:`StoreError`."""
        try:
            yield
        except PowerctxError:
            raise
        except Exception as error:
            raise self._explained(error, doing) from error

    def _explained(self, error: Exception, doing: str) -> StoreError:
        name = self.location.name
        if isinstance(error, ImportError):
            return StoreUnavailable(
                f"{name} needs chromadb, which cannot be imported ({cause(error)}): pip install powerctx-chroma."
            )
        secrets = (self.location.token,)
        said, kind = cause(error, secrets), type(error).__name__
        if kind in ("ConnectError", "ConnectTimeout") or "Could not connect" in said:
            text = f"{name} cannot be reached: no Chroma server answers there; start it, or correct host and port."
            return StoreUnavailable(text)
        if "Timeout" in kind:
            return StoreError(f"{name}: could not {doing}: no answer came within {self._timeout:g} s; try again.")
        if "Protocol" in kind or kind in ("ReadError", "WriteError", "CloseError"):
            return StoreError(f"{name}: could not {doing}: the connection broke; try again when the server is up.")
        if kind in ("ChromaAuthError", "AuthorizationError") or "401" in said or "403" in said:
            return StoreError(f"{name}: could not {doing}: the server refuses the token; correct ?token= or settings.")
        if "different settings" in said:
            return StoreUnavailable(
                f"{name}: this program has opened it with chromadb and other settings; open it with "
                "Settings(anonymized_telemetry=False), or with powerctx first."
            )
        return StoreError(f"{name}: could not {doing}: {said}")

    def close(self) -> None:
        """Release client and directory; again is allowed."""
        with self._opening:
            self._closed = True
            try:
                self._end()
            finally:
                if self._lock is not None:
                    self._lock.release()

    def rest(self) -> None:
        """Release the client until :meth:`get` makes another one; the directory stays locked."""
        with self._opening:
            self._end()

    def _end(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()  # type: ignore[attr-defined] # of its client class, not of the interface
            for session in _sessions(opened):
                session.close()


def _sessions(client: ClientAPI) -> Iterator[Any]:
    """Give the two HTTP clients in a server's client, which Chroma neither limits nor closes."""
    for each in (client, getattr(client, "_admin_client", None)):
        session = getattr(getattr(each, "_server", None), "_session", None)
        if session is not None:
            yield session


@contextmanager
def _announced(doing: str) -> Iterator[None]:
    """Tell what takes long, if it does."""
    timer = threading.Timer(_PATIENCE, _LOGGER.warning, (f"{doing} …",))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
