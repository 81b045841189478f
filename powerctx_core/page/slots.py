"""The slots of a pack that is made without a search: what each might use, what it used, and why one is absent."""

from __future__ import annotations

from powerctx_core.explanation import Explanation
from powerctx_core.page.pieces import bar, chip, table, text
from powerctx_core.page.words import SLOTS, percent
from powerctx_core.receipt.v2 import SlotUse

__all__ = ["slots"]


def slots(explanation: Explanation) -> str:
    """Return the slots in their order; nothing where there are none."""
    if not explanation.slots:
        return ""
    columns = ("slot", "source", "share>", "flowed on>", "room>", "used>", "", "entries>", "offered>", "not shown>", "")
    rows = [_row(each) for each in explanation.slots]
    hashes = "".join(
        f'<p class="note">{text(each.slot)} is always the same text: <code>{text(each.content_hash)}</code></p>'
        for each in explanation.slots
        if each.content_hash is not None
    )
    return table("Slots in their order; sizes are tokens", columns, rows) + hashes


def _row(each: SlotUse) -> tuple[str, ...]:
    kind = {"filled": "good", "failed": "bad", "late": "bad", "not_installed": "bad"}.get(each.outcome, "warn")
    return (
        text(each.slot),
        text(each.source),
        percent(each.share),
        f"{each.carried:,}",
        f"{each.room:,}",
        f"{each.used:,}",
        bar(each.used / each.room if each.room else 0.0),
        str(each.entries),
        str(each.offered),
        "" if each.left_out is None else f"{each.left_out:,}",
        chip(SLOTS[each.outcome], kind),
    )
