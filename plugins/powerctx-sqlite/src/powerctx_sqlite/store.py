"""Opens a SQLite store."""

from __future__ import annotations

from powerctx_core.errors import StoreUnavailable
from powerctx_core.ports import StoreStatus
from powerctx_core.types import Deadline
from powerctx_sqlalchemy import RelationalCatalogue, RelationalLedger, RelationalSessions, RelationalUsage
from powerctx_sqlite.database import SqliteDatabase
from powerctx_sqlite.health import status
from powerctx_sqlite.location import Location, network_type, parsed
from powerctx_sqlite.settings import SqliteSettings
from powerctx_sqlite.vectors import SqliteVectorIndex

__all__ = ["SqliteStore", "open_store"]


class SqliteStore:
    """A :class:`powerctx_core.ports.Store` over one file; made by :func:`open_store`."""

    def __init__(self, database: SqliteDatabase, settings: SqliteSettings) -> None:
        self._database = database
        self._catalogue = RelationalCatalogue(database, rank_above=settings.rank_above)
        self._vectors = SqliteVectorIndex(database, most_bytes=settings.vector_memory_mb << 20)
        self._usage = RelationalUsage(database)
        self._ledger = RelationalLedger(database)
        self._sessions = RelationalSessions(database)

    @property
    def database(self) -> SqliteDatabase:
        """The database, for who keeps something beside it."""
        return self._database

    @property
    def catalogue(self) -> RelationalCatalogue:
        """The catalogue."""
        return self._catalogue

    @property
    def vectors(self) -> SqliteVectorIndex:
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
        return status(self._database)

    def check(self, deadline: Deadline) -> StoreStatus:
        """Do as :meth:`status`, and read all that is stored, as far as *deadline* lets; for ``powerctx doctor``."""
        from powerctx_sqlite.examination import examined

        return examined(self._database, deadline)

    def close(self) -> None:
        """Release the file; idempotent."""
        self._database.close()


def open_store(url: str, settings: SqliteSettings | None = None) -> SqliteStore:
    """Open the store at *url*; a file that does not exist is made by the first write.

    Raises:
        StoreUnavailable: the place cannot hold, or does not hold, a store of this version.
    """
    location, effective = parsed(url, settings if isinstance(settings, SqliteSettings) else SqliteSettings())
    _check(location, effective)
    database = SqliteDatabase(location, effective)
    store = SqliteStore(database, effective)
    try:
        if database.ready():
            store.catalogue.refresh(effective.reanalyse_at_most if database.writable else -1)
    except BaseException:
        database.close()
        raise
    return store


def _check(location: Location, settings: SqliteSettings) -> None:
    path = location.path
    if path is None:
        return
    refusal = location.refusal()
    if refusal is not None:
        raise StoreUnavailable(refusal)
    if not path.parent.is_dir() and not _is_default(location):
        raise StoreUnavailable(f"The directory of {location.name} does not exist; create it, or choose another path.")
    if not settings.network and (kind := network_type(path)) is not None:
        raise StoreUnavailable(
            f"{location.name} is on a network file system ({kind}), where SQLite's locks and shared memory do not work "
            "between machines; choose a local path, or add ?network=allow to the URL when only one machine uses it."
        )


def _is_default(location: Location) -> bool:
    """Whether this is the path that is used when nobody names one; only its directories are made unasked."""
    from platformdirs import user_data_path

    assert location.path is not None  # noqa: S101 - only asked of files
    return location.path.is_relative_to(user_data_path("powerctx", appauthor=False).resolve())
