"""Vector indexes that keep what is gone, take what is none, or leave out some of many."""

from __future__ import annotations

from functools import partial

import attrs

from kit_fakes import stores
from kit_fakes.stores import assembled

LIFE = "vector_life:VectorLifeContract"
broken = partial(stores.broken, contract="vectors:VectorIndexContract")


@broken("shelf._remove", "test_vector_count", "test_vector_filter_first", "test_vector_goes")
def keeps_old_vectors(shelf, honest, row):
    """A vector stays when its revision is replaced or retired."""
    vector = shelf.vectors.get(row.key)
    honest(row)
    if vector is not None:
        shelf.vectors[row.key] = vector


@broken("shelf.write", "test_vector_count", "test_vector_goes")
def inherits_vectors(shelf, honest, item, now):
    """The next revision gets the vector of the one before."""
    artifact = shelf.artifacts.get(item.artifact_id)
    vector = shelf.vectors.get(artifact.rows[-1].key) if artifact else None
    result = honest(item, now)
    if vector is not None:
        shelf.vectors[result.key] = vector
    return result


@broken("vectors.upsert", "test_no_vectors", "test_only_current_take_vectors")
def counts_what_it_was_given(index, honest, vectors):
    """All vectors that were given are counted as stored."""
    honest(vectors)
    return len(vectors)


@broken("vectors.upsert", "test_bad_vectors")
def stores_the_good_ones(index, honest, vectors):
    """Of several vectors those before the bad one are stored."""
    return sum(honest({key: vector}) for key, vector in vectors.items())


@broken("vectors._query", "test_bad_query_vectors")
def searches_with_anything(index, honest, vector):
    """A vector to search with is not checked."""
    try:
        return honest(vector)
    except ValueError:
        return memoryview(bytes(96)).cast("f")


@broken("vectors.attach", "test_other_model")
def takes_any_model(index, honest, profile):
    """Another model is attached beside vectors of the first."""
    index._profile = profile


@broken("vectors.attach", "test_other_model")
def compares_dimensions(index, honest, profile):
    """A model is known by its dimensions only."""
    held = index._profile
    if held is not None and held.dimensions == profile.dimensions:
        profile = attrs.evolve(profile, fingerprint=held.fingerprint)
    honest(profile)


@broken("vectors._attached", "test_no_model")
def needs_no_model(index, honest):
    """Without a model the first vector tells it."""
    if index._profile is None:
        return attrs.make_class("Any", {"dimensions": attrs.field(default=24)})()
    return honest()


@broken("vectors.unembedded", "test_clear", "test_unembedded_pages")
def bare_in_any_order(index, honest, limit, after=0):
    """What has no vector comes in no order."""
    return honest(limit, after)[::-1]


@broken("vectors.unembedded", "test_unembedded_pages")
def begins_with_the_last(index, honest, limit, after=0):
    """The key to go on after is met again."""
    return honest(limit, max(0, after - 1))


@broken("vectors.cached", "test_cached")
def remembers_titles(index, honest, texts):
    """The text alone is taken for text and title."""
    found = honest([text.rpartition("\n")[2] for text in texts])
    return {text: found[text.rpartition("\n")[2]] for text in texts if text.rpartition("\n")[2] in found}


@broken("shelf.write", "test_results_have_keys", contract=LIFE)
def no_key_of_what_is_there(shelf, honest, item, now):
    """A result that says unchanged has no key."""
    result = honest(item, now)
    return attrs.evolve(result, key=None) if result.outcome == "unchanged" else result


def paged(page):
    """Return what gives a few of many vectors."""
    return lambda index, honest, *args: page(honest(*args))


@assembled("test_no_vector_is_cut", contract=LIFE)
def cosines_of_a_page():
    """A thousand cosines are told at most."""
    return {"vectors.cosines": paged(lambda found: dict(list(found.items())[:1000]))}


@assembled("test_no_vector_is_cut", contract=LIFE)
def knows_a_page():
    """A thousand texts are known at most."""
    return {"vectors.cached": paged(lambda found: dict(list(found.items())[:1000]))}


@broken("vectors.upsert", "test_no_vector_is_cut", contract=LIFE)
def stores_a_page(index, honest, vectors):
    """Of more vectors than one statement takes the first are stored."""
    return honest(dict(list(vectors.items())[:1000]))


@broken("vectors.unembedded", "test_no_vector_is_cut", contract=LIFE)
def misses_a_page(index, honest, limit, after=0):
    """A thousand gaps are told at most."""
    return honest(min(limit, 1000), after)
