"""Which texts were delivered, so that the same one under another URI is known."""

import sqlalchemy as sa
from alembic import op

from powerctx_sqlalchemy.migrations.present import has_column
from powerctx_sqlalchemy.types import name

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the column; what was delivered before is known by its URI alone."""
    if not has_column("delivery", "text_digest"):
        op.add_column("delivery", sa.Column("text_digest", name(64)))
