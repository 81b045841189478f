"""Families whose answers look well and are false, late or old: statistics, cosines, choice, offers."""

from __future__ import annotations

import time

import attrs

from kit_fakes.families import broken, changed
from powerctx_core.types import Deadline

__all__: list[str] = []


def counted(pool, **changes):
    """Return a pool with other statistics."""
    return attrs.evolve(pool, statistics=attrs.evolve(pool.statistics, **changes))


@broken("test_offers", "test_statistics")
def counts_a_thousandfold(family, honest, request, call):
    """Every item counts a thousand times."""
    pool = honest(request, call)
    frequency = {term: 1000 * n for term, n in pool.statistics.document_frequency.items()}
    return counted(pool, items=1000 * pool.statistics.items, document_frequency=frequency)


@broken("test_offers", "test_statistics")
def counts_terms_in_all(family, honest, request, call):
    """Every term is said to be in all items."""
    pool = honest(request, call)
    items = pool.statistics.items
    return counted(pool, document_frequency=dict.fromkeys(pool.statistics.document_frequency, items))


@broken("test_offers", "test_statistics")
def measures_bytes(family, honest, request, call):
    """The mean length is that of the bytes."""
    pool = honest(request, call)
    return counted(pool, mean_length=6 * pool.statistics.mean_length)


@broken("test_cosines")
def knows_one_cosine(family, honest, request, call):
    """Every cosine is one half."""
    return changed(honest(request, call), cosine=lambda each: None if each.cosine is None else 0.5)


@broken("test_late")
def is_always_late(family, honest, request, call):
    """The vectors are late, whenever they come."""
    return attrs.evolve(honest(request, call), late=frozenset({"vector"}))


@broken("test_late")
def fears_deadlines(family, honest, request, call):
    """Where there is a deadline the vectors are late."""
    pool = honest(request, call)
    return pool if call.deadline.at is None else attrs.evolve(pool, late=frozenset({"vector"}))


def last(pool, whole, channel, k):
    """Return a pool with the last members of a channel in place of the first."""
    channels = {**pool.channels, channel: whole.channels.get(channel, ())[-k:]}
    details = {**whole.candidates, **pool.candidates}
    members = {key for keys in channels.values() for key in keys}
    return attrs.evolve(pool, channels=channels, candidates={key: details[key] for key in members})


@broken("test_best_by_words")
def gives_the_worst_words(family, honest, request, call):
    """Of more than wanted those are given that hold the fewest words."""
    pool = honest(request, call)
    if request.k >= 64 or "fts" not in pool.channels:
        return pool
    return last(pool, honest(attrs.evolve(request, k=64), call), "fts", request.k)


@broken("test_best_by_vector")
def gives_the_farthest(family, honest, request, call):
    """Of more than wanted those are given whose vectors are farthest."""
    pool = honest(request, call)
    if request.k >= 64 or "vector" not in pool.channels:
        return pool
    return last(pool, honest(attrs.evolve(request, k=64), call), "vector", request.k)


def offered(function):
    """Return the call of a family whose offers are changed by a function."""

    def retrieve(family, honest, request, call):
        offer = call.offer
        return honest(request, attrs.evolve(call, offer=lambda pool: offer(function(pool))))

    retrieve.__name__, retrieve.__module__, retrieve.__doc__ = function.__name__, function.__module__, function.__doc__
    return retrieve


@broken("test_offers")
@offered
def offers_other_texts(pool):
    """What is offered has another text than is stored."""
    return changed(pool, head=lambda each: "Ignore that" + each.head[11:])


@broken("test_offers")
@offered
def offers_other_revisions(pool):
    """What is offered is said to be of another revision."""
    return changed(pool, address=lambda each: attrs.evolve(each.address, revision=2))


@broken("test_offers")
@offered
def offers_less(pool):
    """What is offered is a part of a channel."""
    keys = pool.channels["fts"][:1]
    return attrs.evolve(pool, channels={"fts": keys}, candidates={key: pool.candidates[key] for key in keys})


@broken("test_offers")
def offers_what_was_not_asked(family, honest, request, call):
    """What is offered is what another question would find."""
    pool = honest(request, call)
    if call.deadline.at is not None and len(pool.channels.get("fts", ())) > 1:
        honest(attrs.evolve(request, terms=_release(), query="release"), attrs.evolve(call, deadline=Deadline.after(9)))
    return pool


def _release():
    from powerctx_core.text.terms import analyse_query

    return analyse_query("release")


@broken("test_offers")
@offered
def offers_other_statistics(pool):
    """The statistics of an offer are not those of the answer."""
    return counted(pool, items=pool.statistics.items + 1)


@broken("test_deadline_on_the_way", "test_passed_deadline")
def sleeps(family, honest, request, call):
    """Its source takes a second, whatever the deadline says."""
    if call.deadline.at is not None and call.deadline.remaining() < 9:
        time.sleep(1)
    return honest(request, call)


@broken("test_deadline_on_the_way")
def looks_once(family, honest, request, call):
    """The deadline is looked at before the source is asked, which takes a second."""
    if call.deadline.passed:
        raise TimeoutError
    if call.deadline.at is not None and call.deadline.remaining() < 9:
        time.sleep(1)
    return honest(request, call)


def copied(pool):
    """Return a pool that shares nothing that can be changed."""
    return attrs.evolve(
        pool,
        channels=dict(pool.channels),
        candidates={
            key: attrs.evolve(each, matched=dict(each.matched), evidence=dict(each.evidence))
            for key, each in pool.candidates.items()
        },
        neighbours=dict(pool.neighbours),
        statistics=attrs.evolve(pool.statistics, document_frequency=dict(pool.statistics.document_frequency)),
    )


@broken("test_follows_changes")
def never_forgets(family, honest, request, call):
    """An answer is kept for ever."""
    cache = family.__dict__.setdefault("cache", {})
    name = (request.query, request.partition, request.k, request.filters, str(request.weights), request.neighbours)
    if name not in cache:
        cache[name] = honest(request, call)
    return copied(cache[name])


@broken("test_follows_changes")
def never_lets_go(family, honest, request, call):
    """What was found once is found again, though it is gone."""
    seen = family.__dict__.setdefault("seen", {})
    pool = honest(request, call)
    name = (request.query, request.partition, str(request.weights), request.filters, request.k, request.neighbours)
    seen.setdefault(name, pool)
    return copied(seen[name]) if len(seen[name].candidates) > len(pool.candidates) else pool
