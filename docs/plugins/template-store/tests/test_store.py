"""The store holds to the contract of catalogues, and its file to a few promises of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from powerctx_acme_log.settings import LogSettings
from powerctx_acme_log.store import LogStore
from powerctx_core import Capability, Deadline, Item, StoreUnavailable
from powerctx_core.testing import CatalogueContract, UsageContract, cannot, not_yet

LACKS = {
    Capability.VECTOR: not_yet("words only, so far"),
    Capability.MULTI_PROCESS: cannot("what is read lies in the memory of one process"),
    Capability.REMOTE: cannot("it is a file"),
}


class TestLogCatalogue(CatalogueContract):
    lacks = LACKS

    @pytest.fixture
    def store_url(self, tmp_path: Path) -> str:
        """Give the URL of a file that is not there yet."""
        return f"acme-log:///{tmp_path}/notes.log"


class TestLogUsage(UsageContract):
    lacks = LACKS

    @pytest.fixture
    def store_url(self, tmp_path: Path) -> str:
        """Give the URL of a file that is not there yet."""
        return f"acme-log:///{tmp_path}/notes.log"


def open_log(path: Path) -> LogStore:
    """Open the store in *path*."""
    return LogStore(f"acme-log:///{path}", LogSettings())


def test_one_process(tmp_path: Path) -> None:
    """Who opens the file a second time is told that it is in use."""
    store = open_log(tmp_path / "notes.log")
    store.catalogue.put([Item(scope_id="s", text="apple")])
    with pytest.raises(StoreUnavailable, match="in use"):
        open_log(tmp_path / "notes.log")
    store.close()

    open_log(tmp_path / "notes.log").close()


def test_made_by_the_first(tmp_path: Path) -> None:
    """Of two who open a file that is not there yet, the first one to write has it; the other loses nothing of that."""
    first, second = open_log(tmp_path / "notes.log"), open_log(tmp_path / "notes.log")
    first.catalogue.put([Item(scope_id="s", text="apple")])
    first.close()
    with pytest.raises(StoreUnavailable, match="open it again"):
        second.catalogue.put([Item(scope_id="s", text="pear")])
    second.close()

    store = open_log(tmp_path / "notes.log")
    assert store.status().facts == {"items": "1"}
    store.close()


def test_no_folder(tmp_path: Path) -> None:
    """Where there is no folder the store is empty, and who writes is told to make it."""
    store = open_log(tmp_path / "none" / "notes.log")
    assert store.status().facts == {"items": "0"}
    with pytest.raises(StoreUnavailable, match="make its folder"):
        store.catalogue.put([Item(scope_id="s", text="apple")])
    store.close()


def test_torn_line(tmp_path: Path) -> None:
    """What a crash left of a last line is cut off; all before it is there."""
    path = tmp_path / "notes.log"
    store = open_log(path)
    store.catalogue.put([Item(scope_id="s", artifact_id="a", text="apple")])
    store.close()
    with path.open("ab") as file:
        file.write(b'{"change":2,"put":[{"sco')

    store = open_log(path)
    store.catalogue.put([Item(scope_id="s", artifact_id="b", text="pear")])
    store.close()

    store = open_log(path)
    assert store.status().facts == {"items": "2"}
    store.close()


def test_damaged_line(tmp_path: Path) -> None:
    """A line that cannot be read is named."""
    (tmp_path / "notes.log").write_text('{"change":1}\nnonsense\n')

    with pytest.raises(StoreUnavailable, match="line 2"):
        open_log(tmp_path / "notes.log")


def test_purged_is_gone(tmp_path: Path) -> None:
    """What was purged is not in the file any more, and what was beside it is."""
    path = tmp_path / "notes.log"
    store = open_log(path)
    store.catalogue.put([Item(scope_id="s", artifact_id="a", text="secret"), Item(scope_id="s", text="apple")])
    store.catalogue.retire([("s", "memory", "a")])
    store.catalogue.purge([("s", "memory", "a")])
    store.close()

    assert "secret" not in path.read_text()
    store = open_log(path)
    with store.catalogue.snapshot(Deadline()) as snapshot:
        assert snapshot.changes() == 3
        assert sum(snapshot.partitions().values()) == 1
    store.close()
