"""The relational schema, version 0001.

Rows of one partition share a block of ids: ``revision.id`` is ``partition.id << 32 | sequence << 5 | length class``.
So a range of ids is a partition and full-text engines can be held to one, and an id alone tells how long its item is,
nearly.  A partition takes 2 ** 27 revisions.  ``revision`` is the immutable record; ``analysis`` holds the terms of
what is current and can be made again from it.  Times are integer microseconds since 1970, UTC.
"""

from __future__ import annotations

from math import log2

import sqlalchemy as sa

from powerctx_sqlalchemy.types import BIG, digest, name, text

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

metadata = sa.MetaData()

partition = sa.Table(
    "partition",
    metadata,
    sa.Column("id", BIG, primary_key=True),
    sa.Column("scope_id", name(256), nullable=False),
    sa.Column("family", name(64), nullable=False),
    sa.Column("item_count", BIG, nullable=False),
    sa.Column("total_length", BIG, nullable=False),
    sa.Column("next_sequence", BIG, nullable=False),
    sa.Column("changes", BIG, nullable=False),
    sa.UniqueConstraint("scope_id", "family", name="partition_identity"),
    # An id is never used twice: keys and cached figures of a purged partition must not come to mean another one.
    sqlite_autoincrement=True,
)

# Large columns stand last, so that reading a candidate does not walk through the pages of a long body.
revision = sa.Table(
    "revision",
    metadata,
    sa.Column("id", BIG, primary_key=True, autoincrement=False),
    sa.Column("partition_id", BIG, nullable=False),
    sa.Column("artifact_id", name(128), nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("current", sa.SmallInteger, nullable=False),
    sa.Column("retired_at", BIG),
    sa.Column("digest", digest(32), nullable=False),
    sa.Column("kind", name(16), nullable=False),
    sa.Column("category", text(compared=True)),
    sa.Column("title", text()),
    sa.Column("abstract", text(), nullable=False),
    sa.Column("abstract_given", sa.SmallInteger, nullable=False),
    sa.Column("body_bytes", sa.Integer, nullable=False),
    sa.Column("overview_bytes", sa.Integer, nullable=False),
    sa.Column("tags", text(compared=True)),
    sa.Column("created_at", BIG, nullable=False),
    sa.Column("updated_at", BIG, nullable=False),
    sa.Column("event_time", BIG),
    sa.Column("thread", text(indexed=True)),
    sa.Column("position", BIG),
    sa.Column("confidence", sa.Double),
    sa.Column("layer", name(8)),
    sa.Column("origin", text()),
    sa.Column("meta", text()),
    sa.Column("head", text(), nullable=False),
    sa.Column("rest", text()),
    sa.Column("overview", text()),
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
    sa.Column("id", BIG, primary_key=True, autoincrement=False),
    sa.Column("artifact_id", name(128), nullable=False),
    sa.Column("length", sa.Integer, nullable=False),
    sa.Column("threaded", sa.SmallInteger, nullable=False),
    sa.Column("repeats", text()),
    sa.Column("terms", text(), nullable=False),
)

meta = sa.Table(
    "meta",
    metadata,
    sa.Column("name", name(64), primary_key=True),
    sa.Column("value", text(), nullable=False),
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
