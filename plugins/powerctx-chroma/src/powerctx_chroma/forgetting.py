"""What Chroma keeps of deleted texts in its directory, and how it is got rid of."""

from __future__ import annotations

import logging
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

from powerctx_chroma.client import Client
from powerctx_chroma.engine import ChromaEngine
from powerctx_core.errors import StoreError, cause

__all__ = ["forget"]

_LOGGER = logging.getLogger(__name__)
_HEADER = struct.Struct("<4x8xQQQ")
"""Of an index: room for how many vectors, how many there are, and the bytes of each."""
_PIECE = 1 << 20
_STATEMENTS = (
    # Deleted texts stay in the parts of a full-text index until these are merged.
    "INSERT INTO embedding_fulltext_search(embedding_fulltext_search) VALUES('optimize')",
    "VACUUM",
)


def forget(client: Client, engine: ChromaEngine, data: Path) -> None:
    """Rewrite Chroma's file *data* without what was deleted: its log, its full-text index, and its free pages.

    What the files of the vector indexes beside it hold where no vector is yet is overwritten, too.

    The store is being closed, and nobody else has the directory.  What cannot be done is told in a warning.
    """
    try:
        engine.settle()
        client.rest()
        with closing(sqlite3.connect(data, isolation_level=None)) as connection:
            for statement in _STATEMENTS:
                connection.execute(statement)
        for index in data.parent.glob("*/header.bin"):
            _overwrite_unused(index)
    except (StoreError, OSError, sqlite3.Error) as error:
        _LOGGER.warning(
            "%s: what was purged is found by nobody, but its text may still be in %s, which could not be "
            "rewritten (%s); see that its disk has room for a second one, and purge anything once more.",
            client.location.name,
            data.name,
            cause(error),
        )


def _overwrite_unused(header: Path) -> None:
    """Write zeros over the unused places of an index, where Chroma saves whatever its memory held: maybe text."""
    rows = header.with_name("data_level0.bin")
    if header.stat().st_size < _HEADER.size:
        return
    with header.open("rb") as file:
        most, count, size = _HEADER.unpack(file.read(_HEADER.size))
    used, end = count * size, rows.stat().st_size
    if used <= end <= most * size:
        with rows.open("r+b") as file:
            file.seek(used)
            while file.tell() < end:
                file.write(bytes(min(_PIECE, end - file.tell())))
