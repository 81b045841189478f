"""The vector index in memory holds to its contract."""

from __future__ import annotations

import pytest

from powerctx_core.ports import Capability
from powerctx_core.testing import VectorIndexContract, cannot


class TestMemoryVectors(VectorIndexContract):
    """``memory://``."""

    plugins = ()
    lacks = {
        Capability.DURABLE: cannot("lives in the memory of one process"),
        Capability.MULTI_PROCESS: cannot("lives in the memory of one process"),
        Capability.REMOTE: cannot("lives in the memory of one process"),
    }

    @pytest.fixture
    def store_url(self):
        """Give a store that nobody else has."""
        return "memory://"
