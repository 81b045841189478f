"""What is stored of one artifact, by its URI, or the words that say why there is nothing."""

from __future__ import annotations

from powerctx_core.arguments import artifact_named, as_text
from powerctx_core.errors import NotFound
from powerctx_core.ports import Snapshot
from powerctx_core.types import Address, Revision

__all__ = ["history_of", "revision_of"]

_PARTS_MAX = 1000
"""Parts that are looked for, to name the last one."""


def revision_of(snapshot: Snapshot, uri: str | Address, scope_id: str | None) -> Revision:
    """Return the exact revision of an address, or the current one of a URI without ``@revision``.

    Raises:
        InvalidRequest: *uri* is none, whole or relative to *scope_id*.
        NotFound: nothing is stored there, or (without a revision) it was retired.
    """
    scope_id, family, artifact_id, revision = artifact_named(uri, scope_id)
    if revision is None:
        found = snapshot.latest(scope_id, family, artifact_id)
    else:
        found = snapshot.get(Address(scope_id, family, artifact_id, revision))
    if found is None:
        parts = _parts_told(snapshot, scope_id, family, artifact_id)
        raise NotFound(f"{as_text(uri)} {parts or 'is not stored (or retired); `powerctx history` shows what was.'}")
    return found


def history_of(snapshot: Snapshot, uri: str | Address, scope_id: str | None) -> tuple[Revision, ...]:
    """Return every revision of an artifact, oldest first; a revision in *uri* is ignored.

    Raises:
        InvalidRequest: *uri* is none, whole or relative to *scope_id*.
        NotFound: nothing was ever stored there, or it was purged.
    """
    scope_id, family, artifact_id, _ = artifact_named(uri, scope_id)
    revisions = snapshot.history(scope_id, family, artifact_id)
    if not revisions:
        parts = _parts_told(snapshot, scope_id, family, artifact_id)
        raise NotFound(f"{as_text(uri)} {parts or 'has no revisions.'}")
    return revisions


def _parts_told(snapshot: Snapshot, scope_id: str, family: str, artifact_id: str) -> str | None:
    """Return how to name an artifact that is not there as such, but was split into parts; ``None`` when it was not."""
    last: Revision | None = None
    for number in range(1, _PARTS_MAX + 1):
        found = snapshot.latest(scope_id, family, f"{artifact_id}#{number}")
        if found is None:
            break
        last = found
    if last is None:
        return None
    first = Address(scope_id, family, f"{artifact_id}#1", 1).stem
    return f"is stored in parts, as a long document is; name each of them: {first} to {last.address.stem}."
