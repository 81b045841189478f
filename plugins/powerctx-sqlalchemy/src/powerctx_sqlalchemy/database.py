"""What a dialect gives to the shared catalogue."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, NamedTuple

import attrs
import sqlalchemy as sa

from powerctx_core.errors import PowerctxError, StoreError
from powerctx_core.types import Deadline, Filters, LexicalHit, QueryTerms
from powerctx_sqlalchemy.tables import metadata

__all__ = ["Database", "Found", "LexicalIndex", "PartitionRow", "Search"]

_UNREADABLE = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError)
"""What making values of stored rows raises when these are not as they were written."""


class PartitionRow(NamedTuple):
    """What a partition's row says."""

    id: int
    items: int
    total_length: int
    changes: int


@attrs.frozen(kw_only=True)
class Search:
    """What a lexical search looks for in one partition.

    Attributes:
        partition: where.
        query: its terms, any of which a member holds.
        filters: restrictions on the members; statistics do not know them.
        terms: how many terms are used at most, the rarest.
        limit: how many members at most, those that core would rank best; ``None`` for all.
    """

    partition: PartitionRow
    query: QueryTerms
    filters: Filters
    terms: int
    limit: int | None


@attrs.frozen(kw_only=True)
class Found:
    """What a lexical search found.

    Attributes:
        terms: those that were used, in the order of the query.
        frequency: for each of them, how many items of the partition hold it.
        hits: members, in no order, with all of these terms that they hold and the exact occurrences.
    """

    terms: tuple[str, ...] = ()
    frequency: Mapping[str, int] = attrs.field(factory=dict)
    hits: Sequence[LexicalHit] = ()


class LexicalIndex(ABC):
    """The full-text index over ``analysis.terms``; kept by the catalogue, matched by the snapshot.

    Every method runs one statement where it can, on the connection (and in the transaction) it is given.
    """

    @abstractmethod
    def create(self, connection: sa.Connection) -> None:
        """Make the engine's own objects: the index, and the trigger that refuses to change a revision."""

    @abstractmethod
    def add(self, connection: sa.Connection, rows: Sequence[tuple[int, str, str | None]]) -> None:
        """Index (id, terms, repeats), ids ascending; their ``analysis`` rows exist already."""

    @abstractmethod
    def remove(self, connection: sa.Connection, ids: Sequence[int]) -> None:
        """Take rows out of the index; their ``analysis`` rows still exist."""

    @abstractmethod
    def clear(self, connection: sa.Connection) -> None:
        """Empty the index."""

    @abstractmethod
    def forget(self, connection: sa.Connection) -> None:
        """Erase what :meth:`remove` left behind of removed rows."""

    @abstractmethod
    def search(self, connection: sa.Connection, search: Search) -> Found:
        """Return the members that hold a term, with two statements as a rule."""


class Database(ABC):
    """Connections, transactions and the few spellings that differ between dialects.

    Attributes:
        errors: what the driver and SQLAlchemy raise.
    """

    errors: tuple[type[Exception], ...] = (sa.exc.SQLAlchemyError,)

    @property
    @abstractmethod
    def name(self) -> str:
        """What messages call the database: its path, or its URL without secrets."""

    @property
    @abstractmethod
    def index(self) -> LexicalIndex:
        """The full-text index."""

    @abstractmethod
    def reading(self, deadline: Deadline) -> AbstractContextManager[sa.Connection | None]:
        """Open a read transaction: one snapshot, no writes; ``None`` when nothing was ever stored.

        Statements are stopped soon after *deadline*.

        Raises:
            StoreError: the database cannot be read now.
        """

    @abstractmethod
    def writing(self) -> AbstractContextManager[sa.Connection]:
        """Open a write transaction, commit it at the end and roll back on any exception.

        Raises:
            StoreError: the database cannot be written to now.
        """

    @contextmanager
    def erasing(self) -> Iterator[None]:
        """Surround a transaction whose deleted rows shall not be readable in the files afterwards."""
        yield

    def create_tables(self, connection: sa.Connection) -> None:
        """Make the tables and their indexes, at the newest version of the schema."""
        metadata.create_all(connection)

    def partition_ids(self, connection: sa.Connection, scopes: Sequence[str]) -> Sequence[int] | None:  # noqa: ARG002 - for dialects
        """Return an id that was never used for a new partition in each of *scopes*, in their order, below 2 ** 31.

        ``None`` lets the database number them.
        """
        return None

    _watchers: tuple[Callable[[sa.Connection, Sequence[int]], None], ...] = ()

    def watch(self, watcher: Callable[[sa.Connection, Sequence[int]], None]) -> None:
        """Have *watcher* called with what :meth:`removed` hears of."""
        self._watchers = (*self._watchers, watcher)

    def removed(self, connection: sa.Connection, ids: Sequence[int]) -> None:
        """Hear of revisions that leave retrieval, in the transaction in which they do.

        A database without triggers deletes their vectors here, and calls this method too.
        """
        for watcher in self._watchers:
            watcher(connection, ids)

    @abstractmethod
    def explained(self, error: Exception, doing: str) -> StoreError:
        """Return what to tell about an error of the driver or of SQLAlchemy; *doing* is what was tried."""

    joins_listings: ClassVar[bool] = False
    """Whether one statement may hold several listings, each with a limit of its own."""

    def fetched(
        self,
        connection: sa.Connection,
        statement: sa.Select[Any] | sa.CompoundSelect[Any] | sa.TextClause,
        values: Mapping[str, Any],
    ) -> Sequence[Sequence[Any]]:
        """Return the rows of a statement that every retrieval runs; a dialect may know a shorter way."""
        return connection.execute(statement, values).all()

    def keyed(self, table: sa.Table, parameter: str) -> tuple[sa.FromClause, Sequence[sa.ColumnElement[bool]]]:
        """Return FROM and WHERE for the rows of *table* with the ids that :meth:`keys` gives for *parameter*."""
        ids = self.json_values(parameter)
        return ids.join(table, table.c.id == ids.c.value), ()

    def keys(self, ids: Sequence[int]) -> object:
        """Return what is bound for ids."""
        return json.dumps(ids)

    @abstractmethod
    def json_values(self, parameter: str) -> sa.FromClause:
        """Return a table of one column, ``value``, over a JSON array bound to *parameter*."""

    @abstractmethod
    def json_rows(self, parameter: str, *columns: str) -> sa.FromClause:
        """Return a table over a JSON array of arrays bound to *parameter*, with these columns and ``place`` (0, …)."""

    @contextmanager
    def told(self, doing: str) -> Iterator[None]:
        """Turn what driver and SQLAlchemy raise inside into a :class:`StoreError`."""
        try:
            yield
        except self.errors as error:
            raise self.explained(error, doing) from error

    @contextmanager
    def understood(self, doing: str) -> Iterator[None]:
        """Do as :meth:`told` for a read that makes values of rows; those that nobody wrote so are told as damage."""
        with self.told(doing):
            try:
                yield
            except PowerctxError as error:
                # A value of ours that refuses what is stored.
                if isinstance(error, ValueError):
                    raise self._senseless(doing, error) from error
                raise
            except UnicodeEncodeError:  # of what was asked for, not of what is stored
                raise
            except _UNREADABLE as error:
                raise self._senseless(doing, error) from error

    def _senseless(self, doing: str, error: Exception) -> StoreError:
        return StoreError(
            f"{self.name}: could not {doing}: a stored row is not as it was written ({type(error).__name__}), so that "
            "the store seems to be damaged; run `powerctx doctor`, and restore a backup."
        )
