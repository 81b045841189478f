"""Measures the vector index: ``python benchmarks/vectors.py one [--items N] [--vectors x.npy --queries q.npy]``.

``one`` puts all vectors into one scope and compares the pool of 64 with brute force over float32; without files the
vectors are seeded and cluster.  ``embed`` makes such files with powerctx-local-embed from the ``text`` (items) and
``query`` (queries) of JSON lines.  ``scopes`` compares a scope among many with a scope alone.  Figures are medians and
95th percentiles in milliseconds, of a snapshot that is opened, asked and closed.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from powerctx_core import EmbeddingProfile, EmbedRequest, Filters, Item, NearestRequest, Partition
from powerctx_core.types import Deadline
from powerctx_sqlite.signs import Array
from powerctx_sqlite.store import SqliteStore, open_store

K = 64
BATCH = 10_000
NONE = Filters()


def profile(dimensions: int) -> EmbeddingProfile:
    """Return a profile."""
    return EmbeddingProfile(
        fingerprint="benchmark", dimensions=dimensions, languages=("en",), noise=0.1, match=0.5, weight=1.0
    )


def units(rows: Array) -> Array:
    """Return rows of unit length."""
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def clustered(count: int, dimensions: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return vectors around 1000 centres, and 200 queries near some of them."""
    centres = units(rng.standard_normal((1000, dimensions)))
    rows = units(centres[rng.integers(0, 1000, count)] + rng.standard_normal((count, dimensions)) / dimensions**0.5)
    return rows, units(rows[:200] + 0.5 * rng.standard_normal((200, dimensions)) / dimensions**0.5)


def fill(store: SqliteStore, scope_of: Callable[[int], str], vectors: Array) -> dict[int, int]:
    """Store short items and their vectors, and return the place of each key's vector."""
    placed: dict[int, int] = {}
    store.vectors.attach(profile(vectors.shape[1]))
    put = upsert = 0.0
    for start in range(0, len(vectors), BATCH):
        places = range(start, min(start + BATCH, len(vectors)))
        began = time.perf_counter()
        results = store.catalogue.put(
            [
                Item(scope_id=scope_of(n), text=f"n{n}", artifact_id=str(n), tags=("tenth",) if n % 10 == 0 else ())
                for n in places
            ]
        )
        middle = time.perf_counter()
        keys = {result.key: n for n, result in zip(places, results, strict=True) if result.key is not None}
        placed |= keys
        store.vectors.upsert({key: vectors[n].tobytes() for key, n in keys.items()})
        put, upsert = put + middle - began, upsert + time.perf_counter() - middle
    print(f"stored {len(vectors)}: {len(vectors) / put:,.0f} items/s, {len(vectors) / upsert:,.0f} vectors/s")
    return placed


def timed(calls: Sequence[Callable[[], object]]) -> str:
    """Run calls and return the figures of their times."""
    times = []
    for call in calls:
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1000)
    times.sort()
    return f"p50 {statistics.median(times):.2f}  p95 {times[int(len(times) * 0.95)]:.2f}  min {times[0]:.2f}"


def ask(store: SqliteStore, scope: str, vector: Array, filters: Filters = NONE) -> list[int]:
    """Return the keys of the pool."""
    request = NearestRequest(partition=Partition(scope, "memory"), vector=vector.tobytes(), k=K, filters=filters)
    with store.catalogue.snapshot(Deadline()) as snapshot:
        return [key for key, _ in store.vectors.nearest([request], snapshot)[0]]


def recall(
    store: SqliteStore, rows: Array, placed: dict[int, int], queries: Array, *, step: int = 1, filters: Filters = NONE
) -> float:
    """Return the share of the true best 64, among every *step*-th row, that the pool holds."""
    shares = []
    for query in queries:
        found = {placed[key] for key in ask(store, "s", query, filters)}
        scores = rows[::step] @ query
        true = np.argpartition(-scores, min(K, len(scores) - 1))[:K] * step
        shares.append(len(found & set(true.tolist())) / len(true))
    return statistics.fmean(shares)


def one(args: argparse.Namespace) -> None:
    """Measure one scope that holds everything."""
    rng = np.random.default_rng(0)
    if args.vectors:
        rows, queries = (units(array[np.any(array, axis=1)]) for array in map(np.load, (args.vectors, args.queries)))
        rows, queries = rows[: args.items], queries[:200]
        if len(rows) < args.items:
            more = rows[rng.integers(0, len(rows), args.items - len(rows))]
            rows = units(np.concatenate((rows, more + 0.35 * rng.standard_normal(more.shape) / more.shape[1] ** 0.5)))
    else:
        rows, queries = clustered(args.items, args.dimensions, rng)
    with tempfile.TemporaryDirectory(dir=args.directory) as place:
        path = Path(place) / "x.db"
        store = open_store(f"sqlite:///{path}")
        placed = fill(store, lambda _: "s", rows)
        store.close()
        store = open_store(f"sqlite:///{path}")
        store.vectors.attach(profile(rows.shape[1]))
        start = time.perf_counter()
        ask(store, "s", queries[0])
        print(
            f"file {path.stat().st_size >> 20} MiB; first query {(time.perf_counter() - start) * 1000:.0f} ms", end=""
        )
        print(f"; in memory {store.vectors._residents().nbytes() / 2**20:.1f} MiB")  # noqa: SLF001 - memory is no public figure
        calls = [lambda query=query: ask(store, "s", query) for query in queries]
        for _ in range(args.rounds):
            print(f"{len(rows)} in one scope: {timed(calls)}")
        brute = timed([lambda query=query: np.vecdot(rows, query) for query in queries])
        print(f"brute force, float32 in memory: {brute}")
        print(f"recall@{K} {recall(store, rows, placed, queries):.4f}")
        tenth = Filters(tags=("tenth",))
        print(f"filter of a tenth: {timed([lambda query=query: ask(store, 's', query, tenth) for query in queries])}")
        print(f"recall@{K} {recall(store, rows, placed, queries, step=10, filters=tenth):.4f}")
        store.catalogue.put([Item(scope_id="s", text="changed", artifact_id="7")])
        print(f"after a write: {timed([calls[0]])}; then {timed(calls)}")
        store.close()


def scopes(args: argparse.Namespace) -> None:
    """Compare scopes of 50 among many with one that is alone."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(dir=args.directory) as place:
        stores = {}
        for name, count in (("alone", 1), ("among many", args.scopes)):
            store = stores[name] = open_store(f"sqlite:///{place}/{count}.db")
            for start in range(0, count, 2000):
                size = min(2000, count - start) * 50
                rows = units(rng.standard_normal((size, args.dimensions), dtype=np.float32))
                fill(store, lambda n, start=start: f"s{start + n // 50}", rows)
        queries = units(rng.standard_normal((1000, args.dimensions)))
        for _ in range(args.rounds):
            for (name, store), count in zip(stores.items(), (1, args.scopes), strict=True):
                chosen = [(f"s{random.randrange(count)}", query) for query in queries]
                calls = [lambda s=s, q=q, store=store: ask(store, s, q) for s, q in chosen]
                print(f"50 items, {name}: {timed(calls)}")


def texts(path: Path, field: str) -> Iterator[str]:
    """Yield the texts of JSON lines, and their sentences."""
    for line in path.read_text(encoding="utf-8").splitlines():
        text = json.loads(line)[field]
        yield text[:400]
        if field == "text":
            yield from (part for part in re.split(r"(?<=[。！？.!?\n])\s*", text) if 8 < len(part) < 300)


def embed(args: argparse.Namespace) -> None:
    """Embed texts and write them as ``.npy``."""
    from powerctx_local_embed.embedder import LocalEmbedder
    from powerctx_local_embed.settings import LocalSettings

    embedder, rng = LocalEmbedder(LocalSettings()), random.Random(1)
    for field, pattern, target, most in (
        ("query", "*/queries.jsonl", args.queries, 400),
        ("text", "*/items.jsonl", args.vectors, args.items),
    ):
        found = list(dict.fromkeys(text for path in sorted(args.data.glob(pattern)) for text in texts(path, field)))
        rng.shuffle(found)
        made = [embedder.embed(EmbedRequest(texts=(text,)))[0] for text in found[:most]]
        np.save(target, np.frombuffer(b"".join(made), "<f4").reshape(len(made), -1))


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["one", "scopes", "embed"])
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--dimensions", type=int, default=512)
    parser.add_argument("--scopes", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--queries", type=Path)
    parser.add_argument("--data", type=Path, help="folders with items.jsonl and queries.jsonl")
    parser.add_argument("--directory", type=Path, help="where the files are made")
    args = parser.parse_args()
    {"one": one, "scopes": scopes, "embed": embed}[args.what](args)


if __name__ == "__main__":
    main()
