"""The vector index of SQLite holds to its contract, whichever way a partition is searched."""

from __future__ import annotations

from pathlib import Path

import pytest

from powerctx_core.ports import Capability
from powerctx_core.testing import VectorIndexContract, cannot
from powerctx_sqlite import resident, vectors


class OnFile(VectorIndexContract):
    """``sqlite://`` with a file."""

    __test__ = False
    plugins = ("sqlite",)
    lacks = {Capability.REMOTE: cannot("is a file on this machine")}

    @pytest.fixture
    def store_url(self, tmp_path: Path) -> str:
        """A file that does not exist yet."""
        return f"sqlite:///{tmp_path}/x.db"


class TestSqliteVectors(OnFile):
    """As users have it: small partitions are read, larger ones kept in memory."""

    __test__ = True


class TestSqliteVectorsKept(OnFile):
    """Partitions of any size are kept in memory."""

    __test__ = True

    @pytest.fixture(autouse=True)
    def _kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(vectors, "DIRECT", 0)


class TestSqliteVectorsSigns(OnFile):
    """Partitions of any size are kept as signs, as the largest are."""

    __test__ = True

    @pytest.fixture(autouse=True)
    def _signs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(vectors, "DIRECT", 0)
        monkeypatch.setattr(vectors, "FEW", 0)
        monkeypatch.setattr(resident, "EXACT", 0)
