"""What a family must hold to: pools that are true, stay in their scope, come in time and never differ."""

from __future__ import annotations

import copy
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import pytest

from powerctx_core.context import Context, open as open_context
from powerctx_core.errors import StoreError
from powerctx_core.recall.checks import accepts, check_pool
from powerctx_core.testing.contract import Contract
from powerctx_core.testing.question import (
    BOTH,
    Beside,
    Question,
    filters_for,
    names,
    spoil,
    told,
    values,
    words,
)
from powerctx_core.testing.seeded import MISSING, evidence
from powerctx_core.text.terms import analyse, analysed_text
from powerctx_core.types import HEAD_BYTES, QUERY_TERMS, Address, Deadline, Filters, Item, Pool

__all__ = ["FamilyContract"]

HOSTILE = (
    '"', "'", "*", "%", "\\", "(", ")", "^release", "rel*", "release AND store", "NOT release", "NEAR(release store)",
    "title:store", "-release +store", "'; DROP TABLE item; --", "' OR '1'='1", "{0} %s $1 :query @p0 ?1", "\x00",
    "store\x00release", "\ufeffrelease", "\u202erelease\u202c", "a\u2028b\u0085c", "ｒｅｌｅａｓｅ", "</powerctx>",
    "🚀", "\u0301" * 50, "?!", '"release notes" "', "../../etc/passwd", "null",
)  # fmt: skip
LONG = ("release " * 1024, "a" * 8192, "北京大学火锅" * 1365, '"release" ' * 800, "😀" * 8192, "(" * 8192)


class FamilyContract(Contract):
    """What every family must hold to.

    A family whose evidence lies in the store (``StoredFamily``) needs its name and nothing else::

        class TestTickets(FamilyContract):
            family_name = "ticket"

    One that looks elsewhere gives the fixture :meth:`seed`, which puts the given items there and returns the settings
    that lead to them.  When its evidence cannot be chosen, it gives the fixture :meth:`items` as well.

    Attributes:
        family_name: name of the record under test.
        extra: plugin modules that are not installed.
        plugins: entry-point names of the only plugins to load; ``None`` loads all that are installed.
        settings: as in ``powerctx.toml``, dotted name -> value.
        embedder: the embedder that is open beside it; ``None`` for words alone.
        patience_s: how long an answer may take after its deadline has passed.
    """

    family_name: ClassVar[str] = ""
    extra: ClassVar[Sequence[object]] = ()
    plugins: ClassVar[tuple[str, ...] | None] = None
    settings: ClassVar[Mapping[str, Any]] = {}
    embedder: ClassVar[str | None] = "hash"
    patience_s: ClassVar[float] = 5.0

    @pytest.fixture
    def items(self) -> Sequence[Item]:
        """Give what the family holds, with the ids by which it is cited; by default the kit's seeded evidence.

        Who gives another one: at least four items in two scopes, which share no id but a few words.
        """
        return evidence(self.family_name)

    @pytest.fixture
    def seed(self) -> Callable[[Sequence[Item]], Mapping[str, Any]] | None:
        """Give a function that puts items where the family looks, and returns settings; by default the store is it.

        A family need not keep every field of an item, but scope, id and text.
        """
        return None

    @pytest.fixture
    def store_url(self) -> str:
        """Give the URL of a store for everything that is kept in one."""
        return "memory://"

    @pytest.fixture
    def ctx(
        self,
        items: Sequence[Item],
        seed: Callable[[Sequence[Item]], Mapping[str, Any]] | None,
        store_url: str,
    ) -> Iterator[Context]:
        """Give an open context whose family holds the items."""
        if not self.family_name:
            raise NotImplementedError(f"{type(self).__name__} needs the class attribute family_name")
        settings = {**self.settings, **({} if seed is None else seed(items))}
        extra = (*self.extra, Beside())
        with open_context(
            store_url, embedder=self.embedder, settings=settings, plugins=self.plugins, extra=extra
        ) as ctx:
            if seed is None:
                ctx.put(items)
            yield ctx

    @pytest.fixture
    def ask(self, ctx: Context, items: Sequence[Item]) -> Question:
        """Give somebody who asks the family."""
        return Question(ctx, self.family_name, items)

    def test_pool(self, ask: Question) -> None:
        """A pool answers its request: partition, details of every member, known channels, declared evidence."""
        for request, pool in ask.every():
            assert check_pool(pool, request, ask.spec.identity) is pool
            assert set(pool.channels) <= {"fts", "vector", "neighbour"}

    def test_finds(self, ask: Question) -> None:
        """Everything is found by its own words."""
        for item in ask.items:
            assert item.artifact_id in names(ask.pool(words(item), item.scope_id))

    def test_finds_no_other_words(self, ask: Question) -> None:
        """Words that nothing holds find nothing by words."""
        assert names(ask.pool(MISSING), "fts") == set()

    def test_asked_scope_only(self, ask: Question) -> None:
        """Members are those of the asked scope, also for the words of another one."""
        for scope in ask.scopes:
            own = {item.artifact_id for item in ask.items if item.scope_id == scope}
            for item in ask.items:
                pool = ask.pool(words(item), scope, weights=BOTH)
                assert {candidate.address.scope_id for candidate in pool.candidates.values()} <= {scope}
                assert names(pool) <= own

    def test_own_family_only(self, ask: Question) -> None:
        """What is stored for another family is not found."""
        query = ask.all()
        before = told(ask.pool(query))
        ask.ctx.put([Item(scope_id=ask.scope, family="kit-beside", artifact_id="theirs", text=query)])

        assert told(ask.pool(query)) == before

    def test_unknown_scope(self, ask: Question) -> None:
        """A scope that nobody knows is an empty one, and its statistics are zero."""
        pool = ask.pool(ask.all(), "project:nobody-knows")
        statistics = pool.statistics

        assert dict(pool.candidates) == {}
        assert [keys for keys in pool.channels.values() if keys] == []
        assert (statistics.items, statistics.mean_length, dict(statistics.document_frequency)) == (0, 0, {})

    def test_same_again(self, ask: Question) -> None:
        """The same question has the same answer, in the same order."""
        first = [told(pool) for _, pool in ask.every()]

        assert [told(pool) for _, pool in ask.every()] == first

    def test_same_on_threads(self, ask: Question) -> None:
        """So it has when several threads ask at once, for different scopes."""
        requests = [request for request, _ in ask.every()]
        alone = [told(ask.answer(request)) for request in requests]
        with ThreadPoolExecutor(4) as threads:
            together = list(threads.map(lambda request: told(ask.answer(request)), requests * 3))

        assert together == alone * 3

    def test_at_most_k(self, ask: Question) -> None:
        """A channel has no more members than were asked for."""
        for k in (1, 2, 3):
            pool = ask.pool(ask.all(), k=k, weights=BOTH)
            assert [name for name, keys in pool.channels.items() if len(keys) > k] == []
            assert len(pool.candidates) <= k * len(pool.channels)

    def test_asked_channels_only(self, ask: Question) -> None:
        """A channel without a weight is not searched."""
        for channel, other in (("fts", "vector"), ("vector", "fts")):
            assert not ask.pool(ask.all(), weights={channel: 1.0}).channels.get(other)

    def test_occurrences(self, ask: Question) -> None:
        """Each member says truly how often it holds each used term of the query: title, body, category and tags."""
        for request, pool in ask.every():
            if "fts" not in pool.channels:
                continue
            used = set(pool.terms or request.terms.terms)
            for candidate in pool.candidates.values():
                if (body := ask.body(candidate)) is not None:
                    terms = analyse(analysed_text(candidate.title, body, candidate.category, candidate.tags))
                    expected = {term: n for term, n in terms.items() if term in used}
                    assert dict(candidate.matched) == expected, candidate.address.uri

    def test_length(self, ask: Question) -> None:
        """Each member says truly how many terms it has, all occurrences counted."""
        for _, pool in ask.every():
            if "fts" not in pool.channels:
                continue
            for candidate in pool.candidates.values():
                if (body := ask.body(candidate)) is not None:
                    terms = analyse(analysed_text(candidate.title, body, candidate.category, candidate.tags))
                    assert candidate.length == sum(terms.values()), candidate.address.uri

    def test_terms(self, ask: Question) -> None:
        """The used terms are those of the query, at most 64; members found by words hold one of them."""
        for request, pool in ask.every():
            assert len(pool.terms) <= QUERY_TERMS
            assert set(pool.terms) <= set(request.terms.terms)
            for key in pool.channels.get("fts", ()):
                assert pool.candidates[key].matched
                assert set(pool.candidates[key].matched) <= set(pool.terms)

    def test_statistics(self, ask: Question) -> None:
        """Statistics are those of the partition: no fewer items, and none fewer that hold a term, than were found."""
        for _, pool in ask.every():
            if "fts" not in pool.channels:
                continue
            statistics = pool.statistics
            found: dict[str, int] = {}
            for candidate in pool.candidates.values():
                for term in candidate.matched:
                    found[term] = found.get(term, 0) + 1
            frequency = statistics.document_frequency
            assert statistics.items >= len(pool.candidates)
            assert statistics.mean_length > 0
            assert {term: n for term, n in found.items() if frequency.get(term, 0) < n} == {}
            assert {term: n for term, n in frequency.items() if not 0 < n <= statistics.items} == {}

    @pytest.mark.parametrize("field", ["tags", "category", "since", "until", "event", "created"])
    def test_filters(self, ask: Question, field: str) -> None:
        """A filter leaves exactly the members that pass it."""
        pool = ask.pool(ask.all(), weights=BOTH)
        for filters in filters_for(field, pool.candidates.values()):
            passing = {each.address for each in pool.candidates.values() if accepts(filters, each)}
            filtered = ask.pool(ask.all(), weights=BOTH, filters=filters)
            assert {each.address for each in filtered.candidates.values()} == passing, filters

    def test_filters_keep_statistics(self, ask: Question) -> None:
        """A filter restricts members, never the statistics."""
        whole = ask.pool(ask.all())
        filtered = ask.pool(ask.all(), filters=Filters(tags=("release", "nobody-has-this")))

        assert filtered.candidates == {}
        assert filtered.statistics == whole.statistics

    def test_neighbours(self, ask: Question) -> None:
        """Neighbours are brought by members of the same thread, which the pool names."""
        pool = ask.pool(words(ask.items[1]), neighbours=3)
        found = {key for name in ("fts", "vector") for key in pool.channels.get(name, ())}
        brought = set(pool.channels.get("neighbour", ()))

        assert brought <= set(pool.neighbours)
        for key in brought:
            threads = {pool.candidates[member].thread for member in pool.neighbours[key]}
            assert set(pool.neighbours[key]) <= found
            assert threads == {pool.candidates[key].thread}

    def test_vectors(self, ask: Question) -> None:
        """Members found by vector have a cosine, and nothing has one outside -1..1."""
        for _, pool in ask.every():
            cosines = {key: each.cosine for key, each in pool.candidates.items() if each.cosine is not None}
            assert [cosine for cosine in cosines.values() if not -1.000001 <= cosine <= 1.000001] == []
            assert set(pool.channels.get("vector", ())) <= set(cosines)
            assert not cosines or (pool.query_vector is not None and pool.profile is not None)

    def test_sizes(self, ask: Question) -> None:
        """``head`` begins the body: at most 4096 bytes, cut between characters; ``body_bytes`` is its size."""
        bodies = {(item.scope_id, item.artifact_id): item.text for item in ask.items}
        for _, pool in ask.every():
            for candidate in pool.candidates.values():
                address, size = candidate.address, len(candidate.head.encode())
                body = bodies[address.scope_id, address.artifact_id]
                assert candidate.body_bytes == len(body.encode()), address.uri
                assert body.startswith(candidate.head), address.uri
                assert min(candidate.body_bytes, HEAD_BYTES) - 4 < size <= HEAD_BYTES, address.uri
                assert candidate.body_bytes > HEAD_BYTES or candidate.head == body, address.uri

    def test_addresses(self, ask: Question) -> None:
        """Every address can be written as a URI and read back."""
        for _, pool in ask.every():
            for candidate in pool.candidates.values():
                assert Address.parse(candidate.address.uri) == candidate.address

    def test_times(self, ask: Question) -> None:
        """Times have a zone, or clocks could not compare them."""
        for _, pool in ask.every():
            for each in pool.candidates.values():
                times = (each.created_at, each.updated_at, each.event_time)
                assert [time for time in times if time is not None and time.utcoffset() is None] == []

    def test_request_stays(self, ask: Question) -> None:
        """Request and call are only read."""
        request = ask.request(ask.all(), weights=BOTH, filters=Filters(tags=("store",)))
        before = copy.deepcopy(values(request))
        with ask.ctx.store.catalogue.snapshot(Deadline()) as snapshot:
            call = ask.call(snapshot, deadline=Deadline())
            held = values(call)
            ask.family.retrieve(request, call)

            assert values(call) == held
        assert values(request) == before

    def test_answers_are_not_shared(self, ask: Question) -> None:
        """Whoever changes an answer does not change the next one."""
        before = [told(pool) for _, pool in ask.every()]
        for _, pool in ask.every():
            spoil(pool)

        assert [told(pool) for _, pool in ask.every()] == before

    def test_writes_nothing(self, ask: Question) -> None:
        """Asking changes nothing in the store."""
        before = ask.changes(), dict(ask.ctx.partitions())
        list(ask.every())
        ask.ctx.prepare(ask.all(), scope_id=ask.scope, families=(ask.spec.name,))

        assert (ask.changes(), dict(ask.ctx.partitions())) == before

    def test_passed_deadline(self, ask: Question) -> None:
        """After the deadline it answers, or says by a ``TimeoutError`` or ``StoreError`` that it is late."""
        request = ask.request(ask.all(), weights=BOTH)
        answers: list[object] = []

        def late() -> None:
            try:
                answers.append(ask.answer(request, deadline=Deadline(time.monotonic() - 1.0)))
            except BaseException as error:  # noqa: BLE001 - judged below, on the thread of the test
                answers.append(error)

        thread = threading.Thread(target=late, daemon=True)
        thread.start()
        thread.join(self.patience_s)

        assert not thread.is_alive(), f"still busy {self.patience_s} s after the deadline"
        if not isinstance(answers[0], TimeoutError | StoreError):
            check_pool(answers[0], request, ask.spec.identity)

    def test_offers(self, ask: Question) -> None:
        """What it offers while it waits is a pool as good as the one it returns."""
        request = ask.request(ask.all(), weights=BOTH)
        offers: list[Pool] = []
        ask.answer(request, deadline=Deadline.after(60.0), offer=offers.append)
        for pool in offers:
            check_pool(pool, request, ask.spec.identity)

    def test_delivered(self, ask: Question, items: Sequence[Item]) -> None:
        """``prepare`` delivers its evidence within the budget, each entry with family, id and revision."""
        name = ask.spec.name
        for item in items:
            prepared = ask.ctx.prepare(words(item), scope_id=item.scope_id, families=(name,), max_bytes=2000)
            content = prepared.content or ""
            cited = [json.loads(line) for line in content.splitlines() if line.startswith('{"ref"')]
            addresses = [Address(item.scope_id, *entry["ref"]) for entry in cited]
            assert prepared.diagnostics.outcome == "delivered", item.artifact_id
            assert item.artifact_id in {address.artifact_id for address in addresses}
            assert {address.family for address in addresses} == {name}
            assert len(content.encode()) == prepared.content_bytes <= 2000

    def test_others_unharmed(self, ask: Question) -> None:
        """Beside it another family finds what it finds alone."""
        query = ask.all()
        texts = [item.text[:200] for item in ask.items if item.scope_id == ask.scope]
        beside = "kit-beside"
        ask.ctx.put(
            [Item(scope_id=ask.scope, family=beside, artifact_id=f"b{n}", text=each) for n, each in enumerate(texts)]
        )
        alone = ask.ctx.find(query, scope_id=ask.scope, families=(beside,), limit=100)
        both = ask.ctx.find(query, scope_id=ask.scope, families=(beside, ask.spec.name), limit=100)
        theirs = {hit.address for hit in alone.hits}

        assert theirs
        assert {hit.address for hit in both.hits if hit.address.family == beside} == theirs
        assert {hit.address.family for hit in both.hits} == {beside, ask.spec.name}

    @pytest.mark.parametrize("query", HOSTILE, ids=lambda query: ascii(query[:12])[1:-1])
    def test_hostile_query(self, ask: Question, query: str) -> None:
        """A query is words, whatever it looks like: it is answered."""
        request = ask.request(query, weights=BOTH)

        check_pool(ask.answer(request), request, ask.spec.identity)

    @pytest.mark.parametrize("query", LONG, ids=lambda query: ascii(query[:8])[1:-1])
    def test_long_query(self, ask: Question, query: str) -> None:
        """The longest query that a request allows is answered."""
        request = ask.request(query, weights=BOTH)

        check_pool(ask.answer(request), request, ask.spec.identity)
