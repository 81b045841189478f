"""The tables of a companion, which are made with its first vectors and are no part of other stores.

An entry is *pending* from the mark until it counts, *live* while it is the vector of its revision, and *doomed* until
the engine has deleted it: the doomed ones are the repair log.  Which model, generation and numbers are in use stands in
``meta``, as JSON.
"""

from __future__ import annotations

import json
from enum import IntEnum
from typing import Self

import attrs
import sqlalchemy as sa

from powerctx_core.errors import StoreUnavailable
from powerctx_sqlalchemy.paired.engine import Collection
from powerctx_sqlalchemy.tables import meta
from powerctx_sqlalchemy.types import BIG, digest

__all__ = ["SHARED", "Mark", "Paired", "collection", "entry", "metadata"]

SHARED = 0
"""Stands for the partition of the collection that small partitions share."""
_NAME, _SCHEMA = "paired", 1

metadata = sa.MetaData()

entry = sa.Table(
    "paired_entry",
    metadata,
    sa.Column("id", BIG, primary_key=True, autoincrement=False),
    sa.Column("revision_id", BIG, nullable=False),
    sa.Column("partition_id", BIG, nullable=False),
    sa.Column("collection_id", BIG, nullable=False),
    sa.Column("state", sa.SmallInteger, nullable=False),
    # When it became what it is, microseconds.
    sa.Column("since", BIG, nullable=False),
    sa.Column("text_hash", digest(16), nullable=False),
)
sa.Index("paired_entry_revision", entry.c.revision_id)
sa.Index("paired_entry_partition", entry.c.partition_id, entry.c.state)
sa.Index("paired_entry_text", entry.c.text_hash)
sa.Index("paired_entry_open", entry.c.state, entry.c.collection_id, sqlite_where=sa.text("state <> 1"))

collection = sa.Table(
    "paired_collection",
    metadata,
    sa.Column("id", BIG, primary_key=True, autoincrement=False),
    sa.Column("partition_id", BIG, nullable=False),
    sa.Column("state", sa.SmallInteger, nullable=False),
    sa.Column("since", BIG, nullable=False),
    sa.Column("generation", BIG, nullable=False),
)


class Mark(IntEnum):
    """What an entry or a collection is."""

    PENDING = 0
    LIVE = 1
    DOOMED = 2


@attrs.frozen(kw_only=True)
class Paired:
    """The row of ``meta``.

    Attributes:
        store_id: of the companion; not part of the row's JSON.
        generation: how often all vectors were deleted, from 1.
        last: highest number of an entry or a collection.
        fingerprint: of the model in use, or nothing when there is none.
        dimensions: of its vectors.
    """

    store_id: str
    generation: int = 1
    last: int = 0
    fingerprint: str = ""
    dimensions: int = 0

    @classmethod
    def read(cls, connection: sa.Connection, location: str) -> Self | None:
        """Return what is stored, or ``None`` when there were never vectors, and so there are no tables.

        Raises:
            StoreUnavailable: a newer version has written it.
        """
        found = dict(connection.execute(_READ).all())
        if _NAME not in found:
            return None
        stored = json.loads(found[_NAME])
        if stored.pop("schema") != _SCHEMA:
            raise StoreUnavailable(
                f"{location} was paired with a vector engine by a newer version; upgrade the powerctx packages."
            )
        return cls(store_id=found["store_id"], **stored)

    @classmethod
    def create(cls, connection: sa.Connection) -> None:
        """Make the tables, and the row, unless they are there."""
        metadata.create_all(connection)
        found = dict(connection.execute(_READ).all())
        if _NAME not in found:
            connection.execute(sa.insert(meta).values(name=_NAME, value=cls(store_id=found["store_id"]).as_json()))

    def write(self, connection: sa.Connection) -> None:
        """Store it in place of what is there."""
        connection.execute(_WRITE, {"new": self.as_json()})

    def collection(self, number: int, generation: int | None = None) -> Collection:
        """Return a collection of this store, of the present generation unless another is given."""
        return Collection(
            number=number,
            store_id=self.store_id,
            generation=self.generation if generation is None else generation,
            fingerprint=self.fingerprint,
            dimensions=self.dimensions,
        )

    def as_json(self) -> str:
        """Return what is stored of it."""
        stored = {field.name: getattr(self, field.name) for field in attrs.fields(Paired)}
        return json.dumps({"schema": _SCHEMA, **{name: stored[name] for name in stored if name != "store_id"}})


_READ = sa.select(meta.c.name, meta.c.value).where(meta.c.name.in_(("store_id", _NAME)))
_WRITE = sa.update(meta).where(meta.c.name == _NAME).values(value=sa.bindparam("new"))
