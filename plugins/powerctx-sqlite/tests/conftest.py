"""Fixtures: a store on a file, and short ways to ask it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from powerctx_core.ports import FetchRequest, LexicalRequest, LexicalResult
from powerctx_core.text.terms import analyse_query
from powerctx_core.types import Deadline, Filters, Item, Partition, RawCandidate
from powerctx_sqlite.settings import SqliteSettings
from powerctx_sqlite.store import SqliteStore, open_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store's file is, or will be."""
    return tmp_path / "notes.db"


@pytest.fixture
def opened(path: Path) -> Iterator[Callable[..., SqliteStore]]:
    """A function that opens the store anew; what it opened is closed at the end."""
    with ExitStack() as stack:

        def make(parameters: str = "", **settings: Any) -> SqliteStore:
            store = open_store(f"sqlite:///{path}{parameters}", SqliteSettings(**settings))
            stack.callback(store.close)
            return store

        yield make


@pytest.fixture
def store(opened: Callable[..., SqliteStore]) -> SqliteStore:
    """A store whose file does not exist yet."""
    return opened()


@pytest.fixture
def ask() -> SimpleNamespace:
    """Short ways to write and to read."""

    def item(text: str, scope: str = "s", **fields: Any) -> Item:
        return Item(scope_id=scope, text=text, **fields)

    def lexical(
        store: SqliteStore, query: str, scope: str = "s", k: int = 10, filters: Filters = Filters()
    ) -> LexicalResult:
        request = LexicalRequest(partition=Partition(scope, "memory"), query=analyse_query(query), k=k, filters=filters)
        with store.catalogue.snapshot(Deadline()) as snapshot:
            return snapshot.lexical([request])[0]

    def found(store: SqliteStore, query: str, scope: str = "s", filters: Filters = Filters()) -> set[str]:
        return {hit.artifact_id for hit in lexical(store, query, scope, filters=filters).hits}

    def fetched(store: SqliteStore, query: str, scope: str = "s") -> dict[str, RawCandidate]:
        request = LexicalRequest(partition=Partition(scope, "memory"), query=analyse_query(query), k=10)
        with store.catalogue.snapshot(Deadline()) as snapshot:
            hits = snapshot.lexical([request])[0].hits
            details = snapshot.fetch(FetchRequest(keys=tuple([hit.key for hit in hits])))
        return {candidate.address.artifact_id: candidate for candidate in details.values()}

    def states(store: SqliteStore, artifact: str, scope: str = "s") -> list[tuple[int, str, str]]:
        with store.catalogue.snapshot(Deadline()) as snapshot:
            history = snapshot.history(scope, "memory", artifact)
        return [(revision.address.revision, revision.item.text, revision.state) for revision in history]

    def outcomes(store: SqliteStore, items: Sequence[Item]) -> list[tuple[int, str]]:
        return [(result.address.revision, result.outcome) for result in store.catalogue.put(items)]

    return SimpleNamespace(item=item, lexical=lexical, found=found, fetched=fetched, states=states, outcomes=outcomes)
