"""What ``doctor`` shows of a SQLite store."""

from __future__ import annotations

import shutil
import sqlite3
import stat
from pathlib import Path

import sqlalchemy as sa

from powerctx_core.errors import PowerctxError
from powerctx_core.ports import StoreStatus
from powerctx_core.text.terms import analysis_version
from powerctx_core.types import Deadline
from powerctx_sqlalchemy.tables import meta, partition, version
from powerctx_sqlalchemy.vector_tables import embedding_profile, vector
from powerctx_sqlite.database import SqliteDatabase

__all__ = ["status"]

_LOW_BYTES = 256 << 20
_OBJECTS = ("lexical", "lexical_config", "lexical_data", "lexical_idx", "revision_immutable")
"""What the schema has beside its tables: the full-text index, and the trigger that keeps revisions as they are."""


def status(database: SqliteDatabase) -> StoreStatus:
    """Describe the store; never raises."""
    facts: dict[str, str] = {}
    problems: list[str] = []
    path = database.location.path
    if path is not None:
        _file(path, database, facts, problems)
    try:
        with database.reading(Deadline.after(5)) as connection:
            if connection is None:
                facts["state"] = "not created yet; the first write makes it"
            else:
                with database.told("read the status"):
                    _content(connection, facts, problems, sealed=database.sealed)
    except PowerctxError as error:
        problems.append(str(error))
    facts["sqlite"] = sqlite3.sqlite_version
    return StoreStatus(location=database.location.name, facts=facts, problems=tuple(problems))


def _file(path: Path, database: SqliteDatabase, facts: dict[str, str], problems: list[str]) -> None:
    try:
        found = path.stat()
        facts["permissions"] = stat.filemode(found.st_mode)
        facts["size"] = f"{found.st_size} bytes"
        facts["log size"] = f"{database.location.log()} bytes"
    except OSError:
        facts["size"] = "0 bytes"
    writable = database.location.writable()
    facts["access"] = "read and write" if writable else "read only"
    if not writable and not database.location.read_only:
        problems.append(
            f"Nothing can be stored in {database.location.name}, since the file or its directory is read-only here; "
            "make both writable, or add ?mode=ro to the URL when that is meant."
        )
    try:
        free = shutil.disk_usage(path.parent).free
    except OSError:
        return
    facts["free space"] = f"{free >> 20} MiB"
    if free < _LOW_BYTES:
        problems.append(f"Only {free >> 20} MiB are free on the disk of {database.location.name}; free some space.")


def _content(connection: sa.Connection, facts: dict[str, str], problems: list[str], *, sealed: bool) -> None:
    known = dict(connection.execute(sa.select(meta.c.name, meta.c.value)).all())
    items, partitions = connection.execute(
        sa.select(sa.func.coalesce(sa.func.sum(partition.c.item_count), 0), sa.func.count()).select_from(partition)
    ).one()
    facts["schema"] = str(connection.execute(sa.select(version.c.version_num)).scalar_one())
    analysis = known.get("analysis_version", "")
    facts["analysis"] = analysis
    facts["items"], facts["partitions"] = str(items), str(partitions)
    facts["store id"], facts["changes"] = known.get("store_id", "missing"), known.get("changes", "missing")
    model = connection.execute(sa.select(embedding_profile.c.fingerprint, embedding_profile.c.dimensions)).first()
    if model is not None:
        count = connection.execute(sa.select(sa.func.count()).select_from(vector)).scalar_one()
        facts["vectors"] = f"{count} of {model[0]} ({model[1]} dimensions)"
    if not sealed:
        facts["journal"] = str(connection.exec_driver_sql("PRAGMA journal_mode").scalar_one())
    if analysis != analysis_version():
        problems.append(
            f"The index was made by analysis {analysis or 'that was not completed'}, and this version "
            f"uses {analysis_version()}: run `powerctx index --rebuild`."
        )
    objects = set(connection.exec_driver_sql("SELECT name FROM sqlite_master").scalars())
    missing = [name for name in _OBJECTS if name not in objects]
    if missing:
        problems.append(f"Parts of the full-text index are missing ({', '.join(missing)}): restore a backup.")
