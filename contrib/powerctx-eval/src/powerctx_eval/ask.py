"""Asks one store every query under every arm, and judges what came back."""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from powerctx_core import Address, FindRequest, InvalidRequest, PreparedContext, PrepareRequest
from powerctx_eval.arms import Arm
from powerctx_eval.citations import CitationError, cited
from powerctx_eval.data import EvalQuery, EvalSet
from powerctx_eval.metrics import Answer, judge
from powerctx_eval.progress import Tick
from powerctx_eval.stores import NO_EMBEDDER, Filled

__all__ = ["CHECKS", "Asked", "Ranked", "ask", "chosen", "rank", "searches"]

CHECKS: Mapping[str, str] = {
    "unreadable": "content that does not read back as cited entries",
    "citations_differ": "citations in the content that are not the addresses reported as selected",
    "unknown_address": "citations that lead to nothing stored",
    "text_differs": "entries whose text is not what is stored at their citation",
    "retired": "entries that were retired",
    "size_differs": "answers whose size is not the one reported",
    "over_budget": "answers larger than their budget",
}
"""Name -> what must never happen; the numbers of a sound run are all 0."""
WARM = 3
RANKS = 10


@attrs.frozen(kw_only=True)
class Asked:
    """One query under one arm.

    Attributes:
        mode: what ran: ``fts``, ``vector``, ``hybrid`` or ``none``.
        reason: of the gate; empty without one.
        expanded: the gate committed a further round.
        broken: what it broke of :data:`CHECKS`.
    """

    query: EvalQuery
    arm: Arm
    answer: Answer
    outcome: str
    mode: str
    milliseconds: float
    reason: str = ""
    expanded: bool = False
    broken: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Ranked:
    """The ids that ``find`` returned for a query, best first."""

    query: EvalQuery
    ids: tuple[str, ...]
    milliseconds: float
    filtered: bool


def chosen(found: EvalSet, limit: int | None, seed: int) -> tuple[list[EvalQuery], int]:
    """Return the queries to ask, in the set's order, and how many of the set cannot be asked at all (blank ones)."""
    possible = [query for query in found.queries if _askable(query)]
    taken = possible
    if limit is not None and limit < len(possible):
        drawn = random.Random(f"{seed}:{found.name}").sample(range(len(possible)), limit)  # noqa: S311 (no secret)
        taken = [possible[index] for index in sorted(drawn)]
    return taken, len(found.queries) - len(possible)


def _askable(query: EvalQuery) -> bool:
    try:
        PrepareRequest(query=query.text, scope_id=query.scope_id)
    except InvalidRequest as error:
        if error.field == "query":
            return False
        raise
    return True


def ask(
    filled: Filled, queries: Sequence[EvalQuery], arms: Sequence[Arm], gates: Mapping[str, str], *, tick: Tick
) -> Iterator[Asked]:
    """Ask every query under every arm, the arms in turn and rotated, so that their times are paired.

    *gates* gives the id of each gate that the arms name.
    """
    estimate = filled.ctx.host.part("powerctx_token_estimators", "o200k").cost
    filterable = _filters(PrepareRequest)
    for arm in arms:
        for query in queries[:WARM]:
            filled.ctx.prepare(_request(query, arm, gates[arm.gate], filterable=filterable))
    for turn, query in enumerate(queries):
        for place in range(len(arms)):
            arm = arms[(turn + place) % len(arms)]
            request = _request(query, arm, gates[arm.gate], filterable=filterable)
            start = time.perf_counter()
            prepared = filled.ctx.prepare(request)
            milliseconds = (time.perf_counter() - start) * 1000
            answer, broken = _judged(filled, query, arm, prepared, estimate)
            effort = prepared.diagnostics.effort
            yield Asked(
                query=query, arm=arm, answer=answer, outcome=prepared.diagnostics.outcome,
                mode=", ".join(sorted({mode for _, mode in prepared.diagnostics.modes})), milliseconds=milliseconds,
                reason=effort.reason if effort else "", expanded=bool(effort and effort.expansion_actions),
                broken=broken,
            )  # fmt: skip
        tick(1)


def _request(query: EvalQuery, arm: Arm, gate: str, *, filterable: bool) -> PrepareRequest:
    more: dict[str, Any] = {**arm.budget.parameters, "gate": gate}
    if filterable and len(query.tags) == 1:
        more["tags"] = query.tags
    return _build(query=query.text, scope_id=query.scope_id, references=query.references, policy=arm.policy, **more)


def filters_apply(query: EvalQuery, request: type[Any]) -> bool:
    """Whether the query's filter can be said in such a request, which wants all tags where the sets want any."""
    return not query.tags or (len(query.tags) == 1 and _filters(request))


def _build(**fields: Any) -> PrepareRequest:
    """Make a request; tests put other renderers here."""
    return PrepareRequest(**fields)


def _filters(request: type[Any]) -> bool:
    return "tags" in {field.name for field in attrs.fields(request)}


def _judged(
    filled: Filled, query: EvalQuery, arm: Arm, prepared: PreparedContext, estimate: Callable[[str], float]
) -> tuple[Answer, tuple[str, ...]]:
    """Return the figures of an answer, and what it broke of :data:`CHECKS`."""
    broken: Counter[str] = Counter()
    content = prepared.content or ""
    try:
        entries = cited(prepared.content, query.scope_id)
    except CitationError:
        broken["unreadable"] += 1
        entries = []
    if [entry.address for entry in entries] != list(prepared.selected):
        broken["citations_differ"] += 1
    delivered: list[tuple[str, int]] = []
    for entry in entries:
        item = filled.items.get(entry.address)
        if item is None:
            broken["unknown_address"] += 1
            delivered.append(("", entry.body_bytes))
            continue
        same = entry.quotes(item.text)
        broken["text_differs"] += not same
        broken["retired"] += entry.address in filled.retired
        # Evidence is what the model can read under the right citation, and nothing else.
        delivered.append((entry.address.artifact_id, entry.body_bytes if same else 0))
    size, tokens = len(content.encode(errors="surrogatepass")), math.ceil(estimate(content) - 1e-9) if content else 0
    broken["size_differs"] += size != prepared.content_bytes
    used = {"max_bytes": size, "max_tokens": tokens, "max_chars": len(content), "max_items": len(entries)}
    broken["over_budget"] += any(used[name] > limit for name, limit in arm.budget.limits)
    answer = judge(
        delivered, query.gold, only=query.only, must_not=query.must_not, content_bytes=size, tokens=tokens
    )  # fmt: skip
    return answer, tuple(broken.elements())


def searches(embedder: str) -> tuple[str, ...]:
    """Return the kinds of search to rank by: what is chosen by itself, and with an embedder each of its kinds too."""
    known = "search_type" in {field.name for field in attrs.fields(FindRequest)}
    return ("auto", "fts", "vector", "hybrid") if known and embedder != NO_EMBEDDER else ("auto",)


def rank(filled: Filled, queries: Sequence[EvalQuery], policy: str, search: str, *, tick: Tick) -> Iterator[Ranked]:
    """Ask ``find`` for the first ten of every query that has gold."""
    more: dict[str, Any] = {} if search == "auto" else {"search_type": search}
    names: Mapping[Address, str | None] = {address: item.artifact_id for address, item in filled.items.items()}
    for query in queries:
        if query.gold:
            filtered = len(query.tags) == 1
            request = FindRequest(
                query=query.text, scope_id=query.scope_id, references=query.references, policy=policy, limit=RANKS,
                tags=query.tags if filtered else (), **more,
            )  # fmt: skip
            start = time.perf_counter()
            found = filled.ctx.find(request)
            milliseconds = (time.perf_counter() - start) * 1000
            ids = tuple(names.get(hit.address) or "" for hit in found.hits)
            yield Ranked(query=query, ids=ids, milliseconds=milliseconds, filtered=filtered)
        tick(1)
