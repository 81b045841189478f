"""What is delivered is what core's own store delivers: ``parity.py`` of the evaluation compares more, with SQLite."""

from __future__ import annotations

import json

import pytest

import powerctx_core as powerctx
from powerctx_core import sample, wire
from powerctx_core.ingest import Reader

SETTINGS = {"retrieval": {"embedding_timeout_s": 60.0}}
BUDGETS = ({"max_items": 8, "max_bytes": 32_768}, {"max_items": 64, "max_bytes": 8000})


@pytest.fixture(scope="module")
def questions():
    """The questions of the packaged sample."""
    return [json.loads(line)["text"] for line in sample.questions().read_text("utf-8").splitlines()]


def answers(url, questions):
    """Return what a store with the sample delivers for every question and budget."""
    with powerctx.open(url, settings=SETTINGS, embedder="hash") as context:
        with sample.items().open("rb") as file:
            context.put(list(Reader(families=frozenset({"memory"})).records(file, "items.jsonl")))
        asked = {"scope_id": sample.SCOPE, "include_receipt": True, "receipt_version": 2}
        return [context.prepare(text, **asked, **budget) for text in questions for budget in BUDGETS]


@pytest.fixture(scope="module")
def expected(questions):
    """What core's own store delivers."""
    return answers("memory://", questions)


@pytest.mark.long
def test_identical_bytes(url, questions, expected):
    """As users have it, with all members of a small scope and every vector compared: text and receipt to the byte."""
    found = answers(url, questions)

    assert [prepared.content for prepared in expected] == [prepared.content for prepared in found]
    assert all(prepared.receipt is not None for prepared in found)
    receipts = [[wire.canonical(prepared.receipt) for prepared in each] for each in (expected, found)]
    assert receipts[0] == receipts[1]


def test_same_items_by_the_indexes(url, questions, expected):
    """When the engine ranks, and its index of vectors is asked, what is delivered is still the same."""
    found = answers(f"{url}&rank_above=0&exact_below=0", questions)

    assert [set(prepared.selected) for prepared in expected] == [set(prepared.selected) for prepared in found]
