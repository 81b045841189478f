"""What the entry point names; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator

from powerctx_acme_log.settings import LogSettings
from powerctx_core import Capability, StoreSpec, hookimpl

__all__ = ["powerctx_stores"]


@hookimpl
def powerctx_stores() -> Iterator[StoreSpec]:
    """Offer the store."""
    yield StoreSpec(
        name="acme-log",
        schemes=("acme-log",),
        factory="powerctx_acme_log.store:LogStore",
        settings=LogSettings,
        capabilities=frozenset(
            {
                Capability.LEXICAL,
                Capability.WINDOW,
                Capability.REVISIONS,
                Capability.TAGS,
                Capability.TRANSACTIONS,
                Capability.DURABLE,
            }
        ),
        example="acme-log:///notes.log",
        about="one append-only file, for one process at a time",
    )
