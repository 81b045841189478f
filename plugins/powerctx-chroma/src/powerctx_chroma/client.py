"""Chroma's client: made when it is first needed, without telemetry, with errors that say what to do."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

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
        """Look whether the server is one, and has tenant and database.

        Chroma's client asks as soon as it is made, waits for ever, and tells one failure from another by none.
        """
        import httpx

        location = self.location
        host = f"[{location.host}]" if ":" in location.host else location.host
        place = f"{'https' if location.tls else 'http'}://{host}:{location.port}/api/v2"
        tenant = f"tenants/{quote(location.tenant, safe='')}"
        asked = {
            "version": "runs no Chroma server of version 1 or later; install one (pip install chromadb), or correct "
            "host and port.",
            tenant: f"has no tenant {location.tenant}; correct ?tenant=, or have it made.",
            f"{tenant}/databases/{quote(location.database, safe='')}": f"has no database {location.database} in the "
            f"tenant {location.tenant}; correct ?database=, or have it made.",
        }
        with httpx.Client(headers=headers, timeout=self._timeout) as session:
            for path, lacking in asked.items():
                answer = session.get(f"{place}/{path}")
                if answer.status_code in (401, 403):
                    raise self._unwelcome("open")
                gone = answer.status_code in (404, 410)
                if gone or (answer.is_success and path == "version" and not _recent(answer.text)):
                    raise StoreUnavailable(f"{location.name} {lacking}")
                if not answer.is_success:
                    raise StoreUnavailable(
                        f"{location.name}: could not open: the server answers with status {answer.status_code}; "
                        "try again later, or look into its log."
                    )

    def _unwelcome(self, doing: str) -> StoreError:
        told = "refuses the token; correct ?token=" if self.location.token else "asks for a token; add ?token="
        return StoreUnavailable(f"{self.location.name}: could not {doing}: the server {told} or the setting `token`.")

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
        if kind == "ConnectError" and any(isinstance(each, ssl.SSLError) for each in _chain(error)):
            return StoreUnavailable(f"{name} cannot be reached: {_untrusted(error)}.")
        if any(isinstance(each, socket.gaierror) for each in _chain(error)):
            return StoreUnavailable(f"{name} cannot be reached: no host of this name is known; correct the host.")
        if kind in ("ConnectError", "ConnectTimeout") or "Could not connect" in said:
            text = f"{name} cannot be reached: no Chroma server answers there; start it, or correct host and port."
            return StoreUnavailable(text)
        if "Timeout" in kind:
            return StoreError(f"{name}: could not {doing}: no answer came within {self._timeout:g} s; try again.")
        if "Protocol" in kind or kind in ("ReadError", "WriteError", "CloseError"):
            return StoreError(f"{name}: could not {doing}: the connection broke; try again when the server is up.")
        if kind in ("ChromaAuthError", "AuthorizationError") or "401" in said or "403" in said:
            return self._unwelcome(doing)
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


def _recent(version: str) -> bool:
    """Whether what a server says of itself, a quoted version, is that of one whose API this is."""
    major = version.strip().strip('"').partition(".")[0]
    return major.isdecimal() and int(major) >= 1


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Give an error and what it was raised for."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or found.__context__


def _untrusted(error: BaseException) -> str:
    """Say why there is no TLS."""
    if any(isinstance(each, ssl.SSLCertVerificationError) for each in _chain(error)):
        return (
            "its certificate is not trusted here; name the file of its authority in the environment variable "
            "SSL_CERT_FILE, or correct the host"
        )
    return "it does not speak TLS there; write chroma+http://, or correct the port"


@contextmanager
def _announced(doing: str, after: float = _PATIENCE) -> Iterator[None]:
    """Tell what takes long, if it does: more than so many seconds."""
    timer = threading.Timer(after, _LOGGER.warning, (f"{doing} …",))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
