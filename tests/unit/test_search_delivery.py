"""``search`` and ``recall`` in two parts: what is stable stands in the text, the rest is a tool to read with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import powerctx_core as powerctx
from powerctx_core import ContextPack, InvalidRequest, Item, SearchRequest, wire
from powerctx_core.cli.program import program
from powerctx_core.page import page
from powerctx_core.text.tokens import O200k

S = "project:demo"


def note(name: str, text: str, **fields: Any) -> Item:
    """Return an item of the memory family."""
    return Item(**{"scope_id": S, "artifact_id": name, "text": text, **fields})


def kept(count: int) -> list[Item]:
    """Return so many principles and raw records about walruses."""
    return [
        each
        for n in range(count)
        for each in (
            note(f"rule{n}", f"Walrus principle {n}: never wake it. " + f"Reason {n} follows. " * 20, layer="L3"),
            note(f"chat{n}", f"Walrus record {n}: the tide table {n * 37} was read. " + "And more. " * 60, layer="L0"),
        )
    ]


@pytest.fixture
def ctx() -> Iterator[powerctx.Context]:
    """Give a store in memory with five of both."""
    with powerctx.open("memory://", plugins=(), settings={}) as opened:
        opened.put(kept(5))
        yield opened


def pack(ctx: powerctx.Context, **parameters: Any) -> ContextPack:
    """Return a pack."""
    found = ctx.search("walrus", **{"scope_id": S, "mode": "context", **parameters})
    assert isinstance(found, ContextPack)
    return found


def listed(found: ContextPack) -> set[str]:
    """Return the artifact ids of what is to be read."""
    assert found.tools is not None
    return {each.address.artifact_id for each in found.tools.items}


def test_what_is_stable_is_injected_and_the_rest_is_a_tool(ctx: powerctx.Context) -> None:
    """Every item of a list is read by its URI; both parts are told, and what they cost."""
    found = pack(ctx, delivery="split", inject_max_tokens=600)

    assert {entry.address.artifact_id for entry in found.entries} == {f"rule{n}" for n in range(5)}
    assert listed(found) == {f"chat{n}" for n in range(5)}
    assert found.tools is not None
    assert found.inject == found.rendered
    assert "Walrus record" not in found.rendered
    assert found.tools.mcp() is not None
    for each in found.tools.items:
        assert f"- {each.address.uri}: {each.abstract}\n" in found.tools.description
        assert ctx.get(each.address.uri).item.text.startswith(each.abstract.removesuffix("…"))
    cost = O200k().cost
    assert found.stats.used_tokens == pytest.approx(cost(found.rendered + found.tools.description), abs=1)
    assert found.stats.split == {
        "listed": 5, "toolized": 0, "inject_max_tokens": 600,
        "inject_tokens": pytest.approx(cost(found.rendered), abs=1),
    }  # fmt: skip
    assert found.selected == (*(e.address for e in found.entries), *(each.address for each in found.tools.items))
    form = wire.to_json(found)
    assert form["inject"] == form["rendered"]
    assert {each["uri"] for each in form["tools"]["items"]} == {each.address.uri for each in found.tools.items}


def test_skills_are_stable_and_directories_are_as_their_layer(ctx: powerctx.Context) -> None:
    """A family's own layer counts where an item declares none."""
    ctx.put([note("how", "A walrus skill: how to feed it.", family="skill"), note("fact", "A walrus fact.")])
    found = pack(ctx, delivery="split")

    assert "how" in {entry.address.artifact_id for entry in found.entries}
    assert "fact" in listed(found)


def test_without_a_split_nothing_changes(ctx: powerctx.Context) -> None:
    """Delivery ``inject`` is the default, byte for byte, and none of the names of a split stands in the answer."""
    plain = pack(ctx)

    assert wire.canonical(plain) == wire.canonical(pack(ctx, delivery="inject"))
    form = wire.to_json(plain)
    assert not {"inject", "tools"} & form.keys()
    assert "split" not in form["stats"]
    assert plain.tools is None
    assert plain.inject is None


def test_recall_splits_as_search_does(ctx: powerctx.Context) -> None:
    """It has no parameter of its own."""
    split = {"delivery": "split", "inject_max_tokens": 300, "score_threshold": 0.1, "purpose": "chat"}

    assert wire.canonical(ctx.recall("walrus", scope_id=S, **split)) == wire.canonical(pack(ctx, **split))


@pytest.mark.parametrize("mode", ["list", "bootstrap"])
@pytest.mark.parametrize("parameter", [{"delivery": "inject"}, {"delivery": "split"}, {"inject_max_tokens": 100}])
def test_other_modes_have_one_part(ctx: powerctx.Context, mode: str, parameter: dict[str, Any]) -> None:
    """Presence counts, not the value, and the sentence names the mode."""
    query = None if mode == "bootstrap" else "walrus"
    with pytest.raises(InvalidRequest, match=f"has no meaning in mode {mode}; .*[.]$") as caught:
        ctx.search(query, scope_id=S, mode=mode, **parameter)

    assert caught.value.field in parameter


@pytest.mark.parametrize("max_tokens", [64, 200])
def test_a_part_without_room_leaves_its_frame_to_the_other(ctx: powerctx.Context, max_tokens: int) -> None:
    """What can be read goes before a bare URI, and what stood in the other part is counted."""
    found = pack(ctx, delivery="split", max_tokens=max_tokens, inject_max_tokens=64)
    assert found.tools is not None

    assert found.tools.items
    assert found.rendered == ""
    assert found.stats.dropped == found.stats.candidates - len(found.selected)


def test_room_that_a_list_leaves_deepens_the_text(ctx: powerctx.Context) -> None:
    """First wide over both parts, then deep in the text, up to either budget."""
    ctx.put([note("long", "The walrus rule of rules. " + "It goes on for long. " * 400, layer="L3")])
    narrow, wide = (pack(ctx, delivery="split", max_tokens=1600, inject_max_tokens=most).stats for most in (200, 1600))
    assert narrow.split is not None
    assert wide.split is not None
    assert narrow.split["listed"] == wide.split["listed"] == 5
    assert 180 <= narrow.split["inject_tokens"] <= 200  # type: ignore[operator]  # a number
    assert wide.used_tokens > 1440


def test_what_is_listed_was_not_delivered(ctx: powerctx.Context) -> None:
    """A session remembers what stood in the text: that cools; what was named to be read is named again."""
    turn = {"delivery": "split", "session_id": "s1", "dedup_turns": 5, "max_tokens": 3000}
    first, again, second = pack(ctx, turn=1, **turn), pack(ctx, turn=1, **turn), pack(ctx, turn=2, **turn)

    assert first.stats.dedup["recorded"] == len(first.entries) == 5
    assert again.rendered == first.rendered
    assert listed(second) == listed(first)
    assert second.rendered == ""
    assert second.stats.cooled == 5
    assert second.stats.outcome == "delivered"


def test_what_was_delivered_whole_is_not_listed_in_the_next_turn(ctx: powerctx.Context) -> None:
    """The agent has it already."""
    turn = {"session_id": "s1", "dedup_turns": 5, "max_tokens": 3000}
    first, second = pack(ctx, turn=1, **turn), pack(ctx, turn=2, delivery="split", **turn)

    assert len(first.entries) == 10
    assert second.selected == ()
    assert second.tools is not None
    assert second.tools.mcp() is None


def test_receipts_and_explanations_tell_of_both_parts(ctx: powerctx.Context) -> None:
    """What is listed is of the part ``tools``; what found no room there is ``toolized``."""
    ctx.put([note("short", "Walrus.", layer="L3")])
    request = SearchRequest(
        query="walrus", scope_id=S, mode="context", delivery="split", max_tokens=170, inject_max_tokens=100,
        include_receipt=True,
    )  # fmt: skip
    found = ctx.explain(request)
    response, receipt = found.response, found.receipt
    assert isinstance(response, ContextPack)
    assert receipt is not None
    assert response.stats.split is not None

    assert response.entries
    assert listed(response)
    assert receipt.split
    assert receipt.addresses == response.selected
    assert [each.part for each in receipt.selected] == [
        *("inject" for _ in response.entries), *("tools" for _ in listed(response))
    ]  # fmt: skip
    toolized = sum(each.count for each in receipt.omitted if each.reason == "toolized")
    assert toolized == response.stats.split["toolized"] > 0
    budgets = {each.unit: (each.requested, each.used) for each in receipt.budgets}
    assert budgets == {
        "tokens": (170, response.stats.used_tokens), "inject_tokens": (100, response.stats.split["inject_tokens"])
    }  # fmt: skip
    fates = {each.address.artifact_id: each.fate for each in found.candidates}
    assert {name for name, fate in fates.items() if fate == "listed"} == listed(response)
    assert sum(fate == "toolized" for fate in fates.values()) == toolized
    assert "The tool, with" in page(found)


def test_a_gate_judges_both_parts(ctx: powerctx.Context) -> None:
    """A line is as long as any may be: that it is cut presses nothing."""
    ctx.put([note(f"tail{n}", f"Walrus {n}. " + "word " * 90, layer="L0") for n in range(3)])
    found = pack(ctx, delivery="split", gate="v2", max_tokens=8000)

    assert found.stats.gate is not None
    assert found.stats.gate.truncated_items == sum(entry.cut for entry in found.entries)


def test_command_line(tmp_path: Path) -> None:
    """Both commands, and ``explain``, take the options; the line says what is to be read, and JSON holds it."""
    store = f"sqlite:///{tmp_path / 'store.db'}"
    with powerctx.open(store) as ctx:
        ctx.put(kept(2))
    run = CliRunner().invoke
    split = ["--scope", S, "--store", store, "--delivery", "split", "--inject-max-tokens", "300"]
    shown = run(program, ["search", "walrus", "--mode", "context", *split])
    assert shown.exit_code == 0, shown.output
    assert "2 items to read by a tool (--json shows it)" in shown.stderr
    assert "Walrus record" not in shown.stdout

    told = run(program, ["recall", "walrus principle record", "--json", *split])
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["tools"]["mcp"]["name"] == "powerctx_read"

    explained = run(program, ["explain", "walrus", "--mode", "context", *split])
    assert explained.exit_code == 0, explained.output
    assert "listed" in explained.stdout or "abstract" in explained.stdout

    refused = run(program, ["search", "walrus", *split])
    assert refused.exit_code == 2
    assert "delivery has no meaning in mode list; it is for mode context." in refused.stderr
