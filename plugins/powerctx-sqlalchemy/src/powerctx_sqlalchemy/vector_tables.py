"""The tables of vectors, since version 0002, for databases without a vector type of their own.

``vector`` holds one row for a current revision that was embedded; a trigger deletes it, in the same transaction, when
the revision is superseded, retired or purged, so that the catalogue's code knows nothing of vectors.  Who keeps vectors
in memory loads what has changed: additions by ``vector.stamp``, removals by ``vector_removed``.  A stamp is the store's
change counter after the transaction.
"""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from powerctx_core.types import EmbeddingProfile
from powerctx_core.vectors import check_profile
from powerctx_sqlalchemy.tables import metadata
from powerctx_sqlalchemy.types import BIG, digest, text

__all__ = ["PLAIN", "PROFILE", "SQLITE_TRIGGERS", "embedding_profile", "stored_model", "vector", "vector_removed"]

PROFILE = "SELECT id, fingerprint, dimensions FROM embedding_profile"

# The one model in use.  An id is never used twice: it tells which vectors a process has in memory.
embedding_profile = sa.Table(
    "embedding_profile",
    metadata,
    sa.Column("id", BIG, primary_key=True),
    sa.Column("fingerprint", text(), nullable=False),
    sa.Column("dimensions", sa.Integer, nullable=False),
    # Removals up to this stamp are forgotten.
    sa.Column("forgotten", BIG, nullable=False),
    sqlite_autoincrement=True,
)

# Vectors are little-endian float16: half the size, and cosines are right to 0.0001.
vector = sa.Table(
    "vector",
    metadata,
    sa.Column("id", BIG, primary_key=True, autoincrement=False),
    sa.Column("partition_id", BIG, nullable=False),
    sa.Column("stamp", BIG, nullable=False),
    sa.Column("text_hash", digest(16), nullable=False),
    sa.Column("embedding", sa.LargeBinary, nullable=False),
)
sa.Index("vector_stamp", vector.c.partition_id, vector.c.stamp)
sa.Index("vector_text", vector.c.text_hash)

vector_removed = sa.Table(
    "vector_removed",
    metadata,
    sa.Column("id", BIG, primary_key=True, autoincrement=False),
    sa.Column("partition_id", BIG, nullable=False),
    sa.Column("stamp", BIG, nullable=False),
)
sa.Index("vector_removed_stamp", vector_removed.c.partition_id, vector_removed.c.stamp)

PLAIN = frozenset({vector.name, vector_removed.name})
"""Tables that a database with a vector type of its own does not have."""

# Every writer of the catalogue adds one to the change counter, at the end of its transaction.
SQLITE_TRIGGERS = (
    """CREATE TRIGGER vector_superseded AFTER UPDATE OF current ON revision WHEN NEW.current = 0
    BEGIN DELETE FROM vector WHERE id = OLD.id; END""",
    """CREATE TRIGGER vector_purged AFTER DELETE ON revision
    BEGIN DELETE FROM vector WHERE id = OLD.id; END""",
    """CREATE TRIGGER vector_forgotten AFTER DELETE ON vector
    BEGIN INSERT OR REPLACE INTO vector_removed VALUES (OLD.id, OLD.partition_id,
    (SELECT CAST(value AS INTEGER) + 1 FROM meta WHERE name = 'changes')); END""",
)


@sa.event.listens_for(metadata, "after_create")
def _triggers(_: sa.MetaData, connection: sa.Connection, **__: object) -> None:
    if connection.dialect.name == "sqlite":
        for trigger in SQLITE_TRIGGERS:
            connection.exec_driver_sql(trigger)


def stored_model(connection: sa.Connection, profile: EmbeddingProfile, count: Callable[[int], str]) -> int | None:
    """Return the id of the stored model, or ``None`` when there is none or nothing of it.

    Args:
        connection: to read with.
        profile: the model that is to be used.
        count: returns the statement that counts the vectors of the model with that id.

    Raises:
        CapabilityError: it is another one.
    """
    stored = connection.exec_driver_sql(PROFILE).first()
    if stored is None:
        return None
    number, fingerprint, dimensions = stored
    if (fingerprint, dimensions) != (profile.fingerprint, profile.dimensions):
        held = int(connection.exec_driver_sql(count(number)).scalar_one())
        if not held:
            return None
        check_profile(fingerprint, dimensions, held, profile)
    return int(number)
