"""Sessions and their ledgers over a relational database, since version 0004."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from powerctx_core.ports import Recording
from powerctx_core.types import SESSION_MESSAGES, Deadline, Delivered, Message, Session, SessionKey, settled
from powerctx_sqlalchemy.database import Database
from powerctx_sqlalchemy.rows import microseconds, moment
from powerctx_sqlalchemy.session_tables import delivery, session, session_text

__all__ = ["RelationalLedger", "RelationalSessions"]


def _named(table: sa.Table) -> sa.ColumnElement[bool]:
    return sa.and_(table.c.scope_id == sa.bindparam("scope"), table.c.session_id == sa.bindparam("name"))


def _bound(key: SessionKey) -> dict[str, Any]:
    return {"scope": key.scope_id, "name": key.session_id}


class RelationalLedger:
    """A :class:`powerctx_core.ports.Ledger`; any thread may use it, and other processes the same database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def delivered(self, key: SessionKey, deadline: Deadline) -> Mapping[str, Delivered]:
        """Return what is remembered of a session, by URI."""
        with self._database.reading(deadline) as connection:
            if connection is None:
                return {}
            with self._database.understood("read what a session was given"):
                return self._known(connection, key)

    def record(self, recording: Recording) -> None:
        """Remember deliveries; see :class:`powerctx_core.ports.Ledger`."""
        if not recording.delivered:
            return
        key = recording.key
        with self._database.writing() as connection, self._database.told("remember what a session was given"):
            known = self._known(connection, key)
            kept = settled(known, recording.delivered, recording.oldest)
            changed = [entry for uri, entry in kept.items() if known.get(uri) != entry]
            gone = [*(known.keys() - kept.keys()), *(entry.uri for entry in changed if entry.uri in known)]
            if gone:
                connection.execute(_FORGET, [{**_bound(key), "which": uri} for uri in gone])
            if changed:
                connection.execute(sa.insert(delivery), [_row(key, entry) for entry in changed])

    def _known(self, connection: sa.Connection, key: SessionKey) -> dict[str, Delivered]:
        rows = connection.execute(_DELIVERED, _bound(key))
        return {
            uri: Delivered(uri=uri, turn=turn, detail=detail, at=moment(at), text_digest=digest)
            for uri, turn, detail, at, digest in rows.all()
        }


def _row(key: SessionKey, entry: Delivered) -> dict[str, Any]:
    return {
        "scope_id": key.scope_id,
        "session_id": key.session_id,
        "uri": entry.uri,
        "turn": entry.turn,
        "detail": entry.detail,
        "at": microseconds(entry.at),
        "text_digest": entry.text_digest,
    }


class RelationalSessions:
    """A :class:`powerctx_core.ports.Sessions`; any thread may use it, and other processes the same database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add_message(self, key: SessionKey, message: Message) -> int:
        """Add a message and return how many user turns there are now; see :class:`powerctx_core.ports.Sessions`."""
        with self._database.writing() as connection, self._database.told("add a message"):
            row = self._row(connection, key)
            known = Session(key=key, turns=row["turns"], turn_id=row["turn_id"])
            turns = known.turns + known.starts_turn(message)
            number = row["messages"] + 1
            self._update(
                connection,
                key,
                turns=turns,
                turn_id=message.turn_id if message.role == "user" else known.turn_id,
                messages=number,
            )
            text = {"role": message.role, "turn": turns, "turn_id": message.turn_id, "at": microseconds(message.at)}
            self._append(connection, key, "message", number, {**text, "body": message.text})
            return turns

    def set_overview(self, key: SessionKey, text: str) -> None:
        """Replace the overview."""
        with self._database.writing() as connection, self._database.told("set an overview"):
            self._row(connection, key)
            self._update(connection, key, overview=text)

    def add_abstract(self, key: SessionKey, text: str) -> None:
        """Add an abstract of a part of the session."""
        with self._database.writing() as connection, self._database.told("add an abstract"):
            row = self._row(connection, key)
            number = row["abstracts"] + 1
            self._update(connection, key, abstracts=number)
            values = {"role": "", "turn": row["turns"], "turn_id": None, "at": microseconds(datetime.now(UTC))}
            self._append(connection, key, "abstract", number, {**values, "body": text})

    def turns(self, key: SessionKey, deadline: Deadline) -> int | None:
        """Return how many user turns there were, or ``None`` when the session has no log."""
        with self._database.reading(deadline) as connection:
            if connection is None:
                return None
            with self._database.told("read a session"):
                found: int | None = connection.execute(_TURNS, _bound(key)).scalar()
                return found

    def show(self, key: SessionKey, deadline: Deadline) -> Session | None:
        """Return the session with its last messages and abstracts, or ``None`` when it has no log."""
        with self._database.reading(deadline) as connection:
            if connection is None:
                return None
            with self._database.understood("read a session"):
                row = connection.execute(_SESSION, _bound(key)).mappings().first()
                if row is None:
                    return None
                texts = connection.execute(_TEXTS, _bound(key)).mappings().all()
        return Session(
            key=key,
            turns=row["turns"],
            turn_id=row["turn_id"],
            overview=row["overview"],
            abstracts=tuple(text["body"] for text in texts if text["kind"] == "abstract"),
            messages=tuple(
                Message(
                    role=text["role"],
                    text=text["body"],
                    at=moment(text["at"]),
                    turn=text["turn"],
                    turn_id=text["turn_id"],
                )
                for text in texts
                if text["kind"] == "message"
            ),
            count=row["messages"],
        )

    def _row(self, connection: sa.Connection, key: SessionKey) -> Mapping[str, Any]:
        """Return the session's row, which is made if there is none."""
        found = connection.execute(_SESSION, _bound(key)).mappings().first()
        if found is not None:
            return dict(found)
        new: dict[str, Any] = {"turns": 0, "turn_id": None, "messages": 0, "abstracts": 0, "overview": None}
        connection.execute(sa.insert(session), {"scope_id": key.scope_id, "session_id": key.session_id, **new})
        return new

    def _update(self, connection: sa.Connection, key: SessionKey, **values: object) -> None:
        connection.execute(sa.update(session).where(_named(session)).values(**values), _bound(key))

    def _append(
        self, connection: sa.Connection, key: SessionKey, kind: str, number: int, values: Mapping[str, Any]
    ) -> None:
        names = {"scope_id": key.scope_id, "session_id": key.session_id, "kind": kind, "number": number}
        connection.execute(sa.insert(session_text), {**names, **values})
        connection.execute(_OLD_TEXTS, {**_bound(key), "of": kind, "until": number - SESSION_MESSAGES})


_DELIVERED = sa.select(delivery.c.uri, delivery.c.turn, delivery.c.detail, delivery.c.at, delivery.c.text_digest).where(
    _named(delivery)
)
_FORGET = sa.delete(delivery).where(_named(delivery), delivery.c.uri == sa.bindparam("which"))
_SESSION = sa.select(session).where(_named(session))
_TURNS = sa.select(session.c.turns).where(_named(session))
_TEXTS = sa.select(session_text).where(_named(session_text)).order_by(session_text.c.kind, session_text.c.number)
_OLD_TEXTS = sa.delete(session_text).where(
    _named(session_text), session_text.c.kind == sa.bindparam("of"), session_text.c.number <= sa.bindparam("until")
)
