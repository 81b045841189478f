"""What a report must say so that it can be made again: versions, machine, digests."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sqlite3
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import powerctx_core
from powerctx_core import PowerctxError

if TYPE_CHECKING:
    from powerctx_core.recall.gate import GatePolicy

__all__ = ["environment", "gate_policies", "policy_digest"]

_PACKAGES = ("numpy", "sqlalchemy", "pystemmer", "opencc", "regex")


def environment() -> dict[str, Any]:
    """Return versions and machine; what cannot be found out is ``None``."""
    from powerctx_core.text.terms import analysis_version

    packages = {
        name: distribution.version
        for distribution in importlib.metadata.distributions()
        if (name := str(distribution.metadata["Name"] or "").lower()).startswith("powerctx") or name in _PACKAGES
    }
    return {
        "packages": dict(sorted(packages.items())),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "analysis_version": analysis_version(),
        "commit": _commit(Path(powerctx_core.__file__).parent),
        "machine": {
            "system": platform.platform(terse=True),
            "cpu": _cpu(),
            "cores": os.cpu_count(),
            "memory_gib": _memory(),
        },
    }


def policy_digest(policy_id: str) -> str | None:
    """Return the digest of a recall policy, or ``None`` when it cannot be asked for.

    Raises:
        InvalidRequest: it is not installed.
    """
    from powerctx_core.recall.policy import policy_named

    digest = getattr(policy_named(policy_id), "digest", None)
    return digest if isinstance(digest, str) else None


def gate_policies(gates: Sequence[str]) -> dict[str, GatePolicy | None]:
    """Return the policy of each gate: an id, an alias, the path of a file, or ``off``, which is none.

    Raises:
        InvalidRequest: one is not installed.
        ConfigError: a file cannot be used.
    """
    from powerctx_core.gates import gate_named, installed_gates, is_path, read_gate

    installed = installed_gates(())
    return {gate: read_gate(Path(gate)) if is_path(gate) else gate_named(gate, installed) for gate in gates}


def embedder_facts(part: Any) -> dict[str, Any]:
    """Return what an embedder says of itself."""
    try:
        profile = part.profile
    except PowerctxError:
        return {}
    values = {name: getattr(profile, name) for name in getattr(type(profile), "__slots__", ()) if name[:1] != "_"}
    return {
        name: value if isinstance(value, str | int | float | None) else str(value) for name, value in values.items()
    }


def _cpu() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or None
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, OSError, ValueError):
        return None


def _commit(folder: Path) -> str | None:
    """Return the commit of the code, ``+`` when it was changed since."""
    try:
        commit, changes = (
            subprocess.run(  # noqa: S603 (fixed words, and a folder of ours)
                ["git", "-C", str(folder), *words],  # noqa: S607 (whichever git is there)
                capture_output=True, text=True, timeout=10, check=True,
            ).stdout.strip()
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no", "."])
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return commit + ("+" if changes else "")
