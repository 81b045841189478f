"""The embedder holds to its contract."""

from __future__ import annotations

import pytest

from powerctx_core.testing import EmbedderContract


class TestLocalEmbedder(EmbedderContract):
    """``local``, as installed."""

    plugins = ("local-embed",)

    @pytest.fixture
    def embedder_name(self) -> str:
        """The embedder of this package."""
        return "local"
