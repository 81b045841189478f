"""Ledgers in a file that many threads and two openings write at once."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

from powerctx_core.ports import Recording
from powerctx_core.types import Address, Deadline, Delivered, SessionKey

KEY = SessionKey("s", "session")
THREADS, CALLS = 16, 100
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_sixteen_threads_lose_nothing(opened):
    """Each of 16 threads records 100 calls of one session, on two openings of one file; the latest of each stand."""
    stores = [opened(), opened()]
    failures = []

    def deliver(thread: int) -> None:
        try:
            for turn in range(CALLS):
                given = [
                    Delivered(
                        uri=Address("s", "memory", f"{thread}-{place}", 1).uri,
                        turn=turn,
                        detail="full",
                        at=NOW,
                    )
                    for place in (0, turn % 10)
                ]
                stores[thread % 2].ledger.record(Recording(key=KEY, delivered=given, oldest=0))
        except Exception as error:  # noqa: BLE001 - told below
            failures.append(error)

    threads = [threading.Thread(target=deliver, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    known = stores[0].ledger.delivered(KEY, Deadline())

    assert failures == []
    expected = {
        Address("s", "memory", f"{thread}-{place}", 1).uri: CALLS - 1 if place in (0, 9) else CALLS - 10 + place
        for thread in range(THREADS)
        for place in range(10)
    }
    assert {uri: entry.turn for uri, entry in known.items()} == expected
