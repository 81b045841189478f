"""The life of a store: empty at first, left alone by readers, described, closed."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from powerctx_core.errors import PowerctxError, StoreError, url_secrets
from powerctx_core.host import Host
from powerctx_core.ports import Catalogue, FetchRequest, Snapshot, Store
from powerctx_core.testing.answers import check_answers
from powerctx_core.testing.contracts.store import StoreContract
from powerctx_core.testing.database import Database
from powerctx_core.types import Address, Partition

__all__ = ["LifeContract"]

SECRET = "Xa9-hunter2-Qz"  # noqa: S105 - of nobody


def check_empty(db: Database) -> None:
    """Check that nothing is there, in a scope that was never named or anywhere."""
    with db.snapshot() as snapshot:
        assert snapshot.partitions() == {}
        assert snapshot.get(Address("s", "memory", "a", 1)) is None
        assert snapshot.latest("s", "memory", "a") is None
        assert snapshot.history("s", "memory", "a") == ()
        assert snapshot.fetch(FetchRequest(keys=())) == {}
    assert db.listing() == ()
    result = db.lexical("anything at all 北京")

    assert (result.hits, result.terms) == ((), ())
    assert (result.statistics.items, result.statistics.mean_length) == (0, 0)
    assert result.statistics.document_frequency == {}
    assert db.retire("a") == 0
    assert db.purge("a") == 0


def held() -> tuple[int, int]:
    """Return how many threads run, and how many files and sockets are open as far as the system tells."""
    gc.collect()
    files = Path("/proc/self/fd")
    return threading.active_count(), len(list(files.iterdir())) if files.is_dir() else 0


class LifeContract(StoreContract):
    """A store is empty at first, is changed by writers only, and leaves nothing behind when it is closed."""

    def test_store_protocols(self, db: Database) -> None:
        """The parts have the methods of their ports."""
        assert isinstance(db.store, Store)
        assert isinstance(db.catalogue, Catalogue)
        db.add()
        with db.snapshot() as snapshot:
            assert isinstance(snapshot, Snapshot)

    def test_answer_types(self, store: Store) -> None:
        """Every method returns the types of its port: sequences and mappings, no iterators."""
        check_answers(store)

    def test_empty(self, db: Database) -> None:
        """A fresh store is empty, and so it stays when it is read, or when what is not there is retired or purged."""
        check_empty(db)
        check_empty(db)

    def test_empty_again(self, db: Database) -> None:
        """A partition, and a store, from which all was purged is as empty as one that was never written."""
        db.add(scope_id="other")
        db.add(family="experience")
        assert db.listing() == ()
        assert db.found("t") == set()
        db.put(db.item(tags=("x",)), db.item(text="t2"))
        db.purge("a")
        assert db.partitions() == {Partition("other", "memory"): 1, Partition("s", "experience"): 1}
        db.purge("a", scope_id="other")
        db.purge("a", family="experience")

        check_empty(db)

    def test_changes_count_writes(self, db: Database) -> None:
        """The counter grows with every write that changed something, and with nothing else."""
        seen = [db.changes()]
        writes: list[Callable[[], object]] = [
            lambda: db.add(text="1"),
            lambda: db.add(text="2"),
            lambda: db.retire("a"),
            lambda: db.add(text="2"),
            lambda: db.purge("a"),
            lambda: db.add(text="1"),
        ]
        for write in writes:
            write()
            seen.append(db.changes())
        assert seen == sorted(set(seen))

        idle: list[Callable[[], object]] = [
            lambda: db.add(text="1"),
            lambda: db.retire("no"),
            lambda: db.purge("no"),
        ]
        for call in idle:
            call()
            assert db.changes() == seen[-1]

    def test_reading_writes_nothing(self, db: Database) -> None:
        """No read moves the change counter, on which every cache hangs."""
        db.add("a", "apple pie", thread="h", position=1)
        before = db.changes()
        for _ in range(3):
            db.listing()
            db.lexical("apple")
            db.neighbours(words="apple")
            db.history()
            db.latest()
            db.partitions()
            db.store.status()

        assert db.changes() == before

    def test_reindex(self, db: Database) -> None:
        """Analysing all anew changes no answer, and its progress ends with the number of items."""
        items = [db.item(str(number), f"apple {number} 北京大学", tags=("x",)) for number in range(25)]
        db.put(*items)
        db.add("gone", "apple")
        db.retire("gone")
        before = {hit.artifact_id: hit.matched for hit in db.lexical("apple 北京").hits}, db.lexical("3").statistics

        assert list(db.catalogue.reindex())[-1] == 25
        after = {hit.artifact_id: hit.matched for hit in db.lexical("apple 北京").hits}, db.lexical("3").statistics
        assert after == before
        assert list(db.catalogue.reindex())[-1] == 25
        assert db.add("0", "pear") == "updated"
        assert db.found("pear") == {"0"}

    def test_reindex_limit(self, db: Database) -> None:
        """Analysing anew is refused, with the number of items, when these are more than the limit."""
        db.put(*(db.item(str(number), "apple") for number in range(25)))
        with pytest.raises(StoreError, match="25"):
            list(db.catalogue.reindex(limit=24))

        assert len(db.found("apple")) == 25
        assert list(db.catalogue.reindex(limit=25))[-1] == 25

    def test_status_of_a_store(self, db: Database) -> None:
        """The status has a location, facts for people and no problem."""
        db.add()
        status = db.store.status()

        assert status.location
        assert all(isinstance(value, str) for value in status.facts.values())
        assert status.problems == ()

    def test_status_tells_no_secret(self, host: Host, store_url: str) -> None:
        """Neither the status nor a refusal shows a password, wherever it stands in the URL."""
        scheme, _, rest = store_url.partition("://")
        urls = [store_url, f"{scheme}://kit:{SECRET}@{rest.rpartition('@')[2]}", f"{store_url}?password={SECRET}"]
        told = ""
        for url in urls:
            try:
                store = host.open_store(url)
            except PowerctxError as error:
                told += str(error)
                continue
            told += repr(store.status())
            store.close()
            told += repr(store.status())

        assert [secret for secret in (SECRET, *url_secrets(store_url)) if secret in told] == []

    def test_closed_store(self, db: Database) -> None:
        """A store may be closed twice; later calls are a StoreError, and the status has a problem but never raises."""
        db.add()
        db.store.close()
        db.store.close()
        calls: list[Callable[[], object]] = [lambda: db.add(text="2"), lambda: db.retire("a"), db.changes]
        for call in calls:
            with pytest.raises(StoreError, match="closed"):
                call()

        assert db.store.status().problems

    def test_close_leaves_nothing(self, open_again: Callable[[], Store]) -> None:
        """No thread, file or socket is left when a store was used and closed."""

        def use() -> None:
            db = Database(open_again())
            db.add("a", f"apple {time.monotonic()}")
            db.found("apple")
            db.listing()
            db.store.close()

        use()  # whatever is loaded for good is loaded now
        before = held()
        use()
        use()
        until = time.monotonic() + 5
        while any(now > then for now, then in zip(held(), before, strict=True)) and time.monotonic() < until:
            time.sleep(0.02)
        after = held()

        assert after[0] <= before[0], f"threads: {threading.enumerate()}"
        assert after[1] <= before[1], "files or sockets are left open"
