"""Loads the conformance kit for all tests of the repository; no property test has a clock."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

pytest_plugins = ["powerctx_core.testing.plugin"]

settings.register_profile("powerctx", deadline=None, max_examples=500)
settings.register_profile("deep", deadline=None, max_examples=10_000)
settings.load_profile("powerctx")


@pytest.fixture(scope="session")
def evaluation_data() -> Path:
    """The folder of the labelled sets, no part of the repository; without it a test is skipped, but not in CI."""
    folder = Path(os.environ.get("POWERCTX_EVAL_DATA") or Path(__file__).parents[1] / "shared" / "data")
    if not folder.is_dir():
        reason = f"the evaluation data is not at {folder}; POWERCTX_EVAL_DATA can name its folder"
        if os.environ.get("CI"):
            pytest.fail(f"{reason}, and CI must have it")
        pytest.skip(reason)
    return folder
