"""Split delivery: what is stable stands in the text, the rest is a tool to read with; both within the budgets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

import powerctx_core as powerctx
from powerctx_core import FamilySpec, InvalidRequest, Item, RendererSpec, hookimpl
from powerctx_core.text.tokens import O200k
from powerctx_core.wire import to_json

_STORED = "powerctx_core.families:StoredFamily"


class _Late:
    """A renderer that is not done in time."""

    def __init__(self, settings: object) -> None:
        import time

        time.sleep(0.5)


class _Plugin:
    @hookimpl
    def powerctx_families(self) -> Iterator[FamilySpec]:
        yield FamilySpec(name="rule", factory=_STORED, title="Rules", layer="L3")
        yield FamilySpec(name="log", factory=_STORED, layer="L0")

    @hookimpl
    def powerctx_renderers(self) -> Iterator[RendererSpec]:
        yield RendererSpec(name="late", factory=_Late)


@pytest.fixture
def ctx() -> Iterator[powerctx.Context]:
    """Notes of every layer, by item and by family."""
    settings = {"recall": {"families": ["memory", "rule", "log"]}}
    with powerctx.open("memory://", plugins=(), extra=[_Plugin()], settings=settings) as ctx:
        ctx.put(
            [
                Item(scope_id="s", artifact_id="fact", text="The release is on Tuesday.\nIt was on Friday."),
                Item(scope_id="s", artifact_id="scene", text="How a release goes: backup, tag, publish.", layer="L2"),
                Item(scope_id="s", artifact_id="rule", text="Never release on Friday.", layer="L3"),
                Item(scope_id="s", artifact_id="raw", text="chat: release now? no.", layer="L0"),
                Item(scope_id="s", family="rule", artifact_id="me", text="Release engineer in Taipei."),
                Item(scope_id="s", family="rule", artifact_id="day", text="Asked about the release.", layer="L0"),
                Item(
                    scope_id="s",
                    family="log",
                    artifact_id="l",
                    text="release 1.2 failed",
                    abstract="A\nfailed\tone\x1b.",
                ),
            ]
        )
        yield ctx


def _parts(prepared: powerctx.PreparedContext) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {"inject": set(), "tools": set()}
    for item in prepared.diagnostics.items:
        found[item.part].add(item.address.artifact_id)
    return found


def test_layers_decide(ctx: powerctx.Context) -> None:
    """L2 and L3 are injected, L0 and L1 are listed; an item's layer beats its family's."""
    prepared = ctx.prepare("release", scope_id="s", delivery="split")

    assert {"inject": {"scene", "rule", "me"}, "tools": {"fact", "raw", "day", "l"}} == _parts(prepared)
    assert prepared.content == prepared.inject
    assert ("ready", "delivered") == (prepared.status, prepared.diagnostics.outcome)
    assert prepared.tools is not None
    assert {"fact", "raw", "day", "l"} == {each.address.artifact_id for each in prepared.tools.items}
    assert "Tuesday" not in str(prepared.content)


def test_what_is_listed_can_be_read(ctx: powerctx.Context) -> None:
    """Every URI of the list names an exact revision, and its line is what the list says of it."""
    tools = ctx.prepare("release", scope_id="s", delivery="split").tools
    assert tools is not None

    lines = tools.description.split("\n")[1:-1]
    assert len(lines) == len(tools.items)
    for line, readable in zip(lines, tools.items, strict=True):
        assert f"- {readable.address.uri}: {readable.abstract}" == line
        assert ctx.get(readable.address.uri).address == readable.address
    shown = {each.address.artifact_id: each.abstract for each in tools.items}
    assert "The release is on Tuesday." == shown["fact"]
    assert "A failed one\\u001b." == shown["l"]


def test_the_tool_has_the_shapes_that_hosts_take(ctx: powerctx.Context) -> None:
    """One name, description and schema, as MCP lists tools and as OpenAI's chat completions take them."""
    tools = ctx.prepare("release", scope_id="s", delivery="split").tools
    assert tools is not None
    mcp, openai = tools.mcp(), tools.openai()
    assert mcp is not None
    assert openai is not None

    assert {"name", "description", "inputSchema"} == mcp.keys()
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", mcp["name"])
    assert {"type": "function", "function": {"name", "description", "parameters"}} == {
        "type": openai["type"],
        "function": openai["function"].keys(),
    }
    assert (mcp["name"], mcp["description"], mcp["inputSchema"]) == tuple(openai["function"].values())
    assert ("object", ["uri"], False) == tuple(
        mcp["inputSchema"][key] for key in ("type", "required", "additionalProperties")
    )
    assert json.loads(json.dumps([mcp, openai])) == [mcp, openai]


def test_four_keys_unless_asked(ctx: powerctx.Context) -> None:
    """The default response has its four keys; a split one has two more, also when it is empty."""
    four = {"schema", "status", "content", "content_bytes"}
    whole = ctx.prepare("release", scope_id="s")

    assert four == to_json(whole).keys()
    assert (None, None) == (whole.inject, whole.tools)
    for query, more in (
        ("release", {}),
        ("zebra", {}),
        ("release", {"sections": []}),
        ("release", {"families": ["log"]}),
    ):
        prepared = ctx.prepare(query, scope_id="s", delivery="split", **more)
        response = to_json(prepared)
        assert four | {"inject", "tools"} == response.keys()
        assert response["content"] == response["inject"]
        assert {"items", "mcp", "openai"} == response["tools"].keys()
        assert (response["tools"]["mcp"] is None) == (response["tools"]["items"] == [])


def test_a_list_without_a_text_is_delivered(ctx: powerctx.Context) -> None:
    """Where nothing is stable the content is empty, and the outcome is still ``delivered``."""
    prepared = ctx.prepare("release", scope_id="s", families=["log"], delivery="split")

    assert ("empty", None, 0) == (prepared.status, prepared.content, prepared.content_bytes)
    assert "delivered" == prepared.diagnostics.outcome
    assert {"l"} == _parts(prepared)["tools"]


def test_both_parts_share_the_budgets(ctx: powerctx.Context) -> None:
    """Bytes, characters, tokens and items hold for text and description together."""
    cost = O200k().cost
    for size in (512, 600, 700, 900, 1200, 2000):
        for limits in ({"max_bytes": size}, {"max_chars": size}, {"max_tokens": size // 4}, {"max_items": 3}):
            prepared = ctx.prepare("release", scope_id="s", delivery="split", **limits)
            assert prepared.tools is not None
            both = (prepared.content or "") + prepared.tools.description
            assert len(both.encode()) <= limits.get("max_bytes", 1 << 20)
            assert len(both) <= limits.get("max_chars", 1 << 20)
            assert cost(both) <= limits.get("max_tokens", 1 << 20) + 1e-6
            assert len(prepared.selected) <= limits.get("max_items", 8)


def test_a_second_budget_bounds_the_text_alone(ctx: powerctx.Context) -> None:
    """``inject_max_tokens`` bounds what enters the prompt; what is listed does not count against it."""
    free = ctx.prepare("release", scope_id="s", delivery="split")
    tight = ctx.prepare("release", scope_id="s", delivery="split", inject_max_tokens=64)

    assert O200k().cost(tight.content or "") <= 64
    assert len(_parts(tight)["inject"]) < len(_parts(free)["inject"])
    assert _parts(tight)["tools"] == _parts(free)["tools"]


def test_what_the_list_drops_is_toolized(ctx: powerctx.Context) -> None:
    """Items that find no room in the list are counted as ``toolized``."""
    ctx.put([Item(scope_id="s", artifact_id=f"x{n}" * 20, text=f"release {n} " + "word " * 60) for n in range(12)])
    prepared = ctx.prepare("release", scope_id="s", delivery="split", max_bytes=1000, max_items=64)
    omitted = dict(prepared.diagnostics.omitted)

    assert omitted["toolized"] > 0
    assert "delivered" == prepared.diagnostics.outcome


def test_sections_and_value(ctx: powerctx.Context) -> None:
    """Split delivery keeps the order of sections and of value, and headings stand over what is injected alone."""
    sections = [{"family": "rule", "limit": 2}, {"family": "memory", "limit": 4}]
    prepared = ctx.prepare("release", scope_id="s", sections=sections, delivery="split", trim="value")

    assert 2 == str(prepared.content).count("\n## ")
    assert str(prepared.content).index("## Rules") < str(prepared.content).index("## Memory")
    assert {"inject": {"scene", "rule", "me"}, "tools": {"fact", "raw", "day"}} == _parts(prepared)
    assert prepared.diagnostics.trimming is not None


def test_a_renderer_that_is_late_leaves_an_empty_list(ctx: powerctx.Context) -> None:
    """What is not ready by the deadline is not delivered in either part; the keys are those of a split delivery."""
    prepared = ctx.prepare("release", scope_id="s", delivery="split", renderer="late", deadline_ms=60)

    assert "deadline" == prepared.diagnostics.outcome
    assert {"inject", "tools"} <= to_json(prepared).keys()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"delivery": "tools"}, "delivery is 'tools'; it must be inject or split"),
        ({"inject_max_tokens": 100}, "inject_max_tokens needs delivery split"),
        ({"inject_max_tokens": 63, "delivery": "split"}, "from 64 to 32000"),
    ],
)
def test_refused(ctx: powerctx.Context, parameters: dict[str, object], message: str) -> None:
    """What is wrong is named, with what is allowed."""
    with pytest.raises(InvalidRequest, match=message):
        ctx.prepare("release", scope_id="s", **parameters)
