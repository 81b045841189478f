"""What a pack tells of itself.  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import ceil
from typing import Any

import attrs

from powerctx_core.assemble.delivery import readable
from powerctx_core.recall.outcome import Recalled, diagnostics, empty_outcome
from powerctx_core.requests import ContextPack, PackEntry, SearchStats
from powerctx_core.search.competing import Competing
from powerctx_core.search.tiering import Pack
from powerctx_core.search.turns import Turn
from powerctx_core.search.wants import Wants
from powerctx_core.types import RecallEffort, ToolList

__all__ = ["NOTHING", "Course", "answered"]

NOTHING = Pack(entries=(), text="", cost=0.0, lowered={}, late=True)
"""The pack of a renderer that was late."""


@attrs.frozen(kw_only=True)
class Course:
    """How a call went."""

    wants: Wants
    recall: Recalled
    found: Competing
    cut_short: bool
    pack: Pack
    effort: RecallEffort | None
    turn: Turn | None
    recorded: int
    late: tuple[str, ...]
    errors: tuple[str, ...]
    timings: Mapping[str, float]


def answered(course: Course) -> ContextPack:
    """Return the answer to a call."""
    found, pack, recall = course.found, course.pack, course.recall
    told = diagnostics(recall, _outcome(course), late=course.late, cut_short=course.cut_short, effort=course.effort)
    entries = _entries(course)
    return ContextPack(
        entries=entries,
        rendered=pack.text,
        tools=_tools(course),
        diagnostics=told,
        stats=SearchStats(
            outcome=told.outcome,
            searched=found.searched,
            candidates=len(found.hits),
            threshold_removed=found.number("below_threshold"),
            filtered=found.number("filtered"),
            top_match=found.top_match,
            excluded=found.number("excluded"),
            cooled=len(found.cooled) + found.number("cooled"),
            deduped=found.number("duplicate"),
            dropped=len(found.hits) - len(entries) - len(pack.listed),
            returned=len(entries),
            tier_counts=dict(sorted(Counter(entry.detail for entry in entries).items())),
            lowered=pack.lowered,
            max_tokens=course.wants.max_tokens,
            used_tokens=ceil(pack.cost),
            planned_queries=(course.wants.request.retrieval.query,),
            gate=course.effort,
            dedup=_dedup(course),
            ignored=course.wants.ignored,
            partial=told.partial,
            late=told.late,
            failed=told.failed,
            deepened=told.deepened,
            cut_short=told.cut_short,
            timings_ms={stage: round(spent, 3) for stage, spent in course.timings.items()},
            errors=course.errors,
            split=_split(course),
        ),
    )


def _outcome(course: Course) -> str:
    if course.pack.entries or course.pack.listed:
        return "delivered"
    if course.pack.late:
        return "deadline"
    found, admits = course.found, course.wants.admits
    if any(admits(bucket) for place, bucket in enumerate(found.buckets) if place not in found.cooled):
        return "budget"
    weak = found.number("below_threshold") > 0
    # Else all that matched was left out by the caller's own word, for which the figures have names.
    return empty_outcome(course.recall, restricted=bool(course.recall.hits) and not weak)


def _dedup(course: Course) -> dict[str, Any]:
    if course.turn is None:
        return {}
    return {"turn": course.turn.number, "turns": course.turn.dedup_turns, "recorded": course.recorded}


def _tools(course: Course) -> ToolList | None:
    if course.wants.request.delivery != "split":
        return None
    items = tuple(readable(hit.address, rung.piece) for hit, rung in course.pack.listed)
    return ToolList(items=items, description=course.pack.description)


def _split(course: Course) -> dict[str, int | None] | None:
    if course.wants.request.delivery != "split":
        return None
    return {
        "listed": len(course.pack.listed),
        "toolized": sum(reason == "toolized" for reason in course.pack.left.values()),
        "inject_tokens": ceil(course.pack.text_cost),
        "inject_max_tokens": course.wants.request.inject_max_tokens,
    }


def _entries(course: Course) -> tuple[PackEntry, ...]:
    wants = course.wants
    relative = wants.request.envelope is not False
    return tuple(
        PackEntry(
            address=hit.address,
            ref=hit.address.ref(wants.request.scope_id if relative else None),
            bucket=wants.bucket(hit.candidate),
            category=hit.candidate.category,
            score=hit.score,
            match=hit.match,
            detail=rung.detail,
            text=rung.text,
            cut=rung.cut,
            origin=wants.origin(hit.candidate),
            tokens=ceil(rung.cost),
        )
        for hit, rung in course.pack.entries
    )
