"""Fixtures: one engine for all tests of a process, and a database of it for each test.

The conformance kit takes many minutes here, since a new database takes half a second and a statement a millisecond.  A
run takes a sample of it on the embedded engine; ``--engine=seekdb`` runs all of it, and ``--engine=seekdb-tcp`` all of
it on a server.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pylibseekdb  # where it is missing all tests shall fail, not be skipped
import pymysql
import pytest
import sqlalchemy as sa

from powerctx_core.ports import LexicalRequest, LexicalResult
from powerctx_core.text.terms import analyse_query
from powerctx_core.types import Deadline, Filters, Item, Partition
from powerctx_oceanbase import embedded
from powerctx_oceanbase.settings import OceanBaseSettings
from powerctx_oceanbase.store import OceanBaseStore, open_store

SERVER = "POWERCTX_OCEANBASE_URL"
"""Environment variable: the URL of a server to use, without a database; else one is started."""
ENGINES = ("seekdb", "seekdb-tcp")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--engine`` and ``--vectors``."""
    parser.addoption("--engine", choices=ENGINES, help="OceanBase: run all of the conformance kit on this engine")
    parser.addoption("--vectors", type=int, default=1500, help="OceanBase: vectors that are not rebuilt at a restart")


def pytest_report_header(config: pytest.Config) -> str:
    """Say what is left out."""
    engine = config.getoption("--engine", None)
    if engine is not None:
        return f"oceanbase: all of the conformance kit, on {engine}"
    return f"oceanbase: a sample of the conformance kit, on seekdb; --engine={' or --engine='.join(ENGINES)} runs all"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what another engine runs, and of the kit what only a run of its own does."""
    asked = config.getoption("--engine", None)
    kept, left_out = [], []
    for item in items:
        tested = getattr(item, "cls", None)
        engine = getattr(tested, "engine", None)
        sampled = asked is None and getattr(item, "originalname", item.name) in getattr(tested, "sample", ())
        taken = engine is None or engine == asked or sampled
        (kept if taken else left_out).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


@pytest.fixture(scope="session")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of an engine that runs as long as the tests do."""
    directory = Path(os.path.realpath(tmp_path_factory.mktemp("engine")))
    engine = embedded.started(directory)
    yield directory
    engine.release()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server, without a database: a given one, or one that runs as long as the tests."""
    if SERVER in os.environ:
        yield os.environ[SERVER].rstrip("/")
        return
    binary = Path(pylibseekdb.__file__).with_name("seekdb")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        os.fspath(binary),
        f"--base-dir={tmp_path_factory.mktemp('server')}",
        f"--port={port}",
        "--nodaemon",
        *("--parameter", "memory_budget=1G", "--parameter", "log_disk_size=2G"),
    ]
    environment = {**os.environ, "TELEMETRY_ENABLED": "false"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"oceanbase://root:{_password(process, port)}@127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _password(process: subprocess.Popen[bytes], port: int) -> str:
    """Give a server a password, which it does not have at first, as soon as it answers."""
    password = secrets.token_hex(12)
    for left in reversed(range(300)):
        try:
            with pymysql.connect(host="127.0.0.1", port=port, user="root", ssl_disabled=True) as connection:
                connection.cursor().execute("ALTER USER root IDENTIFIED BY %s", (password,))
            break
        except pymysql.MySQLError:
            if not left or process.poll() is not None:
                raise
            time.sleep(0.1)
    return password


@pytest.fixture
def url(directory: Path) -> str:
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
def statements() -> Iterator[list[str]]:
    """Everything that is executed through SQLAlchemy."""
    seen: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        seen.append(statement)

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    yield seen
    sa.event.remove(sa.Engine, "before_cursor_execute", note)


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
