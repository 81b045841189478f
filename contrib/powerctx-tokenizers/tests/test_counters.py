"""The counters count as their tokenizers do, and take any text."""

from __future__ import annotations

import pytest

import powerctx_core as powerctx
from powerctx_tokenizers import counters

NAMES = {"O200k": "o200k-exact", "Cl100k": "cl100k-exact", "Qwen": "qwen-exact", "Llama3": "llama3-exact",
         "DeepSeek": "deepseek-exact"}  # fmt: skip
HOSTILE = (
    "",
    "\x00",
    "\ud800 lone",
    "👩\u200d👩\u200d👧\u200d👦" * 50,
    "\u202eabc",
    "字" * 5000,
    "a" * 5000,
    "\n" * 500,
)


@pytest.mark.parametrize("name", NAMES)
def test_any_text(name):
    """Every text has a whole number of tokens, none has none."""
    counter = getattr(counters, name)()

    for text in HOSTILE:
        assert (counter.cost(text) == 0) == (text == "")
        assert counter.cost(text).is_integer()


@pytest.mark.parametrize(("name", "count"), [("O200k", 9), ("Cl100k", 9), ("Qwen", 9), ("Llama3", 9), ("DeepSeek", 9)])
def test_known(name, count):
    """A plain sentence of nine words and a full stop costs what each vocabulary is known to make of it."""
    assert getattr(counters, name)().cost("The weather in Paris is nice this week.") == count


@pytest.mark.parametrize("name", NAMES)
def test_control_tokens_are_text(name):
    """What looks like a control token of a model is not counted as one token."""
    text = "<|endoftext|><|im_end|><|eot_id|><｜end▁of▁sentence｜>"

    assert getattr(counters, name)().cost(text) > 12


@pytest.mark.parametrize("part", NAMES.values())
def test_budget(part):
    """A budget in exact tokens holds on the delivered text, and more than nine tenths of it are used."""
    items = [
        powerctx.Item(
            scope_id="s", text=f"Note {n}: we moved service {n} to 数据库 {n} because {n * 7919} requests failed."
        )
        for n in range(60)
    ]
    with powerctx.open("memory://", settings={"tokens": {"estimator": part}}) as ctx:
        ctx.put(items)
        prepared = ctx.prepare("Why did we move the service?", scope_id="s", max_tokens=600, max_items=64)
        counter = ctx.host.part("powerctx_token_estimators", part)

    assert 540 <= counter.cost(prepared.content) <= 600
