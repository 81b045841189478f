"""Asks a family as the engine does, and says what an answer holds; the language of the contract of families."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import attrs

from powerctx_core.context import Context
from powerctx_core.hookspecs import hookimpl
from powerctx_core.ports import Call, EmbedRequest, Family, RetrievalRequest, SearchingFamily
from powerctx_core.recall.checks import check_pool
from powerctx_core.records import FamilySpec
from powerctx_core.requests import PreparedContext
from powerctx_core.testing.contract import agree
from powerctx_core.testing.embedder_words import cosine
from powerctx_core.text.cut import head
from powerctx_core.text.terms import analyse, analyse_query, analysed_text
from powerctx_core.types import (
    HEAD_BYTES,
    Address,
    AdmissionFloor,
    Deadline,
    Filters,
    Item,
    Partition,
    Pool,
    RawCandidate,
    Searched,
)
from powerctx_core.vectors import embedding_text

__all__ = [
    "BOTH",
    "NEAR",
    "Beside",
    "Question",
    "addresses",
    "filters_for",
    "names",
    "spoil",
    "told",
    "values",
    "words",
]

BOTH: Mapping[str, float] = {"fts": 1.0, "vector": 0.5}
FLOORS = (AdmissionFloor(idf_mass=0.2), AdmissionFloor(idf_mass=0.1), AdmissionFloor(idf_mass=0.0))
"""Those of the default policy, round by round."""
NEAR = 0.01
"""What two cosines of one pair of vectors may differ by: stores keep vectors in half precision."""


class Beside:
    """A plugin with a family of its own, kept in the store, that must not notice the one under test."""

    @hookimpl
    def powerctx_families(self) -> Iterator[FamilySpec]:
        """Offer the family."""
        yield FamilySpec(
            name="kit-beside", factory="powerctx_core.families:StoredFamily", about="beside the one under test"
        )


class Question:
    """Asks the family under test as the engine does, one scope at a time.

    Attributes:
        items: what the family holds.
    """

    def __init__(self, ctx: Context, name: str, items: Sequence[Item]) -> None:
        self.ctx = ctx
        self.items = items
        self.spec: FamilySpec = ctx.host.spec("powerctx_families", name)
        self.family: Family | SearchingFamily = ctx.host.part("powerctx_families", name)
        self.scope = items[0].scope_id
        self.scopes = tuple(dict.fromkeys(item.scope_id for item in items))

    def request(self, query: str, scope: str | None = None, *, k: int = 64, **fields: Any) -> RetrievalRequest:
        """Make a request; of what is not searched none asks for channels."""
        partition = Partition(self.scope if scope is None else scope, self.spec.name)
        if not self.spec.searchable:
            fields = {name: value for name, value in fields.items() if name not in ("weights", "neighbours")}
            fields["weights"] = {}
        return RetrievalRequest(query=query, terms=analyse_query(query), partition=partition, k=k, **fields)

    def answer(
        self,
        request: RetrievalRequest,
        *,
        deadline: Deadline = Deadline(),
        offer: Callable[[Pool], None] = lambda _: None,
    ) -> Pool:
        """Return what the family answers."""
        with self.ctx.store.catalogue.snapshot(deadline) as snapshot:
            return self.asked(request, self.call(snapshot, deadline=deadline, offer=offer))

    def check(self, pool: object, request: RetrievalRequest) -> Pool:
        """Return *pool* when it answers *request*; else ``PoolInvariantError``."""
        return check_pool(pool, request, self.spec.identity, searched=self.spec.searchable)

    def prepare(self, query: str, scope: str, **fields: Any) -> PreparedContext:
        """Have context prepared of the family alone, as a request may name it."""
        if self.spec.searchable:
            return self.ctx.prepare(query, scope_id=scope, families=(self.spec.name,), **fields)
        most = (self.spec.section_range or (1, 1))[1]
        return self._sections(query, scope, {self.spec.name: most}, **fields)

    def beside(self, query: str, *families: str) -> set[Address]:
        """Return what a call that names *families* gives; of a section one entry, so that each has room."""
        if self.spec.searchable:
            return {hit.address for hit in self.ctx.find(query, scope_id=self.scope, families=families, limit=100).hits}
        return set(self._sections(query, self.scope, dict.fromkeys(families, 1)).selected)

    def _sections(self, query: str, scope: str, limits: Mapping[str, int], **fields: Any) -> PreparedContext:
        """Ask by sections, as what is not searched has to be."""
        sections = [{"family": name, "limit": limit} for name, limit in limits.items()]
        return self.ctx.prepare(query, scope_id=scope, sections=sections, renderer="prepared", **fields)

    def deliverable(self) -> Iterable[Item]:
        """Return the items that any budget can deliver: all, or the most recent one of each scope."""
        if self.spec.searchable:
            return self.items
        latest = {scope: names(self.pool("", scope, k=1)) for scope in self.scopes}
        return [item for item in self.items if item.artifact_id in latest[item.scope_id]]

    def asked(self, request: RetrievalRequest, call: Call) -> Pool:
        """Return what the family answers; one whose engine admits is asked at the lowest floor."""
        if isinstance(self.family, SearchingFamily):
            return self.family.search(request, FLOORS[-1], call).pool
        return self.family.retrieve(request, call)

    def rounds(self, request: RetrievalRequest) -> Iterator[tuple[Searched, int]]:
        """Give what a family whose engine admits finds in each round, and how many texts it has core embed for it."""
        if not isinstance(self.family, SearchingFamily):
            return
        for floor in FLOORS:
            embedded: list[str] = []
            with self.ctx.store.catalogue.snapshot(Deadline()) as snapshot:
                call = self.call(snapshot, deadline=Deadline())
                embed = call.embed
                noted = attrs.evolve(call, embed=lambda text: embedded.append(text) or embed(text))  # type: ignore[func-returns-value]  # noqa: B023 - called in this round alone
                found = self.family.search(request, floor, noted)
            yield found, len(embedded)
            request = attrs.evolve(request, vector=found.pool.query_vector)

    def call(self, snapshot: Any, **fields: Any) -> Call:
        """Make a call over *snapshot*, with vectors where store and embedder have them."""
        embedder = self.ctx.embedding.ready
        if embedder is None or self.ctx.store.vectors is None:
            return Call(catalogue=snapshot, **fields)

        def embed(text: str) -> bytes | None:
            vector = embedder.embed(EmbedRequest(texts=(text,), purpose="query"))[0]
            return vector if any(vector) else None  # zeros: no word of it is known

        return Call(catalogue=snapshot, vectors=self.ctx.store.vectors, embed=embed, profile=embedder.profile, **fields)

    def pool(self, query: str, scope: str | None = None, **fields: Any) -> Pool:
        """Return the pool for a query."""
        return self.answer(self.request(query, scope, **fields))

    def all(self, scope: str | None = None) -> str:
        """Return a query that holds a few words of everything in a scope."""
        scope = self.scope if scope is None else scope
        return " ".join(item.text[:60] for item in self.items if item.scope_id == scope)[:8000]

    def every(self) -> Iterator[tuple[RetrievalRequest, Pool]]:
        """Give request and pool of the words of every item, and of all items of each scope."""
        asked = [(words(item), item.scope_id) for item in self.items]
        for query, scope in [*asked, *((self.all(scope), scope) for scope in self.scopes)]:
            request = self.request(query, scope, weights=BOTH)
            yield request, self.answer(request)

    def analysed(self, candidate: RawCandidate) -> Mapping[str, int] | None:
        """Return the terms of a member, with their numbers, or ``None`` when nothing tells its body."""
        body = self.body(candidate)
        if body is None:
            return None
        return analyse(analysed_text(candidate.title, body, candidate.category, candidate.tags))

    def held(self, pools: Iterable[Pool]) -> dict[str, list[Mapping[str, int]]]:
        """Return the terms of every item by scope, with title, category and tags as far as the family keeps them."""
        found: dict[tuple[str, str | None], Mapping[str, int] | None] = {
            (each.address.scope_id, each.address.artifact_id): self.analysed(each)
            for pool in pools
            for each in pool.candidates.values()
        }
        held: dict[str, list[Mapping[str, int]]] = {scope: [] for scope in self.scopes}
        for item in self.items:
            terms = found.get((item.scope_id, item.artifact_id))
            held[item.scope_id].append(analyse(item.text) if terms is None else terms)
        return held

    def cosines(self, pool: Pool) -> dict[str, float] | None:
        """Return the cosine of every item of a scope by its id; ``None`` unless core has embedded them for the store.

        What it embeds is the title and the first 4096 bytes of the body.
        """
        embedder = self.ctx.embedding.ready
        stored = Partition(pool.scope_id, self.spec.name) in self.ctx.partitions()
        if embedder is None or pool.query_vector is None or pool.profile != embedder.profile or not stored:
            return None
        items = [item for item in self.items if item.scope_id == pool.scope_id]
        texts = tuple(embedding_text(item.title, head(item.text)) for item in items)
        vectors = embedder.embed(EmbedRequest(texts=texts))
        return {
            str(item.artifact_id): cosine(pool.query_vector, vector)
            for item, vector in zip(items, vectors, strict=True)
        }

    def check_texts(self, pool: Pool) -> None:
        """Check that ``head`` begins the body of each member, at most 4096 bytes of it, and ``body_bytes`` is true."""
        bodies = {(item.scope_id, item.artifact_id): item.text for item in self.items}
        for candidate in pool.candidates.values():
            address, size = candidate.address, len(candidate.head.encode())
            body = bodies.get((address.scope_id, address.artifact_id))
            assert body is not None, (
                f"{address.uri}: your part gives a member that the kit has not put there; scope and id of a member are "
                "those of the item"
            )
            agree(f"bytes of the body of {address.uri}", len(body.encode()), candidate.body_bytes)
            agree(f"head of {address.uri}", body[: len(candidate.head)], candidate.head)
            assert min(candidate.body_bytes, HEAD_BYTES) - 4 < size <= HEAD_BYTES, (
                f"{address.uri}: your part gives a head of {size} bytes; {HEAD_BYTES} or the whole body are expected"
            )
            if len(body.encode()) <= HEAD_BYTES:
                agree(f"head of {address.uri}", body, candidate.head)

    def body(self, candidate: RawCandidate) -> str | None:
        """Return the whole body of a member, or ``None`` when nothing tells it."""
        if len(candidate.head.encode()) == candidate.body_bytes:
            return candidate.head
        address = candidate.address
        same = [
            item for item in self.items if (item.scope_id, item.artifact_id) == (address.scope_id, address.artifact_id)
        ]
        return same[0].text if same else None

    def changes(self) -> int:
        """Return the store's change counter."""
        with self.ctx.store.catalogue.snapshot(Deadline()) as snapshot:
            return snapshot.changes()


def words(item: Item) -> str:
    """Return a query that an item answers."""
    return item.text[:120]


def names(pool: Pool, channel: str | None = None) -> set[str]:
    """Return the artifact ids of a channel, or of all members."""
    keys = pool.candidates if channel is None else pool.channels.get(channel, ())
    return {pool.candidates[key].address.artifact_id for key in keys}


def addresses(pool: Pool, channel: str) -> set[Address]:
    """Return the addresses of the members of a channel."""
    return {pool.candidates[key].address for key in pool.channels.get(channel, ())}


def told(pool: Pool) -> tuple[Any, ...]:
    """Return a copy of all that an answer says, by address: keys are the family's own."""
    address = {key: candidate.address.uri for key, candidate in pool.candidates.items()}
    return (
        {name: [address[key] for key in keys] for name, keys in pool.channels.items()},
        {address[key]: copy.deepcopy(values(candidate)) for key, candidate in pool.candidates.items()},
        {address[key]: {address[by] for by in brought} for key, brought in pool.neighbours.items()},
        (pool.statistics.items, pool.statistics.mean_length, dict(pool.statistics.document_frequency)),
        (pool.family, pool.scope_id, pool.mode, pool.terms, pool.query_vector, pool.late),
    )


def spoil(pool: Pool) -> None:
    """Empty everything in an answer that can be changed."""
    mappings: list[Any] = [pool.statistics.document_frequency, pool.neighbours]
    for candidate in pool.candidates.values():
        mappings += [candidate.matched, candidate.evidence]
        mappings += [value for value in candidate.metadata.values() if isinstance(value, MutableMapping | list)]
        mappings.append(candidate.metadata)
    for mapping in [*mappings, pool.channels, pool.candidates]:
        if isinstance(mapping, MutableMapping | list):
            mapping.clear()


def values(value: Any) -> dict[str, Any]:
    """Return the fields of a frozen value, mappings copied."""
    fields = {field.name: getattr(value, field.name) for field in attrs.fields(type(value))}
    return {name: dict(each) if isinstance(each, Mapping) else each for name, each in fields.items()}


def filters_for(field: str, members: Collection[RawCandidate]) -> Iterable[Filters]:
    """Return filters that members of a pool tell apart, and one that none passes."""
    if field == "tags":
        tags = sorted({tag for member in members for tag in member.tags})
        return [Filters(tags=(tag,)) for tag in (*tags, "nobody-has-this")]
    if field == "category":
        categories = sorted({member.category for member in members if member.category is not None})
        return [Filters(category=category) for category in (*categories, "nobody-has-this")]
    kind = field if field in ("event", "created") else "updated"
    names = {"event": "event_time", "created": "created_at", "updated": "updated_at"}
    times = sorted(time for member in members if (time := getattr(member, names[kind])) is not None)
    middle = times[len(times) // 2] if times else None
    if field == "until":
        return [Filters(until=middle)]
    return [Filters(since=middle, time_field=kind)] if middle is not None else []
