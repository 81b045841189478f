"""The whole contract of what a store remembers beside knowledge."""

from __future__ import annotations

from powerctx_core.testing.contracts.ledger import LedgerContract
from powerctx_core.testing.contracts.sessions import SessionContract

__all__ = ["StateContract"]


class StateContract(SessionContract, LedgerContract):
    """What a store that keeps sessions must hold to.  A store that keeps none does not subclass it."""
