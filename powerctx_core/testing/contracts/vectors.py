"""The whole contract of a vector index."""

from __future__ import annotations

from powerctx_core.testing.contracts.vector_life import VectorLifeContract
from powerctx_core.testing.contracts.vector_nearest import NearestContract
from powerctx_core.testing.contracts.vector_processes import VectorProcessContract
from powerctx_core.testing.contracts.vector_views import VectorViewContract

__all__ = ["VectorIndexContract"]


class VectorIndexContract(NearestContract, VectorLifeContract, VectorViewContract, VectorProcessContract):
    """What every vector index must hold to.  A store that has none does not subclass it.

    Two bounds belong to the contract and are not the author's to lower: up to :data:`SMALL` members of a partition the
    nearest are exact within :data:`TOLERANCE`; of the ten nearest among :data:`LARGE`, :data:`RECALL` are found.
    """
