"""What a call tells of itself: outcome and diagnostics.  Pure."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import attrs

from powerctx_core.assemble.budget import utf8_bytes
from powerctx_core.assemble.fit import Plan
from powerctx_core.assemble.part import Entry
from powerctx_core.recall.checks import MODES
from powerctx_core.recall.embedding import QueryEmbeddings
from powerctx_core.recall.fetch import Fetched
from powerctx_core.recall.group import Group, Source
from powerctx_core.recall.policy import RecallPolicy
from powerctx_core.requests import Diagnostics, PreparedContext, PrepareRequest, SelectedItem
from powerctx_core.types import NOTHING_TO_READ, Address, Hit, QueryTerms, RecallEffort, Trimming

__all__ = ["Recalled", "diagnostics", "empty_outcome", "nothing_asked", "prepared"]


@attrs.frozen(kw_only=True)
class Recalled:
    """What one round of recall gave, before any budget.

    Attributes:
        sources: the families that were asked, and how.
        ask: asks families of the same call once more, given what all of them gave before; ``None`` when there is no
            time left.
        deepened: how often deeper pools were asked for.
    """

    policy: RecallPolicy
    query: QueryTerms
    fetched: Fetched
    hits: list[Hit]
    embeddings: QueryEmbeddings
    sources: Sequence[Source] = attrs.field(default=(), repr=False)
    ask: Callable[[Sequence[Source], Mapping[str, tuple[Group, ...]]], Fetched | None] = attrs.field(
        default=lambda *_: None, eq=False, repr=False
    )
    deepened: int = 0

    @property
    def members(self) -> list[Address]:
        """What any round of admission could deliver: every member of every pool."""
        return [candidate.address for group in self.groups for candidate in group.candidates.values()]

    @property
    def groups(self) -> list[Group]:
        """Everything that has arrived, in the order of families and scopes."""
        return [group for groups in self.fetched.groups.values() for group in groups]


def empty_outcome(recall: Recalled, *, restricted: bool = False) -> str:
    """Return why nothing is delivered: not in time, failed, nothing stored, nothing matched, nothing good enough.

    *restricted* says that all that was good enough was left out by what the request restricts, as if a store had.
    """
    if recall.fetched.late:
        return "deadline"
    if recall.fetched.failed:
        return "source_error"
    if restricted:
        return "no_match"
    if any(group.matched for group in recall.groups):
        return "below_threshold"
    if all(group.items == 0 for group in recall.groups):
        return "no_content"
    return "no_match"


def _modes(fetched: Fetched) -> Mapping[str, str]:
    """Return what ran for each family: the strongest mode over its scopes."""
    return {
        family: max((group.mode for group in groups), key=MODES.index)
        for family, groups in fetched.groups.items()
        if groups
    }


def _selected(entries: Iterable[Entry], part: str) -> tuple[SelectedItem, ...]:
    return tuple(
        SelectedItem(
            address=entry.candidate.address,
            rendered_bytes=utf8_bytes(entry.piece),
            truncated=entry.cut,
            part=part,
        )
        for entry in entries
    )


def diagnostics(
    recall: Recalled,
    outcome: str,
    found: Plan | None = None,
    *,
    late: Iterable[str] = (),
    trimming: Trimming | None = None,
    effort: RecallEffort | None = None,
    cut_short: bool = False,
) -> Diagnostics:
    """Return what is told of the call; *late* is what else was not ready in time, *effort* what the gate did."""
    fetched = recall.fetched
    late = tuple(sorted({*fetched.late, *late}))
    items: tuple[SelectedItem, ...] = ()
    if found is not None:
        items = (*_selected(found.entries, "inject"), *_selected(found.listed, "tools"))
    return Diagnostics(
        outcome=outcome,
        request_id=uuid.uuid4().hex,
        policy=recall.policy.policy_id,
        partial=bool(late or fetched.failed),
        late=late,
        failed=tuple(fetched.failed.items()),
        fallback=recall.embeddings.fallback,
        embeddings=recall.embeddings.made,
        deepened=recall.deepened,
        cut_short=cut_short,
        modes=tuple(_modes(fetched).items()),
        counts=(effort and effort.admission_by_family)
        or tuple(group.counts for group in recall.groups if group.searched),
        terms_used=len({term for group in recall.groups for term in group.terms}),
        terms_total=recall.query.total,
        omitted=tuple(found.omitted.items()) if found is not None else (),
        frame_over=found.frame_over if found is not None else (),
        trimming=trimming,
        effort=effort,
        items=items,
    )


def nothing_asked(policy: RecallPolicy, delivery: str) -> PreparedContext:
    """Return the answer of ``prepare`` to a request for no section at all."""
    return PreparedContext(
        status="empty",
        content=None,
        content_bytes=0,
        diagnostics=Diagnostics(outcome="no_content", request_id=uuid.uuid4().hex, policy=policy.policy_id),
        tools=NOTHING_TO_READ if delivery == "split" else None,
    )


def prepared(
    found: Plan | None,
    recall: Recalled,
    request: PrepareRequest,
    *,
    trimming: Trimming | None = None,
    late: Sequence[str] = (),
    effort: RecallEffort | None = None,
) -> PreparedContext:
    """Return the answer of ``prepare``; without a plan its renderer was late, too."""
    told = partial(diagnostics, recall, found=found, trimming=trimming, effort=effort)
    nothing = NOTHING_TO_READ if request.delivery == "split" else None
    tools = nothing if found is None else found.tools
    text = None if found is None else found.text
    if found is not None and effort is not None and effort.partial:
        late = [*late, "gate"]
    if text is not None:
        return PreparedContext(
            status="ready",
            content=text,
            content_bytes=utf8_bytes(text),
            diagnostics=told("delivered", late=late),
            tools=tools,
        )
    if found is None:
        outcome = "deadline"
        late = [*late, f"renderer:{request.renderer}"]
    elif found.listed:
        outcome = "delivered"
    elif found.dropped or "toolized" in found.omitted:
        outcome = "budget"
    else:
        outcome = empty_outcome(recall)
    return PreparedContext(
        status="empty",
        content=None,
        content_bytes=0,
        diagnostics=told(outcome, late=late),
        tools=tools,
    )
