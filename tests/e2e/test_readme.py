"""The README keeps its word: its snippets run, and its commands are those that are checked."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_READMES = [_ROOT / "README.md", *sorted(_ROOT.glob("plugins/*/README.md")), *sorted(_ROOT.glob("contrib/*/README.md"))]


def _snippets(language: str) -> list[tuple[str, str]]:
    found = []
    for path in _READMES:
        blocks = re.findall(rf"^```{language}\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        found += [(f"{path.parent.name}-{number}", block) for number, block in enumerate(blocks)]
    return found


@pytest.mark.parametrize(
    "snippet", [block for _, block in _snippets("python")], ids=[name for name, _ in _snippets("python")]
)
def test_python_snippets_run(snippet: str, tmp_path: Path) -> None:
    """Every Python block of a README is a program of its own that ends well."""
    done = subprocess.run([sys.executable, "-c", snippet], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_the_checked_commands_are_the_documented_ones() -> None:
    """Both commands stand in the README as they are run on a clean clone."""
    readme = (_ROOT / "README.md").read_text(encoding="utf-8")
    script = (_ROOT / ".ci" / "run").read_text(encoding="utf-8")

    assert "python -m pip install uv && uv run powerctx demo\n" in readme
    assert "python -m pip install uv && uv run --all-packages --group test pytest\n" in readme
    assert "run --all-packages --group test pytest" in script
    assert "run powerctx demo" in script


def test_every_package_has_a_readme_with_an_example() -> None:
    """A package's README says how to install it and shows one example."""
    for path in _READMES[1:]:
        text = path.read_text(encoding="utf-8")
        assert "pip install" in text, path
        assert "```" in text, path
