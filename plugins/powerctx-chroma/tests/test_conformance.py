"""Chroma holds to every contract of a store, in this process and as a server.

A run takes the tests that *sample* of a class names; see ``conftest.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from powerctx_core.ports import Capability
from powerctx_core.testing import CatalogueContract, StateContract, UsageContract, VectorIndexContract, cannot

ALONE = {
    Capability.REMOTE: cannot("is a directory on this machine"),
    Capability.MULTI_PROCESS: cannot("Chroma's index of one process does not see what another one writes"),
}
OPENED = frozenset(
    {
        "test_says_what_it_can",
        "test_empty",
        "test_close_leaves_nothing",
        "test_outcomes",
        "test_purge_deletes_all",
        "test_revisions_never_change",
        "test_finds_sub_words",
        "test_reading_creates_nothing",
        "test_durable",
    }
)


class InDirectory:
    """``chroma://`` with a directory, and a SQLite file beside it."""

    chroma: ClassVar = "directory"
    plugins: ClassVar = ("chroma", "sqlite")
    lacks: ClassVar = ALONE

    @pytest.fixture
    def store_url(self, tmp_path: Path) -> str:
        """A directory that does not exist yet."""
        return f"chroma:///{tmp_path}/notes"


class OnServer:
    """``chroma+http://`` with a SQLite file as companion."""

    chroma: ClassVar = "server"
    plugins: ClassVar = ("chroma", "sqlite")

    @pytest.fixture
    def store_url(self, server: str, tmp_path: Path) -> str:
        """A companion that does not exist yet."""
        return f"chroma+http://{server}?companion=sqlite:///{tmp_path}/x.db"


class TestDirectoryVectors(InDirectory, VectorIndexContract):
    """As users have it: small partitions are searched in memory, large ones by Chroma's index."""

    sample = frozenset(
        {
            # found
            "test_nearest_exact",
            "test_nearest_ties",
            "test_vector_partitions",
            "test_vector_filter_first",
            "test_cosines_as_nearest",
            # come and gone
            "test_vector_goes",
            "test_vector_replaced",
            "test_only_current_take_vectors",
            "test_other_model",
            "test_clear",
            "test_unembedded",
            "test_cached",
            # seen
            "test_vector_snapshot",
            "test_vector_changes",
            "test_vectors_reopened",
        }
    )


class TestDirectoryCatalogue(InDirectory, CatalogueContract):
    """Items, words and revisions are the companion's."""

    sample = OPENED


class TestDirectoryUsage(InDirectory, UsageContract):
    """Usage counts are the companion's."""

    sample = frozenset({"test_uses_add_up", "test_a_purge_deletes_the_count", "test_counts_stay"})


class TestDirectoryState(InDirectory, StateContract):
    """Sessions and ledgers are the companion's."""

    sample = frozenset({"test_the_user_starts_turns", "test_a_purge_forgets_deliveries", "test_a_ledger_stays"})


class TestDirectoryIndexed(InDirectory, VectorIndexContract):
    """Chroma's index is used as soon as a partition has more vectors than a search by it may give at once."""

    settings: ClassVar = {"parts": {"chroma": {"exact_below": 60}}}
    sample = frozenset({"test_nearest_exact", "test_vector_filter_first"})


class TestServerVectors(OnServer, VectorIndexContract):
    """As users have it."""

    sample = frozenset(
        {
            "test_nearest_exact",
            "test_other_model_meanwhile",
            "test_vector_snapshot",
            "test_vectors_opened_twice",
        }
    )


class TestServerCatalogue(OnServer, CatalogueContract):
    """Items, words and revisions are the companion's."""

    sample = frozenset({"test_says_what_it_can", "test_close_leaves_nothing"})


class TestServerUsage(OnServer, UsageContract):
    """Usage counts are the companion's."""

    sample = frozenset({"test_uses_add_up"})


class TestServerState(OnServer, StateContract):
    """Sessions and ledgers are the companion's."""

    sample = frozenset({"test_deliveries_are_remembered"})
