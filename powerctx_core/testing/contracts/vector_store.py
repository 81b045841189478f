"""What every contract of a vector index starts from."""

from __future__ import annotations

import pytest

from powerctx_core.ports import Store
from powerctx_core.testing.contracts.store import StoreContract
from powerctx_core.testing.vector_words import (
    PROFILE,
    Vectors,
)

__all__ = ["VectorStoreContract"]


class VectorStoreContract(StoreContract):
    """The part of a vector index's contracts that tells it the model."""

    @pytest.fixture
    def vectors(self, store: Store) -> Vectors:
        """Give a fresh store that was told the model."""
        vectors = Vectors(store)
        vectors.index.attach(PROFILE)
        return vectors
