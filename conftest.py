"""Loads the conformance kit for all tests of the repository; no property test has a clock."""

from hypothesis import settings

pytest_plugins = ["powerctx_core.testing.plugin"]

settings.register_profile("powerctx", deadline=None)
settings.load_profile("powerctx")
