"""The package under the contract of plugin packages."""

from __future__ import annotations

from typing import ClassVar

from powerctx_core.testing import PluginContract


class TestOceanBasePackage(PluginContract):
    distribution = "powerctx-oceanbase"
    outside: ClassVar = {"oceanbase": "needs a server"}
