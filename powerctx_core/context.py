"""The object that callers hold: one opened store with the parts around it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Self

from powerctx_core.arguments import artifacts_named, listed, request_of, to_explain
from powerctx_core.asking import Asking
from powerctx_core.blame import Blame
from powerctx_core.embedding import Embedding
from powerctx_core.engine import Engine
from powerctx_core.errors import CapabilityError, InvalidRequest, PowerctxError
from powerctx_core.explanation import Explanation
from powerctx_core.gates import installed_gates
from powerctx_core.host import Host
from powerctx_core.observers import Observers
from powerctx_core.ports import CountingStore, Store, StoreStatus
from powerctx_core.reading import history_of, revision_of
from powerctx_core.records import FamilySpec
from powerctx_core.requests import (
    ContextPack,
    FindRequest,
    Found,
    PreparedContext,
    PrepareRequest,
    SearchRequest,
    recall_parameters,
    recalled,
)
from powerctx_core.secrecy import secrets
from powerctx_core.sessions import SessionLogs, StateStore
from powerctx_core.settings import Settings
from powerctx_core.text.terms import analyse_query
from powerctx_core.types import Address, Deadline, Item, Partition, PutResult, Revision, check_text_bytes
from powerctx_core.workers import Lanes, Workers, awaited

__all__ = ["Context"]

_EMBEDDING_WORKERS = 4
_AWAITED_CALLS = 64


class Context:
    """An opened store: write items, ask for context.

    Thread-safe.  Calls block on the store; nothing is written but by ``put``, ``embed``, ``retire``, ``purge``,
    ``reindex``, ``mark_used`` and ``sessions``, and by ``search`` and ``recall`` what a session was given, when
    *dedup_turns* and a session ask for that.  Use it as a context manager or call :meth:`close`.
    """

    def __init__(self, host: Host, store: Store, settings: Settings, url: str) -> None:
        self.host = host
        self.store = store
        self.settings = settings
        self.url = url
        # Threads wait for threads of another kind only: calls for families and renderers, families for the embedder.
        self._workers = Workers(_EMBEDDING_WORKERS, "powerctx-embed")
        self._lanes = Lanes("powerctx")
        self._calls = Workers(_AWAITED_CALLS, "powerctx-call")
        self._closed = False
        self._blame = Blame.of(host, settings, url)
        with self._blame():
            self.embedding = self._embedding(settings.embedder)
        self._state = StateStore(store, settings.state, host.open_store)
        self.sessions = SessionLogs(self._state, self._blame, self._check_open)
        engine = Engine(
            host=host,
            store=store,
            state=self._state,
            blame=self._blame,
            settings=settings,
            embedding=self.embedding,
            gates=installed_gates(settings.recall.gate_files),
            workers=self._workers,
            lanes=self._lanes,
        )
        observers = Observers({name: host.part("powerctx_sinks", name) for name in settings.sinks})
        self._asking = Asking(engine=engine, observers=observers)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _embedding(self, name: str | None) -> Embedding:
        """Return the embedder of that name, or none, with the store's index."""
        embedder, title, hidden = None, "", frozenset[str]()
        if name is not None:
            embedder = self.host.part("powerctx_embedders", name, field="embedder")
            title = f"The embedder {name!r} of {self.host.provider('powerctx_embedders', name)}"
            hidden = secrets(self.settings, name)
        return Embedding(
            embedder,
            self.store.vectors,
            self._workers.submit,
            timeout=self.settings.retrieval.write_embedding_timeout_s,
            secrets=hidden,
            title=title,
        )

    def _check_open(self) -> None:
        if self._closed:
            raise PowerctxError("This context is closed; open a new one.")

    def close(self) -> None:
        """Close store and parts; further calls of ``close`` do nothing, any other is refused with an error.

        Parts that hang are not waited for.
        """
        self._closed = True
        self._asking.observers.close()
        for threads in (self._calls, self._lanes, self._workers):
            threads.close()
        try:
            with self._blame():
                self.store.close()
        finally:
            self.host.close()

    def put(self, items: Iterable[Item], *, embed: bool = True) -> list[PutResult]:
        """Store items as one atomic batch and return what was done with each, in order.

        With an embedder open, what was written is embedded too, texts that were embedded before excepted.  Items whose
        embedding fails are stored all the same, found by words, and embedded when they are put again, or by
        :meth:`embed`.

        Args:
            items: the batch.
            embed: leave it to :meth:`embed` when false.

        Raises:
            InvalidRequest: something is not an :class:`Item`, names a family that no installed part declares, or has a
                longer text than its family allows.
            StoreError: the store refused; nothing of the batch was kept.
        """
        self._check_open()
        batch = listed("items", items)
        for item in batch:
            if not isinstance(item, Item):
                raise InvalidRequest(f"put takes Item values, not {type(item).__name__}.", field="items")
        families = {item.family for item in batch}
        spec = partial(self.host.spec, "powerctx_families", field="family")
        limits: dict[str, int] = {family: spec(family).text_bytes for family in families}
        for item in batch:
            check_text_bytes(item, limits[item.family])
        with self._blame():
            known = self.embedding.known(batch) if embed else {}
            results = list(self.store.catalogue.put(batch))
        if embed:
            self.embedding.written(batch, results, known, self._embedded)
        return results

    def embed(self, *, rebuild: bool = False) -> Iterator[int]:
        """Embed every current item that has no vector, yielding how many are done; can be taken up again.

        Args:
            rebuild: delete all vectors first, as after a change of model.

        Raises:
            CapabilityError: no embedder is open, the store has no vectors, or they are of another model.
        """
        self._check_open()
        return self._blame.each(lambda: self.embedding.embed_all(self._embedded, rebuild=rebuild))

    def _embedded(self, family: str) -> bool:
        spec: FamilySpec = self.host.spec("powerctx_families", family)
        return self.settings.retrieval.by_vector(family, declared=spec.vectors)

    def get(self, uri: str | Address, *, scope_id: str | None = None) -> Revision:
        """Return the exact revision of an address, or the current one of a URI without ``@revision``.

        Args:
            uri: whole, or relative to *scope_id*, as the text of a pack shows it.
            scope_id: of the call that gave the pack.

        Raises:
            InvalidRequest: not a powerctx URI.
            NotFound: nothing is stored there, or (without a revision) it was retired.
        """
        self._check_open()
        with self._blame(), self.store.catalogue.snapshot(Deadline()) as snapshot:
            return revision_of(snapshot, uri, scope_id)

    def history(self, uri: str | Address, *, scope_id: str | None = None) -> tuple[Revision, ...]:
        """Return every revision of an artifact, oldest first; a revision in *uri* is ignored.

        Args:
            uri: as of :meth:`get`.
            scope_id: as of :meth:`get`.

        Raises:
            NotFound: nothing was ever stored there, or it was purged.
        """
        self._check_open()
        with self._blame(), self.store.catalogue.snapshot(Deadline()) as snapshot:
            return history_of(snapshot, uri, scope_id)

    def retire(self, uris: str | Address | Iterable[str | Address], *, scope_id: str | None = None) -> int:
        """Take artifacts out of retrieval at once and return how many were in it; exact revisions stay readable.

        An artifact is retired as a whole: a revision in a URI is ignored.  URIs may be relative to *scope_id*.
        """
        self._check_open()
        artifacts = artifacts_named(uris, scope_id)
        with self._blame():
            return self.store.catalogue.retire(artifacts)

    def purge(self, uris: str | Address | Iterable[str | Address], *, scope_id: str | None = None) -> int:
        """Delete artifacts with all revisions and terms for good and return the number of revisions deleted.

        An artifact is deleted as a whole: a revision in a URI is ignored.  URIs may be relative to *scope_id*.
        """
        self._check_open()
        artifacts = artifacts_named(uris, scope_id)
        with self._blame():
            # First, so that it is not forgotten when it fails, and the artifacts are gone already.
            self._state.forget(artifacts)
            return self.store.catalogue.purge(artifacts)

    def mark_used(self, uris: str | Address | Iterable[str | Address], *, scope_id: str | None = None) -> int:
        """Count one more use of each artifact, for ``trim="value"``, and return how many of them are stored.

        Say what really was of use, such as what the model cited; ``prepare`` and ``find`` never count.  An artifact is
        counted as a whole, once in a call: a revision in a URI is ignored.  URIs may be relative to *scope_id*.

        Raises:
            CapabilityError: the store keeps no usage counts.
            StoreError: the store refused; nothing was counted.
        """
        self._check_open()
        if not isinstance(self.store, CountingStore):
            raise CapabilityError(
                "mark_used needs a store that keeps usage counts, which this one does not; use another store, or let "
                "the setting trim.use be 0."
            )
        artifacts = artifacts_named(uris, scope_id)
        with self._blame():
            return self.store.usage.add(artifacts)

    def prepare(self, request: str | PrepareRequest, **parameters: Any) -> PreparedContext:
        """Return context for a query; parameters are the fields of :class:`PrepareRequest`.

        Raises:
            InvalidRequest: a parameter is unknown or outside its limits, or names a part that is not installed.
            PluginError, PlanInvariantError, StoreError: see :meth:`Engine.prepare`.
        """
        self._check_open()
        return self._asking.prepare(request_of(PrepareRequest, request, parameters))

    async def aprepare(self, request: str | PrepareRequest, **parameters: Any) -> PreparedContext:
        """Return what :meth:`prepare` returns, without blocking the event loop.

        The same pipeline runs on a thread of its own, with the caller's context variables; at most 64 such calls run
        at once, the others wait for their turn.  A deadline counts from here and ends that wait, too: the answer's
        outcome is ``deadline`` then, and all its families are late.  When the await is cancelled, a call that waits
        never runs, and one that runs goes on to its end, unheard: it only reads.

        Raises:
            InvalidRequest, PluginError, PlanInvariantError, StoreError: as :meth:`prepare`.
        """
        self._check_open()
        checked = request_of(PrepareRequest, request, parameters)
        return await awaited(self._calls, partial(self._asking.prepare, checked), self._asking.deadline(checked))

    def explain(self, request: str | PrepareRequest | SearchRequest, **parameters: Any) -> Explanation:
        """Return what :meth:`prepare` returns, and how it came about: rounds, pools, verdicts, each candidate's fate.

        It runs once, asks nothing that ``prepare`` does not ask, and explains that one run.  Unlike a receipt it holds
        the answer and the query; sinks are told of it as of ``prepare``.  A :class:`SearchRequest` of mode ``context``
        is explained in the same way; what it shows is not recorded as delivered in its session.

        Raises:
            InvalidRequest, CapabilityError, PluginError, PlanInvariantError, StoreError: as :meth:`prepare` and
                :meth:`search`; lists are not explained.
        """
        self._check_open()
        return self._asking.explain(to_explain(request, parameters))

    async def aexplain(self, request: str | PrepareRequest | SearchRequest, **parameters: Any) -> Explanation:
        """Return what :meth:`explain` returns, without blocking the event loop; see :meth:`aprepare`.

        Raises:
            InvalidRequest, CapabilityError, PluginError, PlanInvariantError, StoreError: as :meth:`explain`.
        """
        self._check_open()
        checked = to_explain(request, parameters)
        return await awaited(self._calls, partial(self._asking.explain, checked), self._asking.deadline(checked))

    def find(self, request: str | FindRequest, **parameters: Any) -> Found:
        """Return related items for a query; parameters are the fields of :class:`FindRequest`.

        Raises:
            InvalidRequest: a parameter is unknown or outside its limits, or names a part that is not installed.
            PluginError, StoreError: see :meth:`Engine.find`.
        """
        self._check_open()
        return self._asking.find(request_of(FindRequest, request, parameters))

    async def afind(self, request: str | FindRequest, **parameters: Any) -> Found:
        """Return what :meth:`find` returns, without blocking the event loop; see :meth:`aprepare`.

        Raises:
            InvalidRequest, PluginError, StoreError: as :meth:`find`.
        """
        self._check_open()
        checked = request_of(FindRequest, request, parameters)
        return await awaited(self._calls, partial(self._asking.find, checked), self._asking.deadline(checked))

    def search(self, request: str | SearchRequest | None = None, **parameters: Any) -> Found | ContextPack:
        """Return a list (``mode="list"``) or a pack (``mode="context"``) for a query, or a pack without one.

        ``mode="bootstrap"`` gives what an agent should know when it starts.

        A pack stays within *max_tokens*, cites every entry, and can be given to a model as it is.  Nothing is written,
        but with *dedup_turns* and a session what was delivered in it; in mode ``bootstrap`` *dedup_turns* is 5 when
        there is a session.

        Args:
            request: the query, or nothing in mode ``bootstrap``, with the fields of :class:`SearchRequest` as
                parameters; or such a request.
            parameters: those fields.

        Raises:
            InvalidRequest: a parameter is unknown, outside its limits, or has no meaning in the mode.
            CapabilityError, PluginError, PlanInvariantError, StoreError: see :class:`powerctx_core.search.Search`.
        """
        self._check_open()
        return self._asking.search(request_of(SearchRequest, request, parameters))

    async def asearch(self, request: str | SearchRequest | None = None, **parameters: Any) -> Found | ContextPack:
        """Return what :meth:`search` returns, without blocking the event loop; see :meth:`aprepare`.

        A call that has begun goes on to its end, unheard; it may still record what it delivers.

        Raises:
            InvalidRequest, CapabilityError, PluginError, PlanInvariantError, StoreError: as :meth:`search`.
        """
        self._check_open()
        checked = request_of(SearchRequest, request, parameters)
        return await awaited(self._calls, partial(self._asking.search, checked), self._asking.deadline(checked))

    def recall(self, query: str, **parameters: Any) -> ContextPack:
        """Return what :meth:`search` returns in mode ``context``, with the defaults of a recall in each turn.

        These are purpose ``coding``, *score_threshold* 0.35, and *dedup_turns* 5 when there is a session; explicit
        parameters go before them.

        Raises:
            InvalidRequest, CapabilityError, PluginError, PlanInvariantError, StoreError: as :meth:`search`.
        """
        self._check_open()
        given, deprecated = recall_parameters(parameters)
        return recalled(self._asking.search(request_of(SearchRequest, query, given)), deprecated)

    async def arecall(self, query: str, **parameters: Any) -> ContextPack:
        """Return what :meth:`recall` returns, without blocking the event loop; see :meth:`asearch`.

        Raises:
            InvalidRequest, CapabilityError, PluginError, PlanInvariantError, StoreError: as :meth:`search`.
        """
        given, deprecated = recall_parameters(parameters)
        return recalled(await self.asearch(query, **given), deprecated)

    def warm(self) -> None:
        """Load what the first call would load: text analysis, the embedder's model, the store's connection.

        Blocks as long as that takes; a model that fails to load is left to the calls, which go on by words.
        """
        self._check_open()
        for text in ("What do we know about this? Do not call any tools.", "只根据提供的上下文回答：我们知道什么？"):
            analyse_query(text)
        self.partitions()
        self.embedding.warm()

    def partitions(self) -> Mapping[Partition, int]:
        """Return every (scope, family) that holds current items, with their number."""
        self._check_open()
        with self._blame(), self.store.catalogue.snapshot(Deadline()) as snapshot:
            return snapshot.partitions()

    def reindex(self, *, limit: int | None = None) -> Iterator[int]:
        """Analyse all items anew, yielding how many are done; can be interrupted and taken up again."""
        self._check_open()
        return self._blame.each(lambda: self.store.catalogue.reindex(limit=limit))

    def status(self) -> StoreStatus:
        """Describe the store's location, schema and health."""
        self._check_open()
        with self._blame():
            return self.store.status()
