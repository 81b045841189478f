"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_CURRENT = sa.text("current = 1")


def upgrade() -> None:
    """Make the tables; the engine's own objects (index, trigger) are made by the plugin."""
    op.create_table(
        "partition",
        sa.Column("id", _BIG, primary_key=True),
        sa.Column("scope_id", sa.String(256), nullable=False),
        sa.Column("family", sa.String(64), nullable=False),
        sa.Column("item_count", _BIG, nullable=False),
        sa.Column("total_length", _BIG, nullable=False),
        sa.Column("next_sequence", _BIG, nullable=False),
        sa.Column("changes", _BIG, nullable=False),
        sa.UniqueConstraint("scope_id", "family", name="partition_identity"),
        sqlite_autoincrement=True,
    )
    _revision()
    op.create_table(
        "analysis",
        sa.Column("id", _BIG, primary_key=True, autoincrement=False),
        sa.Column("artifact_id", sa.String(128), nullable=False),
        sa.Column("length", sa.Integer, nullable=False),
        sa.Column("threaded", sa.SmallInteger, nullable=False),
        sa.Column("repeats", sa.Text),
        sa.Column("terms", sa.Text, nullable=False),
    )
    op.create_table(
        "meta",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )


def _revision() -> None:
    op.create_table(
        "revision",
        sa.Column("id", _BIG, primary_key=True, autoincrement=False),
        sa.Column("partition_id", _BIG, nullable=False),
        sa.Column("artifact_id", sa.String(128), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("current", sa.SmallInteger, nullable=False),
        sa.Column("retired_at", _BIG),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("category", sa.Text),
        sa.Column("title", sa.Text),
        sa.Column("abstract", sa.Text, nullable=False),
        sa.Column("abstract_given", sa.SmallInteger, nullable=False),
        sa.Column("body_bytes", sa.Integer, nullable=False),
        sa.Column("overview_bytes", sa.Integer, nullable=False),
        sa.Column("tags", sa.Text),
        sa.Column("created_at", _BIG, nullable=False),
        sa.Column("updated_at", _BIG, nullable=False),
        sa.Column("event_time", _BIG),
        sa.Column("thread", sa.Text),
        sa.Column("position", _BIG),
        sa.Column("confidence", sa.Double),
        sa.Column("layer", sa.String(8)),
        sa.Column("origin", sa.Text),
        sa.Column("meta", sa.Text),
        sa.Column("head", sa.Text, nullable=False),
        sa.Column("rest", sa.Text),
        sa.Column("overview", sa.Text),
    )
    op.create_index("revision_history", "revision", ["partition_id", "artifact_id", "number"], unique=True)
    op.create_index("revision_current", "revision", ["partition_id", "artifact_id"], unique=True, sqlite_where=_CURRENT)
    op.create_index(
        "revision_thread",
        "revision",
        ["partition_id", "thread", "position", "artifact_id"],
        sqlite_where=sa.text("current = 1 AND thread IS NOT NULL AND position IS NOT NULL"),
    )
    op.create_index("revision_created", "revision", ["partition_id", "created_at"], sqlite_where=_CURRENT)
    op.create_index("revision_updated", "revision", ["partition_id", "updated_at"], sqlite_where=_CURRENT)
    op.create_index(
        "revision_event",
        "revision",
        ["partition_id", "event_time"],
        sqlite_where=sa.text("current = 1 AND event_time IS NOT NULL"),
    )
