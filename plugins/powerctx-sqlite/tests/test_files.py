"""Opening: what is told about files that cannot be used, and what is left alone."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from powerctx_core.errors import PowerctxError, StoreError, StoreUnavailable
from powerctx_core.types import Deadline, Item
from powerctx_sqlalchemy.schema import HEAD
from powerctx_sqlite import location as locations, store as stores
from powerctx_sqlite.settings import SqliteSettings
from powerctx_sqlite.store import open_store

ROOT = os.geteuid() == 0 if hasattr(os, "geteuid") else False


def test_missing_file_is_an_empty_store(opened, ask, path):
    """Reading where nothing was written finds nothing, says so, and leaves no file; the first write makes it."""
    store = opened()

    assert set() == ask.found(store, "alpha")
    with store.catalogue.snapshot(Deadline()) as snapshot:
        assert (0, {}, ()) == (snapshot.changes(), snapshot.partitions(), snapshot.history("s", "memory", "x"))
        assert snapshot.latest("s", "memory", "x") is None
    assert "not created yet" in store.status().facts["state"]
    assert [] == list(store.catalogue.reindex())
    assert not list(path.parent.iterdir())
    store.catalogue.put([ask.item("alpha", artifact_id="x")])
    assert {"x"} == ask.found(store, "alpha")


def test_file_that_appears_is_seen(opened, ask):
    """A store that was opened before the file existed sees what another one writes later."""
    early, writer = opened(), opened()
    assert set() == ask.found(early, "alpha")

    writer.catalogue.put([ask.item("alpha", artifact_id="x")])

    assert {"x"} == ask.found(early, "alpha")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("sqlite://host/notes.db", "sqlite:///notes.db"),
        ("sqlite:notes.db", "sqlite:///notes.db"),
        ("sqlite:///notes.db?mode=hidden", "the parameter mode takes ro alone"),
        ("sqlite:///notes.db?mode=memory", "a store in memory is sqlite://); correct or remove it"),
        ("sqlite:///notes.db?synchronous=OFF", "synchronous takes FULL or NORMAL"),
        ("sqlite:///notes.db?busy_timeout_ms=-1", "busy_timeout_ms takes 0 to 3600000"),
        ("sqlite:///notes.db?busy_timeout_ms=3600001", "busy_timeout_ms takes 0 to 3600000"),
        ("sqlite:///notes.db?busy_timeout_ms=99999999999999", "busy_timeout_ms takes 0 to 3600000"),
        ("sqlite:///notes.db?busy_timeout_ms=\u0663", "busy_timeout_ms takes 0 to 3600000"),
        ("sqlite:///notes.db?password=hidden", "the parameter password is not known"),
        ("sqlite:///notes.db?mode=ro&pw=hidden", "the parameter pw is not known; the parameters are synchronous"),
        ("sqlite:///notes.db?pw%3Dhidden", "a parameter is not known"),
        ("sqlite:///notes.db?p%20w=hidden", "a parameter is not known"),
        ("sqlite:notes.db?pw=hidden", "sqlite:///notes.db"),
        ("sqlite:///a%00b.db", "NUL"),
        ("sqlite://user:hidden@host/x", "sqlite:///notes.db"),
        ("sqlite:///notes\ud800.db", "lone surrogate"),
        ("sqlite:///trail.db/", "name of a directory"),
        ("sqlite:///trail.db/.", "name of a directory"),
        ("sqlite:///..", "name of a directory"),
        ("sqlite:////dev/null/x.db", "a part of this path is a file"),
        (f"sqlite:////tmp/{'x' * 300}.db", "has 303 bytes, and may have 247"),
        (f"sqlite:////tmp/{'x' * 248}", "has 248 bytes, and may have 247"),
        (f"sqlite:////tmp/{'火' * 83}", "has 249 bytes, and may have 247"),
        (f"sqlite:////tmp/{'/'.join(['x' * 200] * 25)}/n.db", "is too long for a path"),
        (f"sqlite:////tmp/{'x' * 300}/n.db", "is too long for a path"),
    ],
)
def test_bad_urls(url, told):
    """A URL that cannot be meant is refused with the form to use, without its secrets, and in what can be printed."""
    with pytest.raises(StoreUnavailable) as caught:
        open_store(url)

    assert told in str(caught.value)
    assert "hidden" not in str(caught.value)
    assert str(caught.value).encode()


def test_directory(tmp_path):
    """A directory is not a store; the message says what to write instead."""
    with pytest.raises(StoreUnavailable, match="is a directory; name a file in it"):
        open_store(f"sqlite:///{tmp_path}")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs special files")
def test_special_files(tmp_path):
    """What is no regular file is refused by its kind at once, also behind a link; nothing is made."""
    os.mkfifo(tmp_path / "pipe")
    links = {"pipe-link": "pipe", "null": "/dev/null", "loop": "pool", "pool": "loop", "dangling": "nowhere"}
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
    before = sorted(tmp_path.iterdir())

    for name, told in {
        "pipe": "a named pipe",
        "pipe-link": "a named pipe",
        "socket": "a socket",
        "null": "a device",
        "loop": "leads to itself",
        "loop/x.db": "leads to itself",
        "dangling": r"a symbolic link to .*nowhere, which does not exist",
        "dangling/x.db": "The directory of .* does not exist",
    }.items():
        for parameters in ("", "?mode=ro"):
            with pytest.raises(StoreUnavailable, match=told):
                open_store(f"sqlite:///{tmp_path / name}{parameters}")
    assert before == sorted(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have names that are text")
@pytest.mark.parametrize("name", ["%ff\u00e9.db", "\udcff\u00e9.db"])
def test_name_of_bytes(tmp_path, ask, name):
    """A name that is not UTF-8 is used as it is, whether it is quoted or came from the command line."""
    store = open_store(f"sqlite:///{tmp_path}/{name}")
    store.catalogue.put([ask.item("alpha", artifact_id="x")])
    status = store.status()
    store.close()

    assert [b"\xff\xc3\xa9.db"] == [os.fsencode(file.name) for file in tmp_path.iterdir()]
    assert status.location.endswith("\\xff\u00e9.db")
    reader = open_store(f"sqlite:///{tmp_path}/{name}?mode=ro")
    assert {"x"} == ask.found(reader, "alpha")
    reader.close()


def test_missing_directory(tmp_path, monkeypatch):
    """Directories are made for the default path only."""
    with pytest.raises(StoreUnavailable, match="does not exist; create it"):
        open_store(f"sqlite:///{tmp_path}/no/notes.db")

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    import platformdirs

    path = platformdirs.user_data_path("powerctx", appauthor=False) / "powerctx.db"
    if not path.is_relative_to(tmp_path):
        pytest.skip("the data directory does not follow XDG_DATA_HOME on this platform")
    store = open_store(f"sqlite:///{path}")
    assert not path.parent.exists()
    store.catalogue.put([Item(scope_id="s", text="alpha")])
    store.close()
    assert path.exists()


@pytest.mark.parametrize("content", [b"not a database at all, " * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_junk(path, content):
    """A file that is no database is refused, and stays as it is."""
    path.write_bytes(content)

    with pytest.raises(StoreUnavailable, match=r"not a SQLite database|damaged"):
        open_store(f"sqlite:///{path}")

    assert content == path.read_bytes()


def test_empty_file(path, ask):
    """An empty file is a store that is not created yet."""
    path.touch()
    store = open_store(f"sqlite:///{path}")
    assert set() == ask.found(store, "alpha")
    store.catalogue.put([ask.item("alpha", artifact_id="x")])
    assert {"x"} == ask.found(store, "alpha")
    store.close()


def test_database_of_something_else(path):
    """Another program's database is refused, with its tables named."""
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE bookmarks (x)")
    other.close()

    with pytest.raises(StoreUnavailable, match=r"something else.*bookmarks"):
        open_store(f"sqlite:///{path}")


def test_newer_schema(opened, ask, path):
    """A file of a newer version is refused with both versions."""
    store = opened()
    store.catalogue.put([ask.item("alpha")])
    store.close()
    with sqlite3.connect(path) as other:
        other.execute("UPDATE alembic_version SET version_num = '9999'")
    other.close()

    with pytest.raises(StoreUnavailable, match=rf"schema 9999.*up to {HEAD}.*Upgrade"):
        opened()


def test_damaged_page(opened, ask, path):
    """A damaged page is told as such, when it is met."""
    store = opened()
    store.catalogue.put([ask.item(f"alpha {n} " + "x" * 500, artifact_id=f"a{n}") for n in range(500)])
    store.close()
    content = bytearray(path.read_bytes())
    for start in range(4096 * 12, len(content) - 4096, 4096):
        content[start : start + 4096] = b"\x5a" * 4096
    path.write_bytes(content)

    with pytest.raises(StoreError, match="damaged"):
        ask.fetched(opened(), "alpha")


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("DELETE FROM meta", "lacks the row analysis_version"),
        ("DELETE FROM meta WHERE name = 'store_id'", "lacks the row store_id"),
        ("DELETE FROM alembic_version", "lacks the version of its schema"),
        ("DROP TABLE partition", "lacks the table partition"),
        ("DROP TABLE meta", "lacks the table meta"),
    ],
)
@pytest.mark.parametrize("parameters", ["", "?mode=ro"])
def test_lost_rows_and_tables(opened, path, statement, told, parameters):
    """A file without what every store has is refused at open, by what is missing."""
    store = opened()
    store.catalogue.put([Item(scope_id="s", text="alpha")])
    store.close()
    with sqlite3.connect(path) as other:
        other.execute(statement)
    other.close()

    with pytest.raises(StoreUnavailable, match=rf"{told}.*restore a backup"):
        opened(parameters)


@pytest.mark.parametrize("statement", ["DROP TABLE lexical", "DROP TRIGGER revision_immutable"])
def test_lost_objects(opened, ask, path, statement):
    """Without the full-text index items can be read, and the status names the problem."""
    store = opened()
    store.catalogue.put([ask.item("alpha", artifact_id="x")])
    assert () == store.status().problems
    store.close()
    with sqlite3.connect(path) as other:
        other.execute(statement)
    other.close()

    store = opened()
    assert [(1, "alpha", "current")] == ask.states(store, "x")
    (problem,) = store.status().problems
    assert statement.split()[-1] in problem


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("parameters", ["", "?mode=ro"])
@pytest.mark.skipif(os.name == "nt", reason="open files cannot be deleted there")
def test_file_lost_while_open(opened, ask, path, replaced, parameters):
    """When the file has lost its name, reads, writes and the status say so, and nothing is told to be stored."""
    writer = opened()
    writer.catalogue.put([ask.item("alpha", artifact_id="x")])
    writer.close()
    if replaced:
        other = path.with_name("other.db")
        other.write_bytes(path.read_bytes())
    store = opened(parameters)
    assert {"x"} == ask.found(store, "alpha")
    if replaced:
        other.rename(path)
    else:
        path.unlink()
    told = "was replaced by another program" if replaced else "was deleted by another program"

    with pytest.raises(StoreError, match=told):
        ask.found(store, "alpha")
    with pytest.raises(StoreError, match=told):
        store.catalogue.put([ask.item("beta")])
    assert any(told in problem for problem in store.status().problems)
    store.close()
    assert path.exists() is replaced


@pytest.mark.skipif(os.name == "nt", reason="open files cannot be deleted there")
def test_file_lost_while_written(opened, ask, path):
    """A file that is deleted in the middle of a write keeps nothing, and the write says so."""
    store = opened()
    store.catalogue.put([ask.item("alpha", artifact_id="x")])

    with pytest.raises(StoreError, match="was deleted"), store._database.writing():
        path.unlink()


def _contents(path: Path) -> dict[str, tuple[bytes, int]]:
    return {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in path.parent.iterdir()}


@pytest.mark.parametrize("journal", ["WAL", "DELETE", "PERSIST", "TRUNCATE"])
@pytest.mark.parametrize("parameters", ["", "?mode=ro"])
def test_reads_change_nothing(opened, ask, path, journal, parameters):
    """Reading, with or without ``mode=ro``, leaves every byte of the folder; a write gives the file its log."""
    store = opened()
    store.catalogue.put([ask.item("alpha", artifact_id="x")])
    store.close()
    with sqlite3.connect(path) as other:
        other.execute(f"PRAGMA journal_mode = {journal}")
    other.close()
    before = _contents(path)

    reader = opened(parameters)
    assert {"x"} == ask.found(reader, "alpha")
    during = _contents(path)
    reader.status()
    reader.close()

    assert before == _contents(path)
    assert before == during or (journal, parameters) == ("WAL", "")
    store = opened()
    store.catalogue.put([ask.item("beta", artifact_id="y")])
    assert "wal" == store.status().facts["journal"]


def test_write_without_a_log(opened, ask, path):
    """While somebody reads a file that has no log yet, it gets none, and is written all the same."""
    store = opened()
    store.catalogue.put([ask.item("alpha", artifact_id="x")])
    store.close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA journal_mode = DELETE")
    store = opened(busy_timeout_ms=100)
    other.execute("BEGIN")
    other.execute("SELECT * FROM meta").fetchall()

    with pytest.raises(StoreError, match=r"another process.*Nothing of this batch was kept"):
        store.catalogue.put([ask.item("beta", artifact_id="y")])
    other.execute("COMMIT")
    other.close()
    store.catalogue.put([ask.item("beta", artifact_id="y")])

    assert {"x", "y"} == ask.found(store, "alpha beta")
    assert "wal" == store.status().facts["journal"]


def test_read_only_by_choice(opened, ask):
    """``mode=ro`` reads and refuses every write with one sentence."""
    store = opened()
    store.catalogue.put([ask.item("alpha", artifact_id="x")])
    store.close()
    reader = opened("?mode=ro")

    assert {"x"} == ask.found(reader, "alpha")
    for write in (
        lambda: reader.catalogue.put([ask.item("beta")]),
        lambda: reader.catalogue.retire([("s", "memory", "x")]),
        lambda: reader.catalogue.purge([("s", "memory", "x")]),
        lambda: list(reader.catalogue.reindex()),
    ):
        with pytest.raises(StoreError, match="read-only here"):
            write()
    assert "read only" == reader.status().facts["access"]


@pytest.mark.skipif(not ROOT, reason="only root can become a user who may not write")
@pytest.mark.parametrize("mode", [0o555, 0o755])
def test_read_only_by_permission(ask, mode):
    """A file that this user may not write is read, also in a directory that may not be written, and left alone."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        url = f"sqlite:///{directory / 'notes.db'}"
        store = open_store(url)
        store.catalogue.put([ask.item("alpha", artifact_id="x")])
        store.close()
        (directory / "notes.db").chmod(0o444)
        directory.chmod(mode)
        os.seteuid(65534)
        try:
            reader = open_store(url)
            found = ask.found(reader, "alpha")
            with pytest.raises(StoreError, match="read-only here"):
                reader.catalogue.put([ask.item("beta")])
            reader.close()
        finally:
            os.seteuid(0)

        assert {"x"} == found
        assert ["notes.db"] == [file.name for file in directory.iterdir()]


def test_locked(opened, ask, path):
    """A writer that waits longer than it may says so, keeps nothing, and can try again."""
    store = opened("?busy_timeout_ms=50")
    store.catalogue.put([ask.item("alpha", artifact_id="x")])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreError, match=r"another process is writing.*Nothing of this batch was kept"):
        store.catalogue.put([ask.item("beta", artifact_id="y")])

    assert {"x"} == ask.found(store, "alpha beta")
    other.execute("ROLLBACK")
    other.close()
    store.catalogue.put([ask.item("beta", artifact_id="y")])
    assert {"x", "y"} == ask.found(store, "alpha beta")


def test_network_file_systems(opened, monkeypatch):
    """A network file system is refused with the way to insist."""
    mounts = "/dev/sda / ext4 rw 0 0\nserver:/x /mnt/my\\040share nfs4 rw 0 0\n//pc/y /mnt/y cifs rw 0 0\n"
    assert "nfs4" == locations.mounted_type(mounts, Path("/mnt/my share/notes.db"))
    assert "cifs" == locations.mounted_type(mounts, Path("/mnt/y/deep/notes.db"))
    assert locations.mounted_type(mounts, Path("/mnt/yes/notes.db")) is None

    monkeypatch.setattr(stores, "network_type", lambda path: "nfs4")
    with pytest.raises(StoreUnavailable, match=r"network file system \(nfs4\).*network=allow"):
        opened()
    opened("?network=allow")


def test_changed_analysis(opened, ask, path, monkeypatch):
    """With another analysis a small store is analysed anew at open, a large one refuses words and writes."""
    store = opened()
    store.catalogue.put([ask.item(f"alpha {n}", artifact_id=f"a{n}") for n in range(2500)])
    store.close()

    def age() -> None:
        with sqlite3.connect(path) as other:
            other.execute("UPDATE meta SET value = 'older' WHERE name = 'analysis_version'")
        other.close()

    age()
    assert 2500 == ask.lexical(opened(), "alpha").statistics.document_frequency["alpha"]
    age()
    large = opened(reanalyse_at_most=100)
    with pytest.raises(StoreError, match="powerctx index --rebuild"):
        ask.found(large, "alpha")
    with pytest.raises(StoreError, match="powerctx index --rebuild"):
        large.catalogue.put([ask.item("beta")])
    with large.catalogue.snapshot(Deadline()) as snapshot:
        assert "alpha 7" == snapshot.latest("s", "memory", "a7").item.text
    assert any("--rebuild" in problem for problem in large.status().problems)
    with pytest.raises(StoreError, match="more than the 10"):
        list(large.catalogue.reindex(limit=10))
    steps = iter(large.catalogue.reindex())
    assert 1000 == next(steps)
    steps.close()
    other = opened(reanalyse_at_most=100)
    with pytest.raises(StoreError, match="not completed"):
        ask.found(other, "alpha")
    assert [2000, 2500, 2500] == list(other.catalogue.reindex())
    assert 2500 == ask.lexical(other, "alpha").statistics.document_frequency["alpha"]
    assert 2500 == ask.lexical(large, "alpha").statistics.document_frequency["alpha"]


def test_rebuild_changes_nothing(opened, ask):
    """After a rebuild the figures are what they were."""
    store = opened()
    store.catalogue.put([ask.item(f"alpha beta {n}", artifact_id=f"a{n}") for n in range(20)])
    store.catalogue.put([ask.item("beta beta", artifact_id="a1")])
    store.catalogue.retire([("s", "memory", "a2")])
    before = ask.lexical(store, "alpha beta")

    list(store.catalogue.reindex())

    after = ask.lexical(store, "alpha beta")
    assert before.statistics == after.statistics
    assert set(map(str, before.hits)) == set(map(str, after.hits))
    store.catalogue.put([ask.item("gamma", artifact_id="a1")])
    assert "a1" not in ask.found(store, "beta")


def test_status_and_close(opened, ask, path):
    """The status names what there is; close can be called again, releases the file, and ends what is called later."""
    before = threading.active_count()
    store = opened()
    store.catalogue.put([ask.item("alpha")])
    facts = store.status().facts

    assert {
        "schema",
        "analysis",
        "items",
        "partitions",
        "size",
        "log size",
        "sqlite",
        "journal",
        "free space",
        "permissions",
    } <= set(facts)
    assert ("1", "1", "wal", HEAD) == (facts["items"], facts["partitions"], facts["journal"], facts["schema"])
    store.close()
    store.close()
    assert [path] == list(path.parent.iterdir())
    assert store.status().problems
    with pytest.raises(PowerctxError, match="closed"):
        ask.found(store, "alpha")
    with pytest.raises(PowerctxError, match="closed"):
        store.catalogue.put([ask.item("beta")])
    assert before == threading.active_count()


def test_light_plugin():
    """Naming the store imports neither SQLAlchemy nor alembic, and opening a store does not import alembic."""
    code = (
        "import sys, powerctx_sqlite.plugin as p; spec, = p.powerctx_stores(); assert spec.schemes == ('sqlite',)\n"
        "assert not {'sqlalchemy', 'alembic'} & sys.modules.keys()\n"
        "from powerctx_core.types import Item; from powerctx_sqlite.store import open_store\n"
        "s = open_store('sqlite://'); s.catalogue.put([Item(scope_id='s', text='x')]); s.close()\n"
        "assert 'alembic' not in sys.modules"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)


def test_settings_and_url():
    """Parameters of the URL come before the settings."""
    place, effective = locations.parsed(
        "sqlite:////a%20b/n.db?synchronous=full&busy_timeout_ms=7", SqliteSettings(busy_timeout_ms=1)
    )

    assert (Path("/a b/n.db"), "FULL", 7) == (place.path, effective.synchronous, effective.busy_timeout_ms)
    assert Path.cwd() / "n.db" == locations.parsed("sqlite:///n.db", SqliteSettings())[0].path


@pytest.mark.parametrize(
    "values",
    [
        {"busy_timeout_ms": -5},
        {"busy_timeout_ms": 99999999999999},
        {"rank_above": -1},
        {"reanalyse_at_most": -1},
        {"vector_memory_mb": 1 << 40},
        {"synchronous": "OFF; DROP TABLE meta"},
    ],
)
def test_bad_settings(values):
    """A setting outside of its range is refused with the range."""
    with pytest.raises(ValueError, match=r"must be (from 0 to \d+|in )"):
        SqliteSettings(**values)
