"""The package under the contract of plugin packages."""

from __future__ import annotations

from powerctx_core.testing import PluginContract


class TestLocalEmbedPackage(PluginContract):
    distribution = "powerctx-local-embed"
