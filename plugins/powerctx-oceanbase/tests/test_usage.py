"""OceanBase's usage counts: the contract, as embedded engine and as a server, and an older database."""

from __future__ import annotations

import time
from typing import ClassVar

import pytest

from powerctx_core.ports import Capability
from powerctx_core.testing import UsageContract, cannot
from powerctx_core.types import Deadline
from powerctx_sqlalchemy import schema


class TestSeekdbUsage(UsageContract):
    """A database of the session's engine; see ``conftest.py`` for what a run takes."""

    engine: ClassVar = "seekdb"
    plugins: ClassVar = ("oceanbase",)
    lacks: ClassVar = {Capability.REMOTE: cannot("is an engine beside this process")}
    sample = frozenset(
        {
            "test_uses_add_up",
            "test_counts_are_of_one_artifact_alone",
            "test_a_purge_deletes_the_count",
            "test_counts_stay",
        }
    )

    @pytest.fixture
    def store_url(self, url: str) -> str:
        """A database that does not exist yet."""
        return url


class TestServerUsage(UsageContract):
    """A database of a server."""

    engine: ClassVar = "seekdb-tcp"
    plugins: ClassVar = ("oceanbase",)

    @pytest.fixture
    def store_url(self, server: str) -> str:
        """A database that does not exist yet."""
        return f"{server}/t{time.time_ns()}"


def test_an_older_database_gets_the_table(opened, ask):
    """A database of version 0002 is brought to the newest at open, keeps what it holds, and counts from then on."""
    old = opened()
    old.catalogue.put([ask.item("apple", "a")])
    with old._database.connected() as connection:
        for later in ("usage_count", "session", "session_text", "delivery"):
            connection.exec_driver_sql(f"DROP TABLE {later}")
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0002'")
        connection.commit()
    old.close()

    store = opened()
    assert schema.HEAD == store.status().facts["schema"]
    assert {"a"} == ask.found(store, "apple")
    assert 1 == store.usage.add([("s", "memory", "a")])
    assert {("s", "memory", "a"): 1} == store.usage.counts([("s", "memory", "a")], Deadline())
