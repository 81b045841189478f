"""How often artifacts were used."""

import sqlalchemy as sa
from alembic import op

from powerctx_sqlalchemy.migrations.present import has_table
from powerctx_sqlalchemy.types import name

revision = "0003"
down_revision = "0002"

_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the table."""
    if has_table("usage_count"):
        return
    op.create_table(
        "usage_count",
        sa.Column("partition_id", _BIG, primary_key=True, autoincrement=False),
        sa.Column("artifact_id", name(128), primary_key=True),
        sa.Column("uses", _BIG, nullable=False),
    )
