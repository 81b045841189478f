"""Families that miscount, leak, spoil or sleep."""

from __future__ import annotations

import time
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import partial
from posixpath import normpath
from typing import Any

import attrs

from kit_fakes.faults import declare
from powerctx_core import FamilySpec
from powerctx_core.families import StoredFamily
from powerctx_core.types import Partition

__all__ = ["broken", "changed"]


def broken(*fails: str, **fields: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the decorated function as a fault: it gets the family, its honest method, request and call."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        name = f"broken-{function.__name__.replace('_', '-')}"

        def retrieve(self: Any, request: Any, call: Any) -> Any:
            return function(self, partial(StoredFamily.retrieve, self), request, call)

        record = FamilySpec(
            name=name, factory=type("Broken", (StoredFamily,), {"retrieve": retrieve}), about="broken", **fields
        )
        declared = {"plugins": ("broken",), "family_name": name}
        declare(function, fails, "family:FamilyContract", record=record, fields=lambda: declared)
        return function

    return decorate


def changed(pool, **changes):
    """Return a pool with every member changed."""
    return attrs.evolve(
        pool,
        candidates={
            key: attrs.evolve(each, **{name: change(each) for name, change in changes.items()})
            for key, each in pool.candidates.items()
        },
    )


@broken(
    "test_delivered", "test_offers", "test_others_unharmed", "test_passed_deadline", "test_pool", "test_writes_nothing"
)
def undeclared_evidence(family, honest, request, call):
    """Members have evidence that the family does not declare."""
    return changed(honest(request, call), evidence=lambda _: {"line": 1})


@broken("test_delivered", "test_finds", "test_offers")
def misses_thread(family, honest, request, call):
    """What is in a thread is not found."""
    pool = honest(request, call)
    gone = {key for key, each in pool.candidates.items() if each.thread is not None}
    return attrs.evolve(
        pool,
        channels={name: tuple(key for key in keys if key not in gone) for name, keys in pool.channels.items()},
        candidates={key: each for key, each in pool.candidates.items() if key not in gone},
    )


@broken(
    "test_asked_scope_only",
    "test_cosines",
    "test_delivered",
    "test_finds",
    "test_offers",
    "test_pool",
    "test_statistics",
)
def leaks_a_scope(family, honest, request, call):
    """Another scope is searched when the own one has little."""
    pool = honest(request, call)
    other = Partition(request.partition.scope_id.removesuffix("-2"), request.partition.family)
    if other == request.partition or request.partition.scope_id.startswith("project:nobody"):
        return pool
    found = honest(attrs.evolve(request, partition=other), call)
    return attrs.evolve(found, scope_id=request.partition.scope_id)


@broken("test_best_by_words", "test_occurrences", "test_offers")
def counts_once(family, honest, request, call):
    """A term counts once, however often it stands there."""
    return changed(honest(request, call), matched=lambda each: dict.fromkeys(each.matched, 1))


@broken("test_length", "test_offers")
def counts_different(family, honest, request, call):
    """The length counts different terms."""
    return changed(honest(request, call), length=lambda each: each.length - 1)


@broken("test_filters_keep_statistics", "test_offers", "test_statistics")
def counts_what_it_found(family, honest, request, call):
    """The number of items is one less than there are."""
    pool = honest(request, call)
    items = max(0, len(pool.candidates) - 1)
    return attrs.evolve(pool, statistics=attrs.evolve(pool.statistics, items=items))


@broken("test_at_most_k")
def one_too_many(family, honest, request, call):
    """A channel has one more than asked for."""
    return honest(attrs.evolve(request, k=request.k + 1) if request.k < 4 else request, call)


@broken("test_asked_channels_only")
def searches_all_channels(family, honest, request, call):
    """Every channel is searched, whatever was asked for."""
    return honest(attrs.evolve(request, weights={"fts": 1.0, "vector": 0.5}), call)


@broken("test_terms")
def tells_other_terms(family, honest, request, call):
    """The used terms have words that are not of the query."""
    pool = honest(request, call)
    return attrs.evolve(pool, terms=(*pool.terms, "kit")[:64])


@broken("test_filters", "test_filters_keep_statistics")
def does_not_filter_tags(family, honest, request, call):
    """Tags are not filtered."""
    return honest(attrs.evolve(request, filters=attrs.evolve(request.filters, tags=())), call)


@broken("test_filters_keep_statistics")
def counts_what_passes(family, honest, request, call):
    """Filters change the statistics."""
    pool = honest(request, call)
    if not request.filters:
        return pool
    return attrs.evolve(pool, statistics=attrs.evolve(pool.statistics, items=len(pool.candidates)))


@broken("test_neighbours")
def brings_without_reason(family, honest, request, call):
    """It is not told which member brought a neighbour."""
    pool = honest(request, call)
    return attrs.evolve(pool, neighbours={})


@broken(
    "test_cosines",
    "test_delivered",
    "test_others_unharmed",
    "test_passed_deadline",
    "test_pool",
    "test_vectors",
    "test_writes_nothing",
)
def cosines_are_percent(family, honest, request, call):
    """Cosines are percent."""
    return changed(honest(request, call), cosine=lambda each: each.cosine and each.cosine * 100)


@broken("test_offers", "test_sizes")
def gives_a_short_head(family, honest, request, call):
    """The head is a teaser."""
    return changed(honest(request, call), head=lambda each: each.head[:1000])


@broken(
    "test_delivered",
    "test_filters",
    "test_offers",
    "test_others_unharmed",
    "test_pool",
    "test_times",
    "test_writes_nothing",
)
def times_without_zone(family, honest, request, call):
    """Times have no zone."""
    return changed(honest(request, call), updated_at=lambda each: each.updated_at.replace(tzinfo=None))


@broken("test_own_family_only", "test_same_again", "test_same_on_threads")
def is_in_no_order(family, honest, request, call):
    """Members come in another order every time."""
    pool = honest(request, call)
    family.turn = not getattr(family, "turn", False)
    return attrs.evolve(pool, channels={n: keys[:: 1 if family.turn else -1] for n, keys in pool.channels.items()})


@broken("test_same_on_threads")
def shares_its_state(family, honest, request, call):
    """The request of a call is kept where another call finds it."""
    family.request = request
    time.sleep(0.0005)
    return honest(family.request, call)


@broken("test_request_stays")
def changes_the_request(family, honest, request, call):
    """The filters of the request are changed."""
    pool = honest(request, call)
    object.__setattr__(request, "filters", type(request.filters)())
    return pool


@broken("test_answers_are_not_shared")
def shares_its_answers(family, honest, request, call):
    """An answer is given twice."""
    cache = family.__dict__.setdefault("cache", {})
    name = (request.query, request.partition, request.k, request.filters, str(request.weights), request.neighbours)
    name = (*name, call.catalogue.changes())
    if name not in cache or call.deadline.at is not None:
        cache[name] = honest(request, call)
    return cache[name]


@broken("test_offers", "test_others_unharmed", "test_own_family_only")
def finds_other_families(family, honest, request, call):
    """What is stored beside it is found, too."""
    other = honest(attrs.evolve(request, partition=Partition(request.partition.scope_id, "kit-beside")), call)
    return honest(request, call) if not other.candidates else other


@broken("test_unknown_scope")
def raises_for_unknown(family, honest, request, call):
    """A scope that nobody knows is an error."""
    if "nobody" in request.partition.scope_id:
        raise LookupError(request.partition.scope_id)
    return honest(request, call)


@broken("test_hostile_query")
def fears_quotes(family, honest, request, call):
    """A quote in the query is an error."""
    if "'" in request.query:
        raise ValueError("unterminated string")
    return honest(request, call)


@broken("test_long_query")
def refuses_long_queries(family, honest, request, call):
    """A long query is an error."""
    if len(request.query) > 8100:
        raise ValueError("query too long")
    return honest(request, call)


@broken("test_finds_no_other_words")
def guesses(family, honest, request, call):
    """Where nothing is found the first is given."""
    pool = honest(request, call)
    if pool.candidates or not request.terms.terms or "nobody" in request.partition.scope_id or request.filters:
        return pool
    return honest(attrs.evolve(request, query="release", terms=_terms("release")), call)


def _terms(query):
    from powerctx_core.text.terms import analyse_query

    return analyse_query(query)


@broken(
    "test_addresses",
    "test_delivered",
    "test_offers",
    "test_others_unharmed",
    "test_passed_deadline",
    "test_pool",
    "test_writes_nothing",
)
def revisions_are_text(family, honest, request, call):
    """The revision of an address is text."""
    return changed(honest(request, call), address=lambda each: attrs.evolve(each.address, revision="1"))


@broken("test_writes_nothing")
def notes_every_question(family, honest, request, call):
    """Every question is noted in the store."""
    if call.vectors is not None:
        call.vectors._catalogue.commit(lambda _: 1)
    return honest(request, call)


@broken("test_delivered", "test_offers", "test_others_unharmed", "test_writes_nothing")
def offers_another_scope(family, honest, request, call):
    """What is offered on the way is of another scope."""
    pool = honest(request, call)
    call.offer(attrs.evolve(pool, scope_id="project:other"))
    return pool


@broken("test_hostile_query")
def exits(family, honest, request, call):
    """A query that it does not understand ends the program."""
    if "{0}" in request.query:
        raise SystemExit(1)
    return honest(request, call)


def _taken_for(same, honest, request, call):
    """Answer for a scope that holds nothing with what another one holds that *same* takes for it."""
    asked = request.partition
    held = [each for each in call.catalogue.partitions() if each.family == asked.family]
    others = [each for each in held if same(asked.scope_id, each.scope_id)]
    if asked in held or not others:
        return honest(request, call)
    found = honest(attrs.evolve(request, partition=others[0]), call)
    moved = changed(found, address=lambda each: attrs.evolve(each.address, scope_id=asked.scope_id))
    return attrs.evolve(moved, scope_id=asked.scope_id)


@broken("test_scopes_that_look_alike")
def folds_the_scope(family, honest, request, call):
    """Scopes are compared without case."""
    return _taken_for(lambda asked, held: asked.lower() == held.lower(), honest, request, call)


@broken("test_scopes_that_look_alike")
def strips_the_scope(family, honest, request, call):
    """Scopes are compared without the blanks around them."""
    return _taken_for(lambda asked, held: asked.strip() == held.strip(), honest, request, call)


@broken("test_scopes_that_look_alike")
def resolves_the_scope(family, honest, request, call):
    """Scopes are compared as paths."""
    return _taken_for(lambda asked, held: normpath(asked) == normpath(held), honest, request, call)


@broken("test_scopes_that_look_alike")
def matches_the_scope(family, honest, request, call):
    """The asked scope is a pattern."""
    return _taken_for(lambda asked, held: fnmatchcase(held, asked.replace("%", "*")), honest, request, call)


@broken("test_most_recent", searchable=False, pool=2)
def gives_the_first(family, honest, request, call):
    """What was stored first is given instead of what was updated last."""
    pool = honest(attrs.evolve(request, k=64), call)
    kept = sorted(pool.channels["snapshot"], key=lambda key: pool.candidates[key].updated_at)[: request.k]
    return attrs.evolve(
        pool, channels={"snapshot": tuple(kept)}, candidates={key: pool.candidates[key] for key in kept}
    )


@broken("test_whatever_is_asked", searchable=False)
def looks_at_the_query(family, honest, request, call):
    """What is not searched is not given for words that it does not hold."""
    pool = honest(request, call)
    return attrs.evolve(pool, channels={"snapshot": ()}, candidates={}) if "qzvwx" in request.query else pool
