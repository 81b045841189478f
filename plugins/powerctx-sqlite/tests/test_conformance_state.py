"""SQLite's sessions hold to their contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from powerctx_core.ports import Capability
from powerctx_core.testing import StateContract, cannot


class TestSqliteState(StateContract):
    """``sqlite://`` with a file."""

    lacks = {Capability.REMOTE: cannot("is a file on this machine")}
    plugins = ("sqlite",)

    @pytest.fixture
    def store_url(self, tmp_path: Path) -> str:
        """A file that does not exist yet."""
        return f"sqlite:///{tmp_path}/x.db"
