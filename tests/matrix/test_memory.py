"""The in-memory reference holds to every contract of a store."""

import pytest

from powerctx_core.ports import Capability
from powerctx_core.testing import CatalogueContract, StateContract, UsageContract, cannot

LACKS = {
    Capability.DURABLE: cannot("lives in the memory of one process"),
    Capability.MULTI_PROCESS: cannot("lives in the memory of one process"),
    Capability.REMOTE: cannot("lives in the memory of one process"),
}


class TestMemoryCatalogue(CatalogueContract):
    """``memory://``."""

    plugins = ()
    lacks = LACKS

    @pytest.fixture
    def store_url(self):
        """Give a store that nobody else has."""
        return "memory://"


class TestMemoryUsage(UsageContract):
    """The counts of ``memory://``."""

    plugins = ()
    lacks = LACKS

    @pytest.fixture
    def store_url(self):
        """Give a store that nobody else has."""
        return "memory://"


class TestMemoryState(StateContract):
    """The sessions of ``memory://``."""

    plugins = ()
    lacks = LACKS

    @pytest.fixture
    def store_url(self):
        """Give a store that nobody else has."""
        return "memory://"
