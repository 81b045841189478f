"""The templates are what they promise: packages that build, install, pass the kit and work, far from this tree."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import venv
from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest

from powerctx_core.testing import (
    CatalogueContract,
    FamilyContract,
    PluginContract,
    StateContract,
    UsageContract,
    VectorIndexContract,
)

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "plugins"
TEMPLATES = ("template-family", "template-store")
CORE = ("powerctx_core", "pyproject.toml", "README.md", "LICENSE")
NOT_COPIED = shutil.ignore_patterns("__pycache__", ".pytest_cache", "*.pyc")
NOTES = [
    {
        "id": "freeze",
        "scope": "project:demo",
        "text": "Nothing is deployed from Friday on.",
        "updated": "2026-01-05T09:00:00Z",
        "revision": 2,
        "url": "https://tracker.example/7",
    }
]


def ended(command: list[str], cwd: Path, environ: Mapping[str, str]) -> str:
    """Run a command that has to end well, and return what it printed."""
    done = subprocess.run(command, cwd=cwd, env=dict(environ), capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@attrs.frozen
class Away:
    """A folder outside the tree, with an environment into which only wheels were installed."""

    folder: Path
    environ: Mapping[str, str]

    @property
    def bin(self) -> Path:
        """Where the environment's programs are."""
        return self.folder / "env" / "bin"

    def build(self) -> list[str]:
        """Build wheels of core and of the templates, from copies."""
        for name in ("core", *TEMPLATES):
            place = self.folder / name
            if name == "core":
                place.mkdir()
                for each in CORE:
                    if (ROOT / each).is_dir():
                        shutil.copytree(ROOT / each, place / each, ignore=NOT_COPIED)
                    else:
                        shutil.copy(ROOT / each, place)
            else:
                shutil.copytree(PAGES / name, place, ignore=NOT_COPIED)
            command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(self.folder / "dist")]
            ended(command, place, self.environ)
        return [str(wheel) for wheel in (self.folder / "dist").glob("*.whl")]

    def install(self, wheels: list[str]) -> None:
        """Make the environment: third-party packages as here, those of this repository from *wheels* alone."""
        venv.create(self.folder / "env", with_pip=True)
        shared = self.folder / "shared"
        shared.mkdir()
        for place in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
            for each in Path(place).iterdir():
                if not re.match(r"_?(editable_impl_)?powerctx|__pycache__|pip\b|setuptools|.*\.pth$", each.name):
                    (shared / each.name).symlink_to(each)
        site = next((self.folder / "env").glob("lib/python*/site-packages"))
        (site / "shared.pth").write_text(f"{shared}\n")
        self.run("python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", *wheels)

    def run(self, program: str, *arguments: str, **variables: str) -> str:
        """Run a program of the environment."""
        return ended([str(self.bin / program), *arguments], self.folder, {**self.environ, **variables})

    def start_tests(self, template: str) -> subprocess.Popen[str]:
        """Start a template's own tests, beside nothing of its source."""
        place = self.folder / f"tests-of-{template}"
        shutil.copytree(PAGES / template / "tests", place / "tests", ignore=NOT_COPIED)
        shutil.copy(PAGES / template / "pyproject.toml", place)
        command = [str(self.bin / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        return subprocess.Popen(
            command, cwd=place, env=dict(self.environ), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )


@pytest.fixture
def away(tmp_path: Path) -> Away:
    """An empty folder outside the tree, and an environment without settings of anybody."""
    hidden = ("POWERCTX_", "XDG_", "PIP_", "PYTHON", "PYTEST_", "VIRTUAL_ENV", "COV_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    return Away(tmp_path, {**kept, "HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull, "NO_COLOR": "1"})


@pytest.mark.long
@pytest.mark.timeout(300)  # half a minute on an idle machine: three builds, an environment, two suites
def test_from_wheels(away: Away) -> None:
    """Both templates build, are listed, load, pass their own tests, and are used by name."""
    away.install(away.build())
    running = [away.start_tests(name) for name in reversed(TEMPLATES)]
    try:
        check_origin(away)
        check_plugins(away)
        check_store(away)
        check_family(away)
        for tests in running:
            output, _ = tests.communicate(timeout=200)
            assert tests.returncode == 0, output
            assert re.search(r"\d\d+ passed", output), output
    finally:
        for tests in running:
            tests.kill()
            tests.communicate()


def check_origin(away: Away) -> None:
    """Everything of powerctx comes from a wheel."""
    modules = ["powerctx_core", "powerctx_acme_log", "powerctx_acme_notes"]
    code = f"import json, {', '.join(modules)}; print(json.dumps([each.__file__ for each in ({', '.join(modules)})]))"
    for file in json.loads(away.run("python", "-c", code)):
        assert Path(file).is_relative_to(away.folder / "env"), file


def check_plugins(away: Away) -> None:
    """They are listed, each with its part and without a problem; all of both loads."""
    listed = {each["name"]: each for each in json.loads(away.run("powerctx", "plugins", "--json"))}

    assert {name: each["state"] for name, each in listed.items()} == {
        "core": "ok",
        "acme-log": "ok",
        "acme-notes": "ok",
    }
    assert listed["acme-log"]["hooks"] == {"powerctx_stores": ["acme-log"]}
    assert listed["acme-notes"]["hooks"] == {"powerctx_families": ["notes"]}
    for name in ("acme-log", "acme-notes"):
        assert "all of it loads" in away.run("powerctx", "check", name)


def check_store(away: Away) -> None:
    """What one process stores in the store another one prepares."""
    (away.folder / "choice.md").write_text("# Choice\n\nWe chose SQLite because it is one file.\n", encoding="utf-8")
    where = ("--scope", "project:demo", "--store", "acme-log:///notes.log")
    stored = away.run("powerctx", "ingest", "choice.md", *where)
    content = json.loads(away.run("powerctx", "prepare", "Why SQLite?", *where, "--json"))["content"]

    assert stored.startswith("1 stored")
    assert "because it is one file" in content


def check_family(away: Away) -> None:
    """A request that names the family gets its evidence, beside that of memory."""
    (away.folder / "tracker.json").write_text(json.dumps(NOTES), encoding="utf-8")
    where = ("--scope", "project:demo", "--store", "acme-log:///notes.log", "--families", "notes,memory")
    question = "Why SQLite, and what is deployed on Friday?"
    content = away.run("powerctx", "prepare", question, *where, POWERCTX_PARTS__NOTES__FILE="tracker.json")

    assert '"ref":["notes","freeze",2],"url":"https://tracker.example/7"' in content
    assert '"ref":["memory",' in content


@pytest.mark.docs
@pytest.mark.parametrize("name", ["family", "store"])
def test_pages_quote_the_templates(name: str) -> None:
    """Every code block of a page stands, but for its indentation word for word, in a file of its template."""
    template = PAGES / f"template-{name}"
    files = [path for path in template.rglob("*") if path.suffix in {".py", ".toml", ".md"}]
    texts = [path.read_text(encoding="utf-8") for path in files]
    page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```\w*\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    indented = {block: [textwrap.indent(block, " " * width) for width in (0, 4, 8, 12)] for block in blocks}

    assert len(blocks) > 4
    assert [
        block for block, forms in indented.items() if not any(form in text for form in forms for text in texts)
    ] == []


@pytest.mark.docs
def test_family_page_explains_every_failure() -> None:
    """The page says of every test of a family and of a package what it means when it fails, and of no other."""
    text = (PAGES / "family.md").read_text(encoding="utf-8")
    tests = {name for contract in (FamilyContract, PluginContract) for name in dir(contract) if name[:5] == "test_"}

    assert set(re.findall(r"^\| `(test_\w+)` \|", text, re.MULTILINE)) == tests


@pytest.mark.docs
def test_store_page_explains_every_failure() -> None:
    """The page says of every test of a store, in the row of its file, what it means when it fails, and of no other."""
    text = (PAGES / "store.md").read_text(encoding="utf-8")
    start = "powerctx_core.testing.contracts."
    tests = {
        (base.__module__.removeprefix(start) + ".py", name)
        for contract in (CatalogueContract, UsageContract, StateContract, VectorIndexContract)
        for base in contract.__mro__
        for name in vars(base)
        if name[:5] == "test_"
    }
    rows = re.findall(r"^\| (`test_[^|]+) \|[^|]+\| `(\w+\.py)` \|$", text, re.MULTILINE)

    assert {(file, name) for names, file in rows for name in re.findall(r"`(\w+)`", names)} == tests
