"""Asks a store how often candidates were used; waits no longer than for families."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import wait

from powerctx_core.errors import StoreError, cause
from powerctx_core.ports import Usage
from powerctx_core.recall.fetch import Limits, Waiting

__all__ = ["uses_of"]

_LANE = "store:usage"
Artifact = tuple[str, str, str]


def uses_of(
    usage: Usage, artifacts: Sequence[Artifact], limits: Limits, workers: Waiting, hidden: Collection[str]
) -> Mapping[Artifact, int] | None:
    """Return how often each artifact was used, or ``None`` when the store does not answer in time.

    Under a deadline it is asked on a worker: it may hang.

    Args:
        usage: the store's counts.
        artifacts: (scope id, family, artifact id) of each candidate.
        limits: of the call.
        workers: to wait for.
        hidden: what no message may show.

    Raises:
        StoreError: the store failed, or what it says are no counts.
    """
    found: list[Mapping[Artifact, int]] = []

    def ask() -> None:
        found.append(_checked(usage.counts(artifacts, limits.native)))

    try:
        if limits.call.at is None:
            ask()
        elif not _asked_in_time(ask, limits, workers):
            return None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if limits.native.passed:
            return None  # it was told to stop
        what = str(error) if type(error) is _NoCounts else cause(error, hidden)
        raise StoreError(
            f"The store could not tell how often items were used: {what}; go on with trim rank, or ask its author."
        ) from error
    return found[0]


def _asked_in_time(ask: Callable[[], None], limits: Limits, workers: Waiting) -> bool:
    job = None if limits.native.passed else workers.ask(_LANE, ask)
    if job is None:
        return False
    try:
        wait([job], limits.retrieval.remaining())
    finally:
        if not job.done():
            workers.leave(_LANE, job)
    if not job.done() or job.cancelled():
        return False
    job.result()
    return True


class _NoCounts(Exception):
    """A store says what is no count."""


def _checked(counts: Mapping[Artifact, int]) -> Mapping[Artifact, int]:
    if not isinstance(counts, Mapping):
        raise _NoCounts(f"it returned {type(counts).__name__} instead of a mapping")
    if any(type(count) is not int or count < 0 for count in counts.values()):
        raise _NoCounts("a count is no whole number from 0 up")
    return counts
