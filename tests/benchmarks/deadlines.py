"""Time how far calls overshoot their deadline beside parts that misbehave, and what a deadline costs a call.

    python tests/benchmarks/deadlines.py                        # 500 calls a kind, 8 callers, a deadline of 100 ms
    python tests/benchmarks/deadlines.py --calls 100 --deadline-ms 300
    python tests/benchmarks/deadlines.py --paced                # a caller asks once in the time of a deadline

Each kind of family stands beside one that answers at once.  *sleeps* hangs for 10 s and is not asked again meanwhile:
most calls end early; *late* and *raises late* hang until 30 ms after each call's deadline, so that calls wait for
them as long as they may; *spins* computes in Python for the whole run; *spins late* does so until 30 ms after the
deadline of each call.  Prints percentiles of ``elapsed - deadline`` and the outcomes.

Callers ask again at once.  Beside what computes, where a part that was late is not asked until it has returned, most of
them are then through within the time of a few calls, without anything; ``--paced`` lets each ask once in the time of a
deadline, as agents do.

The cost is paired: the same question with and without a deadline, in turn, over a small store.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

import powerctx_core as powerctx
from powerctx_core import FamilySpec, Item, Pool, hookimpl
from powerctx_core.families import StoredFamily

_AFTER_S = 0.03
_LEFT_S = 0.12
_ITEMS = 200
_QUESTION = "which alpha belongs to number 7"


def _sleep(_: Any) -> None:
    time.sleep(10)


def _late(call: Any) -> None:
    time.sleep((call.deadline.remaining() or 0.0) + _AFTER_S)


def _raise_late(call: Any) -> None:
    _late(call)
    raise RuntimeError("too late")


_STOP = threading.Event()


def _spin(_: Any) -> None:
    while not _STOP.is_set():
        pass


def _spin_late(call: Any) -> None:
    end = (call.deadline.at or 0.0) + _AFTER_S
    while time.monotonic() < end:
        pass


_KINDS: dict[str, Callable[[Any], None]] = {
    "none": lambda _: None,
    "sleeps": _sleep,
    "late": _late,
    "raises late": _raise_late,
    "spins late": _spin_late,
    "spins": _spin,
}


class _Bad(StoredFamily):
    def __init__(self, spec: FamilySpec, act: Callable[[Any], None]) -> None:
        super().__init__(spec)
        self._act = act

    def retrieve(self, request: Any, call: Any) -> Pool:
        self._act(call)
        return super().retrieve(request, call)


def _opened(url: str, act: Callable[[Any], None]) -> powerctx.Context:
    spec = FamilySpec(name="bad", factory="x:y")

    class Plugin:
        @staticmethod
        @hookimpl
        def powerctx_families() -> list[FamilySpec]:
            return [attrs.evolve(spec, factory=lambda spec, settings: _Bad(spec, act))]

    context = powerctx.open(url, settings={}, plugins=("sqlite",), extra=[Plugin()])
    context.put(
        [Item(scope_id="s", artifact_id=f"i{n}", text=f"alpha and beta are of number {n}") for n in range(_ITEMS)]
    )
    context.warm()
    context.prepare(_QUESTION, scope_id="s")
    return context


def _overshoot(
    context: powerctx.Context, calls: int, callers: int, deadline_ms: int, *, paced: bool
) -> tuple[list[float], Counter[str]]:
    """Return the sorted milliseconds beyond the deadline of all calls, and their outcomes."""
    over: list[float] = []
    outcomes: Counter[str] = Counter()

    def caller() -> None:
        for _ in range(calls // callers):
            start = time.perf_counter()
            answer = context.prepare(_QUESTION, scope_id="s", families=["memory", "bad"], deadline_ms=deadline_ms)
            over.append((time.perf_counter() - start) * 1000 - deadline_ms)
            outcomes[answer.diagnostics.outcome + (" partial" if answer.diagnostics.partial else "")] += 1
            if paced:
                time.sleep(max(0.0, start + deadline_ms / 1000 - time.perf_counter()))

    threads = [threading.Thread(target=caller) for _ in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(over), outcomes


def _cost(context: powerctx.Context, calls: int) -> tuple[float, float, float]:
    """Return the median milliseconds without and with a deadline, and the median of the paired ratios."""
    plain, bounded = [], []
    for _ in range(calls):
        for times, parameters in ((plain, {}), (bounded, {"deadline_ms": 10_000})):
            start = time.perf_counter()
            context.prepare(_QUESTION, scope_id="s", **parameters)
            times.append((time.perf_counter() - start) * 1000)
    ratios = [with_ / without for with_, without in zip(bounded, plain, strict=True)]
    return statistics.median(plain), statistics.median(bounded), statistics.median(ratios)


def main() -> None:
    """Measure every kind, then the cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--callers", type=int, default=8)
    parser.add_argument("--deadline-ms", type=int, default=100)
    parser.add_argument("--paced", action="store_true")
    parser.add_argument("--kind", action="append", choices=sorted(_KINDS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for number, kind in enumerate(options.kind or _KINDS):
            with _opened(f"sqlite:///{Path(folder)}/{number}.db", _KINDS[kind]) as context:
                over, outcomes = _overshoot(
                    context, options.calls, options.callers, options.deadline_ms, paced=options.paced
                )
                _STOP.set()
            time.sleep(_LEFT_S)
            _STOP.clear()
            p50, p99 = over[len(over) // 2], over[min(len(over) - 1, int(len(over) * 0.99))]
            print(f"{kind + ':':12} over the deadline p50 {p50:+.1f} ms, p99 {p99:+.1f} ms, most {over[-1]:+.1f} ms; "
                  f"{dict(outcomes)}")  # fmt: skip
        for url in ("memory://", f"sqlite:///{Path(folder)}/cost.db"):
            with _opened(url, _KINDS["none"]) as context:
                without, with_, ratio = _cost(context, options.calls)
            print(
                f"{url.partition(':')[0]}: {without:.2f} ms, with a deadline {with_:.2f} ms, paired ratio {ratio:.2f}"
            )


if __name__ == "__main__":
    main()
