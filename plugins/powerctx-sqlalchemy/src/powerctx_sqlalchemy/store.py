"""A store that is relational all through, so that it can be the companion of a vector engine."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from powerctx_core.ports import CountingStore
from powerctx_sqlalchemy.database import Database
from powerctx_sqlalchemy.usage import RelationalUsage

__all__ = ["RelationalStore"]


@runtime_checkable
class RelationalStore(CountingStore, Protocol):
    """A store over one :class:`powerctx_sqlalchemy.Database`, which its catalogue and usage counts share."""

    @property
    def database(self) -> Database:
        """The database."""

    @property
    def usage(self) -> RelationalUsage:
        """The usage counts."""
