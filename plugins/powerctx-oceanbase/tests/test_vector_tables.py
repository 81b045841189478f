"""Each model has a table of its own: who reads an older moment keeps it, and what nobody can read any more goes."""

from __future__ import annotations

import json

import pytest
import sqlalchemy as sa

from powerctx_core.errors import CapabilityError
from powerctx_core.ports import NearestRequest
from powerctx_core.types import Deadline, EmbeddingProfile, Partition

PROFILE = EmbeddingProfile(fingerprint="model/1", dimensions=4, languages=("en",), noise=0.1, match=0.5)
OTHER = EmbeddingProfile(fingerprint="model/2", dimensions=3, languages=("en",), noise=0.1, match=0.5)
X = b"\0\0\x80?" + bytes(12)


@pytest.fixture
def stores(opened, ask):
    """Two stores of one database, as two processes have them, and the keys of two items with vectors."""
    stores = (opened(), opened())
    keys = [result.key for result in stores[0].catalogue.put([ask.item("apple", "a"), ask.item("pear", "b")])]
    stores[0].vectors.attach(PROFILE)
    stores[0].vectors.upsert(dict.fromkeys(keys, X))
    stores[1].vectors.attach(PROFILE)
    return *stores, keys


def near(store, snapshot=None):
    """Return the keys that are nearest in a moment, or now."""
    if snapshot is None:
        with store.catalogue.snapshot(Deadline()) as newest:
            return near(store, newest)
    request = NearestRequest(partition=Partition("s", "memory"), vector=X, k=10)
    found = [key for key, _ in store.vectors.nearest([request], snapshot)[0]]
    assert sorted(found) == sorted(store.vectors.cosines(found, X, snapshot))
    return found


def tables(store):
    """Return the tables of vectors, with the number of their rows."""
    with store._database.connected() as connection:
        names = connection.exec_driver_sql("SHOW TABLES LIKE 'vector\\_%%'").scalars().all()
        return {name: connection.exec_driver_sql(f"SELECT count(*) FROM {name}").scalar_one() for name in names}


def test_other_process_changes_the_model(stores):
    """An open snapshot keeps its vectors while another process deletes them and stores those of another model."""
    reader, writer, keys = stores
    with reader.catalogue.snapshot(Deadline()) as snapshot:
        assert keys == near(reader, snapshot)
        assert 2 == writer.vectors.clear()
        assert [] == near(writer)
        writer.vectors.attach(OTHER)
        writer.vectors.upsert({keys[0]: X[:12]})
        assert keys == near(reader, snapshot)

    with pytest.raises(CapabilityError):
        near(reader)


def test_other_process_embeds_anew(stores):
    """Who has read the vectors of a model before they were deleted and made anew finds the new ones."""
    reader, writer, keys = stores
    with reader.catalogue.snapshot(Deadline()) as older:
        assert keys == near(reader, older)
        writer.vectors.clear()
        assert [] == near(reader)
        writer.vectors.upsert({keys[1]: X})
        assert keys[1:] == near(reader)
        assert keys == near(reader, older)
        assert keys[1:] == near(reader)


def test_deleted_between(stores):
    """Vectors that are stored while another process deletes all are stored for the model's next life."""
    writer, other, keys = stores
    left = [1]

    def clear(_connection, _cursor, statement, *_):
        if "FOR UPDATE" in statement and left:
            left.clear()
            other.vectors.clear()

    engine = writer._database._engine
    sa.event.listen(engine, "before_cursor_execute", clear)
    try:
        stored = writer.vectors.upsert({keys[0]: X})
    finally:
        sa.event.remove(engine, "before_cursor_execute", clear)

    assert (1, keys[:1], keys[:1]) == (stored, near(writer), near(other))


def test_deleted_vectors_cannot_be_read(stores):
    """Deleting all vectors leaves an empty table, which is dropped when no reader of an older moment can be left."""
    one, other, keys = stores
    one.vectors.clear()
    one.vectors.upsert({keys[0]: X})
    assert {"vector_1": 0, "vector_2": 1} == tables(one)

    other.vectors.clear()
    assert {"vector_1": 0, "vector_2": 0} == tables(one)
    with one._database.connected() as connection:
        told = connection.exec_driver_sql("SELECT value FROM meta WHERE name = 'vectors_left'").scalar_one()
        left = {**json.loads(told), "1": 0}
        connection.exec_driver_sql("UPDATE meta SET value = %s WHERE name = 'vectors_left'", (json.dumps(left),))
        connection.commit()
    one.vectors.upsert({keys[0]: X})
    one.vectors.clear()

    assert {"vector_2": 0, "vector_3": 0} == tables(one)


@pytest.mark.parametrize("then", ["clear", "upsert"])
def test_interrupted(stores, then):
    """What a process that ended while it deleted vectors left of them is deleted by the next that deletes or stores."""
    one, other, keys = stores

    def end(_connection, _cursor, statement, *_):
        if statement.startswith("DELETE FROM vector_1"):
            raise KeyboardInterrupt

    engine = one._database._engine
    sa.event.listen(engine, "before_cursor_execute", end)
    with pytest.raises(KeyboardInterrupt):
        one.vectors.clear()
    sa.event.remove(engine, "before_cursor_execute", end)
    assert {"vector_1": 2} == tables(one)
    assert ([], 0) == (near(other), other.vectors.count())

    if then == "clear":
        assert 0 == other.vectors.clear()
        assert {"vector_1": 0} == tables(one)
    else:
        assert 1 == other.vectors.upsert({keys[0]: X})
        assert {"vector_1": 0, "vector_2": 1} == tables(one)


def test_known_tables_are_not_looked_up(stores, statements):
    """Searches of a partition that did not change ask for vectors only."""
    reader, _, keys = stores
    near(reader)
    statements.clear()
    assert keys == near(reader)

    assert not [statement for statement in statements if "embedding_profile" in statement]
