"""What the tags of a search pack cost, by the tokenizer itself."""

from __future__ import annotations

import powerctx_core as powerctx
from powerctx_core import Item
from powerctx_tokenizers import counters


def test_an_entry_costs_at_most_25_tokens_beside_its_text():
    """With derived ids: the tags of an entry, its URI, type and detail, counted in the whole text."""
    cost = counters.O200k().cost
    texts = [f"Walrus {number} was seen at the pier." for number in range(40)]
    with powerctx.open("memory://", plugins=("tokenizers",), settings={"tokens.estimator": "o200k-exact"}) as ctx:
        ctx.put([Item(scope_id="project:demo", text=text, category="events") for text in texts])
        pack = ctx.search("walrus", scope_id="project:demo", mode="context", max_tokens=8000)
    bodies = sum(cost(f"{entry.text}\n") for entry in pack.entries)
    frame = cost(pack.rendered.split("\n", 1)[0] + "\n") + cost("</powerctx-context>\n")

    assert len(pack.entries) == 40
    assert cost(pack.rendered) == pack.stats.used_tokens
    assert (cost(pack.rendered) - bodies - frame) / len(pack.entries) <= 25
