"""Measures time and memory: ``python benchmarks/speed.py``.

Texts are synthetic; every figure is the best of five runs, in a process of its own.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from powerctx_core import EmbedRequest
from powerctx_local_embed.embedder import LocalEmbedder
from powerctx_local_embed.settings import LocalSettings

ENGLISH = (
    "Melanie: We painted a sunrise over the lake last year, and I still keep it in the kitchen for the kids to see. "
)
CHINESE = "小美：去年我们画了一幅湖上的日出，我现在还把它挂在厨房里，孩子们每天都看得见。"


def resident() -> float:
    """Return the memory of this process, MB (Linux)."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * 4096 / 1e6


def milliseconds(embedder: LocalEmbedder, texts: tuple[str, ...], threads: int = 1) -> float:
    """Return the time a text."""
    best = float("inf")
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(5):
            started = time.perf_counter()
            list(pool.map(lambda part: embedder.embed(EmbedRequest(texts=part)), [texts] * threads))
            best = min(best, time.perf_counter() - started)
    return best * 1000 / len(texts) / threads


def main() -> None:
    """Print one figure a line."""
    before = resident()
    embedder = LocalEmbedder(LocalSettings())
    started = time.perf_counter()
    embedder.embed(EmbedRequest(texts=("cat",)))
    print(f"first call, with numpy and model   {time.perf_counter() - started:.2f} s")
    print(f"memory, before and after           {before:.0f} MB, {resident():.0f} MB")
    lines = {
        "150 characters of English": tuple(f"{n} {ENGLISH}{ENGLISH}"[:150] for n in range(100)),
        "150 characters of Chinese": tuple(f"{n} {CHINESE * 4}"[:150] for n in range(100)),
        "40 characters of Chinese": tuple(f"{n} {CHINESE}"[:40] for n in range(100)),
        "8192 characters of Chinese": (f"{CHINESE * 300}"[:8192],),
    }
    for name, texts in lines.items():
        print(f"{name:<35}{milliseconds(embedder, texts):.1f} ms a text")
    turns = lines["150 characters of English"]
    print(f"{'the same in English, 4 threads':<35}{milliseconds(embedder, turns, 4):.1f} ms a text")
    free = LocalEmbedder(LocalSettings(blas_threads=0))
    one, four = milliseconds(free, turns), milliseconds(free, turns, 4)
    print(f"{'both, BLAS left alone':<35}{one:.1f} ms a text, {four:.1f} ms a text")
    print(f"memory at the end                  {resident():.0f} MB")


if __name__ == "__main__":
    main()
