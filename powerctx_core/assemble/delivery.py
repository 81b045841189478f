"""Delivery in two parts: what is stable goes into the text, the rest is listed for the agent to read.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from powerctx_core.assemble.budget import Budget, Meter, utf8_bytes
from powerctx_core.assemble.fit import Plan, check_pieces, fill, used
from powerctx_core.assemble.forms import Forms
from powerctx_core.assemble.layers import STABLE, layer_of
from powerctx_core.assemble.part import Part, Refusal, rooms
from powerctx_core.ports import Renderer, Selection
from powerctx_core.render.tool_lines import ToolLines
from powerctx_core.text.cut import derived_abstract
from powerctx_core.types import Address, Candidate, Hit, Readable, ToolList

__all__ = ["line_of", "listing", "plan_split", "readable"]

_LINE_BYTES = 200
"""Longest abstract in a list of tools, UTF-8 bytes."""


def plan_split(
    hits: Sequence[Hit],
    budget: Budget,
    *,
    meters: Sequence[Meter],
    inject_meters: Sequence[Meter],
    renderer: Renderer,
    selection: Selection,
    layers: Mapping[str, str],
    shown: Callable[[Hit], Candidate],
) -> Plan:
    """Choose entries for both parts, in the order given; each takes from what the ones before it left.

    Args:
        hits: best first.
        budget: limits on the number of entries, over both parts.
        meters: budgets that text and list share.
        inject_meters: budgets of the text alone.
        renderer: of the text.
        selection: what it may know.
        layers: family -> layer of its items that declare none.
        shown: returns what a renderer sees of a hit.

    Raises:
        PlanInvariantError: the renderer breaks its promises.
    """
    shared = rooms(meters)
    text = Part(renderer, selection, [*shared, *rooms(inject_meters)], budget.item_bytes)
    listed = Part(ToolLines(), selection, shared, _LINE_BYTES)
    over = text.over()

    def take(hit: Hit) -> Refusal | None:
        candidate = shown(hit)
        if layer_of(hit, layers) in STABLE:
            return text.take(candidate)
        return None if listed.take(_line(candidate)) is None else Refusal("toolized")

    left = fill(hits, budget, take)
    check_pieces(text)
    costs = used(meters, (text.text or "") + (listed.text or ""))
    costs |= {f"inject_{unit}": cost for unit, cost in used(inject_meters, text.text or "").items()}
    tools = ToolList(
        items=tuple(readable(entry.candidate.address, entry.piece) for entry in listed.entries),
        description=listed.text or "",
    )
    return Plan(
        text=text.text,
        entries=tuple(text.entries),
        left=left,
        used=costs,
        frame_over=over,
        tools=tools,
        listed=tuple(listed.entries),
    )


def _line(candidate: Candidate) -> Candidate:
    """Return the candidate with one line about it in place of its text."""
    raw = candidate.hit.candidate if candidate.hit is not None else None
    line = line_of(None if raw is None else raw.abstract, candidate.text)
    return attrs.evolve(candidate, text=line, body_bytes=utf8_bytes(line))


def listing(forms: Forms) -> Forms:
    """Return how the list beside a text of *forms* is rendered and priced."""
    return attrs.evolve(forms, renderer=ToolLines(), item_bytes=_LINE_BYTES)


def line_of(abstract: str | None, text: str) -> str:
    """Return the line about an item: its *abstract*, or what its *text* begins with."""
    return " ".join((abstract or derived_abstract(text)).split())


def readable(address: Address, piece: str) -> Readable:
    """Return what can be read at *address*, with its abstract as *piece*, its line, shows it."""
    return Readable(address=address, abstract=piece.removeprefix(f"- {address.uri}: ").removesuffix("\n"))
