"""OceanBase holds to every contract of a store, as embedded engine and as a server.

A run takes the tests that *sample* of a class names; see ``conftest.py``.
"""

from __future__ import annotations

import time
from typing import ClassVar

import pytest

from powerctx_core.ports import Capability
from powerctx_core.testing import (
    CatalogueContract,
    HostileContract,
    LexicalContract,
    ReferenceContract,
    StatisticsContract,
    VectorIndexContract,
    cannot,
)


class OnSeekdb:
    """A database of the session's engine."""

    engine: ClassVar = "seekdb"
    plugins: ClassVar = ("oceanbase",)
    lacks: ClassVar = {Capability.REMOTE: cannot("is an engine beside this process")}

    @pytest.fixture
    def store_url(self, url: str) -> str:
        """A database that does not exist yet."""
        return url


class OnServer:
    """A database of a server."""

    engine: ClassVar = "seekdb-tcp"
    plugins: ClassVar = ("oceanbase",)

    @pytest.fixture
    def store_url(self, server: str) -> str:
        """A database that does not exist yet."""
        return f"{server}/t{time.time_ns()}"


class TestSeekdbCatalogue(OnSeekdb, CatalogueContract):
    """``seekdb://`` with a directory."""

    sample = frozenset(
        {
            # opened and left clean
            "test_says_what_it_can",
            "test_empty",
            "test_close_leaves_nothing",
            # writes and revisions
            "test_outcomes",
            "test_batch_atomicity",
            "test_purge_deletes_all",
            "test_revisions_never_change",
            # words
            "test_finds_sub_words",
            "test_occurrences",
            "test_filters_restrict_members",
            # bytes
            "test_scopes_find_their_own",
            "test_threads_categories_and_tags",
            "test_longest_ids",
            "test_white_space_stays",
            # processes
            "test_reading_creates_nothing",
            "test_durable",
        }
    )


class TestSeekdbVectors(OnSeekdb, VectorIndexContract):
    """As users have it: small partitions are searched by comparing every vector."""

    sample = frozenset({"test_nearest_exact", "test_nearest_ties", "test_vector_filter_first", "test_vector_goes"})


class TestSeekdbRanked(OnSeekdb, LexicalContract, StatisticsContract, HostileContract, ReferenceContract):
    """The engine ranks from the first item on, which it otherwise does in large partitions only."""

    settings: ClassVar = {"parts": {"seekdb": {"rank_above": 0}}}
    sample = frozenset({"test_finds_sub_words", "test_best_of_a_large_partition"})


class TestSeekdbVectorsIndexed(OnSeekdb, VectorIndexContract):
    """The engine's vector index is used from the first item on."""

    settings: ClassVar = {"parts": {"seekdb": {"exact_below": 0}}}
    sample = frozenset({"test_nearest_exact"})


class TestServerCatalogue(OnServer, CatalogueContract):
    """``oceanbase://`` with one node."""


class TestServerVectors(OnServer, VectorIndexContract):
    """As users have it: small partitions are searched by comparing every vector."""
