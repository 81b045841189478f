"""Counts stores that a second process cannot use: ``python benchmarks/restarts.py [--stores N] [--items N]``.

Each store is a fresh directory: one process stores items and ends, the next embeds them, which makes a table, and a
third asks.  An engine that ended in the middle of what it does by itself would hold a lock that the second waits for.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEPS = {
    "ingest": ("ingest", "items.jsonl", "--scope", "s", "--no-embed"),
    "embed": ("embed", "--embedder", "hash"),
    "prepare": ("prepare", "apple 5", "--scope", "s", "--embedder", "hash"),
}


def failing(folder: Path, store: str, limit: float) -> str | None:
    """Return the step that failed or did not end in *limit* seconds."""
    for step, arguments in STEPS.items():
        command = [sys.executable, "-m", "powerctx_core.cli", *arguments, "--store", f"seekdb:///{store}"]
        try:
            done = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            return f"{step}: no end after {limit:.0f} s"
        if done.returncode:
            return f"{step}: {done.stderr.strip()}"
    return None


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--stores", type=int, default=20)
    parser.add_argument("--items", type=int, default=300)
    parser.add_argument("--limit", type=float, default=120.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        folder = Path(place)
        lines = (json.dumps({"id": f"m{n}", "text": f"apple {n} and a pear"}) for n in range(options.items))
        (folder / "items.jsonl").write_text("\n".join(lines))
        failed = 0
        for number in range(options.stores):
            start = time.perf_counter()
            problem = failing(folder, f"store{number}", options.limit)
            failed += problem is not None
            print(f"{number}: {problem or 'works'}, {time.perf_counter() - start:.0f} s", flush=True)
        print(f"{failed} of {options.stores} stores could not be used by a second process")


if __name__ == "__main__":
    main()
