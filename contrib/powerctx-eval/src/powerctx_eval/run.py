"""One run: sets × arms, figures with intervals, pairs, and everything needed to make it again."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

from powerctx_core import FindRequest, PrepareRequest
from powerctx_core.gates import is_path
from powerctx_eval.arms import Arm, Plan
from powerctx_eval.ask import CHECKS, Asked, Ranked, ask, chosen, filters_apply, rank, searches
from powerctx_eval.data import EvalQuery, EvalSet, load
from powerctx_eval.environment import embedder_facts, environment, gate_policies, policy_digest
from powerctx_eval.figures import compared, ranking_figures, slice_figures, slice_of
from powerctx_eval.progress import Started, quiet
from powerctx_eval.reports import RUN
from powerctx_eval.stores import NO_EMBEDDER, filled, opened

__all__ = ["broken", "run"]


def run(
    plan: Plan,
    folder: Path,
    *,
    extra: Sequence[object] = (),
    settings: Mapping[str, Any] | None = None,
    started: Started = quiet,
    details: Callable[[Mapping[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Run the plan and return the report, a JSON value.

    Equal plans on equal code and data give equal reports but for ``started_at`` and what lies under ``timing``.

    Args:
        plan: what to do.
        folder: of the sets, see :func:`powerctx_eval.data.data_folder`.
        extra: plugins that are not installed.
        settings: of the core; none of the machine's own are used.
        started: told of every step.
        details: is given one row for every answer.

    Raises:
        InvalidRequest: the plan names a set, policy, gate, embedder or control that is not there.
        ConfigError: a policy file cannot be used.
        StoreUnavailable: a store cannot be opened.
    """
    begun = time.perf_counter()
    pairs = plan.pairs()
    gates = gate_policies(plan.gates)
    ids = {gate: "off" if policy is None else policy.policy_id for gate, policy in gates.items()}
    settings = _with_gates(settings or {}, plan.gates)
    report: dict[str, Any] = {
        "schema": RUN,
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": plan.command(),
        "environment": environment(),
        "plan": _plan(plan),
        "policies": {policy: policy_digest(policy) for policy in plan.policies},
        "gates": {gate: policy.digest for gate, policy in gates.items() if policy is not None},
        "embedders": {},
        "sets": [], "results": [], "pairs": [], "ranking": [], "violations": [], "verdicts": [], "checks": [],
        "ingest": [],
    }  # fmt: skip
    # Read all first: a set that is not there should not be found out after an hour.
    for found in [load(folder, name, filtered_by=plan.filtered_by) for name in plan.sets]:
        queries, blank = chosen(found, plan.limit, plan.seed)
        report["sets"].append(_set(found, queries, blank))
        answers: dict[Arm, list[Asked]] = {}
        for store, embedder in product(plan.stores, plan.embedders):
            arms = [arm for arm in plan.arms() if (arm.store, arm.embedder) == (store, embedder)]
            with opened(store, embedder, extra=extra, settings=settings) as ctx:
                if embedder != NO_EMBEDDER:
                    report["embedders"][embedder] = embedder_facts(ctx.host.part("powerctx_embedders", embedder))
                tick = started(f"{found.name} {store} store", len(found.items))
                with filled(ctx, found, embedded=embedder != NO_EMBEDDER, tick=tick) as held:
                    where = {"set": found.name, "store": arms[0].value("store"), "embedder": embedder}
                    report["ingest"].append({**where, "items": len(found.items), "timing": {"seconds": held.seconds}})
                    tick = started(f"{found.name} {store} {embedder} ask", len(queries))
                    for asked in ask(held, queries, arms, ids, tick=tick):
                        answers.setdefault(asked.arm, []).append(asked)
                        if details is not None:
                            details(_detail(found, asked))
                    for policy, search in product(plan.policies, searches(embedder)):
                        tick = started(f"{found.name} {store} {embedder} find {search}", len(queries))
                        ranked = rank(held, queries, policy, search, tick=tick)
                        report["ranking"] += _ranking(plan, {**where, "policy": policy, "search": search}, ranked)
        _add_answers(report, plan, found, answers, pairs)
    report["timing"] = {"seconds": time.perf_counter() - begun}
    return report


def _with_gates(settings: Mapping[str, Any], gates: Sequence[str]) -> Mapping[str, Any]:
    """Return settings under which a call can name the policies of files."""
    files = [gate for gate in gates if is_path(gate)]
    return {**settings, "recall": {**settings.get("recall", {}), "gate_files": files}} if files else settings


def broken(report: Mapping[str, Any]) -> list[str]:
    """Return a sentence for every promise that an answer of the run broke."""
    counted: Counter[str] = Counter()
    for row in report["checks"]:
        counted.update(row["broken"])
    return [f"{count} × {CHECKS[name]}" for name, count in counted.items() if count]


def _add_answers(
    report: dict[str, Any],
    plan: Plan,
    found: EvalSet,
    answers: Mapping[Arm, Sequence[Asked]],
    pairs: Sequence[tuple[Arm, Arm]],
) -> None:
    """Add the figures of one set."""
    for name, sliced in _slices(answers).items():
        head = {"set": found.name, "slice": name}
        figures, differences = slice_figures(sliced, pairs, count=plan.resamples, seed=plan.seed)
        report["results"] += [{**head, "arm": arm.as_json(), **figures[arm]} for arm in sliced]
        report["pairs"] += [
            {**head, "control": one.as_json(), "treatment": other.as_json(), **differences[one, other],
             **compared(sliced[one], sliced[other])}
            for one, other in pairs
        ]  # fmt: skip
    for arm, given in answers.items():
        where = {"set": found.name, "arm": arm.as_json()}
        counted = Counter(name for asked in given for name in asked.broken)
        report["checks"].append({**where, "answers": len(given), "broken": dict(sorted(counted.items()))})
        if arm.gate != "off":
            reasons = Counter(asked.reason for asked in given)
            expanded = sum(asked.expanded for asked in given)
            report["verdicts"].append({**where, "answers": len(given), "expanded": expanded, "reasons": dict(reasons)})
        if any(query.only or query.must_not for query in found.queries):
            report["violations"].append({**where, **_violations(given)})


def _violations(given: Sequence[Asked]) -> dict[str, int]:
    only = [asked for asked in given if asked.query.only]
    must_not = [asked for asked in given if asked.query.must_not]
    return {
        "only_queries": len(only),
        "only_violated": sum(asked.answer.not_only > 0 for asked in only),
        "only_entries": sum(asked.answer.not_only for asked in only),
        "must_not_queries": len(must_not),
        "must_not_violated": sum(asked.answer.forbidden > 0 for asked in must_not),
        "must_not_entries": sum(asked.answer.forbidden for asked in must_not),
        "filter_not_applied": sum(not filters_apply(asked.query, PrepareRequest) for asked in given),
    }


def _slices(answers: Mapping[Arm, Sequence[Asked]]) -> dict[str, dict[Arm, list[Asked]]]:
    found: defaultdict[str, dict[Arm, list[Asked]]] = defaultdict(dict)
    for arm, given in answers.items():
        for asked in given:
            found[slice_of(asked.query)].setdefault(arm, []).append(asked)
    return dict(sorted(found.items(), key=lambda each: ("gold", "adversarial", "no_gold").index(each[0])))


def _ranking(plan: Plan, where: Mapping[str, Any], ranked: Iterable[Ranked]) -> Iterator[dict[str, Any]]:
    by_slice: defaultdict[str, list[Ranked]] = defaultdict(list)
    for each in ranked:
        by_slice[slice_of(each.query)].append(each)
    for name, given in by_slice.items():
        yield {**where, "slice": name, **ranking_figures(given, count=plan.resamples, seed=plan.seed)}


def _detail(found: EvalSet, asked: Asked) -> dict[str, Any]:
    answer = asked.answer
    return {
        "set": found.name, "query": asked.query.id, "category": asked.query.category, "arm": asked.arm.as_json(),
        "gold": answer.gold, "held": answer.held, "items": answer.items, "bytes": answer.content_bytes,
        "outcome": asked.outcome, "gate": asked.reason, "expanded": asked.expanded, "ms": round(asked.milliseconds, 3),
    }  # fmt: skip


def _set(found: EvalSet, queries: Sequence[EvalQuery], blank: int) -> dict[str, Any]:
    slices = Counter(slice_of(query) for query in queries)
    return {
        "name": found.name,
        "digest": found.digest,
        "items": len(found.items),
        "queries": len(found.queries),
        "asked": len(queries),
        "asked_by_slice": dict(sorted(slices.items())),
        "not_askable": blank,
        "retired": sum(entry.retired for entry in found.items),
        "filtered_by": found.filtered_by,
        "filters": sum(bool(query.tags) for query in queries),
        "filters_not_applied": {
            "prepare": sum(not filters_apply(query, PrepareRequest) for query in queries),
            "find": sum(not filters_apply(query, FindRequest) for query in queries),
        },
        "threads": len({entry.item.thread for entry in found.items if entry.item.thread}),
    }


def _plan(plan: Plan) -> dict[str, Any]:
    return {
        "sets": list(plan.sets),
        "budgets": [each.name for each in plan.budgets],
        "policies": list(plan.policies),
        "stores": list(dict.fromkeys(arm.value("store") for arm in plan.arms())),
        "embedders": list(plan.embedders),
        "gates": list(plan.gates),
        "control": plan.control or plan.policies[0],
        "limit": plan.limit,
        "seed": plan.seed,
        "resamples": plan.resamples,
        "filtered_by": plan.filtered_by,
    }
