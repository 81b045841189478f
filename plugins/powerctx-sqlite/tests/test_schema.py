"""Versions of the schema."""

from __future__ import annotations

import shutil
import sqlite3

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from powerctx_core.errors import StoreUnavailable
from powerctx_sqlalchemy import schema
from powerctx_sqlalchemy.tables import metadata
from powerctx_sqlite import opening

NEXT = '''
"""Only for this test."""

import sqlalchemy as sa
from alembic import op

revision = "9001"
down_revision = "{head}"


def upgrade() -> None:
    op.add_column("revision", sa.Column("mood", sa.Text))
'''


def _differences(connection: sa.Connection) -> list:
    def ours(name, kind, parents) -> bool:
        return not (kind == "table" and name.startswith(("lexical", "alembic")))

    context = MigrationContext.configure(connection, opts={"include_name": ours, "compare_type": True})
    return compare_metadata(context, metadata)


def test_fresh_file_is_stamped(opened, ask, path):
    """A new file is at the newest version, and has exactly the tables that the code declares."""
    store = opened()
    store.catalogue.put([ask.item("alpha")])

    with store._database._engine.connect() as connection:
        assert schema.HEAD == schema.found_version(connection, "x") == schema.VERSIONS[-1]
        assert [] == _differences(connection)


def test_migrations_lead_to_the_same_tables(tmp_path):
    """What all migrations make, one after the other, is what a fresh file gets."""
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'migrated.db'}")
    with engine.begin() as connection:
        schema.migrate(connection)
    with engine.connect() as connection:
        assert [] == _differences(connection)
        migrated = _declared(connection)
    engine.dispose()
    fresh = sa.create_engine("sqlite://")
    with fresh.begin() as connection:
        metadata.create_all(connection)
        assert _declared(connection) == migrated
    fresh.dispose()


def _declared(connection: sa.Connection) -> dict[str, str]:
    rows = connection.exec_driver_sql(
        "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'alembic%'"
    )
    return {name: " ".join(sql.split()) for name, sql in rows}


def test_older_file_is_migrated(opened, ask, path, tmp_path, monkeypatch):
    """A file of an older version is brought up at open, with its content; where it is read-only it is refused."""
    store = opened()
    store.catalogue.put([ask.item("alpha", artifact_id="x")])
    store.close()
    before, newer = schema.HEAD, tmp_path / "migrations"
    shutil.copytree(schema.MIGRATIONS, newer, ignore=shutil.ignore_patterns("__pycache__"))
    (newer / "versions" / "9001_test.py").write_text(NEXT.replace("{head}", before))
    monkeypatch.setattr(schema, "MIGRATIONS", newer)
    monkeypatch.setattr(schema, "VERSIONS", (*schema.VERSIONS, "9001"))
    monkeypatch.setattr(schema, "HEAD", "9001")
    monkeypatch.setattr(opening, "HEAD", "9001")

    with pytest.raises(StoreUnavailable, match=f"older schema {before}"):
        opened("?mode=ro")
    upgraded = opened()

    assert {"x"} == ask.found(upgraded, "alpha")
    assert "9001" == upgraded.status().facts["schema"]
    upgraded.catalogue.retire([("s", "memory", "x")])
    upgraded.close()
    with sqlite3.connect(path) as plain:
        assert "mood" in {row[1] for row in plain.execute("PRAGMA table_info(revision)")}
    plain.close()
