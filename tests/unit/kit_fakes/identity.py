"""Stores that take different names for the same."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import attrs

from kit_fakes.stores import assembled, broken, filtering
from powerctx_core.recall.checks import accepts
from powerctx_core.types import Partition

Fold = Callable[[str], object]


def without_accents(name: str) -> str:
    """Return a name without its combining signs."""
    return "".join(sign for sign in unicodedata.normalize("NFD", name) if not unicodedata.combining(sign))


def width(name: str) -> str:
    """Return a name in compatible signs."""
    return unicodedata.normalize("NFKC", name)


def cut(name: str) -> str:
    """Return as much of a name as a narrow column takes."""
    return name.encode()[:127].decode(errors="ignore")


def number(name: str) -> object:
    """Return a name as a column of type NUMERIC keeps it."""
    with suppress(ValueError):
        return float(name)
    return name


def partitions_by(fold: Callable[[Partition], object]) -> dict[str, Callable[..., Any]]:
    """Return the methods of a store that compares partitions by *fold*; the first spelling counts."""

    def known(shelves: Any, partition: Partition) -> Partition:
        return next((each for each in shelves if fold(each) == fold(partition)), partition)

    def write(catalogue: Any, honest: Any, draft: Any, item: Any) -> Any:
        partition = known({**catalogue.state().shelves, **draft._shelves}, Partition(item.scope_id, item.family))
        return honest(draft, attrs.evolve(item, scope_id=partition.scope_id, family=partition.family))

    def change(catalogue: Any, honest: Any, artifacts: Any) -> Any:
        found = [(known(catalogue.state().shelves, Partition(*each[:2])), each[2]) for each in artifacts]
        return honest([(partition.scope_id, partition.family, name) for partition, name in found])

    def ask(snapshot: Any, honest: Any, request: Any) -> Any:
        return honest(attrs.evolve(request, partition=known(snapshot.state.shelves, request.partition)))

    def history(snapshot: Any, honest: Any, scope_id: str, family: str, artifact_id: str) -> Any:
        partition = known(snapshot.state.shelves, Partition(scope_id, family))
        return honest(partition.scope_id, partition.family, artifact_id)

    return {
        "catalogue.write": write,
        "catalogue.retire": change,
        "catalogue.purge": change,
        "snapshot._lexical": ask,
        "snapshot.listing": ask,
        "snapshot.neighbours": ask,
        "snapshot.history": history,
    }


def scopes_by(fold: Fold) -> dict[str, Callable[..., Any]]:
    """Return the methods of a store that compares scopes by *fold*."""
    return partitions_by(lambda partition: (fold(partition.scope_id), partition.family))


def artifacts_by(fold: Fold) -> dict[str, Callable[..., Any]]:
    """Return the methods of a store that compares artifact ids by *fold*."""

    def known(artifacts: Any, name: str) -> str:
        return next((each for each in artifacts if fold(each) == fold(name)), name)

    def write(shelf: Any, honest: Any, item: Any, now: Any) -> Any:
        return honest(attrs.evolve(item, artifact_id=known(shelf.artifacts, item.artifact_id)), now)

    def change(shelf: Any, honest: Any, artifact_id: str) -> Any:
        return honest(known(shelf.artifacts, artifact_id))

    def history(snapshot: Any, honest: Any, scope_id: str, family: str, artifact_id: str) -> Any:
        shelf = snapshot.state.shelf(scope_id, family)
        return honest(scope_id, family, artifact_id if shelf is None else known(shelf.artifacts, artifact_id))

    return {"shelf.write": write, "shelf.retire": change, "shelf.purge": change, "snapshot.history": history}


def threads_by(fold: Fold) -> dict[str, Callable[..., Any]]:
    """Return the methods of a store that compares threads by *fold*."""

    def neighbours(snapshot: Any, honest: Any, request: Any) -> Any:
        shelf = snapshot.state.shelves.get(request.partition)
        own = {key: row.item for key, row in shelf.current.items()} if shelf else {}
        found = {}
        for key in honest(request):
            item = own[key]
            thread = sorted(
                (each.position, each.artifact_id, other)
                for other, each in own.items()
                if None not in {each.thread, each.position} and fold(each.thread) == fold(item.thread)
            )
            keys = [entry[2] for entry in thread]
            place = keys.index(key) if key in keys else None
            found[key] = () if place is None else (*keys[max(0, place - 1) : place], *keys[place + 1 : place + 2])
        return found

    return {"snapshot.neighbours": neighbours}


@assembled(
    "test_batch_of_partitions",
    "test_neighbours_stay_in_thread",
    "test_partitions_of_a_scope",
    "test_scopes_delete_their_own",
    "test_scopes_find_their_own",
)
def scopes_without_case():
    """Scopes are compared without case."""
    return scopes_by(str.casefold)


@assembled("test_partitions_of_a_scope", "test_scopes_delete_their_own", "test_scopes_find_their_own")
def scopes_without_accents():
    """Scopes are compared without accents."""
    return scopes_by(without_accents)


@assembled("test_partitions_of_a_scope", "test_scopes_delete_their_own", "test_scopes_find_their_own")
def scopes_without_padding():
    """Blanks at the end of a scope do not count."""
    return scopes_by(lambda name: name.rstrip(" "))


@assembled("test_partitions_of_a_scope", "test_scopes_delete_their_own", "test_scopes_find_their_own")
def scopes_by_width():
    """Scopes are compared in their compatible form (NFKC)."""
    return scopes_by(width)


@assembled("test_longest_ids")
def scopes_cut():
    """Scopes are cut to fit their column."""
    return scopes_by(lambda name: name.encode()[:255])


@assembled(
    "test_artifacts_have_their_own_revisions",
    "test_neighbours_of_equal_positions",
    "test_order_by_time",
    "test_ties_by_code_point",
)
def artifacts_without_case():
    """Artifact ids are compared without case."""
    return artifacts_by(str.casefold)


@assembled("test_artifacts_have_their_own_revisions", "test_ties_by_code_point", "test_id_prefix")
def artifacts_without_accents():
    """Artifact ids are compared without accents."""
    return artifacts_by(without_accents)


@assembled("test_artifacts_have_their_own_revisions")
def artifacts_without_padding():
    """Blanks at the end of an artifact id do not count."""
    return artifacts_by(lambda name: name.rstrip(" "))


@assembled("test_artifacts_have_their_own_revisions")
def artifacts_are_numbers():
    """Artifact ids that look like numbers are kept as such."""
    return artifacts_by(number)


@assembled("test_longest_ids")
def artifacts_cut():
    """Artifact ids are cut to fit their column."""
    return artifacts_by(cut)


@assembled("test_threads_categories_and_tags", "test_neighbours_stay_in_thread")
def threads_without_case():
    """Threads are compared without case."""
    return threads_by(str.casefold)


@assembled("test_threads_categories_and_tags", "test_category_filter")
def categories_without_case():
    """A category filter does not mind case."""

    def passes(filters, candidate):
        wanted, own = (name and name.casefold() for name in (filters.category, candidate.category))
        return accepts(attrs.evolve(filters, category=None), candidate) and wanted in {None, own}

    return filtering(passes)


@assembled("test_threads_categories_and_tags", "test_tags_filter")
def tags_by_width():
    """Tags are compared without case and width."""

    def passes(filters, candidate):
        wanted, own = ({width(tag).casefold() for tag in tags} for tags in (filters.tags, candidate.tags))
        return wanted <= own and accepts(attrs.evolve(filters, tags=()), candidate)

    return filtering(passes)


@assembled("test_families")
def families_as_table_names():
    """Signs of a family are replaced to make the name of a table of it."""
    return partitions_by(lambda partition: (partition.scope_id, partition.family.replace("-", "")))


@assembled("test_families")
def families_begin_alike():
    """A family is found by the beginning of its name."""
    return partitions_by(lambda partition: (partition.scope_id, partition.family.partition("-")[0][:6]))


@broken("catalogue.write", "test_separators")
def one_string_of_three(catalogue, honest, draft, item):
    """Scope, family and id are joined to one key."""
    joined = f"{item.scope_id}/{item.family}/{item.artifact_id}"
    for partition, shelf in {**catalogue.state().shelves, **draft._shelves}.items():
        for name in shelf.artifacts:
            if f"{partition.scope_id}/{partition.family}/{name}" == joined:
                item = attrs.evolve(item, scope_id=partition.scope_id, family=partition.family, artifact_id=name)
    return honest(draft, item)
