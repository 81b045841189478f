"""How much evidence search packs deliver: share of gold items with text in them, counted by the tokenizer itself.

    python contrib/powerctx-eval/benchmarks/packs.py DATA [EMBEDDER] [QUERIES]

DATA is the folder of the labelled sets; the set is locomo.  Needs powerctx-tokenizers, and powerctx-local-embed for the
embedder ``local``.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from powerctx_eval.ask import chosen
from powerctx_eval.data import load
from powerctx_eval.stores import filled, opened

BUDGETS = (400, 800, 1600)
SETTINGS = {"retrieval": {"write_embedding_timeout_s": 580.0}}


def asked(ctx, queries, budget, count):
    """Return the means over *queries* of what packs of one budget deliver, and the largest pack."""
    evidence = whole = tokens = entries = bare = seconds = 0.0
    largest = 0.0
    for query in queries:
        start = time.perf_counter()
        pack = ctx.search(
            query.text, scope_id=query.scope_id, references=query.references, mode="context", max_tokens=budget
        )
        seconds += time.perf_counter() - start
        gold = set(query.gold)
        shown = {entry.address.artifact_id for entry in pack.entries if entry.detail != "uri"}
        full = {entry.address.artifact_id for entry in pack.entries if entry.detail == "full" and not entry.cut}
        evidence += len(gold & shown) / len(gold)
        whole += len(gold & full) / len(gold)
        size = count(pack.rendered)
        tokens, largest = tokens + size, max(largest, size)
        entries += len(pack.entries)
        bare += sum(entry.detail == "uri" for entry in pack.entries)
    number = len(queries)
    return (
        evidence / number,
        whole / number,
        tokens / number,
        largest,
        entries / number,
        bare / entries,
        seconds / number,
    )


def main(folder, embedder="local", limit="250"):
    """Print a line for each budget."""
    found = load(Path(folder), "locomo")
    queries = [query for query in chosen(found, int(limit), 7)[0] if query.gold]
    with opened("memory", embedder, settings=SETTINGS) as ctx, filled(ctx, found, embedded=embedder != "none"):
        count = ctx.host.part("powerctx_token_estimators", "o200k-exact").cost
        print(f"{len(queries)} queries, embedder {embedder}")
        print("budget  evidence  in full  tokens  largest  entries  bare   ms")
        for budget in BUDGETS:
            row = asked(ctx, queries, budget, count)
            evidence, whole, tokens, largest, entries, bare, seconds = row
            print(
                f"{budget:6}  {evidence:8.3f}  {whole:7.3f}  {tokens:6.0f}  {largest:7.0f}  {entries:7.1f}  {bare:.3f}"
                f"  {seconds * 1000:4.0f}"
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
