"""Loads the conformance kit."""

pytest_plugins = ["powerctx_core.testing.plugin"]
