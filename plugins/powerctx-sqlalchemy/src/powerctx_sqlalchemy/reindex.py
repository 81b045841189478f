"""Analyses everything anew."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from powerctx_core.errors import StoreError
from powerctx_core.text.terms import analysis_version
from powerctx_sqlalchemy.database import Database
from powerctx_sqlalchemy.rows import analysed, split_tags, threaded
from powerctx_sqlalchemy.statements import Statements
from powerctx_sqlalchemy.tables import SEQUENCE_BITS, analysis, meta, partition

__all__ = ["reindexed"]

_STEP = 1000
_PROGRESS = "reindex"
"""Name in ``meta`` of what is done: the version that is being made, the last id, the number of items."""


def reindexed(database: Database, statements: Statements, limit: int | None) -> Iterator[int]:
    """Make the terms of all current items anew, a transaction a step, yielding the number done so far.

    Raises:
        StoreError: there are more items than *limit*.
    """
    target = analysis_version()
    after, done = _begin(database, statements, target, limit)
    while True:
        with database.writing() as connection, database.told("rebuild the index"):
            rows = connection.execute(statements.content, {"after": after, "count": _STEP}).all()
            if not rows:
                _finish(connection, statements, target)
                break
            _rewrite(connection, database, rows)
            after, done = rows[-1][0], done + len(rows)
            state = json.dumps([target, after, done])
            connection.execute(statements.set_meta, {"which": _PROGRESS, "new": state})
        yield done
    yield done


def _begin(database: Database, statements: Statements, target: str, limit: int | None) -> tuple[int, int]:
    """Return where to start; a new start empties the index and marks it as incomplete."""
    with database.writing() as connection, database.told("rebuild the index"):
        items = connection.execute(statements.totals).one()[0]
        if limit is not None and items > limit:
            raise StoreError(
                f"{items} items are more than the {limit} that are re-analysed at once: run `powerctx index --rebuild`."
            )
        known = dict(connection.execute(statements.meta).all())
        version, after, done = json.loads(known.get(_PROGRESS, '["", 0, 0]'))
        if version == target and known["analysis_version"] == "":
            return int(after), int(done)
        database.index.clear(connection)
        connection.execute(sa.delete(analysis))
        connection.execute(sa.update(partition).values(total_length=0))
        connection.execute(sa.delete(meta).where(meta.c.name == _PROGRESS))
        connection.execute(sa.insert(meta).values(name=_PROGRESS, value=json.dumps([target, 0, 0])))
        connection.execute(statements.set_meta, {"which": "analysis_version", "new": ""})
        return 0, 0


def _rewrite(connection: sa.Connection, database: Database, rows: Sequence[Sequence[Any]]) -> None:
    terms = []
    lengths: dict[int, int] = {}
    for key, artifact_id, title, start, rest, category, tags, thread, position in rows:
        found = analysed(title, start + (rest or ""), category, split_tags(tags))
        terms.append(
            {
                "id": key,
                "artifact_id": artifact_id,
                "length": found.length,
                "threaded": threaded(thread, position),
                "repeats": found.repeats,
                "terms": found.terms,
            }
        )
        lengths[key >> SEQUENCE_BITS] = lengths.get(key >> SEQUENCE_BITS, 0) + found.length
    connection.execute(sa.insert(analysis), terms)
    database.index.add(connection, [(row["id"], row["terms"], row["repeats"]) for row in terms])
    connection.execute(
        sa.update(partition)
        .where(partition.c.id == sa.bindparam("which"))
        .values(total_length=partition.c.total_length + sa.bindparam("more")),
        [{"which": number, "more": length} for number, length in lengths.items()],
    )


def _finish(connection: sa.Connection, statements: Statements, target: str) -> None:
    connection.execute(sa.delete(meta).where(meta.c.name == _PROGRESS))
    connection.execute(statements.set_meta, {"which": "analysis_version", "new": target})
    stamp = int(connection.execute(statements.changes).scalar_one()) + 1
    connection.execute(statements.set_meta, {"which": "changes", "new": str(stamp)})
    connection.execute(sa.update(partition).values(changes=stamp))
