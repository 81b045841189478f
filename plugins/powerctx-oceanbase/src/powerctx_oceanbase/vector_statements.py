"""The statements of the vector index; what stands in their text are numbers of this package's own."""

# ruff: noqa: S608 - as above
from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from powerctx_core.types import Filters, Key
from powerctx_core.vectors import COSINE_DIGITS
from powerctx_sqlalchemy.statements import Shape

NUMBERS = "SELECT id FROM embedding_profile"
PROFILES = "SELECT value FROM meta WHERE name = 'profiles'"
CHANGES = "SELECT value FROM meta WHERE name = 'changes'"
META = "SELECT value FROM meta WHERE name = %s"
PUT_META = "REPLACE INTO meta (name, value) VALUES (%s, %s)"
SET_META = "UPDATE meta SET value = %s WHERE name = %s"
ADD_PROFILE = "INSERT INTO embedding_profile (id, fingerprint, dimensions, forgotten) VALUES (%s, %s, %s, 0)"
FORGET_PROFILE = "DELETE FROM embedding_profile"
# Stored vectors have unit length but for their rounding, and what all stores compare by is the product.
_COSINE = f"ROUND(inner_product(v.embedding, {{}}), {COSINE_DIGITS})"
_NEAR = f"SELECT v.id, {_COSINE.format('%s')} AS cosine FROM vector_{{}} v WHERE v.id BETWEEN %s AND %s ORDER BY "
_BY_INDEX = "cosine_distance(v.embedding, %s) APPROXIMATE LIMIT %s"


def _listed(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))


def count(number: int) -> str:
    """Count the vectors of a model."""
    return f"SELECT count(*) FROM vector_{number}"


def current(keys: Sequence[Key]) -> str:
    """Read what is embedded of those keys that are current."""
    wanted = f"current = 1 AND id IN ({_listed(keys)})"
    return f"SELECT id, partition_id, title, head FROM revision WHERE {wanted} ORDER BY id"


def insert(number: int) -> str:
    """Store vectors."""
    return f"INSERT INTO vector_{number} (id, text_hash, embedding) VALUES (%s, %s, %s)"


def delete_some(number: int, keys: Sequence[Key]) -> str:
    """Delete vectors."""
    return f"DELETE FROM vector_{number} WHERE id IN ({_listed(keys)})"


def delete_any(number: int) -> str:
    """Delete some vectors of a model, whichever."""
    return f"DELETE FROM vector_{number} LIMIT 5000"


def drop(number: int) -> str:
    """Drop the table of a model."""
    return f"DROP TABLE IF EXISTS vector_{number}"


def set_partitions(partitions: Sequence[int] | None) -> str:
    """Set the change counters of some partitions, or of all."""
    wanted = "" if partitions is None else f" WHERE id IN ({_listed(partitions)})"
    return f"UPDATE `partition` SET changes = %s{wanted}"


def cached(number: int, hashes: int) -> str:
    """Look up hashes of texts."""
    asked = ", ".join(["%s"] * hashes)
    return f"SELECT text_hash, embedding FROM vector_{number} WHERE text_hash IN ({asked})"


def unembedded(number: int | None) -> str:
    """Read current revisions without a vector."""
    none = "" if number is None else f"AND NOT EXISTS (SELECT 1 FROM vector_{number} v WHERE v.id = r.id) "
    return (
        "SELECT r.id, p.family, r.title, r.head FROM revision r JOIN `partition` p ON p.id = r.partition_id "
        f"WHERE r.id > %s AND r.current = 1 {none}ORDER BY r.id LIMIT %s"
    )


def exact(number: int) -> str:
    """Compare every vector between two ids."""
    return f"{_NEAR.format(number)}cosine DESC, v.id LIMIT %s"


def approximate(number: int) -> str:
    """Ask the index, which only knows distances, for what lies between two ids."""
    return f"{_NEAR.format(number)}{_BY_INDEX}"


def approximate_any(number: int) -> str:
    """Ask the index for what is nearest in the whole table: a tenth of the time of a condition."""
    return f"SELECT v.id, {_COSINE.format('%s')} AS cosine FROM vector_{number} v ORDER BY {_BY_INDEX}"


def some(number: int, keys: Sequence[Key]) -> str:
    """Compare the vectors of some keys."""
    return f"SELECT v.id, {_COSINE.format('%s')} FROM vector_{number} v WHERE v.id IN ({_listed(keys)})"


def filtered(number: int, filters: Filters) -> sa.TextClause:
    """Compare every vector between two ids whose revision passes *filters*."""
    dialect = mysql.dialect(paramstyle="named")
    conditions = [str(condition.compile(dialect=dialect)) for condition in Shape.of(filters).conditions()]
    return sa.text(
        f"SELECT v.id, {_COSINE.format(':vector')} AS cosine FROM vector_{number} v "
        "JOIN revision ON revision.id = v.id WHERE v.id BETWEEN :first AND :last AND "
        f"{' AND '.join(conditions)} ORDER BY cosine DESC, v.id LIMIT :count"
    )
