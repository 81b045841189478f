"""What a dialect gives to the shared catalogue."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import attrs
import sqlalchemy as sa

from powerctx_core.errors import StoreError
from powerctx_core.types import Deadline, Filters

__all__ = ["Database", "LexicalIndex", "Match"]


@attrs.frozen(kw_only=True)
class Match:
    """Which rows of one partition a lexical statement looks for.

    Attributes:
        first, last: the partition's block of ids.
        codes: encoded terms, any of which a row must hold.
        required: those of *codes* that decide who is ranked, when not all do: a row must hold one of them, and the
            others only add to its rank.
        filters: restrictions on the rows.
        limit: how many rows at most, those that the engine ranks best; ``None`` for all, unranked.
    """

    first: int
    last: int
    codes: Sequence[str]
    required: Sequence[str] = ()
    filters: Filters = Filters()
    limit: int | None = None


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
    def count(self, connection: sa.Connection, first: int, last: int, codes: Sequence[str]) -> Mapping[str, int]:
        """Return, for each encoded term, how many rows of the block hold it; terms in none may be missing."""

    @abstractmethod
    def match(self, connection: sa.Connection, match: Match) -> Sequence[Sequence[Any]]:
        """Return (id, artifact id, length, terms, repeats, passes) of the rows that hold a term.

        With a limit, the filters decide which rows are returned.  Without one every row is returned and *passes* says
        what the filters decided, so that statistics can be taken from all of them.
        """


class Database(ABC):
    """Connections, transactions and the few spellings that differ between dialects.

    Attributes:
        errors: what the driver and SQLAlchemy raise.
    """

    errors: tuple[type[Exception], ...] = (sa.exc.SQLAlchemyError,)

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

    @abstractmethod
    def explained(self, error: Exception, doing: str) -> StoreError:
        """Return what to tell about an error of the driver or of SQLAlchemy; *doing* is what was tried."""

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
