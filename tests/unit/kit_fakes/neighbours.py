"""Stores that take others for neighbours."""

from __future__ import annotations

import attrs

from kit_fakes.identity import threads_by
from kit_fakes.stores import assembled, broken


def by(order, among=None):
    """Return the neighbours of each asked key when a thread is ordered and chosen differently."""

    def neighbours(snapshot, honest, request):
        found = {}
        shelf = snapshot.state.shelves.get(request.partition)
        for key in honest(request):
            row = shelf.current[key]
            if row.item.position is None:
                found[key] = ()
                continue
            rows = [each for each in shelf.current.values() if each.item.thread == row.item.thread]
            rows = [each for each in rows if each.item.position is not None]
            keys = [each.key for each in sorted(rows, key=order)]
            place = keys.index(key)
            found[key] = (*keys[max(0, place - 1) : place], *keys[place + 1 : place + 2])
        return found

    return neighbours


@broken(
    "snapshot.neighbours",
    "test_neighbours_at_ends_and_gaps",
    "test_neighbours_by_position",
    "test_neighbours_far_out",
    "test_neighbours_skip_retired",
    "test_neighbours_follow_revisions",
)
def next_numbers_only(snapshot, honest, request):
    """A neighbour is one position away."""
    position = {
        key: row.item.position for shelf in snapshot.state.shelves.values() for key, row in shelf.current.items()
    }
    return {
        key: tuple(beside for beside in keys if abs(position[beside] - position[key]) <= 1)
        for key, keys in honest(request).items()
    }


@assembled("test_neighbours_by_position", "test_neighbours_of_equal_positions", "test_neighbours_skip_retired")
def order_of_keys():
    """The order of writing counts."""
    return {"snapshot.neighbours": by(lambda row: row.key)}


@assembled("test_neighbours_of_equal_positions")
def equal_places_as_written():
    """Items in one place are ordered as they were written."""
    return {"snapshot.neighbours": by(lambda row: (row.item.position, row.key))}


@broken("snapshot.neighbours", "test_neighbours_of_equal_positions")
def equal_places_are_skipped(snapshot, honest, request):
    """Items in one place are no neighbours."""
    position = {
        key: row.item.position for shelf in snapshot.state.shelves.values() for key, row in shelf.current.items()
    }
    return {
        key: tuple(beside for beside in keys if position[beside] != position[key])
        for key, keys in honest(request).items()
    }


@broken("snapshot.neighbours", "test_neighbours_without_place")
def no_place_is_the_first(snapshot, honest, request):
    """An item without position stands at the beginning."""
    found = dict(honest(request))
    for key in found:
        shelf = snapshot.state.shelves[request.partition]
        row = shelf.current[key]
        if row.item.position is None:
            first = sorted((place, other) for other, place in shelf.threads.get(row.item.thread, {}).items())
            found[key] = tuple(other for _, other in first[:1])
    return found


@broken("snapshot.neighbours", "test_neighbours_without_place")
def no_thread_is_one(snapshot, honest, request):
    """Items without thread are in one, alone."""
    found = honest(request)
    shelf = snapshot.state.shelves.get(request.partition)
    return {key: found.get(key, ()) for key in request.keys if shelf and key in shelf.current}


@broken("snapshot.neighbours", "test_neighbours_of_asked_keys")
def answers_for_other_partitions(snapshot, honest, request):
    """Keys of another partition are answered, too."""
    found = dict(honest(request))
    for partition in snapshot.state.shelves:
        found |= honest(type(request)(partition=partition, keys=request.keys))
    return found


@assembled("test_neighbours_stay_in_thread", "test_threads_categories_and_tags")
def threads_without_padding():
    """Blanks at the end of a thread do not count."""
    return threads_by(str.rstrip)


def placed(place):
    """Return the writing of a store that keeps positions as *place* makes them."""

    def write(catalogue, honest, draft, item):
        return honest(draft, attrs.evolve(item, position=item.position and min(place(item.position), (1 << 62) - 1)))

    return {"catalogue.write": write}


@assembled("test_neighbours_far_out", contract="neighbours:NeighbourContract")
def positions_of_four_bytes():
    """Positions are clipped to what a column of type INTEGER takes."""
    return placed(lambda position: min(position, (1 << 31) - 1))


@assembled("test_neighbours_far_out", contract="neighbours:NeighbourContract")
def positions_are_floats():
    """Positions are kept as floats."""
    return placed(lambda position: int(float(position)))
