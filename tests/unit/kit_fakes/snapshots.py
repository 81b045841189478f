"""Stores whose readers see what is not whole, or whose writers lose what was written."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager

import attrs

from kit_fakes.stores import assembled, broken
from powerctx_core.errors import StoreError
from powerctx_core.memory_store import MemorySnapshot
from powerctx_core.types import Deadline, derived_artifact_id

SNAPSHOTS = "snapshots:SnapshotContract"


class Live(MemorySnapshot):
    """A snapshot that reads what is there now."""

    def __init__(self, catalogue, deadline):
        self.catalogue = catalogue
        self.deadline = deadline

    @property
    def state(self):
        """The state of now."""
        return self.catalogue.state()


@broken("catalogue.snapshot", "test_snapshot_stays", "test_snapshots_beside_each_other")
@contextmanager
def reads_are_not_isolated(catalogue, honest, deadline):
    """Each read of a snapshot sees the newest state."""
    yield Live(catalogue, deadline)


@broken("catalogue.snapshot", "test_snapshots_beside_each_other")
@contextmanager
def one_snapshot_for_all(catalogue, honest, deadline):
    """Snapshots that are open at once are the first one's."""
    opened = catalogue.__dict__.setdefault("opened", [])
    with honest(deadline) as snapshot:
        opened.append(opened[0] if opened and len(opened) < 3 else snapshot)
        try:
            yield opened[-1]
        finally:
            opened.pop()


@broken("catalogue.put", "test_no_torn_reads", "test_batch_atomicity")
def commits_halves(catalogue, honest, items):
    """A batch is committed in two halves."""
    half = len(items) // 2
    first = honest(items[:half])
    if len(items) > 9:
        time.sleep(0.002)
    return [*first, *honest(items[half:])]


@broken("catalogue.put", "test_search_during_writes_is_never_empty")
def deletes_before_it_writes(catalogue, honest, items):
    """What is replaced is gone for a moment."""
    if len(items) > 9:
        names = [(item.scope_id, item.family, item.artifact_id) for item in items]
        state = catalogue.state()
        with catalogue._lock:
            draft = catalogue.draft()
            for scope_id, family, artifact_id in names:
                draft.shelf(scope_id, family).retire(artifact_id)
            catalogue.publish(draft)
        time.sleep(0.002)
        catalogue._state = attrs.evolve(state, changes=state.changes + 1)
    return honest(items)


@broken("catalogue.snapshot", "test_own_writes")
@contextmanager
def reads_a_copy(catalogue, honest, deadline):
    """A replica lags behind at times."""
    with honest(deadline) as snapshot:
        old = catalogue.__dict__.get("old")
        if snapshot.state.changes % 41 == 40 and old is not None:
            snapshot.state = old
        else:
            catalogue.old = snapshot.state
        yield snapshot


@broken("catalogue.put", "test_writers_lose_nothing", "test_same_item_at_once")
def writes_without_a_lock(catalogue, honest, items):
    """Two writers that begin with the same state overwrite each other."""
    draft = catalogue.draft()
    results = [catalogue.write(draft, item) for item in items]
    if any(result.outcome != "unchanged" for result in results):
        if sys.getswitchinterval() < 1e-4:  # the test is about threads
            time.sleep(0.001)
        catalogue.publish(draft)
    return results


@broken("catalogue.snapshot", "test_reader_error_hurts_nobody")
@contextmanager
def errors_leave_it_locked(catalogue, honest, deadline):
    """An error of a reader leaves its transaction open, and writers wait for it in vain."""
    try:
        yield MemorySnapshot(catalogue.state(), deadline)
    except ZeroDivisionError:
        catalogue.draft = locked
        raise


def locked():
    """Refuse."""
    raise StoreError("database is locked")


@broken("catalogue.snapshot", "test_many_snapshots", "test_scopes_find_their_own")
@contextmanager
def gives_no_connection_back(catalogue, honest, deadline):
    """A few hundred snapshots use all connections up."""
    catalogue.used = getattr(catalogue, "used", 0) + 1
    if catalogue.used > 290:
        raise StoreError("too many connections")
    with honest(deadline) as snapshot:
        yield snapshot


@broken("catalogue.snapshot", "test_far_deadline")
@contextmanager
def deadline_hits_the_end(catalogue, honest, deadline):
    """A deadline that passes after the last read is an error at the end of the snapshot."""
    with honest(deadline) as snapshot:
        yield snapshot
    if deadline.passed:
        raise StoreError("interrupted")


@broken("snapshot.partitions", "test_partitions_of_a_scope", "test_readers_cannot_change")
def shares_partitions(snapshot, honest):
    """All readers get the same map of partitions."""
    if not hasattr(snapshot, "known"):
        snapshot.known = honest()
    return snapshot.known


@broken("snapshot.fetch", "test_readers_cannot_change")
def shares_metadata(snapshot, honest, request):
    """Metadata is given out as it is stored."""
    found = honest(request)
    return {key: attrs.evolve(each, metadata=snapshot._row(key).item.meta) for key, each in found.items()}


@broken("snapshot._lexical", "test_readers_cannot_change")
def shares_occurrences(snapshot, honest, request):
    """Occurrences are given out as they are cached."""
    cache = snapshot.state.__dict__ if hasattr(snapshot.state, "__dict__") else snapshot.__dict__
    name = f"cached {request.query.terms} {request.partition} {request.k} {request.filters}"
    if name not in cache:
        cache[name] = honest(request)
    return cache[name]


@broken("catalogue.put", "test_batch_sees_itself", "test_input_is_left_alone")
def sorts_the_batch(catalogue, honest, items):
    """The batch is sorted where it is."""
    if isinstance(items, list):
        items.sort(key=lambda item: item.artifact_id or "")
    return honest(items)


@broken("catalogue.put", "test_input_is_left_alone")
def names_the_given(catalogue, honest, items):
    """The id of an item without one is written into what was given."""
    for item in items:
        if item.artifact_id is None:
            object.__setattr__(item, "artifact_id", derived_artifact_id(item))
    return honest(items)


@broken("catalogue.retire", "test_input_is_left_alone")
def empties_what_was_given(catalogue, honest, artifacts):
    """What is retired is taken from the list that was given."""
    count = honest(artifacts)
    if isinstance(artifacts, list) and len(artifacts) == 3:
        artifacts.clear()
    return count


@broken("store.close", "test_close_leaves_nothing")
def leaves_a_thread(store, honest):
    """Closing leaves a thread running."""
    honest()
    if not getattr(store, "left", False):
        store.left = True
        threading.Thread(target=time.sleep, args=(30,), daemon=True).start()


OPENED = []


@broken("store.close", "test_close_leaves_nothing")
def leaves_a_file(store, honest):
    """Closing leaves a file open."""
    honest()
    if not getattr(store, "left", False):
        store.left = True
        OPENED.append(open(__file__, encoding="utf-8"))  # noqa: PTH123, SIM115 - this is the fault


@assembled("test_answer_types", "test_store_protocols", "test_reindex", "test_reindex_limit")
def cannot_reindex():
    """A method of the port is missing."""
    return {"catalogue.reindex": None}


@broken("catalogue.snapshot", "test_passed_deadline", contract=SNAPSHOTS)
@contextmanager
def ignores_the_deadline(catalogue, honest, deadline):
    """A read goes on to its end, however long that takes."""
    with honest(Deadline()) as snapshot:
        yield snapshot


@broken("catalogue.snapshot", "test_passed_deadline", contract=SNAPSHOTS)
@contextmanager
def deadline_stays(catalogue, honest, deadline):
    """The deadline of one reader is left in the connection for the next."""
    if deadline.passed:
        catalogue.left = deadline
    with honest(catalogue.__dict__.get("left", deadline)) as snapshot:
        yield snapshot


@broken("catalogue.snapshot", "test_many_snapshots", contract=SNAPSHOTS)
@contextmanager
def opens_few_at_once(catalogue, honest, deadline):
    """Of more than twenty snapshots that are open at once the others are refused."""
    catalogue.open = catalogue.__dict__.get("open", 0) + 1
    try:
        if catalogue.open > 20:
            raise StoreError("too many connections")
        with honest(deadline) as snapshot:
            yield snapshot
    finally:
        catalogue.open -= 1
