"""Measures the store: ``python benchmarks/store.py [--items N] [--scopes N --each N]``.

Writes are timed with the analysis and without it.  Reads are paired in one run with the engine's own ranked query over
the same index; figures are medians and 95th percentiles, milliseconds.  The texts are seeded and synthetic.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from powerctx_core.ports import FetchRequest, LexicalRequest
from powerctx_core.text.terms import analyse_query, encode
from powerctx_core.types import Deadline, Item, Partition, QueryTerms
from powerctx_sqlalchemy import catalogue, rows
from powerctx_sqlite.store import SqliteStore, open_store

STARTS = "ka lo mi ter sun gra pel dor".split()
MIDDLES = "ra ne vi sto ul min or ba".split()
ENDS = "x n d k lt m p rs z th".split()
VOCABULARY = [a + b + c for a in STARTS for b in MIDDLES for c in ENDS]
WEIGHTS = [1 / (n + 3) for n in range(len(VOCABULARY))]
BATCH = 10_000
K = 64
RANKED = "SELECT rowid FROM lexical WHERE lexical MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rank LIMIT 64"
Plan = tuple[Partition, QueryTerms, str, int, int]


def text(rng: random.Random, characters: int) -> str:
    """Return words of a Zipf-like vocabulary, and a rare one."""
    words = rng.choices(VOCABULARY, WEIGHTS, k=characters // 7)
    return " ".join([*words, f"n{rng.randrange(100_000)}"])


def items(rng: random.Random, scopes: int, each: int, characters: int) -> Iterator[Item]:
    """Yield the items of one scope after the other."""
    for scope in range(scopes):
        for n in range(each):
            yield Item(scope_id=f"scope:{scope}", text=text(rng, characters), thread=f"t{n // 50}", position=n % 50)


def batches(source: Iterator[Item]) -> Iterator[list[Item]]:
    """Yield lists of items."""
    batch: list[Item] = []
    for item in source:
        batch.append(item)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def fill(store: SqliteStore, source: Iterator[Item]) -> None:
    """Store everything; print the rates of the ingest, of the writes alone, and of the slowest and last batch."""
    taken: list[tuple[float, float]] = []
    processor = time.process_time()
    count = 0
    for batch in batches(source):
        spent = [0.0]
        inner = rows.analysed

        def timed(
            *args: object, spent: list[float] = spent, inner: Callable[..., rows.Analysed] = inner
        ) -> rows.Analysed:
            start = time.perf_counter()
            found = inner(*args)
            spent[0] += time.perf_counter() - start
            return found

        catalogue.analysed = timed  # benchmarks are not type-checked
        start = time.perf_counter()
        store.catalogue.put(batch)
        whole = time.perf_counter() - start
        catalogue.analysed = inner
        taken.append((whole / len(batch), (whole - spent[0]) / len(batch)))
        count += len(batch)
    whole, alone = (statistics.fmean(column) for column in zip(*taken, strict=True))
    print(
        f"put {count} items: {1 / whole:,.0f} items/s with analysis, {1 / alone:,.0f} without"
        f" (slowest batch {1 / max(taken)[0]:,.0f}, last {1 / taken[-1][0]:,.0f}); by processor time,"
        f" the generator included, {count / (time.process_time() - processor):,.0f}"
    )


def measured(calls: Sequence[Callable[[], object]]) -> list[list[tuple[float, float]]]:
    """Run the calls in turn, 200 rounds, and return their times: on the wall, and of the processor."""
    times: list[list[tuple[float, float]]] = [[] for _ in calls]
    for round_ in range(220):
        for n, call in enumerate(calls):
            start, processor = time.perf_counter(), time.process_time()
            call()
            processor, wall = time.process_time() - processor, time.perf_counter() - start
            if round_ >= 20:
                times[n].append((wall * 1000, processor * 1000))
    return times


def ours(store: SqliteStore, turn: Iterator[Plan], *, fetch: bool) -> None:
    """What a family does: one snapshot, the match, the details of the best."""
    partition, terms, *_ = next(turn)
    with store.catalogue.snapshot(Deadline.after(5)) as snapshot:
        found = snapshot.lexical([LexicalRequest(partition=partition, query=terms, k=K)])[0]
        if fetch:
            snapshot.fetch(FetchRequest(keys=tuple([hit.key for hit in found.hits[:K]])))


def engine(raw: sqlite3.Connection, turn: Iterator[Plan]) -> None:
    """The engine's ranked ids for the same terms in the same block, and nothing else."""
    _, _, match, first, last = next(turn)
    raw.execute(RANKED, (match, first, last)).fetchall()


def read(store: SqliteStore, path: Path, scopes: int, rng: random.Random) -> None:
    """Compare lexical + fetch with the engine's ranked query for the same terms."""
    raw = sqlite3.connect(path)
    for pragma in ("mmap_size = 1073741824", "cache_size = -32768"):
        raw.execute(f"PRAGMA {pragma}")
    for label, words in (("8 terms", 8), ("3 terms", 3)):
        plan = []
        for _ in range(240):
            scope = f"scope:{rng.randrange(scopes)}"
            query = " ".join([*rng.choices(VOCABULARY, WEIGHTS, k=words - 1), f"n{rng.randrange(100_000)}"])
            row = raw.execute("SELECT id FROM partition WHERE scope_id = ?", (scope,)).fetchone()
            terms = analyse_query(query)
            match = " OR ".join(f'"{encode(term)}"' for term in terms.terms)
            plan.append((Partition(scope, "memory"), terms, match, row[0] << 32, (row[0] + 1 << 32) - 1))
        calls = {
            "lexical + fetch": partial(ours, store, iter(plan), fetch=True),
            "raw ranked FTS": partial(engine, raw, iter(plan)),
            "lexical alone": partial(ours, store, iter(plan), fetch=False),
        }
        for name, times in zip(calls, measured(list(calls.values())), strict=True):
            walls, processor = (sorted(column) for column in zip(*times, strict=True))
            late = walls[int(len(walls) * 0.95)]
            print(
                f"  {label}: {name:16} p50 {statistics.median(walls):7.3f}  p95 {late:7.3f} ms"
                f"  (processor, p50 {statistics.median(processor):7.3f})"
            )
    raw.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=10_000, help="items of the one scope")
    parser.add_argument("--scopes", type=int, default=1)
    parser.add_argument("--each", type=int, default=0, help="items of each scope, instead of --items")
    parser.add_argument("--characters", type=int, default=100)
    parser.add_argument("--path", type=Path, help="keep the file here")
    options = parser.parse_args(arguments)
    rng = random.Random(7)
    with tempfile.TemporaryDirectory() as directory:
        path = options.path or Path(directory) / "bench.db"
        store = open_store(f"sqlite:///{path}")
        fresh = not path.exists()
        each = options.each or options.items
        print(f"{options.scopes} scopes of {each} items of {options.characters} characters; {sqlite3.sqlite_version}")
        if fresh:
            fill(store, items(rng, options.scopes, each, options.characters))
        print(f"  file {path.stat().st_size / 1e6:.1f} MB")
        read(store, path, options.scopes, random.Random(8))
        store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
