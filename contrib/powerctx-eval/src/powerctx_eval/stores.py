"""Opens stores for a run, fills them with a set and leaves nothing behind."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

import powerctx_core as powerctx
from powerctx_core import Address, InvalidRequest, Item
from powerctx_eval.data import EvalSet
from powerctx_eval.progress import Tick, unseen

__all__ = ["Filled", "filled", "opened"]

BATCH = 1000
NO_EMBEDDER = "none"


@attrs.frozen(kw_only=True)
class Filled:
    """A store that holds one set.

    Attributes:
        items: address -> the item stored there.
        retired: addresses that must not come back.
        seconds: what storing took.
    """

    ctx: powerctx.Context
    items: Mapping[Address, Item]
    retired: frozenset[Address]
    seconds: float


@contextmanager
def opened(
    store: str, embedder: str = NO_EMBEDDER, *, extra: Sequence[object] = (), settings: Mapping[str, Any] | None = None
) -> Iterator[powerctx.Context]:
    """Open ``memory``, ``sqlite`` (a temporary file) or a URL; settings files and variables play no part.

    A query's vector is waited for: what is found must not depend on how busy the machine is.

    Raises:
        StoreUnavailable: see :func:`powerctx_core.open`.
    """
    more: dict[str, Any] = {}
    if embedder != NO_EMBEDDER:
        more["embedder"] = embedder
    retrieval = {"embedding_timeout_s": 60.0, **(settings or {}).get("retrieval", {})}
    with tempfile.TemporaryDirectory(prefix="powerctx-eval-") as folder:
        url = {"memory": "memory://", "sqlite": f"sqlite:///{(Path(folder) / 'eval.db').as_posix()}"}.get(store, store)
        with powerctx.open(url, settings={**(settings or {}), "retrieval": retrieval}, extra=extra, **more) as ctx:
            yield ctx


@contextmanager
def filled(ctx: powerctx.Context, found: EvalSet, *, embedded: bool = False, tick: Tick = unseen) -> Iterator[Filled]:
    """Store a set, and purge it at the end.

    Args:
        ctx: an opened store.
        found: the set.
        embedded: an embedder is open, and everything must have a vector.
        tick: counts stored items.

    Raises:
        InvalidRequest: the store holds something in a scope of the set already.
    """
    if taken := sorted({each.scope_id for each in ctx.partitions()} & found.scope_ids):
        raise InvalidRequest(
            f"the store holds items in scope {taken[0]!r}, which would mix with the set; name an empty store.",
            field="store",
        )
    items: dict[Address, Item] = {}
    retired: list[Address] = []
    start = time.perf_counter()
    try:
        for first in range(0, len(found.items), BATCH):
            batch = found.items[first : first + BATCH]
            for entry, result in zip(batch, ctx.put(entry.item for entry in batch), strict=True):
                items[result.address] = entry.item
                if entry.retired:
                    retired.append(result.address)
            tick(len(batch))
        if embedded:
            # `put` leaves what it could not embed for later; a run must not go on without vectors.
            for _ in ctx.embed():
                pass
        if retired:
            ctx.retire(retired)
        yield Filled(ctx=ctx, items=items, retired=frozenset(retired), seconds=time.perf_counter() - start)
    finally:
        if items:
            ctx.purge(items)
