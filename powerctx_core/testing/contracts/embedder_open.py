"""What every contract of an embedder starts from: the embedder, made as users do, and watched in another process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar

import pytest

from powerctx_core.ports import Embedder, EmbedRequest
from powerctx_core.testing.contracts.part import PartContract
from powerctx_core.testing.embedder_words import PROGRAM, TEXTS

__all__ = ["OpenEmbedderContract"]


class OpenEmbedderContract(PartContract):
    """The part of an embedder's contracts that makes it; the attributes are explained at ``EmbedderContract``."""

    guide = "docs/plugins/embedders.md#test-it"
    hook = "powerctx_embedders"
    remote: ClassVar[bool] = False
    patience_s: ClassVar[float] = 5.0

    @pytest.fixture
    def embedder_name(self) -> str:
        """Give the name of the installed embedder under test."""
        raise NotImplementedError(f"{type(self).__name__} needs a fixture embedder_name that returns a part's name")

    @pytest.fixture
    def embedder(self, shared: Callable[[str], Embedder], embedder_name: str) -> Embedder:
        """Give the embedder."""
        return shared(embedder_name)

    @pytest.fixture(scope="class")
    @classmethod
    def probed(cls) -> Callable[[str], dict[str, Any]]:
        """Give a function that watches an embedder in a process of its own, once."""
        seen: dict[str, dict[str, Any]] = {}

        def run(name: str) -> dict[str, Any]:
            if name not in seen:
                seen[name] = cls._probe(name)
            return seen[name]

        return run

    @classmethod
    def _probe(cls, name: str) -> dict[str, Any]:
        if any(not isinstance(plugin, ModuleType) for plugin in cls.extra):
            pytest.skip("an embedder of a plugin that is no module cannot be made in another process")
        job = {
            "name": name,
            "settings": cls.settings,
            "plugins": cls.plugins,
            "extra": [getattr(plugin, "__name__", "") for plugin in cls.extra],
            "texts": TEXTS,
        }
        done = subprocess.run(  # noqa: S603 - this program
            [sys.executable, "-c", PROGRAM, json.dumps(job)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "7"},
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )

        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    @staticmethod
    def vectors(embedder: Embedder, *texts: str, **fields: Any) -> list[bytes]:
        """Embed texts."""
        return list(embedder.embed(EmbedRequest(texts=texts, **fields)))
