"""What the entry point names; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator

from powerctx_core import Capability, StoreSpec, hookimpl
from powerctx_oceanbase.settings import OceanBaseSettings

__all__ = ["powerctx_stores"]

_CAPABILITIES = frozenset(
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
)


@hookimpl
def powerctx_stores() -> Iterator[StoreSpec]:
    """Offer OceanBase as a server and as an embedded engine."""
    yield StoreSpec(
        name="oceanbase",
        schemes=("oceanbase",),
        factory="powerctx_oceanbase.store:open_store",
        settings=OceanBaseSettings,
        capabilities=_CAPABILITIES | {Capability.REMOTE},
        example="oceanbase://user@host:2881/powerctx",
        about="a database of an OceanBase server or cluster",
    )
    yield StoreSpec(
        name="seekdb",
        schemes=("seekdb",),
        factory="powerctx_oceanbase.store:open_store",
        settings=OceanBaseSettings,
        capabilities=_CAPABILITIES,
        example="seekdb:///notes",
        about="a directory with OceanBase's engine in a process of its own (extra seekdb)",
    )
