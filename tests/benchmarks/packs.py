"""What a pack costs beside a list: `python tests/benchmarks/packs.py [--items N] [--queries N] [--max-tokens N]`.

A SQLite file with N memories of 12 to 300 words.  Each query is asked as a list and as a pack in turns, so that both
meet the same load; figures are milliseconds of processor time of the whole process, and the ratio of each pair.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import powerctx_core as powerctx

SCOPE = "project:bench"
BATCH = 5000
WORDS = [f"word{n}" for n in range(4000)]
LENGTHS = (12, 25, 60, 120, 300)
CATEGORIES = (None, "events", "entities", "preferences")


def items(count: int, rng: random.Random) -> list[powerctx.Item]:
    """Return the memories: sentences of words of which some are frequent and most are rare."""

    def word() -> str:
        return WORDS[int(len(WORDS) * rng.random() ** 3)]

    def text() -> str:
        words = [word() for _ in range(rng.choice(LENGTHS))]
        return " ".join(f"{each}." if place % 11 == 10 else each for place, each in enumerate(words))

    return [
        powerctx.Item(scope_id=SCOPE, artifact_id=f"m{n}", text=text(), category=rng.choice(CATEGORIES))
        for n in range(count)
    ]


def main() -> None:
    """Fill, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--max-tokens", type=int, default=1600)
    options = parser.parse_args()
    rng = random.Random(7)
    queries = [" ".join(rng.sample(WORDS[: len(WORDS) // 4], 3)) for _ in range(options.queries)]
    with tempfile.TemporaryDirectory() as folder, powerctx.open(f"sqlite:///{Path(folder) / 'bench.db'}") as ctx:
        every = items(options.items, rng)
        for start in range(0, len(every), BATCH):
            ctx.put(every[start : start + BATCH])

        def spent(query: str, **parameters: Any) -> float:
            before = time.process_time()
            ctx.search(query, scope_id=SCOPE, **parameters)
            return (time.process_time() - before) * 1000.0

        pack = {"mode": "context", "max_tokens": options.max_tokens}
        spent(queries[0])
        spent(queries[0], **pack)
        pairs = [(spent(query), spent(query, **pack)) for query in queries]
    lists, packs = zip(*pairs, strict=True)
    for name, figures in (("list", lists), ("pack", packs)):
        late = sorted(figures)[-max(1, len(figures) // 20)]
        print(f"{name}: median {statistics.median(figures):.1f} ms, 95th percentile {late:.1f}")
    ratios = [pack / one for one, pack in pairs]
    print(f"ratio of pairs: median {statistics.median(ratios):.2f}; {options.items} items, {options.max_tokens} tokens")


if __name__ == "__main__":
    main()
