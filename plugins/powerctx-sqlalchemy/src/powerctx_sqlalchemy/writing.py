"""One batch of writes in one transaction."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

import attrs
import sqlalchemy as sa

from powerctx_core.types import Address, Item, PutResult
from powerctx_sqlalchemy.database import Database
from powerctx_sqlalchemy.rows import Analysed, microseconds, threaded, values
from powerctx_sqlalchemy.session_tables import forget_deliveries
from powerctx_sqlalchemy.statements import Statements
from powerctx_sqlalchemy.tables import LENGTH_BITS, SEQUENCE_BITS, analysis, length_class, revision
from powerctx_sqlalchemy.usage_table import forget_uses

__all__ = ["CHUNK", "Head", "Writer", "chunks"]

CHUNK = 10_000
"""Rows of one statement.  Full-text engines like few, large, sorted additions."""

Artifact = tuple[int, str]
"""Partition id and artifact id."""


class Head(NamedTuple):
    """The newest revision of an artifact.

    Attributes:
        created_at: of the first revision.
        place: where it stands among the rows that are not written yet, or -1.
    """

    id: int
    number: int
    current: int
    digest: bytes
    created_at: int
    place: int = -1


@attrs.define
class _Partition:
    """A partition's row and what the batch adds to it."""

    id: int
    next_sequence: int
    items: int = 0
    length: int = 0
    sequences: int = 0


@attrs.define
class _Pending:
    """What one chunk is going to write.

    Attributes:
        rows: of ``revision``.
        terms: of ``analysis``, by id.
        gone: ids of stored revisions that are no longer the newest.
    """

    rows: list[tuple[Any, ...]] = attrs.field(factory=list)
    terms: dict[int, tuple[int, str, int, int, str | None, str]] = attrs.field(factory=dict)
    gone: list[int] = attrs.field(factory=list)

    def supersede(self, head: Head, partition: _Partition) -> None:
        """Make *head*, stored or still to be written, no longer the newest revision."""
        if head.place < 0:
            self.gone.append(head.id)
            return
        row = self.rows[head.place]
        self.rows[head.place] = (*row[:4], 0, *row[5:])
        partition.items -= 1
        partition.length -= self.terms.pop(head.id)[2]


@lru_cache(maxsize=16)
def _insertion(table: sa.Table, dialect: sa.Dialect) -> str:
    return str(sa.insert(table).compile(dialect=dialect))


def chunks(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield *values* in pieces that one statement takes."""
    for start in range(0, len(values), CHUNK):
        yield values[start : start + CHUNK]


class Writer:
    """Writes one batch on *connection*, which is in a write transaction; used once.

    Args:
        now: the time of the batch, microseconds.
    """

    def __init__(self, connection: sa.Connection, database: Database, statements: Statements, now: int) -> None:
        self._connection = connection
        self._database = database
        self._statements = statements
        self._now = now
        self._partitions: dict[tuple[str, str], _Partition] = {}

    def put(
        self, items: Sequence[Item], identities: Sequence[tuple[str, bytes]], analyse: Callable[[int], Analysed]
    ) -> list[PutResult]:
        """Write items, whose ids and digests are *identities*; *analyse* gives the terms of one by its place."""
        self.load_partitions([(item.scope_id, item.family) for item in items], create=True)
        results: list[PutResult] = []
        for start in range(0, len(items), CHUNK):
            self._put_chunk(items, identities, analyse, range(start, min(start + CHUNK, len(items))), results)
        if any(result.outcome != "unchanged" for result in results):
            self.finish()
        return results

    def load_partitions(self, wanted: Sequence[tuple[str, str]], *, create: bool) -> None:
        """Read the partitions' rows, and make those that are missing when *create* is true."""
        names = list(dict.fromkeys(wanted))
        self._read_partitions(names)
        missing = [name for name in names if name not in self._partitions]
        if create and missing:
            rows = [{"scope": scope, "name": family} for scope, family in missing]
            numbers = self._database.partition_ids(self._connection, [scope for scope, _ in missing])
            if numbers is None:
                self._connection.execute(self._statements.insert_partition, rows)
            else:
                numbered = [{**row, "number": number} for row, number in zip(rows, numbers, strict=True)]
                self._connection.execute(self._statements.insert_numbered_partition, numbered)
            self._read_partitions(missing)

    def _read_partitions(self, names: Sequence[tuple[str, str]]) -> None:
        for piece in chunks(names):
            found = self._connection.execute(self._statements.find_partitions, {"asked": json.dumps(piece)})
            for place, number, _, _, _, next_sequence in found:
                self._partitions[piece[place]] = _Partition(number, next_sequence)

    def partition_id(self, scope_id: str, family: str) -> int:
        """Return the id of a loaded partition, or 0 when there is none."""
        found = self._partitions.get((scope_id, family))
        return 0 if found is None else found.id

    def heads(self, artifacts: Sequence[Artifact]) -> dict[Artifact, Head]:
        """Return the newest revision of those artifacts that exist."""
        found = self._connection.execute(self._statements.find_heads, {"asked": json.dumps(artifacts)})
        return {
            artifacts[place]: Head(number, revision_number, current, digest, created_at)
            for place, number, revision_number, current, digest, created_at in found
        }

    def _put_chunk(
        self,
        items: Sequence[Item],
        identities: Sequence[tuple[str, bytes]],
        analyse: Callable[[int], Analysed],
        places: range,
        results: list[PutResult],
    ) -> None:
        partitions = [self._partitions[items[n].scope_id, items[n].family] for n in places]
        artifacts = [(partition.id, identities[n][0]) for partition, n in zip(partitions, places, strict=True)]
        heads = self.heads(list(dict.fromkeys(artifacts)))
        pending = _Pending()
        for n, partition, artifact in zip(places, partitions, artifacts, strict=True):
            item, (artifact_id, digest) = items[n], identities[n]
            head = heads.get(artifact)
            if head is not None and head.current and head.digest == digest:
                address = Address(item.scope_id, item.family, artifact_id, head.number)
                results.append(PutResult(address=address, outcome="unchanged", key=head.id))
                continue
            if head is None:
                number, outcome, first = 1, "created", self._now
            else:
                number, outcome, first = head.number + 1, "updated" if head.current else "revived", head.created_at
                pending.supersede(head, partition)
            created_at = first if item.created_at is None else microseconds(item.created_at)
            found = analyse(n)
            sequence = partition.next_sequence + partition.sequences
            key = partition.id << SEQUENCE_BITS | sequence << LENGTH_BITS | length_class(found.length)
            partition.sequences += 1
            partition.items += 1
            partition.length += found.length
            heads[artifact] = Head(key, number, 1, digest, created_at if head is None else first, len(pending.rows))
            pending.rows.append(
                (key, partition.id, artifact_id, number, 1, None, *values(item, digest, created_at, self._now))
            )
            placed = threaded(item.thread, item.position)
            pending.terms[key] = (key, artifact_id, found.length, placed, found.repeats, found.terms)
            address = Address(item.scope_id, item.family, artifact_id, number)
            results.append(PutResult(address=address, outcome=outcome, key=key))
        self._write(pending)

    def _write(self, pending: _Pending) -> None:
        if pending.gone:
            self.remove(pending.gone)
            self._connection.execute(self._statements.supersede, {"ids": json.dumps(pending.gone)})
        if pending.rows:
            # Ids ascending: the tables grow at their ends, and a full-text engine needs not begin a new segment.
            self._insert(revision, sorted(pending.rows, key=itemgetter(0)))
            terms = [pending.terms[key] for key in sorted(pending.terms)]
            self._insert(analysis, terms)
            self._database.index.add(self._connection, [(row[0], row[5], row[4]) for row in terms])

    def _insert(self, table: sa.Table, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert rows that hold every column, in order: for many rows a quarter of the cost of Core's parameters."""
        if self._connection.dialect.positional:
            self._connection.exec_driver_sql(_insertion(table, self._connection.dialect), list(rows))
        else:
            names = table.columns.keys()
            self._connection.execute(sa.insert(table), [dict(zip(names, row, strict=True)) for row in rows])

    def remove(self, ids: Sequence[int]) -> int:
        """Take rows out of retrieval, and return how many were in it; ``revision`` is the caller's business."""
        partitions = {partition.id: partition for partition in self._partitions.values()}
        removed = 0
        for piece in chunks(sorted(ids)):
            bound = {"ids": json.dumps(piece)}
            for key, length in self._connection.execute(self._statements.lengths, bound):
                partition = partitions[key >> SEQUENCE_BITS]
                partition.items -= 1
                partition.length -= length
                removed += 1
            self._database.index.remove(self._connection, piece)
            self._database.removed(self._connection, piece)
            self._connection.execute(self._statements.delete_terms, bound)
        return removed

    def retire(self, artifacts: Sequence[tuple[str, str, str]]) -> int:
        """Retire artifacts; returns how many were current."""
        current = [key for key, is_current in self._revisions(artifacts) if is_current]
        if current:
            self.remove(current)
            for piece in chunks(current):
                self._connection.execute(self._statements.retire, {"ids": json.dumps(piece), "now": self._now})
            self.finish()
        return len(current)

    def purge(self, artifacts: Sequence[tuple[str, str, str]]) -> int:
        """Delete artifacts; returns how many revisions they had."""
        # Where this store keeps the sessions of another one, there are deliveries of artifacts that are not here.
        forget_deliveries(self._connection, dict.fromkeys(artifacts))
        found = self._revisions(artifacts)
        if not found:
            return 0
        self.remove([key for key, is_current in found if is_current])
        for piece in chunks([key for key, _ in found]):
            self._connection.execute(self._statements.delete_revisions, {"ids": json.dumps(piece)})
        forget_uses(self._connection, self._known(artifacts))
        self._database.index.forget(self._connection)
        self.finish()
        # Not even the name of a scope stays when all that it held was purged.
        for piece in chunks([partition.id for partition in self._partitions.values()]):
            self._connection.execute(self._statements.delete_partitions, {"ids": json.dumps(piece)})
        return len(found)

    def _revisions(self, artifacts: Sequence[tuple[str, str, str]]) -> list[tuple[int, int]]:
        """Return (id, current) of every revision of the artifacts."""
        self.load_partitions([(scope, family) for scope, family, _ in artifacts], create=False)
        found: list[tuple[int, int]] = []
        for piece in chunks(self._known(artifacts)):
            rows = self._connection.execute(self._statements.find_ids, {"asked": json.dumps(piece)})
            found += [(key, current) for key, current in rows]
        return found

    def _known(self, artifacts: Sequence[tuple[str, str, str]]) -> list[Artifact]:
        """Return the artifacts whose partitions are loaded, each once."""
        return [
            (partition.id, artifact_id)
            for scope, family, artifact_id in dict.fromkeys(artifacts)
            if (partition := self._partitions.get((scope, family))) is not None
        ]

    def finish(self) -> None:
        """Write the counters: those of the partitions, and the one of the store that other processes look at."""
        stamp = int(self._connection.execute(self._statements.changes).scalar_one()) + 1
        self._connection.execute(self._statements.set_meta, {"which": "changes", "new": str(stamp)})
        rows = [
            {
                "which": partition.id,
                "more_items": partition.items,
                "more_length": partition.length,
                "more_sequence": partition.sequences,
                "stamp": stamp,
            }
            for partition in self._partitions.values()
            # A partition in which nothing was written keeps its counter, and what is cached for it.
            if partition.sequences or partition.items or partition.length
        ]
        if rows:
            self._connection.execute(self._statements.update_partition, rows)
