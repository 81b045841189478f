"""Writing: outcomes, revisions, batches, retiring and purging, on every backend."""

import attrs
import pytest

from powerctx_core.errors import StoreError
from powerctx_core.ports import Catalogue, FetchRequest, Snapshot, Store
from powerctx_core.types import Address, Item, Partition, derived_artifact_id

pytestmark = pytest.mark.matrix


def test_protocols(db):
    """The parts have the methods of their ports."""
    assert isinstance(db.store, Store)
    assert isinstance(db.catalogue, Catalogue)
    db.add()
    with db.snapshot() as snapshot:
        assert isinstance(snapshot, Snapshot)


def check_empty(db):
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


def test_empty(db, place):
    """A fresh store is empty; reading it, and retiring or purging what is not there, makes no file."""
    check_empty(db)

    assert list(place.iterdir()) == []


def test_unknown_scope(db):
    """A scope or family that was never written is empty, like one from which all was purged."""
    db.add(scope_id="other")
    db.add(family="experience")

    assert db.listing() == ()
    assert db.hits("t") == {}
    db.add()
    db.purge("a")
    assert db.partitions() == {Partition("other", "memory"): 1, Partition("s", "experience"): 1}


def test_empty_again(db):
    """A store from which all was purged is as empty as a fresh one."""
    db.add(tags=("x",))
    db.add(text="t2")
    db.purge("a")

    check_empty(db)


def test_outcomes(db):
    """The outcome says what was done, the address which revision holds the content now."""
    results = []
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


def test_back_again(db):
    """Content is compared with the newest revision only: A, B, A are three revisions."""
    assert [db.add(text=text) for text in "ABA"] == ["created", "updated", "updated"]
    assert db.history() == [(1, "superseded", "A"), (2, "superseded", "B"), (3, "current", "A")]


@pytest.mark.parametrize(
    "change",
    [
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
    ],
)
def test_every_field_counts(db, change):
    """A change of any content field is a new revision; the same again is none."""
    db.add()

    assert db.add(**change) == "updated"
    assert db.add(**change) == "unchanged"
    assert db.add() == "updated"


def test_unchanged_keeps_all(db):
    """Equal content leaves the stored revision alone, its times and origin too."""
    db.add(updated_at=db.at(1), created_at=db.at(1), origin="first")
    db.add(updated_at=db.at(2), created_at=db.at(2), origin="second")
    item = db.latest()

    assert (item.updated_at, item.created_at, item.origin) == (db.at(1), db.at(1), "first")


def test_put_what_was_read(db):
    """Putting back what a read returned changes nothing."""
    db.add(text="Body. More.", tags=("b", "a"), meta={"n": [1, {"x": None}]}, confidence=1, event_time=db.at(3))

    assert db.put(db.latest()) == ["unchanged"]


def test_revisions_never_change(db):
    """An exact revision reads the same after updates, retirement and revival."""
    address = db.catalogue.put([db.item(text="first", tags=("x",), updated_at=db.at(1))])[0].address
    with db.snapshot() as snapshot:
        first = snapshot.get(address).item
    for step in [lambda: db.add(text="second"), lambda: db.retire("a"), lambda: db.add(text="third")]:
        step()
        with db.snapshot() as snapshot:
            assert snapshot.get(address).item == first


def test_states(db):
    """Only the newest revision is current or retired; all older ones are superseded, also those that were retired."""
    db.add(text="1")
    db.add(text="2")
    db.retire("a")
    assert db.history() == [(1, "superseded", "1"), (2, "retired", "2")]
    db.add(text="2")
    assert db.history() == [(1, "superseded", "1"), (2, "superseded", "2"), (3, "current", "2")]


def test_get(db):
    """An exact revision is found whatever its state; numbers that do not exist are nothing."""
    db.add(text="1")
    db.add(text="2")
    db.retire("a")
    with db.snapshot() as snapshot:
        found = [snapshot.get(Address("s", "memory", "a", number)) for number in (1, 2, 3, 0, -1, 2**31 - 1, 2**63)]

    assert [revision and revision.item.text for revision in found] == ["1", "2", None, None, None, None, None]


def test_retire(db):
    """A retired artifact is gone from every way of finding it; its revisions stay readable."""
    db.add("a", "apple", thread="h", position=1)
    db.add("b", "apple", thread="h", position=2)

    assert db.retire("a", "a", "missing") == 1
    assert db.retire("a") == 0
    assert db.latest("a") is None
    assert db.listed() == ["b"]
    assert db.found("apple") == {"b"}
    assert db.neighbours() == {"b": []}
    assert db.partitions() == {Partition("s", "memory"): 1}
    assert db.history("a") == [(1, "retired", "apple")]


def test_retire_all(db):
    """A partition whose items are all retired is not listed as one."""
    db.add()
    db.retire("a")

    assert db.partitions() == {}
    assert db.lexical("t").statistics.items == 0


def test_purge(db):
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


def test_purge_current(db):
    """A purge of a current artifact takes it out of retrieval, too."""
    db.add("a", "apple")
    db.add("b", "apple")

    assert db.purge("a") == 1
    assert db.found("apple") == {"b"}
    assert db.listed() == ["b"]
    db.check_lexical("apple", [db.item("b", "apple")])


def test_batch_sees_itself(db):
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
    db.check_lexical("1 2", [db.item("a", "1"), db.item("old", "1")])


def test_batch_of_partitions(db):
    """One batch may write to many scopes and families; results come in its order."""
    items = [db.item("a", "t", scope_id=scope, family=family) for scope in "sSt" for family in ("memory", "experience")]
    results = db.catalogue.put(items)

    assert [result.address for result in results] == [Address(item.scope_id, item.family, "a", 1) for item in items]
    assert db.partitions() == {Partition(item.scope_id, item.family): 1 for item in items}


def test_empty_batch(db):
    """An empty batch does nothing."""
    before = db.changes()

    assert list(db.catalogue.put([])) == []
    assert (db.catalogue.retire([]), db.catalogue.purge([])) == (0, 0)
    assert db.changes() == before


def spoiled(item: Item, field: str) -> Item:
    """Smuggle what cannot be stored past the item's own checks."""
    object.__setattr__(item, field, "\ud800")
    return item


@pytest.mark.parametrize("position", [0, 3, 5])
@pytest.mark.parametrize("field", ["text", "title", "origin", "thread"])
def test_batch_atomicity(db, position, field):
    """Whatever goes wrong anywhere in a batch: nothing of it is kept; nor is what a backend takes kept in part."""
    db.add("old", "before")
    changes = db.changes()
    items = [db.item("old", "after"), *(db.item(str(number), "new") for number in range(5))]
    items[position] = spoiled(items[position], field)
    try:
        db.catalogue.put(items)
    except Exception:  # noqa: BLE001 - any refusal will do
        assert db.history("old") == [(1, "current", "before")]
        assert db.listed() == ["old"]
        assert db.found("new") == set()
        assert db.changes() == changes
        assert db.add("old", "after") == "updated"
    else:
        assert len(db.listed()) == 6


def test_batch_atomicity_large(db):
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


def test_large_batch(db):
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


def test_derived_ids(db):
    """An item without an id gets the derived one; equal text elsewhere in a conversation is another artifact."""
    items = [db.item(None, "t"), db.item(None, "t", thread="h"), db.item(None, "t", thread="h", position=1)]
    results = db.catalogue.put([*items, items[0]])

    assert [result.address.artifact_id for result in results[:3]] == [derived_artifact_id(item) for item in items]
    assert [result.outcome for result in results] == ["created", "created", "created", "unchanged"]
    assert db.latest(derived_artifact_id(items[0])).artifact_id == derived_artifact_id(items[0])


def test_times(db):
    """What is not given is now; created_at stays that of the first revision unless given; updated_at moves."""
    before = db.at(0).now(db.at(0).tzinfo)
    db.add(text="1")
    first = db.latest()
    db.add(text="2")
    second = db.latest()
    after = db.at(0).now(db.at(0).tzinfo)

    assert before <= first.created_at == first.updated_at <= after
    assert first.created_at == second.created_at
    assert first.updated_at <= second.updated_at <= after
    db.add(text="3", created_at=db.at(1), updated_at=db.at(2))
    third = db.latest()
    assert (third.created_at, third.updated_at) == (db.at(1), db.at(2))
    db.retire("a")
    db.add(text="4")
    assert db.latest().created_at == first.created_at


def test_changes(db):
    """The counter grows with every write that changed something, and with nothing else."""
    seen = [db.changes()]
    for step in [
        lambda: db.add(text="1"),
        lambda: db.add(text="2"),
        lambda: db.retire("a"),
        lambda: db.add(text="2"),
        lambda: db.purge("a"),
    ]:
        step()
        seen.append(db.changes())
    assert seen == sorted(set(seen))

    db.add(text="1")
    before = db.changes()
    for step in [lambda: db.add(text="1"), lambda: db.retire("no"), lambda: db.purge("no")]:
        step()
        assert db.changes() == before


def test_reading_writes_nothing(db):
    """No read moves the change counter, on which every cache hangs."""
    db.add("a", "apple pie", thread="h", position=1)
    before = db.changes()
    for _ in range(3):
        db.listing()
        db.lexical("apple")
        db.neighbours()
        db.history()
        db.partitions()
        db.store.status()

    assert db.changes() == before


def test_reindex(db):
    """Analysing all anew changes no answer; its progress ends with the number of items; the limit is kept."""
    items = [db.item(str(number), f"apple {number} 北京大学", tags=("x",)) for number in range(25)]
    db.put(*items)
    db.add("gone", "apple")
    db.retire("gone")
    with pytest.raises(StoreError, match="25"):
        list(db.catalogue.reindex(limit=24))
    db.check_lexical("apple 北京", items)

    assert list(db.catalogue.reindex(limit=25))[-1] == 25
    db.check_lexical("apple 北京", items)
    assert list(db.catalogue.reindex())[-1] == 25
    assert db.add("0", "pear") == "updated"
    db.check_lexical("apple pear 北京", [db.item("0", "pear"), *items[1:]])


def test_status(db):
    """The status has a location, facts for people and no problem."""
    db.add()
    status = db.store.status()

    assert status.location
    assert all(isinstance(value, str) for value in status.facts.values())
    assert status.problems == ()


def test_close(db):
    """A store may be closed twice; later calls are a StoreError, and the status still does not raise."""
    db.add()
    db.store.close()
    db.store.close()
    for call in [lambda: db.add(text="2"), db.changes]:
        with pytest.raises(StoreError, match="closed"):
            call()

    assert db.store.status().problems
