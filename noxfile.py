"""Checks that need more than one environment; `nox --list` names them, and what follows `--` goes to the tool."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import nox

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "types", "tests"]

ROOT = Path(__file__).parent
PYPROJECT = nox.project.load_toml("pyproject.toml")
PYTHONS = nox.project.python_versions(PYPROJECT)

# Name of a backend -> the pytest arguments that run its conformance tests.
BACKENDS = {
    "memory": ["tests/matrix"],
    "sqlite": ["plugins/powerctx-sqlite/tests", "-m", "conformance"],
    # A server answers each statement in a millisecond where a file takes ten microseconds.
    "seekdb": ["plugins/powerctx-oceanbase/tests", "-m", "conformance", "--engine=seekdb", "--timeout=900"],
    # Chroma commits every write to a disk.
    "chroma": ["plugins/powerctx-chroma/tests", "-m", "conformance", "--chroma=directory", "--timeout=900"],
    "chroma-server": ["plugins/powerctx-chroma/tests", "-m", "conformance", "--chroma=server", "--timeout=900"],
    "seekdb-tcp": ["plugins/powerctx-oceanbase/tests", "-m", "conformance", "--engine=seekdb-tcp", "--timeout=900"],
}
NO_TESTS_COLLECTED = 5


def sync(session: nox.Session, *groups: str) -> None:
    """Install every package of the workspace, editable, with the pinned versions and *groups*."""
    session.install("uv")
    session.run_install(
        "uv",
        "sync",
        "--all-packages",
        "--inexact",
        *(f"--group={group}" for group in groups),
        env={"UV_PROJECT_ENVIRONMENT": session.virtualenv.location, "UV_PYTHON": session.virtualenv.location},
    )


def packages() -> list[Path]:
    """Return the folder of every package, the core first."""
    return [ROOT, *sorted(path.parent for path in ROOT.glob("*/*/pyproject.toml") if path.parts[-3][0] != ".")]


@nox.session
def lint(session: nox.Session) -> None:
    """Lint, format and import contracts."""
    sync(session, "lint")
    session.run("ruff", "check", *session.posargs)
    session.run("ruff", "format", "--check")
    session.run("lint-imports")


@nox.session
def types(session: nox.Session) -> None:
    """Type-check every package, strictly."""
    sync(session, "lint", "test")
    session.run("mypy", "--strict", *session.posargs)


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run all tests."""
    sync(session, "test")
    session.run("pytest", *session.posargs)


@nox.session
def deep(session: nox.Session) -> None:
    """Try the laws of the assembler on 10 000 draws each instead of 500."""
    sync(session, "test")
    session.run("pytest", "tests/property", "--hypothesis-profile=deep", "--timeout=3600", *session.posargs)


@nox.session
@nox.parametrize("backend", list(BACKENDS))
def backends(session: nox.Session, backend: str) -> None:
    """Run the conformance kit against one backend; `-- --conformance-examples=20` looks longer."""
    sync(session, "test")
    session.run("pytest", *BACKENDS[backend], *session.posargs)


@nox.session(python=PYTHONS[0])
def minimums(session: nox.Session) -> None:
    """Run all tests with the lowest versions that the packages promise to work with."""
    session.install("uv")
    session.run_install(
        "uv",
        "pip",
        "install",
        "--no-config",  # without the pinned versions
        "--resolution=lowest-direct",
        "--group=test",
        *(f"--editable={path}" for path in packages()[1:]),
        f"--editable={ROOT}[cli]",
    )
    session.run("pytest", *session.posargs)


@nox.session(reuse_venv=False)
def wheels(session: nox.Session) -> None:
    """Build every package, install the wheels, and run demo and conformance kit away from the tree."""
    session.install("uv")
    with tempfile.TemporaryDirectory() as folder:
        dist, away = Path(folder, "dist"), Path(folder, "away")
        session.run("uv", "build", "--all-packages", "--out-dir", str(dist))
        tested = [ROOT / "tests" / "matrix", *(package / "tests" for package in packages()[1:])]
        for source in [path for path in tested if path.is_dir()]:
            shutil.copytree(source, away / source.relative_to(ROOT), ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("conftest.py", "pyproject.toml"):
            shutil.copy(ROOT / name, away)
        built = [f"{path}[cli]" if path.name.startswith("powerctx_core-") else str(path) for path in dist.glob("*.whl")]
        with session.chdir(away):
            session.install(*built, *nox.project.dependency_groups(PYPROJECT, "test"))
            session.run("powerctx", "demo")
            session.run("pytest", "-m", "conformance", "tests", "plugins", "contrib", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Check that the documentation agrees with the code."""
    sync(session, "test")
    session.run("pytest", "-m", "docs", *session.posargs, success_codes=[0, NO_TESTS_COLLECTED])


@nox.session
def bench(session: nox.Session) -> None:
    """Measure; the figures are ratios on a shared machine."""
    sync(session)
    session.run("powerctx", "eval", "bench", *session.posargs)
