"""Time the planner alone: 64 candidates of 2.5 KB of Chinese, which is more than any budget holds.

    python tests/benchmarks/planning.py
    python tests/benchmarks/planning.py --runs 500

Prints the median and the least processor time of a plan for each renderer and budget, and the characters that were
escaped for each character of the candidates, which no machine changes.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time

from powerctx_core.assemble.budget import Budget, meters
from powerctx_core.assemble.fit import plan
from powerctx_core.ports import Renderer, Selection
from powerctx_core.render.flat_xml import FlatXml
from powerctx_core.render.plain import Plain
from powerctx_core.render.prepared import Prepared
from powerctx_core.render.sections import Sections
from powerctx_core.text.tokens import O200k
from powerctx_core.types import Address, Candidate

_CANDIDATES = 64
_BYTES = 2500
_SELECTION = Selection(scope_id="s", titles={"memory": "Memory"})
_BUDGETS = {
    "8 000 bytes, 8 items": Budget(max_items=8, max_bytes=8000),
    "8 000 bytes": Budget(max_items=64, max_bytes=8000),
    "32 768 bytes": Budget(max_items=64, max_bytes=32_768),
    "8 000 characters": Budget(max_items=64, max_chars=8000),
    "1 600 tokens": Budget(max_items=64, max_tokens=1600),
    "all of them": Budget(max_items=64, max_bytes=8000, max_chars=8000, max_tokens=1600),
}
"""Name -> what one plan may use."""


class _Counting:
    """A renderer that counts the characters it escapes."""

    def __init__(self, renderer: Renderer) -> None:
        self.renderer = renderer
        self.escaped = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self.renderer, name)

    def escape(self, text: str) -> str:
        self.escaped += len(text)
        return self.renderer.escape(text)


def _candidates() -> list[Candidate]:
    pick = random.Random(5)
    han = [chr(code) for code in range(0x4E00, 0x5200)]
    found = []
    for number in range(_CANDIDATES):
        text = ""
        while len(text.encode()) < _BYTES:
            text += "".join(pick.choices(han, k=pick.randint(8, 40))) + "。"
        address = Address("s", "memory", f"k3v9abcdefghi{number:03}", 1)
        found.append(Candidate(address=address, text=text, body_bytes=len(text.encode()), score=1.0))
    return found


def main() -> None:
    """Plan each combination many times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    runs = parser.parse_args().runs
    candidates = _candidates()
    characters = sum(len(candidate.text) for candidate in candidates)
    estimator = O200k()
    for name, budget in _BUDGETS.items():
        for renderer in (Prepared(), Sections(), FlatXml(), Plain()):
            seconds = []
            for _ in range(runs):
                begin = time.thread_time()
                plan(candidates, budget, meters(budget, estimator), renderer, _SELECTION)
                seconds.append(time.thread_time() - begin)
            counting = _Counting(renderer)
            found = plan(candidates, budget, meters(budget, estimator), counting, _SELECTION)  # type: ignore[arg-type]  # a renderer that counts stands in for one
            print(
                f"{name:21} {type(renderer).__name__:9} median {statistics.median(seconds) * 1000:6.2f} ms, least "
                f"{min(seconds) * 1000:6.2f} ms; {len(found.entries):2} entries; escaped "
                f"{counting.escaped / characters:.2f} of the characters"
            )


if __name__ == "__main__":
    main()
