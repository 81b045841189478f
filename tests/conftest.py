"""The backends that the matrix runs on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path

import attrs
import pytest

from powerctx_core.memory_store import MemoryStore
from powerctx_core.ports import Capability, Store
from powerctx_core.records import NoSettings


@attrs.frozen
class Backend:
    """How the matrix opens a backend.

    Attributes:
        open: opens the store that lives in a directory; the same directory is the same store where it is durable.
        lacks: what tests may ask for by the marker ``needs`` and do not get here.
        variant_of: another backend with other settings, for tests that are marked ``variants``.
    """

    name: str
    open: Callable[[Path], Store]
    lacks: frozenset[Capability] = frozenset()
    variant_of: str | None = None


def open_memory(place: Path) -> Store:
    """Open a store that is nowhere."""
    return MemoryStore("memory://", NoSettings())


def open_sqlite(place: Path, **settings: int) -> Store:
    """Open a file; without the plugin the tests that want it fail."""
    make = import_module("powerctx_sqlite.settings").SqliteSettings
    return import_module("powerctx_sqlite.store").open_store(f"sqlite:///{place}/x.db", make(**settings))


BACKENDS = {
    backend.name: backend
    for backend in [
        Backend("memory", open_memory, lacks=frozenset({Capability.DURABLE, Capability.MULTI_PROCESS})),
        Backend("sqlite", open_sqlite),
        # Lets the engine rank from the first item on, which it otherwise does in large partitions only.
        Backend("sqlite-ranked", partial(open_sqlite, rank_above=0), variant_of="sqlite"),
    ]
}
DEFAULT = ["memory", "sqlite"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--backend``."""
    parser.addoption("--backend", action="append", choices=sorted(BACKENDS), help="run the matrix on this one only")


def chosen(config: pytest.Config) -> list[str]:
    """Return the names of the backends to run on."""
    return config.getoption("--backend") or DEFAULT


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers."""
    config.addinivalue_line(
        "markers", "needs(capability): only on backends that have it; the header says which lack it"
    )
    config.addinivalue_line("markers", "variants: also on the variants of every backend")


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say which backends run, and why tests of theirs are deselected."""
    names = chosen(config)
    lacking = {name: sorted(BACKENDS[name].lacks) for name in names if BACKENDS[name].lacks}
    return [
        f"backends: {', '.join(names)}",
        *(
            f"deselected: what needs {' or '.join(lacks)}, which {name} does not have"
            for name, lacks in lacking.items()
        ),
    ]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for a backend once on each."""
    if "backend" not in metafunc.fixturenames:
        return
    names = chosen(metafunc.config)
    if metafunc.definition.get_closest_marker("variants"):
        names = [*names, *(backend.name for backend in BACKENDS.values() if backend.variant_of in names)]
    metafunc.parametrize("backend", list(dict.fromkeys(names)), indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what a backend cannot do."""
    kept, left_out = [], []
    for item in items:
        needs = {capability for marker in item.iter_markers("needs") for capability in marker.args}
        name = item.callspec.params.get("backend") if hasattr(item, "callspec") else None
        (left_out if name and needs & BACKENDS[name].lacks else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> Backend:
    """The backend under test."""
    return BACKENDS[request.param]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Give the directory in which the test's store lives, and nothing else."""
    place = tmp_path / "place"
    place.mkdir()
    return place


@pytest.fixture
def open_again(backend: Backend, place: Path) -> Iterator[Callable[[], Store]]:
    """Open the test's store once more, beside what is open already."""
    opened: list[Store] = []

    def open_again() -> Store:
        opened.append(backend.open(place))
        return opened[-1]

    yield open_again
    for store in reversed(opened):
        store.close()


@pytest.fixture
def store(open_again: Callable[[], Store]) -> Store:
    """Give a fresh store, closed at the end."""
    return open_again()


@pytest.fixture
def reopen(store: Store, open_again: Callable[[], Store]) -> Callable[[], Store]:
    """Close the store and open it again; only for tests that need durability."""

    def reopen() -> Store:
        store.close()
        return open_again()

    return reopen
