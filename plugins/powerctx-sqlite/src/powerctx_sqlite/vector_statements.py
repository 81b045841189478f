"""The statements of the vector index."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from powerctx_core.types import Filters
from powerctx_sqlalchemy.statements import TIME, Shape
from powerctx_sqlalchemy.tables import revision
from powerctx_sqlalchemy.vector_tables import vector

_MODEL = "(SELECT id FROM embedding_profile)"

ADD_PROFILE = "INSERT INTO embedding_profile(fingerprint, dimensions, forgotten) VALUES (?, ?, ?) RETURNING id"
FORGET_PROFILE = "DELETE FROM embedding_profile"
COUNT = "SELECT count(*) FROM vector"
CHANGES = "SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'changes'"
SET_CHANGES = "UPDATE meta SET value = ? WHERE name = 'changes'"
SET_PARTITIONS = "UPDATE partition SET changes = ? WHERE id IN (SELECT value FROM json_each(?))"
SET_ALL_PARTITIONS = "UPDATE partition SET changes = ?"
CURRENT = (
    "SELECT r.id, r.partition_id, r.title, r.head FROM json_each(?) v CROSS JOIN revision r ON r.id = v.value "
    "WHERE r.current = 1 ORDER BY r.id"
)
UPSERT = (
    "INSERT INTO vector(id, partition_id, stamp, text_hash, embedding) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT(id) DO UPDATE "
    "SET stamp = excluded.stamp, text_hash = excluded.text_hash, embedding = excluded.embedding"
)
CLEAR = ("DELETE FROM vector", "DELETE FROM vector_removed", FORGET_PROFILE)
UNEMBEDDED = (
    "SELECT r.id, p.family, r.title, r.head FROM revision r JOIN partition p ON p.id = r.partition_id "
    "WHERE r.id > ? AND r.current = 1 "
    "AND NOT EXISTS (SELECT 1 FROM vector v WHERE v.id = r.id) ORDER BY r.id LIMIT ?"
)
BY_KEY = f"SELECT v.id, v.embedding, {_MODEL} FROM json_each(?) k CROSS JOIN vector v ON v.id = k.value"  # noqa: S608 - nothing of a user's
STATE = "SELECT p.changes, m.id, m.forgotten FROM partition p LEFT JOIN embedding_profile m WHERE p.id = ?"
WHOLE = "SELECT id, embedding FROM vector WHERE id BETWEEN ? AND ? ORDER BY id"
ADDED = "SELECT id, embedding FROM vector WHERE partition_id = ? AND stamp > ? ORDER BY id"
REMOVED = "SELECT id FROM vector_removed WHERE partition_id = ? AND stamp > ?"
MANY_REMOVALS = "SELECT 1 FROM vector_removed LIMIT 1 OFFSET ?"
FORGET_REMOVALS = "DELETE FROM vector_removed"
SET_FORGOTTEN = "UPDATE embedding_profile SET forgotten = ?"


@lru_cache(maxsize=8)
def cached(count: int) -> str:
    """Return the statement that looks up *count* hashes of texts."""
    values = ", ".join(["(?)"] * count)
    return (
        f"WITH asked(hash) AS (VALUES {values}) "  # noqa: S608 - question marks
        "SELECT hash, (SELECT embedding FROM vector WHERE text_hash = hash LIMIT 1) FROM asked"
    )


def direct(filters: Filters) -> sa.Select[Any]:
    """Return the statement that reads the vectors of a block, ``first`` to ``last``."""
    return _direct(Shape.of(filters))


def allowed(filters: Filters) -> sa.Select[Any]:
    """Return the statement that reads the keys of what is current in ``partition`` and passes the filters.

    They come as one text with commas: many rows of one number each cost more than the search.
    """
    return _allowed(Shape.of(filters))


@lru_cache(maxsize=256)
def _direct(shape: Shape) -> sa.Select[Any]:
    wanted = shape.conditions()
    rows = vector.join(revision, revision.c.id == vector.c.id) if wanted else vector
    return (
        sa.select(vector.c.id, vector.c.embedding, sa.literal_column(_MODEL))
        .select_from(rows)
        .where(vector.c.id.between(sa.bindparam("first"), sa.bindparam("last")), *wanted)
    )


@lru_cache(maxsize=256)
def _allowed(shape: Shape) -> sa.Select[Any]:
    wanted = shape.conditions()
    if (shape.since or shape.until) and shape.time_field == "event":
        # SQLite uses a partial index only when its condition is spelled out.
        wanted.append(TIME["event"].is_not(None))
    return sa.select(sa.func.group_concat(revision.c.id)).where(
        revision.c.partition_id == sa.bindparam("partition"), revision.c.current == sa.text("1"), *wanted
    )
