"""What an import costs: nothing heavy is loaded before it is used.  Each test runs a fresh interpreter."""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import powerctx_core

ROOT = Path(__file__).parents[2]
HEAVY = ("sqlalchemy", "numpy", "click", "rich", "regex", "Stemmer", "opencc", "alembic", "chromadb", "pydantic")


def loaded_after(code: str, *path: Path) -> set[str]:
    """Run *code* with *path* in front and return the top-level modules that it loaded."""
    ended = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys, json; print(json.dumps(sorted(sys.modules)))"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, path), *filter(None, sys.path)])},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return {name.partition(".")[0] for name in json.loads(ended.stdout.splitlines()[-1])}


def test_package():
    """``import powerctx_core`` loads nothing; all its names together no heavy module, nor converter or folders."""
    alone = loaded_after("import importlib, powerctx_core") - loaded_after("import importlib")
    every = loaded_after("from powerctx_core import *")

    assert {"powerctx_core"} == alone
    assert {"attr", "pluggy"} <= every
    assert set() == every & {*HEAVY, "cattrs", "platformdirs", "sqlite3", "asyncio"}


def test_public_names():
    """What a type checker is told of the package is what a program finds there."""
    tree = ast.parse(Path(powerctx_core.__file__).read_text(encoding="utf-8"))
    told = {
        alias.asname: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
    }

    assert {name: f"powerctx_core.{module}" for name, module in powerctx_core._HOME.items()} == told
    assert sorted(told) == powerctx_core.__all__
    assert set(told) <= set(dir(powerctx_core))
    for name, module in told.items():
        assert getattr(importlib.import_module(module), name) is getattr(powerctx_core, name)
    with pytest.raises(AttributeError, match="module 'powerctx_core' has no attribute 'Contxt'"):
        powerctx_core.Contxt  # noqa: B018 - looking it up is the test


@pytest.mark.parametrize("module", ["host", "config", "wire", "builtin", "engine", "context"])
def test_modules(module):
    """Host, settings and engine load no heavy module."""
    loaded = loaded_after(f"import powerctx_core.{module}")

    assert set() == loaded & {*HEAVY, "cattrs", "platformdirs", "sqlite3", "asyncio"}


def test_listing_plugins(tmp_path):
    """Composing a host and reporting loads no heavy module, even with a plugin that would need one."""
    (tmp_path / "weighty.py").write_text(
        "from powerctx_core import StoreSpec, hookimpl\n"
        "@hookimpl\n"
        "def powerctx_stores():\n"
        "    yield StoreSpec(name='weighty', schemes=('weighty',), factory='weighty_engine:Engine')\n"
    )
    (tmp_path / "weighty_engine.py").write_text("import sqlalchemy, numpy\n")
    info = tmp_path / "acme_weighty-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-weighty\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[powerctx.v1]\nweighty = weighty\n")

    loaded = loaded_after(
        "from powerctx_core.host import Host\n"
        "states = {each.name: each.state for each in Host.compose().report()}\n"
        "assert 'ok' == states['weighty'], states",
        tmp_path,
    )

    assert "weighty" in loaded
    assert set() == loaded & {*HEAVY, "weighty_engine", "cattrs", "sqlite3"}


@pytest.mark.parametrize("manifest", sorted(ROOT.glob("[pc]*/*/pyproject.toml")), ids=lambda path: path.parent.name)
def test_plugins_of_this_repository(manifest, tmp_path):
    """Each plugin of this repository is listed without loading what it stands on."""
    import tomllib

    project = tomllib.loads(manifest.read_text())["project"]
    points = project.get("entry-points", {}).get("powerctx.v1", {})
    info = tmp_path / f"{project['name'].replace('-', '_')}-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0\n")
    (info / "entry_points.txt").write_text(
        "[powerctx.v1]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
    )
    sources = sorted(ROOT.glob("[pc]*/*/src"))

    loaded = loaded_after(
        "from powerctx_core.host import Host\n"
        "states = {each.name: (each.state, each.reason) for each in Host.compose().report()}\n"
        f"assert all(states[name][0] in ('ok', 'clash') for name in {list(points)!r}), states",
        tmp_path,
        *sources,
    )

    assert set() == loaded & {*HEAVY, "cattrs"}
