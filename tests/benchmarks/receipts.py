"""Time and size of receipts: of real calls over the packaged sample, with at most 8 and at most 64 entries.

    python tests/benchmarks/receipts.py
    python tests/benchmarks/receipts.py --runs 500

Prints the median and the least time of making a receipt of each version from what is known of a call, and its bytes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import powerctx_core as powerctx
from powerctx_core import sample, wire
from powerctx_core.account.telling import receipt_of
from powerctx_core.ingest import Reader
from powerctx_core.recall.stages import Stages

_ENTRIES = (8, 64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="receipts made of each kind")
    runs = parser.parse_args().runs
    with powerctx.open("memory://", settings={}, plugins=()) as ctx, sample.items().open("rb") as file:
        ctx.put(list(Reader(families=frozenset({"memory"})).records(file, "items.jsonl")))
        print(f"{'entries':>8}  {'version':>8}  {'bytes':>7}  {'median ms':>10}  {'least ms':>9}")
        for entries in _ENTRIES:
            request = powerctx.PrepareRequest(
                query="What do we know about alerts, gateways and the nightly export of device data?",
                scope_id=sample.SCOPE,
                max_items=entries,
                max_bytes=32768,
            )
            account = ctx._asking.engine._account(request, None, Stages(wanted=True))
            for version in (1, 2):
                times = []
                for _ in range(runs):
                    start = time.perf_counter()
                    receipt = receipt_of(account, version)
                    times.append((time.perf_counter() - start) * 1000)
                    if receipt is None:
                        break
                size = 0
                if receipt is not None:
                    form = wire.to_json(receipt)
                    size = len(json.dumps(form, ensure_ascii=False, separators=(",", ":")).encode())
                shown = (f"{statistics.median(times):.3f}", f"{min(times):.3f}") if size else ("none", "none")
                number = len(account.answer.selected)
                print(f"{number:8}  {version:8}  {size:7}  {shown[0]:>10}  {shown[1]:>9}")


if __name__ == "__main__":
    main()
