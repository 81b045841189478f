"""The tables as OceanBase is told them: every index inside CREATE TABLE, since adding one later takes a second each."""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.schema import CreateColumn

from powerctx_sqlalchemy.tables import SEQUENCE_BITS, analysis, metadata, revision
from powerctx_sqlalchemy.types import BIG, name, text
from powerctx_sqlalchemy.vector_tables import PLAIN

__all__ = [
    "LOCK",
    "TABLES",
    "bucket",
    "first_number",
    "lexical",
    "table_statements",
    "term_count",
    "vector_index",
    "vector_table",
]

_DIALECT = mysql.dialect()
_BUCKET_SHIFT = 25
"""Of a partition's id, below the bucket: so many partitions fit in one bucket, and 64 buckets in 31 bits."""
_OWN = sa.MetaData()

# How many items of a partition hold a term: counting them in the full-text index takes as long as finding them.
term_count = sa.Table(
    "term_count",
    _OWN,
    sa.Column("partition_id", BIG, primary_key=True, autoincrement=False),
    sa.Column("code", name(64), primary_key=True),
    sa.Column("item_count", BIG, nullable=False),
)

# What the engine ranks by: each term as often as it occurs.
lexical = sa.Table(
    "lexical",
    _OWN,
    sa.Column("id", BIG, primary_key=True, autoincrement=False),
    sa.Column("words", text(), nullable=False),
)

_EXTRA = {lexical.name: ["FULLTEXT INDEX lexical_words (words) WITH PARSER space"]}
_SPLIT = frozenset({revision.name, analysis.name, lexical.name})
LOCK = "schema_lock"
"""A table whose one row is locked by who makes or migrates the others."""
TABLES = frozenset({*metadata.tables} - PLAIN | {*_OWN.tables, "alembic_version", LOCK})


def bucket(scope_id: str, buckets: int) -> int:
    """Return the part of the tables that a scope's rows stand in."""
    return crc32(scope_id.encode()) % buckets


def first_number(which: int) -> int:
    """Return what the ids of a bucket's partitions are counted from."""
    return which << _BUCKET_SHIFT


def table_statements(buckets: int) -> Iterator[str]:
    """Yield CREATE TABLE for every table that does not depend on the model of the vectors."""
    for table in (*metadata.sorted_tables, *_OWN.sorted_tables):
        if table.name not in PLAIN:
            yield _created(table, buckets)


def vector_table(number: int, dimensions: int, buckets: int) -> str:
    """Return CREATE TABLE for the vectors of one model."""
    return (
        f"CREATE TABLE IF NOT EXISTS vector_{number} (id BIGINT NOT NULL, text_hash VARBINARY(16) NOT NULL, "
        f"embedding VECTOR({dimensions}) NOT NULL, PRIMARY KEY (id), KEY vector_{number}_text (text_hash), "
        f"VECTOR INDEX {vector_index(number)} (embedding) WITH (DISTANCE=cosine, TYPE=hnsw, LIB=vsag))"
        f"{_parts(buckets)}"
    )


def vector_index(number: int) -> str:
    """Return the name of the index over the vectors of one model."""
    return f"vector_{number}_near"


def _created(table: sa.Table, buckets: int) -> str:
    columns = [str(CreateColumn(column).compile(dialect=_DIALECT)) for column in table.columns]
    quote = _DIALECT.identifier_preparer.quote
    split = buckets > 1 and table.name in _SPLIT

    def key(kind: str, columns: sa.sql.base.ReadOnlyColumnCollection[str, sa.Column[object]]) -> str:
        return f"{kind} ({', '.join(quote(column.name) for column in columns)})"

    columns.append(key("PRIMARY KEY", table.primary_key.columns))
    columns += [
        key(f"UNIQUE KEY {constraint.name}", constraint.columns)
        for constraint in table.constraints
        if isinstance(constraint, sa.UniqueConstraint)
    ]
    for index in sorted(table.indexes, key=lambda index: str(index.name)):
        if index.name != "revision_current":
            # In a table of several parts only an index that holds their key may be unique; the writers' lock must do.
            columns.append(key(f"{'UNIQUE ' if index.unique and not split else ''}KEY {index.name}", index.columns))
    columns += _EXTRA.get(table.name, [])
    body = ",\n".join(columns).replace(" AUTO_INCREMENT", "")
    options = " DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
    return f"CREATE TABLE IF NOT EXISTS {quote(table.name)} (\n{body}\n){options}{_parts(buckets) if split else ''}"


def _parts(buckets: int) -> str:
    """Return the clause that makes one part a bucket: ids begin with it, so that a range of ids is in one of them."""
    if buckets == 1:
        return ""
    bounds = [f"VALUES LESS THAN ({first_number(which + 1) << SEQUENCE_BITS})" for which in range(buckets - 1)]
    parts = ", ".join(f"PARTITION p{n} {bound}" for n, bound in enumerate([*bounds, "VALUES LESS THAN (MAXVALUE)"]))
    return f" PARTITION BY RANGE (id) ({parts})"
