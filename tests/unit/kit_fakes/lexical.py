"""Stores that find too much, too little, or miscount."""

from __future__ import annotations

import re
from collections import Counter

import attrs

from kit_fakes.stores import assembled, broken, filtering
from powerctx_core.errors import StoreError
from powerctx_core.recall.checks import accepts
from powerctx_core.text.terms import analyse, analysed_text
from powerctx_core.types import Filters


def indexed(row, terms):
    """Return a row that is indexed with other terms."""
    return attrs.evolve(row, terms=terms, details=attrs.evolve(row.details, length=sum(terms.values())))


def counted(result, **changes):
    """Return a result with other statistics."""
    return attrs.evolve(result, statistics=attrs.evolve(result.statistics, **changes))


@broken("shelf._row", "test_finds_sub_words")
def knows_no_hangul(shelf, honest, *args):
    """Hangul is not taken apart."""
    row = honest(*args)
    return indexed(row, {term: n for term, n in row.terms.items() if not re.search("[\uac00-\ud7a3]", term)})


@broken("snapshot._lexical", "test_finds_no_other_words", "test_no_query_syntax")
def finds_parts_of_words(snapshot, honest, request):
    """A word that nobody wrote is looked for inside of words."""
    shelf = snapshot.state.shelves.get(request.partition)
    terms = request.query.terms
    if shelf and len(terms) == 1 and terms[0] not in shelf.postings:
        inside = tuple(term for term in shelf.postings if terms[0] in term)
        return honest(attrs.evolve(request, query=attrs.evolve(request.query, terms=inside)))
    return honest(request)


@broken("shelf._row", "test_fetched_details", "test_occurrences", "test_what_is_searched")
def does_not_index_titles(shelf, honest, item, *args):
    """The title is not searched."""
    return indexed(honest(item, *args), analyse(analysed_text(None, item.text, item.category, item.tags)))


@broken("shelf._row", "test_occurrences", "test_what_is_searched")
def does_not_index_categories(shelf, honest, item, *args):
    """The category is not searched."""
    return indexed(honest(item, *args), analyse(analysed_text(item.title, item.text, None, item.tags)))


@broken("shelf._row", "test_fetched_details", "test_occurrences", "test_what_is_searched")
def does_not_index_tags(shelf, honest, item, *args):
    """Tags are not searched."""
    return indexed(honest(item, *args), analyse(analysed_text(item.title, item.text, item.category, ())))


@broken("shelf._row", "test_what_is_searched")
def indexes_abstracts(shelf, honest, item, *args):
    """The abstract is searched, too."""
    text = f"{item.text}\n{item.abstract or ''}"
    return indexed(honest(item, *args), analyse(analysed_text(item.title, text, item.category, item.tags)))


@broken("snapshot._lexical", "test_occurrences", "test_many_occurrences")
def counts_to_three(snapshot, honest, request):
    """Occurrences are counted up to three."""
    result = honest(request)
    hits = [attrs.evolve(hit, matched={term: min(3, n) for term, n in hit.matched.items()}) for hit in result.hits]
    return attrs.evolve(result, hits=tuple(hits))


@broken("snapshot._lexical", "test_many_occurrences")
def counts_in_two_bytes(snapshot, honest, request):
    """Occurrences overflow two bytes."""
    result = honest(request)
    hits = [attrs.evolve(hit, matched={term: n % 65536 for term, n in hit.matched.items()}) for hit in result.hits]
    return attrs.evolve(result, hits=tuple(hits))


@broken("snapshot._lexical", "test_nothing_matched_is_not_nothing_stored", "test_statistics_follow")
def does_not_count_the_silent(snapshot, honest, request):
    """Items without any term are not counted."""
    result = honest(request)
    shelf = snapshot.state.shelves.get(request.partition)
    items = sum(bool(row.terms) for row in shelf.current.values()) if shelf else 0
    return counted(result, items=items, mean_length=shelf.length / items if items else 0.0)


@broken("snapshot._lexical", "test_other_partitions_do_not_count", "test_several_requests", "test_without_terms")
def refuses_no_terms(snapshot, honest, request):
    """A query without any word is an error of syntax."""
    if not request.query.terms:
        raise StoreError('fts5: syntax error near ""')
    return honest(request)


@broken("snapshot._lexical", "test_statistics_follow")
def counts_what_is_retired(snapshot, honest, request):
    """Document frequencies count retired items."""
    result = honest(request)
    shelf = snapshot.state.shelves.get(request.partition)
    retired = [artifact.rows[-1] for artifact in shelf.artifacts.values() if artifact.retired] if shelf else []
    frequency = result.statistics.document_frequency
    more = {term: n + sum(term in row.terms for row in retired) for term, n in frequency.items()}
    return counted(result, document_frequency=more)


@broken("snapshot._lexical", "test_statistics_follow", "test_statistics_of_a_large_partition")
def counts_what_is_superseded(snapshot, honest, request):
    """Document frequencies count revisions, not items."""
    result = honest(request)
    shelf = snapshot.state.shelves.get(request.partition)
    older = [row for artifact in shelf.artifacts.values() for row in artifact.rows[:-1]] if shelf else []
    frequency = result.statistics.document_frequency
    more = {term: n + sum(term in row.terms for row in older) for term, n in frequency.items()}
    return counted(result, document_frequency=more)


@broken("snapshot._lexical", "test_statistics_follow")
def rounds_lengths(snapshot, honest, request):
    """The mean length is a whole number."""
    result = honest(request)
    return counted(result, mean_length=float(round(result.statistics.mean_length)))


@broken("snapshot._lexical", "test_filters_keep_statistics")
def counts_what_passes(snapshot, honest, request):
    """Document frequencies count the items that pass the filters."""
    result = honest(request)
    if not request.filters:
        return result
    found = Counter(term for hit in result.hits for term in hit.matched)
    return counted(result, document_frequency=dict(found))


@broken("snapshot._lexical", "test_other_partitions_do_not_count")
def counts_all_families(snapshot, honest, request):
    """The number of items is that of the whole scope."""
    shelves = snapshot.state.shelves.items()
    return counted(
        honest(request),
        items=sum(len(shelf.current) for each, shelf in shelves if each.scope_id == request.partition.scope_id),
    )


@broken("snapshot._lexical", "test_hostile_queries", "test_many_unknown_terms")
def takes_the_first_terms(snapshot, honest, request):
    """Of many terms the first 64 are used."""
    query = attrs.evolve(request.query, terms=request.query.terms[:64])
    return honest(attrs.evolve(request, query=query))


@broken("snapshot._lexical", "test_many_unknown_terms")
def unknown_terms_take_room(snapshot, honest, request):
    """Terms that no item holds are the rarest."""
    shelf = snapshot.state.shelves.get(request.partition)
    terms = request.query.terms
    unknown = [term for term in terms if shelf is None or term not in shelf.postings]
    if len(unknown) >= 100:
        terms = tuple(unknown[:64])
    return honest(attrs.evolve(request, query=attrs.evolve(request.query, terms=terms)))


@broken("snapshot._lexical", "test_frequencies_of_rare_and_quoted_terms", "test_quoted_terms_first")
def does_not_mind_quotes(snapshot, honest, request):
    """Quoted words are not preferred."""
    return honest(attrs.evolve(request, query=attrs.evolve(request.query, quoted=frozenset())))


@broken("snapshot._lexical", "test_order_of_terms_is_the_callers")
def sorts_terms(snapshot, honest, request):
    """The terms of a query come back sorted."""
    result = honest(request)
    return attrs.evolve(result, terms=tuple(sorted(result.terms)))


@broken(
    "snapshot.lexical",
    "test_many_large_requests",
    "test_neighbours_of_asked_keys",
    "test_other_partitions_do_not_count",
    "test_several_requests",
)
def answers_partitions(snapshot, honest, requests):
    """Several requests are answered by partition."""
    found = sorted(requests, key=lambda request: request.partition)
    return honest(found)


@broken("snapshot.lexical", "test_several_requests")
def answers_each_once(snapshot, honest, requests):
    """A request that is repeated is answered once."""
    return honest([request for n, request in enumerate(requests) if request not in requests[:n]])


@broken("snapshot.fetch", "test_fetched_details", "test_keys_are_not_reused")
def fetches_what_is_unknown(snapshot, honest, request):
    """An unknown key is an error."""
    found = honest(request)
    return {key: found[key] for key in request.keys}


@broken("snapshot.fetch", "test_fetched_details")
def fetches_first_revisions(snapshot, honest, request):
    """The details of an artifact are those of its first revision."""
    found = honest(request)
    return {key: attrs.evolve(each, address=attrs.evolve(each.address, revision=1)) for key, each in found.items()}


@broken("snapshot.fetch", "test_fetched_details")
def measures_the_text(snapshot, honest, request):
    """The length of a fetched item is that of its body alone."""
    return {key: attrs.evolve(each, length=sum(analyse(each.head).values())) for key, each in honest(request).items()}


@broken("snapshot._lexical", "test_best_of_a_large_partition", "test_threads_categories_and_tags")
def filters_the_best(snapshot, honest, request):
    """Filters look at the k best only."""
    result = honest(attrs.evolve(request, filters=Filters()))
    best = sorted(result.hits, key=lambda hit: (-sum(hit.matched.values()), hit.artifact_id))[: max(64, request.k)]
    passing = [hit for hit in best if accepts(request.filters, snapshot._row(hit.key).details)]
    return attrs.evolve(result, hits=tuple(passing) if request.filters else result.hits)


@broken("snapshot._lexical", "test_best_of_a_large_partition")
def forgets_the_rare(snapshot, honest, request):
    """Of many members those written last are left out."""
    result = honest(request)
    return attrs.evolve(result, hits=tuple(sorted(result.hits, key=lambda hit: hit.key)[: max(request.k, 100)]))


@assembled("test_default_filters", "test_without_event_time")
def a_time_field_filters():
    """Naming a time leaves out what has none."""

    def passes(filters, candidate):
        return accepts(filters, candidate) and (filters.time_field != "event" or candidate.event_time is not None)

    return filtering(passes)


@broken("snapshot._lexical", "test_statistics_follow")
def keeps_words_of_purged(snapshot, honest, request):
    """The number of items does not fall when a current artifact is purged."""
    result = honest(request)
    shelf = snapshot.state.shelves.get(request.partition)
    if shelf is None:
        return result
    return counted(result, items=shelf.sequence - sum(len(a.rows) - (not a.retired) for a in shelf.artifacts.values()))


@broken("snapshot._lexical", "test_hostile_queries_where_ranked")
def forgets_other_words(snapshot, honest, request):
    """In a large partition a member tells the first of its words only."""
    result = honest(request)
    if result.statistics.items > 2000:
        hits = [attrs.evolve(hit, matched=dict(list(hit.matched.items())[:1])) for hit in result.hits]
        return attrs.evolve(result, hits=tuple(hits))
    return result


@broken("snapshot.lexical", "test_many_large_requests")
def binds_a_thousand(snapshot, honest, requests):
    """A call has more terms than a statement has parameters."""
    if sum(len(request.query.terms) for request in requests) > 999:
        raise StoreError("too many SQL variables")
    return honest(requests)


@broken("snapshot._lexical", "test_rarest_terms", "test_frequencies_of_rare_and_quoted_terms")
def takes_the_common_terms(snapshot, honest, request):
    """Of many terms those in most items are used."""
    shelf = snapshot.state.shelves.get(request.partition)
    terms = request.query.terms
    if shelf and len(terms) > 64 and not request.query.quoted:
        terms = tuple(sorted(terms, key=lambda term: -len(shelf.postings.get(term, ()))))[:64]
    return honest(attrs.evolve(request, query=attrs.evolve(request.query, terms=terms)))


@broken("shelf.purge", "test_purge_current")
def finds_what_is_purged(shelf, honest, artifact_id):
    """A purge of a current artifact leaves its words in the index."""
    artifact = shelf.artifacts.get(artifact_id)
    if artifact is None or artifact.retired or len(shelf.artifacts) != 2:
        return honest(artifact_id)
    del shelf.artifacts[artifact_id]
    return len(artifact.rows)


@broken("snapshot._lexical", "test_occurrences_follow")
def remembers_first_lengths(snapshot, honest, request):
    """The length of an item stays that of its first revision."""
    result = honest(request)
    artifacts = snapshot.state.shelves[request.partition].artifacts if result.hits else {}
    return attrs.evolve(
        result,
        hits=tuple(attrs.evolve(hit, length=artifacts[hit.artifact_id].rows[0].details.length) for hit in result.hits),
    )
