"""Entries in Chroma's collections: what :class:`powerctx_sqlalchemy.paired.VectorEngine` asks for, and the search."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from powerctx_chroma.client import Client
from powerctx_core.errors import StoreError
from powerctx_sqlalchemy.paired import Collection, Entry

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection as Opened

__all__ = ["ChromaEngine"]

_WRITTEN = 2_000
"""Entries of one call; Chroma takes 5 461 at most, and holds its own lock meanwhile."""
_READ = 1_000
_GONE = object()
_NOBODY = "0"
_AT_ONCE, _USUAL = 2, 1_000
"""After how many writes Chroma saves an index: while it forgets, and else, as Chroma has it."""


class ChromaEngine:
    """Keeps vectors with their documents in collections named for store, generation and number; thread-safe.

    Names and ids hold nothing of a user's, so that any scope may have any name.

    Args:
        ef_search: how thoroughly collections that are made from now on are searched.
        documents: whether texts are stored, too.
    """

    def __init__(self, client: Client, *, ef_search: int, documents: bool) -> None:
        self._client = client
        self._documents = documents
        self._ef_search = ef_search
        self._lock = threading.Lock()
        self._known: dict[Collection, Opened] = {}

    def write(self, collection: Collection, entries: Sequence[Entry]) -> None:
        """Store entries."""
        for start in range(0, len(entries), _WRITTEN):
            piece = entries[start : start + _WRITTEN]
            values: Any = {
                "ids": [str(each.number) for each in piece],
                "embeddings": [np.frombuffer(each.vector, "<f4") for each in piece],
                "documents": [_storable(each.document) for each in piece] if self._documents else None,
                "metadatas": [{"address": each.address.uri} for each in piece],
            }
            self._made(collection)
            self._mend(collection)
            if self._asked(collection, "store vectors", partial(_upsert, values)) is _GONE:
                # Another process has deleted it since it was opened here.
                self._made(collection)
                self._asked(collection, "store vectors", partial(_upsert, values))

    def read(self, collection: Collection, numbers: Sequence[int]) -> Mapping[int, bytes]:
        """Return the vectors of those entries that are there."""
        found: dict[int, bytes] = {}
        for start in range(0, len(numbers), _READ):
            ids = [str(number) for number in numbers[start : start + _READ]]
            got = self._asked(collection, "read vectors", partial(_get, ids))
            if got is _GONE:
                break
            values = np.asarray(got["embeddings"], "<f4")
            found.update((int(each), row.tobytes()) for each, row in zip(got["ids"], values, strict=True))
        return found

    def delete(self, collection: Collection, numbers: Sequence[int]) -> None:
        """Delete entries."""
        for start in range(0, len(numbers), _WRITTEN):
            ids = [str(number) for number in numbers[start : start + _WRITTEN]]
            self._asked(collection, "delete vectors", partial(_delete, ids))

    def drop(self, collection: Collection) -> None:
        """Delete a collection."""
        client = self._client
        self._asked(collection, "delete vectors", lambda opened: client.get().delete_collection(opened.name))
        self._forget(collection)

    def count(self, collection: Collection) -> int | None:
        """Return how many entries there are."""
        found = self._asked(collection, "count vectors", lambda opened: opened.count())
        return None if found is _GONE else int(found)

    def nearest(self, collection: Collection, vector: bytes, count: int) -> list[int]:
        """Return the numbers of about the *count* entries that are nearest, best first; fewer when there are fewer."""
        values: Any = [np.frombuffer(vector, "<f4")]
        found = self._asked(
            collection,
            "search vectors",
            lambda opened: opened.query(query_embeddings=values, n_results=count, include=[]),
        )
        return [] if found is _GONE else [int(each) for each in found["ids"][0]]

    def settle(self) -> None:
        """Have Chroma save its indexes, after which its log holds a row or two, none with a text that was deleted.

        It saves after so many writes as the collection's configuration said when its index was loaded, so that another
        client has to load it.
        """
        with self._lock:
            known = [(collection, opened.metadata["powerctx_dimensions"]) for collection, opened in self._known.items()]
        usual = [
            self._asked(collection, "configure a collection", partial(_saved_every, _AT_ONCE))
            for collection, _ in known
        ]
        with self._lock:
            self._known.clear()
        self._client.rest()
        for (collection, dimensions), count in zip(known, usual, strict=True):
            self._asked(collection, "save vectors", partial(_pass_through, dimensions))
            if count is not _GONE:
                self._asked(collection, "configure a collection", partial(_saved_every, count))

    def _asked(self, collection: Collection, doing: str, call: Callable[[Opened], Any]) -> Any:
        """Return what *call* returns, or :data:`_GONE` when there is no such collection."""
        opened = self._found(collection)
        if opened is None:
            return _GONE
        from chromadb.errors import NotFoundError

        with self._client.told(doing):
            try:
                return call(opened)
            except NotFoundError:
                self._forget(collection)
                return _GONE

    def _forget(self, collection: Collection) -> None:
        with self._lock:
            self._known.pop(_key(collection), None)

    def _found(self, collection: Collection) -> Opened | None:
        """Return a collection that is there, and is this store's."""
        key = _key(collection)
        with self._lock:
            if key in self._known:
                return self._known[key]
        if not self._client.exists():
            return None
        from chromadb.errors import NotFoundError

        client = self._client.get()
        with self._client.told("open a collection"):
            try:
                opened = client.get_collection(_name(collection), embedding_function=None)
            except NotFoundError:
                return None
        return self._keep(collection, opened)

    def _made(self, collection: Collection) -> Opened:
        """Return a collection, which is made if it is not there."""
        key = _key(collection)
        with self._lock:
            if key in self._known:
                return self._known[key]
        client = self._client.get()
        index: Any = {"hnsw": {"space": "cosine", "ef_search": self._ef_search}}
        with self._client.told("make a collection"):
            opened = client.get_or_create_collection(
                _name(collection), metadata=_metadata(collection), configuration=index, embedding_function=None
            )
        return self._keep(collection, opened)

    def _mend(self, collection: Collection) -> None:
        """Set a collection right whose process was stopped while it forgot: it would save its index for ever."""
        opened = self._found(collection)
        if opened is None or _saves_after(opened) != _AT_ONCE:
            return
        with self._client.told("configure a collection"):
            opened.delete(ids=[_NOBODY])
            _saved_every(_USUAL, opened)

    def _keep(self, collection: Collection, opened: Opened) -> Opened:
        if (opened.metadata or {}).get("powerctx_store") != collection.store_id:
            raise StoreError(
                f"{self._client.location.name}: the collection {opened.name} was not made by this store; rename it, or "
                "use another database."
            )
        with self._lock:
            self._known[_key(collection)] = opened
        return opened


def _upsert(values: Any, opened: Opened) -> None:
    opened.upsert(**values)


def _get(ids: list[str], opened: Opened) -> Any:
    return opened.get(ids=ids, include=["embeddings"])


def _delete(ids: list[str], opened: Opened) -> None:
    opened.delete(ids=ids)


def _saved_every(count: int, opened: Opened) -> int:
    """Set after how many writes the index is saved, and return what it was before anything was forgotten."""
    with warnings.catch_warnings():
        # Chroma warns of configurations without a function that embeds, which are all of ours.
        warnings.simplefilter("ignore", DeprecationWarning)
        usual = _saves_after(opened)
        opened.modify(configuration={"hnsw": {"sync_threshold": count}})
    return _USUAL if usual == _AT_ONCE else usual


def _saves_after(opened: Opened) -> int:
    return int((opened.configuration_json.get("hnsw") or {}).get("sync_threshold", _USUAL))


def _pass_through(dimensions: int, opened: Opened) -> None:
    """Write an entry of no meaning and delete it; no entry of a pairing has this number."""
    vector: Any = [np.eye(1, dimensions, dtype="<f4")[0]]
    opened.upsert(ids=[_NOBODY], embeddings=vector)
    opened.delete(ids=[_NOBODY])


def _key(collection: Collection) -> Collection:
    """Return what is equal for one collection, whatever model is in use now."""
    return Collection(
        number=collection.number,
        store_id=collection.store_id,
        generation=collection.generation,
        fingerprint="",
        dimensions=0,
    )


def _name(collection: Collection) -> str:
    return f"powerctx-{collection.store_id}-{collection.generation}-{collection.number}"


def _metadata(collection: Collection) -> dict[str, Any]:
    return {
        "powerctx_store": collection.store_id,
        "powerctx_generation": collection.generation,
        "powerctx_model": collection.fingerprint,
        "powerctx_dimensions": collection.dimensions,
    }


def _storable(document: str) -> str:
    """Return a text without NUL, at which the engine below Chroma ends its own."""
    return document.replace("\0", "\ufffd")
