"""Core's families hold to their contract over a SQLite file, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from powerctx_core.testing import FamilyContract


class OnSqlite(FamilyContract):
    """A family whose evidence lies in ``sqlite://`` with a file."""

    plugins = ("sqlite",)

    @pytest.fixture
    def store_url(self, tmp_path: Path) -> str:
        """A file that does not exist yet."""
        return f"sqlite:///{tmp_path}/x.db"


class TestMemory(OnSqlite):
    """Words, vectors and neighbours."""

    family_name = "memory"


class TestMemoryRanked(OnSqlite):
    """The same where the engine ranks from the first item on."""

    family_name = "memory"
    settings = {"parts": {"sqlite": {"rank_above": 0}}}


class TestTopicMemory(OnSqlite):
    """Of the current scope alone."""

    family_name = "topic-memory"


class TestExperience(OnSqlite):
    """Without vectors."""

    family_name = "experience"


class TestProfile(OnSqlite):
    """Not searched."""

    family_name = "profile"


class TestResource(OnSqlite):
    """Shown by its abstract in a search."""

    family_name = "resource"


class TestSkill(OnSqlite):
    """Few entries."""

    family_name = "skill"
