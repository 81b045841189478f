"""Vector indexes that find others, or know and show what they should not."""

from __future__ import annotations

import threading
import time
from array import array
from functools import partial
from operator import mul

import attrs

from kit_fakes import stores
from powerctx_core.types import Filters
from powerctx_core.vectors import embedding_text, text_hash

broken = partial(stores.broken, contract="vectors:VectorIndexContract")
assembled = partial(stores.assembled, contract="vectors:VectorIndexContract")


@broken(
    "vectors.nearest",
    "test_nearest_all_but_ties",
    "test_nearest_at_most_k",
    "test_nearest_ties",
    "test_requests_in_order",
    "test_vector_filter_first",
    "test_vector_writers_lose_nothing",
)
def one_too_many(index, honest, requests, snapshot):
    """There is one more than asked for."""
    return honest([attrs.evolve(request, k=request.k + 1) for request in requests], snapshot)


@broken("vectors.nearest", "test_cached_again", "test_nearest_all_but_ties", "test_nearest_ties")
def last_written_first(index, honest, requests, snapshot):
    """Of equal ones the last comes first."""
    return [sorted(found, key=lambda pair: (-pair[1], -pair[0])) for found in honest(requests, snapshot)]


@broken("vectors.nearest", "test_requests_in_order", "test_vector_partitions")
def looks_everywhere(index, honest, requests, snapshot):
    """All scopes of a family are searched."""
    found = []
    for request in requests:
        near = [
            attrs.evolve(request, partition=each)
            for each in snapshot.state.shelves
            if each.family == request.partition.family
        ]
        pairs = [pair for part in honest(near, snapshot) for pair in part]
        found.append(sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[: request.k])
    return found


@broken("vectors.nearest", "test_requests_in_order", "test_vector_input_stays")
def answers_partitions_sorted(index, honest, requests, snapshot):
    """Several requests are answered by partition."""
    return honest(sorted(requests, key=lambda request: request.partition), snapshot)


@broken("vectors.nearest", "test_vector_filter_first")
def filters_the_nearest(index, honest, requests, snapshot):
    """Filters look at the k nearest only."""
    found = honest([attrs.evolve(request, filters=Filters()) for request in requests], snapshot)
    return [
        [pair for pair in pairs if snapshot._row(pair[0]).passes(request.filters)]
        for request, pairs in zip(requests, found, strict=True)
    ]


@broken(
    "vectors.nearest",
    "test_requests_in_order",
    "test_vector_category",
    "test_vector_filter_first",
    "test_vector_tags",
    "test_vector_window",
    "test_vectors_as_reference",
)
def does_not_filter(index, honest, requests, snapshot):
    """Filters are not looked at."""
    return honest([attrs.evolve(request, filters=Filters()) for request in requests], snapshot)


@broken("vectors.cosines", "test_clear", "test_cosines_of", "test_no_vectors", "test_vector_goes")
def cosines_in_order_of_keys(index, honest, keys, vector, snapshot):
    """A key without a vector has the cosine 0."""
    found = honest(keys, vector, snapshot)
    return {key: found.get(key, 0.0) for key in keys}


@broken(
    "vectors.cosines",
    "test_cosines_as_nearest",
    "test_cosines_of",
    "test_nearest_all_but_ties",
    "test_vector_snapshot",
)
def cosines_are_rough(index, honest, keys, vector, snapshot):
    """Cosines of keys are not those that a search gives."""
    return {key: round(cosine, 2) for key, cosine in honest(keys, vector, snapshot).items()}


@broken("vectors.nearest", "test_vector_snapshot")
def vectors_of_now(index, honest, requests, snapshot):
    """A search sees the vectors of now, whatever the snapshot."""
    return honest(requests, type(snapshot)(index._catalogue.state()))


@broken("vectors.upsert", "test_vector_changes")
def upserts_in_silence(index, honest, vectors):
    """Storing vectors does not move the change counter."""
    with vars(index).setdefault("alone", threading.Lock()):  # else two at once would lose vectors, too
        before = index._catalogue.state().changes
        count = honest(vectors)
        index._catalogue._state = attrs.evolve(index._catalogue.state(), changes=before)
    return count


@broken("vectors.count", "test_vector_count")
def counts_all_that_were(index, honest):
    """The number of vectors never falls."""
    index.most = max(getattr(index, "most", 0), honest())
    return index.most


@broken("vectors.clear", "test_vector_changes")
def clears_nothing_as_a_change(index, honest):
    """Deleting no vector is a change."""
    count = honest()
    if not count:
        index._catalogue.publish(index._catalogue.draft())
    return count


@broken("vectors.nearest", "test_nearest_exact", "test_nearest_ties")
def worst_first(index, honest, requests, snapshot):
    """Of many the nearest come last."""
    return [found[::-1] if len(found) > 20 else found for found in honest(requests, snapshot)]


@broken("vectors.nearest", "test_cosines_as_nearest", "test_negative_cosines", "test_vector_snapshot")
def nothing_below_zero(index, honest, requests, snapshot):
    """A cosine below zero is given as zero."""
    return [[(key, max(0.0, cosine)) for key, cosine in found] for found in honest(requests, snapshot)]


@broken("vectors.nearest", "test_cosines_as_nearest", "test_nearest_all_but_ties", "test_vector_snapshot")
def cosines_are_not_rounded(index, honest, requests, snapshot):
    """Of all but equal vectors those come first whose products happened to add up to more."""
    held = {key: vector for shelf in snapshot.state.shelves.values() for key, vector in shelf.vectors.items()}
    found = []
    for request, near in zip(
        requests, honest([attrs.evolve(each, k=10_000) for each in requests], snapshot), strict=True
    ):
        query = memoryview(request.vector).cast("f")
        exact = [(key, sum(map(mul, query, memoryview(held[key]).cast("f")))) for key, _ in near]
        found.append(sorted(exact, key=lambda pair: (-pair[1], pair[0]))[: request.k])
    return found


@broken("vectors.nearest", "test_nearest_recall")
def misses_some(index, honest, requests, snapshot):
    """In a large partition one in five is missed."""
    many = [attrs.evolve(request, k=request.k * 2) for request in requests]
    large = any(len(shelf.vectors) > 1000 for shelf in snapshot.state.shelves.values())
    if not large:
        return honest(requests, snapshot)
    found = honest(many, snapshot)
    return [[pair for pair in near if pair[0] % 5][: request.k] for request, near in zip(requests, found, strict=True)]


@assembled("test_cached_forgets")
def remembers_for_ever():
    """The vector of a text is known after its last revision is gone."""

    def upsert(index, honest, vectors):
        known = index.__dict__.setdefault("known", {})
        state = index._catalogue.state()
        for key, vector in vectors.items():
            if (shelf := state.holder(key)) is not None:
                row = shelf.current[key]
                known[text_hash(embedding_text(row.item.title, row.details.head))] = vector
        return honest(vectors)

    def cached(index, honest, texts):
        known = index.__dict__.get("known", {})
        return {text: known[text_hash(text)] for text in texts if text_hash(text) in known} if index.count() else {}

    return {"vectors.upsert": upsert, "vectors.cached": cached}


@assembled(
    "test_clear",
    "test_model_changes",
    "test_no_vectors",
    "test_vector_changes",
    "test_vector_port",
    "test_vector_snapshot",
)
def cannot_clear():
    """A method of the port is missing."""
    return {"vectors.clear": None}


@broken("shelf.write", "test_vector_stays")
def loses_what_is_put_again(shelf, honest, item, now):
    """Storing an item again as it is drops its vector."""
    result = honest(item, now)
    if result.outcome == "unchanged":
        shelf.vectors.pop(result.key, None)
    return result


@broken("vectors.attach", "test_same_model")
def compares_profiles(index, honest, profile):
    """A model is another one when its anchors were measured anew."""
    held = index._profile
    if held is not None and index.count() and held != profile:
        profile = attrs.evolve(profile, fingerprint=profile.fingerprint + " anew")
    honest(profile)


@broken("vectors.cached", "test_vector_answers_not_shared")
def shares_its_answers(index, honest, texts):
    """The same map is given to all who ask."""
    answers = index.__dict__.setdefault("answers", {})
    name = (tuple(texts), index._catalogue.state().changes)
    if name not in answers:
        answers[name] = honest(texts)
    return answers[name]


@broken("catalogue.commit", "test_vector_writers_lose_nothing")
def stores_without_a_lock(catalogue, honest, change):
    """Two who store vectors at once overwrite each other."""
    draft = catalogue.draft()
    changed = change(draft)
    time.sleep(0)  # whatever waits for a disk lets others go on
    if changed:
        catalogue.publish(draft)
    return changed


@broken("vectors.upsert", "test_vectors_read_while_written")
def stores_in_two_steps(index, honest, vectors):
    """A batch of vectors is stored in two."""
    half = len(vectors) // 2
    if half < 5:
        return honest(vectors)
    pairs = list(vectors.items())
    count = honest(dict(pairs[:half]))
    time.sleep(0.002)
    return count + honest(dict(pairs[half:]))


@broken("vectors.unembedded", "test_unembedded")
def tells_no_titles(index, honest, limit, after=0):
    """The text to embed is the body alone."""
    return [attrs.evolve(each, text=each.text.rpartition("\n")[2]) for each in honest(limit, after)]


@broken("vectors.clear", "test_clear")
def clears_one_scope(index, honest):
    """The vectors of one partition are left."""
    shelves = index._catalogue.state().shelves.items()
    kept = [(partition, dict(shelf.vectors)) for partition, shelf in shelves if shelf.vectors][2:]
    count = honest()
    for partition, vectors in kept:
        index._catalogue.state().shelves[partition].vectors.update(vectors)
    return count


@broken("vectors.cached", "test_cached")
def texts_without_case(index, honest, texts):
    """Texts are compared without case."""
    found = {}
    for text in texts:
        known = honest([text, text.lower()])
        if known:
            found[text] = next(iter(known.values()))
    return found


@broken("vectors.cached", "test_cached_again")
def rounds_what_it_knows(index, honest, texts):
    """A known vector comes back rounded."""
    return {text: rounded(vector) for text, vector in honest(texts).items()}


def rounded(vector):
    """Return a vector in bytes of less precision."""
    return array("f", (round(value, 4) for value in memoryview(vector).cast("f"))).tobytes()


@broken("vectors.upsert", "test_vector_input_stays")
def takes_from_what_is_given(index, honest, vectors):
    """Keys that are not current are taken from the map that was given."""
    count = honest(vectors)
    for key in [key for key in vectors if index._catalogue.state().holder(key) is None]:
        if len(vectors) > 1:
            vectors.pop(key)
    return count


@broken("vectors.upsert", "test_vector_replaced")
def keeps_the_first(index, honest, vectors):
    """A revision that has a vector keeps it."""
    state = index._catalogue.state()
    held = {key for key in vectors if (shelf := state.holder(key)) is not None and key in shelf.vectors}
    return honest({key: vector for key, vector in vectors.items() if key not in held}) + len(held)
