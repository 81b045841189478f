"""Fixtures: a server that runs as long as the tests, and stores in a directory of the test's own.

The conformance kit takes minutes here, since Chroma commits each write to a disk.  A run takes all of what tells about
vectors on the directory, and a sample of the rest; ``--chroma=directory`` and ``--chroma=server`` run all of it.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import chromadb  # noqa: F401 - where it is missing all tests shall fail, not be skipped
import pytest

from powerctx_chroma.store import ChromaStore
from powerctx_core.config import structure
from powerctx_core.host import Host

SERVER = "POWERCTX_CHROMA_URL"
"""Environment variable: ``host:port`` of a server to use; else one is started."""
RUN = "import sys, chromadb_rust_bindings; chromadb_rust_bindings.cli(['chroma', 'run', *sys.argv[1:]])"
"""What ``chroma run`` does, without importing the client, which takes seconds."""
ENGINES = ("directory", "server")
PATIENCE = 60


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--chroma``."""
    parser.addoption("--chroma", choices=ENGINES, help="Chroma: run all of the conformance kit on this engine")


def pytest_report_header(config: pytest.Config) -> str:
    """Say what is left out."""
    engine = config.getoption("--chroma", None)
    if engine is not None:
        return f"chroma: all of the conformance kit, on the {engine}"
    return f"chroma: a sample of the conformance kit; --chroma={' or --chroma='.join(ENGINES)} runs all"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what another engine runs, and of the kit what only a run of its own does."""
    asked = config.getoption("--chroma", None)
    kept, left_out = [], []
    for item in items:
        tested = getattr(item, "cls", None)
        engine = getattr(tested, "chroma", None)
        sampled = asked is None and getattr(item, "originalname", item.name) in getattr(tested, "sample", ())
        taken = engine is None or engine == asked or sampled
        (kept if taken else left_out).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


class Server:
    """A Chroma server on the loopback interface, which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def place(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        place = ["--path", os.fspath(self.folder), "--host", "127.0.0.1", "--port", str(self.port)]
        command = [sys.executable, "-c", RUN, *place]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        until = time.monotonic() + PATIENCE
        while True:
            try:
                with opener.open(f"http://{self.place}/api/v2/heartbeat", timeout=5):
                    return
            except OSError:
                if time.monotonic() > until or self.process.poll() is not None:
                    raise
                time.sleep(0.1)

    def kill(self) -> None:
        """Kill it, as a power failure does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Host and port of a server: a given one, or one that runs as long as the tests."""
    if SERVER in os.environ:
        yield os.environ[SERVER]
        return
    started = Server(tmp_path_factory.mktemp("server"))
    try:
        started.start()
        yield started.place
    finally:
        started.kill()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A server of the test's own, not yet started."""
    server = Server(tmp_path / "server")
    yield server
    server.kill()


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A directory that does not exist yet."""
    return f"chroma:///{tmp_path}/notes"


@pytest.fixture
def opened(url: str) -> Iterator[Callable[..., ChromaStore]]:
    """A function that opens the test's store anew; what it opened is closed at the end."""
    with ExitStack() as stack:

        def make(where: str = url, **settings: Any) -> ChromaStore:
            parts = {"chroma": settings, "chroma-server": settings}
            host = stack.enter_context(Host.compose(structure({"parts": parts}), allow=["chroma", "sqlite"]))
            store = host.open_store(where)
            assert isinstance(store, ChromaStore)
            return store

        yield make
