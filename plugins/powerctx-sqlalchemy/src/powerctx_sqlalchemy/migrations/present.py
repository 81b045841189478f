"""What a migration finds: where each of its statements commits by itself, it may have been stopped between two."""

import sqlalchemy as sa
from alembic import op

__all__ = ["has_column", "has_index", "has_table"]


def has_table(table: str) -> bool:
    """Tell whether a table is there."""
    return sa.inspect(op.get_bind()).has_table(table)


def has_column(table: str, column: str) -> bool:
    """Tell whether a table that is there has a column."""
    return any(each["name"] == column for each in sa.inspect(op.get_bind()).get_columns(table))


def has_index(table: str, index: str) -> bool:
    """Tell whether a table that is there has an index."""
    return any(each["name"] == index for each in sa.inspect(op.get_bind()).get_indexes(table))
