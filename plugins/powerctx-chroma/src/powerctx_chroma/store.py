"""Opens a Chroma store: a companion for items and words, and Chroma for their vectors."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from powerctx_chroma.client import Client
from powerctx_chroma.engine import ChromaEngine
from powerctx_chroma.forgetting import forget
from powerctx_chroma.health import status
from powerctx_chroma.location import Location, parsed
from powerctx_chroma.lock import DirectoryLock
from powerctx_chroma.settings import ChromaSettings
from powerctx_chroma.vectors import ChromaVectorIndex
from powerctx_core.errors import StoreError, StoreUnavailable, redacted_url
from powerctx_core.ports import Store, StoreStatus
from powerctx_core.types import Deadline
from powerctx_sqlalchemy import RelationalLedger, RelationalSessions, RelationalStore, RelationalUsage
from powerctx_sqlalchemy.paired import PairedCatalogue, Pairing

__all__ = ["ChromaStore", "open_store"]

_LOGGER = logging.getLogger(__name__)
GRACE_S = 60.0
"""A snapshot of another process is closed by then; so is a write done, or else begun anew."""


class ChromaStore:
    """A :class:`powerctx_core.ports.Store`; made by :func:`open_store`, which closes nothing of what it is given.

    Args:
        temporary: called when it is closed, and before that its collections are deleted.
    """

    def __init__(
        self,
        location: Location,
        companion: RelationalStore,
        client: Client,
        settings: ChromaSettings,
        temporary: Callable[[], object] | None = None,
    ) -> None:
        self.location = location
        self._companion = companion
        self._client = client
        self._temporary = temporary
        self._closed = False
        self.engine = ChromaEngine(client, ef_search=settings.ef_search, documents=settings.documents)
        self.pairing = Pairing(
            companion.database,
            self.engine,
            shared_up_to=settings.exact_below,
            grace_s=GRACE_S if location.shared else 0.0,
        )
        self._catalogue = PairedCatalogue(companion.catalogue, self.pairing)
        self._vectors = ChromaVectorIndex(
            self.pairing,
            self.engine,
            exact_below=settings.exact_below,
            most_bytes=settings.vector_memory_mb << 20,
        )

    @property
    def companion(self) -> RelationalStore:
        """The store that keeps items, words and sessions."""
        return self._companion

    @property
    def catalogue(self) -> PairedCatalogue:
        """The catalogue."""
        return self._catalogue

    @property
    def vectors(self) -> ChromaVectorIndex:
        """The vector index."""
        return self._vectors

    @property
    def usage(self) -> RelationalUsage:
        """The usage counts."""
        return self._companion.usage

    @property
    def ledger(self) -> RelationalLedger:
        """What sessions were given."""
        return self._companion.ledger

    @property
    def sessions(self) -> RelationalSessions:
        """The logs of sessions."""
        return self._companion.sessions

    def status(self) -> StoreStatus:
        """Describe companion and Chroma; never raises."""
        return status(self)

    def check(self, deadline: Deadline) -> StoreStatus:
        """Do as :meth:`status`, with all that the companion can look at by *deadline*; for ``powerctx doctor``."""
        look = getattr(self._companion, "check", None)
        reach = self._client.get if self.location.host else None
        return status(self, None if look is None else look(deadline), reach)

    def close(self) -> None:
        """Release both; idempotent."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._temporary is not None:
                self.pairing.clear()
            elif self._catalogue.purged and self.location.data is not None and self.location.data.exists():
                # No snapshot is open any more that shows it.
                self.pairing.sweep(at_once=True)
                forget(self._client, self.engine, self.location.data)
        except StoreError as error:
            _LOGGER.warning("%s could not be put in order: %s", self.location.name, error)
        finally:
            self._client.close()
            self._companion.close()
            if self._temporary is not None:
                self._temporary()


def open_store(url: str, open_other: Callable[[str], Store], settings: ChromaSettings | None = None) -> ChromaStore:
    """Open the store at *url*, and its companion with *open_other*; what does not exist is made by the first write.

    Raises:
        StoreUnavailable: the URL cannot be meant; the directory is in use by another process; or the companion cannot
            be opened, or be one.
    """
    given = settings if isinstance(settings, ChromaSettings) else ChromaSettings()
    location = parsed(url, given)
    temporary = None
    companion_url = location.companion
    if companion_url is None:
        folder = tempfile.TemporaryDirectory(prefix="powerctx-chroma-")
        companion_url, temporary = f"sqlite:///{folder.name}/companion.db", folder.cleanup
    lock = None if location.lock is None else DirectoryLock(location.lock, location.name)
    if lock is not None and any(path.exists() for path in _files(location)):
        lock.acquire()
    client = Client(location, lock, timeout_s=given.timeout_s)
    try:
        companion = _companion(open_other(companion_url), companion_url, location)
    except BaseException:
        client.close()
        if temporary is not None:
            temporary()
        raise
    store = ChromaStore(location, companion, client, given, temporary)
    try:
        if not given.inspect:
            store.pairing.repair()
    except BaseException:
        store.close()
        raise
    return store


def _files(location: Location) -> Iterable[Path]:
    """Return what is there when something was ever written."""
    directory = location.directory
    return () if directory is None else (directory, directory.with_name(f"{directory.name}.powerctx.db"))


def _companion(store: Store, url: str, location: Location) -> RelationalStore:
    """Return the companion, unless it cannot be one; tell when others of a shared server will not see it."""
    private = url.partition("://")[2][:1] in ("", "/")
    if not isinstance(store, RelationalStore) or (private and not url.partition("://")[2].strip("/")):
        store.close()
        raise StoreUnavailable(
            f"{redacted_url(url)} cannot be the companion of {location.name}: it has to be a durable relational store, "
            "such as sqlite:///notes.db or oceanbase://user@host:2881/powerctx."
        )
    if private and location.shared:
        _LOGGER.warning(
            "%s keeps its items in %s, which only this machine has: others who use the server have items and vectors "
            "of their own. Use an OceanBase companion to share them.",
            location.name,
            redacted_url(url),
        )
    return store
