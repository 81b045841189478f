"""Time what the gate adds to ``prepare``, paired in one run: each query without a gate and with one, in turn.

    python tests/benchmarks/gate.py                      # 10 000 items in one scope, 500 queries of each length
    python tests/benchmarks/gate.py --items 1000 --queries 50 --policy powerctx.recall.v1

Answers are told apart by what the gate did.  Printed are medians of the pairs: what it adds in milliseconds of the
process's time, which a busy machine changes less than the clock, its share of the call without it, and that call.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from prepare import _texts, _words  # beside this file

import powerctx_core as powerctx
from powerctx_core.recall.policy import POLICIES

_BATCH = 5000
_WARM_UP = 20
_LENGTHS = (2, 8)


def _did(effort: powerctx.RecallEffort) -> str:
    """Return what the gate did, in words."""
    if effort.expansion_actions:
        return f"{len(effort.expansion_actions)} committed"
    return "sufficient" if effort.sufficient else "nothing to recover"


def _measure(ctx: powerctx.Context, queries: list[str], policy: str, gate: str) -> dict[str, list[tuple[float, float]]]:
    """Return what the gate did -> (milliseconds without, milliseconds with it) of each query."""
    pairs: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for turn, query in enumerate(queries):
        spent = {}
        did = ""
        for each in ("off", gate) if turn % 2 else (gate, "off"):
            start = time.process_time()
            found = ctx.prepare(query, scope_id="s", families=["memory"], policy=policy, gate=each)
            spent[each] = (time.process_time() - start) * 1000
            if found.diagnostics.effort is not None:
                did = _did(found.diagnostics.effort)
        if turn >= _WARM_UP:
            pairs[did].append((spent["off"], spent[gate]))
    return pairs


def main() -> None:
    """Fill a store, then time both sides query by query."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--policy", action="append", choices=[*POLICIES])
    parser.add_argument("--gate", default="v2")
    options = parser.parse_args()
    words = _words(20_000, 1)
    with (
        tempfile.TemporaryDirectory() as folder,
        powerctx.open(f"sqlite:///{Path(folder) / 'gate.db'}", settings={}) as ctx,
    ):
        for first in range(0, options.items, _BATCH):
            texts = _texts(min(_BATCH, options.items - first), words, first)
            ctx.put(powerctx.Item(scope_id="s", text=text) for text in texts)
        texts = _texts(options.queries + _WARM_UP, words, 10**9)
        for policy in options.policy or POLICIES:
            for length in _LENGTHS:
                queries = [" ".join(text.split()[:length]) for text in texts]
                for did, pairs in sorted(_measure(ctx, queries, policy, options.gate).items()):
                    over = statistics.median(on - off for off, on in pairs)
                    share = statistics.median(on / off for off, on in pairs) - 1
                    plain = statistics.median(off for off, _ in pairs)
                    print(
                        f"{policy}, {length} words, {did}: {len(pairs)} queries, "
                        f"{over:+.3f} ms, {share:+.1%} of {plain:.2f} ms"
                    )


if __name__ == "__main__":
    main()
