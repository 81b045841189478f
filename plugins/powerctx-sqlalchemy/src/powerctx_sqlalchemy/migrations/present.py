"""What a migration finds: where each of its statements commits by itself, it may have been stopped between two."""

import sqlalchemy as sa
from alembic import op

__all__ = ["has_column", "has_index", "has_table"]


def has_table(table: str) -> bool:
    """Tell whether a table is there."""
    return sa.inspect(op.get_bind()).has_table(table)


def has_column(table: str, column: str) -> bool:
    """Tell whether a table that is there has a column."""
    columns = op.get_bind().execute(sa.select(sa.text("*")).select_from(sa.table(table)).limit(0)).keys()
    return column in columns


def has_index(table: str, index: str) -> bool:
    """Tell whether a table that is there has an index."""
    bind = op.get_bind()
    if bind.dialect.name == "mysql":
        # What sqlalchemy reads of MySQL does not know how OceanBase writes an index.
        return any(row.Key_name == index for row in bind.exec_driver_sql(f"SHOW INDEX FROM {table}"))
    return any(each["name"] == index for each in sa.inspect(bind).get_indexes(table))
