"""What a start costs: `python tests/benchmarks/bootstrap.py [--items N] [--calls N]`.

A SQLite file with a profile of 20 000 characters and N memories, a quarter of them events, all within a month.  Figures
are milliseconds of CPU of one thread and of the clock, over so many calls after a first one.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import powerctx_core as powerctx

SCOPE = "project:bench"
BATCH = 5000


def items(count: int) -> list[powerctx.Item]:
    """Return the memory, without the profile."""
    now = datetime.now(UTC)
    return [
        powerctx.Item(
            scope_id=SCOPE,
            artifact_id=f"m{n}",
            category="events" if n % 4 == 0 else "preferences",
            text=f"Note {n} of the tide table. It is about harbour {n % 97} and boat {n % 31}.",
            updated_at=now - timedelta(days=30 * n / count),
        )
        for n in range(count)
    ]


def main() -> None:
    """Fill, call, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--calls", type=int, default=50)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, powerctx.open(f"sqlite:///{Path(folder) / 'bench.db'}") as ctx:
        profile = "\n\n".join(f"Paragraph {n}: " + "It is known that tides turn. " * 9 for n in range(80))[:20_000]
        ctx.put([powerctx.Item(scope_id=SCOPE, family="profile", artifact_id="who", text=profile)])
        every = items(options.items)
        for start in range(0, len(every), BATCH):
            ctx.put(every[start : start + BATCH])
        found = ctx.search(scope_id=SCOPE, mode="bootstrap")
        cpu, clock = [], []
        for _ in range(options.calls):
            before, began = time.thread_time(), time.perf_counter()
            found = ctx.search(scope_id=SCOPE, mode="bootstrap")
            cpu.append((time.thread_time() - before) * 1000.0)
            clock.append((time.perf_counter() - began) * 1000.0)
    print(f"{options.items} items, {len(found.entries)} entries, {found.stats.used_tokens} tokens")
    for name, spent in (("cpu", cpu), ("clock", clock)):
        late = sorted(spent)[-len(spent) // 20]
        print(f"{name}: median {statistics.median(spent):.1f} ms, 95th percentile {late:.1f}")


if __name__ == "__main__":
    main()
