"""The packaged sample: its form, and what it takes to answer its questions."""

from __future__ import annotations

import json
from collections import Counter

import pytest

import powerctx_core as powerctx
from powerctx_core import sample
from powerctx_core.ingest import Reader, find_sources


def _lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


ITEMS = _lines(sample.items().read_text(encoding="utf-8"))
QUESTIONS = _lines(sample.questions().read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def context():
    """A context over the sample."""
    listing = find_sources([str(sample.items())])
    with powerctx.open("memory://", settings={}, plugins=()) as ctx:
        reader = Reader()
        ctx.put([entry for source in listing.sources for entry in reader.read(source)])
        yield ctx


def test_the_sample_is_whole() -> None:
    """At least 200 items in two languages and 20 questions, with unique ids and gold that exists."""
    ids = [item["id"] for item in ITEMS]

    assert len(ITEMS) >= 200
    assert len(QUESTIONS) == 20
    assert len(set(ids)) == len(ids)
    assert {gold for question in QUESTIONS for gold in question["gold"]} <= set(ids)
    assert Counter(question["lang"] for question in QUESTIONS) == {"en": 11, "zh": 9}
    assert sum(bool(question.get("demo")) for question in QUESTIONS) == 3


@pytest.mark.parametrize("question", QUESTIONS, ids=[str(question["id"]) for question in QUESTIONS])
def test_every_question_is_answered_within_its_budget(context: powerctx.Context, question: dict[str, str]) -> None:
    """Something is delivered, in at most 8 items and 8 000 bytes, and it is the same a second time."""
    prepared = context.prepare(question["text"], scope_id=question["scope"])

    assert prepared.status == "ready"
    assert len(prepared.selected) <= 8
    assert prepared.content_bytes == len((prepared.content or "").encode()) <= 8000
    assert prepared.content == context.prepare(question["text"], scope_id=question["scope"]).content


def test_most_questions_find_their_evidence(context: powerctx.Context) -> None:
    """By words and neighbours alone, 8 items hold evidence of 17 questions; two answers stand in turns that share no
    word with the question, one is in the other language.
    """
    found = 0
    for question in QUESTIONS:
        prepared = context.prepare(str(question["text"]), scope_id=str(question["scope"]))
        delivered = {address.artifact_id for address in prepared.selected}
        found += bool(delivered & set(question["gold"]))

    assert found >= 17


def test_demo_questions_are_answered_first(context: powerctx.Context) -> None:
    """What a newcomer sees first is right: the first entry of each is evidence."""
    for question in QUESTIONS:
        if question.get("demo"):
            prepared = context.prepare(str(question["text"]), scope_id=str(question["scope"]))
            assert prepared.selected[0].artifact_id in question["gold"], question["id"]
