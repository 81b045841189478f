"""Fixtures: one engine for all tests of a process, a database of it for each test, and engines of a test's own."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from powerctx_core.ports import LexicalRequest, LexicalResult
from powerctx_core.text.terms import analyse_query
from powerctx_core.types import Deadline, Filters, Item, Partition
from powerctx_oceanbase import embedded
from powerctx_oceanbase.settings import OceanBaseSettings
from powerctx_oceanbase.store import OceanBaseStore, open_store

pytest.importorskip("pylibseekdb", reason="the embedded engine needs Linux, or macOS on arm64")


@pytest.fixture(scope="session")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of an engine that runs as long as the tests do."""
    directory = Path(os.path.realpath(tmp_path_factory.mktemp("engine")))
    engine = embedded.started(directory)
    yield directory
    engine.release()


@pytest.fixture
def url(directory: Path, request: pytest.FixtureRequest) -> str:
    """A database that does not exist yet."""
    return f"seekdb:///{directory}?database=t{time.time_ns()}"


@pytest.fixture
def opened(url: str) -> Iterator[Callable[..., OceanBaseStore]]:
    """A function that opens the test's store anew; what it opened is closed at the end."""
    with ExitStack() as stack:

        def make(where: str = url, **settings: Any) -> OceanBaseStore:
            store = open_store(where, OceanBaseSettings(**settings))
            stack.callback(store.close)
            return store

        yield make


@pytest.fixture
def store(opened: Callable[..., OceanBaseStore]) -> OceanBaseStore:
    """A store in which nothing was written yet."""
    return opened()


@pytest.fixture
def ask() -> SimpleNamespace:
    """Short ways to write and to read."""

    def item(text: str, artifact_id: str | None = None, scope: str = "s", **fields: Any) -> Item:
        return Item(scope_id=scope, text=text, artifact_id=artifact_id, **fields)

    def lexical(
        store: OceanBaseStore, query: str, scope: str = "s", k: int = 10, filters: Filters = Filters()
    ) -> LexicalResult:
        request = LexicalRequest(partition=Partition(scope, "memory"), query=analyse_query(query), k=k, filters=filters)
        with store.catalogue.snapshot(Deadline()) as snapshot:
            return snapshot.lexical([request])[0]

    def found(store: OceanBaseStore, query: str, scope: str = "s") -> set[str]:
        return {hit.artifact_id for hit in lexical(store, query, scope).hits}

    def engine_pid(directory: Path) -> int:
        return int((directory / "run" / "seekdb.pid").read_text())

    def kill(directory: Path) -> None:
        os.kill(engine_pid(directory), signal.SIGKILL)

    return SimpleNamespace(item=item, lexical=lexical, found=found, engine_pid=engine_pid, kill=kill)
