"""The whole contract of a catalogue."""

from __future__ import annotations

from powerctx_core.testing.contracts.hostile import HostileContract
from powerctx_core.testing.contracts.identity import IdentityContract
from powerctx_core.testing.contracts.lexical import LexicalContract
from powerctx_core.testing.contracts.life import LifeContract
from powerctx_core.testing.contracts.listing import ListingContract
from powerctx_core.testing.contracts.neighbours import NeighbourContract
from powerctx_core.testing.contracts.processes import ProcessContract
from powerctx_core.testing.contracts.reference import ReferenceContract
from powerctx_core.testing.contracts.revisions import RevisionContract
from powerctx_core.testing.contracts.snapshots import SnapshotContract
from powerctx_core.testing.contracts.statistics import StatisticsContract
from powerctx_core.testing.contracts.unicode import UnicodeContract
from powerctx_core.testing.contracts.writing import WritingContract

__all__ = ["CatalogueContract"]


class CatalogueContract(
    LifeContract,
    WritingContract,
    RevisionContract,
    IdentityContract,
    LexicalContract,
    StatisticsContract,
    ListingContract,
    NeighbourContract,
    HostileContract,
    UnicodeContract,
    SnapshotContract,
    ProcessContract,
    ReferenceContract,
):
    """What every catalogue must hold to: the contracts of writing, finding, reading and concurrency together."""
