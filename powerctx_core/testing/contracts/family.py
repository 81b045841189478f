"""The whole contract of a family."""

from __future__ import annotations

from powerctx_core.testing.contracts.family_best import BestContract
from powerctx_core.testing.contracts.family_conduct import ConductContract
from powerctx_core.testing.contracts.family_found import FoundContract
from powerctx_core.testing.contracts.family_latest import LatestContract
from powerctx_core.testing.contracts.family_searched import SearchedContract
from powerctx_core.testing.contracts.family_told import ToldContract

__all__ = ["FamilyContract"]


class FamilyContract(ConductContract, SearchedContract, LatestContract, BestContract, ToldContract, FoundContract):
    """What every family must hold to.

    A family whose evidence lies in the store (``StoredFamily``) needs its name and nothing else::

        class TestTickets(FamilyContract):
            family_name = "ticket"

    One that looks elsewhere gives the fixture :meth:`seed`, which puts the given items there and returns the settings
    that lead to them.  When its evidence cannot be chosen, it gives the fixture :meth:`items` as well.

    One whose engine admits (``search``) is asked at the lowest floor, where it lets in whatever matches, and at the
    floors of each round.  One whose record says ``searchable=False`` is asked without channels, and through sections.

    The evidence of the kit is known, so that what a family finds and says of it is compared with what the kit counts
    there.  How an engine of its own ranks, and what its vectors mean, is judged as far as any engine must agree; what
    it does when nobody asks is not seen.

    Attributes:
        family_name: name of the record under test.
        extra: plugin modules that are not installed.
        plugins: entry-point names of the only plugins to load; ``None`` loads all that are installed.
        settings: as in ``powerctx.toml``, dotted name -> value.
        embedder: the embedder that is open beside it; ``None`` for words alone.
        patience_s: how long an answer may take after its deadline has passed; one of five has to be in time.
    """
