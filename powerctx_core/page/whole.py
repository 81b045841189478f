"""The whole page: one file without script, that asks for nothing."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Final

from powerctx_core.explanation import DELIVERED, ExplainedRound, Explanation
from powerctx_core.page.flow import STEPS, drawn, flow, kinds
from powerctx_core.page.items import delivered, left_out, named
from powerctx_core.page.pieces import bar, chip, details, section, table, text
from powerctx_core.page.slots import slots
from powerctx_core.page.words import EMPTY, VERDICTS, compared, floor_in_words, next_step, percent, searched, title
from powerctx_core.receipt.parts import plain
from powerctx_core.requests.search import DEFAULT_RENDERER

__all__ = ["page"]

_UNITS: Final = {
    "items": "entries",
    "bytes": "bytes",
    "chars": "characters",
    "tokens": "tokens",
    "inject_tokens": "tokens of the text alone",
}


def page(explanation: Explanation) -> str:
    """Return the page.  It holds the query and the delivered text: show it to whoever may see these.

    Every stored text is escaped, and a content policy allows nothing but the page's own style.
    """
    style = _style()
    query = title(explanation)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(style)}">'
        '<meta name="referrer" content="no-referrer"><meta name="color-scheme" content="light dark">'
        f"<title>{text(query[:80])} – powerctx explain</title><style>{style}</style></head><body>"
        '<a class="skip" href="#main">Skip to the explanation</a>'
        f'{_header(explanation, query)}<main id="main">{"".join(_sections(explanation))}</main>'
        f"{_footer(explanation)}</body></html>\n"
    )


@cache
def _style() -> str:
    return files("powerctx_core.page").joinpath("style.css").read_text("utf-8")


def _policy(style: str) -> str:
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def _header(explanation: Explanation, query: str) -> str:
    diagnostics, request = explanation.response.diagnostics, explanation.request
    fates = [each.fate for each in explanation.candidates]
    number = len(explanation.response.selected)
    facts = [
        ("scope", ", ".join([request.scope_id, *request.references])),
        *_made_by(explanation),
        ("renderer", request.renderer or DEFAULT_RENDERER),
        *(searched(explanation).items()),
    ]
    cut = fates.count("cut")
    badges = [
        chip(diagnostics.outcome, "good" if number else "bad"),
        chip(f"{number} delivered of {len(fates)} {'offered' if explanation.slots else 'retrieved'}"),
        *([chip(f"{cut} cut", "warn")] if cut else []),
        *([chip("partial", "bad")] if diagnostics.partial else []),
    ]
    told = "".join(f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd></div>" for name, value in facts)
    missing = [
        *(f"{name} was late" for name in diagnostics.late),
        *(f"{name} failed ({reason})" for name, reason in diagnostics.failed),
    ]
    alert = f'<p class="alert" role="note">{text("; ".join(missing))}.</p>' if missing else ""
    return (
        f'<header><p class="brand">powerctx <span>explain</span></p><h1 dir="auto">{text(query)}</h1>'
        f'<p class="chips">{"".join(badges)}</p>{alert}<dl class="facts">{told}</dl></header>'
    )


def _made_by(explanation: Explanation) -> list[tuple[str, str]]:
    policy = explanation.response.diagnostics.policy
    if explanation.slots:
        return [("mode", policy)]
    gate = "off" if explanation.effort is None else explanation.effort.policy_id
    return [("recall policy", policy), ("gate", gate), ("trimmed by", explanation.request.trim or "rank")]


def _sections(explanation: Explanation) -> Iterator[str]:
    colours = kinds(explanation)
    yield _empty(explanation)
    yield section("flow", "From retrieved to delivered", _rounds(explanation, colours))
    yield section("slots", "Slots", slots(explanation))
    yield section("budget", "Budget", "".join(_budgets(explanation, colours)))
    yield section("delivered", "Delivered", delivered(explanation, colours))
    yield section("left", "Left out", left_out(explanation))
    yield section("verdicts", "How the gate judged", _verdicts(explanation))
    yield section("value", "What each candidate is worth", _values(explanation))
    yield section("ran", "What ran", _searches(explanation), _stages(explanation))
    yield section("text", "What the model gets", _content(explanation))
    yield section("receipt", "Receipt", _receipt(explanation))


def _empty(explanation: Explanation) -> str:
    if explanation.response.selected:
        return ""
    receipt = explanation.receipt
    reason = explanation.response.diagnostics.outcome if receipt is None else receipt.empty_reason
    return f'<p class="alert" role="note">{text(EMPTY.get(str(reason), "Nothing was delivered."))}</p>'


def _rounds(explanation: Explanation, colours: dict[str, int]) -> str:
    cards = [
        _round(explanation, each, colours) if each.outcome == "completed" else _dropped(each)
        for each in explanation.rounds
    ]
    return f'<div class="cards">{"".join(cards)}</div>' if cards else ""


def _round(explanation: Explanation, each: ExplainedRound, colours: dict[str, int]) -> str:
    flows = flow(explanation, each)
    title = f"Round {each.number}" + (f" · {each.action}" if each.action else "")
    verdict = "" if each.reason is None else chip(each.reason, "good" if each.sufficient else "warn")
    floor = "" if each.floor is None else f'<p class="note">Let in: {text(floor_in_words(each.floor))}.</p>'
    picture = drawn(f"flow-{each.number}", f"{title}: from retrieved to fitted", flows, colours)
    rows = [
        (f'<i class="dot k{colours.get(row.family, 0)}"></i>{text(row.family)}', *map(str, row.numbers))
        for row in flows
    ]
    numbers = table(f"{title}, by family", ("family", *(f"{step}>" for step in STEPS)), rows)
    return (
        f'<article class="card"><h3>{text(title)} {verdict}</h3>{floor}'
        f'<div class="round">{picture}<div>{numbers}{_scopes(each)}</div></div></article>'
    )


def _scopes(each: ExplainedRound) -> str:
    scopes = {pool.scope_id for pool in each.pools}
    if len(scopes) < 2:
        return ""
    rows = [(text(pool.scope_id), text(pool.family), str(pool.retrieved), str(pool.admitted)) for pool in each.pools]
    return details("By scope", table("By scope", ("scope", "family", "retrieved>", "admitted>"), rows))


def _dropped(each: ExplainedRound) -> str:
    return (
        f'<article class="card"><h3>Round {each.number} · {text(each.action)} {chip("dropped", "bad")}</h3>'
        '<p class="note">It was begun, and failed or was late; nothing of it was used.</p></article>'
    )


def _budgets(explanation: Explanation, colours: dict[str, int]) -> Iterator[str]:
    receipt = explanation.receipt
    if receipt is None:
        return
    for budget in receipt.budgets:
        share = budget.used / budget.requested if budget.requested else 0.0
        unit = _UNITS[budget.unit]
        picture = bar(share) if budget.unit != "bytes" else _bytes(explanation, colours, budget.requested)
        yield (
            f'<div class="budget"><p><b>{text(unit)}</b><span>{budget.used:,} of {budget.requested:,} '
            f"({percent(share)})</span></p>{picture}</div>"
        )


def _bytes(explanation: Explanation, colours: dict[str, int], limit: int) -> str:
    """Return the bar of bytes: a piece for each entry, in the order delivered, and the frame around them."""
    pieces, start = [], 0.0
    taken = [each for each in explanation.candidates if each.fate in DELIVERED]
    order = {address: place for place, address in enumerate(explanation.response.selected)}
    taken.sort(key=lambda each: order[each.address])
    frame = len((explanation.content or "").encode()) - sum(
        each.rendered_bytes for each in taken if each.fate != "listed"
    )
    parts = [(f"k{colours.get(each.address.family, 0)}", each.rendered_bytes, named(each)) for each in taken]
    for kind, size, name in [("frame", max(0, frame), "frame"), *parts]:
        width = 100 * size / limit
        pieces.append(
            f'<rect class="{kind}" x="{start:.2f}" width="{max(0.1, width - 0.3):.2f}" height="6">'
            f"<title>{text(name)}: {size} bytes</title></rect>"
        )
        start += width
    return (
        '<svg class="bar tall" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" '
        f'aria-label="bytes by entry: {len(taken)} entries and the frame of {max(0, frame)} bytes">'
        f'<rect class="track" width="100" height="6"/>{"".join(pieces)}</svg>'
    )


def _verdicts(explanation: Explanation) -> str:
    if explanation.effort is None:
        return ""
    cards = "".join(_verdict(explanation, each) for each in explanation.rounds)
    reason, more = explanation.effort.reason, explanation.effort.recoverable
    kind = "good" if explanation.effort.sufficient else "warn"
    return (
        f"<p>In the end: {chip(reason, kind)} {text(VERDICTS.get(reason, reason))}. "
        f'A lower floor would let in {more} more.</p><div class="cards">{cards}</div>'
    )


def _verdict(explanation: Explanation, each: ExplainedRound) -> str:
    if each.signals is None or each.reason is None:
        return ""
    kinds = {"below": "warn", "reached": "good"}
    rows = [
        (
            text(signal.words),
            "–" if signal.value is None else _number(signal.value),
            "" if signal.threshold is None else _number(signal.threshold),
            chip(signal.told, kinds[signal.told]) if signal.told in kinds else text(signal.told),
        )
        for signal in compared(explanation, each)
    ]
    bounded = " Nothing more would fit the budget." if each.budget_bounded else ""
    told = f"{VERDICTS.get(each.reason, each.reason)}. {next_step(explanation, each)}{bounded}"
    numbers = table(f"Signals of round {each.number}", ("signal", "value>", "threshold>", ""), rows)
    return (
        f'<article class="card"><h3>Round {each.number} {chip(each.reason, "good" if each.sufficient else "warn")}'
        f'</h3><p class="note">{text(told[:1].upper() + told[1:])}</p>{numbers}</article>'
    )


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.3f}".rstrip("0").rstrip(".")


def _values(explanation: Explanation) -> str:
    trimming = explanation.response.diagnostics.trimming
    if trimming is None:
        return ""
    names = [name for name, _ in trimming.weights]
    fates = {each.address: each.fate for each in explanation.candidates}
    rows = [
        (
            f"<code>{text(value.address.artifact_id)}</code>", f"<b>{value.total:.2f}</b>",
            *(f"{getattr(value, name):.2f}" for name in names),
            "" if value.redundant_with is None else f"as {text(value.redundant_with.artifact_id)}",
            text(fates.get(value.address, "")),
        )
        for value in trimming.values
    ]  # fmt: skip
    heads = [f"{name} ×{weight:g}>" for name, weight in trimming.weights]
    columns = ("item", "value>", *heads, "near repetition", "fate")
    return table("Value is the weighted mean of the shares", columns, rows)


def _searches(explanation: Explanation) -> str:
    receipt = explanation.receipt
    if receipt is None or not receipt.searches:
        return ""
    rows = [
        (
            text(receipt.families[each.family]), text(each.mode), text(each.outcome),
            "" if each.fallback_reason == "none" else text(each.fallback_reason), str(each.count),
        )
        for each in receipt.searches
    ]  # fmt: skip
    return table("Searches", ("family", "mode", "outcome", "fell back", "count>"), rows)


def _stages(explanation: Explanation) -> str:
    receipt = explanation.receipt
    if receipt is None or not receipt.stages:
        return ""
    most = max(each.duration_ms for each in receipt.stages) or 1.0
    rows = [
        (text(each.stage), bar(each.duration_ms / most), f"{each.duration_ms:.2f} ms", str(each.count))
        for each in receipt.stages
    ]
    return table("Time by stage; stages run beside each other", ("stage", "", "took>", "runs>"), rows)


def _content(explanation: Explanation) -> str:
    content, tools = explanation.content, getattr(explanation.response, "tools", None)
    parts = []
    if content is not None:
        summary = f"The text, {len(content.encode()):,} bytes"
        parts.append(details(summary, f'<pre tabindex="0" dir="auto">{text(content)}</pre>'))
    if tools is not None and tools.items:
        summary = f"The tool, with {len(tools.items)} entries to read"
        parts.append(details(summary, f'<pre tabindex="0" dir="auto">{text(tools.description)}</pre>'))
    return "".join(parts)


def _receipt(explanation: Explanation) -> str:
    if explanation.receipt is None:
        return '<p class="note">No receipt could be made; the log says why.</p>'
    form = json.dumps(plain(explanation.receipt), ensure_ascii=False, indent=1)
    return '<p class="note">Of version 2: what the answer was made of, without any of its text.</p>' + details(
        "Show it", f'<pre tabindex="0">{text(form)}</pre>'
    )


def _footer(explanation: Explanation) -> str:
    request_id = explanation.response.diagnostics.request_id
    return f"<footer><p>Request <code>{text(request_id)}</code>. Made by powerctx explain.</p></footer>"
