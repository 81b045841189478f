"""Core's own parts under the contract of plugin packages, as far as it applies to what is built in."""

from __future__ import annotations

from powerctx_core.testing import PluginContract


class TestCorePackage(PluginContract):
    distribution = "powerctx-core"
    entry_points = {"core": "powerctx_core.builtin"}
    waivers = {
        "test_entry_point": "core's own parts are built in, so that they need no look-up",
        "test_requires_core": "it is core",
    }
