"""What ``doctor`` finds out by reading all of a store: damage that no read of single items would notice.

SQLite keeps no checksums: a flipped bit inside a text is another text.  So every revision is compared with its digest,
the terms with those of core's analysis, the full-text index with the terms, the counters with what they count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import attrs
import sqlalchemy as sa

from powerctx_core.errors import PowerctxError, StoreError
from powerctx_core.ports import StoreStatus
from powerctx_core.text.cut import derived_abstract
from powerctx_core.text.terms import analysis_version
from powerctx_core.types import Deadline
from powerctx_sqlalchemy.rows import REVISION, analysed, stored
from powerctx_sqlalchemy.tables import SEQUENCE_BITS, analysis, meta, partition, revision
from powerctx_sqlite.database import SqliteDatabase
from powerctx_sqlite.health import status
from powerctx_sqlite.index import indexed

__all__ = ["examined"]

_STEP = 500
_SHOWN = 100
_MASK = (1 << 64) - 1
_UNIT = 0.01
"""How far from 1 the length of a stored vector may be."""
_REBUILD = "run `powerctx index --rebuild`."
_RESTORE = "restore a backup, or recover what is left with `sqlite3 FILE .recover`."
_ITEMS = (
    sa.select(
        revision.c.id, partition.c.scope_id, partition.c.family, revision.c.digest,
        analysis.c.terms, analysis.c.repeats, analysis.c.length, *REVISION,
    )
    .select_from(
        revision.join(partition, partition.c.id == revision.c.partition_id, isouter=True).join(
            analysis, analysis.c.id == revision.c.id, isouter=True
        )
    )
    .where(revision.c.id > sa.bindparam("after"))
    .order_by(revision.c.id)
    .limit(_STEP)
)  # fmt: skip
_COUNTERS = f"""
SELECT count(*) FROM partition p LEFT JOIN
(SELECT id >> {SEQUENCE_BITS} AS number, count(*) AS items, sum(length) AS total FROM analysis GROUP BY 1) a
ON a.number = p.id WHERE p.item_count <> coalesce(a.items, 0) OR p.total_length <> coalesce(a.total, 0)
"""  # noqa: S608 - a constant
_STRAY_TERMS = "SELECT count(*) FROM analysis a LEFT JOIN revision r ON r.id = a.id WHERE r.current IS NOT 1"
_STRAY_VECTORS = "SELECT count(*) FROM vector v LEFT JOIN revision r ON r.id = v.id WHERE r.current IS NOT 1"
_VECTORS = "SELECT v.id, v.embedding, (SELECT dimensions FROM embedding_profile) FROM vector v ORDER BY v.id"


@attrs.define
class _Read:
    """What was read, and what is wrong with it."""

    revisions: int = 0
    changed: list[str] = attrs.field(factory=list)
    abstracts: list[str] = attrs.field(factory=list)
    terms: int = 0
    words: int = 0


def examined(database: SqliteDatabase, deadline: Deadline) -> StoreStatus:
    """Return the status, with what a complete reading adds to it; what does not fit into *deadline* is named.

    Never raises for an unhealthy store.
    """
    found = status(database)
    facts, problems = dict(found.facts), list(found.problems)
    if not problems and not database.exists():
        return found
    steps: tuple[tuple[str, Callable[[sa.Connection, dict[str, str], list[str]], None]], ...] = (
        ("pages", _pages),
        ("items", _items),
        ("vectors", _vectors),
    )
    for name, step in steps:
        doing = f"check the {name}"
        try:
            with database.reading(deadline) as connection:
                if connection is not None:
                    with database.understood(doing):
                        step(connection, facts, problems)
        except PowerctxError as error:
            left = deadline.remaining()
            if left is not None and left <= 0:
                facts[f"{name} checked"] = "not all, for want of time"
                break
            # Damage that was told by an earlier step is not told again.
            if not (isinstance(error, StoreError) and problems):
                problems.append(str(error))
    return attrs.evolve(found, facts=facts, problems=tuple(dict.fromkeys(problems)))


def _pages(connection: sa.Connection, facts: dict[str, str], problems: list[str]) -> None:
    """Ask SQLite whether its pages, tables and indexes agree."""
    rows = connection.exec_driver_sql("PRAGMA integrity_check(5)").scalars().all()
    facts["pages checked"] = "all"
    if rows != ["ok"]:
        first = " ".join(rows[0].split())[:_SHOWN]
        problems.append(f"The file is damaged ({first}): {_RESTORE}")


def _items(connection: sa.Connection, facts: dict[str, str], problems: list[str]) -> None:
    """Compare items with their digests, terms with the analysis, the index with the terms, counters with rows."""
    known = dict(connection.execute(sa.select(meta.c.name, meta.c.value)).all())
    current = known.get("analysis_version") == analysis_version()
    read = _Read()
    for row in _rows(connection):
        _compare(row, read, terms=current)
    facts["items checked"] = f"all, with {read.revisions} revision" + "s" * (read.revisions != 1)
    # Other rules for making abstracts, of another version, would differ from most of what is stored.
    if len(read.abstracts) * 2 <= read.revisions:
        read.changed += read.abstracts
    if read.changed:
        problems.append(
            f"{len(read.changed)} of {read.revisions} revisions are not as they were written (the first is "
            f"{read.changed[0]}): restore a backup, or store these items again."
        )
    if not current:
        return
    stray = connection.exec_driver_sql(_STRAY_TERMS).scalar_one()
    if read.terms or stray or connection.exec_driver_sql(_COUNTERS).scalar_one():
        problems.append(
            f"The stored terms of {max(1, read.terms + stray)} items are not those of their texts: {_REBUILD}"
        )
    # Of items that are not as they were written nobody knows which terms they had.
    elif not read.changed and read.words != _words(connection):
        problems.append(f"The full-text index does not hold the terms of the items: {_REBUILD}")


def _rows(connection: sa.Connection) -> Iterator[Sequence[Any]]:
    after = 0
    while rows := connection.execute(_ITEMS, {"after": after}).all():
        yield from rows
        after = rows[-1][0]


def _compare(row: Sequence[Any], read: _Read, *, terms: bool) -> None:
    key, scope_id, family, digest, held, repeats, length, *columns = row
    read.revisions += 1
    name = f"revision {columns[3]} of {str(columns[2])[:_SHOWN]!r} in {str(scope_id)[:_SHOWN]!r}"
    try:
        found = stored(str(scope_id), str(family), columns)
        item = found.item
        if item.digest != digest or key >> SEQUENCE_BITS <= 0:
            read.changed.append(name)
            return
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError):
        read.changed.append(name)
        return
    if item.abstract is None and columns[7] != derived_abstract(item.text):
        read.abstracts.append(name)
    if found.state == "current" and terms:
        wanted = analysed(item.title, item.text, item.category, item.tags)
        if (held, repeats, length) != (wanted.terms, wanted.repeats, wanted.length):
            read.terms += 1
        read.words = (read.words + _sum(key, wanted.terms, wanted.repeats)) & _MASK


def _sum(key: int, terms: str, repeats: str | None) -> int:
    """Return a number for the postings of one item; those of several add up, in any order."""
    return sum(hash((key, word)) for _, words in indexed([(key, terms, repeats)]) for word in words.split())


def _words(connection: sa.Connection) -> int:
    """Return the number for what the full-text index holds."""
    connection.exec_driver_sql("CREATE VIRTUAL TABLE temp.held USING fts5vocab('main', 'lexical', 'instance')")
    try:
        total = 0
        for key, word in connection.exec_driver_sql("SELECT doc, term FROM temp.held"):
            total = (total + hash((key, word))) & _MASK
        return total
    finally:
        connection.exec_driver_sql("DROP TABLE temp.held")


def _vectors(connection: sa.Connection, facts: dict[str, str], problems: list[str]) -> None:
    """Look whether every vector is one of the model, of a current revision."""
    bad = int(connection.exec_driver_sql(_STRAY_VECTORS).scalar_one())
    result = connection.exec_driver_sql(_VECTORS)
    count = 0
    while rows := list(islice(result, _STEP)):
        import numpy as np

        count += len(rows)
        whole = [blob for _, blob, dimensions in rows if isinstance(blob, bytes) and len(blob) == 2 * (dimensions or 0)]
        bad += len(rows) - len(whole)
        if whole:
            values = np.frombuffer(b"".join(whole), "<f2").reshape(len(whole), -1).astype("<f4")
            with np.errstate(all="ignore"):
                # Written so that what is no number counts as bad, too.
                bad += int((~(np.abs(np.sqrt((values * values).sum(axis=1)) - 1.0) <= _UNIT)).sum())
    if count:
        facts["vectors checked"] = f"all {count}"
    if bad:
        problems.append(f"{bad} of {count} vectors are not as they were written: run `powerctx embed --rebuild`.")
