"""Time ``prepare`` against the raw full-text query of the same file, paired in one run.

    python tests/benchmarks/prepare.py                      # 10 000 items in one scope
    python tests/benchmarks/prepare.py --items 1000000 --scope-size 50 --queries 200

Each query is answered twice in turn: by ``prepare`` with its defaults, and by the engine's own ranked query for 64 rows
over the same terms and rowid range.  Prints medians, 95th percentiles, and the median of ``prepare - 1.5 * raw``.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path

import powerctx_core as powerctx
from powerctx_core.text.terms import analyse_query, encode

_BATCH = 5000


def _words(count: int, seed: int) -> list[str]:
    pick = random.Random(seed)
    letters = "bcdfghklmnprstvw"
    vowels = "aeiou"
    return [
        "".join(pick.choice(letters) + pick.choice(vowels) for _ in range(pick.randint(2, 4))) + str(n % 7 or "")
        for n in range(count)
    ]


def _texts(count: int, words: list[str], seed: int) -> list[str]:
    """Return sentences of about 250 characters whose words follow Zipf's law."""
    pick = random.Random(seed)
    weights = [1 / (rank + 60) for rank in range(len(words))]
    return [" ".join(pick.choices(words, weights, k=32)) for _ in range(count)]


def _fill(context: powerctx.Context, count: int, scope_size: int, words: list[str]) -> float:
    started = time.perf_counter()
    spent = 0.0
    for first in range(0, count, _BATCH):
        texts = _texts(min(_BATCH, count - first), words, first)
        started = time.perf_counter()
        context.put(
            powerctx.Item(scope_id=f"s{(first + n) // scope_size}", text=text, artifact_id=f"i{first + n}")
            for n, text in enumerate(texts)
        )
        spent += time.perf_counter() - started
    return count / spent


def _p(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] * 1000


def main() -> None:
    """Fill a store, then time both sides query by query."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--scope-size", type=int, default=None)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--terms", type=int, default=8)
    options = parser.parse_args()
    scope_size = options.scope_size or options.items
    words = _words(20_000, 1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.db"
        with powerctx.open(f"sqlite:///{path}", settings={}) as context:
            rate = _fill(context, options.items, scope_size, words)
            print(f"put: {rate:,.0f} items/s with analysis")
            raw = sqlite3.connect(path)
            table = next(
                name
                for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE%fts5%'")
            )
            ranges = dict(raw.execute("SELECT scope_id, id FROM partition").fetchall())
            pick = random.Random(7)
            ours: list[float] = []
            theirs: list[float] = []
            for text in _texts(options.queries + 20, words, 10**9):
                query = " ".join(text.split()[: options.terms])
                scope = f"s{pick.randrange(max(1, options.items // scope_size))}"
                match = " OR ".join(f'"{encode(term)}"' for term in analyse_query(query).terms)
                first = ranges[scope.encode() if isinstance(next(iter(ranges)), bytes) else scope] << 32
                started = time.perf_counter()
                raw.execute(
                    f"SELECT rowid FROM {table} WHERE {table} MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rank LIMIT 64",
                    (match, first, first | 0xFFFFFFFF),
                ).fetchall()
                middle = time.perf_counter()
                context.prepare(query, scope_id=scope)
                ours.append(time.perf_counter() - middle)
                theirs.append(middle - started)
            ours, theirs = ours[20:], theirs[20:]
            raw.close()
    over = [1000 * (a - 1.5 * b) for a, b in zip(ours, theirs, strict=True)]
    print(f"raw full-text query: p50 {_p(theirs, 0.5):.2f} ms, p95 {_p(theirs, 0.95):.2f} ms")
    print(f"prepare:             p50 {_p(ours, 0.5):.2f} ms, p95 {_p(ours, 0.95):.2f} ms")
    print(f"prepare - 1.5 raw:   median {statistics.median(over):.2f} ms")


if __name__ == "__main__":
    main()
