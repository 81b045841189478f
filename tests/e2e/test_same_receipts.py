"""Receipts and explanations do not tell one backend from another, but for timings and the id of the call."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs
import pytest

import powerctx_core as powerctx
from powerctx_core import sample, wire
from powerctx_core.ingest import Reader

ASKED: tuple[dict[str, Any], ...] = (
    {},
    {"receipt_version": 2, "gate": "v2", "max_bytes": 1500},
    {"receipt_version": 2, "max_tokens": 300, "references": ["elsewhere"]},
    {"receipt_version": 2, "delivery": "split", "trim": "value"},
)


@pytest.fixture
def contexts(tmp_path: Path) -> Iterator[list[powerctx.Context]]:
    """The packaged sample in every store of core and in SQLite."""
    with ExitStack() as stack, sample.items().open("rb") as file:
        items = list(Reader(families=frozenset({"memory"})).records(file, "items.jsonl"))
        settings = {"retrieval": {"embedding_timeout_s": 60.0}}
        opened = [
            stack.enter_context(powerctx.open(url, settings=settings, plugins=["sqlite"], embedder="hash"))
            for url in ("memory://", f"sqlite:///{tmp_path / 'x.db'}")
        ]
        for ctx in opened:
            ctx.put(items)  # type: ignore[arg-type]  # no line of the sample is bad
        yield opened


@pytest.mark.parametrize("asked", ASKED, ids=["plain", "gate", "tokens", "split"])
def test_receipts_are_equal(contexts: list[powerctx.Context], asked: dict[str, Any]) -> None:
    """Every question of the sample, in Chinese and English."""
    questions = [json.loads(line)["text"] for line in sample.questions().read_text("utf-8").splitlines()]
    there = 0
    for question in questions:
        first, *others = [
            ctx.prepare(question, scope_id=sample.SCOPE, include_receipt=True, **asked) for ctx in contexts
        ]
        there += first.receipt is not None
        for other in others:
            assert wire.canonical(first) == wire.canonical(other), question

    assert there == len(questions) > 10


SEARCHED: tuple[dict[str, Any], ...] = (
    {"search_type": "fts"},
    {"search_type": "fts", "max_tokens": 150},
    {"search_type": "fts", "purpose": "coding", "score_threshold": 0.35, "detail": {"resources": "full"}},
    {"search_type": "fts", "limit": 3, "trim": "value", "references": ["elsewhere"]},
    {"search_type": "hybrid"},
)


@pytest.mark.parametrize("asked", SEARCHED, ids=["plain", "tokens", "purpose", "limit", "hybrid"])
def test_receipts_of_searches_are_equal(contexts: list[powerctx.Context], asked: dict[str, Any]) -> None:
    """Every question of the sample, twice in a session, so that the second call has something to cool."""
    questions = [json.loads(line)["text"] for line in sample.questions().read_text("utf-8").splitlines()]
    there = 0
    for question in questions:
        for turn in (1, 2):
            session = {"session_id": "a", "dedup_turns": 2, "turn": turn}
            request = powerctx.SearchRequest(
                query=question, scope_id=sample.SCOPE, mode="context", include_receipt=True, **session, **asked
            )
            first, *others = [ctx.search(request) for ctx in contexts]
            there += 1
            assert isinstance(first, powerctx.ContextPack)
            assert first.receipt is not None
            for other in others:
                assert isinstance(other, powerctx.ContextPack)
                assert wire.canonical(first.receipt) == wire.canonical(other.receipt), question

    assert there == 2 * len(questions) > 10


def test_explanations_are_equal(contexts: list[powerctx.Context]) -> None:
    """Every member of every pool has the same rank, fate and words; scores agree to single precision."""
    measured: dict[str, Any] = dict.fromkeys(("score", "match", "share", "cosine", "relevance"))
    for query in ("Why did we replace Kafka with NATS JetStream?", "缓存为什么不用？", "zebra"):
        first, second = [ctx.explain(query, scope_id=sample.SCOPE, gate="v2").candidates for ctx in contexts]
        for each, other in zip(first, second, strict=True):
            for name in measured:
                assert getattr(each, name) == pytest.approx(getattr(other, name), abs=1e-5)
            assert attrs.evolve(each, **measured) == attrs.evolve(other, **measured)
