"""Measures the store: ``python benchmarks/store.py [--items N] [--queries N] [--url URL]``.

Fills one scope with seeded synthetic texts of about 250 characters and unit vectors, and times each query in turn:
``prepare``, then the two raw queries of the engines (the 64 best by words of the companion's index, ranked by SQLite,
and the 64 nearest of Chroma with their distances).  Figures are milliseconds; the lines below them say what ``prepare``
takes beside the two, and how many statements it runs.  A store that *URL* names is kept, and measured again by the next
call; a server's companion has to be SQLite here.  Processor time is that of this process, with Chroma's threads in it.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import struct
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import sqlalchemy as sa

import powerctx_core as powerctx
from powerctx_core import hookimpl
from powerctx_core.ports import EmbedRequest
from powerctx_core.records import EmbedderSpec, NoSettings
from powerctx_core.text.terms import analyse_query, encode
from powerctx_core.types import Deadline, EmbeddingProfile

STARTS = "ka lo mi ter sun gra pel dor".split()
MIDDLES = "ra ne vi sto ul min or ba".split()
ENDS = "x n d k lt m p rs z th".split()
VOCABULARY = [a + b + c for a in STARTS for b in MIDDLES for c in ENDS]
WEIGHTS = [1 / (n + 3) for n in range(len(VOCABULARY))]
BATCH = 2000
DIMENSIONS = 384
TOPICS = 300
WORDS = "SELECT rowid FROM lexical WHERE lexical MATCH ? ORDER BY rank LIMIT 64"


class Topics:
    """Gives texts the vector of a topic, with noise; seeded by the text."""

    def __init__(self, _: NoSettings) -> None:
        rng = random.Random(5)
        self.centres = [[rng.gauss(0, 1) for _ in range(DIMENSIONS)] for _ in range(TOPICS)]
        self.noise = [[rng.gauss(0, 1) for _ in range(DIMENSIONS)] for _ in range(997)]
        self.profile = EmbeddingProfile(
            fingerprint="benchmark/topics/1", dimensions=DIMENSIONS, languages=("en", "id", "de"), noise=0.2, match=0.7
        )

    def embed(self, request: EmbedRequest) -> list[bytes]:
        """Return one vector for each text."""
        found = []
        for text in request.texts:
            rng = random.Random(text)
            centre, noise, other = rng.choice(self.centres), rng.choice(self.noise), rng.choice(self.noise)
            values = [a + 0.6 * b + 0.4 * c for a, b, c in zip(centre, noise, other, strict=True)]
            length = sum(value * value for value in values) ** 0.5
            found.append(struct.pack(f"<{DIMENSIONS}f", *(value / length for value in values)))
        return found


class Plugin:
    """Offers the embedder."""

    @hookimpl
    def powerctx_embedders(self):
        """Offer it."""
        yield EmbedderSpec(name="topics", factory=Topics, about="seeded vectors of topics")


def text(rng: random.Random, words: int = 32) -> str:
    """Return words of a Zipf-like vocabulary, and a rare one."""
    return " ".join([*rng.choices(VOCABULARY, WEIGHTS, k=words), f"n{rng.randrange(100_000)}"])


def highest(seconds: list[float]) -> float:
    """Return the 95th percentile."""
    return sorted(seconds)[int(len(seconds) * 0.95)]


def told(name: str, seconds: list[float]) -> None:
    """Print median and 95th percentile."""
    ordered = sorted(seconds)
    print(f"{name:>22}: p50 {statistics.median(ordered) * 1e3:7.1f}  p95 {highest(ordered) * 1e3:7.1f}")


def fill(context: powerctx.Context, count: int) -> None:
    """Store the items, with vectors."""
    rng = random.Random(1)
    start, busy = time.perf_counter(), time.process_time()
    for first in range(0, count, BATCH):
        context.put([powerctx.Item(scope_id="s", text=text(rng)) for _ in range(min(BATCH, count - first))])
        done = min(first + BATCH, count)
        if done % 20_000 == 0 or done == count:
            passed, used = time.perf_counter() - start, time.process_time() - busy
            print(f"  {done} items, {done / passed:.0f} a second, {done / used:.0f} of processor time", flush=True)


def statements(context: powerctx.Context, queries: list[str]) -> float:
    """Return how many statements a call runs, beside the end of its transaction."""
    seen: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        seen.append(statement)

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    for query in queries:
        context.prepare(query, scope_id="s", max_bytes=8000)
    sa.event.remove(sa.Engine, "before_cursor_execute", note)
    return len(seen) / len(queries)


def measure(context: powerctx.Context, queries: int) -> None:
    """Time prepare and the raw queries, paired."""
    rng = random.Random(2)
    store = context.store
    embedder = Topics(NoSettings())
    times = SimpleNamespace(prepare=[], words=[], near=[], busy_prepare=[], busy_both=[])
    client = store._client.get()  # noqa: SLF001 - for the engine's own queries
    large = max(client.list_collections(), key=lambda each: each.count())
    print(f"{large.count()} vectors in the collection that is asked", flush=True)
    with store.companion.database.reading(Deadline()) as connection:
        for turn in range(queries + 20):
            query = text(rng, 7)
            start, busy = time.perf_counter(), time.process_time()
            context.prepare(query, scope_id="s", max_bytes=8000)
            prepared, busy_prepared = time.perf_counter(), time.process_time()
            words = " OR ".join(encode(term) for term in analyse_query(query).terms)
            (vector,) = embedder.embed(EmbedRequest(texts=(query,)))
            values = [np.frombuffer(vector, "<f4")]
            begun, busy_begun = time.perf_counter(), time.process_time()
            connection.exec_driver_sql(WORDS, (words,)).all()
            middle = time.perf_counter()
            large.query(query_embeddings=values, n_results=64, include=["distances"])
            end, busy_end = time.perf_counter(), time.process_time()
            if turn >= 20:
                times.busy_prepare.append(busy_prepared - busy)
                times.busy_both.append(busy_end - busy_begun)
                times.prepare.append(prepared - start)
                times.words.append(middle - begun)
                times.near.append(end - middle)
    told("prepare", times.prepare)
    told("words, raw", times.words)
    told("nearest, raw", times.near)
    both = [a + b for a, b in zip(times.words, times.near, strict=True)]
    told("both, raw", both)
    told("prepare / both, paired", [a / b / 1e3 for a, b in zip(times.prepare, both, strict=True)])
    print(f"95th percentiles: prepare is {highest(times.prepare) / highest(both):.2f} of both", flush=True)
    told("prepare, processor", times.busy_prepare)
    told("both, processor", times.busy_both)
    print(f"{statements(context, [text(rng, 7) for _ in range(20)]):.1f} statements a prepare")


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--url", help="a store that is empty, or that this script filled before")
    options = parser.parse_args()
    place = None if options.url else tempfile.mkdtemp()
    url = options.url or f"chroma:///{place}/notes"
    start = time.perf_counter()
    with powerctx.open(url, settings={}, embedder="topics", extra=[Plugin()]) as context:
        print(f"open: {time.perf_counter() - start:.1f} s", flush=True)
        if not context.store.vectors.count():
            fill(context, options.items)
        measure(context, options.queries)
        print(context.store.status())
    if place:
        shutil.rmtree(Path(place))


if __name__ == "__main__":
    main()
