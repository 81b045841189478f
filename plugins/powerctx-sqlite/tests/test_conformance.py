"""SQLite holds to every contract of a store; where it ranks, to those that tell what is found."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from powerctx_core.ports import Capability
from powerctx_core.testing import (
    CatalogueContract,
    HostileContract,
    LexicalContract,
    ReferenceContract,
    StatisticsContract,
    cannot,
)
from powerctx_core.testing.database import Database

LACKS = {Capability.REMOTE: cannot("is a file on this machine")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for the store's files and nothing else."""
    folder = tmp_path / "store"
    folder.mkdir()
    return folder


class TestSqliteCatalogue(CatalogueContract):
    """``sqlite://`` with a file."""

    lacks = LACKS
    plugins = ("sqlite",)

    @pytest.fixture
    def store_url(self, folder: Path) -> str:
        """A file that does not exist yet."""
        return f"sqlite:///{folder}/x.db"

    def test_reading_makes_no_file(self, db: Database, folder: Path) -> None:
        """Reading a store that nobody has written to, and deleting what is not there, makes no file."""
        db.partitions()
        db.listing()
        db.lexical("anything at all 北京")
        db.history()
        db.retire("a")
        db.purge("a")
        db.store.status()

        assert [] == list(folder.iterdir())


class TestSqliteRanked(LexicalContract, StatisticsContract, HostileContract, ReferenceContract):
    """The engine ranks from the first item on, which it otherwise does in large partitions only."""

    lacks = LACKS
    plugins = ("sqlite",)
    settings: ClassVar = {"parts": {"sqlite": {"rank_above": 0}}}

    @pytest.fixture
    def store_url(self, folder: Path) -> str:
        """A file that does not exist yet."""
        return f"sqlite:///{folder}/x.db"
