"""Sessions, and what was delivered in them."""

import sqlalchemy as sa
from alembic import op

from powerctx_sqlalchemy.migrations.present import has_index, has_table
from powerctx_sqlalchemy.types import name, text

revision = "0004"
down_revision = "0003"

_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _key() -> tuple[sa.Column[str], sa.Column[str]]:
    return sa.Column("scope_id", name(256), primary_key=True), sa.Column("session_id", name(128), primary_key=True)


def upgrade() -> None:
    """Make the tables."""
    if not has_table("session"):
        op.create_table(
            "session",
            *_key(),
            sa.Column("turns", _BIG, nullable=False),
            sa.Column("turn_id", text()),
            sa.Column("messages", _BIG, nullable=False),
            sa.Column("abstracts", _BIG, nullable=False),
            sa.Column("overview", text()),
        )
    if not has_table("session_text"):
        op.create_table(
            "session_text",
            *_key(),
            sa.Column("kind", name(16), primary_key=True),
            sa.Column("number", _BIG, primary_key=True, autoincrement=False),
            sa.Column("role", name(16), nullable=False),
            sa.Column("turn", _BIG, nullable=False),
            sa.Column("turn_id", text()),
            sa.Column("at", _BIG, nullable=False),
            sa.Column("body", text(), nullable=False),
        )
    if not has_table("delivery"):
        op.create_table(
            "delivery",
            *_key(),
            sa.Column("uri", name(1280), primary_key=True),
            sa.Column("turn", _BIG, nullable=False),
            sa.Column("detail", name(16), nullable=False),
            sa.Column("at", _BIG, nullable=False),
        )
    if not has_index("delivery", "delivery_uri"):
        op.create_index("delivery_uri", "delivery", ["uri"])
