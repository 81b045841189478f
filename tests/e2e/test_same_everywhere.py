"""Every backend gives the same answers: hits, scores, counts and prepared bytes of a labelled set.

The data is read as :mod:`test_locomo` reads it: from ``../shared/data``, or from ``POWERCTX_EVAL_DATA``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import attrs
import pytest

import powerctx_core as powerctx
from powerctx_core import Item, hookimpl
from powerctx_core.ports import Embedder, EmbedRequest
from powerctx_core.records import EmbedderSpec
from powerctx_core.types import Deadline
from powerctx_core.vectors import embedding_text

PATIENT = {"retrieval": {"embedding_timeout_s": 60.0}}
"""A busy machine is no reason to go on without vectors."""


@attrs.define
class Memory:
    """An embedder that has seen every text before.

    Attributes:
        profile: of the model that made the vectors.
        vectors: text -> vector.
    """

    profile: Any
    vectors: Mapping[str, bytes]

    def embed(self, request: EmbedRequest) -> Sequence[bytes]:
        """Give the vectors that were made."""
        return [self.vectors[text] for text in request.texts]


@attrs.frozen
class Plugin:
    """Offers the embedder as ``remembered``."""

    embedder: Memory

    @hookimpl
    def powerctx_embedders(self) -> Iterator[EmbedderSpec]:
        """Offer it."""
        yield EmbedderSpec(name="remembered", factory=lambda _: self.embedder)


@pytest.fixture(scope="module")
def data(evaluation_data: Path) -> Path:
    """The folder of LoCoMo."""
    return evaluation_data / "locomo"


def records(file: Path) -> list[dict[str, Any]]:
    """Read a file of JSON lines."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module", params=["one conversation", pytest.param("all", marks=pytest.mark.long)])
def queries(request: pytest.FixtureRequest, data: Path) -> list[tuple[str, str]]:
    """The scope and the text of every query, or of those of the shortest conversation."""
    queries = [(record["scope"], record["text"]) for record in records(data / "queries.jsonl")]
    scopes = Counter(scope for scope, _ in queries)
    return (
        queries
        if request.param == "all"
        else [query for query in queries if query[0] == min(scopes, key=scopes.__getitem__)]
    )


@pytest.fixture(scope="module")
def items(data: Path, queries: list[tuple[str, str]]) -> list[Item]:
    """All items of the scopes asked, with times of their own, so that no clock tells stores apart."""
    made: list[Item] = []
    scopes = {scope for scope, _ in queries}
    for record in (record for record in records(data / "items.jsonl") if record["scope"] in scopes):
        time = datetime.fromisoformat(record["time"]).replace(tzinfo=UTC) if "time" in record else None
        made.append(
            Item(
                scope_id=record["scope"],
                artifact_id=record["id"],
                text=record["text"],
                thread=record.get("session"),
                position=len(made),
                created_at=datetime(2026, 1, 1, tzinfo=UTC),
                updated_at=datetime(2026, 1, 1, tzinfo=UTC),
                event_time=time,
            )
        )
    return made


@pytest.fixture(scope="module")
def plugin(items: list[Item], queries: list[tuple[str, str]]) -> Plugin:
    """Embed every text once, with the local model."""
    settings = import_module("powerctx_local_embed.settings").LocalSettings()
    model: Embedder = import_module("powerctx_local_embed.embedder").LocalEmbedder(settings)
    texts = list(
        dict.fromkeys([*(embedding_text(item.title, item.text) for item in items), *(text for _, text in queries)])
    )
    vectors: dict[str, bytes] = {}
    for start in range(0, len(texts), 64):
        batch = texts[start : start + 64]
        vectors |= zip(batch, model.embed(EmbedRequest(texts=tuple(batch), deadline=Deadline())), strict=True)
    return Plugin(Memory(model.profile, vectors))


def found(ctx: powerctx.Context, scope: str, text: str) -> dict[str, Any]:
    """Return everything that a store's answer to a search says."""
    found = ctx.find(text, scope_id=scope)
    return {
        "addresses": [(hit.address, hit.channels) for hit in found.hits],
        "candidates": [attrs.evolve(hit.candidate, cosine=None) for hit in found.hits],
        "scores": [(hit.score, hit.match) for hit in found.hits],
        "diagnostics": attrs.evolve(found.diagnostics, request_id=""),
    }


def prepared(ctx: powerctx.Context, scope: str, text: str) -> dict[str, Any]:
    """Return everything that prepared context says."""
    prepared = ctx.prepare(text, scope_id=scope)
    diagnostics = attrs.evolve(prepared.diagnostics, request_id="")
    return {"content": prepared.content, "bytes": prepared.content_bytes, "diagnostics": diagnostics}


@pytest.fixture
def contexts(items: list[Item], tmp_path: Path) -> Iterator[Callable[..., list[powerctx.Context]]]:
    """A function that opens every backend and stores all items there."""
    with ExitStack() as stack:

        def open_all(**opening: Any) -> list[powerctx.Context]:
            urls = ("memory://", f"sqlite:///{tmp_path}/x.db")
            opened = [
                stack.enter_context(powerctx.open(url, settings=PATIENT, plugins=("sqlite",), **opening))
                for url in urls
            ]
            for ctx in opened:
                ctx.put(items)
            return opened

        yield open_all


@pytest.mark.timeout(600)  # 4 000 answers, on a machine that may be busy
def test_same_answers_by_words(queries: list[tuple[str, str]], contexts: Callable[..., list[powerctx.Context]]) -> None:
    """Hits, scores, counts, diagnostics and every byte are the same for every query."""
    reference, *others = contexts()
    hits = 0
    for scope, text in queries:
        expected = found(reference, scope, text), prepared(reference, scope, text)
        hits += len(expected[0]["addresses"])
        for ctx in others:
            assert (found(ctx, scope, text), prepared(ctx, scope, text)) == expected, text

    assert len(queries) in {105, 999}
    assert hits > 9 * len(queries)


@pytest.mark.timeout(600)  # embeds 3 700 texts
def test_same_answers_by_vectors(
    queries: list[tuple[str, str]], plugin: Plugin, contexts: Callable[..., list[powerctx.Context]]
) -> None:
    """The same holds with vectors; scores agree but for the last digit of a cosine, which counts up to six times."""
    reference, *others = contexts(embedder="remembered", extra=(plugin,))
    by_vectors = 0
    for number, (scope, text) in enumerate(queries):
        expected = prepared(reference, scope, text)
        for ctx in others:
            assert prepared(ctx, scope, text) == expected, text
        if number % 3:  # the reference takes its time, and what is prepared is what is found
            continue
        expected = found(reference, scope, text)
        scores = [score for pair in expected.pop("scores") for score in pair]
        by_vectors += sum("vector" in channels for _, channels in expected["addresses"])
        for ctx in others:
            actual = found(ctx, scope, text)
            assert [score for pair in actual.pop("scores") for score in pair] == pytest.approx(scores, abs=1e-5), text
            assert actual == expected, text

    assert by_vectors > 5 * len(queries) / 3
