"""Two writes in two places: whatever ends the process between them, companion and engine agree afterwards."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import sqlalchemy as sa

from powerctx_core.errors import CapabilityError, StoreError
from powerctx_core.testing.vector_words import OTHER, PROFILE, close, cosine, seeded, unit
from powerctx_core.types import Deadline, Filters, Item, Partition
from powerctx_sqlalchemy import RelationalSnapshot
from powerctx_sqlalchemy.paired import Collection, Entry, PairedCatalogue, Pairing, tables
from powerctx_sqlalchemy.paired.tables import Mark, collection, entry
from powerctx_sqlite.store import open_store

SHARDS = 4
SMALL = 4
"""Vectors of a partition that may share a collection."""


@attrs.define
class Clockwork:
    """Counts the moments at which a process may end.

    Attributes:
        left: moments until something fails; ``None`` for never.
        witness: is called at each moment.
    """

    left: int | None = None
    witness: Callable[[], None] = attrs.field(default=lambda: None)

    def moment(self) -> None:
        """Let this moment be seen, and perhaps be the one at which something fails."""
        self.witness()
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise StoreError("not now")


@attrs.define(slots=False)
class Engine:
    """An engine in a dictionary; a call may end before, in the midst of and after its work."""

    clockwork: Clockwork
    held: dict[Collection, dict[int, bytes]] = attrs.field(factory=dict)

    @staticmethod
    def _named(where: Collection) -> Collection:
        return attrs.evolve(where, fingerprint="", dimensions=0)

    def write(self, where: Collection, entries: Sequence[Entry]) -> None:
        """Store entries one by one."""
        self.clockwork.moment()
        held = self.held.setdefault(self._named(where), {})
        for number, each in enumerate(entries):
            if number == len(entries) // 2:
                self.clockwork.moment()
            held[each.number] = each.vector
        self.clockwork.moment()

    def read(self, where: Collection, numbers: Sequence[int]) -> Mapping[int, bytes]:
        """Return what is there."""
        self.clockwork.moment()
        held = self.held.get(self._named(where), {})
        return {number: held[number] for number in numbers if number in held}

    def delete(self, where: Collection, numbers: Sequence[int]) -> None:
        """Delete entries one by one."""
        self.clockwork.moment()
        held = self.held.get(self._named(where), {})
        for place, number in enumerate(numbers):
            if place == len(numbers) // 2:
                self.clockwork.moment()
            held.pop(number, None)
        self.clockwork.moment()

    def drop(self, where: Collection) -> None:
        """Delete a collection."""
        self.clockwork.moment()
        self.held.pop(self._named(where), None)
        self.clockwork.moment()

    def count(self, where: Collection) -> int | None:
        """Count, without a moment: it changes nothing."""
        held = self.held.get(self._named(where))
        return None if held is None else len(held)


class Paired:
    """A store that is opened and killed: a SQLite file, and the engine above."""

    def __init__(self, path: Path, held: dict[Collection, dict[int, bytes]] | None = None) -> None:
        self.path = path
        self.clockwork = Clockwork()
        self.engine = Engine(self.clockwork, {} if held is None else held)
        self.open()

    def open(self) -> None:
        """Open it anew, as the next process does."""
        self.companion = open_store(f"sqlite:///{self.path}/x.db")
        database = self.companion.database
        writing = database.writing

        @contextmanager
        def interrupted() -> Iterator[sa.Connection]:
            self.clockwork.moment()
            with writing() as connection:
                yield connection
                self.clockwork.moment()
            self.clockwork.moment()

        database.writing = interrupted
        self.pairing = Pairing(database, self.engine, shared_up_to=SMALL)
        self.catalogue = PairedCatalogue(self.companion.catalogue, self.pairing)
        self.pairing.repair()
        self.pairing.attach(PROFILE)

    def killed(self) -> None:
        """Open it anew after its process was killed."""
        self.companion.close()
        self.open()

    def put(self, **texts: str) -> list[int]:
        """Store items of scope ``s`` and return their keys."""
        return [
            each.key
            for each in self.catalogue.put([Item(scope_id="s", artifact_id=a, text=t) for a, t in texts.items()])
        ]

    def embed(self, *names: str, text: str | None = None) -> None:
        """Store items whose vectors are those of their texts."""
        keys = self.put(**{name: text or name for name in names})
        self.pairing.upsert({key: seeded(text or name) for key, name in zip(keys, names, strict=True)})

    def shown(self) -> dict[str, bytes]:
        """Return the vectors that readers find, by artifact id and text."""
        with self.catalogue.snapshot(Deadline()) as snapshot:
            if not isinstance(snapshot, RelationalSnapshot):
                return {}
            (row,) = snapshot.rows([Partition("s", "memory")])
            moment = None if row is None else self.pairing.reader.moment(snapshot, row, PROFILE)
            if row is None or moment is None:
                return {}
            live = self.pairing.reader.members(snapshot, row, Filters())
            statement = sa.text("SELECT artifact_id, head FROM revision WHERE id = :key")
            found = {}
            for key, number, where in live:
                artifact, text = snapshot.connection.execute(statement, {"key": key}).one()
                found[artifact] = (text, self.engine.read(moment.paired.collection(where), [number])[number])
            return found

    def rows(self, table: sa.Table) -> list[Any]:
        """Return a table of the companion."""
        with self.companion.database.reading(Deadline()) as connection:
            there = connection is not None and tables.Paired.read(connection, "x") is not None
            return connection.execute(sa.select(table)).all() if there else []


def check(store: Paired) -> None:
    """Companion and engine agree: nothing is pending, and a sweep leaves the live entries alone there."""
    assert Mark.PENDING not in {row.state for row in store.rows(entry)}
    store.pairing.sweep(at_once=True)
    rows = store.rows(entry)
    there = {number: where.number for where, held in store.engine.held.items() for number in held}

    assert {Mark.LIVE} >= {row.state for row in rows}
    assert {row.id: row.collection_id for row in rows} == there
    assert {where.number for where in store.engine.held} <= {row.id for row in store.rows(collection)}
    for text, vector in store.shown().values():
        assert close(1) == cosine(vector, seeded(text))


def life(store: Paired, told: Callable[[dict[str, str], set[str]], None]) -> None:
    """Do all that can be done with vectors; *told* hears what is acknowledged, and what is under way.

    Artifact ids and their texts; an id that is under way may be as it was, as it becomes, or without a vector.
    """
    known: dict[str, str] = {}

    def step(change: Callable[[], object], under_way: set[str], after: dict[str, str]) -> None:
        told(known, under_way)
        change()
        known.clear()
        known.update(after)
        told(known, set())

    step(lambda: store.embed("a", "b"), {"a", "b"}, {"a": "a", "b": "b"})
    step(lambda: store.embed("a", text="new"), {"a"}, {"a": "new", "b": "b"})
    step(lambda: store.embed("c", "d", "e"), {"c", "d", "e"}, {"a": "new", **{n: n for n in "bcde"}})  # moves
    step(lambda: store.catalogue.retire([("s", "memory", "b")]), {"b"}, {"a": "new", **{n: n for n in "cde"}})
    step(lambda: store.pairing.sweep(at_once=True), set(), dict(known))
    step(lambda: store.catalogue.purge([("s", "memory", "c")]), {"c"}, {"a": "new", "d": "d", "e": "e"})
    step(store.pairing.clear, set("ade"), {})
    step(lambda: store.embed("f", "d"), {"f", "d"}, {"f": "f", "d": "d"})


@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_moment(tmp_path, shard):
    """Whenever the process ends, what was acknowledged is found, what was under way is there whole or not at all, and
    after the next opening engine and companion agree; then all goes on.
    """
    (live := tmp_path / "live").mkdir()
    store = Paired(live)
    told: list[tuple[dict[str, str], set[str]]] = [({}, set())]
    images: list[Any] = []

    def witness() -> None:
        images.append(None)
        if (len(images) - 1) % SHARDS == shard:
            image = tmp_path / str(len(images))
            shutil.copytree(live, image)
            images[-1] = (image, copy.deepcopy(store.engine.held), *told[-1])

    store.clockwork.witness = witness
    life(store, lambda known, under_way: told.append((dict(known), set(under_way))))
    store.companion.close()

    assert len(images) > 60
    for number, seen in enumerate(images):
        if seen is None:
            continue
        image, held, known, under_way = seen
        store = Paired(image, held)
        shown = {name: text for name, (text, _) in store.shown().items()}
        for name in under_way:
            shown.pop(name, None), known.pop(name, None)
        assert known == shown, f"ended at moment {number}"
        check(store)
        if number % 3 == 0:
            store.embed("after")
            assert "after" in store.shown()
            check(store)
        store.companion.close()


def test_every_failure(tmp_path):
    """The engine, or the companion, may fail at any moment: the call says so, and nothing of it counts in part."""
    store, failures = Paired(tmp_path), 0
    while True:
        store.embed("a", "b", text="old")
        store.clockwork.left = failures
        try:
            store.embed("a", "b", "d", "e", "f", text="new")
        except StoreError:
            store.clockwork.left = None
            assert {name for name, (text, _) in store.shown().items() if text == "new"} in (set(), set("abdef"))
            failures += 1
        else:
            store.clockwork.left = None
            break
        store.killed()
        check(store)
        store.embed("a", "b", "d", "e", "f", text="new")
        check(store)
        store.pairing.clear()
        store.catalogue.purge([("s", "memory", name) for name in "def"])
    store.companion.close()

    assert failures > 10


def test_vectors_of_a_moment(tmp_path):
    """What an open snapshot shows stays in the engine until it is closed, and goes with the next sweep."""
    store = Paired(tmp_path)
    store.embed("a", "b")
    with store.catalogue.snapshot(Deadline()):
        store.embed("a", text="new")
        store.catalogue.purge([("s", "memory", "b")])
        store.pairing.sweep(at_once=True)
        assert 3 == sum(map(len, store.engine.held.values()))
    store.pairing.sweep(at_once=True)

    assert 1 == sum(map(len, store.engine.held.values()))
    check(store)
    store.companion.close()


def test_replaced_engine(tmp_path):
    """An engine that lacks what the companion says is refused, with the way to rebuild; a rebuild mends it."""
    store = Paired(tmp_path)
    store.embed("a", "b")
    kept = copy.deepcopy(store.engine.held)
    for held in ({}, {where: {} for where in kept}, {attrs.evolve(where, generation=7): kept[where] for where in kept}):
        store.engine.held = held
        with pytest.raises(CapabilityError, match="powerctx embed --rebuild"):
            store.pairing.attach(PROFILE)
    store.pairing.clear()
    store.pairing.attach(OTHER)
    (key,) = store.put(a="a")

    assert 1 == store.pairing.upsert({key: unit([1] * OTHER.dimensions)})
    store.companion.close()


def test_written_without_the_engine(tmp_path):
    """What the companion alone retires, purges and changes is not found, and the next write dooms it."""
    store = Paired(tmp_path)
    store.embed("a", "b", "c")
    store.companion.close()
    with closing(open_store(f"sqlite:///{tmp_path}/x.db")) as alone:
        alone.catalogue.put([Item(scope_id="s", artifact_id="a", text="new")])
        alone.catalogue.retire([("s", "memory", "b")])
    store.open()

    assert {"c"} == store.shown().keys()
    assert 1 == store.pairing.count()
    store.embed("d")
    check(store)
    assert {"c", "d"} == store.shown().keys()
    store.companion.close()


def test_another_writes_too(tmp_path):
    """Writers of two processes move, clear and store the same partition: nothing is lost, torn or left behind."""
    one = Paired(tmp_path)
    two = Paired(tmp_path, one.engine.held)
    one.embed("a", "b")
    keys = one.put(c="c", d="d", e="e")
    turns = iter([lambda: two.embed("f"), two.pairing.clear, lambda: two.embed("g"), lambda: None])

    def between(*arguments: Any) -> None:
        written(*arguments)
        next(turns)()

    written, one.engine.write = one.engine.write, between

    assert 3 == one.pairing.upsert(dict(zip(keys, map(seeded, "cde"), strict=True)))
    assert {"c", "d", "e", "g"} == one.shown().keys() == two.shown().keys()
    two.companion.close()
    one.killed()
    check(one)
    one.companion.close()
