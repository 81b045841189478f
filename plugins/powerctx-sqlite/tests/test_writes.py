"""What put, retire and purge promise."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta

import pytest

from powerctx_core.errors import StoreError
from powerctx_core.types import Address, Deadline, Filters


def test_fresh_and_reopened(opened, ask, path):
    """What was put is there after the store was closed and opened again, with all its fields."""
    when = datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
    item = ask.item(
        "Körper des Textes", artifact_id="a/b", category="events", title="T", abstract="A", overview="O",
        tags=("x", "y,"), created_at=when, updated_at=when, event_time=when, thread="th", position=3,
        confidence=0.5, layer="L2", origin="me", meta={"k": [1, None, "ü"]}, kind="directory",
    )  # fmt: skip
    first = opened()
    first.catalogue.put([item])
    first.close()

    with opened().catalogue.snapshot(Deadline()) as snapshot:
        latest = snapshot.latest("s", "memory", "a/b")

    assert item == latest.item
    assert "current" == latest.state


def test_idempotent(store, ask):
    """Equal content is unchanged, other content is the next revision, and a retired artifact is revived."""
    a, b = ask.item("alpha", artifact_id="x"), ask.item("beta", artifact_id="x")

    assert [(1, "created")] == ask.outcomes(store, [a])
    assert [(1, "unchanged")] == ask.outcomes(store, [a])
    assert [(2, "updated")] == ask.outcomes(store, [b])
    assert [(3, "updated")] == ask.outcomes(store, [a])
    assert 1 == store.catalogue.retire([("s", "memory", "x")])
    assert 0 == store.catalogue.retire([("s", "memory", "x")])
    assert [(4, "revived")] == ask.outcomes(store, [a])
    assert [
        (1, "alpha", "superseded"),
        (2, "beta", "superseded"),
        (3, "alpha", "superseded"),
        (4, "alpha", "current"),
    ] == ask.states(store, "x")


def test_later_items_see_earlier_ones(store, ask):
    """Within one batch an artifact goes through all its revisions, and only the last is found."""
    texts = ["alpha", "alpha", "beta", "alpha"]

    outcomes = ask.outcomes(store, [ask.item(text, artifact_id="x") for text in texts])

    assert [(1, "created"), (1, "unchanged"), (2, "updated"), (3, "updated")] == outcomes
    assert {"x"} == ask.found(store, "alpha")
    assert set() == ask.found(store, "beta")
    assert 1 == ask.lexical(store, "alpha").statistics.items


def test_empty_batch(store, path):
    """Nothing to store does not make a file."""
    assert [] == list(store.catalogue.put([]))
    assert 0 == store.catalogue.retire([("s", "memory", "x")])
    assert 0 == store.catalogue.purge([("s", "memory", "x")])
    assert not path.exists()


def test_times(store, ask):
    """The creation time stays that of the first revision unless it is given; the update time is now unless given."""
    first = datetime(2020, 1, 1, tzinfo=UTC)
    given = datetime(2021, 1, 1, tzinfo=UTC)
    store.catalogue.put([ask.item("a", artifact_id="x", created_at=first, updated_at=first)])
    before = datetime.now(UTC)
    store.catalogue.put([ask.item("b", artifact_id="x")])
    store.catalogue.put([ask.item("c", artifact_id="x", created_at=given)])
    store.catalogue.put([ask.item("d", artifact_id="x")])

    with store.catalogue.snapshot(Deadline()) as snapshot:
        items = [revision.item for revision in snapshot.history("s", "memory", "x")]

    assert [first, first, given, first] == [item.created_at for item in items]
    assert first == items[0].updated_at
    assert before <= items[1].updated_at <= items[3].updated_at


def test_batch_is_atomic(store, ask, path):
    """When one row cannot be written, nothing of the batch is kept, and the store goes on."""
    store.catalogue.put([ask.item("alpha", artifact_id="x")])
    other = sqlite3.connect(path)
    other.execute(
        "CREATE TRIGGER bad BEFORE INSERT ON revision WHEN NEW.artifact_id = 'bad' BEGIN SELECT RAISE(ABORT, 'no'); END"
    )
    other.commit()
    batch = [ask.item("beta", artifact_id="x"), ask.item("gamma", artifact_id="new"), ask.item("d", artifact_id="bad")]

    with pytest.raises(StoreError, match="Nothing of this batch was kept"):
        store.catalogue.put(batch)

    assert [(1, "alpha", "current")] == ask.states(store, "x")
    assert set() == ask.found(store, "beta gamma")
    assert [(2, "updated"), (1, "created")] == ask.outcomes(store, batch[:2])
    other.close()


def test_full_disk(opened, ask, path):
    """A disk that is full fails the batch with the next step, and what was there stays readable."""
    store = opened()
    store.catalogue.put([ask.item("alpha", artifact_id="x")])
    with store._database._engine.connect() as connection:
        driver = connection.connection.driver_connection
        (pages,) = driver.execute("PRAGMA page_count").fetchone()
        driver.execute(f"PRAGMA max_page_count = {pages + 20}")

    with pytest.raises(StoreError, match="disk is full"):
        store.catalogue.put([ask.item(f"beta {n} " * 50, artifact_id=f"a{n}") for n in range(2000)])

    assert {"x"} == ask.found(store, "alpha")
    assert set() == ask.found(store, "beta")
    other = sqlite3.connect(path)
    assert (1,) == other.execute("SELECT count(*) FROM revision").fetchone()
    assert ("ok",) == other.execute("PRAGMA integrity_check").fetchone()
    other.close()


def test_revisions_are_immutable(store, ask, path):
    """The database itself refuses to change what a revision says."""
    store.catalogue.put([ask.item("alpha", artifact_id="x")])
    other = sqlite3.connect(path)

    for column in ("head", "artifact_id", "digest", "tags", "created_at", "number", "partition_id", "rest"):
        with pytest.raises(sqlite3.IntegrityError, match="immutable"):
            other.execute(f"UPDATE revision SET {column} = 'other'")
    other.close()


def test_scopes_are_apart(store, ask):
    """Scopes whose ids look alike are different scopes: case, accents, spaces, width, normal form, emoji."""
    scopes = [
        "team",
        "Team",
        "tëam",
        "te\u0308am",
        "team ",
        " team",
        "\uff54eam",
        "team\u200d",
        "team😀",
        "team😁",
        "team%",
        "t_am",
    ]
    for n, scope in enumerate(scopes):
        store.catalogue.put([ask.item(f"word{n} shared", scope, artifact_id=f"a{n}")])

    assert [{f"a{n}"} for n in range(len(scopes))] == [ask.found(store, "shared", scope) for scope in scopes]
    with store.catalogue.snapshot(Deadline()) as snapshot:
        assert len(scopes) == len(snapshot.partitions())
        assert snapshot.latest("TEAM", "memory", "a0") is None


def test_artifacts_are_apart(store, ask):
    """So are artifact ids."""
    names = ["a", "A", "á", "a\u0301", "a ", "\uff41", "a/b", "a0"]
    store.catalogue.put([ask.item(f"text {n}", artifact_id=name) for n, name in enumerate(names)])

    assert [[(1, f"text {n}", "current")] for n in range(len(names))] == [ask.states(store, name) for name in names]


def test_figures_follow_writes(store, ask):
    """Frequencies, lengths and occurrences are those of the current items, right after every kind of write."""
    store.catalogue.put(
        [
            ask.item("alpha alpha beta", artifact_id="x"),
            ask.item("alpha", artifact_id="y"),
            ask.item("gamma", artifact_id="z"),
        ]
    )
    result = ask.lexical(store, "alpha beta")
    statistics = result.statistics

    assert (3, 5 / 3) == (statistics.items, statistics.mean_length)
    assert {"alpha": 2, "beta": 1} == dict(statistics.document_frequency)
    assert {"x": ({"alpha": 2, "beta": 1}, 3), "y": ({"alpha": 1}, 1)} == {
        hit.artifact_id: (dict(hit.matched), hit.length) for hit in result.hits
    }

    store.catalogue.put([ask.item("beta beta beta", artifact_id="x")])
    statistics = ask.lexical(store, "alpha beta").statistics
    assert (3, 5 / 3, {"alpha": 1, "beta": 1}) == (
        statistics.items,
        statistics.mean_length,
        dict(statistics.document_frequency),
    )
    store.catalogue.retire([("s", "memory", "y")])
    statistics = ask.lexical(store, "alpha beta").statistics
    assert (2, 2.0, {"beta": 1}) == (statistics.items, statistics.mean_length, dict(statistics.document_frequency))
    store.catalogue.purge([("s", "memory", "x")])
    statistics = ask.lexical(store, "alpha beta gamma").statistics
    assert (1, 1.0, {"gamma": 1}) == (statistics.items, statistics.mean_length, dict(statistics.document_frequency))


def test_retired_stays_readable(store, ask):
    """A retired artifact is not found, listed or latest; its exact revisions can be read."""
    store.catalogue.put([ask.item("alpha", artifact_id="x"), ask.item("beta", artifact_id="y")])
    store.catalogue.retire([("s", "memory", "x"), ("s", "memory", "unknown"), ("nowhere", "memory", "x")])

    with store.catalogue.snapshot(Deadline()) as snapshot:
        assert snapshot.latest("s", "memory", "x") is None
        assert "retired" == snapshot.get(Address("s", "memory", "x", 1)).state
        assert snapshot.get(Address("s", "memory", "x", 2)) is None
    assert set() == ask.found(store, "alpha")


def test_purge_leaves_no_trace(store, ask, path):
    """After a purge neither text, terms nor names can be found in the files, and the counter grew."""
    store.catalogue.put([ask.item("keepsake", "other", artifact_id="k")])
    store.catalogue.put([ask.item("unmistakable zzqqzz", "secretscope", artifact_id="secretname", tags=("secrettag",))])
    store.catalogue.put([ask.item("unmistakable2 zzqqzz2", "secretscope", artifact_id="secretname")])

    assert 2 == store.catalogue.purge([("secretscope", "memory", "secretname")])
    assert 0 == store.catalogue.purge([("secretscope", "memory", "secretname")])

    store.close()
    content = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert b"keepsake" in content
    for word in (b"zzqqzz", b"unmistak", b"secretscope", b"secretname", b"secrettag"):
        assert word not in content


def test_purged_comes_back_new(store, ask):
    """What is put after a purge starts at revision 1, under a key that was never used."""
    store.catalogue.put([ask.item("alpha", artifact_id="x")])
    before = ask.lexical(store, "alpha").hits[0].key
    store.catalogue.purge([("s", "memory", "x")])

    assert [(1, "created")] == ask.outcomes(store, [ask.item("alpha", artifact_id="x")])
    assert before != ask.lexical(store, "alpha").hits[0].key


def test_many_partitions_in_one_batch(store, ask):
    """One batch may write to any number of partitions, in any order, beyond what one statement takes."""
    items = [ask.item(f"word{n}", f"scope{n % 700}", artifact_id=f"a{n}") for n in range(11_000)]
    store.catalogue.put(items)

    assert {"a10999"} == ask.found(store, "10999", "scope499")
    with store.catalogue.snapshot(Deadline()) as snapshot:
        assert 11_000 == sum(snapshot.partitions().values())
    assert ["unchanged"] * 11_000 == [result.outcome for result in store.catalogue.put(items)]


def test_filters(store, ask):
    """Tags must all be there, windows are half-open in any zone, and filters never change the statistics."""
    day = datetime(2024, 1, 1, tzinfo=UTC)
    store.catalogue.put(
        [
            ask.item("alpha", artifact_id="a", tags=("x", "y"), event_time=day, category="events"),
            ask.item("alpha", artifact_id="b", tags=("x", ","), event_time=day + timedelta(hours=1)),
            ask.item("alpha", artifact_id="c", tags=("xx",)),
        ]
    )
    zone = (day + timedelta(hours=1)).astimezone()

    assert {"a", "b"} == ask.found(store, "alpha", filters=Filters(tags=("x",)))
    assert {"a"} == ask.found(store, "alpha", filters=Filters(tags=("y", "x")))
    assert {"b"} == ask.found(store, "alpha", filters=Filters(tags=(",",)))
    assert set() == ask.found(store, "alpha", filters=Filters(tags=("X",)))
    assert {"a"} == ask.found(store, "alpha", filters=Filters(category="events"))
    assert {"a"} == ask.found(store, "alpha", filters=Filters(since=day, until=zone, time_field="event"))
    assert {"b"} == ask.found(store, "alpha", filters=Filters(since=zone, time_field="event"))
    filtered = ask.lexical(store, "alpha", filters=Filters(tags=("y",)))
    assert ask.lexical(store, "alpha").statistics == filtered.statistics
