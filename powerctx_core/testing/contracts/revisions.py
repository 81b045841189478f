"""Revisions: immutable, numbered, of three states; retirement, revival and purging."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from powerctx_core.ports import FetchRequest
from powerctx_core.testing.contracts.store import StoreContract
from powerctx_core.testing.database import Database
from powerctx_core.types import Address, Key, Partition

__all__ = ["RevisionContract"]


class RevisionContract(StoreContract):
    """Revisions stay as they were written, until a purge deletes them all."""

    def test_revisions_never_change(self, db: Database) -> None:
        """An exact revision reads the same after updates, retirement and revival."""
        address = db.catalogue.put([db.item(text="first", tags=("x",), updated_at=db.at(1))])[0].address
        items = []
        steps: list[Callable[[], object]] = [
            lambda: None,
            lambda: db.add(text="second"),
            lambda: db.retire("a"),
            lambda: db.add(text="third"),
        ]
        for step in steps:
            step()
            with db.snapshot() as snapshot:
                revision = snapshot.get(address)
            items.append(revision and revision.item)

        assert items[0] is not None
        assert items == [items[0]] * 4

    def test_states_of_revisions(self, db: Database) -> None:
        """Only the newest revision is current or retired; all older ones are superseded, also those once retired."""
        db.add(text="1")
        db.add(text="2")
        db.retire("a")
        assert db.history() == [(1, "superseded", "1"), (2, "retired", "2")]
        db.add(text="2")
        assert db.history() == [(1, "superseded", "1"), (2, "superseded", "2"), (3, "current", "2")]

    def test_get_exact_revision(self, db: Database) -> None:
        """An exact revision is found whatever its state; numbers that do not exist are nothing."""
        db.add(text="1")
        db.add(text="2")
        db.retire("a")
        with db.snapshot() as snapshot:
            found = [snapshot.get(Address("s", "memory", "a", number)) for number in (1, 2, 3, 0, -1, 2**31 - 1, 2**63)]

        assert [revision and revision.item.text for revision in found] == ["1", "2", None, None, None, None, None]

    def test_retire(self, db: Database) -> None:
        """A retired artifact is gone from every way of finding it; its revisions stay readable."""
        db.add("a", "apple", thread="h", position=1)
        db.add("b", "apple", thread="h", position=2)

        assert db.retire("a", "a", "missing") == 1
        assert db.retire("a") == 0
        assert db.latest("a") is None
        assert db.listed() == ["b"]
        assert db.found("apple") == {"b"}
        assert db.neighbours(words="apple") == {"b": []}
        assert db.partitions() == {Partition("s", "memory"): 1}
        assert db.history("a") == [(1, "retired", "apple")]

    def test_retire_all(self, db: Database) -> None:
        """A partition whose items are all retired is not listed as one."""
        db.add()
        db.retire("a")

        assert db.partitions() == {}
        assert db.lexical("t").statistics.items == 0

    def test_purge_deletes_all(self, db: Database) -> None:
        """A purge deletes all revisions, also of a retired artifact; then everything begins anew."""
        db.add("a", "apple")
        db.add("a", "pear")
        db.add("b", "apple")
        db.retire("a")

        assert db.purge("a", "a", "missing") == 2
        assert db.purge("a") == 0
        assert db.history("a") == []
        with db.snapshot() as snapshot:
            assert snapshot.get(Address("s", "memory", "a", 1)) is None
        assert db.found("apple pear") == {"b"}
        assert db.add("a", "pear") == "created"
        assert db.history("a") == [(1, "current", "pear")]

    def test_purge_current(self, db: Database) -> None:
        """A purge of a current artifact takes it out of retrieval, too."""
        db.put(db.item("a", "apple"), db.item("b", "apple"))
        db.purge("a")

        assert db.found("apple") == {"b"}
        assert db.listed() == ["b"]
        assert db.latest("a") is None

    def test_keys_are_not_reused(self, db: Database) -> None:
        """A key never comes to mean another revision: not after an update, nor when the newest or all were purged."""
        names = ("0", "1", "2")
        steps: list[Callable[[], object]] = [
            lambda: None,
            lambda: db.add("3"),
            lambda: db.retire("2"),
            lambda: db.purge("2"),
            lambda: db.purge(*names, "3"),
            lambda: (db.purge(*names), db.add(scope_id="other")),
        ]
        used: set[Key] = set()
        for number, step in enumerate(steps):
            step()
            db.put(*(db.item(name, f"apple {number}") for name in names))
            keys = {hit.key for hit in db.hits("apple").values()}

            assert keys & used == set(), number
            with db.snapshot() as snapshot:
                assert snapshot.fetch(FetchRequest(keys=tuple(sorted(used)))) == {}, number
            used |= keys

    def test_times_of_revisions(self, db: Database) -> None:
        """What is not given is now; created_at stays that of the first revision unless given; updated_at moves."""
        times: list[datetime | None] = [datetime.now(UTC)]
        created = []
        for text in "12":
            db.add(text=text)
            item = db.current()
            created.append(item.created_at)
            times.append(item.updated_at)
        times.append(datetime.now(UTC))

        assert created == [times[1], times[1]]
        assert None not in times
        assert times == sorted(time for time in times if time is not None)
        db.add(text="3", created_at=db.at(1), updated_at=db.at(2))
        third = db.current()
        assert (third.created_at, third.updated_at) == (db.at(1), db.at(2))
        db.retire("a")
        db.add(text="4")
        assert db.current().created_at == created[0]
