"""Vectors in a file: found alike whichever way they are searched, followed as they change, brought to older files."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import attrs
import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings, strategies as st

from powerctx_core.errors import CapabilityError, StoreError
from powerctx_core.memory_store import MemoryStore
from powerctx_core.ports import LexicalRequest, NearestRequest
from powerctx_core.records import NoSettings
from powerctx_core.text.terms import analyse_query
from powerctx_core.types import Deadline, EmbeddingProfile, Filters, Item, Partition
from powerctx_sqlalchemy import schema
from powerctx_sqlite import opening, resident, vectors
from powerctx_sqlite.store import open_store

DIMENSIONS = 32
PROFILE = EmbeddingProfile(fingerprint="model/1", dimensions=DIMENSIONS, languages=("en",), noise=0.1, match=0.5)
DAY = datetime(2024, 1, 1, tzinfo=UTC)
WAYS = {"direct": (300, 16_000), "exact": (0, 16_000), "signs": (0, 0), "signs, few": (0, 0)}


def seeded(seed: int) -> bytes:
    """Return the vector that belongs to *seed*."""
    row = np.random.default_rng(seed).standard_normal(DIMENSIONS).astype(np.float32)
    return (row / np.linalg.norm(row)).tobytes()


def stored(seed: int) -> np.ndarray:
    """Return the vector that belongs to *seed* as exactly as it is stored."""
    return np.frombuffer(seeded(seed), np.float32).astype(np.float16).astype(np.float32)


@pytest.fixture(params=WAYS)
def way(request, monkeypatch) -> str:
    """How partitions of any size are searched."""
    direct, exact = WAYS[request.param]
    monkeypatch.setattr(vectors, "DIRECT", direct)
    monkeypatch.setattr(resident, "EXACT", exact)
    if request.param != "signs, few":
        monkeypatch.setattr(vectors, "FEW", 0)
    return request.param


def add(store, numbers, scope: str = "s", **fields) -> dict[int, int]:
    """Store an item and its vector for every number, and return the numbers by key."""
    store.vectors.attach(PROFILE)
    items = [Item(scope_id=scope, artifact_id=f"a{n}", text=f"text {n}", **fields) for n in numbers]
    keys = {result.key: n for result, n in zip(store.catalogue.put(items), numbers, strict=True)}
    store.vectors.upsert({key: seeded(n) for key, n in keys.items()})
    return keys


def nearest(store, query: bytes, k: int = 10, scope: str = "s", snapshot=None, **filters) -> list[tuple[int, float]]:
    """Return keys and cosines of the nearest."""
    request = NearestRequest(partition=Partition(scope, "memory"), vector=query, k=k, filters=Filters(**filters))
    if snapshot is not None:
        return list(store.vectors.nearest([request], snapshot)[0])
    with store.catalogue.snapshot(Deadline()) as view:
        return nearest(store, query, k, scope, view, **filters)


@contextmanager
def statements(store):
    """Collect what is sent to the database."""
    sent: list[str] = []

    def note(_connection, _cursor, statement, *_rest) -> None:
        sent.append(statement)

    sa.event.listen(store._database._engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        sa.event.remove(store._database._engine, "before_cursor_execute", note)


def test_all_ways_agree(opened, way):
    """However a partition is searched, the best come first, with filters and ties, as brute force finds them."""
    store = opened()
    keys = {}
    for third in range(3):
        tags = ("third",) if third == 0 else ()
        keys |= add(store, range(third * 50, third * 50 + 50), tags=tags, category=f"c{third}")
    for seed in range(500, 510):
        query = np.frombuffer(seeded(seed), np.float32)
        scores = {n: float(stored(n) @ query) for n in keys.values()}
        for filters, numbers in (
            ({}, range(150)),
            ({"tags": ("third",)}, range(50)),
            ({"category": "c1"}, range(50, 100)),
            ({"category": "none"}, ()),
        ):
            true = sorted(numbers, key=lambda n: -scores[n])[:12]
            found = nearest(store, query.tobytes(), 12, **filters)
            assert true == [keys[key] for key, _ in found]
            assert all(abs(scores[keys[key]] - score) < 1e-3 for key, score in found)


def test_ties(opened, way):
    """Of equal vectors the first by key come, the same ones whatever the search and however they were stored."""
    store = opened()
    store.vectors.attach(PROFILE)
    results = store.catalogue.put([Item(scope_id="s", text=f"text {n}") for n in range(40)])
    keys = [result.key for result in results]
    shuffled = random.Random(1).sample(keys, len(keys))
    for start in range(0, len(keys), 8):
        store.vectors.upsert({key: seeded(1) for key in shuffled[start : start + 8]})
        nearest(store, seeded(2), 5)

    assert keys[:5] == [key for key, _ in nearest(store, seeded(2), 5)]
    assert 1 == len({score for _, score in nearest(store, seeded(2), 40)})


def test_changes_are_followed(opened, way):
    """What another store object on the file adds, replaces and removes is found, or not, by the next search."""
    store, other = opened(), opened()
    keys = add(store, range(60))
    by_number = {n: key for key, n in keys.items()}
    other.vectors.attach(PROFILE)
    assert by_number[5] == nearest(other, seeded(5), 1)[0][0]

    add(store, range(60, 70))
    store.vectors.upsert({by_number[5]: seeded(999)})
    store.catalogue.retire([("s", "memory", "a6")])
    store.catalogue.purge([("s", "memory", "a7")])
    store.catalogue.put([Item(scope_id="s", artifact_id="a8", text="other")])

    gone = {by_number[n] for n in (6, 7, 8)}
    found = dict(nearest(other, seeded(65), 100))
    assert (67, set()) == (len(found), found.keys() & gone)
    assert 1 == pytest.approx(max(found.values()), abs=1e-3)
    assert by_number[5] == nearest(other, seeded(999), 1)[0][0]
    assert nearest(store, seeded(0), 100) == nearest(other, seeded(0), 100)
    for n in range(10, 55):
        other.catalogue.retire([("s", "memory", f"a{n}")])
        if n % 10 == 0:
            assert 66 - (n - 10) == len(nearest(store, seeded(3), 100))
    assert nearest(store, seeded(0), 100) == nearest(other, seeded(0), 100)


def test_older_snapshot(opened, way):
    """A reader sees the vectors of its snapshot, although what is kept in memory is newer by then."""
    store = opened()
    keys = add(store, range(40))
    before = nearest(store, seeded(3), 5)
    with store.catalogue.snapshot(Deadline()) as snapshot:
        snapshot.changes()
        add(store, range(40, 50))
        store.catalogue.retire([("s", "memory", "a3")])
        store.catalogue.put([Item(scope_id="s", artifact_id=f"a{keys[before[1][0]]}", text="other")])
        newest = nearest(store, seeded(3), 5)

        assert before == nearest(store, seeded(3), 5, snapshot=snapshot)
        assert not {key for key, _ in before[:2]} & {key for key, _ in newest}
        assert [] != nearest(store, seeded(45), 1, snapshot=snapshot)
        assert keys.keys() >= {key for key, _ in nearest(store, seeded(45), 50, snapshot=snapshot)}


def test_few_statements(opened, way):
    """While nothing changes a search is one statement beside the partition's row, and cosines are one."""
    store = opened()
    keys = list(add(store, range(30), tags=("x",)))
    nearest(store, seeded(1), tags=("x",))
    nearest(store, seeded(1))
    most = 0 if way == "exact" else 1
    words = LexicalRequest(partition=Partition("s", "memory"), query=analyse_query("text"), k=5)
    with store.catalogue.snapshot(Deadline()) as snapshot, statements(store) as sent:
        nearest(store, seeded(2), snapshot=snapshot)
        assert 1 + most == len(sent)
        sent.clear()
        nearest(store, seeded(3), snapshot=snapshot)
        nearest(store, seeded(3), snapshot=snapshot, tags=("x",))
        assert 2 * most == len(sent)
        sent.clear()
        store.vectors.cosines(keys, seeded(4), snapshot)
        assert 1 == len(sent)
    with store.catalogue.snapshot(Deadline()) as snapshot:
        snapshot.lexical([words])
        with statements(store) as sent:
            nearest(store, seeded(5), snapshot=snapshot)
        assert most == len(sent)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_agrees_with_the_reference(tmp_path_factory, way, data):
    """After any operations the file and the reference in memory hold the same vectors and find the same items."""
    stores = [
        open_store(f"sqlite:///{tmp_path_factory.mktemp('random')}/x.db"),
        MemoryStore("memory://", NoSettings()),
    ]
    for store in stores:
        store.vectors.attach(PROFILE)
    keys: list[dict[tuple[str, str, int], int]] = [{}, {}]
    names = st.sampled_from(["a", "b", "c", "d", "e"])
    scopes = st.sampled_from(["s", "t"])
    for step in range(data.draw(st.integers(3, 14))):
        what = data.draw(st.sampled_from(["put", "put", "upsert", "upsert", "retire", "purge", "clear", "search"]))
        scope, name = data.draw(scopes), data.draw(names)
        if what == "put":
            item = Item(
                scope_id=scope, artifact_id=name, text=data.draw(names), event_time=DAY + timedelta(days=step % 3)
            )
            for store, known in zip(stores, keys, strict=True):
                result = store.catalogue.put([item])[0]
                known[scope, name, result.address.revision] = result.key
        elif what == "upsert" and keys[0]:
            chosen = data.draw(st.lists(st.sampled_from(sorted(keys[0])), max_size=5, unique=True))
            taken = {
                store.vectors.upsert({known[address]: seeded(step + place) for place, address in enumerate(chosen)})
                for store, known in zip(stores, keys, strict=True)
            }
            assert 1 == len(taken)
        elif what in {"retire", "purge"}:
            assert 1 == len({getattr(store.catalogue, what)([(scope, "memory", name)]) for store in stores})
            if what == "purge":
                for known in keys:
                    for address in [address for address in known if address[:2] == (scope, name)]:
                        del known[address]
        elif what == "clear":
            assert 1 == len({store.vectors.clear() for store in stores})
        _compare(stores, keys, seeded(1000 + step))
    for store in stores:
        store.close()


def _compare(stores, keys, query: bytes) -> None:
    found = []
    for store, known in zip(stores, keys, strict=True):
        names = {key: address for address, key in known.items()}
        lists = [
            [(names[key], round(score, 2)) for key, score in nearest(store, query, 20, scope, **filters)]
            for scope in ("s", "t")
            for filters in ({}, {"since": DAY + timedelta(days=1), "time_field": "event"})
        ]
        missing = {names[item.key] for item in store.vectors.unembedded(50)}
        texts = set(store.vectors.cached(["a", "b", "c", "d", "e"]))
        found.append((store.vectors.count(), missing, texts, [dict(entries).keys() for entries in lists]))
        for entries in lists:
            assert entries == sorted(entries, key=lambda entry: -entry[1])
    assert found[0] == found[1]


def test_many_removals(opened, way, monkeypatch):
    """When the record of removals is cut, who missed some loads anew and is right again."""
    monkeypatch.setattr(vectors, "_REMOVALS", 5)
    store, other = opened(), opened()
    add(store, range(50))
    other.vectors.attach(PROFILE)
    nearest(other, seeded(0))
    for n in range(20):
        store.catalogue.purge([("s", "memory", f"a{n}")])
    add(store, [60])

    assert 31 == len(nearest(other, seeded(0), 100))
    with sqlite3.connect(store._database.location.path) as plain:
        assert (0,) == plain.execute("SELECT count(*) FROM vector_removed").fetchone()
    plain.close()


def test_model_of_another_process(opened, way):
    """When another process made all vectors anew with another model, this one says so instead of comparing them."""
    store, other = opened(), opened()
    keys = list(add(store, range(20)))
    nearest(store, seeded(0))
    other.vectors.clear()
    other.vectors.attach(attrs.evolve(PROFILE, fingerprint="model/2"))
    assert [] == nearest(store, seeded(0))
    other.vectors.upsert({key: seeded(key) for key in keys})

    for call in (
        lambda: nearest(store, seeded(0)),
        lambda: store.vectors.upsert({keys[0]: seeded(0)}),
        lambda: store.vectors.cached(["text 1"]),
    ):
        with pytest.raises(CapabilityError, match="model/2"):
            call()
    with store.catalogue.snapshot(Deadline()) as snapshot, pytest.raises(CapabilityError, match="model/2"):
        store.vectors.cosines(keys, seeded(0), snapshot)
    store.vectors.attach(attrs.evolve(PROFILE, fingerprint="model/2"))
    assert 20 == len(nearest(store, seeded(0), 50))


def test_two_models_at_once(opened):
    """Of two that attach different models to an empty store, the first to store a vector decides."""
    store, other = opened(), opened()
    other.vectors.attach(attrs.evolve(PROFILE, fingerprint="model/2", dimensions=8))
    (key,) = add(store, [1])

    with pytest.raises(CapabilityError, match=r"model/1 .*model/2"):
        other.vectors.upsert({key: np.array([1, 0, 0, 0, 0, 0, 0, 0], "<f4").tobytes()})
    assert 1 == store.vectors.count()


def test_nothing_is_written_before_a_vector(opened, path):
    """Attaching, looking and searching make no file, and need none that can be written."""
    store = opened()
    store.vectors.attach(PROFILE)
    assert ([], 0, [], {}) == (
        nearest(store, seeded(0)),
        store.vectors.count(),
        store.vectors.unembedded(5),
        store.vectors.cached(["t"]),
    )
    assert 0 == store.vectors.upsert({1: seeded(0)})
    assert not path.exists()
    key = next(iter(add(store, range(3))))
    store.close()

    reader = opened("?mode=ro")
    reader.vectors.attach(PROFILE)
    assert 3 == len(nearest(reader, seeded(0)))
    with pytest.raises(StoreError, match="read-only"):
        reader.vectors.upsert({key: seeded(0)})


def test_in_memory(way):
    """A database in memory has vectors too, also for a reader within a snapshot."""
    store = open_store("sqlite://")
    keys = add(store, range(30))
    with store.catalogue.snapshot(Deadline()) as snapshot:
        assert 7 == keys[nearest(store, seeded(7), 1, snapshot=snapshot)[0][0]]
        assert 30 == len(store.vectors.cosines(list(keys), seeded(7), snapshot))
        assert 30 == sum(snapshot.partitions().values())
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.vectors.count()


def test_purged_vectors_are_gone(opened, path):
    """Nothing in the file holds the vector or the hash of a text that was purged."""
    store = opened()
    key = next(key for key, n in add(store, range(5)).items() if n == 2)
    with sqlite3.connect(path) as plain:
        stored = plain.execute("SELECT embedding, text_hash FROM vector WHERE id = ?", (key,)).fetchone()
    plain.close()
    store.catalogue.purge([("s", "memory", "a2")])
    store.close()

    content = path.read_bytes()
    assert not any(value in content for value in stored)
    assert not path.with_name(path.name + "-wal").exists()


def test_status(opened):
    """The status names the model and the number of vectors."""
    store = opened()
    store.catalogue.put([Item(scope_id="s", text="t")])
    assert "vectors" not in store.status().facts
    add(store, range(3))

    assert "3 of model/1 (32 dimensions)" == store.status().facts["vectors"]


def test_older_file(opened, path, monkeypatch):
    """A file of the first version, made by its own migration, gets its tables at open and keeps its content."""
    _first_version(path)
    with monkeypatch.context() as patch:
        for module in (schema, opening):
            patch.setattr(module, "HEAD", "0001")
        patch.setattr(schema, "VERSIONS", ("0001",))
        old = opened()
        old.catalogue.put([Item(scope_id="s", artifact_id=f"a{n}", text=f"text {n}") for n in range(10)])
        old.catalogue.put([Item(scope_id="s", artifact_id="a1", text="second")])
        old.close()

    store = opened()
    assert schema.HEAD == store.status().facts["schema"]
    store.vectors.attach(PROFILE)
    todo = store.vectors.unembedded(50)
    assert {"second", *(f"text {n}" for n in range(10) if n != 1)} == {item.text for item in todo}
    assert 10 == store.vectors.upsert({item.key: seeded(item.key) for item in todo})
    assert todo[4].key == nearest(store, seeded(todo[4].key), 1)[0][0]
    store.catalogue.retire([("s", "memory", "a4")])
    store.catalogue.put([Item(scope_id="s", artifact_id="a5", text="third")])
    store.catalogue.purge([("s", "memory", "a6")])
    assert (7, 7) == (store.vectors.count(), len(nearest(store, seeded(0), 50)))


def _first_version(path) -> None:
    """Make the file as version 0001 did."""
    from alembic import command
    from alembic.config import Config

    from powerctx_core.text.terms import analysis_version
    from powerctx_sqlite.index import Fts5Index

    engine = sa.create_engine(f"sqlite:///{path}")
    config = Config()
    config.set_main_option("script_location", str(schema.MIGRATIONS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        Fts5Index().create(connection)
        for name, value in (("store_id", "x"), ("changes", "0"), ("analysis_version", analysis_version())):
            connection.exec_driver_sql("INSERT INTO meta VALUES (?, ?)", (name, value))
        tables = connection.exec_driver_sql("SELECT name FROM sqlite_master").scalars().all()
    engine.dispose()
    assert not [name for name in tables if name.startswith("vector")]


WITHOUT_NUMPY = """
import sys
sys.modules["numpy"] = None
from powerctx_core.types import EmbeddingProfile, Item
from powerctx_sqlite.store import open_store
store = open_store(sys.argv[1])
store.catalogue.put([Item(scope_id="s", text="t")])
store.vectors.attach(EmbeddingProfile(fingerprint="m", dimensions=1, languages=(), noise=0.1, match=0.5))
try:
    store.vectors.upsert({1: bytes(4)})
except Exception as error:
    print(type(error).__name__, error)
"""


def test_numpy_is_imported_late(path):
    """Opening, writing and attaching do without numpy; what needs it says what to install."""
    command = [sys.executable, "-c", WITHOUT_NUMPY, f"sqlite:///{path}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert "" == done.stderr
    assert done.stdout.startswith("CapabilityError")
    assert "numpy" in done.stdout
    assert "pip install" in done.stdout
