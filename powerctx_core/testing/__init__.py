"""The conformance kit: what every plugin must hold to, as tests that its author runs.

In ``conftest.py``::

    pytest_plugins = ["powerctx_core.testing.plugin"]

and in a test module a subclass of a contract that says how to reach the part under test::

    class TestAcmeCatalogue(CatalogueContract):
        lacks = {Capability.MULTI_PROCESS: not_yet("one process at a time until 2.0")}

        @pytest.fixture
        def store_url(self, tmp_path):
            return f"acme:///{tmp_path}/store"

A contract's tests are inherited, never overridden, skipped or marked: what would hide one fails the run.  What a part
cannot do is declared in *lacks*, a test that fails for a known reason is named in *waivers*; the end of the run prints
both, and of what fails the most basic test of each class.

Needs ``powerctx-core[testing]``.  Data is seeded, nothing touches the network.
"""

import pytest

pytest.register_assert_rewrite(
    "powerctx_core.testing.contract",
    "powerctx_core.testing.contracts",
    "powerctx_core.testing.database",
    "powerctx_core.testing.question",
    "powerctx_core.testing.vector_words",
)

from powerctx_core.testing.contract import Contract, Lack, cannot, not_yet
from powerctx_core.testing.contracts.catalogue import CatalogueContract
from powerctx_core.testing.contracts.embedder import EmbedderContract
from powerctx_core.testing.contracts.family import FamilyContract
from powerctx_core.testing.contracts.hostile import HostileContract
from powerctx_core.testing.contracts.lexical import LexicalContract
from powerctx_core.testing.contracts.package import PluginContract
from powerctx_core.testing.contracts.provider import ProviderContract
from powerctx_core.testing.contracts.reference import ReferenceContract
from powerctx_core.testing.contracts.state import StateContract
from powerctx_core.testing.contracts.statistics import StatisticsContract
from powerctx_core.testing.contracts.tokens import TokenEstimatorContract
from powerctx_core.testing.contracts.usage import UsageContract
from powerctx_core.testing.contracts.vectors import VectorIndexContract

__all__ = [
    "CatalogueContract",
    "Contract",
    "EmbedderContract",
    "FamilyContract",
    "HostileContract",
    "Lack",
    "LexicalContract",
    "PluginContract",
    "ProviderContract",
    "ReferenceContract",
    "StateContract",
    "StatisticsContract",
    "TokenEstimatorContract",
    "UsageContract",
    "VectorIndexContract",
    "cannot",
    "not_yet",
]
