"""Reads the texts of candidates beyond their heads: those of the plan alone, a few at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager
from functools import partial
from typing import Protocol

from powerctx_core.assemble.forms import Read
from powerctx_core.ports import Snapshot
from powerctx_core.recall.fetch import Limits
from powerctx_core.types import Address, Deadline, Hit

__all__ = ["AT_ONCE", "read_bodies"]

AT_ONCE = 8
"""Bodies that are read at the same time."""
_LANE = "store:bodies-"


class Queueing(Protocol):
    """Workers; see :class:`powerctx_core.workers.Lanes`."""

    def queue(self, lane: str, job: Callable[[], None]) -> Future[None]:
        """Run *job* on the next free worker of *lane*."""

    def leave(self, lane: str, future: Future[None]) -> None:
        """Stop waiting."""


def read_bodies(
    hits: Sequence[Hit],
    snapshot: Callable[[Deadline], AbstractContextManager[Snapshot]],
    limits: Limits,
    workers: Queueing,
    most: int,
) -> tuple[Mapping[Address, Read], bool]:
    """Return what was read, and whether all of it came in time.

    Revisions never change, so that each may be read in a snapshot of its own.

    Args:
        hits: whose texts are wanted.
        snapshot: opens a read view.
        limits: of the call.
        workers: to read on.
        most: characters of one text that are kept.

    Raises:
        StoreError: the store failed.
    """
    found: dict[Address, Read] = {}

    def take(addresses: Sequence[Address]) -> None:
        with snapshot(limits.native) as view:
            for address in addresses:
                if limits.native.passed:
                    return
                revision = view.get(address)
                if revision is not None:
                    text = revision.item.text
                    found[address] = Read(text[:most], revision.item.overview, len(text) <= most)

    addresses = [hit.address for hit in hits]
    lots = [addresses[start::AT_ONCE] for start in range(min(AT_ONCE, len(addresses)))]
    if len(lots) == 1 and limits.call.at is None:
        take(lots[0])
        return found, True
    jobs = {
        f"{_LANE}{number}": workers.queue(f"{_LANE}{number}", partial(take, lot)) for number, lot in enumerate(lots)
    }
    try:
        wait(jobs.values(), limits.retrieval.remaining())
    finally:
        for lane, job in jobs.items():
            if not job.done():
                workers.leave(lane, job)
    done = [job for job in jobs.values() if job.done() and not job.cancelled()]
    for job in done:
        job.result()
    # A worker that was left may still add to it.
    return dict(found), len(done) == len(jobs) and not limits.native.passed
