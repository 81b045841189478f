"""A store that is relational all through, so that it can be the companion of a vector engine."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from powerctx_core.ports import CountingStore, SessionStore
from powerctx_sqlalchemy.database import Database
from powerctx_sqlalchemy.sessions import RelationalLedger, RelationalSessions
from powerctx_sqlalchemy.usage import RelationalUsage

__all__ = ["RelationalStore"]


@runtime_checkable
class RelationalStore(CountingStore, SessionStore, Protocol):
    """A store over one :class:`powerctx_sqlalchemy.Database`, which all that it keeps shares."""

    @property
    def database(self) -> Database:
        """The database."""

    @property
    def usage(self) -> RelationalUsage:
        """The usage counts."""

    @property
    def ledger(self) -> RelationalLedger:
        """What sessions were given."""

    @property
    def sessions(self) -> RelationalSessions:
        """The logs of sessions."""
