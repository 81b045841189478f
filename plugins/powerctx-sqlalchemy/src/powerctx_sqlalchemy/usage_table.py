"""The table of usage counts, since version 0003.

A count belongs to an artifact and not to a revision; a purge deletes it with the artifact.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from powerctx_sqlalchemy.tables import metadata
from powerctx_sqlalchemy.types import BIG, name

__all__ = ["forget_uses", "usage_count"]

usage_count = sa.Table(
    "usage_count",
    metadata,
    sa.Column("partition_id", BIG, primary_key=True, autoincrement=False),
    sa.Column("artifact_id", name(128), primary_key=True),
    sa.Column("uses", BIG, nullable=False),
)

_DELETE = sa.delete(usage_count).where(
    usage_count.c.partition_id == sa.bindparam("which"), usage_count.c.artifact_id == sa.bindparam("artifact")
)


def forget_uses(connection: sa.Connection, artifacts: Sequence[tuple[int, str]]) -> None:
    """Delete the counts of (partition id, artifact id), in the transaction that deletes the artifacts."""
    if artifacts:
        connection.execute(_DELETE, [{"which": number, "artifact": artifact} for number, artifact in artifacts])
