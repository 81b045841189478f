"""Durability and processes: what was acknowledged stays, whoever writes, closes or dies."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

from powerctx_core.ports import Capability, Store
from powerctx_core.testing.contract import agree
from powerctx_core.testing.contracts.life import check_empty
from powerctx_core.testing.contracts.snapshots import view
from powerctx_core.testing.contracts.store import StoreContract
from powerctx_core.testing.database import Database
from powerctx_core.testing.process import batch
from powerctx_core.types import Item, Partition

__all__ = ["ProcessContract"]

BATCHES, SIZE = 15, 2
KILLS = ((0, 0.0), (1, 0.003), (4, 0.0), (9, 0.011))
"""After how many acknowledged batches, and how many seconds later, a writer is killed."""
ENDLESS = 100_000
PATIENCE = 60
COUNTER = "the change counter"


def held(db: Database) -> dict[str, Any]:
    """Return what a store holds of the artifacts a, b and c: what it is, in words, and what is compared."""
    with db.snapshot() as snapshot:
        seen = view(snapshot)
        histories = {name: snapshot.history("s", "memory", name) for name in "abc"}
    texts = {
        f"number, state and text of the revisions of {name!r}": [
            (each.address.revision, each.state, each.item.text) for each in revisions
        ]
        for name, revisions in histories.items()
    }
    return {
        "the number of items by partition": seen.partitions,
        "the ids that are listed": [each.address.artifact_id for each in seen.listing],
        "the ids that words find": sorted(seen.members),
        **texts,
        "occurrences and length of what words find": seen.members,
        "the statistics of the partition": seen.statistics,
        "the revisions as a whole": histories,
        "the details of what is listed": seen.listing,
        "the addresses of what is fetched": seen.addresses,
        COUNTER: seen.changes,
    }


class Start(Protocol):
    """Starts a process that writes to the test's store; see :mod:`powerctx_core.testing.process`."""

    def __call__(self, name: str, *, batches: int = ..., size: int = ..., end: str = ...) -> subprocess.Popen[str]:
        """Return the running process, whose output is the numbers of the batches that were acknowledged."""


class ProcessContract(StoreContract):
    """A durable store keeps what it acknowledged, between processes and after a kill."""

    @pytest.fixture
    def start(self, start_process: Callable[..., subprocess.Popen[str]]) -> Start:
        """Give a function that starts a writer; writers are killed at the end."""

        def start(name: str, *, batches: int = BATCHES, size: int = SIZE, end: str = "close") -> subprocess.Popen[str]:
            return start_process("-m", "powerctx_core.testing.process", name=name, batches=batches, size=size, end=end)

        return start

    @pytest.mark.needs(Capability.DURABLE)
    def test_reading_creates_nothing(self, tmp_path: Path, open_again: Callable[[], Store]) -> None:
        """Opening and reading a store that is not there makes no file and no folder: the first write does.

        What a store keeps outside of pytest's ``tmp_path`` is not seen.
        """
        before = set(tmp_path.rglob("*"))
        for _ in range(2):
            store = open_again()
            check_empty(Database(store))
            store.status()
            store.close()
        made = sorted(str(path.relative_to(tmp_path)) for path in set(tmp_path.rglob("*")) - before)

        agree("files and folders that are made by opening and reading", [], made)

    @pytest.mark.needs(Capability.DURABLE)
    def test_durable(self, db: Database, reopen: Callable[[], Store]) -> None:
        """After closing and opening all is there, or still nothing, and goes on where it was."""
        agree("partitions of a fresh store", {}, db.partitions())
        db = Database(reopen())
        nothing = (db.partitions(), db.listing(), db.history("a"))
        agree("partitions, listing and history of an empty store that was closed and opened", ({}, (), []), nothing)
        db.put(
            db.item("a", "apple", tags=("x",)),
            db.item("a", "pear 北京大学"),
            db.item("b", "apple"),
            db.item("c", "apple"),
        )
        db.retire("b")
        db.purge("c")
        before = held(db)
        again = Database(reopen())
        after = held(again)
        for what, expected in before.items():
            agree(f"after closing and opening, {what}", expected, after[what])
        outcomes = again.put(again.item("a", "pear 北京大学"), again.item("b", "apple"))

        agree("outcomes of what is current, and of what was retired, put again", ["unchanged", "revived"], outcomes)
        counted = again.changes()
        assert counted > before[COUNTER], (
            f"{COUNTER} is {counted} after another write, and was {before[COUNTER]} before"
        )

    @pytest.mark.needs(Capability.DURABLE, Capability.MULTI_PROCESS)
    def test_opened_twice(self, db: Database, open_again: Callable[[], Store]) -> None:
        """What is written through one opened store is seen through another at once, both ways."""
        other = Database(open_again())
        for number in range(5):
            db.add("a", f"apple {number}")
            assert other.found(str(number)) == {"a"}
            other.add("b", f"pear {number}")
            assert db.found(str(number)) == {"a", "b"}
            assert db.changes() == other.changes()
        other.retire("a")

        assert db.lexical("apple pear").statistics == other.lexical("apple pear").statistics
        assert db.listed() == other.listed() == ["b"]

    @pytest.mark.needs(Capability.DURABLE, Capability.MULTI_PROCESS)
    def test_processes_lose_nothing(self, db: Database, start: Start) -> None:
        """Processes that write at once lose nothing; neither does one that is killed after its writes."""
        names = "pqr"
        writers = [start(name, end="die" if name == "r" else "close") for name in names]
        output = [writer.communicate(timeout=PATIENCE)[0] for writer in writers]
        written = [db.item(f"{name}-{n}-{m}") for name in names for n in range(BATCHES) for m in range(SIZE)]
        shared = db.history("shared")

        assert [writer.returncode == 0 for writer in writers] == [True, True, False]
        assert output == ["".join(f"{n}\n" for n in range(BATCHES))] * 3
        assert [number for number, _, _ in shared] == list(range(1, BATCHES * 3 + 1))
        assert {text for _, _, text in shared} == {f"apple {name} {n}" for name in names for n in range(BATCHES)}
        assert db.found("apple", k=1000) == {"shared", *(str(item.artifact_id) for item in written)}
        assert db.lexical("apple").statistics.document_frequency == {"appl": len(written) + 1}
        assert db.partitions() == {Partition("s", "memory"): len(written) + 1}
        assert db.add("after", "apple") == "created"

    @pytest.mark.needs(Capability.DURABLE, Capability.MULTI_PROCESS)
    def test_reads_beside_a_process(self, db: Database, start: Start) -> None:
        """While another process writes, every read sees whole batches, and more of them as time goes by."""
        db.put(*batch("w", 0, SIZE))
        writer = start("w", batches=BATCHES)
        seen = [SIZE + 1]
        while writer.poll() is None:
            with db.snapshot() as snapshot:
                found = len(snapshot.lexical([db.request("apple", k=1000)])[0].hits)
                counted = snapshot.partitions()[Partition("s", "memory")]
            assert counted == found, "of one snapshot: partitions() counts as many as lexical() finds"
            seen.append(found)

        assert writer.returncode == 0
        assert seen == sorted(seen)
        assert {number % SIZE for number in seen} == {1}
        assert len(db.found("apple", k=1000)) == BATCHES * SIZE + 1

    @pytest.mark.needs(Capability.DURABLE)
    def test_killed_writers(self, start: Start, open_again: Callable[[], Store]) -> None:
        """After a kill all that was acknowledged is there, whole batches only, counted right; writing goes on."""
        size = 20
        items: list[Item] = []
        for kill, (wanted, later) in enumerate(KILLS):
            name = f"k{kill}"
            acknowledged = self._killed(start(name, batches=ENDLESS, size=size), wanted, later)
            store = open_again()
            db = Database(store)
            ids = set(db.listed(limit=ENDLESS))
            written = sum(name_.startswith(f"{name}-") for name_ in ids) // size
            batches = [batch(name, number, size) for number in range(written)]
            items = [item for item in items if item.artifact_id != "shared"]
            items += [item for own in batches for item in own if item.artifact_id != "shared"]

            assert written >= len(acknowledged), name
            assert ids == {*(item.artifact_id for item in items), "shared"}, name
            assert db.current("shared").text == f"apple {name} {written - 1}", name
            items.append(db.current("shared"))
            db.check_members(f"apple {name} 0", items)
            db.check_statistics(f"apple {name} 0", items)
            assert db.add(f"after {name}", "apple") == "created", name
            items.append(db.item(f"after {name}", "apple"))
            store.close()

    @staticmethod
    def _killed(writer: subprocess.Popen[str], wanted: int, later: float) -> list[str]:
        """Kill a writer some time after it has told of so many batches, and return all that it told."""
        assert writer.stdout is not None
        told = [writer.stdout.readline() for _ in range(wanted + 1)]
        time.sleep(later)
        writer.kill()
        rest, _ = writer.communicate(timeout=PATIENCE)
        return [*told, *(line for line in rest.splitlines(keepends=True) if line.endswith("\n"))]
