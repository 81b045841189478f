"""Core's families over Chroma in a directory: a sample; see ``conftest.py``."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from powerctx_core.testing import FamilyContract


class InDirectory:
    """``chroma://`` with a directory, and a SQLite file beside it."""

    chroma: ClassVar = "directory"
    plugins: ClassVar = ("chroma", "sqlite")

    @pytest.fixture
    def store_url(self, tmp_path: Path) -> str:
        """A directory that does not exist yet."""
        return f"chroma:///{tmp_path}/notes"


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


class TestDirectoryMemory(InDirectory, FamilyContract):
    """Words, vectors and neighbours."""

    family_name = "memory"
    sample = SAMPLE


class TestDirectoryProfile(InDirectory, FamilyContract):
    """Not searched."""

    family_name = "profile"
    sample = frozenset({"test_delivered", "test_most_recent"})


class TestDirectoryExperience(InDirectory, FamilyContract):
    """Without vectors."""

    family_name = "experience"


class TestDirectoryTopicMemory(InDirectory, FamilyContract):
    """Of the current scope alone."""

    family_name = "topic-memory"


class TestDirectoryResource(InDirectory, FamilyContract):
    """Shown by its abstract in a search."""

    family_name = "resource"


class TestDirectorySkill(InDirectory, FamilyContract):
    """Few entries."""

    family_name = "skill"
