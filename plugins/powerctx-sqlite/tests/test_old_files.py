"""Files of the first schema: brought up at open with all that they hold, whatever interrupts that."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from powerctx_core.errors import StoreError, StoreUnavailable
from powerctx_core.types import Deadline, EmbeddingProfile
from powerctx_sqlalchemy import schema
from powerctx_sqlite.index import Fts5Index
from powerctx_sqlite.store import open_store

QUERIES = ("alpha", "beta gamma", "火锅 alpha", "delta", "nowhere")
NAMES = [f"a{n}" for n in range(60)]
COPIED = ("partition", "revision", "analysis", "meta", "sqlite_sequence")

# Opens a file, and does what argv says just before the given statement of the migration.
OPENER = """
import os, signal, sys
import sqlalchemy as sa
from powerctx_core.errors import StoreError
from powerctx_sqlite.store import open_store
how, last = sys.argv[2], int(sys.argv[3])
seen = 0
@sa.event.listens_for(sa.Engine, "before_cursor_execute")
def count(connection, cursor, statement, *more):
    global seen
    if statement.lstrip().startswith(("CREATE", "UPDATE alembic")):
        seen += 1
        if seen == last:
            if how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if how == "defect":
                raise RuntimeError("in the middle")
            if how == "error":
                raise sa.exc.OperationalError(statement, {}, Exception("in the middle"))
print("ready", flush=True)
sys.stdin.readline()
try:
    open_store(f"sqlite:///{sys.argv[1]}").close()
except StoreError as error:
    print(error)
print(seen)
"""


def fill(store, ask):
    """Write items with revisions, retired and revived ones, in several scopes."""
    put = store.catalogue.put
    put(
        [
            ask.item(f"alpha {n} beta 火锅店 " + "long " * (n % 5 * 900), artifact_id=name, thread="t", position=n)
            for n, name in enumerate(NAMES)
        ]
    )
    put([ask.item(f"gamma {n} delta gamma", artifact_id=name, tags=("x",)) for n, name in enumerate(NAMES[::3])])
    store.catalogue.retire([("s", "memory", name) for name in NAMES[::7]])
    put([ask.item("delta revived", artifact_id=NAMES[0]), ask.item("beta", "other", artifact_id="o")])


def everything(store, ask):
    """Return all revisions but their times, and the answers to queries with the figures behind them."""
    with store.catalogue.snapshot(Deadline()) as snapshot:
        revisions = [
            [(each.address, each.item.digest, each.item.text, each.item.tags, each.state) for each in history]
            for name in NAMES
            for history in [snapshot.history("s", "memory", name)]
        ]
        partitions = dict(snapshot.partitions())
    found = []
    for query in QUERIES:
        result = ask.lexical(store, query)
        hits = sorted((hit.key, hit.artifact_id, sorted(hit.matched.items()), hit.length) for hit in result.hits)
        found.append((hits, result.statistics))
    return revisions, partitions, found


@pytest.fixture
def fresh(tmp_path, ask):
    """A store of the newest schema with the same content, closed."""
    path = tmp_path / "fresh.db"
    store = open_store(f"sqlite:///{path}")
    fill(store, ask)
    store.close()
    return path


@pytest.fixture
def expected(fresh, ask):
    """What a store with the same content answers that never was of an older schema."""
    store = open_store(f"sqlite:///{fresh}")
    yield everything(store, ask)
    store.close()


@pytest.fixture
def old(fresh, path):
    """A file as the first version made and wrote it."""
    config = Config()
    config.set_main_option("script_location", str(schema.MIGRATIONS))
    engine = sa.create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        index = Fts5Index()
        index.create(connection)
        connection.commit()
        connection.exec_driver_sql(f"ATTACH '{fresh}' AS fresh")
        for table in COPIED:
            connection.exec_driver_sql(f"DELETE FROM {table}")
            connection.exec_driver_sql(f"INSERT INTO {table} SELECT * FROM fresh.{table}")
        index.add(connection, connection.exec_driver_sql("SELECT id, terms, repeats FROM analysis ORDER BY id").all())
        connection.commit()
    engine.dispose()
    assert "0001" == version(path)
    return path


def version(path):
    """Return the schema of a file, which must have its tables and no part of those of a later one."""
    with sqlite3.connect(path) as plain:
        ((found,),) = plain.execute("SELECT version_num FROM alembic_version")
        names = {name for (name,) in plain.execute("SELECT name FROM sqlite_master")}
        assert ("ok",) == plain.execute("PRAGMA integrity_check").fetchone()
    plain.close()
    later = {"vector", "vector_removed", "embedding_profile", "vector_stamp", "vector_forgotten", "vector_purged"}
    assert later & names == (set() if found == "0001" else later)
    return found


def starting(path, how="", last=0):
    """Start a process that opens the file when it is told to."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", OPENER, str(path), how, str(last)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env,
    )  # fmt: skip
    assert "ready\n" == process.stdout.readline()
    return process


def test_upgrade(old, expected, opened, ask):
    """All that an old file holds is there after it was opened, found with the same figures, and goes on."""
    store = opened()

    assert expected == everything(store, ask)
    assert schema.HEAD == store.status().facts["schema"] == version(old)
    assert () == store.check(Deadline()).problems
    # What the new schema brings works for the old rows: a vector goes with its revision.
    store.vectors.attach(EmbeddingProfile(fingerprint="m/1", dimensions=4, languages=("en",), noise=0.1, match=0.5))
    keys = [each.key for each in store.vectors.unembedded(1000)]
    assert sum(expected[1].values()) == len(keys)
    unit = b"\0\0\x80\x3f" + bytes(12)
    assert len(keys) == store.vectors.upsert(dict.fromkeys(keys, unit))
    assert [(3, "updated")] == ask.outcomes(store, [ask.item("epsilon", artifact_id=NAMES[3])])
    assert len(keys) - 1 == store.vectors.count()
    assert {NAMES[3]} == ask.found(store, "epsilon")


def test_upgrade_ranked(old, expected, opened, ask):
    """The same answers come from the index of an old file where the engine ranks."""
    assert expected == everything(opened(rank_above=0), ask)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a signal that cannot be caught")
def test_killed_upgrade(old, expected, ask):
    """A process killed before the first to the last statement leaves the old file whole; the next open completes it."""
    process = starting(_copied(old, "counted.db"))
    told, _ = process.communicate("\n", timeout=60)
    statements = int(told)
    assert statements >= 9
    for last in (1, statements // 2, statements - 1, statements):
        path = _copied(old, f"killed{last}.db")
        process = starting(path, "kill", last)
        process.communicate("\n", timeout=60)
        assert -signal.SIGKILL == process.returncode
        assert "0001" == version(path)
        store = open_store(f"sqlite:///{path}")
        assert expected == everything(store, ask)
        store.close()
        assert schema.HEAD == version(path)


def _copied(path, name):
    return shutil.copyfile(path, path.with_name(name))


@pytest.mark.parametrize(("how", "told"), [("error", "in the middle"), ("defect", "RuntimeError: in the middle")])
def test_failed_upgrade(old, opened, ask, how, told):
    """An error in the middle is told with what to do, leaves the old file as it was, and the next open completes it."""
    before = old.read_bytes()
    process = starting(old, how, 7)
    message, _ = process.communicate("\n", timeout=60)

    assert told in message
    assert f"could not bring the store from schema 0001 to {schema.HEAD}, and left it as it was" in message
    assert 2 == message.count("\n")
    assert "0001" == version(old)
    assert before == old.read_bytes()
    assert "delta revived" == ask.states(opened(), NAMES[0])[-1][1]


def test_upgrade_without_room(old, opened, ask):
    """Where the file may not grow the old one stays, and is brought up when there is room."""
    resource = pytest.importorskip("resource", reason="this system limits no file's size")
    before = old.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, hard))
    try:
        with pytest.raises(StoreUnavailable, match=r"left it as it was: .*free"):
            opened()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "0001" == version(old)

    assert "delta revived" == ask.states(opened(), NAMES[0])[-1][1]
    assert schema.HEAD == version(old)


def test_upgrade_by_two_processes(old, expected, ask):
    """Processes and threads that open an old file at the same time all find it brought up, once, and whole."""
    processes = [starting(old) for _ in range(3)]
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    failures = []

    def open_here():
        try:
            open_store(f"sqlite:///{old}").close()
        except StoreError as error:
            failures.append(error)

    threads = [threading.Thread(target=open_here) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = [process.communicate(timeout=60)[0] for process in processes]

    assert [] == failures
    assert all(line.strip().isdigit() for line in told), told
    assert schema.HEAD == version(old)
    store = open_store(f"sqlite:///{old}")
    assert expected == everything(store, ask)
    assert () == store.check(Deadline()).problems
    store.close()


def test_looking_upgrades_nothing(old, opened):
    """Who only looks, or may not write, is told of the older schema and leaves every byte."""
    before = old.read_bytes()

    with pytest.raises(StoreUnavailable, match=r"older schema 0001; any other command.*keeps all that it holds"):
        opened(inspect=True)
    with pytest.raises(StoreUnavailable, match="older schema 0001 and is read-only here"):
        opened("?mode=ro")

    assert before == old.read_bytes()
