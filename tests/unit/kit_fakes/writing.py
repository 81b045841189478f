"""Stores that write what they should not, or do not write what they should."""

from __future__ import annotations

from datetime import UTC, datetime

import attrs

from kit_fakes.stores import FORGETFUL, broken
from powerctx_core.errors import StoreError
from powerctx_core.memory_state import Artifact
from powerctx_core.ports import Capability
from powerctx_core.types import Partition


@broken("store.status", "test_says_what_it_can", says=FORGETFUL | {Capability.DURABLE})
def boasts(store, honest):
    """The record promises more than the store can do."""
    return honest()


@broken(
    "snapshot.fetch", "test_empty", "test_empty_again", "test_keys_are_not_reused", "test_snapshots_beside_each_other"
)
def fetches_something(snapshot, honest, request):
    """No key makes an empty list in parentheses, which is an error of syntax."""
    if not request.keys:
        raise StoreError('near ")": syntax error')
    return honest(request)


@broken(
    "snapshot.lexical",
    "test_empty",
    "test_empty_again",
    "test_nothing_matched_is_not_nothing_stored",
    "test_other_partitions_do_not_count",
    "test_several_requests",
    "test_snapshots_beside_each_other",
)
def knows_no_scope(snapshot, honest, requests):
    """A scope that was never written is an error."""
    for request in requests:
        if request.partition not in snapshot.state.shelves:
            raise StoreError("no such partition")
    return honest(requests)


@broken("catalogue.retire", "test_empty", "test_empty_again", "test_families", "test_retire")
def retires_what_is_not_there(catalogue, honest, artifacts):
    """Artifacts that do not exist are counted as retired."""
    honest(artifacts)
    return len(artifacts)


@broken("snapshot.partitions", "test_partitions_of_a_scope", "test_retire_all", "test_scopes_delete_their_own")
def lists_empty_partitions(snapshot, honest):
    """A partition whose items are all retired stays in the list."""
    return {partition: len(shelf.current) for partition, shelf in snapshot.state.shelves.items()}


@broken("shelf.write", "test_outcomes")
def does_not_tell_revival(shelf, honest, item, now):
    """The revival of a retired artifact is reported as an update."""
    result = honest(item, now)
    return attrs.evolve(result, outcome={"revived": "updated"}.get(result.outcome, result.outcome))


@broken("shelf.write", "test_outcomes", "test_states_of_revisions")
def revives_in_place(shelf, honest, item, now):
    """A revived artifact keeps the number of the revision that was retired."""
    artifact = shelf.artifacts.get(item.artifact_id)
    if artifact is not None and artifact.retired:
        shelf.artifacts[item.artifact_id] = Artifact(artifact.rows[:-1], retired=True)
    return honest(item, now)


@broken(
    "shelf.write",
    "test_back_to_older_content",
    "test_batch_sees_itself",
    "test_every_field_counts",
    "test_statistics_follow",
)
def collapses_what_comes_back(shelf, honest, item, now):
    """Content is looked for among all revisions, so that A, B, A are two."""
    artifact = shelf.artifacts.get(item.artifact_id)
    known = [] if artifact is None or artifact.retired else artifact.rows
    for row in known:
        if row.digest == item.digest:
            return honest(known[-1].item, now)
    return honest(item, now)


@broken("shelf.write", "test_every_field_counts", "test_put_what_was_read", "test_round_trip")
def compares_objects(shelf, honest, item, now):
    """Metadata is compared as objects, so that equal content is written once more."""
    artifact = shelf.artifacts.get(item.artifact_id)
    if item.meta and artifact is not None:
        newest = attrs.evolve(artifact.rows[-1], digest=b"")
        shelf.artifacts[item.artifact_id] = attrs.evolve(artifact, rows=(*artifact.rows[:-1], newest))
    return honest(item, now)


@broken("shelf.write", "test_every_field_counts")
def compares_without_metadata(shelf, honest, item, now):
    """Metadata is not compared, so a change of it is lost."""
    artifact = shelf.artifacts.get(item.artifact_id)
    newest = None if artifact is None or artifact.retired else artifact.rows[-1].item
    if newest is not None and attrs.evolve(newest, meta={}).digest == attrs.evolve(item, meta={}).digest:
        return honest(newest, now)
    return honest(item, now)


@broken("catalogue.write", "test_unchanged_keeps_all")
def touches(catalogue, honest, draft, item):
    """Equal content that is put again moves the time of the last update."""
    result = honest(draft, item)
    if result.outcome == "unchanged" and item.updated_at and (shelf := catalogue.state().holder(result.key)):
        row = shelf.current[result.key]
        touched = attrs.evolve(row.item, updated_at=item.updated_at)
        row = attrs.evolve(row, item=touched, details=attrs.evolve(row.details, updated_at=touched.updated_at))
        shelf.current[result.key] = row
        shelf.artifacts[item.artifact_id] = Artifact((*shelf.artifacts[item.artifact_id].rows[:-1], row), retired=False)
    return result


@broken("snapshot.latest", "test_abstract", "test_put_what_was_read", "test_round_trip")
def fills_in_the_abstract(snapshot, honest, scope_id, family, artifact_id):
    """A read gives the derived abstract as if the item had been given it."""
    revision = honest(scope_id, family, artifact_id)
    if revision is None or revision.item.abstract is not None:
        return revision
    return attrs.evolve(revision, item=attrs.evolve(revision.item, abstract=revision.item.text.partition(".")[0][:9]))


@broken("snapshot.get", "test_revisions_never_change", "test_get_exact_revision")
def updates_in_place(snapshot, honest, address):
    """An old revision shows the newest content."""
    revision = honest(address)
    newest = snapshot.history(address.scope_id, address.family, address.artifact_id)[-1:]
    return revision and attrs.evolve(revision, item=newest[0].item)


@broken("snapshot.history", "test_states_of_revisions")
def keeps_states(snapshot, honest, scope_id, family, artifact_id):
    """A revision that was retired stays so when the next one revives the artifact."""
    revisions = honest(scope_id, family, artifact_id)
    texts = [revision.item.text for revision in revisions]
    return tuple(
        attrs.evolve(revision, state="retired")
        if revision.state == "superseded" and texts[n + 1] == texts[n]
        else revision
        for n, revision in enumerate(revisions)
    )


@broken("snapshot.get", "test_get_exact_revision")
def counts_from_the_end(snapshot, honest, address):
    """The revision -1 is the newest."""
    revisions = snapshot.history(address.scope_id, address.family, address.artifact_id)
    return revisions[address.revision] if -len(revisions) <= address.revision < 0 else honest(address)


@broken("snapshot.get", "test_get_exact_revision")
def hides_what_is_retired(snapshot, honest, address):
    """A retired revision is not found by its exact address."""
    revision = honest(address)
    return None if revision is not None and revision.state == "retired" else revision


@broken("shelf.retire", "test_retire")
def counts_what_was_retired(shelf, honest, artifact_id):
    """An artifact that was retired before is counted again."""
    artifact = shelf.artifacts.get(artifact_id)
    return honest(artifact_id) or (artifact is not None and artifact.retired)


@broken("shelf.purge", "test_purge_deletes_all")
def keeps_old_revisions(shelf, honest, artifact_id):
    """A purge of a retired artifact leaves its older revisions."""
    artifact = shelf.artifacts.get(artifact_id)
    purged = honest(artifact_id)
    if artifact is not None and artifact.retired and len(artifact.rows) > 1:
        shelf.artifacts[artifact_id] = Artifact(artifact.rows[:-1], retired=True)
    return purged


@broken("shelf.purge", "test_purge_deletes_all", "test_artifacts_have_their_own_revisions")
def counts_artifacts(shelf, honest, artifact_id):
    """A purge returns the number of artifacts, not of revisions."""
    return min(1, honest(artifact_id))


@broken("catalogue.write", "test_batch_sees_itself")
def does_not_see_its_batch(catalogue, honest, draft, item):
    """Items are compared with what was there before the batch."""
    shelf = catalogue.state().shelves.get(Partition(item.scope_id, item.family))
    before = shelf and shelf.artifacts.get(item.artifact_id)
    result = honest(draft, item)
    if result.outcome == "updated" and before is None:
        return attrs.evolve(result, outcome="created")
    return result


@broken("catalogue.put", "test_batch_of_partitions")
def sorts_the_results(catalogue, honest, items):
    """The results come by partition, not in the order of the batch."""
    return sorted(honest(items), key=lambda result: (result.address.scope_id, result.address.family))


@broken("catalogue.put", "test_empty_batch")
def commits_nothing(catalogue, honest, items):
    """An empty batch is a commit like any other."""
    if not items:
        catalogue.publish(catalogue.draft())
    return honest(items)


@broken("catalogue.put", "test_batch_atomicity")
def keeps_half_a_batch(catalogue, honest, items):
    """A batch is stored item by item, until one is refused."""
    return [result for item in items for result in honest([item])]


@broken("catalogue.put", "test_atomicity_of_a_large_batch")
def splits_large_batches(catalogue, honest, items):
    """Each thousand items are a transaction of their own."""
    return [result for start in range(0, len(items), 1000) for result in honest(items[start : start + 1000])]


@broken("catalogue.put", "test_large_batch")
def takes_a_few(catalogue, honest, items):
    """More items than one statement has parameters are refused."""
    if len(items) > 4000:
        raise StoreError("too many SQL variables")
    return honest(items)


@broken("catalogue.write", "test_derived_ids")
def invents_ids(catalogue, honest, draft, item):
    """An item without id gets a number."""
    if item.artifact_id is None:
        item = attrs.evolve(item, artifact_id=f"generated-{draft._issued}-{len(item.text)}-{id(item)}")
    return honest(draft, item)


@broken("shelf.write", "test_times_of_revisions")
def forgets_the_beginning(shelf, honest, item, now):
    """Every revision is created now."""
    return honest(item if item.created_at else attrs.evolve(item, created_at=now), now)


@broken("catalogue.write", "test_times_of_revisions")
def tells_local_time(catalogue, honest, draft, item):
    """What is not given is the time of the wall, taken for UTC."""
    if item.updated_at is None:
        item = attrs.evolve(item, updated_at=datetime.now(UTC).replace(hour=0, minute=0, second=0))
    return honest(draft, item)


@broken("catalogue.retire", "test_changes_count_writes")
def retires_in_silence(catalogue, honest, artifacts):
    """A retirement does not move the change counter."""
    before = catalogue.state().changes
    count = honest(artifacts)
    catalogue._state = attrs.evolve(catalogue.state(), changes=before)
    return count


@broken("catalogue.put", "test_changes_count_writes", "test_empty_batch")
def moves_for_nothing(catalogue, honest, items):
    """Putting what is there already moves the change counter."""
    before = catalogue.state().changes
    results = honest(items)
    if catalogue.state().changes == before:
        catalogue._state = attrs.evolve(catalogue.state(), changes=before + 1)
    return results


@broken("store.status", "test_reading_writes_nothing")
def counts_reads(store, honest):
    """Asking for the status is noted in the store, as a change."""
    status = honest()
    if not status.problems:
        store.catalogue.publish(store.catalogue.draft())
    return status


@broken("catalogue.reindex", "test_reindex_limit")
def reindexes_without_limit(catalogue, honest, *, limit=None):
    """The limit of what is re-analysed at once is not kept."""
    return honest()


@broken("catalogue.reindex", "test_reindex", "test_reindex_limit")
def reindexes_in_silence(catalogue, honest, *, limit=None):
    """Re-analysing all tells no progress."""
    honest(limit=limit)
    return iter((0,))


@broken("store.status", "test_closed_store", "test_status_tells_no_secret")
def status_raises(store, honest):
    """The status of a closed store is an error."""
    store.catalogue.state()
    return honest()


@broken("store.status", "test_status_of_a_store")
def facts_are_numbers(store, honest):
    """The facts of the status are not text."""
    status = honest()
    return attrs.evolve(status, facts={name: int(value) for name, value in status.facts.items()})


@broken("store.close", "test_closed_store")
def closes_once(store, honest):
    """A second close is an error."""
    if store.catalogue._state is None:
        if getattr(store, "closed", False):
            return
        store.closed = True
        raise StoreError("closed already")
    honest()


@broken("store.close", "test_closed_store")
def goes_on_after_close(store, honest):
    """A closed store is used on as if nothing had happened."""


@broken("snapshot.latest", "test_retire")
def reads_what_is_retired(snapshot, honest, scope_id, family, artifact_id):
    """A retired artifact is still the latest."""
    revisions = snapshot.history(scope_id, family, artifact_id)
    return revisions[-1] if revisions else None


REVISIONS = "revisions:RevisionContract"


@broken("shelf.purge", "test_keys_are_not_reused", contract=REVISIONS)
def numbers_from_the_highest(shelf, honest, artifact_id):
    """The next key is one above the highest that is left, as without AUTOINCREMENT."""
    purged = honest(artifact_id)
    rows = [row for artifact in shelf.artifacts.values() for row in artifact.rows]
    shelf.sequence = max((row.key & 0xFFFFFFFF for row in rows), default=0)
    return purged


@broken("catalogue.purge", "test_keys_are_not_reused", contract=REVISIONS)
def numbers_partitions_anew(catalogue, honest, artifacts):
    """The number of a partition in which nothing is left is given to the next one, and so are its keys."""
    purged = honest(artifacts)
    state = catalogue.state()
    catalogue._state = attrs.evolve(state, issued=max(state.numbers, default=0))
    return purged


@broken("store.status", "test_status_tells_no_secret", contract="life:LifeContract")
def tells_its_password(store, honest):
    """The status shows the URL as it was given, with its password."""
    return attrs.evolve(honest(), location=store.url)


@broken(
    "catalogue.put",
    "test_agrees_with_the_reference",
    "test_answer_types",
    "test_derived_ids",
    "test_revisions_never_change",
)
def gives_results_one_by_one(catalogue, honest, items):
    """The results of a batch are an iterator."""
    return iter(honest(items))
