"""The statements of the catalogue, built once for a database; SQLAlchemy caches their compiled form."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Self

import attrs
import sqlalchemy as sa

from powerctx_core.types import Filters
from powerctx_sqlalchemy.database import Database
from powerctx_sqlalchemy.rows import CANDIDATE, REVISION, joined_tags, microseconds
from powerctx_sqlalchemy.tables import analysis, meta, partition, revision
from powerctx_sqlalchemy.types import latest_first

__all__ = ["TIME", "Shape", "Statements", "listing", "listings", "parameters", "scan"]

TIME = {"created": revision.c.created_at, "updated": revision.c.updated_at, "event": revision.c.event_time}


_BLOCK = revision.c.id.between(sa.bindparam("first"), sa.bindparam("last"))
_ONE = sa.text("1")


def _with_details(rows: sa.FromClause) -> sa.FromClause:
    """Join what a candidate needs beside ``revision``; terms are missing while the index is rebuilt."""
    return rows.outerjoin(analysis, analysis.c.id == revision.c.id)


class Statements:
    """Every statement that is not the lexical index's own."""

    def __init__(self, database: Database) -> None:
        self.meta = sa.select(meta.c.name, meta.c.value)
        self.changes = sa.select(meta.c.value).where(meta.c.name == sa.text("'changes'"))
        self._partitions(database)
        self._reads(database)
        self._writes(database)

    def _partitions(self, database: Database) -> None:
        asked = database.json_rows("asked", "scope_id", "family")
        self.find_partitions = sa.select(
            asked.c.place,
            partition.c.id,
            partition.c.item_count,
            partition.c.total_length,
            partition.c.changes,
            partition.c.next_sequence,
        ).select_from(
            asked.join(
                partition,
                sa.and_(partition.c.scope_id == asked.c.scope_id, partition.c.family == asked.c.family),
            )
        )
        self.find_partition = sa.select(
            sa.literal_column("0"),
            partition.c.id,
            partition.c.item_count,
            partition.c.total_length,
            partition.c.changes,
            partition.c.next_sequence,
        ).where(partition.c.scope_id == sa.bindparam("scope"), partition.c.family == sa.bindparam("name"))
        known = database.json_values("ids")
        self.name_partitions = sa.select(partition.c.id, partition.c.scope_id, partition.c.family).select_from(
            known.join(partition, partition.c.id == known.c.value)
        )
        self.list_partitions = sa.select(partition.c.scope_id, partition.c.family, partition.c.item_count).where(
            partition.c.item_count > sa.text("0")
        )
        self.scope_partitions = sa.select(
            partition.c.family, partition.c.id, partition.c.item_count, partition.c.total_length, partition.c.changes
        ).where(partition.c.scope_id == sa.bindparam("scope"), partition.c.item_count > sa.text("0"))
        self.totals = sa.select(
            sa.func.coalesce(sa.func.sum(partition.c.item_count), sa.text("0")), sa.func.count()
        ).select_from(partition)

    def _reads(self, database: Database) -> None:
        named, wanted = database.keyed(revision, "ids")
        self.fetch = sa.select(*CANDIDATE).select_from(named).where(revision.c.current == _ONE, *wanted)
        self.fetch_with_terms = (
            sa.select(*CANDIDATE, analysis.c.length, analysis.c.terms, analysis.c.repeats)
            .select_from(_with_details(named))
            .where(revision.c.current == _ONE, *wanted)
        )
        self.neighbours = self._neighbours(database)
        one = (
            sa.select(*REVISION)
            .select_from(revision.join(partition, partition.c.id == revision.c.partition_id))
            .where(
                partition.c.scope_id == sa.bindparam("scope"),
                partition.c.family == sa.bindparam("name"),
                revision.c.artifact_id == sa.bindparam("artifact"),
            )
        )
        self.get = one.where(revision.c.number == sa.bindparam("number"))
        self.latest = one.where(revision.c.current == _ONE)
        self.history = one.order_by(revision.c.number)

    def _neighbours(self, database: Database) -> sa.Select[Any]:
        ids, other = database.json_values("ids"), revision.alias("other")
        beside = sa.and_(
            other.c.partition_id == revision.c.partition_id,
            other.c.thread == revision.c.thread,
            other.c.current == _ONE,
            # Implied by the comparison below, but SQLite uses a partial index only when it is spelled out.
            other.c.thread.is_not(None),
            other.c.position.is_not(None),
        )
        place = sa.tuple_(other.c.position, other.c.artifact_id)
        own = sa.tuple_(revision.c.position, revision.c.artifact_id)
        before = (
            sa.select(other.c.id)
            .where(beside, place < own)
            .order_by(other.c.position.desc(), other.c.artifact_id.desc())
            .limit(1)
        )
        after = (
            sa.select(other.c.id).where(beside, place > own).order_by(other.c.position, other.c.artifact_id).limit(1)
        )
        return (
            sa.select(revision.c.id, before.scalar_subquery(), after.scalar_subquery())
            .select_from(ids.join(revision, revision.c.id == ids.c.value))
            .where(revision.c.current == _ONE, revision.c.thread.is_not(None), _BLOCK)
        )

    def _writes(self, database: Database) -> None:
        ids = database.json_values("ids")
        chosen = sa.select(ids.c.value)
        asked, older = database.json_rows("asked", "partition_id", "artifact_id"), revision.alias("older")
        same = sa.and_(older.c.partition_id == asked.c.partition_id, older.c.artifact_id == asked.c.artifact_id)
        newest = sa.select(sa.func.max(older.c.number)).where(same).scalar_subquery()
        first = sa.select(older.c.created_at).where(same, older.c.number == _ONE).scalar_subquery()
        artifact = sa.and_(
            revision.c.partition_id == asked.c.partition_id, revision.c.artifact_id == asked.c.artifact_id
        )
        self.find_heads = sa.select(
            asked.c.place, revision.c.id, revision.c.number, revision.c.current, revision.c.digest, first
        ).select_from(asked.join(revision, sa.and_(artifact, revision.c.number == newest)))
        self.find_ids = sa.select(revision.c.id, revision.c.current).select_from(asked.join(revision, artifact))
        self._removals(chosen)
        self._counters()

    def _removals(self, chosen: sa.Select[Any]) -> None:
        self.lengths = sa.select(analysis.c.id, analysis.c.length).where(analysis.c.id.in_(chosen))
        self.supersede = (
            sa.update(revision).where(revision.c.id.in_(chosen)).values(current=sa.text("0"), retired_at=sa.null())
        )
        self.retire = (
            sa.update(revision)
            .where(revision.c.id.in_(chosen))
            .values(current=sa.text("0"), retired_at=sa.bindparam("now"))
        )
        self.delete_revisions = sa.delete(revision).where(revision.c.id.in_(chosen))
        self.delete_terms = sa.delete(analysis).where(analysis.c.id.in_(chosen))
        self.delete_partitions = sa.delete(partition).where(
            partition.c.id.in_(chosen),
            ~sa.exists().where(revision.c.partition_id == partition.c.id),
        )

    def _counters(self) -> None:
        self.insert_partition = sa.insert(partition).values(
            scope_id=sa.bindparam("scope"),
            family=sa.bindparam("name"),
            item_count=sa.text("0"),
            total_length=sa.text("0"),
            next_sequence=_ONE,
            changes=sa.text("0"),
        )
        self.insert_numbered_partition = self.insert_partition.values(id=sa.bindparam("number"))
        self.update_partition = (
            sa.update(partition)
            .where(partition.c.id == sa.bindparam("which"))
            .values(
                item_count=partition.c.item_count + sa.bindparam("more_items"),
                total_length=partition.c.total_length + sa.bindparam("more_length"),
                next_sequence=partition.c.next_sequence + sa.bindparam("more_sequence"),
                changes=sa.bindparam("stamp"),
            )
        )
        self.set_meta = sa.update(meta).where(meta.c.name == sa.bindparam("which")).values(value=sa.bindparam("new"))
        self.content = (
            sa.select(
                revision.c.id,
                revision.c.artifact_id,
                revision.c.title,
                revision.c.head,
                revision.c.rest,
                revision.c.category,
                revision.c.tags,
                revision.c.thread,
                revision.c.position,
            )
            .where(revision.c.current == _ONE, revision.c.id > sa.bindparam("after"))
            .order_by(revision.c.id)
            .limit(sa.bindparam("count"))
        )


@attrs.frozen
class Shape:
    """What of a filter decides the text of a statement; the rest are values."""

    tags: int
    since: bool
    until: bool
    time_field: str
    category: bool

    @classmethod
    def of(cls, filters: Filters) -> Self:
        """Return the shape of *filters*."""
        return cls(
            len(filters.tags),
            filters.since is not None,
            filters.until is not None,
            filters.time_field,
            filters.category is not None,
        )

    def conditions(self) -> list[sa.ColumnElement[bool]]:
        """Return what such filters demand of a revision; :func:`parameters` binds the values."""
        time = TIME[self.time_field]
        found: list[sa.ColumnElement[bool]] = [
            sa.func.instr(revision.c.tags, sa.bindparam(f"tag{n}")) > sa.text("0") for n in range(self.tags)
        ]
        if self.since:
            found.append(time >= sa.bindparam("since"))
        if self.until:
            found.append(time < sa.bindparam("until"))
        if self.category:
            found.append(revision.c.category == sa.bindparam("category"))
        return found


def parameters(filters: Filters) -> dict[str, Any]:
    """Return the values that the conditions of *filters* bind."""
    found: dict[str, Any] = {f"tag{n}": joined_tags((tag,)) for n, tag in enumerate(filters.tags)}
    if filters.since is not None:
        found["since"] = microseconds(filters.since)
    if filters.until is not None:
        found["until"] = microseconds(filters.until)
    if filters.category is not None:
        found["category"] = filters.category
    return found


@lru_cache(maxsize=256)
def _listing(shape: Shape, prefix: bool, partition: str = "partition") -> sa.Select[Any]:  # noqa: FBT001 - the shape of a statement
    wanted = [revision.c.partition_id == sa.bindparam(partition), revision.c.current == _ONE, *shape.conditions()]
    if prefix:
        own = revision.c.artifact_id
        wanted.append(
            sa.or_(own == sa.bindparam("prefix"), sa.and_(own >= sa.bindparam("low"), own < sa.bindparam("high")))
        )
    time = TIME[shape.time_field]
    if (shape.since or shape.until) and shape.time_field == "event":
        # Said for SQLite, which uses a partial index only when its condition is spelled out.
        wanted.append(time.is_not(None))
    latest = latest_first(time) if shape.time_field == "event" else time.desc()
    return (
        sa.select(*CANDIDATE, analysis.c.length)
        .select_from(_with_details(revision))
        .where(*wanted)
        .order_by(latest, revision.c.artifact_id)
        .limit(sa.bindparam("count"))
    )


def listing(filters: Filters, prefix: str | None) -> tuple[sa.Select[Any], dict[str, Any]]:
    """Return the listing for *filters* and *prefix* with the values it binds, ``partition`` and ``count`` apart."""
    statement, bound = _listing(Shape.of(filters), prefix is not None), parameters(filters)
    if prefix is not None:
        # "0" is the character after "/", so this is everything that begins with the prefix and a slash.
        bound |= {"prefix": prefix, "low": f"{prefix}/", "high": f"{prefix}0"}
    return statement, bound


@lru_cache(maxsize=256)
def _listings(shape: Shape, prefix: bool, count: int) -> sa.CompoundSelect[Any]:  # noqa: FBT001 - as above
    each = [_listing(shape, prefix, f"partition{n}").subquery(f"listed{n}") for n in range(count)]
    return sa.union_all(*(sa.select(sa.literal_column(str(n)), part) for n, part in enumerate(each)))


def listings(filters: Filters, prefix: str | None, count: int) -> tuple[sa.CompoundSelect[Any], dict[str, Any]]:
    """Return *count* listings as one statement, each row with the place of its listing before it.

    What it binds is that of :func:`listing`, with ``partition0`` and so on for the partitions.
    """
    return _listings(Shape.of(filters), prefix is not None, count), listing(filters, prefix)[1]


@lru_cache(maxsize=256)
def _scan(shape: Shape) -> sa.Select[Any]:
    wanted = shape.conditions()
    columns = (
        analysis.c.id,
        analysis.c.artifact_id,
        analysis.c.length,
        analysis.c.threaded,
        analysis.c.repeats,
        analysis.c.terms,
    )
    block = analysis.c.id.between(sa.bindparam("first"), sa.bindparam("last"))
    if not wanted:
        return sa.select(*columns, _ONE).where(block)
    joined = analysis.join(revision, revision.c.id == analysis.c.id)
    return sa.select(*columns, sa.and_(*wanted)).select_from(joined).where(block)


def scan(filters: Filters) -> tuple[sa.Select[Any], dict[str, Any]]:
    """Return the statement that reads the terms of a whole block, with what the filters say of each row."""
    return _scan(Shape.of(filters)), parameters(filters)
