"""What was delivered, and what was not and why, item by item."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from powerctx_core.explanation import DELIVERED, ExplainedCandidate, Explanation
from powerctx_core.page.pieces import bar, chip, details, table, text
from powerctx_core.page.words import FATES

__all__ = ["delivered", "left_out", "named"]

_SHOWN: Final = 200
"""Items of one reason that are listed; the others are counted."""


def named(each: ExplainedCandidate) -> str:
    """Return what an item is called: its title, or else its id."""
    return each.title or each.address.artifact_id


def delivered(explanation: Explanation, colours: dict[str, int]) -> str:
    """Return the delivered entries in their order."""
    order = {address: place for place, address in enumerate(explanation.response.selected)}
    found = sorted(
        (each for each in explanation.candidates if each.fate in DELIVERED), key=lambda each: order[each.address]
    )
    if not found:
        return ""
    entries = "".join(_entry(each, explanation, colours) for each in found)
    return f'<ol class="items">{entries}</ol>'


def _entry(each: ExplainedCandidate, explanation: Explanation, colours: dict[str, int]) -> str:
    kind = f"k{colours.get(each.address.family, 0)}"
    chips = [
        f'<span class="chip"><i class="dot {kind}"></i>{text(each.address.family)}</span>',
        *(chip(name) for name in each.channels),
        *([chip(each.slot)] if each.slot else []),
        *([chip(f"round {each.round}")] if each.round else []),
        *([chip(each.detail, "" if each.detail == "full" else "warn")] if each.detail else []),
        *([chip("cut", "warn")] if each.fate == "cut" else []),
        *([chip("to read", "warn")] if each.fate == "listed" else []),
    ]
    measures = (("score", each.score), ("match", each.match))
    judged = "" if "snapshot" in each.channels else "".join(_measure(name, value, kind) for name, value in measures)
    return (
        f'<li class="card"><div class="name"><b dir="auto">{text(named(each))}</b>'
        f'<code>{text(each.address.uri)}</code></div><p class="chips">{"".join(chips)}</p>'
        f'<dl class="measures">{judged}{_size(each)}</dl>{_words(each, explanation)}</li>'
    )


def _measure(name: str, value: float | None, kind: str) -> str:
    if value is None:
        return ""
    return f"<div><dt>{name}</dt><dd>{value:.3f}</dd>{bar(value, kind)}</div>"


def _size(each: ExplainedCandidate) -> str:
    sizes = (("bytes taken", each.rendered_bytes), ("bytes of body", each.body_bytes))
    return "".join(f"<div><dt>{name}</dt><dd>{size:,}</dd></div>" for name, size in sizes)


def _words(each: ExplainedCandidate, explanation: Explanation) -> str:
    if not explanation.query_units or "snapshot" in each.channels:  # it is there whatever the query is
        return ""
    held = set(each.matched_units)
    words = "".join(
        f"<mark>{text(word)}</mark>" if unit in held else f"<s>{text(word)}</s>"
        for unit, word in ((unit, explanation.word(unit)) for unit in explanation.query_units[:24])
    )
    more = len(explanation.query_units) - 24
    rest = f" and {more} more" if more > 0 else ""
    count = f"{len(held)} of {len(explanation.query_units)} words"
    return f'<p class="words" dir="auto"><span>{count}</span>{words}{rest}</p>'


def left_out(explanation: Explanation) -> str:
    """Return what was found and not delivered, by reason, the most frequent first, and families that gave nothing."""
    groups: dict[str, list[ExplainedCandidate]] = defaultdict(list)
    for each in explanation.candidates:
        if each.fate not in DELIVERED:
            groups[each.fate].append(each)
    parts = [
        _group(explanation, fate, groups[fate]) for fate in sorted(groups, key=lambda fate: (-len(groups[fate]), fate))
    ]
    return "".join([*parts, _nothing(explanation)])


def _group(explanation: Explanation, fate: str, found: Sequence[ExplainedCandidate]) -> str:
    rows = [
        (
            f'<span dir="auto">{text(named(each))}</span><code>{text(each.address.uri)}</code>',
            text(", ".join(each.channels)),
            "" if each.score is None else f"{each.score:.3f}",
            *(
                "" if value is None else f"{value:.2f}"
                for value in (each.match, each.share, each.cosine, each.relevance)
            ),
            text(" ".join(map(explanation.word, each.matched_units))) or "–",
            f"{each.body_bytes:,}",
        )
        for each in found[:_SHOWN]
    ]
    columns = ("item", "found by", "score>", "match>", "share>", "cosine>", "relevance>", "words", "body bytes>")
    rest = f'<p class="note">and {len(found) - _SHOWN} more</p>' if len(found) > _SHOWN else ""
    summary = f"<b>{len(found)}</b> {text(FATES.get(fate, fate))} {chip(fate)}"
    return details(summary, table(FATES.get(fate, fate), columns, rows) + rest)


def _nothing(explanation: Explanation) -> str:
    """Return the families that brought no candidate."""
    receipt = explanation.receipt
    if receipt is None:
        return ""
    names = [receipt.families[each.family] for each in receipt.omitted if each.reason == "not_retrieved"]
    if not names:
        return ""
    return f'<p class="note">No candidate came from: {text(", ".join(names))}.</p>'
