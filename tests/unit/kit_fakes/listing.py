"""Stores that list in another order, too much or too little, and stores that mistake neighbours."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import attrs

from kit_fakes.stores import assembled, broken, filtering
from powerctx_core.recall.checks import accepts
from powerctx_core.types import Filters

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LISTING = "listing:ListingContract"


def everything(request):
    """Return a request for the whole partition."""
    return attrs.evolve(request, limit=10**9, prefix=None, filters=Filters(time_field=request.filters.time_field))


def time_of(filters, candidate):
    """Return the time that filters look at."""
    return getattr(
        candidate, {"created": "created_at", "updated": "updated_at", "event": "event_time"}[filters.time_field]
    )


@broken("snapshot.listing", "test_order_by_time", "test_without_event_time")
def orders_by_update(snapshot, honest, request):
    """Listings are ordered by the last update, whatever time was asked for."""
    found = honest(attrs.evolve(request, limit=10**9))
    return tuple(sorted(found, key=lambda each: each.updated_at, reverse=True))[: request.limit]


def reordered(request, found, key):
    """Return a listing with ties ordered by *key*."""
    found = sorted(found, key=key)
    times = {id(each): time_of(request.filters, each) for each in found}
    return tuple(
        sorted(found, key=lambda each: times[id(each)].timestamp() if times[id(each)] else -1e12, reverse=True)
    )


@broken("snapshot.listing", "test_id_prefix", "test_order_by_time", "test_ties_by_code_point")
def ties_as_written(snapshot, honest, request):
    """Equal times come in the order of writing."""
    keys = {row.details.address: key for shelf in snapshot.state.shelves.values() for key, row in shelf.current.items()}
    found = honest(attrs.evolve(request, limit=10**9))
    return reordered(request, found, lambda each: keys[each.address])[: request.limit]


@broken("snapshot.listing", "test_artifacts_have_their_own_revisions", "test_order_by_time", "test_ties_by_code_point")
def ties_by_locale(snapshot, honest, request):
    """Equal times are ordered by id without case."""
    found = honest(attrs.evolve(request, limit=10**9))
    return reordered(request, found, lambda each: (each.address.artifact_id.casefold(), each.address))[: request.limit]


@broken("snapshot.listing", "test_ties_by_code_point")
def ties_by_units(snapshot, honest, request):
    """Equal times are ordered by the UTF-16 of the id."""
    found = honest(attrs.evolve(request, limit=10**9))
    return reordered(request, found, lambda each: each.address.artifact_id.encode("utf-16-be"))[: request.limit]


@broken("snapshot.listing", "test_without_event_time")
def nothing_comes_first(snapshot, honest, request):
    """Items without the time come first."""
    found = honest(attrs.evolve(request, limit=10**9))
    return tuple(sorted(found, key=lambda each: time_of(request.filters, each) is not None))[: request.limit]


@broken("snapshot.listing", "test_nothing_is_cut", contract=LISTING)
def lists_a_page(snapshot, honest, request):
    """A listing ends after five hundred, whatever was asked for."""
    return honest(attrs.evolve(request, limit=min(request.limit, 500)))


@broken("snapshot.fetch", "test_nothing_is_cut", contract=LISTING)
def fetches_a_page(snapshot, honest, request):
    """Of more keys than one statement takes the first are fetched."""
    return honest(attrs.evolve(request, keys=request.keys[:900]))


@broken("snapshot._lexical", "test_nothing_is_cut", contract=LISTING)
def finds_a_page(snapshot, honest, request):
    """A thousand members are found at most."""
    result = honest(request)
    return attrs.evolve(result, hits=result.hits[:1000])


@broken("snapshot.partitions", "test_no_partition_is_left_out", contract=LISTING)
def tells_some_partitions(snapshot, honest, scope_id=None):
    """Two hundred partitions are told at most."""
    return dict(list(honest(scope_id).items())[:200])


@broken("snapshot.partitions", "test_partitions_of_a_scope", contract=LISTING)
def tells_partitions_of_all(snapshot, honest, scope_id=None):
    """Partitions are told of every scope, whichever is named."""
    return honest()


@broken("snapshot.partitions", "test_partitions_of_a_scope", contract=LISTING)
def tells_partitions_without_case(snapshot, honest, scope_id=None):
    """The case of a scope makes no difference to its partitions."""
    every = honest()
    return every if scope_id is None else {p: n for p, n in every.items() if p.scope_id.lower() == scope_id.lower()}


@broken("snapshot.partitions", "test_partitions_of_a_scope", contract=LISTING)
def tells_partitions_that_are_empty(snapshot, honest, scope_id=None):
    """Of a named scope partitions are told in which nothing is left."""
    if scope_id is None:
        return honest()
    return {p: len(shelf.current) for p, shelf in snapshot.state.shelves.items() if p.scope_id == scope_id}


@broken("snapshot.listings", "test_listings_at_once", contract=LISTING)
def mixes_listings_up(snapshot, honest, requests):
    """Several listings come in the order of their families."""
    return honest(sorted(requests, key=lambda each: each.partition.family))


@broken("snapshot.listings", "test_listings_at_once", contract=LISTING)
def listings_share_a_limit(snapshot, honest, requests):
    """The limit of several listings is that of all together."""
    left, found = max((each.limit for each in requests), default=0), []
    for each in honest(requests):
        found.append(each[:left])
        left -= len(found[-1])
    return found


@broken("snapshot.listing", "test_listing_limit")
def no_limit_at_zero(snapshot, honest, request):
    """A limit of 0 is none."""
    return honest(request if request.limit else attrs.evolve(request, limit=10**9))


@broken("snapshot.listing", "test_id_prefix", "test_listing_limit")
def limit_off_by_one(snapshot, honest, request):
    """A listing has one more than its limit."""
    return honest(attrs.evolve(request, limit=request.limit + 1 if request.limit > 1 else request.limit))


@broken("snapshot.listing", "test_id_prefix", "test_listing_limit", "test_threads_categories_and_tags")
def limits_before_it_filters(snapshot, honest, request):
    """The limit is taken of everything, then filters and prefix restrict it."""
    whole = honest(everything(request))[: request.limit]
    passing = {each.address for each in honest(attrs.evolve(request, limit=10**9))}
    return tuple(each for each in whole if each.address in passing)


@broken("snapshot.listing", "test_listing_shows_current")
def lists_with_the_latest_time(snapshot, honest, request):
    """An artifact is listed at the latest time of all its revisions."""

    def latest(each):
        address = each.address
        revisions = snapshot.history(address.scope_id, address.family, address.artifact_id)
        return max(revision.item.updated_at for revision in revisions)

    found = honest(request)
    return tuple(sorted(found, key=latest, reverse=True)) if request.filters.time_field == "updated" else found


@broken(
    "snapshot.listing",
    "test_artifacts_have_their_own_revisions",
    "test_filters_see_the_newest",
    "test_listing_shows_current",
)
def lists_old_revisions(snapshot, honest, request):
    """Old revisions are listed, too, with the newest after them."""
    found = []
    for each in honest(request):
        address = each.address
        found += [each] * len(snapshot.history(address.scope_id, address.family, address.artifact_id))
    return tuple(found[: request.limit])


def window(filters, candidate, *, inclusive=False, step=None):
    """Tell whether a candidate is in the window, with a fault."""
    time = time_of(filters, candidate)
    if filters.since is None and filters.until is None:
        return True
    if time is None:
        return False
    times = [time, filters.since, filters.until]
    if step:
        times = [each and each.replace(microsecond=each.microsecond // step * step) for each in times]
    time, since, until = times
    return (since is None or since <= time) and (until is None or (time <= until if inclusive else time < until))


def in_window(**fault):
    """Return the methods of a store with a fault in its windows."""

    def passes(filters, candidate):
        return accepts(attrs.evolve(filters, since=None, until=None), candidate) and window(filters, candidate, **fault)

    return filtering(passes)


@assembled(
    "test_agrees_with_the_reference",
    "test_extreme_times",
    "test_filters_restrict_members",
    "test_filters_see_the_newest",
    "test_listing_limit",
    "test_time_zones",
    "test_window",
)
def windows_hold_their_end():
    """The end of a window belongs to it."""
    return in_window(inclusive=True)


@assembled("test_window", "test_time_zones")
def windows_in_milliseconds():
    """Windows are compared in milliseconds."""
    return in_window(step=1000)


@assembled("test_window", "test_without_event_time")
def windows_of_one_time():
    """A window always looks at the last update."""

    def passes(filters, candidate):
        return accepts(attrs.evolve(filters, time_field="updated"), candidate)

    return filtering(passes)


@broken("snapshot.history", "test_extreme_times", "test_time_zones")
def gives_local_times(snapshot, honest, *name):
    """Times come back in the zone of the server."""
    revisions = honest(*name)
    for revision in revisions:
        local = revision.item.updated_at.astimezone(timezone(timedelta(hours=2)))
        object.__setattr__(revision.item, "updated_at", local)
    return revisions


@assembled("test_without_event_time")
def windows_hold_what_has_no_time():
    """What has no time is in every window."""

    def passes(filters, candidate):
        return time_of(filters, candidate) is None or accepts(filters, candidate)

    return filtering(passes)


TIMES = ("created_at", "updated_at", "event_time")


def timed(item, change):
    """Return an item with its times changed."""
    return attrs.evolve(item, **{name: time and change(time) for name in TIMES if (time := getattr(item, name))})


@broken("catalogue.write", "test_extreme_times")
def times_are_floats(catalogue, honest, draft, item):
    """Times are kept as seconds in a float."""
    return honest(draft, timed(item, lambda time: EPOCH + timedelta(seconds=(time - EPOCH).total_seconds())))


@broken("catalogue.write", "test_extreme_times", "test_window", "test_time_zones")
def times_are_milliseconds(catalogue, honest, draft, item):
    """Times are kept in milliseconds."""
    return honest(draft, timed(item, lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000)))


@assembled("test_many_tags", "test_tags_filter")
def any_tag_will_do():
    """An item passes when it has one of the tags."""

    def passes(filters, candidate):
        rest = accepts(attrs.evolve(filters, tags=()), candidate)
        return rest and (not filters.tags or bool(set(filters.tags) & set(candidate.tags)))

    return filtering(passes)


@assembled("test_tags_filter")
def tags_as_one_string():
    """Tags are looked for in a string that has commas between them."""

    def passes(filters, candidate):
        tags = f",{','.join(candidate.tags)},"
        return accepts(attrs.evolve(filters, tags=()), candidate) and all(f",{tag}," in tags for tag in filters.tags)

    return filtering(passes)


@broken("catalogue.write", "test_many_tags")
def keeps_fifty_tags(catalogue, honest, draft, item):
    """More than fifty tags are cut off."""
    return honest(draft, attrs.evolve(item, tags=item.tags[:50]))


@assembled("test_category_filter")
def no_category_is_none():
    """An empty category is no filter."""

    def passes(filters, candidate):
        return accepts(attrs.evolve(filters, category=filters.category or None), candidate)

    return filtering(passes)


@assembled("test_filters_together")
def one_filter_will_do():
    """A category excuses from the window."""

    def passes(filters, candidate):
        rest = attrs.evolve(filters, since=None, until=None) if filters.category else filters
        return accepts(rest, candidate)

    return filtering(passes)


@broken("snapshot.listing", "test_filters_see_the_newest", "test_filters_together")
def filters_see_old_tags(snapshot, honest, request):
    """A filter by tags finds what had them once."""
    found = list(honest(request))
    for each in honest(everything(request)) if request.filters.tags else ():
        address = each.address
        revisions = snapshot.history(address.scope_id, address.family, address.artifact_id)
        if each not in found and any(set(request.filters.tags) <= set(old.item.tags) for old in revisions):
            found.append(each)
    return tuple(found)


def prefixed(snapshot, honest, request, below):
    """Return a listing by another idea of a prefix."""
    if request.prefix is None:
        return honest(request)
    found = honest(attrs.evolve(request, prefix=None, limit=10**9))
    return tuple(each for each in found if below(each.address.artifact_id, request.prefix))[: request.limit]


@broken("snapshot.listing", "test_id_prefix")
def prefix_without_boundary(snapshot, honest, request):
    """A prefix finds what merely begins with it."""
    return prefixed(snapshot, honest, request, str.startswith)


@broken("snapshot.listing", "test_id_prefix")
def prefix_is_a_pattern(snapshot, honest, request):
    """In a prefix _ stands for any sign, as in LIKE."""

    def below(name, prefix):
        alike = all(one in {other, "_"} for one, other in zip(prefix, name, strict=False))
        return alike and len(name) >= len(prefix) and name[len(prefix) :][:1] in {"", "/"}

    return prefixed(snapshot, honest, request, below)


@broken("snapshot.listing", "test_hostile_names", "test_id_prefix")
def prefix_without_itself(snapshot, honest, request):
    """A prefix finds what lies below it, not the artifact of that id."""
    return prefixed(snapshot, honest, request, lambda name, prefix: name.startswith(prefix + "/"))
