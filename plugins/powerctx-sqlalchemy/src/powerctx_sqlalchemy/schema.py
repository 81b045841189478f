"""Versions of the schema: a fresh database is made at the newest, an older one is migrated, a newer one refused."""

from __future__ import annotations

import uuid
from pathlib import Path

import sqlalchemy as sa

from powerctx_core.errors import StoreUnavailable
from powerctx_core.text.terms import analysis_version
from powerctx_sqlalchemy.database import Database
from powerctx_sqlalchemy.session_tables import delivery  # noqa: F401 - declares its tables with the others
from powerctx_sqlalchemy.tables import meta, version
from powerctx_sqlalchemy.usage_table import usage_count  # noqa: F401 - as above
from powerctx_sqlalchemy.vector_tables import vector  # noqa: F401 - as above

__all__ = ["HEAD", "MIGRATIONS", "VERSIONS", "create", "found_version", "migrate"]

HEAD = "0005"
"""The version that this package writes."""
VERSIONS = ("0001", "0002", "0003", "0004", "0005")
"""All versions, oldest first; those before the last are migrated."""
MIGRATIONS = Path(__file__).parent / "migrations"


def found_version(connection: sa.Connection, location: str) -> str | None:
    """Return the version of the schema, or ``None`` when there is none yet.

    Raises:
        StoreUnavailable: the schema is newer than this package.
    """
    found = connection.execute(sa.select(version.c.version_num)).scalar()
    if found is not None and found not in VERSIONS:
        raise StoreUnavailable(
            f"{location} has schema {found}, and this powerctx-sqlalchemy knows schemas up to {HEAD}: it was written "
            "by a newer version. Upgrade the powerctx packages, or choose another store."
        )
    return None if found is None else str(found)


def create(connection: sa.Connection, database: Database) -> None:
    """Make the schema at its newest version and stamp it; alembic is not needed for that."""
    database.create_tables(connection)
    database.index.create(connection)
    connection.execute(
        sa.insert(meta),
        [
            {"name": "store_id", "value": uuid.uuid4().hex},
            {"name": "changes", "value": "0"},
            {"name": "analysis_version", "value": analysis_version()},
        ],
    )
    connection.exec_driver_sql(
        "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
        "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
    )
    connection.execute(sa.insert(version).values(version_num=HEAD))


def migrate(connection: sa.Connection) -> None:
    """Bring an older schema to the newest version inside the transaction of *connection*."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
