"""Stores in a file that forget, or that other processes do not see; made of the SQLite store."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from kit_fakes.stores import offered
from powerctx_core.errors import CapabilityError
from powerctx_core.memory_store import MemoryStore
from powerctx_core.ports import Capability, StoreStatus
from powerctx_core.records import NoSettings
from powerctx_core.types import Item, PutResult

__all__: list[str] = []

DURABLE = frozenset(Capability) - {Capability.REMOTE}
OPENED: Counter[str] = Counter()


class Filed:
    """A store in a file, and its own catalogue; faults are subclasses."""

    def __init__(self, url: str, settings: NoSettings) -> None:
        self.path = Path(url.partition("://")[2].replace("//", "/"))
        OPENED[url] += 1
        self.count = OPENED[url]
        self.inner = self.opened()

    def opened(self) -> Any:
        """Open the file."""
        from powerctx_sqlite.store import open_store

        return open_store(f"sqlite:///{self.path}")

    @property
    def catalogue(self) -> Any:
        """This object, too."""
        return self

    @property
    def vectors(self) -> Any:
        """The vector index."""
        return self.inner.vectors

    def status(self) -> StoreStatus:
        """Describe the store."""
        status: StoreStatus = self.inner.status()
        return status

    def close(self) -> None:
        """Close the file."""
        self.inner.close()

    def snapshot(self, deadline: Any) -> AbstractContextManager[Any]:
        """Open a view."""
        view: AbstractContextManager[Any] = self.inner.catalogue.snapshot(deadline)
        return view

    def put(self, items: Sequence[Item]) -> Sequence[PutResult]:
        """Store items."""
        results: Sequence[PutResult] = self.inner.catalogue.put(items)
        return results

    def retire(self, artifacts: Any) -> int:
        """Retire artifacts."""
        count: int = self.inner.catalogue.retire(artifacts)
        return count

    def purge(self, artifacts: Any) -> int:
        """Purge artifacts."""
        count: int = self.inner.catalogue.purge(artifacts)
        return count

    def reindex(self, *, limit: int | None = None) -> Iterable[int]:
        """Analyse anew."""
        done: Iterable[int] = self.inner.catalogue.reindex(limit=limit)
        return done


def filed(*fails: str, contract: str = "processes:ProcessContract") -> Any:
    """Declare the decorated subclass of :class:`Filed` as a fault."""

    def decorate(broken: type) -> type:
        offered(broken, fails, broken, contract=contract, can=DURABLE)
        return broken

    return decorate


@filed("test_durable", "test_opened_twice")
class Begins_anew(Filed):  # noqa: N801 - named as the fault
    """Every opening makes a store of its own."""

    def opened(self):
        """Open another file."""
        self.path = self.path.with_name(f"{self.path.name}-{self.count}")
        return super().opened()


@filed("test_opened_twice")
class Saves_at_close(Filed):  # noqa: N801 - as above
    """What was written is saved when the store is closed."""

    def opened(self):
        """Open a copy."""
        self.place, self.path = self.path, self.path.with_name(f"{self.path.name}-{time.monotonic_ns()}")
        if self.place.exists():
            shutil.copy(self.place, self.path)
        return super().opened()

    def close(self):
        """Copy it back."""
        super().close()
        if self.path.exists():
            shutil.move(self.path, self.place)


@filed("test_processes_lose_nothing", "test_killed_writers")
class Acknowledges_early(Filed):  # noqa: N801 - as above
    """A batch is acknowledged before it is written, with the next read or batch."""

    def __init__(self, url, settings):
        super().__init__(url, settings)
        self.guess = MemoryStore("memory://", NoSettings())
        self.waiting = []

    def flush(self):
        """Write what waits."""
        waiting, self.waiting = self.waiting, []
        for items in waiting:
            super().put(items)

    def put(self, items):
        """Write the last batch, and keep this one."""
        self.flush()
        self.waiting.append(items)
        if len(items) < 3 or self.count > 1:
            self.waiting.clear()
            return super().put(items)
        return self.guess.catalogue.put(items)

    def snapshot(self, deadline):
        """Write first."""
        self.flush()
        return super().snapshot(deadline)

    def close(self):
        """Write first."""
        self.flush()
        super().close()


@filed("test_durable")
class Forgets_the_retired(Filed):  # noqa: N801 - as above
    """What was retired is gone after closing."""

    retired: Any = ()

    def retire(self, artifacts):
        """Take note."""
        self.retired = [*self.retired, *artifacts]
        return super().retire(artifacts)

    def close(self):
        """Delete it."""
        if self.retired:
            super().purge(self.retired)
            self.retired = ()
        super().close()


class Anew:
    """A view whose counter begins at the opening."""

    def __init__(self, view, base):
        self.view, self.base = view, base

    def __enter__(self):
        self.snapshot = self.view.__enter__()
        return self

    def __exit__(self, *error):
        return self.view.__exit__(*error)

    def changes(self):
        """Count from the opening."""
        return self.snapshot.changes() - self.base

    def __getattr__(self, name):
        return getattr(self.snapshot, name)


@filed("test_durable", "test_opened_twice")
class Counts_anew(Filed):  # noqa: N801 - as above
    """The change counter begins anew with every opening."""

    base: Any = None

    def snapshot(self, deadline):
        """Count from here."""
        if self.base is None:
            with super().snapshot(deadline) as snapshot:
                self.base = snapshot.changes()
        return Anew(super().snapshot(deadline), self.base)


@filed("test_reads_beside_a_process")
class Writes_one_by_one(Filed):  # noqa: N801 - as above
    """Each item is a transaction of its own."""

    def put(self, items):
        """Take time between the items."""
        results = []
        for item in items:
            results += super().put([item])
            time.sleep(0.001 if len(items) > 1 else 0)
        return results


@filed("test_durable", "test_reading_creates_nothing")
class Notes_the_opening(Filed):  # noqa: N801 - as above
    """A store that is opened again holds a note about it."""

    def opened(self):
        """Write the note."""
        store = super().opened()
        if self.count == 2:
            store.catalogue.put([Item(scope_id="log", text="opened again")])
        return store


@filed("test_reading_creates_nothing")
class Locks_by_a_file(Filed):  # noqa: N801 - as above
    """Every opening makes a file beside the store."""

    def opened(self):
        """Make the file."""
        self.path.with_suffix(".lock").touch()
        return super().opened()


@filed("test_reading_creates_nothing")
class Makes_its_place_to_read(Filed):  # noqa: N801 - as above
    """The first read makes what is to be read."""

    def snapshot(self, deadline):
        """Make a folder first."""
        self.path.with_suffix(".index").mkdir(exist_ok=True)
        return super().snapshot(deadline)


vectors = partial(filed, contract="vector_processes:VectorProcessContract")


@vectors("test_vectors_reopened", "test_vectors_opened_twice", "test_other_model_meanwhile")
class Begins_vectors_anew(Begins_anew):  # noqa: N801 - as above
    """Every opening has vectors of its own."""


class Unrefusing:
    """An index that has another index's answers, and asks nobody which model it has."""

    def __init__(self, index):
        self.index = index

    def __getattr__(self, name):
        return getattr(self.index, name)

    def upsert(self, vectors):
        """Take them."""
        try:
            return self.index.upsert(vectors)
        except CapabilityError:
            if self.index.count():
                return len(vectors)
            raise


@vectors("test_other_model_meanwhile")
class Mixes_models(Filed):  # noqa: N801 - as above
    """Vectors of another model than the stored ones are taken and lost."""

    @property
    def vectors(self):
        """The index."""
        return Unrefusing(self.inner.vectors)


class Late(Unrefusing):
    """An index that stores a batch with the one after the next: a kill between two finds the last one missing."""

    waiting: tuple[Any, ...] = ()

    def upsert(self, vectors):
        """Keep this batch and the one before, and store the one before that."""
        if len(vectors) < 2:
            return self.index.upsert(vectors)
        self.waiting = (*self.waiting, dict(vectors))
        if len(self.waiting) > 2:
            first, *rest = self.waiting
            self.waiting = tuple(rest)
            self.index.upsert(first)
        return len(vectors)


@vectors("test_vectors_of_a_process", "test_vectors_after_a_kill", "test_vectors_reopened")
class Stores_vectors_late(Filed):  # noqa: N801 - as above
    """Vectors are acknowledged before they are stored."""

    late: Any = None

    @property
    def vectors(self):
        """The index."""
        if self.late is None:
            self.late = Late(self.inner.vectors)
        return self.late
