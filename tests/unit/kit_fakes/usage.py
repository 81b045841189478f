"""Usage counts that count too much, too little, or for somebody else."""

from __future__ import annotations

import sqlite3
import time
import unicodedata
from contextlib import closing
from functools import partial
from typing import Any

import attrs

from kit_fakes.durable import Filed, filed
from kit_fakes.stores import assembled, broken as broken_store
from powerctx_core.types import Deadline

__all__: list[str] = []

CONTRACT = "usage:UsageContract"
broken = partial(broken_store, contract=CONTRACT)


def folded(artifact: tuple[str, str, str]) -> tuple[str, str, str]:
    """Return an artifact as a collation without regard to case and accents sees it."""
    scope, family, name = artifact
    plain = "".join(c for c in unicodedata.normalize("NFD", name.casefold()) if not unicodedata.combining(c))
    return scope, family, plain


@broken(
    "usage.counts",
    "test_a_purge_deletes_the_count",
    "test_many_artifacts",
    "test_nothing_is_counted_at_first",
    "test_only_what_is_stored_is_counted",
    "test_uses_add_up",
)
def names_what_was_never_used(usage, honest, artifacts, deadline):
    """Every artifact that is asked for has a count."""
    return {artifact: honest([artifact], deadline).get(artifact, 0) for artifact in artifacts}


@broken("usage.counts", "test_a_purge_deletes_the_count", "test_uses_add_up")
def counts_what_is_read(usage, honest, artifacts, deadline):
    """Asking for a count is a use."""
    found = honest(artifacts, deadline)
    usage.__class__.__bases__[0].add(usage, artifacts)
    return found


@broken(
    "usage.add",
    "test_concurrent_uses_add_up",
    "test_counts_are_of_one_artifact_alone",
    "test_many_artifacts",
    "test_only_what_is_stored_is_counted",
    "test_revisions_share_a_count",
    "test_uses_add_up",
)
def counts_once(usage, honest, artifacts):
    """A second use is not counted."""
    known = usage.counts(artifacts, Deadline())
    honest([artifact for artifact in artifacts if artifact not in known])
    return len(artifacts)


@broken("usage.add", "test_many_artifacts", "test_only_what_is_stored_is_counted")
def tells_what_was_named(usage, honest, artifacts):
    """What is not stored is told as counted."""
    honest(artifacts)
    return len(artifacts)


@broken("usage.add", "test_many_artifacts")
def stops_at_the_unknown(usage, honest, artifacts):
    """Behind an artifact that is not stored nothing is counted."""
    return next((number for number, artifact in enumerate(artifacts) if not honest([artifact])), len(artifacts))


@broken("usage.counts", "test_counts_are_of_one_artifact_alone")
def ignores_accents(usage, honest, artifacts, deadline):
    """Ids are compared without regard to case and accents."""
    counts: dict[Any, int] = {}
    for partition, shelf in usage._catalogue.state().shelves.items():
        for name, uses in shelf.used.items():
            artifact = folded((partition.scope_id, partition.family, name))
            counts[artifact] = counts.get(artifact, 0) + uses
    return {each: counts[folded(each)] for each in artifacts if folded(each) in counts}


@broken("shelf.write", "test_revisions_share_a_count")
def begins_anew_with_a_revision(shelf, honest, item, now):
    """A new revision has no uses."""
    result = honest(item, now)
    if result.outcome != "unchanged":
        shelf.used.pop(item.artifact_id, None)
    return result


@broken("shelf.use", "test_revisions_share_a_count")
def leaves_out_the_retired(shelf, honest, artifact_id):
    """What is retired is not counted."""
    artifact = shelf.artifacts.get(artifact_id)
    return artifact is not None and not artifact.retired and honest(artifact_id)


@broken("shelf.purge", "test_a_purge_deletes_the_count")
def outlives_a_purge(shelf, honest, artifact_id):
    """The count of a purged artifact stays, for whoever takes its id next."""
    uses = shelf.used.get(artifact_id)
    purged = honest(artifact_id)
    if uses is not None:
        shelf.used[artifact_id] = uses
    return purged


@broken("usage.add", "test_counting_changes_nothing_else")
def touches_the_item(usage, honest, artifacts):
    """A use is written into the item as a revision."""
    with usage._catalogue.snapshot(Deadline()) as snapshot:
        items = [found.item for each in artifacts if (found := snapshot.latest(*each)) is not None]
    usage._catalogue.put([attrs.evolve(item, meta={"used": True}) for item in items])
    return honest(artifacts)


@broken("usage.counts", "test_many_artifacts")
def answers_for_a_hundred(usage, honest, artifacts, deadline):
    """Of a long list the first hundred are looked up."""
    return honest(artifacts[:100], deadline)


@assembled("test_concurrent_uses_add_up", contract=CONTRACT)
def reads_then_writes() -> dict[str, Any]:
    """Two calls that count at the same time lose one."""

    def add(usage: Any, honest: Any, artifacts: Any) -> int:
        counts = usage.counts(artifacts, Deadline())
        time.sleep(0.002)
        added = honest(artifacts)
        for (scope, family, name), count in counts.items():
            usage._catalogue.state().shelf(scope, family).used[name] = count + 1
        return int(added)

    return {"usage.add": add}


@filed("test_counts_stay", contract=CONTRACT)
class Forgets_uses(Filed):  # noqa: N801 - named as the fault
    """Opening the store again clears the counts."""

    def opened(self):
        """Open the file, and delete what it knew of uses."""
        store = super().opened()
        if self.count > 1:
            with closing(sqlite3.connect(self.path)) as connection, connection:
                connection.execute("DELETE FROM usage_count")
        return store

    @property
    def usage(self):
        """The counts."""
        return self.inner.usage
