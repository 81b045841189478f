"""Usage counts over a relational database, since version 0003: one row for each artifact that was ever used."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import sqlalchemy as sa

from powerctx_core.types import Deadline
from powerctx_sqlalchemy.database import Database
from powerctx_sqlalchemy.rows import microseconds
from powerctx_sqlalchemy.statements import Statements
from powerctx_sqlalchemy.tables import partition
from powerctx_sqlalchemy.usage_table import usage_count
from powerctx_sqlalchemy.writing import Writer, chunks

__all__ = ["RelationalUsage"]

Named = tuple[str, str, str]


class RelationalUsage:
    """A :class:`powerctx_core.ports.Usage`; any thread may use it, and other processes the same database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._statements = Statements(database)
        asked = database.json_rows("asked", "scope_id", "family", "artifact_id")
        self._counts = sa.select(asked.c.place, usage_count.c.uses).select_from(
            asked.join(
                partition, sa.and_(partition.c.scope_id == asked.c.scope_id, partition.c.family == asked.c.family)
            ).join(
                usage_count,
                sa.and_(usage_count.c.partition_id == partition.c.id, usage_count.c.artifact_id == asked.c.artifact_id),
            )
        )

    def add(self, artifacts: Sequence[Named]) -> int:
        """Count one more use of each artifact that is stored; see :class:`powerctx_core.ports.Usage`."""
        wanted = list(dict.fromkeys(artifacts))
        with self._database.reading(Deadline()) as connection:
            if connection is None or not wanted:
                return 0
        with self._database.writing() as connection, self._database.told("count uses"):
            writer = Writer(connection, self._database, self._statements, microseconds(datetime.now(UTC)))
            writer.load_partitions([(scope, family) for scope, family, _ in wanted], create=False)
            pairs = [
                (number, artifact)
                for scope, family, artifact in wanted
                if (number := writer.partition_id(scope, family))
            ]
            stored = [pair for piece in chunks(pairs) for pair in writer.heads(piece)]
            if not stored:
                return 0
            found = self._found(connection, wanted)
            known = {(writer.partition_id(*named[:2]), named[2]): uses for named, uses in found.items()}
            for statement, pairs in (
                (_UPDATE, [pair for pair in stored if pair in known]),
                (_INSERT, [pair for pair in stored if pair not in known]),
            ):
                rows = [
                    {"which": number, "artifact": name, "new": known.get((number, name), 0) + 1}
                    for number, name in pairs
                ]
                if rows:
                    connection.execute(statement, rows)
            writer.finish()
            return len(stored)

    def counts(self, artifacts: Sequence[Named], deadline: Deadline) -> Mapping[Named, int]:
        """Return the count of those artifacts that were used."""
        with self._database.reading(deadline) as connection:
            if connection is None or not artifacts:
                return {}
            with self._database.told("read usage counts"):
                return self._found(connection, artifacts)

    def _found(self, connection: sa.Connection, artifacts: Sequence[Named]) -> dict[Named, int]:
        found: dict[Named, int] = {}
        for piece in chunks(artifacts):
            rows = connection.execute(self._counts, {"asked": json.dumps(piece)})
            found.update({piece[place]: uses for place, uses in rows})
        return found


_UPDATE = (
    sa.update(usage_count)
    .where(usage_count.c.partition_id == sa.bindparam("which"), usage_count.c.artifact_id == sa.bindparam("artifact"))
    .values(uses=sa.bindparam("new"))
)
_INSERT = sa.insert(usage_count).values(
    partition_id=sa.bindparam("which"), artifact_id=sa.bindparam("artifact"), uses=sa.bindparam("new")
)
