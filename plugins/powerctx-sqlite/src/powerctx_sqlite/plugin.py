"""What the entry point names; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator

from powerctx_core import Capability, StoreSpec, hookimpl
from powerctx_sqlite.settings import SqliteSettings

__all__ = ["powerctx_stores"]


@hookimpl
def powerctx_stores() -> Iterator[StoreSpec]:
    """Offer the SQLite store."""
    yield StoreSpec(
        name="sqlite",
        schemes=("sqlite",),
        factory="powerctx_sqlite.store:open_store",
        settings=SqliteSettings,
        capabilities=frozenset(
            {
                Capability.LEXICAL,
                Capability.VECTOR,
                Capability.WINDOW,
                Capability.REVISIONS,
                Capability.TAGS,
                Capability.TRANSACTIONS,
                Capability.MULTI_PROCESS,
                Capability.DURABLE,
            }
        ),
        example="sqlite:///notes.db",
        about="one file on this machine, for any number of processes",
    )
