"""The catalogue over a relational database."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import sqlalchemy as sa

from powerctx_core.errors import StoreError
from powerctx_core.text.terms import analysis_version
from powerctx_core.types import Deadline, Item, PutResult, derived_artifact_id
from powerctx_sqlalchemy.database import Database
from powerctx_sqlalchemy.reindex import reindexed
from powerctx_sqlalchemy.rows import Analysed, analysed, microseconds
from powerctx_sqlalchemy.snapshot import EmptySnapshot, RelationalSnapshot
from powerctx_sqlalchemy.statements import Statements
from powerctx_sqlalchemy.writing import Writer, chunks

__all__ = ["RelationalCatalogue"]


class RelationalCatalogue:
    """A :class:`powerctx_core.ports.Catalogue`; any thread may use it, and other processes the same database.

    Args:
        database: the dialect's part.
        rank_above: partitions of more items than this give the best of their members; smaller ones give all.
    """

    def __init__(self, database: Database, *, rank_above: int = 2000) -> None:
        self._database = database
        self._statements = Statements(database)
        self._rank_above = rank_above
        self._checked = threading.Event()

    @contextmanager
    def snapshot(self, deadline: Deadline) -> Iterator[RelationalSnapshot | EmptySnapshot]:
        """Open a read view in one transaction on one connection; may block for a connection, never for a writer."""
        with self._database.reading(deadline) as connection:
            if connection is None:
                yield EmptySnapshot()
                return
            yield RelationalSnapshot(
                connection=connection,
                database=self._database,
                statements=self._statements,
                rank_above=self._rank_above,
                refusal=self._refusal(connection),
            )

    def _refusal(self, connection: sa.Connection) -> str | None:
        """Return why words cannot be looked up, or ``None``; asked until it once was right."""
        if self._checked.is_set():
            return None
        with self._database.told("read the version of the analysis"):
            found = dict(connection.execute(self._statements.meta).all())["analysis_version"]
        if found == analysis_version():
            self._checked.set()
            return None
        return _outdated(found)

    def put(self, items: Sequence[Item]) -> Sequence[PutResult]:
        """Store items in one transaction; see :class:`powerctx_core.ports.Catalogue`."""
        if not items:
            return []
        identities = [(item.artifact_id or derived_artifact_id(item), item.digest) for item in items]
        terms: dict[int, Analysed] = {}

        def analyse(place: int) -> Analysed:
            if (found := terms.get(place)) is None:
                item = items[place]
                found = terms[place] = analysed(item.title, item.text, item.category, item.tags)
            return found

        # Analysis takes longest, so it is done before the write lock is taken, for what seems to be new.
        for place in self._changed(items, identities):
            analyse(place)
        with self._writer() as writer:
            return writer.put(items, identities, analyse)

    def _changed(self, items: Sequence[Item], identities: Sequence[tuple[str, bytes]]) -> Iterable[int]:
        """Return the places of items that differ from what is stored now; the write transaction looks again."""
        with self._database.reading(Deadline()) as connection:
            if connection is None:
                return range(len(items))
            with self._database.told("look up items"):
                reader = Writer(connection, self._database, self._statements, 0)
                reader.load_partitions([(item.scope_id, item.family) for item in items], create=False)
                artifacts = [
                    (reader.partition_id(item.scope_id, item.family), artifact_id)
                    for item, (artifact_id, _) in zip(items, identities, strict=True)
                ]
                digests = {}
                for piece in chunks([artifact for artifact in dict.fromkeys(artifacts) if artifact[0]]):
                    digests.update({key: head.digest for key, head in reader.heads(piece).items() if head.current})
        return [
            place
            for place, (artifact, (_, digest)) in enumerate(zip(artifacts, identities, strict=True))
            if digests.get(artifact) != digest
        ]

    @contextmanager
    def _writer(self) -> Iterator[Writer]:
        with self._database.writing() as connection, self._database.told("write"):
            found = dict(connection.execute(self._statements.meta).all())["analysis_version"]
            if found != analysis_version():
                raise StoreError(_outdated(found))
            self._checked.set()
            yield Writer(connection, self._database, self._statements, microseconds(datetime.now(UTC)))

    def retire(self, artifacts: Sequence[tuple[str, str, str]]) -> int:
        """Take artifacts out of retrieval; revisions stay readable.  Returns how many were current."""
        if not artifacts or not self._exists():
            return 0
        with self._writer() as writer:
            return writer.retire(artifacts)

    def purge(self, artifacts: Sequence[tuple[str, str, str]]) -> int:
        """Delete all revisions and terms for good.  Returns the number of revisions deleted."""
        if not artifacts or not self._exists():
            return 0
        with self._database.erasing(), self._writer() as writer:
            return writer.purge(artifacts)

    def _exists(self) -> bool:
        with self._database.reading(Deadline()) as connection:
            return connection is not None

    def refresh(self, limit: int) -> None:
        """Analyse all items anew when the analysis has changed and there are at most *limit*; called at open."""
        with self._database.reading(Deadline()) as connection:
            if connection is None or self._refusal(connection) is None:
                return
            with self._database.told("count items"):
                items = connection.execute(self._statements.totals).one()[0]
            if items > limit:
                return
        for _ in self.reindex():
            pass

    def reindex(self, *, limit: int | None = None) -> Iterable[int]:
        """Analyse all items anew, yielding the number done so far.

        Every step commits; after an interruption the next call goes on where this one stopped.  Until it is complete,
        lexical reads and writes are refused.
        """
        if not self._exists():
            return
        self._checked.clear()
        yield from reindexed(self._database, self._statements, limit)


def _outdated(found: str) -> str:
    return (
        f"The index was made by analysis {found or 'that was not completed'}, and this version of powerctx uses "
        f"{analysis_version()}: run `powerctx index --rebuild`."
    )
