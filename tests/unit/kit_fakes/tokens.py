"""Token estimators whose prices do not add up."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from kit_fakes.faults import declare
from powerctx_core import TokenEstimatorSpec

__all__: list[str] = []


def fields(name: str) -> dict[str, Any]:
    """Return what the subclass of the contract declares."""
    import pytest

    return {
        "plugins": ("broken",),
        "patience_s": 2.0,
        "estimator_name": pytest.fixture(lambda self: f"broken-{name}"),
    }


def price(text: str) -> float:
    """Return an honest price: a quarter of a token for each byte that is not white space."""
    return sum(len(word.encode()) for word in text.split()) / 4


class Whole:
    """An honest estimator."""

    def __init__(self, settings: Any) -> None:
        pass


def broken(*fails: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the decorated function as a fault: it gets the estimator and a text."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__.replace("_", "-")
        made = type("Broken", (Whole,), {"cost": function})
        record = TokenEstimatorSpec(name=f"broken-{name}", factory=made, about="broken")
        declare(function, fails, "tokens:TokenEstimatorContract", record=record, fields=partial(fields, name))
        return function

    return decorate


@broken("test_cost_is_a_number", "test_hostile_cost")
def is_negative(estimator, text):
    """A short text costs less than nothing."""
    return price(text) if "\n" in text or len(text) > 20 or text == "" else price(text) - 5


@broken("test_cost_of_nothing", "test_costs_add_up", "test_costs_add_up_in_long_texts")
def has_a_base(estimator, text):
    """Every text costs three tokens more."""
    return price(text) + 3


@broken("test_cost_of_something")
def counts_words(estimator, text):
    """Signs that are no words cost nothing."""
    return sum(len(word) for word in text.split() if any(sign.isalnum() for sign in word)) / 4


@broken("test_costs_add_up_in_long_texts")
def has_a_cap(estimator, text):
    """No text costs more than eight thousand tokens."""
    return min(8000.0, price(text))


@broken("test_costs_add_up", "test_costs_add_up_in_long_texts")
def rounds_up(estimator, text):
    """Prices are whole."""
    return float(-(-price(text) // 1))


COUNT = itertools.count()


@broken(
    "test_costs_add_up",
    "test_costs_add_up_in_long_texts",
    "test_costs_at_once",
    "test_same_cost_again",
    "test_same_cost_in_another_instance",
)
def learns(estimator, text):
    """Prices change as time goes by."""
    estimator.asked = getattr(estimator, "asked", 0) + 1
    return price(text) * (1 + estimator.asked / 1e6)


@broken("test_same_cost_in_another_instance")
def differs_by_instance(estimator, text):
    """Each instance has prices of its own."""
    if not hasattr(estimator, "factor"):
        estimator.factor = 1 + next(COUNT) / 100
    return price(text) * estimator.factor


@broken("test_hostile_cost")
def fears_emoji(estimator, text):
    """Many joined emoji are an error."""
    if text.count("\u200d") > 50:
        raise ValueError("surrogates not allowed")
    return price(text)


@broken("test_cost_of_long_text")
def is_slow(estimator, text):
    """A long text without a blank takes for ever."""
    if len(text) > 500_000 and " " not in text:
        time.sleep(4)
    return price(text)


@broken("test_costs_at_once")
def shares_its_state(estimator, text):
    """The text of a call is kept where another call finds it."""
    estimator.text = text
    if threading.active_count() > 4:
        time.sleep(0.0001)
    return price(estimator.text)


@broken("test_budget_holds", "test_costs_add_up", "test_costs_add_up_in_long_texts")
def lines_cost_more(estimator, text):
    """Every line makes all others dearer."""
    return price(text) * (1 + text.count("\n") / 100)
