"""The package holds to the contract of plugin packages."""

from powerctx_core.testing import PluginContract


class TestPackage(PluginContract):
    distribution = "powerctx-acme-log"
