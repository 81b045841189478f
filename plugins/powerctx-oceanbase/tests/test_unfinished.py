"""An engine that is killed in a transaction keeps none of its locks; where one did, there is a way out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from powerctx_core.errors import StoreError, StoreUnavailable
from powerctx_core.types import EmbeddingProfile
from powerctx_oceanbase.store import open_store

PROFILE = EmbeddingProfile(fingerprint="model/1", dimensions=4, languages=("en",), noise=0.1, match=0.5)
X = b"\0\0\x80?" + bytes(12)
LARGE = [(1 << 20, f"code{number}", 1) for number in range(3000)]
"""Rows of a transaction that the engine would write to its log before the commit."""

pytestmark = [
    # The driver leaves the socket of an engine that died to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def place(tmp_path):
    """A directory for an engine of the test's own."""
    return Path(os.path.realpath(tmp_path)) / "engine"


def killed_in_a_transaction(store, kill):
    """End the engine while a write has changed many rows."""

    def write():
        with store._database.writing() as connection, store._database.told("write"):
            connection.exec_driver_sql("INSERT INTO term_count VALUES (%s, %s, %s)", LARGE)
            kill()
            connection.exec_driver_sql("SELECT 1")

    with pytest.raises(StoreError, match="connection to the engine was lost"):
        write()


@pytest.mark.parametrize("again", ["the same store", "another process's"])
@pytest.mark.long
def test_killed_engine_keeps_no_locks(place, ask, again):
    """Rows of a transaction that the engine was killed in can be changed, and tables be made, after it starts again."""
    url = f"seekdb:///{place}"
    store = open_store(url)
    store.catalogue.put([ask.item("apple", "a")])
    killed_in_a_transaction(store, lambda: ask.kill(place))
    if again != "the same store":
        store.close()
        store = open_store(url)

    (result,) = store.catalogue.put([ask.item("pear", "b")])
    store.vectors.attach(PROFILE)
    assert 1 == store.vectors.upsert({result.key: X})
    assert {"a"} == ask.found(store, "apple")
    with store._database.connected() as connection:
        assert 0 == connection.exec_driver_sql("SELECT count(*) FROM term_count WHERE code = 'code7'").scalar_one()
    assert not [problem for problem in store.status().problems if "nobody can end" in problem]
    store.close()


@pytest.mark.long
def test_way_out(place, ask):
    """A store whose engine kept such locks says so at once and for good, is read, and goes on as a copy."""
    store = open_store(f"seekdb:///{place}?lock_timeout_ms=300")
    (first,) = store.catalogue.put([ask.item("apple", "a")])
    store.vectors.attach(PROFILE)
    store.vectors.upsert({first.key: X})
    with store._database.connected() as connection:
        connection.exec_driver_sql("ALTER SYSTEM SET _private_buffer_size = '16K'")
    killed_in_a_transaction(store, lambda: ask.kill(place))

    with pytest.raises(StoreUnavailable, match=r"could not begin a write: an engine that was killed.*seekdb-restore"):
        store.catalogue.put([ask.item("pear", "b")])
    assert {"a"} == ask.found(store, "apple")
    assert any("seekdb-restore" in problem for problem in store.status().problems)
    with pytest.raises(StoreUnavailable, match=r"could not rebuild the vector index: an engine that was killed"):
        store.vectors.rebuild()
    store.close()

    copy, dump = place.with_name("copy"), place.with_name("copy.sql")
    for tool, *arguments in (("dump", place, "-o", dump), ("restore", copy, dump)):
        command = [sys.executable, "-m", f"pylibseekdb.{tool}", *map(str, arguments)]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
    store = open_store(f"seekdb:///{copy}?rank_above=0&exact_below=0")
    store.vectors.attach(PROFILE)
    assert ["created"] == [result.outcome for result in store.catalogue.put([ask.item("pear", "b")])]
    assert ({"a"}, {"b"}, 1) == (ask.found(store, "apple"), ask.found(store, "pear"), store.vectors.count())
    store.close()


def test_engine_that_does_not_know_the_parameter(place, ask, monkeypatch, caplog):
    """A version of the engine without that parameter works as it does, and the log says what may happen."""
    monkeypatch.setattr("powerctx_oceanbase.unfinished._SET", "ALTER SYSTEM SET _no_such_parameter = '0B'")
    store = open_store(f"seekdb:///{place}")
    store.catalogue.put([ask.item("apple", "a")])

    assert {"a"} == ask.found(store, "apple")
    assert "may keep locks when it is killed" in caplog.text
    store.close()
