"""Time ``prepare`` against the raw full-text query of the same file, paired in one run.

    python tests/benchmarks/prepare.py                      # 10 000 items in one scope
    python tests/benchmarks/prepare.py --items 1000000 --scope-size 50 --queries 200

Each query is answered four times in turn: by ``prepare`` with its defaults, which searches three families of which
one holds something; by ``prepare`` of that one alone; by the engine's ranked query for 64 rows over the same terms
and rowid range of an ordinary FTS5 table of the same texts; and by the same query over the store's own table, which
is smaller and faster, but made for other queries: what it ranks by is no BM25.  Prints medians, 95th percentiles, the
medians of ``prepare - 1.5 * raw`` and of ``prepare / memory alone``, by the clock and by the processor's time of this
thread, which a busy machine changes less.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import powerctx_core as powerctx
from powerctx_core.text.terms import analyse, analyse_query, encode

_BATCH = 5000
_WARM_UP = 20


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


class _Timed:
    """Seconds of one side, by the clock and of the processor."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []

    @contextmanager
    def once(self) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.thread_time()
        yield
        self.cpu.append(time.thread_time() - cpu)
        self.wall.append(time.perf_counter() - wall)


def _fill(
    context: powerctx.Context, plain: sqlite3.Connection, count: int, scope_size: int, words: list[str]
) -> tuple[float, float]:
    """Fill the store and an ordinary FTS5 table, and return the items a second that the store took."""
    plain.execute("CREATE VIRTUAL TABLE plain USING fts5(terms, content='', tokenize='ascii')")
    timed = _Timed()
    for first in range(0, count, _BATCH):
        texts = _texts(min(_BATCH, count - first), words, first)
        with timed.once():
            context.put(
                powerctx.Item(scope_id=f"s{(first + n) // scope_size}", text=text, artifact_id=f"i{first + n}")
                for n, text in enumerate(texts)
            )
        rows = [
            ((first + n) // scope_size << 32 | first + n, " ".join(f"{encode(term)} " * count for term, count in found))
            for n, found in enumerate(analyse(text).items() for text in texts)
        ]
        plain.executemany("INSERT INTO plain(rowid, terms) VALUES (?, ?)", rows)
        plain.commit()
    return count / sum(timed.wall), count / sum(timed.cpu)


def _ranked(connection: sqlite3.Connection, table: str, match: str, first: int) -> None:
    connection.execute(
        f"SELECT rowid FROM {table} WHERE {table} MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rank LIMIT 64",
        (match, first, first | 0xFFFFFFFF),
    ).fetchall()


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
        plain = sqlite3.connect(Path(folder) / "plain.db")
        with powerctx.open(f"sqlite:///{path}", settings={}) as context:
            wall, cpu = _fill(context, plain, options.items, scope_size, words)
            print(f"put: {wall:,.0f} items/s with analysis, {cpu:,.0f} a second of the processor")
            raw = sqlite3.connect(path)
            ranges = dict(raw.execute("SELECT scope_id, id FROM partition").fetchall())
            pick = random.Random(7)
            ours, alone, ordinary, own = _Timed(), _Timed(), _Timed(), _Timed()
            for text in _texts(options.queries + _WARM_UP, words, 10**9):
                query = " ".join(text.split()[: options.terms])
                number = pick.randrange(max(1, options.items // scope_size))
                match = " OR ".join(f'"{encode(term)}"' for term in analyse_query(query).terms)
                with ordinary.once():
                    _ranked(plain, "plain", match, number << 32)
                with own.once():
                    _ranked(raw, "lexical", match, ranges[f"s{number}"] << 32)
                sides = [(ours, None), (alone, ["memory"])]
                for side, families in sides if len(ours.wall) % 2 else sides[::-1]:
                    with side.once():
                        context.prepare(query, scope_id=f"s{number}", families=families)
            raw.close()
        plain.close()
    for name, side in (("ordinary FTS5", ordinary), ("own table", own), ("memory alone", alone), ("prepare", ours)):
        walls, cpus = side.wall[_WARM_UP:], side.cpu[_WARM_UP:]
        print(
            f"{name + ':':15} p50 {_p(walls, 0.5):.2f} ms, p95 {_p(walls, 0.95):.2f} ms; "
            f"processor p50 {_p(cpus, 0.5):.2f} ms, p95 {_p(cpus, 0.95):.2f} ms"
        )
    for name, side in (("ordinary FTS5", ordinary), ("own table", own)):
        over = [
            _p([1000 * (a - 1.5 * b) for a, b in zip(mine[_WARM_UP:], raws[_WARM_UP:], strict=True)], 0.5) / 1000
            for mine, raws in ((ours.wall, side.wall), (ours.cpu, side.cpu))
        ]
        print(f"prepare - 1.5 * {name}: median {over[0]:.2f} ms, processor {over[1]:.2f} ms")
    ratios = [
        sorted(a / b for a, b in zip(mine[_WARM_UP:], others[_WARM_UP:], strict=True))[options.queries // 2]
        for mine, others in ((ours.wall, alone.wall), (ours.cpu, alone.cpu))
    ]
    print(f"prepare / memory alone: median {ratios[0]:.3f}, processor {ratios[1]:.3f}")


if __name__ == "__main__":
    main()
