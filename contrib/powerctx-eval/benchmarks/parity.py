"""Compares what a store and SQLite deliver.

    python contrib/powerctx-eval/benchmarks/parity.py DATA seekdb:///{folder}/engine
    python contrib/powerctx-eval/benchmarks/parity.py DATA chroma:///{folder}/notes --queries 10000

DATA is a folder with the sets of the evaluation; ``{folder}`` in the URL stands for a temporary one.  Every set is
stored in both, with vectors of an embedder that needs no model, and every query is asked twice, for eight items and
to fill 8 000 bytes.  Prints how many queries differ in what is delivered, and in bytes.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path
from typing import Any

import powerctx_core as powerctx
from powerctx_eval.data import EvalQuery, load

SETS = "cmrc_zh cosqa_code locomo madial_en madial_zh precisionmem_en".split()
BUDGETS: dict[str, dict[str, Any]] = {
    "8 items": {"max_items": 8, "max_bytes": 32_768},
    "8 000 bytes": {"max_items": 64, "max_bytes": 8000},
}


def asked(context: powerctx.Context, query: EvalQuery, budget: dict[str, Any]) -> tuple[str | None, frozenset[Any]]:
    """Return the content, and what is in it."""
    prepared = context.prepare(query.text, scope_id=query.scope_id, references=query.references, **budget)
    return prepared.content, frozenset(prepared.selected)


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("url", help="of the store")
    parser.add_argument("--queries", type=int, default=200, help="of a set")
    parser.add_argument("--sets", nargs="+", default=SETS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        urls = [f"sqlite:///{place}/x.db", options.url.replace("{folder}", place)]
        # What is found must not depend on how busy the machine is, so a query's vector is waited for.
        settings = {"parts": {"hash": {"dimensions": 256}}, "retrieval": {"embedding_timeout_s": 60.0}}
        opened = [powerctx.open(url, settings=settings, embedder="hash") for url in urls]
        differing = {name: [0, 0, 0] for name in BUDGETS}
        for name in options.sets:
            found = load(options.data, name)
            for context in opened:
                context.put([entry.item for entry in found.items])
            queries = [query for query in found.queries if query.text.strip()]
            for query in random.Random(1).sample(queries, min(options.queries, len(queries))):
                for budget, fields in BUDGETS.items():
                    (one, these), (other, those) = (asked(c, query, fields) for c in opened)
                    differing[budget][0] += 1
                    differing[budget][1] += these != those
                    differing[budget][2] += one != other
            print(name, differing, flush=True)
        for context in opened:
            context.close()
        for budget, (count, sets, contents) in differing.items():
            print(f"{budget}: of {count} queries {sets / count:.2%} differ in items, {contents / count:.2%} in bytes")


if __name__ == "__main__":
    main()
