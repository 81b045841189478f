"""What ``doctor`` shows of a Chroma store."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from typing import TYPE_CHECKING

from powerctx_core.errors import PowerctxError
from powerctx_core.ports import StoreStatus

if TYPE_CHECKING:
    from powerctx_chroma.store import ChromaStore

__all__ = ["status"]

_MANY = 10_000


def status(
    store: ChromaStore, companion: StoreStatus | None = None, reach: Callable[[], object] | None = None
) -> StoreStatus:
    """Describe the store, with what is known of its *companion*; never raises.

    *reach* asks a server for a sign of life: what is written down beside it does not tell whether it is there.
    """
    companion = store.companion.status() if companion is None else companion
    location = store.location
    facts = {"chroma": f"{location.name}, chromadb {importlib.metadata.version('chromadb')}"}
    facts["companion"] = companion.location
    problems = list(companion.problems)
    if reach is not None:
        try:
            reach()
        except PowerctxError as error:
            problems.append(str(error))
    try:
        facts["vectors"] = f"{store.vectors.count()}"
        if waiting := store.pairing.waiting():
            facts["waiting to be deleted"] = str(waiting)
        if waiting > _MANY:
            problems.append(
                f"{waiting} vectors wait to be deleted from Chroma; is it reached when something is stored?"
            )
        problems += store.pairing.differences()
    except PowerctxError as error:
        if str(error) not in problems:
            problems.append(str(error))
    return StoreStatus(location=location.name, facts={**facts, **companion.facts}, problems=tuple(problems))
