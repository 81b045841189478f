"""Vectors of current revisions, and the model that made them."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_SQLITE_TRIGGERS = (
    """CREATE TRIGGER vector_superseded AFTER UPDATE OF current ON revision WHEN NEW.current = 0
    BEGIN DELETE FROM vector WHERE id = OLD.id; END""",
    """CREATE TRIGGER vector_purged AFTER DELETE ON revision
    BEGIN DELETE FROM vector WHERE id = OLD.id; END""",
    """CREATE TRIGGER vector_forgotten AFTER DELETE ON vector
    BEGIN INSERT OR REPLACE INTO vector_removed VALUES (OLD.id, OLD.partition_id,
    (SELECT CAST(value AS INTEGER) + 1 FROM meta WHERE name = 'changes')); END""",
)


def upgrade() -> None:
    """Make the tables and what keeps them free of vectors of revisions that are not current."""
    op.create_table(
        "embedding_profile",
        sa.Column("id", _BIG, primary_key=True),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("dimensions", sa.Integer, nullable=False),
        sa.Column("forgotten", _BIG, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "vector",
        sa.Column("id", _BIG, primary_key=True, autoincrement=False),
        sa.Column("partition_id", _BIG, nullable=False),
        sa.Column("stamp", _BIG, nullable=False),
        sa.Column("text_hash", sa.LargeBinary(16), nullable=False),
        sa.Column("embedding", sa.LargeBinary, nullable=False),
    )
    op.create_index("vector_stamp", "vector", ["partition_id", "stamp"])
    op.create_index("vector_text", "vector", ["text_hash"])
    op.create_table(
        "vector_removed",
        sa.Column("id", _BIG, primary_key=True, autoincrement=False),
        sa.Column("partition_id", _BIG, nullable=False),
        sa.Column("stamp", _BIG, nullable=False),
    )
    op.create_index("vector_removed_stamp", "vector_removed", ["partition_id", "stamp"])
    if op.get_bind().dialect.name == "sqlite":
        for trigger in _SQLITE_TRIGGERS:
            op.execute(trigger)
