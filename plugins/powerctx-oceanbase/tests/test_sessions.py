"""OceanBase's sessions and ledgers: the contract, as embedded engine and as a server."""

from __future__ import annotations

import time
from typing import ClassVar

import pytest

from powerctx_core.ports import Capability
from powerctx_core.testing import StateContract, cannot


class TestSeekdbState(StateContract):
    """A database of the session's engine; see ``conftest.py`` for what a run takes."""

    engine: ClassVar = "seekdb"
    plugins: ClassVar = ("oceanbase",)
    lacks: ClassVar = {Capability.REMOTE: cannot("is an engine beside this process")}
    sample = frozenset(
        {
            "test_the_user_starts_turns",
            "test_any_text_comes_back",
            "test_concurrent_messages_are_kept",
            "test_sessions_stay",
        }
    )

    @pytest.fixture
    def store_url(self, url: str) -> str:
        """A database that does not exist yet."""
        return url


class TestServerState(StateContract):
    """A database of a server."""

    engine: ClassVar = "seekdb-tcp"
    plugins: ClassVar = ("oceanbase",)

    @pytest.fixture
    def store_url(self, server: str) -> str:
        """A database that does not exist yet."""
        return f"{server}/t{time.time_ns()}"
