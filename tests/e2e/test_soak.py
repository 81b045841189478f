"""A short run of the soak benchmark: several processes read one file while others write it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "soak.py"
LOG_MIB = 64


@pytest.mark.long
def test_readers_and_writers() -> None:
    """Four readers and two writers: no error, no torn batch, nothing lost, and a log within its bounds."""
    result = subprocess.run(
        [sys.executable, str(SCRIPT), "--seconds", "4", "--json"],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip

    assert "" == result.stderr
    figures = json.loads(result.stdout)
    assert ([], []) == (figures["errors"], figures["lost"])
    assert figures["reads"] > 0
    assert figures["writes"] > 0
    assert figures["largest log MiB"] <= LOG_MIB
