"""The whole contract of an embedder."""

from __future__ import annotations

from powerctx_core.testing.contracts.embedder_profile import ProfileContract
from powerctx_core.testing.contracts.embedder_service import ServiceContract
from powerctx_core.testing.contracts.embedder_vectors import EmbeddedContract

__all__ = ["EmbedderContract"]


class EmbedderContract(ServiceContract, EmbeddedContract, ProfileContract):
    """What every embedder must hold to.

    The subclass gives the fixture :meth:`embedder_name`.  The embedder is made once for all tests of a class, as
    models are slow to load, and anew where a test is about that.

    Attributes:
        settings: as in ``powerctx.toml``.
        plugins: entry-point names of the only plugins to load; ``None`` loads all that are installed.
        extra: plugin modules that are not installed.
        remote: the embedder asks a server; without it, it must not reach beyond this machine.
        patience_s: how long an answer may take after its deadline has passed.
    """
