"""Opens an OceanBase store."""

from __future__ import annotations

from powerctx_core.ports import StoreStatus
from powerctx_oceanbase.database import OceanBaseDatabase
from powerctx_oceanbase.health import status
from powerctx_oceanbase.location import parsed
from powerctx_oceanbase.settings import OceanBaseSettings
from powerctx_oceanbase.vectors import OceanBaseVectorIndex
from powerctx_sqlalchemy import RelationalCatalogue, RelationalLedger, RelationalSessions, RelationalUsage

__all__ = ["OceanBaseStore", "open_store"]


class OceanBaseStore:
    """A :class:`powerctx_core.ports.Store` over one database; made by :func:`open_store`."""

    def __init__(self, database: OceanBaseDatabase, settings: OceanBaseSettings) -> None:
        self._database = database
        self._catalogue = RelationalCatalogue(database, rank_above=settings.rank_above)
        self._vectors = OceanBaseVectorIndex(database)
        self._usage = RelationalUsage(database)
        self._ledger = RelationalLedger(database)
        self._sessions = RelationalSessions(database)

    @property
    def database(self) -> OceanBaseDatabase:
        """The database, for who keeps something beside it."""
        return self._database

    @property
    def catalogue(self) -> RelationalCatalogue:
        """The catalogue."""
        return self._catalogue

    @property
    def vectors(self) -> OceanBaseVectorIndex:
        """The vector index."""
        return self._vectors

    @property
    def usage(self) -> RelationalUsage:
        """The usage counts."""
        return self._usage

    @property
    def ledger(self) -> RelationalLedger:
        """What sessions were given."""
        return self._ledger

    @property
    def sessions(self) -> RelationalSessions:
        """The logs of sessions."""
        return self._sessions

    def status(self) -> StoreStatus:
        """Describe location, schema and health; never raises."""
        return status(self._database, self._vectors)

    def close(self) -> None:
        """Release connections and engine; idempotent."""
        self._vectors.close()
        self._database.close()


def open_store(url: str, settings: OceanBaseSettings | None = None) -> OceanBaseStore:
    """Open the store at *url*; a database, or a directory, that does not exist is made by the first write.

    Raises:
        StoreUnavailable: the place cannot be reached, cannot hold, or does not hold, a store of this version.
    """
    given = settings if isinstance(settings, OceanBaseSettings) else OceanBaseSettings()
    location, effective = parsed(url, given)
    database = OceanBaseDatabase(location, effective)
    store = OceanBaseStore(database, effective)
    try:
        if database.ready():
            store.catalogue.refresh(effective.reanalyse_at_most)
    except BaseException:
        store.close()
        raise
    return store
