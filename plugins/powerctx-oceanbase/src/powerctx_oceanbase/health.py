"""What ``doctor`` shows of an OceanBase store."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import sqlalchemy as sa

from powerctx_core.errors import PowerctxError
from powerctx_core.ports import StoreStatus
from powerctx_core.text.terms import analysis_version
from powerctx_core.types import Deadline
from powerctx_oceanbase import vector_statements as sql
from powerctx_oceanbase.database import OceanBaseDatabase
from powerctx_oceanbase.unfinished import WAYS_OUT
from powerctx_sqlalchemy.tables import meta, partition, version
from powerctx_sqlalchemy.vector_tables import PROFILE

if TYPE_CHECKING:
    from powerctx_oceanbase.vectors import OceanBaseVectorIndex

__all__ = ["status"]

_LOW_BYTES = 1 << 30


def status(database: OceanBaseDatabase, vectors: OceanBaseVectorIndex) -> StoreStatus:
    """Describe the store; never raises."""
    facts: dict[str, str] = {}
    problems: list[str] = []
    location = database.location
    facts["engine"] = "server" if location.directory is None else "embedded, in a process of its own"
    facts["database"] = location.database
    if location.directory is not None:
        _disk(location.directory, facts, problems)
    elif not location.password:
        problems.append(f"{location.name} lets {location.user} in without a password: set one (ALTER USER).")
    try:
        with database.reading(Deadline.after(5)) as connection:
            if connection is None:
                facts["state"] = "not created yet; the first write makes it"
            else:
                with database.told("read the status"):
                    _content(connection, facts, problems)
                facts["buckets"] = str(database.buckets)
                hindered = (database.hindered("find it free of what nobody ends", count) for count in WAYS_OUT)
                problems.extend(str(error) for error in hindered if error is not None)
    except PowerctxError as error:
        problems.append(str(error))
    if (problem := vectors.warming.problem()) is not None:
        problems.append(problem)
    return StoreStatus(location=location.name, facts=facts, problems=tuple(problems))


def _disk(directory: object, facts: dict[str, str], problems: list[str]) -> None:
    try:
        free = shutil.disk_usage(str(directory)).free
    except OSError:
        return
    facts["free space"] = f"{free >> 20} MiB"
    if free < _LOW_BYTES:
        problems.append(f"Only {free >> 20} MiB are free on the disk of {directory}; the engine needs room.")


def _content(connection: sa.Connection, facts: dict[str, str], problems: list[str]) -> None:
    known = dict(connection.execute(sa.select(meta.c.name, meta.c.value)).all())
    items, partitions = connection.execute(
        sa.select(sa.func.coalesce(sa.func.sum(partition.c.item_count), 0), sa.func.count()).select_from(partition)
    ).one()
    facts["version"] = str(connection.exec_driver_sql("SELECT version()").scalar_one())
    facts["schema"] = str(connection.execute(sa.select(version.c.version_num)).scalar_one())
    analysis = known.get("analysis_version", "")
    facts["analysis"] = analysis
    facts["items"], facts["partitions"] = str(items), str(partitions)
    facts["store id"], facts["changes"] = known.get("store_id", "missing"), known.get("changes", "missing")
    model = connection.exec_driver_sql(PROFILE).first()
    if model is not None:
        count = connection.exec_driver_sql(sql.count(model[0])).scalar_one()
        facts["vectors"] = f"{count} of {model[1]} ({model[2]} dimensions)"
    if analysis != analysis_version():
        problems.append(
            f"The index was made by analysis {analysis or 'that was not completed'}, and this version "
            f"uses {analysis_version()}: run `powerctx index --rebuild`."
        )
