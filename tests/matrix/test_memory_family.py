"""Core's own families under the contract of families, on the store in memory."""

from __future__ import annotations

from powerctx_core.testing import FamilyContract


class TestMemoryFamily(FamilyContract):
    family_name = "memory"
    plugins = ()


class TestMemoryFamilyByWords(FamilyContract):
    family_name = "memory"
    plugins = ()
    embedder = None


class TestExperience(FamilyContract):
    family_name = "experience"
    plugins = ()
