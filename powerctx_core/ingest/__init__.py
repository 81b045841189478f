"""Reads files into items: JSON lines, Markdown and plain text.

Only reads.  :func:`find_sources` says which files there are, :class:`Reader` turns one file after the other into a
stream of :class:`~powerctx_core.types.Item` and :class:`BadLine`, :class:`Folders` makes items of the folders around
them; storing all of these is the caller's.  Memory stays small:
JSON lines are read one at a time, a document is one file of limited size; of a record without id its hash is kept.
"""

from powerctx_core.ingest.folders import Folders
from powerctx_core.ingest.reader import Reader, UnknownFamily
from powerctx_core.ingest.sections import split_text
from powerctx_core.ingest.sources import BadLine, Listing, Source, document_id, find_sources

__all__ = [
    "BadLine",
    "Folders",
    "Listing",
    "Reader",
    "Source",
    "UnknownFamily",
    "document_id",
    "find_sources",
    "split_text",
]
