"""The relational schema, version 0001.

Rows of one partition share a block of ids: ``revision.id`` is ``partition.id << 32 | sequence << 5 | length class``.
So a range of ids is a partition and full-text engines can be held to one, and an id alone tells how long its item is,
nearly.  A partition takes 2 ** 27 revisions.  ``revision`` is the immutable record; ``analysis`` holds the terms of
what is current and can be made again from it.  Times are integer microseconds since 1970, UTC.
"""

from __future__ import annotations

from math import log2

import sqlalchemy as sa

__all__ = [
    "LENGTH_BITS",
    "SEQUENCE_BITS",
    "TAG_SEPARATOR",
    "analysis",
    "block",
    "length_class",
    "meta",
    "metadata",
    "partition",
    "revision",
    "typical_length",
    "version",
]

SEQUENCE_BITS = 32
"""Of an id, below the partition."""
LENGTH_BITS = 5
"""Of an id, below the sequence."""
_SHORT, _STEPS = 4, 4
"""Classes begin with this length, and that many double it."""
TAG_SEPARATOR = "\n"
"""Stands before, between and after tags; control characters are not allowed inside one."""

# SQLite makes a column the row's own id only when its type is spelled INTEGER.
_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

metadata = sa.MetaData()

partition = sa.Table(
    "partition",
    metadata,
    sa.Column("id", _BIG, primary_key=True),
    sa.Column("scope_id", sa.String(256), nullable=False),
    sa.Column("family", sa.String(64), nullable=False),
    sa.Column("item_count", _BIG, nullable=False),
    sa.Column("total_length", _BIG, nullable=False),
    sa.Column("next_sequence", _BIG, nullable=False),
    sa.Column("changes", _BIG, nullable=False),
    sa.UniqueConstraint("scope_id", "family", name="partition_identity"),
    # An id is never used twice: keys and cached figures of a purged partition must not come to mean another one.
    sqlite_autoincrement=True,
)

# Large columns stand last, so that reading a candidate does not walk through the pages of a long body.
revision = sa.Table(
    "revision",
    metadata,
    sa.Column("id", _BIG, primary_key=True, autoincrement=False),
    sa.Column("partition_id", _BIG, nullable=False),
    sa.Column("artifact_id", sa.String(128), nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("current", sa.SmallInteger, nullable=False),
    sa.Column("retired_at", _BIG),
    sa.Column("digest", sa.LargeBinary(32), nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("category", sa.Text),
    sa.Column("title", sa.Text),
    sa.Column("abstract", sa.Text, nullable=False),
    sa.Column("abstract_given", sa.SmallInteger, nullable=False),
    sa.Column("body_bytes", sa.Integer, nullable=False),
    sa.Column("overview_bytes", sa.Integer, nullable=False),
    sa.Column("tags", sa.Text),
    sa.Column("created_at", _BIG, nullable=False),
    sa.Column("updated_at", _BIG, nullable=False),
    sa.Column("event_time", _BIG),
    sa.Column("thread", sa.Text),
    sa.Column("position", _BIG),
    sa.Column("confidence", sa.Double),
    sa.Column("layer", sa.String(8)),
    sa.Column("origin", sa.Text),
    sa.Column("meta", sa.Text),
    sa.Column("head", sa.Text, nullable=False),
    sa.Column("rest", sa.Text),
    sa.Column("overview", sa.Text),
)
_current = sa.text("current = 1")
sa.Index("revision_history", revision.c.partition_id, revision.c.artifact_id, revision.c.number, unique=True)
# A second guard that needs a partial index; where there is none, revision_history and the writer's lock must do.
sa.Index(
    "revision_current", revision.c.partition_id, revision.c.artifact_id, unique=True, sqlite_where=_current
).ddl_if(dialect="sqlite")
sa.Index(
    "revision_thread",
    revision.c.partition_id,
    revision.c.thread,
    revision.c.position,
    revision.c.artifact_id,
    sqlite_where=sa.text("current = 1 AND thread IS NOT NULL AND position IS NOT NULL"),
)
sa.Index("revision_created", revision.c.partition_id, revision.c.created_at, sqlite_where=_current)
sa.Index("revision_updated", revision.c.partition_id, revision.c.updated_at, sqlite_where=_current)
sa.Index(
    "revision_event",
    revision.c.partition_id,
    revision.c.event_time,
    sqlite_where=sa.text("current = 1 AND event_time IS NOT NULL"),
)

# `terms` are the distinct encoded terms, each between spaces; `repeats` the counts above one as ` term:count `;
# `threaded` says whether the item has a place in a thread.
analysis = sa.Table(
    "analysis",
    metadata,
    sa.Column("id", _BIG, primary_key=True, autoincrement=False),
    sa.Column("artifact_id", sa.String(128), nullable=False),
    sa.Column("length", sa.Integer, nullable=False),
    sa.Column("threaded", sa.SmallInteger, nullable=False),
    sa.Column("repeats", sa.Text),
    sa.Column("terms", sa.Text, nullable=False),
)

meta = sa.Table(
    "meta",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)

# Alembic's own table; named here so that a fresh database can be stamped without importing alembic.
version = sa.table("alembic_version", sa.column("version_num"))


def block(partition_id: int) -> tuple[int, int]:
    """Return the first and last id that the rows of a partition may have."""
    return partition_id << SEQUENCE_BITS, (partition_id + 1 << SEQUENCE_BITS) - 1


def length_class(length: int) -> int:
    """Return the class of an item of so many terms, for its id.

    A hint, made once: a later analysis may count other terms, and what is ranked is ranked by the exact length.
    """
    return min((1 << LENGTH_BITS) - 1, round(_STEPS * log2(max(length, _SHORT) / _SHORT)))


def typical_length(number: int) -> float:
    """Return a length in the middle of a class."""
    return float(_SHORT * 2.0 ** (number / _STEPS))
