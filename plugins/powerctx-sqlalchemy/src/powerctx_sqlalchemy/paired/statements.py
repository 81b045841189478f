"""The statements of a pairing, built once for a database."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from powerctx_core.types import Filters
from powerctx_sqlalchemy.database import Database
from powerctx_sqlalchemy.paired.tables import Mark, collection, entry
from powerctx_sqlalchemy.statements import TIME, Shape, parameters
from powerctx_sqlalchemy.tables import meta, partition, revision

__all__ = ["PairedStatements"]

_LIVE = entry.c.state == sa.text(str(int(Mark.LIVE)))
# Spelled out, since SQLite uses a partial index only then.
_OPEN = entry.c.state != sa.text(str(int(Mark.LIVE)))
_CURRENT = revision.c.current == sa.text("1")
_IS_CURRENT = sa.exists().where(revision.c.id == entry.c.revision_id, _CURRENT)
_STAMP: sa.BindParameter[Any] = sa.bindparam("stamp")
_WHICH: sa.BindParameter[Any] = sa.bindparam("which")
_NOW: sa.BindParameter[Any] = sa.bindparam("now")
_BEFORE: sa.BindParameter[Any] = sa.bindparam("before")
_DOOM = {"state": int(Mark.DOOMED), "since": _NOW}


class PairedStatements:
    """Every statement over the tables of a pairing; ``ids`` binds :meth:`powerctx_sqlalchemy.Database.keys`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._confirmed = lru_cache(maxsize=64)(self._confirm)
        self._members = lru_cache(maxsize=64)(self._member)
        self._reads(database)
        self._writes(database)
        self._log(database)

    def _reads(self, database: Database) -> None:
        idle = sa.select(sa.func.count()).where(entry.c.collection_id == collection.c.id, _OPEN)
        self.own = sa.select(collection.c.id, idle.scalar_subquery()).where(
            collection.c.partition_id == _WHICH, collection.c.state == int(Mark.LIVE)
        )
        self.count = sa.select(sa.func.count()).select_from(entry).where(_LIVE, _IS_CURRENT)
        self.count_by_collection = (
            sa.select(entry.c.collection_id, sa.func.count()).where(_LIVE).group_by(entry.c.collection_id)
        )
        self.bare = (
            sa.select(revision.c.id, partition.c.family, revision.c.title, revision.c.head)
            .select_from(revision.join(partition, partition.c.id == revision.c.partition_id))
            .where(revision.c.id > sa.bindparam("after"), _CURRENT)
            .order_by(revision.c.id)
            .limit(sa.bindparam("count"))
        )
        self.unembedded = self.bare.where(~sa.exists().where(entry.c.revision_id == revision.c.id, _LIVE))
        asked = database.json_values("keys")
        self.of_keys = (
            sa.select(entry.c.revision_id, entry.c.id, entry.c.collection_id)
            .select_from(
                asked.join(entry, entry.c.revision_id == asked.c.value).join(
                    revision, revision.c.id == entry.c.revision_id
                )
            )
            .where(_LIVE, _CURRENT)
        )

    def known_texts(self, count: int) -> sa.Select[Any]:
        """Read the entries of *count* hashes, ``hash0`` …."""
        wanted: list[sa.BindParameter[Any]] = [sa.bindparam(f"hash{n}") for n in range(count)]
        return sa.select(entry.c.text_hash, entry.c.id, entry.c.collection_id).where(
            entry.c.text_hash.in_(wanted), _LIVE, _IS_CURRENT
        )

    def confirmed(self, filters: Filters) -> tuple[sa.Select[Any], dict[str, Any]]:
        """Read number and key of those of ``ids`` that are live, and pass *filters*."""
        return self._confirmed(Shape.of(filters)), parameters(filters)

    def _confirm(self, shape: Shape) -> sa.Select[Any]:
        named, wanted = self._database.keyed(entry, "ids")
        return (
            sa.select(entry.c.id, entry.c.revision_id)
            .select_from(named.join(revision, revision.c.id == entry.c.revision_id))
            .where(_LIVE, _CURRENT, *wanted, *shape.conditions())
        )

    def members(self, filters: Filters) -> tuple[sa.Select[Any], dict[str, Any]]:
        """Read key, number and collection of the live entries of a partition, ``which``, that pass *filters*."""
        return self._members(Shape.of(filters)), parameters(filters)

    def _member(self, shape: Shape) -> sa.Select[Any]:
        wanted = shape.conditions()
        if (shape.since or shape.until) and shape.time_field == "event":
            # SQLite uses a partial index only when its condition is spelled out.
            wanted.append(TIME["event"].is_not(None))
        return (
            sa.select(entry.c.revision_id, entry.c.id, entry.c.collection_id)
            .select_from(entry.join(revision, revision.c.id == entry.c.revision_id))
            .where(entry.c.partition_id == _WHICH, _LIVE, _CURRENT, *wanted)
        )

    def _writes(self, database: Database) -> None:
        named, wanted = database.keyed(revision, "ids")
        self.current = (
            sa.select(
                revision.c.id,
                revision.c.partition_id,
                partition.c.scope_id,
                partition.c.family,
                revision.c.artifact_id,
                revision.c.number,
                revision.c.title,
                revision.c.head,
            )
            .select_from(named.join(partition, partition.c.id == revision.c.partition_id))
            .where(_CURRENT, *wanted)
            .order_by(revision.c.id)
        )
        self.collections = sa.select(collection.c.id, collection.c.partition_id, collection.c.state).where(
            collection.c.state != int(Mark.DOOMED)
        )
        asked = sa.select(database.json_values("keys").c.value)
        self.sizes = (
            sa.select(entry.c.partition_id, sa.func.count())
            .where(entry.c.partition_id.in_(asked), _LIVE)
            .group_by(entry.c.partition_id)
        )
        self.residents = sa.select(entry.c.id, entry.c.revision_id, entry.c.collection_id).where(
            entry.c.partition_id == _WHICH, _LIVE
        )
        self.supersede = sa.update(entry).where(_LIVE, entry.c.revision_id.in_(asked)).values(_DOOM)
        chosen = entry.c.id.in_(asked)
        pending = entry.c.state == int(Mark.PENDING)
        self.marked = sa.select(sa.func.count()).select_from(entry).where(chosen, pending)
        self.promote = sa.update(entry).where(chosen, pending, _IS_CURRENT).values(state=int(Mark.LIVE))
        self.abandon = sa.update(entry).where(chosen, pending).values(_DOOM)
        self.kept = sa.select(sa.func.count()).select_from(entry).where(chosen, _LIVE)
        self.present = sa.select(entry.c.id).where(chosen)
        self.adopt = sa.update(collection).where(collection.c.id == _WHICH).values(state=int(Mark.LIVE))
        self.touch = sa.update(partition).where(partition.c.id.in_(asked)).values(changes=_STAMP)
        self.touch_all = sa.update(partition).values(changes=_STAMP)
        self.set_changes = sa.update(meta).where(meta.c.name == sa.text("'changes'")).values(value=_STAMP)
        self.changes = sa.select(meta.c.value).where(meta.c.name == sa.text("'changes'"))

    def _log(self, database: Database) -> None:
        """Build what clears, repairs and sweeps."""
        doomed = int(Mark.DOOMED)
        asked = sa.select(database.json_values("keys").c.value)
        self.forget = sa.delete(entry)
        self.doom_collections = sa.update(collection).where(collection.c.state != doomed).values(_DOOM)
        self.any_open = sa.select(sa.func.count()).select_from(entry).where(_OPEN)
        self.any_stray = sa.select(sa.exists().where(_LIVE, ~_IS_CURRENT))
        self.doom_stray = sa.update(entry).where(_LIVE, ~_IS_CURRENT).values(_DOOM)
        self.doom_pending = (
            sa.update(entry).where(_OPEN, entry.c.state == int(Mark.PENDING), entry.c.since <= _BEFORE).values(_DOOM)
        )
        self.doomed = (
            sa.select(entry.c.id, entry.c.collection_id, collection.c.generation)
            .select_from(entry.join(collection, collection.c.id == entry.c.collection_id))
            .where(_OPEN, entry.c.state == doomed, entry.c.since <= _BEFORE)
            .order_by(entry.c.id)
            .limit(sa.bindparam("count"))
        )
        self.doomed_collections = sa.select(collection.c.id, collection.c.generation).where(
            collection.c.state == doomed, collection.c.since <= _BEFORE
        )
        self.strike = sa.delete(entry).where(entry.c.id.in_(asked), entry.c.state == doomed)
        self.strike_collections = sa.delete(collection).where(collection.c.id.in_(asked), collection.c.state == doomed)
