"""The relational base of powerctx stores: tables, migrations and the SQL of catalogue and snapshot.

A library: it registers no store.  A plugin for a database subclasses :class:`Database` and :class:`LexicalIndex` and
hands a :class:`RelationalCatalogue` to its store.
"""

from powerctx_sqlalchemy.catalogue import RelationalCatalogue
from powerctx_sqlalchemy.database import Database, Found, LexicalIndex, PartitionRow, Search
from powerctx_sqlalchemy.sessions import RelationalLedger, RelationalSessions
from powerctx_sqlalchemy.snapshot import EmptySnapshot, RelationalSnapshot
from powerctx_sqlalchemy.store import RelationalStore
from powerctx_sqlalchemy.usage import RelationalUsage

__all__ = [
    "Database",
    "EmptySnapshot",
    "Found",
    "LexicalIndex",
    "PartitionRow",
    "RelationalCatalogue",
    "RelationalLedger",
    "RelationalSessions",
    "RelationalSnapshot",
    "RelationalStore",
    "RelationalUsage",
    "Search",
]
