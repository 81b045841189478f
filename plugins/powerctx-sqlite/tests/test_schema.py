"""Versions of the schema."""

from __future__ import annotations

import shutil
import sqlite3

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
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


def test_migrations_go_on_where_they_were_stopped(tmp_path):
    """Where each statement commits by itself, as those of some engines that change a schema do, a kill hinders nothing.

    Versions before 0003 are only in files of SQLite, which take back what was not finished.
    """
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'stopped.db'}", isolation_level="AUTOCOMMIT")
    left = [1]
    told = []

    @sa.event.listens_for(engine, "before_cursor_execute")
    def stop(connection, cursor, statement, *_):
        if statement.lstrip().startswith(("CREATE", "ALTER", "UPDATE alembic", "INSERT INTO alembic")):
            left[0] -= 1
            told.append(statement)
            if not left[0]:
                raise KeyboardInterrupt

    left[0] = 0
    with engine.connect() as connection:
        config = Config()
        config.set_main_option("script_location", str(schema.MIGRATIONS))
        config.attributes["connection"] = connection
        command.upgrade(config, "0002")
    told.clear()
    finished = False
    while not finished:
        # One statement more is done, and the next one is where it stops.
        left[0] = 2
        with engine.connect() as connection:
            try:
                schema.migrate(connection)
                finished = True
            except KeyboardInterrupt:
                pass
    with engine.connect() as connection:
        assert [] == _differences(connection)
        assert schema.HEAD == schema.found_version(connection, "x")
    engine.dispose()

    assert len(told) > len(schema.VERSIONS)


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
