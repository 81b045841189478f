"""Core's families over OceanBase as an embedded engine: a sample; see ``conftest.py``."""

from __future__ import annotations

from typing import ClassVar

import pytest

from powerctx_core.testing import FamilyContract


class OnSeekdb:
    """A database of the session's engine."""

    engine: ClassVar = "seekdb"
    plugins: ClassVar = ("oceanbase",)

    @pytest.fixture
    def store_url(self, url: str) -> str:
        """A database that does not exist yet."""
        return url


SAMPLE = frozenset(
    {
        "test_asked_scope_only",
        "test_best_by_vector",
        "test_best_by_words",
        "test_delivered",
        "test_filters",
        "test_follows_changes",
        "test_neighbours",
        "test_statistics",
    }
)
"""What depends on the store: the rest of a family is the same code over any."""


class TestSeekdbMemory(OnSeekdb, FamilyContract):
    """Words, vectors and neighbours."""

    family_name = "memory"
    sample = SAMPLE


class TestSeekdbProfile(OnSeekdb, FamilyContract):
    """Not searched."""

    family_name = "profile"
    sample = frozenset({"test_delivered", "test_most_recent"})


class TestSeekdbExperience(OnSeekdb, FamilyContract):
    """Without vectors."""

    family_name = "experience"


class TestSeekdbTopicMemory(OnSeekdb, FamilyContract):
    """Of the current scope alone."""

    family_name = "topic-memory"


class TestSeekdbResource(OnSeekdb, FamilyContract):
    """Shown by its abstract in a search."""

    family_name = "resource"


class TestSeekdbSkill(OnSeekdb, FamilyContract):
    """Few entries."""

    family_name = "skill"
