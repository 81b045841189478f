"""The store in memory, taken apart so that one method of one of its parts can be broken."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from kit_fakes.faults import declare
from powerctx_core import StoreSpec
from powerctx_core.config import structure
from powerctx_core.host import Host
from powerctx_core.memory_sessions import MemoryLedger, MemorySessions
from powerctx_core.memory_state import Draft, Shelf
from powerctx_core.memory_store import MemoryCatalogue, MemorySnapshot, MemoryStore, MemoryUsage
from powerctx_core.memory_vectors import MemoryVectors
from powerctx_core.ports import Capability
from powerctx_core.records import NoSettings
from powerctx_core.types import Filters, Item, PutResult, RawCandidate, derived_artifact_id

__all__ = ["FORGETFUL", "assembled", "broken", "factory", "filtering", "offered", "store_fields"]

FORGETFUL = frozenset(Capability) - {Capability.DURABLE, Capability.MULTI_PROCESS, Capability.REMOTE}
"""What a store in memory can do."""


class Catalogue(MemoryCatalogue):
    """A catalogue whose parts can be exchanged."""

    snapshot_type: type[MemorySnapshot] = MemorySnapshot
    shelf_type: type[Shelf] = Shelf

    def draft(self) -> Draft:
        """Begin a batch."""
        draft, shelf_of = Draft(self.state()), Draft.shelf

        def shelf(scope_id: str, family: str) -> Shelf:
            shelf = shelf_of(draft, scope_id, family)
            shelf.__class__ = self.shelf_type
            return shelf

        draft.shelf = shelf  # type: ignore[method-assign]  # of this draft alone: core makes drafts of no other class
        return draft

    def publish(self, draft: Draft) -> None:
        """End a batch."""
        self._state = draft.finished()

    @contextmanager
    def snapshot(self, deadline: Any) -> Iterator[MemorySnapshot]:
        yield self.snapshot_type(self.state(), deadline)

    def put(self, items: Sequence[Item]) -> Sequence[PutResult]:
        with self._lock:
            draft = self.draft()
            results = [self.write(draft, item) for item in items]
            if any(result.outcome != "unchanged" for result in results):
                self.publish(draft)
        return results

    def write(self, draft: Draft, item: Item) -> PutResult:
        """Store one item of a batch."""
        if item.artifact_id is None:
            item = attrs.evolve(item, artifact_id=derived_artifact_id(item))
        return draft.shelf(item.scope_id, item.family).write(item, datetime.now(UTC))

    def commit(self, change: Callable[[Draft], int]) -> int:
        with self._lock:
            draft = self.draft()
            changed = change(draft)
            if changed:
                self.publish(draft)
        return changed


PARTS = {
    "store": MemoryStore,
    "catalogue": Catalogue,
    "snapshot": MemorySnapshot,
    "shelf": Shelf,
    "vectors": MemoryVectors,
    "usage": MemoryUsage,
    "ledger": MemoryLedger,
    "sessions": MemorySessions,
}


def override(base: type, method: str, function: Callable[..., Any] | None) -> Any:
    """Return a method that calls *function* with the part, the honest method, and the arguments; or none."""
    if function is None:
        return None

    def overriding(self: Any, *args: Any, **fields: Any) -> Any:
        return function(self, partial(getattr(base, method), self), *args, **fields)

    return overriding


def factory(changes: Mapping[str, Callable[..., Any]]) -> Callable[[str, NoSettings], MemoryStore]:
    """Return a store factory with methods exchanged, named as ``part.method``."""
    types: dict[str, type] = dict(PARTS)
    for where, function in changes.items():
        part, _, method = where.partition(".")
        types[part] = type(f"Broken{part.title()}", (types[part],), {method: override(types[part], method, function)})
    catalogue = type(
        "BrokenCatalogue",
        (types["catalogue"],),
        {"snapshot_type": types["snapshot"], "shelf_type": types["shelf"]},
    )

    def opened(url: str, settings: NoSettings) -> MemoryStore:
        store: MemoryStore = types["store"]("memory://", settings)
        store.url = url  # type: ignore[attr-defined]  # what a fault may tell of
        store._catalogue = catalogue()
        store._vectors = types["vectors"](store._catalogue)
        store._usage = types["usage"](store._catalogue)
        for part in ("ledger", "sessions"):
            setattr(store, f"_{part}", types[part](store._catalogue.state, store._catalogue.commit))
        return store

    return opened


@functools.cache
def host() -> Host:
    """Give the host of all faults; composing one for each of some thousand tests would take most of the time."""
    return Host.compose(structure({}), allow=("broken",))


def store_fields(name: str, can: frozenset[Capability]) -> dict[str, Any]:
    """Return what the subclass of a contract of a store declares."""
    import pytest

    from powerctx_core.testing import cannot

    def place(self: Any, tmp_path: Path) -> str:
        return f"broken-{name}:///{tmp_path}/store"

    return {
        "plugins": ("broken",),
        "lacks": {each: cannot("is a fake") for each in Capability if each not in can},
        "host": pytest.fixture(lambda self: host()),
        "store_url": pytest.fixture(place if Capability.DURABLE in can else lambda self: f"broken-{name}://"),
    }


def offered(
    make: Callable[..., Any],
    fails: tuple[str, ...],
    broken: Callable[..., Any],
    *,
    contract: str = "catalogue:CatalogueContract",
    can: frozenset[Capability] = FORGETFUL,
    says: frozenset[Capability] | None = None,
) -> None:
    """Declare the fault *broken* of the store that *make* opens."""
    name = broken.__name__.replace("_", "-").lower()
    record = StoreSpec(name=f"broken-{name}", factory=make, schemes=(f"broken-{name}",), capabilities=says or can)
    declare(broken, fails, contract, record=record, fields=partial(store_fields, name, can))


def broken(where: str, *fails: str, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the decorated function as a fault of the methods *where*, which have to fail the tests *fails*.

    Args:
        where: ``part.method``, several with blanks between.
        fails: names of tests.
        options: as in :func:`offered`.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        offered(factory(dict.fromkeys(where.split(), function)), fails, function, **options)
        return function

    return decorate


def assembled(*fails: str, **options: Any) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Declare the fault of what the decorated function returns: functions for several methods, by ``part.method``."""

    def decorate(function: Callable[[], Any]) -> Callable[[], Any]:
        offered(factory(function()), fails, function, **options)
        return function

    return decorate


def filtering(passes: Callable[[Filters, RawCandidate], bool]) -> dict[str, Callable[..., Any]]:
    """Return the methods of a snapshot that filters by *passes*."""

    def lexical(snapshot: Any, honest: Any, request: Any) -> Any:
        result = honest(attrs.evolve(request, filters=Filters()))
        hits = [hit for hit in result.hits if passes(request.filters, snapshot._row(hit.key).details)]
        return attrs.evolve(result, hits=tuple(hits))

    def listing(_: Any, honest: Any, request: Any) -> Any:
        everything = attrs.evolve(request, filters=Filters(time_field=request.filters.time_field), limit=10**9)
        return tuple(each for each in honest(everything) if passes(request.filters, each))[: request.limit]

    return {"snapshot._lexical": lexical, "snapshot.listing": listing}
