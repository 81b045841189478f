"""Real distributions, made on the fly: a module beside its ``.dist-info``, in a folder on the path."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import attrs
import pytest

GOOD = """
from powerctx_core import RendererSpec, hookimpl

class Plain:
    def __init__(self, settings): ...
    def open(self, selection): return ""
    def entry(self, candidate, ordinal, selection, *, cut): return "", "\\n"
    def escape(self, text): return text
    def close(self, selection): return ""

@hookimpl
def powerctx_renderers():
    yield RendererSpec(name="good-plain", factory="good_plugin:Plain")
"""


@attrs.define
class Site:
    """A folder of installed distributions, importable while a test runs."""

    folder: Path
    modules: list[str] = attrs.field(factory=list)

    def install(
        self,
        name: str,
        source: str | None,
        *,
        version: str = "1.0",
        group: str = "powerctx.v1",
        target: str | None = None,
    ) -> None:
        """Install the distribution ``acme-<name>`` whose entry point *name* names the module ``acme_<name>``."""
        module = f"{name.replace('-', '_')}_plugin"
        self.modules.append(module)
        if source is not None:
            (self.folder / f"{module}.py").write_text(dedent(source), encoding="utf-8")
        info = self.folder / f"acme_{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: acme-{name}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {target or module}\n")
        importlib.invalidate_caches()

    def run(self, code: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run *code* in a fresh interpreter that sees these distributions."""
        path = os.pathsep.join([str(self.folder), *filter(None, sys.path)])
        return subprocess.run(
            [sys.executable, "-c", dedent(code)],
            env={**os.environ, **environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A site with one good distribution, ``acme-good``."""
    site = Site(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    site.install("good", GOOD)
    yield site
    for module in site.modules:
        sys.modules.pop(module, None)
