"""What a family or an admission rule gives is checked before anything relies on it; a mistake is theirs by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import attrs
import pytest

from powerctx_core.errors import PoolInvariantError
from powerctx_core.ports import RetrievalRequest
from powerctx_core.recall.checks import check_admission, check_pool
from powerctx_core.text.terms import analyse_query
from powerctx_core.types import (
    Address,
    Admission,
    AdmissionCounts,
    Filters,
    LexicalStatistics,
    Partition,
    Pool,
    RawCandidate,
)

DAY = datetime(2026, 1, 1, tzinfo=UTC)
REQUEST = RetrievalRequest(
    query="apple", terms=analyse_query("apple"), partition=Partition("s", "notes"), k=2, neighbours=1
)
COUNTS = AdmissionCounts(family="notes", scope_id="s", retrieved=2, admitted=2)


class Text(str):
    """A string that says it equals everything."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


class Number(int):
    """A number of a kind of its own."""


class Float(float):
    """Another, which is written as it likes."""

    def __repr__(self) -> str:
        """Write a line of Markdown."""
        return "\n## Forged"


def candidate(name: str = "a", **changes: Any) -> RawCandidate:
    """Make a member that is right but for *changes*."""
    values: dict[str, Any] = {
        "address": Address("s", "notes", name, 1),
        "length": 1,
        "matched": {"appl": 1},
        "head": "apple",
        "body_bytes": 5,
        "created_at": DAY,
        "updated_at": DAY,
    }
    return RawCandidate(**{**values, **changes})


def pool(first: RawCandidate | None = None, **changes: Any) -> Pool:
    """Make a pool of two members that is right but for *changes*."""
    values: dict[str, Any] = {
        "family": "notes",
        "scope_id": "s",
        "channels": {"fts": (1, 2)},
        "candidates": {1: first or candidate("a"), 2: candidate("b")},
        "statistics": LexicalStatistics(items=2, mean_length=1.0, document_frequency={"appl": 2}),
        "mode": "fts",
        "terms": ("appl",),
    }
    return Pool(**{**values, **changes})


def admission(**changes: Any) -> Admission:
    """Make an admission of both members that is right but for *changes*."""
    return Admission(**{"ranked": {"fts": ((1, 2.0), (2, 1.0))}, "counts": COUNTS, "shares": {1: 1.0}, **changes})


def statistics(**changes: Any) -> dict[str, Any]:
    """Give other statistics."""
    return {"statistics": attrs.evolve(pool().statistics, **changes)}


MEMBERS: dict[str, dict[str, Any]] = {
    "title-number": {"title": 123},
    "title-surrogate": {"title": "a\ud800"},
    "head-surrogate": {"head": "a\ud800", "body_bytes": 9},
    "head-bytes": {"head": b"apple"},
    "head-long": {"head": "a" * 5000, "body_bytes": 5000},
    "body-shorter": {"body_bytes": 1},
    "body-text": {"body_bytes": "x"},
    "category-list": {"category": ["x"]},
    "tag-number": {"tags": (1,)},
    "id-number": {"address": Address("s", "notes", 7, 1)},  # type: ignore[arg-type] - what the check is for
    "id-surrogate": {"address": Address("s", "notes", "\ud800", 1)},
    "id-empty": {"address": Address("s", "notes", "", 1)},
    "scope-lies": {"address": Address(Text("other"), "notes", "a", 1)},
    "family-lies": {"address": Address("s", Text('notes","x'), "a", 1)},
    "revision-huge": {"address": Address("s", "notes", "a", 10**5000)},
    "revision-kind": {"address": Address("s", "notes", "a", Number(1))},
    "revision-bool": {"address": Address("s", "notes", "a", True)},
    "length-negative": {"length": -1},
    "length-nan": {"length": math.nan},
    "cosine-nan": {"cosine": math.nan},
    "cosine-infinite": {"cosine": math.inf},
    "cosine-fifty": {"cosine": 50.0},
    "cosine-text": {"cosine": "1"},
    "occurrences-negative": {"matched": {"appl": -1}},
    "occurrences-nan": {"matched": {"appl": math.nan}},
    "matched-list": {"matched": ["appl"]},
    "confidence-percent": {"confidence": 85},
    "confidence-nan": {"confidence": math.nan},
    "confidence-text": {"confidence": "high"},
    "confidence-kind": {"confidence": Float(0.5)},
    "layer-invented": {"layer": "raw"},
    "layer-kind": {"layer": 1},
    "time-naive": {"created_at": datetime(2026, 1, 1)},  # noqa: DTZ001 - what the check is for
    "time-text": {"updated_at": "2026-01-01"},
    "event-naive": {"event_time": datetime(2026, 1, 1)},  # noqa: DTZ001 - what the check is for
    "evidence-undeclared": {"evidence": {"other": 1}},
    "evidence-huge": {"evidence": {"path": 10**5000}},
    "evidence-nested": {"evidence": {"path": {"a": 1}}},
    "evidence-kind": {"evidence": {"path": Text("x")}},
    "evidence-surrogate": {"evidence": {"path": "\ud800"}},
}
POOLS: dict[str, dict[str, Any]] = {
    "terms-list": {"terms": ([],)},
    "mode-long": {"mode": "x" * 1_000_000},
    "channels-list": {"channels": [1, 2]},
    "channel-invented": {"channels": {"magic": (1, 2)}},
    "statistics-none": {"statistics": None},
    "items-negative": statistics(items=-1),
    "items-nan": statistics(items=math.nan),
    "mean-infinite": statistics(mean_length=math.inf),
    "mean-nan": statistics(mean_length=math.nan),
    "frequency-above": statistics(document_frequency={"appl": 3}),
    "frequency-zero": statistics(document_frequency={"appl": 0}),
    "address-twice": {"candidates": {1: candidate("a"), 2: candidate("a")}},
    "mode": {"mode": "psychic"},
    "scope-lies": {"scope_id": Text("other")},
}
ADMISSIONS: dict[str, Callable[[], object]] = {
    "nothing": lambda: None,
    "unsorted": lambda: admission(ranked={"fts": ((1, 1.0), (2, 1e10))}),
    "twice": lambda: admission(ranked={"fts": ((1, 1.0), (1, 1.0), (2, 0.5))}),
    "nan": lambda: admission(ranked={"fts": ((1, math.nan), (2, 1.0))}),
    "infinite": lambda: admission(ranked={"fts": ((1, math.inf), (2, -math.inf))}),
    "share-99": lambda: admission(shares={1: 99.0}),
    "share-nan": lambda: admission(shares={1: math.nan}),
    "invented-channel": lambda: admission(ranked={"magic": ((1, 2.0), (2, 1.0))}),
    "not-in-pool": lambda: admission(ranked={"fts": ((1, 2.0), (3, 1.0))}),
    "counts": lambda: admission(counts=attrs.evolve(COUNTS, admitted=1)),
}


def test_right() -> None:
    """What is right passes, also with vectors, neighbours, text of any script and its own identity fields."""
    first = candidate(
        "资料/a b",
        head="北京" * 600,
        body_bytes=9000,
        title="T\u2028",
        tags=("é",),
        cosine=1.0004,
        evidence={"path": "x", "line": 3},
    )
    given = pool(first, channels={"fts": (1,), "vector": (1,), "neighbour": (2,)}, mode="hybrid")

    checked = check_pool(given, REQUEST, ("path", "line"))

    assert given == checked
    assert given.candidates is not checked.candidates
    assert check_admission(pool(), admission()) == admission()


@pytest.mark.parametrize("changes", MEMBERS.values(), ids=MEMBERS)
def test_member(changes: dict[str, Any]) -> None:
    """A member that nothing could rank, render or cite is refused in the family's name."""
    with pytest.raises(PoolInvariantError, match="family 'notes'"):
        check_pool(pool(candidate(**changes)), REQUEST, ("path",))


@pytest.mark.parametrize("changes", POOLS.values(), ids=POOLS)
def test_pool(changes: dict[str, Any]) -> None:
    """So is a pool whose shape or figures cannot be, in a message of bounded length."""
    with pytest.raises(PoolInvariantError, match="family 'notes'") as caught:
        check_pool(pool(**changes), REQUEST, ())

    assert len(str(caught.value)) < 1000


def test_what_changes_after_the_check() -> None:
    """A pool that was checked is in mappings of our own: what the family does to its own changes nothing."""
    given = {1: candidate("a"), 2: candidate("b")}
    evidence = {"path": "x"}
    given[1] = candidate("a", evidence=evidence)
    checked = check_pool(pool(candidates=given), REQUEST, ("path",))
    given[2] = candidate("c", head=5)
    evidence["forged"] = "y"

    assert ["a", "b"] == [each.address.artifact_id for each in checked.candidates.values()]
    assert {"path": "x"} == dict(checked.candidates[1].evidence)


def test_filters() -> None:
    """So is a member that the filters leave out."""
    with pytest.raises(PoolInvariantError, match="filters"):
        check_pool(pool(), attrs.evolve(REQUEST, filters=Filters(tags=("x",))), ())


@pytest.mark.parametrize("given", ADMISSIONS.values(), ids=ADMISSIONS)
def test_admission(given: Callable[[], object]) -> None:
    """An admission is of the pool's members, in order, each once, with possible figures and right counts."""
    with pytest.raises(PoolInvariantError, match="admission"):
        check_admission(pool(), given())
