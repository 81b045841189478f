"""Stores that do not give back what they were given, and stores in which queries are more than words."""

from __future__ import annotations

import json
import unicodedata

import attrs

from kit_fakes.stores import assembled, broken, filtering
from powerctx_core.errors import StoreError
from powerctx_core.recall.checks import accepts
from powerctx_core.text.cut import head

SHORT = ("title", "overview", "category", "origin")


def rewritten(item, change, *fields):
    """Return an item with its texts changed."""
    return attrs.evolve(item, **{field: value and change(value) for field in fields if (value := getattr(item, field))})


@broken(
    "catalogue.write",
    "test_awkward_short_text",
    "test_category_filter",
    "test_hostile_names",
    "test_round_trip",
    "test_threads_categories_and_tags",
    "test_white_space_stays",
)
def strips(catalogue, honest, draft, item):
    """Blanks around short texts are removed."""
    return honest(draft, rewritten(item, str.strip, *SHORT))


@broken("catalogue.write", "test_white_space_stays")
def strips_blanks_behind(catalogue, honest, draft, item):
    """Blanks behind a body are removed, as from a column of fixed width."""
    return honest(draft, rewritten(item, lambda text: text.rstrip(" "), "text"))


@broken("catalogue.write", "test_white_space_stays", "test_largest_text")
def strips_bodies(catalogue, honest, draft, item):
    """White space around a body is removed."""
    return honest(draft, rewritten(item, str.strip, "text"))


@broken("catalogue.write", "test_white_space_stays", "test_largest_text", "test_round_trip")
def knows_one_line_end(catalogue, honest, draft, item):
    """Every line end of a body becomes LF, as in a file that is opened as text."""
    return honest(draft, rewritten(item, lambda text: text.replace("\r\n", "\n").replace("\r", "\n"), "text"))


@broken("snapshot.fetch", "test_white_space_stays")
def fetches_stripped_heads(snapshot, honest, request):
    """A head is stripped where it is fetched, and nowhere else."""
    return {key: attrs.evolve(each, head=each.head.strip()) for key, each in honest(request).items()}


@broken("snapshot.get", "test_white_space_stays")
def reads_lines(snapshot, honest, address):
    """A revision is read without the end of its last line."""
    revision = honest(address)
    return revision and attrs.evolve(revision, item=rewritten(revision.item, lambda text: text.rstrip("\n"), "text"))


@broken("catalogue.write", "test_largest_text", "test_round_trip")
def composes(catalogue, honest, draft, item):
    """Text is stored in its composed form (NFC)."""
    return honest(draft, rewritten(item, lambda text: unicodedata.normalize("NFC", text), "overview"))


@broken("catalogue.write", "test_round_trip", "test_awkward_short_text", "test_white_space_stays")
def cuts_at_nul(catalogue, honest, draft, item):
    """Text ends at its first NUL."""
    return honest(draft, rewritten(item, lambda text: text.partition("\0")[0], *SHORT))


@broken("catalogue.write", "test_round_trip", "test_white_space_stays")
def changes_line_ends(catalogue, honest, draft, item):
    """CR LF becomes LF."""
    return honest(draft, rewritten(item, lambda text: text.replace("\r\n", "\n"), "overview"))


@broken("catalogue.write", "test_round_trip")
def knows_three_bytes(catalogue, honest, draft, item):
    """Characters of four bytes become question marks, as in utf8mb3."""
    return honest(
        draft, rewritten(item, lambda text: "".join(c if c < "\U00010000" else "?" for c in text), "overview")
    )


@broken("catalogue.write", "test_round_trip", "test_awkward_short_text", "test_category_filter")
def empty_is_none(catalogue, honest, draft, item):
    """An empty text is no text."""
    return honest(draft, attrs.evolve(item, **{field: getattr(item, field) or None for field in SHORT}))


@broken("catalogue.write", "test_round_trip")
def numbers_are_floats(catalogue, honest, draft, item):
    """Numbers of metadata are floats."""
    meta = json.loads(json.dumps(dict(item.meta)), parse_int=float)
    return honest(draft, attrs.evolve(item, meta=meta) if meta else item)


@broken("catalogue.write", "test_round_trip")
def loses_the_empty_key(catalogue, honest, draft, item):
    """A metadata value with an empty name is lost."""
    meta = {name: value for name, value in item.meta.items() if name}
    return honest(draft, attrs.evolve(item, meta=meta) if meta != item.meta else item)


def shallow(value, depth):
    """Return a value without what lies below a depth."""
    if isinstance(value, dict):
        return {name: shallow(inner, depth - 1) for name, inner in value.items()} if depth else {}
    return value


@broken("catalogue.write", "test_largest_fields")
def metadata_is_shallow(catalogue, honest, draft, item):
    """Metadata is kept ten levels deep."""
    meta = shallow(dict(item.meta), 10)
    return honest(draft, attrs.evolve(item, meta=meta) if meta else item)


@broken("catalogue.write", "test_largest_fields")
def columns_are_narrow(catalogue, honest, draft, item):
    """Short texts are cut at 255 characters."""
    return honest(draft, rewritten(item, lambda text: text[:255], "title", "origin"))


@broken("catalogue.write", "test_round_trip")
def sorts_tags(catalogue, honest, draft, item):
    """Tags come back sorted."""
    return honest(draft, attrs.evolve(item, tags=tuple(sorted(item.tags))))


@broken("catalogue.write", "test_many_tags", "test_put_what_was_read", "test_round_trip")
def turns_tags_round(catalogue, honest, draft, item):
    """Tags come back in another order."""
    return honest(draft, attrs.evolve(item, tags=item.tags[::-1]))


def with_head(change):
    """Return a listing whose heads are made anew."""

    def listing(snapshot, honest, request):
        found = honest(request)
        texts = [snapshot.latest(*attrs.astuple(each.address)[:3]).item.text for each in found]
        return tuple(attrs.evolve(each, **change(text)) for each, text in zip(found, texts, strict=True))

    return {"snapshot.listing": listing}


@assembled("test_head")
def cuts_characters():
    """The head is cut inside of a character."""
    return with_head(lambda text: {"head": text.encode()[:4096].decode(errors="replace")})


@assembled("test_head", "test_largest_text")
def measures_characters():
    """The head has 4 096 characters."""
    return with_head(lambda text: {"head": text[:4096]})


@assembled("test_head")
def gives_a_short_head():
    """The head is one byte shorter than it may be."""
    return with_head(lambda text: {"head": head(text.encode()[:4095].decode(errors="ignore"))})


@assembled("test_head", "test_round_trip")
def counts_characters():
    """The size of a body is told in characters."""
    return with_head(lambda text: {"body_bytes": len(text)})


@broken("snapshot.listing", "test_abstract", "test_round_trip")
def derives_no_abstract(snapshot, honest, request):
    """A candidate without an abstract of its own has none."""
    found = honest(request)
    items = [snapshot.latest(*attrs.astuple(each.address)[:3]).item for each in found]
    return tuple(attrs.evolve(each, abstract=item.abstract or "") for each, item in zip(found, items, strict=True))


@broken("snapshot._lexical", "test_finds_negations", "test_hostile_queries", "test_any_query")
def knows_operators(snapshot, honest, request):
    """Some words are operators."""
    terms = tuple(term for term in request.query.terms if term not in {"and", "or", "not", "near"})
    return honest(attrs.evolve(request, query=attrs.evolve(request.query, terms=terms)))


@broken("snapshot._lexical", "test_finds_negations", "test_finds_stop_words", "test_hostile_queries")
def drops_stop_words(snapshot, honest, request):
    """Words that everybody uses are not looked for."""
    terms = tuple(term for term in request.query.terms if term not in {"the", "not", "and", "or", "is", "to", "be"})
    return honest(attrs.evolve(request, query=attrs.evolve(request.query, terms=terms)))


@broken(
    "snapshot._lexical", "test_hostile_queries", "test_hostile_queries_statistics", "test_hostile_queries_where_ranked"
)
def fears_long_words(snapshot, honest, request):
    """A word that is longer than a column is an error."""
    if any(len(term) > 32 for term in request.query.terms):
        raise StoreError("value too long for type character varying(32)")
    return honest(request)


@broken("snapshot._lexical", "test_no_query_syntax")
def completes_words(snapshot, honest, request):
    """The last word of a query is taken for the beginning of one."""
    shelf = snapshot.state.shelves.get(request.partition)
    terms = request.query.terms
    if shelf and len(terms) == 1 and len(terms[0]) > 3:
        terms = tuple(dict.fromkeys((*terms, *(term for term in shelf.postings if term.startswith(terms[0])))))
    return honest(attrs.evolve(request, query=attrs.evolve(request.query, terms=terms)))


@broken("snapshot._lexical", "test_best_of_a_large_partition")
def counts_the_ranked(snapshot, honest, request):
    """In a large partition the frequencies are those of the best k."""
    result = honest(request)
    if len(result.hits) > 1000:
        hits = result.hits[: request.k]
        frequency = {term: sum(term in hit.matched for hit in hits) for term in result.terms}
        statistics = attrs.evolve(result.statistics, document_frequency=frequency)
        return attrs.evolve(result, hits=hits, statistics=statistics)
    return result


@broken("shelf._row", "test_any_text_is_analysed", "test_finds_sub_words")
def indexes_ascii(shelf, honest, *args):
    """Only words in ASCII are in the index, and Han."""
    row = honest(*args)
    terms = {term: n for term, n in row.terms.items() if term.isascii() or "一" <= term[0] <= "鿿"}
    return attrs.evolve(row, terms=terms, details=attrs.evolve(row.details, length=sum(terms.values())))


@assembled("test_tags_filter", "test_threads_categories_and_tags")
def tags_are_patterns():
    """A tag that is asked for is a pattern of LIKE."""

    def like(wanted, tags):
        return wanted in tags or ("%" in wanted and any(wanted.strip("%") in tag for tag in tags)) or wanted == "_"

    def passes(filters, candidate):
        rest = accepts(attrs.evolve(filters, tags=()), candidate)
        return rest and all(like(tag, candidate.tags) for tag in filters.tags)

    return filtering(passes)


@broken("snapshot._lexical", "test_hostile_names", "test_threads_categories_and_tags")
def builds_sql(snapshot, honest, request):
    """A category is put into the statement as it is."""
    if (request.filters.category or "").count("'") % 2:
        raise StoreError("unrecognized token")
    return honest(request)
