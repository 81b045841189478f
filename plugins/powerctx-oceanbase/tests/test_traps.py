"""What is particular to the engine: each trap that was met is kept shut by a test."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pymysql
import pytest
import sqlalchemy as sa

from powerctx_core.errors import StoreError, StoreUnavailable
from powerctx_core.ports import NearestRequest
from powerctx_core.types import Deadline, EmbeddingProfile, Partition
from powerctx_oceanbase import failures
from powerctx_oceanbase.connecting import seen
from powerctx_oceanbase.ddl import table_statements
from powerctx_oceanbase.warming import Warming
from powerctx_sqlalchemy import schema

PROFILE = EmbeddingProfile(fingerprint="model/1", dimensions=4, languages=("en",), noise=0.1, match=0.5)
X, Y = b"\0\0\x80?" + bytes(12), bytes(4) + b"\0\0\x80?" + bytes(8)


def nearest(store, vector=X, k=10, deadline=Deadline()):
    """Return the keys that are nearest."""
    with store.catalogue.snapshot(deadline) as snapshot:
        request = NearestRequest(partition=Partition("s", "memory"), vector=vector, k=k)
        return [key for key, _ in store.vectors.nearest([request], snapshot)[0]]


def until(condition, seconds=60):
    """Wait for a condition."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


def test_indexes_are_inline(store, ask, statements):
    """Every index is made with its table: one that is added later takes a second, and once hung on a filled table."""
    store.catalogue.put([ask.item("apple", "a")])
    store.vectors.attach(PROFILE)
    store.vectors.upsert({store.catalogue.put([ask.item("pear", "b")])[0].key: X})
    made = [statement for statement in statements if statement.startswith("CREATE")]

    assert not [s for s in statements if s.startswith(("ALTER", "CREATE INDEX", "CREATE UNIQUE", "CREATE FULLTEXT"))]
    assert 1 == sum("FULLTEXT INDEX" in statement for statement in made)
    assert 1 == sum("VECTOR INDEX" in statement for statement in made)
    assert not [s for s in made if "ORGANIZATION" in s or "ivf" in s.lower()]


def test_user_text_is_no_query(store, opened, ask):
    """What boolean mode would read as operators, and words that engines stop or find too short, are found as words."""
    ranked = opened(rank_above=0)
    texts = {
        "a": "C++ and C# at x@y.z",
        "b": "the not and a b *",
        "c": "+apple -pear ~(fig) <\"quoted\"> 'x' \\ %s %(x)s :y",
    }
    store.catalogue.put([ask.item(text, name) for name, text in texts.items()])

    for name, text in texts.items():
        for each in (store, ranked):
            assert name in ask.found(each, text)
    assert {"a"} == ask.found(ranked, "C++")
    assert set() == ask.found(ranked, "* - + ~ @ ( ) <")


def test_bytes_are_compared(store, ask):
    """Case, accents, width and spaces at the end keep scopes, ids, threads, categories and tags apart."""
    names = ["a", "A", "a ", "á", "a\u0301", "ａ", "😀", "😁"]
    store.catalogue.put([ask.item("apple", name, scope=name, category=name, thread=name) for name in names])

    for name in names:
        assert {name} == ask.found(store, "apple", scope=name)


def test_embedded_engine_tells_nobody(store, ask, directory):
    """The engine runs with its telemetry off: what it would tell is not sent."""
    store.catalogue.put([ask.item("apple")])
    told = directory / "run" / "telemetry.json"

    assert "false" == os.environ["TELEMETRY_ENABLED"]
    assert not told.exists() or json.loads(told.read_text())["sent"] is False


def test_deadline_ends_statements(store, ask):
    """The engine ends a statement at the deadline, and the connection serves the next call."""
    store.catalogue.put([ask.item("apple", "a")])
    start = time.monotonic()
    with (
        pytest.raises(StoreError, match="deadline"),
        store._database.reading(Deadline.after(0.3)) as connection,
        store._database.told("read"),
    ):
        connection.exec_driver_sql("SELECT sleep(20)").all()

    assert time.monotonic() - start < 2
    with pytest.raises(StoreError, match="deadline"), store.catalogue.snapshot(Deadline.after(-1)):
        pass
    assert {"a"} == ask.found(store, "apple")
    assert ["updated"] == [result.outcome for result in store.catalogue.put([ask.item("pear", "a")])]


def test_whole_transaction_has_the_deadline(store, ask):
    """Several short statements do not take the deadline each."""
    store.catalogue.put([ask.item("apple", "a")])
    start = time.monotonic()

    def read():
        with store.catalogue.snapshot(Deadline.after(0.5)) as snapshot:
            while time.monotonic() < start + 5:
                snapshot.changes()
                time.sleep(0.05)

    with pytest.raises(StoreError, match="deadline"):
        read()
    assert time.monotonic() - start < 2


def test_writer_waits_no_longer_than_told(store, opened, ask):
    """Deadlocks are not detected, so writers take one lock first, and who waits too long is told."""
    store.catalogue.put([ask.item("apple", "a")])
    other = opened(lock_timeout_ms=300)
    assert {"a"} == ask.found(other, "apple")
    with store._database.writing():
        start = time.monotonic()
        with pytest.raises(StoreError, match=r"another process is writing.*Nothing of this batch was kept"):
            other.catalogue.put([ask.item("pear", "b")])
        taken = time.monotonic() - start
        assert {"a"} == ask.found(other, "apple")

    assert 0.2 < taken < 5
    assert ["created"] == [result.outcome for result in other.catalogue.put([ask.item("pear", "b")])]


@pytest.mark.parametrize("number", sorted(failures.SERIALISATION))
def test_undone_transaction_is_begun_again(store, ask, number):
    """A transaction that another one undid before it wrote anything is tried again, and succeeds."""
    store.catalogue.put([ask.item("apple", "a")])
    left = [3]

    def fail(_connection, _cursor, statement, *_):
        if "FOR UPDATE" in statement and left[0]:
            left[0] -= 1
            raise pymysql.err.OperationalError(number, "undone")

    engine = store._database._engine
    sa.event.listen(engine, "before_cursor_execute", fail)
    try:
        outcomes = [result.outcome for result in store.catalogue.put([ask.item("pear", "a")])]
    finally:
        sa.event.remove(engine, "before_cursor_execute", fail)

    assert (["updated"], 0) == (outcomes, left[0])


def test_writers_see_what_was_committed_while_they_waited(store, opened, ask):
    """REPEATABLE READ would refuse them (6235) or show them what is no more."""
    store.catalogue.put([ask.item("apple", "a")])
    others = [opened() for _ in range(3)]

    def write(which):
        for number in range(10):
            which.catalogue.put([ask.item(f"apple {number} {id(which)}", "a")])

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, others))
    with store.catalogue.snapshot(Deadline()) as snapshot:
        history = snapshot.history("s", "memory", "a")

    assert [*range(1, 32)] == [revision.address.revision for revision in history]


def test_ids_do_not_leap(opened, ask):
    """Partitions are numbered by this package: the engine's numbers leap by a million with every start."""
    store = opened()
    keys = [store.catalogue.put([ask.item("apple", scope=f"s{n}")])[0].key >> 32 for n in range(3)]
    store.close()
    store = opened()
    keys.append(store.catalogue.put([ask.item("apple", scope="s3")])[0].key >> 32)
    for name in (result.address.artifact_id for result in store.catalogue.put([ask.item("apple", scope="s3")])):
        store.catalogue.purge([("s3", "memory", name)])
    keys.append(store.catalogue.put([ask.item("apple", scope="s3")])[0].key >> 32)

    assert [1, 2, 3, 4, 5] == keys


def test_first_search_after_a_start(store, opened, ask, monkeypatch):
    """While the engine loads its index searches compare every vector, and the status says so; then they use it."""
    store.vectors.attach(PROFILE)
    keys = [result.key for result in store.catalogue.put([ask.item(f"apple {n}", f"a{n}") for n in range(20)])]
    store.vectors.upsert(dict.fromkeys(keys, Y) | {keys[3]: X})
    store.close()
    gate = threading.Event()
    load = Warming._run
    monkeypatch.setattr(Warming, "_run", lambda *arguments: gate.wait(60) and load(*arguments))

    store = opened(exact_below=0)
    store.vectors.attach(PROFILE)
    assert keys[3] == nearest(store, k=20, deadline=Deadline.after(5))[0]
    assert 20 == len(nearest(store, k=20))
    (problem,) = store.status().problems
    assert "loading its vector index" in problem

    gate.set()
    until(lambda: not store.status().problems)
    assert (keys[3], 20) == (nearest(store, k=20)[0], len(nearest(store, k=20)))


def test_index_that_does_not_load_at_first(store, opened, ask, monkeypatch):
    """The engine's own limits end its first searches (4012): they are tried again, and only then it is a problem."""
    store.vectors.attach(PROFILE)
    store.vectors.upsert({store.catalogue.put([ask.item("apple", "a")])[0].key: X})
    failing = [2]

    def fail(_connection, _cursor, statement, *_):
        if "APPROXIMATE" in statement and failing[0]:
            failing[0] -= 1
            raise pymysql.err.OperationalError(4012, "Timeout")

    monkeypatch.setattr("powerctx_oceanbase.warming._PAUSE", 0.01)
    again = opened(exact_below=0)
    sa.event.listen(again._database._engine, "before_cursor_execute", fail)
    again.vectors.attach(PROFILE)
    until(lambda: again._vectors.warming._done is not None)
    assert 1 == len(nearest(again))

    failing[0] = 1000
    worst = opened(exact_below=0)
    sa.event.listen(worst._database._engine, "before_cursor_execute", fail)
    worst.vectors.attach(PROFILE)
    until(lambda: worst.status().problems and "could not be loaded" in worst.status().problems[0])
    assert 1 == len(nearest(worst))


def test_rebuild(store, opened, ask):
    """After a large load the index can be made anew; searches find the same."""
    store.vectors.attach(PROFILE)
    keys = [result.key for result in store.catalogue.put([ask.item(f"apple {n}", f"a{n}") for n in range(50)])]
    store.vectors.upsert(dict.fromkeys(keys, Y) | {keys[7]: X})
    store.vectors.rebuild()
    using = opened(exact_below=0)
    using.vectors.attach(PROFILE)
    until(lambda: using._vectors.warming._done is not None)

    assert keys[7] == nearest(using)[0] == nearest(store)[0]


def test_engine_counts_again(store, ask, statements):
    """The engine ranks by the number of rows that it counted last: it counts again when there are far more.

    No view is asked for that: the engine would write down in the background what the view depends on.
    """
    for first in (0, 600):
        store.catalogue.put([ask.item(f"apple {n}", f"a{n}") for n in range(first, 600 + 2 * first)])
    assert 2 == sum(statement.startswith("ANALYZE") for statement in statements)
    assert not [statement for statement in statements if "information_schema" in statement]
    with store._database.connected() as connection:
        told = connection.exec_driver_sql(
            "SELECT table_rows FROM information_schema.tables "
            "WHERE table_schema = database() AND table_name = 'lexical'"
        )
        assert 1800 == told.scalar_one()


@pytest.mark.parametrize("buckets", [4])
def test_buckets(opened, ask, buckets):
    """A store of several parts does the same."""
    store = opened(buckets=buckets, rank_above=0, exact_below=0)
    store.vectors.attach(PROFILE)
    results = store.catalogue.put([ask.item(f"apple {n}", "a", scope=f"s{n}") for n in range(12)])
    store.vectors.upsert({result.key: X for result in results})

    assert len({result.key >> 57 for result in results}) > 1
    for n in range(12):
        assert {"a"} == ask.found(store, f"{n}", scope=f"s{n}")
    assert ["updated"] == [result.outcome for result in store.catalogue.put([ask.item("pear", "a", scope="s3")])]
    assert 11 == store.vectors.count()
    assert str(buckets) == opened().status().facts["buckets"]


def test_made_at_once(url, opened, ask):
    """Several stores that write first at the same time make one schema."""
    stores = [opened() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: stores[n].catalogue.put([ask.item(f"apple {n}", f"a{n}")]), range(4)))

    assert {"a0", "a1", "a2", "a3"} == ask.found(stores[0], "apple")
    assert 1 == len({store.status().facts["store id"] for store in stores})


def test_made_by_another_just_now(store, ask):
    """The first table, which another process is just making, is waited for: it is only seen a little later."""
    left = [3]

    def late(_connection, _cursor, statement, *_):
        if statement.startswith("INSERT IGNORE") and left[0]:
            left[0] -= 1
            raise pymysql.err.ProgrammingError(1146, "Table 'schema_lock' doesn't exist")

    sa.event.listen(store._database._engine, "before_cursor_execute", late)
    store.catalogue.put([ask.item("apple", "a")])

    assert (0, {"a"}) == (left[0], ask.found(store, "apple"))


@pytest.mark.parametrize("number", [*sorted(failures.MISSING), 1045])
def test_seen(number):
    """What is missing is looked for again; anything else that fails is told at once."""
    errors = [pymysql.err.OperationalError(number, "told") for _ in range(3)]

    def look():
        if errors:
            raise errors.pop()
        return "found"

    if number in failures.MISSING:
        assert ("found", []) == (seen(look), errors)
    else:
        with pytest.raises(pymysql.err.OperationalError):
            seen(look)
        assert 2 == len(errors)


@pytest.mark.parametrize("which", range(6))
def test_ended_while_making_the_schema(opened, ask, monkeypatch, which):
    """Statements that make tables commit: what a crash leaves of a schema is no store, and is made anew."""
    store = opened()

    def interrupted(connection):
        for statement in list(table_statements(1))[:which]:
            connection.exec_driver_sql(statement)
        raise RuntimeError

    monkeypatch.setattr(store._database, "create_tables", interrupted)
    with pytest.raises(RuntimeError):
        store.catalogue.put([ask.item("apple", "a")])
    store.close()
    store = opened()

    assert "not created yet" in store.status().facts["state"]
    store.catalogue.put([ask.item("apple", "a")])
    assert {"a"} == ask.found(opened(), "apple")


def test_database_of_something_else(store, opened, ask):
    """Another program's database is refused, with its tables named, and left as it is."""
    connection = store._database._connector.connect(anywhere=True)
    name = store._database.location.database
    connection.cursor().execute(f"CREATE DATABASE `{name}`")
    connection.cursor().execute(f"CREATE TABLE `{name}`.bookmarks (x INT)")
    connection.close()

    with pytest.raises(StoreUnavailable, match=r"something else.*bookmarks"):
        store.catalogue.put([ask.item("apple")])


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE alembic_version SET version_num = '9999'", "schema 9999.*Upgrade"),
        ("DELETE FROM meta WHERE name = 'store_id'", "lacks the row store_id.*restore a backup"),
        ("DELETE FROM alembic_version", "lacks the version.*restore a backup"),
    ],
)
def test_unusable(store, opened, ask, statement, told):
    """A database of a newer version, or without what every store has, is refused and not made anew."""
    store.catalogue.put([ask.item("apple", "a")])
    with store._database.connected() as connection:
        connection.exec_driver_sql(statement)
        connection.commit()
    store.close()

    with pytest.raises(StoreUnavailable, match=told):
        opened().catalogue.put([ask.item("pear")])


LATER = """
import sqlalchemy as sa
from alembic import op

revision, down_revision = "9001", "{before}"


def upgrade():
    op.add_column("meta", sa.Column("note", sa.String(20)))
"""


def test_migration(store, opened, ask, tmp_path, monkeypatch, statements):  # noqa: PLR0917 - fixtures
    """An older schema is brought to the newest version by Alembic when it is opened, once, and keeps its content."""
    store.catalogue.put([ask.item("apple", "a")])
    store.close()
    folder = tmp_path / "migrations"
    shutil.copytree(schema.MIGRATIONS, folder)
    (folder / "versions" / "9001_later.py").write_text(LATER.format(before=schema.HEAD))
    monkeypatch.setattr(schema, "MIGRATIONS", folder)
    monkeypatch.setattr(schema, "VERSIONS", (*schema.VERSIONS, "9001"))
    for module in ("powerctx_sqlalchemy.schema", "powerctx_oceanbase.database"):
        monkeypatch.setattr(f"{module}.HEAD", "9001")
    with ThreadPoolExecutor(2) as pool:
        for each in list(pool.map(lambda _: opened(), range(2))):
            assert {"a"} == ask.found(each, "apple")
            assert "9001" == each.status().facts["schema"]

    assert 1 == sum("ADD COLUMN note" in statement for statement in statements)
