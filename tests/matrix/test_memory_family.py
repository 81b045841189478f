"""Core's own families under the contract of families, on the store in memory."""

from __future__ import annotations

from powerctx_core.testing import FamilyContract


class InMemory(FamilyContract):
    plugins = ()


class TestMemory(InMemory):
    family_name = "memory"


class TestMemoryByWords(InMemory):
    family_name = "memory"
    embedder = None


class TestTopicMemory(InMemory):
    family_name = "topic-memory"


class TestExperience(InMemory):
    family_name = "experience"


class TestProfile(InMemory):
    family_name = "profile"


class TestResource(InMemory):
    family_name = "resource"


class TestSkill(InMemory):
    family_name = "skill"
