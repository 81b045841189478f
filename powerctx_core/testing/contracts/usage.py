"""Usage counts: what is counted, for whom, and how long it stays."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import cast

import pytest

from powerctx_core.ports import Capability, CountingStore, Store, Usage
from powerctx_core.testing.contracts.store import StoreContract
from powerctx_core.testing.database import Database
from powerctx_core.types import Deadline

__all__ = ["UsageContract"]

Artifact = tuple[str, str, str]


def named(artifact_id: str, scope_id: str = "s", family: str = "memory") -> Artifact:
    """Return how an artifact is named to a store."""
    return scope_id, family, artifact_id


class UsageContract(StoreContract):
    """What a store that keeps usage counts must hold to.  A store that keeps none does not subclass it."""

    @pytest.fixture
    def usage(self, store: Store) -> Usage:
        """Give the counts of a fresh store."""
        return cast("CountingStore", store).usage

    def test_nothing_is_counted_at_first(self, db: Database, usage: Usage) -> None:
        """What was never said to be used has no count, stored or not, and reading does not count."""
        assert usage.counts([named("a")], Deadline()) == {}
        db.add("a")
        db.current("a")
        db.listing()
        db.found("t")

        assert usage.counts([named("a"), named("b")], Deadline()) == {}

    def test_uses_add_up(self, db: Database, usage: Usage) -> None:
        """Every call counts one more use of each of its artifacts."""
        for name in "abc":
            db.add(name)

        assert [usage.add([named(name) for name in names]) for names in ("ab", "bc", "b")] == [2, 2, 1]
        assert {named("a"): 1, named("b"): 3, named("c"): 1} == usage.counts([named(n) for n in "abcd"], Deadline())
        assert {named("b"): 3} == usage.counts([named("b")], Deadline())
        assert usage.counts([], Deadline()) == {}

    def test_only_what_is_stored_is_counted(self, db: Database, usage: Usage) -> None:
        """An unknown artifact, scope or family is not counted, nor made; the others of the call are."""
        assert usage.add([named("a")]) == 0
        db.add("a")

        assert usage.add([named("a"), named("b"), named("a", "elsewhere"), named("a", family="other")]) == 1
        assert usage.add([]) == 0
        unknown = [named("b"), named("a", "elsewhere"), named("a", family="other")]
        assert usage.counts(unknown, Deadline()) == {}
        assert db.listed() == ["a"]
        assert db.listed("elsewhere") == []

    def test_counts_are_of_one_artifact_alone(self, db: Database, usage: Usage) -> None:
        """Scopes and ids that differ in case, accent, width or a space at the end do not share a count."""
        names = ["a", "A", "á", "a\u0301", "ａ", "a ", "a/b", "😀", "资料"]
        for number, name in enumerate(names):
            db.add(name)
            db.add("x", scope_id=name)
            for _ in range(number + 1):
                usage.add([named(name), named("x", name)])
        expected = {named(name): number for number, name in enumerate(names, start=1)}
        scopes = {named("x", name): number for number, name in enumerate(names, start=1)}

        assert {**expected, **scopes} == usage.counts([*expected, *scopes], Deadline())

    def test_revisions_share_a_count(self, db: Database, usage: Usage) -> None:
        """An update, a retirement and a revival keep the count, and what is retired is counted."""
        db.add("a", "1")
        usage.add([named("a")])
        db.add("a", "2")
        usage.add([named("a")])
        db.retire("a")

        assert usage.add([named("a")]) == 1
        db.add("a", "3")
        assert {named("a"): 3} == usage.counts([named("a")], Deadline())

    def test_a_purge_deletes_the_count(self, db: Database, usage: Usage) -> None:
        """What is purged and stored again begins anew; the others keep theirs."""
        for name in "ab":
            db.add(name)
        usage.add([named("a"), named("b")])
        db.purge("a")
        db.add("a")

        assert {named("b"): 1} == usage.counts([named("a"), named("b")], Deadline())
        usage.add([named("a")])
        assert {named("a"): 1} == usage.counts([named("a")], Deadline())

    def test_counting_changes_nothing_else(self, db: Database, usage: Usage) -> None:
        """Revisions, what is found and their order stay as they are."""
        for name in "ab":
            db.add(name, "t")
        before = db.listing(), db.history("a"), db.found("t")
        usage.add([named("a")])

        assert before == (db.listing(), db.history("a"), db.found("t"))

    def test_many_artifacts(self, db: Database, usage: Usage) -> None:
        """A call may name as many artifacts as are delivered in a day."""
        names = [f"{number:04}" for number in range(1500)]
        for name in names[::500]:
            db.add(name)

        assert usage.add([named(name) for name in names]) == 3
        assert {named(name): 1 for name in names[::500]} == usage.counts([named(name) for name in names], Deadline())

    def test_concurrent_uses_add_up(self, db: Database, usage: Usage) -> None:
        """Calls on several threads lose nothing."""
        for name in "ab":
            db.add(name)
        threads = [
            threading.Thread(target=lambda: [usage.add([named("a"), named("b")]) for _ in range(10)]) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert {named("a"): 40, named("b"): 40} == usage.counts([named("a"), named("b")], Deadline())

    @pytest.mark.needs(Capability.DURABLE)
    def test_counts_stay(self, db: Database, usage: Usage, reopen: Callable[[], Store]) -> None:
        """The counts are there when the store is opened again."""
        db.add("a")
        usage.add([named("a")])

        assert {named("a"): 1} == cast("CountingStore", reopen()).usage.counts([named("a")], Deadline())
