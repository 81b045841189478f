"""Token estimators: prices that add up over lines, so that a budget holds on the final text."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import hypothesis
import pytest
from hypothesis import strategies as st

from powerctx_core.opening import open as open_context
from powerctx_core.ports import TokenEstimator
from powerctx_core.testing.contract import agree
from powerctx_core.testing.contracts.part import PartContract
from powerctx_core.types import Item

__all__ = ["TokenEstimatorContract"]

SLACK = 1e-9
"""What sums of floats may differ by; core allows no more when it checks the final text."""
MEBIBYTE = 1 << 20
STARTS = ("{", "<", "[1] ", "- ", "a", "北")
WORDS = (
    "release", "the", " ", "  ", "\t", "\n", "\n\n", "北京大学", "火锅", "かな", "한국어", "C++", "x_y",
    "0123456789", "3.14", "a1b2c3d4e5f6", '{"ref":["memory","a",1]}', "</entry>", "😀", "👩‍👩‍👧‍👦", "\u0301",
    "\x00", "\u2028", "…", "?!", "привет", "مرحبا", "<|endoftext|>", "\\n", "'", '"',
)  # fmt: skip
BODY = st.lists(st.sampled_from(WORDS) | st.text(max_size=8), max_size=8).map("".join)
PIECES = st.lists(st.builds("{}{}\n".format, st.sampled_from(STARTS), BODY), max_size=12)
"""Pieces as renderers make them: they end in a newline, and do not begin with white space, which a tokenizer would
join to the newline before."""
HOSTILE = (
    "\x00", "\x01\x1b[31m\x7f\x85", "\ufeff", "\u202eevil\u202c", "\u2028", "\u0301" * 1000, "👩‍👩‍👧‍👦" * 100,
    "🇩🇪", "\U0010ffff", "\ue000", "\ufffd", "\r", "\r\n" * 100, " " * 5000, "\n" * 5000, "<|endoftext|>",
    "<s></s>", "0" * 5000, "{" * 5000, "مرحبا", "שלום", "null", "nan", "a\x00b",
)  # fmt: skip
VISIBLE = ("a", "word", "7", "?", "{", "北", "か", "한", "é", "😀", "ж", "ع", "\u0301a")
LONG: Mapping[str, str] = {
    "one word": "a" * MEBIBYTE,
    "digits": "0123456789" * (MEBIBYTE // 10),
    "marks": "?!{}" * (MEBIBYTE // 4),
    "spaces": " " * MEBIBYTE,
    "lines": "\n" * MEBIBYTE,
    "English": "We chose SQLite because a single file needs no server. " * (MEBIBYTE // 55),
    "Chinese": "他在北京大学读书，周末喜欢吃火锅。" * (MEBIBYTE // 51),
    "emoji": "😀" * (MEBIBYTE // 4),
}
TEXTS = (
    "a",
    "We chose SQLite.\n",
    "他在北京大学读书。",
    '{"ref":["memory","a",1],"text":"7 + 1"}\n',
    "😀 release\n" * 50,
    "",
)

DELIVERED = (
    "We chose SQLite because a single file needs no server. " * 4,
    "他在北京大学读书，周末喜欢吃火锅。" * 6,
    '{"ref": ["memory", "a", 1], "size": 1048576, "hash": "9f86d081884c7d65"}',
    "😀 it works 👩‍👩‍👧‍👦.\nA second line, and a third:\n\n  * one\n  * two",
)


class TokenEstimatorContract(PartContract):
    """What every token estimator must hold to.

    The subclass gives the fixture :meth:`estimator_name`.  An estimator may be wrong about a text, but not about sums:
    a budget is planned piece by piece, and holds on the final text when prices of pieces add up.

    Attributes:
        settings: as in ``powerctx.toml``.
        plugins: entry-point names of the only plugins to load; ``None`` loads all that are installed.
        extra: plugin modules or objects that are not installed.
        patience_s: how long a text of a mebibyte may take.
    """

    guide = "docs/plugins/token-estimators.md#test-it"
    hook = "powerctx_token_estimators"
    patience_s: ClassVar[float] = 10.0

    @pytest.fixture
    def estimator_name(self) -> str:
        """Give the name of the installed estimator under test."""
        raise NotImplementedError(f"{type(self).__name__} needs a fixture estimator_name that returns a part's name")

    @pytest.fixture
    def estimator(self, shared: Callable[[str], TokenEstimator], estimator_name: str) -> TokenEstimator:
        """Give the estimator."""
        return shared(estimator_name)

    @pytest.fixture
    def examples(self, request: pytest.FixtureRequest) -> hypothesis.settings:
        """Give settings for seeded examples, more of them by ``--conformance-examples``."""
        factor: int = request.config.getoption("conformance_examples")
        return hypothesis.settings(
            max_examples=100 * factor,
            derandomize=True,
            deadline=None,
            database=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )

    def test_cost_is_a_number(self, estimator: TokenEstimator, examples: hypothesis.settings) -> None:
        """A price is a finite number from 0 up, whatever the text."""

        @examples
        @hypothesis.given(BODY)
        def check(text: str) -> None:
            cost = estimator.cost(text)
            assert isinstance(cost, int | float)
            assert 0 <= cost < math.inf

        check()

    def test_cost_of_nothing(self, estimator: TokenEstimator) -> None:
        """Nothing costs nothing."""
        agree("cost of nothing", 0, estimator.cost(""))

    def test_cost_of_something(self, estimator: TokenEstimator) -> None:
        """No line with something visible is free, or a budget would not end."""
        agree("lines that are free", [], [text for text in VISIBLE if estimator.cost(f"{text}\n") <= 0])

    def test_costs_add_up(self, estimator: TokenEstimator, examples: hypothesis.settings) -> None:
        """A text costs what its newline-ended pieces cost together."""

        @examples
        @hypothesis.given(PIECES)
        def check(pieces: list[str]) -> None:
            together = math.fsum(estimator.cost(piece) for piece in pieces)
            agree(
                f"cost of {''.join(pieces)!r}",
                pytest.approx(together, rel=0, abs=SLACK),
                estimator.cost("".join(pieces)),
            )

        check()

    def test_costs_add_up_in_long_texts(self, estimator: TokenEstimator) -> None:
        """So it does over thousands of lines: no price is capped, and none depends on how much stands around."""
        for piece in ("a line of words\n", '{"n":12345}\n', "他在北京大学读书。\n"):
            expected = pytest.approx(4000 * estimator.cost(piece), rel=1e-9)
            agree(f"cost of 4000 times {piece!r}", expected, estimator.cost(piece * 4000))

    def test_same_cost_again(self, estimator: TokenEstimator) -> None:
        """The same text has the same price, asked again, in any order."""
        costs = [estimator.cost(text) for text in TEXTS]

        agree("costs in reverse", costs[::-1], [estimator.cost(text) for text in reversed(TEXTS)])

    def test_same_cost_in_another_instance(
        self, estimator: TokenEstimator, fresh: Callable[[str], TokenEstimator], estimator_name: str
    ) -> None:
        """So has another instance."""
        other = fresh(estimator_name)

        agree(
            "costs of another instance", [estimator.cost(text) for text in TEXTS], [other.cost(text) for text in TEXTS]
        )

    def test_hostile_cost(self, estimator: TokenEstimator) -> None:
        """Whatever characters a text has, it has a price."""
        priceless = [ascii(text[:9]) for text in HOSTILE if not 0 <= estimator.cost(text) < math.inf]

        agree("texts without a price", [], priceless)

    @pytest.mark.parametrize("kind", LONG)
    def test_cost_of_long_text(self, estimator: TokenEstimator, kind: str) -> None:
        """A text of a mebibyte has a price, soon."""
        costs: list[float] = []
        thread = threading.Thread(target=lambda: costs.append(estimator.cost(LONG[kind])), daemon=True)
        thread.start()
        thread.join(self.patience_s)

        assert not thread.is_alive(), f"still busy after {self.patience_s} s"
        assert costs

    def test_costs_at_once(self, estimator: TokenEstimator) -> None:
        """Callers on several threads get the prices of their own texts."""
        alone = [estimator.cost(text) for text in TEXTS]
        barrier = threading.Barrier(8)

        def ask(start: int) -> bool:
            barrier.wait(60)
            places = [(start + step) % len(TEXTS) for step in range(200)]
            return all(estimator.cost(TEXTS[place]) == alone[place] for place in places)

        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(ask, range(8))) == [True] * 8

    def test_budget_holds(self, estimator: TokenEstimator, estimator_name: str) -> None:
        """A pack priced by it never costs more than its budget, whatever the budget, and uses it."""
        settings = {**self.settings, "tokens": {"estimator": estimator_name}}
        items = [Item(scope_id="s", text=f"Release {n}: {text}") for n, text in enumerate(DELIVERED * 5)]
        with open_context("memory://", settings=settings, plugins=self.plugins, extra=self.extra) as ctx:
            ctx.put(items)
            costs = {
                budget: estimator.cost(
                    ctx.prepare("release", scope_id="s", max_tokens=budget, max_items=64).content or ""
                )
                for budget in (64, 100, 200, 400, 800, 1600)
            }

        over = {budget: cost for budget, cost in costs.items() if cost > budget + SLACK}

        agree("costs above their budgets", {}, over)
        assert costs[1600] > costs[200] > 0
