"""The package under the contract of plugin packages."""

from __future__ import annotations

from typing import ClassVar

from powerctx_core.testing import PluginContract


class TestChromaPackage(PluginContract):
    distribution = "powerctx-chroma"
    outside: ClassVar = {"chroma-server": "needs a server"}
    beside: ClassVar = ("sqlite",)
