"""URLs and settings: what is meant, what is refused, and that no secret is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from powerctx_core.errors import StoreUnavailable
from powerctx_core.types import Item
from powerctx_oceanbase.ddl import bucket, first_number, table_statements
from powerctx_oceanbase.location import parsed
from powerctx_oceanbase.settings import OceanBaseSettings
from powerctx_oceanbase.store import open_store


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("oceanbase://host/db", "the user is missing"),
        ("oceanbase:///db", "user and host are missing"),
        ("oceanbase://root:hidden@host/", "the name of a database is missing"),
        ("oceanbase://root:hidden@host", "the name of a database is missing"),
        ("oceanbase://root:hidden@host/a`b", "the name of a database"),
        ("oceanbase://root:hidden@host/mysql", "the server's own"),
        ("oceanbase://root:hidden@host:x/db", "no URL"),
        ("oceanbase://root:hidden@host/db?password=hidden", "the parameter password is not known"),
        ("oceanbase://root:hidden@host/db?tls=maybe", "since tls must be prefer, off, on or verify; write"),
        ("oceanbase://root:hidden@host/db?pool=0", "pool must be from 1"),
        ("oceanbase://root:hidden@host/db?pool=\u0663", "pool must be a whole number"),
        ("oceanbase://root:hidden@host/db?pool=abc", "pool must be a whole number"),
        ("oceanbase://root:hidden@host/db?connect_timeout_s=-1", "connect_timeout_s must be a whole number"),
        ("oceanbase://root:hidden@host/db?write_timeout_s=", "write_timeout_s must be a whole number"),
        ("oceanbase://root:hidden@host/db?buckets=3", "a power of two"),
        ("oceanbase://root:hidden@host/db?database=x", "behind the host"),
        ("oceanbase://root:hidden@host/db#x", "%23"),
        ("seekdb://host/dir", "names a host"),
        ("seekdb://", "names no directory"),
        ("seekdb:///dir?database=../x", "the name of a database"),
        ("seekdb:///a%00b", "NUL"),
    ],
)
def test_refused(url, told):
    """A URL that cannot be meant is refused with the form to use, without its secrets."""
    with pytest.raises(StoreUnavailable) as caught:
        parsed(url, OceanBaseSettings())

    assert told in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_server():
    """Every part of a URL arrives, decoded; what is shown holds neither user nor password."""
    url = "oceanbase://me%40tenant:p%2Fw@db.example:2883/notes?pool=3&lock_timeout_ms=500&tls=verify"
    location, settings = parsed(url, OceanBaseSettings(pool=9, rank_above=7))

    assert ("me@tenant", "p/w", "db.example", 2883, "notes") == (
        location.user,
        location.password,
        location.host,
        location.port,
        location.database,
    )
    assert (3, 500, "verify", 7) == (settings.pool, settings.lock_timeout_ms, settings.tls, settings.rank_above)
    assert "oceanbase://db.example:2883/notes" == location.name
    assert "p/w" not in repr(location)


def test_directory(tmp_path):
    """A directory may be relative or absolute, and is the same whatever way it is written; a file is refused."""
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").touch()
    located = {parsed(f"seekdb:///{tmp_path}/{name}", OceanBaseSettings())[0].directory for name in ("real", "link")}

    assert {tmp_path.resolve() / "real"} == located
    assert Path.cwd() / "notes" == parsed("seekdb:///notes", OceanBaseSettings())[0].directory
    with pytest.raises(StoreUnavailable, match="is not a directory"):
        parsed(f"seekdb:///{tmp_path}/file", OceanBaseSettings())


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("127.0.0.1:9", "nothing answers on that port; see whether the server runs"),
        ("unknown.invalid:2881", "no host of that name is known; see how it is written"),
    ],
)
def test_nobody_answers(place, told):
    """A server that cannot be reached is named, with why, what to do and without the password."""
    with pytest.raises(StoreUnavailable) as caught:
        open_store(f"oceanbase://root:hidden@{place}/notes?connect_timeout_s=2")

    assert f"oceanbase://{place}/notes: could not open the store: {told}" in str(caught.value)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("name", ["x" * 256, "\N{OLD PERSIAN SIGN A}" * 64, "a/" * 5000 + "x"])
def test_too_long(tmp_path, name):
    """A directory that no file system would make is refused in a sentence, with what to name instead."""
    with pytest.raises(StoreUnavailable, match=r"cannot be used as a directory \(File name too long\); name one that"):
        open_store(f"seekdb:///{tmp_path}/{name}")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("place", [".", "notes", "deep/notes"])
def test_not_permitted(tmp_path, place):
    """A directory that this user may not look into, or make, is refused in a sentence."""
    closed = tmp_path / "closed"
    closed.mkdir()
    (closed / "notes").mkdir()
    closed.chmod(0)

    def tried():
        try:
            store = open_store(f"seekdb:///{closed}/{place}")
            store.catalogue.put([Item(scope_id="s", text="apple")])
        except StoreUnavailable as error:
            return str(error)
        return "it was used"

    told = by_nobody(tmp_path, tried)
    closed.chmod(0o700)

    assert "cannot be used as a directory (Permission denied); name one that this user may make" in told


def by_nobody(tmp_path, call):
    """Return what *call* returns to a user without rights: in a process of its own, since root may everything."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.getuid() and folder.stat().st_mode & 0o777 == 0o700:
            folder.chmod(0o711)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            if not os.getuid():
                os.setuid(65534)
            os.write(writing, call().encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        text = told.read()
    os.waitpid(child, 0)
    return text


@pytest.mark.parametrize("name", ["main.py", "src/x", "store/shop.txt", "\udcff"])
def test_directory_of_something_else(tmp_path, name):
    """A directory with other files is neither read nor written, and one of them is named."""
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.touch()
    (tmp_path / "more").touch()
    for call in (lambda: open_store(f"seekdb:///{tmp_path}"), lambda: open_store(f"seekdb:///{tmp_path}/")):
        with pytest.raises(StoreUnavailable, match=r"holds no store but other files \(.*more.*\); name an empty"):
            call()

    assert {"more", name.partition("/")[0]} == {each.name for each in tmp_path.iterdir()}


@pytest.mark.parametrize("name", [".gitkeep", "lost+found/x", "run/seekdb.pid", "store/redo/x"])
def test_directory_that_may_be_used(tmp_path, name):
    """What hides, or what an engine left that was ended while it was first started, is no content."""
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).touch()
    store = open_store(f"seekdb:///{tmp_path}")

    assert "not created yet" in store.status().facts["state"]
    store.close()


def test_reading_starts_nothing(tmp_path):
    """Where nothing was written, opening and asking makes no directory and starts no engine."""
    store = open_store(f"seekdb:///{tmp_path}/none")

    assert "not created yet" in store.status().facts["state"]
    store.close()
    assert [] == list(tmp_path.iterdir())


def test_light_import():
    """The module that the entry point names imports neither SQLAlchemy nor driver nor engine."""
    code = (
        "import sys, powerctx_oceanbase.plugin; print(sorted({'sqlalchemy','pymysql','pylibseekdb'} & {*sys.modules}))"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout

    assert "[]" == told.strip()


def test_no_engine_installed(tmp_path, monkeypatch):
    """Without the extra the message says what to install."""
    monkeypatch.setitem(sys.modules, "pylibseekdb", None)
    (tmp_path / "store" / "sstable").mkdir(parents=True)

    with pytest.raises(StoreUnavailable, match=r"pip install 'powerctx-oceanbase\[seekdb\]'"):
        open_store(f"seekdb:///{tmp_path}")


def test_buckets():
    """Scopes are spread over the buckets; the tables of several are told where each begins; ids stay below 2 ** 31."""
    statements = "\n".join(table_statements(4))

    assert {0, 1, 2, 3} == {bucket(f"scope:{n}", 4) for n in range(100)}
    assert 3 == statements.count("PARTITION BY RANGE (id)")
    assert f"VALUES LESS THAN ({1 << 57})" in statements
    assert 0 < first_number(63) < 1 << 31
    assert "PARTITION" not in "\n".join(table_statements(1))
