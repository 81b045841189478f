"""Several processes read one SQLite file while others write it; prints what they did and every promise that broke.

    python tests/benchmarks/soak.py --seconds 30 --readers 4 --writers 2

A writer gives all items of a batch a new text, of one generation, and adds one item for it, in one transaction.  A
reader that sees two generations of one writer in one snapshot has torn a batch, one that sees an older generation than
before has gone back in time; a generation that was acknowledged and is missing at the end is lost.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import quantiles

import powerctx_core as powerctx
from powerctx_core import Deadline, Item

BATCH = 20
WORDS = [f"word{n}" for n in range(400)]


def write(url: str, writer: int, seconds: float) -> dict[str, object]:
    """Write generation after generation until time is up."""
    times: list[float] = []
    errors: list[str] = []
    generation = 0
    with powerctx.open(url) as ctx:
        ctx.warm()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            words = " ".join(WORDS[(generation * 7 + n) % len(WORDS)] for n in range(30))
            items = [
                Item(scope_id="s", artifact_id=f"w{writer}-{n}", text=f"generation {generation + 1} {words} item{n}")
                for n in range(BATCH)
            ]
            name = f"done{writer}-{generation + 1}"
            items.append(Item(scope_id="done", artifact_id=name, text=f"{name} {words}"))
            start = time.perf_counter()
            try:
                ctx.put(items)
            except powerctx.PowerctxError as error:
                errors.append(str(error))
                continue
            times.append(time.perf_counter() - start)
            generation += 1
    return {"times": times, "errors": errors, "generation": generation}


def read(url: str, writers: int, seconds: float) -> dict[str, object]:
    """Read snapshots, and prepare and find, until time is up."""
    times: list[float] = []
    errors: list[str] = []
    seen = [0] * writers
    turn = 0
    with powerctx.open(url) as ctx:
        ctx.warm()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            turn += 1
            start = time.perf_counter()
            try:
                for writer in range(writers):
                    found = generations(ctx, writer)
                    if len(found) > 1:
                        errors.append(f"torn: {sorted(found)} of writer {writer}")
                    elif found and min(found) < seen[writer]:
                        errors.append(f"back: from {seen[writer]} to {min(found)} of writer {writer}")
                    seen[writer] = max(found, default=seen[writer])
                query = f"generation {WORDS[turn % len(WORDS)]} item{turn % BATCH}"
                prepared = ctx.prepare(query, scope_id="s")
                hits = ctx.find(query, scope_id="s", limit=50).hits
                if any(seen) and (prepared.content is None or not hits):
                    errors.append("empty: an answer without what is there")
            except powerctx.PowerctxError as error:
                errors.append(str(error))
            times.append(time.perf_counter() - start)
    return {"times": times, "errors": errors, "generation": max(seen)}


def generations(ctx: powerctx.Context, writer: int) -> set[int]:
    """Return the generations of a writer's items in one snapshot."""
    with ctx.store.catalogue.snapshot(Deadline()) as snapshot:
        revisions = [snapshot.latest("s", "memory", f"w{writer}-{n}") for n in range(BATCH)]
    return {0 if each is None else int(each.item.text.split()[1]) for each in revisions}


def missing(url: str, acknowledged: list[int]) -> list[str]:
    """Return which acknowledged generations the store does not hold, and what else is wrong with it."""
    lost: list[str] = []
    with powerctx.open(url) as ctx:
        for writer, last in enumerate(acknowledged):
            if last and generations(ctx, writer) != {last}:
                lost.append(f"writer {writer} is at {generations(ctx, writer)} instead of {last}")
            if last and len(ctx.history(f"powerctx://s/memory/w{writer}-0")) != last:
                lost.append(f"writer {writer} has other than {last} revisions")
            with ctx.store.catalogue.snapshot(Deadline()) as snapshot:
                names = [f"done{writer}-{number}" for number in range(1, last + 1)]
                lost += [name for name in names if snapshot.latest("done", "memory", name) is None]
        lost += ctx.store.check(Deadline()).problems if hasattr(ctx.store, "check") else ()
    return lost


def soak(folder: Path, seconds: float, readers: int, writers: int) -> dict[str, object]:
    """Run all processes, and return the figures."""
    url = f"sqlite:///{folder}/soak.db"
    log = folder / "soak.db-wal"
    command = [sys.executable, __file__, "--url", url, "--seconds", str(seconds), "--writers", str(writers), "--as"]
    roles = [f"reader:{n}" for n in range(readers)] + [f"writer:{n}" for n in range(writers)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    # Into files: a pipe that nobody reads yet would hold up who has much to tell.
    outputs = [(folder / role.replace(":", "-")).open("w+", encoding="utf-8") for role in roles]
    started = [
        subprocess.Popen([*command, role], stdout=file, env=env) for role, file in zip(roles, outputs, strict=True)
    ]
    largest = 0
    while any(process.poll() is None for process in started):
        largest = max(largest, log.stat().st_size if log.exists() else 0)
        time.sleep(0.05)
    told = []
    for file in outputs:
        with file:
            file.seek(0)
            told.append(json.load(file))
    reads = [took for each in told[:readers] for took in each["times"]]
    writes = [took for each in told[readers:] for took in each["times"]]
    lost = missing(url, [each["generation"] for each in told[readers:]])
    return {
        "seconds": seconds,
        "reads": len(reads),
        "writes": len(writes),
        "read p95 ms": p95(reads),
        "write p95 ms": p95(writes),
        "largest log MiB": round(largest / (1 << 20), 1),
        "file MiB": round((folder / "soak.db").stat().st_size / (1 << 20), 1),
        "errors": [error for each in told for error in each["errors"]],
        "lost": lost,
    }


def p95(times: list[float]) -> float:
    """Return the 95th percentile in milliseconds."""
    return round(quantiles(times, n=20)[-1] * 1000, 1) if len(times) > 1 else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--readers", type=int, default=4)
    parser.add_argument("--writers", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--as", dest="role", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.role:
        kind, _, number = given.role.partition(":")
        done = (
            write(given.url, int(number), given.seconds)
            if kind == "writer"
            else read(given.url, given.writers, given.seconds)
        )
        print(json.dumps(done))
        return
    with tempfile.TemporaryDirectory() as folder:
        figures = soak(Path(folder), given.seconds, given.readers, given.writers)
    if given.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:>16}  {len(value) if isinstance(value, list) else value}")
        for failure in [*figures["errors"], *figures["lost"]][:20]:
            print(f"  {failure}")
    sys.exit(1 if figures["errors"] or figures["lost"] else 0)


if __name__ == "__main__":
    main()
