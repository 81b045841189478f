"""Core's own embedder and token estimators hold to their contracts."""

from __future__ import annotations

import pytest

from powerctx_core.testing import EmbedderContract, TokenEstimatorContract


class TestHashEmbedder(EmbedderContract):
    """``hash``."""

    plugins = ()

    @pytest.fixture
    def embedder_name(self) -> str:
        """The embedder without a model."""
        return "hash"


class TestWideHashEmbedder(TestHashEmbedder):
    """``hash`` with other settings."""

    settings = {"parts": {"hash": {"dimensions": 300}}}


class TestTokenEstimators(TokenEstimatorContract):
    """Every estimator that comes with the core."""

    plugins = ()

    @pytest.fixture(params=["seed", "o200k", "qwen", "deepseek"])
    def estimator_name(self, request: pytest.FixtureRequest) -> str:
        """One of them."""
        name: str = request.param
        return name
