"""The tables of sessions, since version 0004: their logs, and what was delivered in them.

A delivery belongs to a session's name and not to a row of ``session``: a session that was never written to has a ledger
all the same, and does not exist for it.  Digests of texts are kept since version 0005.
"""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from powerctx_core.types import Address
from powerctx_sqlalchemy.tables import metadata
from powerctx_sqlalchemy.types import BIG, name, text

__all__ = ["delivery", "forget_deliveries", "session", "session_text"]

_URI_BYTES = 1280
"""``powerctx://``, a scope and an artifact id with every byte escaped, a family, a revision."""


def _key() -> tuple[sa.Column[str], sa.Column[str]]:
    return sa.Column("scope_id", name(256), primary_key=True), sa.Column("session_id", name(128), primary_key=True)


session = sa.Table(
    "session",
    metadata,
    *_key(),
    sa.Column("turns", BIG, nullable=False),
    sa.Column("turn_id", text()),
    sa.Column("messages", BIG, nullable=False),
    sa.Column("abstracts", BIG, nullable=False),
    sa.Column("overview", text()),
)

# Messages and abstracts, each numbered from 1; the last ones are kept.
session_text = sa.Table(
    "session_text",
    metadata,
    *_key(),
    sa.Column("kind", name(16), primary_key=True),
    sa.Column("number", BIG, primary_key=True, autoincrement=False),
    sa.Column("role", name(16), nullable=False),
    sa.Column("turn", BIG, nullable=False),
    sa.Column("turn_id", text()),
    sa.Column("at", BIG, nullable=False),
    sa.Column("body", text(), nullable=False),
)

delivery = sa.Table(
    "delivery",
    metadata,
    *_key(),
    sa.Column("uri", name(_URI_BYTES), primary_key=True),
    sa.Column("turn", BIG, nullable=False),
    sa.Column("detail", name(16), nullable=False),
    sa.Column("at", BIG, nullable=False),
    sa.Column("text_digest", name(64)),
)
sa.Index("delivery_uri", delivery.c.uri)

# "A" follows "@".
_OF_ARTIFACT = sa.delete(delivery).where(
    delivery.c.uri >= sa.bindparam("first"),
    delivery.c.uri < sa.bindparam("last"),
)


def forget_deliveries(connection: sa.Connection, artifacts: Iterable[tuple[str, str, str]]) -> None:
    """Forget that anybody was given (scope id, family, artifact id), in the transaction that deletes them."""
    stems = [Address(*artifact, 1).stem for artifact in artifacts]
    if stems:
        connection.execute(_OF_ARTIFACT, [{"first": f"{stem}@", "last": f"{stem}A"} for stem in stems])
