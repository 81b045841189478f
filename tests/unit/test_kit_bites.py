"""The conformance kit bites: each broken part fails exactly the tests that its fault is about."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SHARED = {"__init__", "coverage", "faults", "plugin", "reporter", "stores"}
GROUPS = sorted(path.stem for path in (HERE / "kit_fakes").glob("*.py") if path.stem not in SHARED)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Install the plugin of the broken parts as a distribution, for subprocesses."""
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[powerctx.v1]\nbroken = kit_fakes.plugin\n")
    path = os.pathsep.join([str(tmp_path), str(HERE), *filter(None, sys.path)])
    return {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"}


@pytest.mark.long
@pytest.mark.timeout(330)
@pytest.mark.parametrize("group", GROUPS)
def test_bites(group: str, tmp_path: Path, environ: dict[str, str]) -> None:
    """Exactly the named tests fail, for every fault of a group."""
    report = tmp_path / "report.json"
    module = tmp_path / "test_broken.py"
    module.write_text(f"from kit_fakes.faults import subclasses\nglobals().update(subclasses({group!r}))\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -q --tb=line --assert=plain -p no:cacheprovider\n")
    plugins = [word for name in ("kit_fakes.reporter", "powerctx_core.testing.plugin") for word in ("-p", name)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, "-c", str(tmp_path / "pytest.ini"), str(module)],
        env={**environ, "POWERCTX_BITES": group, "POWERCTX_BITES_REPORT": str(report)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert report.exists(), done.stdout + done.stderr
    outcome = json.loads(report.read_text(encoding="utf-8"))
    assert all(found["ran"] for found in outcome.values()), done.stdout
    assert {} == {name: found for name, found in outcome.items() if found["fails"] != found["failed"]}


def test_every_test_bites(environ: dict[str, str]) -> None:
    """Every test of every contract is failed by a fault; what no fault can fail has no place in the kit."""
    done = subprocess.run(
        [sys.executable, "-m", "kit_fakes.coverage"],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
    assert {} == json.loads(done.stdout)
