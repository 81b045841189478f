"""What the entry point names; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator

from powerctx_chroma.settings import ChromaSettings
from powerctx_core import Capability, StoreSpec, hookimpl

__all__ = ["powerctx_stores"]

_CAPABILITIES = frozenset(
    {
        Capability.LEXICAL,
        Capability.VECTOR,
        Capability.WINDOW,
        Capability.REVISIONS,
        Capability.TAGS,
        Capability.TRANSACTIONS,
        Capability.DURABLE,
    }
)


@hookimpl
def powerctx_stores() -> Iterator[StoreSpec]:
    """Offer Chroma in this process and as a server."""
    yield StoreSpec(
        name="chroma",
        schemes=("chroma",),
        factory="powerctx_chroma.store:open_store",
        settings=ChromaSettings,
        capabilities=_CAPABILITIES,
        example="chroma:///notes",
        about="a directory for vectors, with a SQLite file beside it, for one process",
        composed=True,
    )
    yield StoreSpec(
        name="chroma-server",
        schemes=("chroma+http", "chroma+https"),
        factory="powerctx_chroma.store:open_store",
        settings=ChromaSettings,
        capabilities=_CAPABILITIES | {Capability.MULTI_PROCESS, Capability.REMOTE},
        example="chroma+http://host:8000?companion=oceanbase://user@host:2881/powerctx",
        about="a Chroma server for vectors, with another store for all the rest",
        composed=True,
    )
