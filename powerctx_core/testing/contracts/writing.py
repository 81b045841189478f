"""Writing: outcomes, batches, limits of a batch."""

from __future__ import annotations

from typing import Any

import attrs

from powerctx_core.testing.contracts.store import StoreContract
from powerctx_core.testing.database import Database
from powerctx_core.types import Address, Item, Partition, PutResult, derived_artifact_id

__all__ = ["WritingContract"]

CHANGES: list[dict[str, Any]] = [
    {"title": "T"},
    {"abstract": "A"},
    {"overview": "O"},
    {"category": "c"},
    {"tags": ("x",)},
    {"thread": "h"},
    {"position": 0},
    {"confidence": 0.0},
    {"layer": "L1"},
    {"kind": "directory"},
    {"meta": {"k": None}},
    {"event_time": Database.at(1)},
]
"""One change of each content field."""


def spoiled(item: Item, field: str) -> Item:
    """Smuggle what cannot be stored past the item's own checks."""
    object.__setattr__(item, field, "\ud800")
    return item


class WritingContract(StoreContract):
    """Writing: a batch is stored as a whole or not at all, and equal content once."""

    def test_outcomes(self, db: Database) -> None:
        """The outcome says what was done, the address which revision holds the content now."""
        results: list[PutResult] = []
        for text in ["one", "one", "two"]:
            results += db.catalogue.put([db.item(text=text)])
        db.retire("a")
        results += db.catalogue.put([db.item(text="two")])

        assert [(result.outcome, result.address.revision) for result in results] == [
            ("created", 1),
            ("unchanged", 1),
            ("updated", 2),
            ("revived", 3),
        ]
        assert {attrs.evolve(result.address, revision=1) for result in results} == {Address("s", "memory", "a", 1)}

    def test_back_to_older_content(self, db: Database) -> None:
        """Content is compared with the newest revision only: A, B, A are three revisions."""
        assert [db.add(text=text) for text in "ABA"] == ["created", "updated", "updated"]
        assert db.history() == [(1, "superseded", "A"), (2, "superseded", "B"), (3, "current", "A")]

    def test_every_field_counts(self, db: Database) -> None:
        """A change of any content field is a new revision; the same again is none."""
        for number, change in enumerate(CHANGES):
            name = f"{number}"
            db.add(name)

            assert db.add(name, **change) == "updated", change
            assert db.add(name, **change) == "unchanged", change
            assert db.add(name) == "updated", change

    def test_unchanged_keeps_all(self, db: Database) -> None:
        """Equal content leaves the stored revision alone, its times and origin too."""
        db.add(updated_at=db.at(1), created_at=db.at(1), origin="first")
        db.add(updated_at=db.at(2), created_at=db.at(2), origin="second")
        item = db.current()

        assert (item.updated_at, item.created_at, item.origin) == (db.at(1), db.at(1), "first")

    def test_put_what_was_read(self, db: Database) -> None:
        """Putting back what a read returned changes nothing."""
        db.add(text="Body. More.", tags=("b", "a"), meta={"n": [1, {"x": None}]}, confidence=1, event_time=db.at(3))

        assert db.put(db.current()) == ["unchanged"]

    def test_batch_sees_itself(self, db: Database) -> None:
        """Later items of a batch see the earlier ones."""
        db.add("old", "1")
        batch = [("a", "1"), ("a", "1"), ("a", "2"), ("old", "1"), ("old", "2"), ("old", "1"), ("a", "1")]
        results = db.catalogue.put([db.item(name, text) for name, text in batch])

        assert [(result.outcome, result.address.revision) for result in results] == [
            ("created", 1),
            ("unchanged", 1),
            ("updated", 2),
            ("unchanged", 1),
            ("updated", 2),
            ("updated", 3),
            ("updated", 3),
        ]
        assert db.history("a") == [(1, "superseded", "1"), (2, "superseded", "2"), (3, "current", "1")]
        assert (db.found("1"), db.found("2")) == ({"a", "old"}, set())

    def test_batch_of_partitions(self, db: Database) -> None:
        """One batch may write to many scopes and families; results come in its order."""
        items = [
            db.item("a", "t", scope_id=scope, family=family) for scope in "sSt" for family in ("memory", "experience")
        ]
        results = db.catalogue.put(items)

        assert [result.address for result in results] == [Address(item.scope_id, item.family, "a", 1) for item in items]
        assert db.partitions() == {Partition(item.scope_id, item.family): 1 for item in items}

    def test_empty_batch(self, db: Database) -> None:
        """An empty batch does nothing."""
        before = db.changes()

        assert list(db.catalogue.put([])) == []
        assert (db.catalogue.retire([]), db.catalogue.purge([])) == (0, 0)
        assert db.changes() == before

    def test_batch_atomicity(self, db: Database) -> None:
        """Whatever goes wrong anywhere in a batch: nothing of it is kept; nor is what a backend takes kept in part."""
        for field in ("text", "title", "origin", "thread"):
            for position in (0, 3, 5):
                scope, shown = f"{field} {position}", (field, position)
                db.add("old", "before", scope_id=scope)
                changes = db.changes()
                items = [db.item(str(number), "new", scope_id=scope) for number in range(5)]
                items.insert(0, db.item("old", "after", scope_id=scope))
                items[position] = spoiled(items[position], field)
                try:
                    db.catalogue.put(items)
                except Exception:  # noqa: BLE001 - any refusal will do
                    assert db.history("old", scope) == [(1, "current", "before")], shown
                    assert db.listed(scope) == ["old"], shown
                    assert db.found("new", scope) == set(), shown
                    assert db.changes() == changes, shown
                    assert db.add("old", "after", scope_id=scope) == "updated", shown
                else:
                    assert len(db.listed(scope)) == 6, shown

    def test_atomicity_of_a_large_batch(self, db: Database) -> None:
        """The same holds when the bad item comes after more rows than one statement takes."""
        items = [db.item(str(number), "new") for number in range(10_500)]
        items[-1] = spoiled(items[-1], "origin")
        try:
            db.catalogue.put(items)
        except Exception:  # noqa: BLE001 - any refusal will do
            assert db.partitions() == {}
            assert db.found("new") == set()
        else:
            assert db.partitions() == {Partition("s", "memory"): 10_500}

    def test_large_batch(self, db: Database) -> None:
        """Five thousand items are one batch; a second time all are unchanged."""
        items = [db.item(f"id-{number}", f"item number {number}", tags=("all",)) for number in range(5000)]

        assert set(db.put(*items)) == {"created"}
        assert set(db.put(*items)) == {"unchanged"}
        assert db.partitions() == {Partition("s", "memory"): 5000}
        assert db.found("4321") == {"id-4321"}
        assert db.retire(*(f"id-{number}" for number in range(1, 5000))) == 4999
        assert db.found("number") == {"id-0"}
        assert db.purge(*(f"id-{number}" for number in range(5000))) == 5000
        assert db.partitions() == {}

    def test_derived_ids(self, db: Database) -> None:
        """An item without an id gets the derived one; equal text elsewhere in a conversation is another artifact."""
        items = [db.item(None, "t"), db.item(None, "t", thread="h"), db.item(None, "t", thread="h", position=1)]
        results = db.catalogue.put([*items, items[0]])

        assert [result.address.artifact_id for result in results[:3]] == [derived_artifact_id(item) for item in items]
        assert [result.outcome for result in results] == ["created", "created", "created", "unchanged"]
        assert db.current(derived_artifact_id(items[0])).artifact_id == derived_artifact_id(items[0])

    def test_input_is_left_alone(self, db: Database) -> None:
        """What is given to a store stays as it was: the list of items, the items, the artifacts to retire and purge."""
        meta = {"list": [1, {"k": "v"}]}
        items = [db.item("b", "apple", meta=meta, tags=("y", "x")), db.item("a", "apple"), db.item(None, "apple")]
        artifacts = [("s", "memory", name) for name in ("b", "a", "b")]
        before = list(items), repr(items), list(artifacts)
        db.catalogue.put(items)
        db.catalogue.retire(artifacts)
        db.catalogue.purge(artifacts)

        assert [id(item) for item in items] == [id(item) for item in before[0]]
        assert repr(items) == before[1]
        assert artifacts == before[2]
        assert meta == {"list": [1, {"k": "v"}]}
