"""Neighbours in a thread."""

from __future__ import annotations

from typing import Any

from powerctx_core.ports import LexicalRequest, NeighbourRequest
from powerctx_core.testing.contracts.store import StoreContract
from powerctx_core.testing.database import Database
from powerctx_core.text.terms import analyse_query
from powerctx_core.types import Partition

__all__ = ["NeighbourContract"]


def talk(db: Database, places: dict[str, int], thread: str = "h", **fields: Any) -> None:
    """Store items of one thread, id by position."""
    for name, position in places.items():
        db.add(name, "word", thread=thread, position=position, **fields)


class NeighbourContract(StoreContract):
    """Neighbours: the current items just before and after an item, in its thread, partition and revision."""

    def test_neighbours_at_ends_and_gaps(self, db: Database) -> None:
        """The neighbours are the next before and after, however far; the ends have one, a lonely item none."""
        talk(db, {"a": 0, "b": 1, "c": 7, "d": (1 << 62) - 1})
        talk(db, {"lonely": 3}, thread="other")

        assert db.neighbours() == {"a": ["b"], "b": ["a", "c"], "c": ["b", "d"], "d": ["c"], "lonely": []}

    def test_neighbours_far_out(self, db: Database) -> None:
        """Positions are kept whole up to the largest there is, so that the next is told from the last."""
        places = {"z": (1 << 31) - 1, "y": 1 << 31, "x": 1 << 32, "w": 1 << 53, "v": (1 << 53) + 1, "u": (1 << 62) - 1}
        talk(db, places)

        assert {candidate.address.artifact_id: candidate.position for candidate in db.listing()} == places
        assert {name: db.current(name).position for name in places} == places
        assert db.neighbours() == {
            "z": ["y"], "y": ["z", "x"], "x": ["y", "w"], "w": ["x", "v"], "v": ["w", "u"], "u": ["v"],
        }  # fmt: skip

    def test_neighbours_by_position(self, db: Database) -> None:
        """Positions count, not the order in which they were stored."""
        talk(db, {"c": 2, "a": 0, "b": 1, "z": 10, "y": 9})

        assert db.neighbours() == {"a": ["b"], "b": ["a", "c"], "c": ["b", "y"], "y": ["c", "z"], "z": ["y"]}

    def test_neighbours_of_equal_positions(self, db: Database) -> None:
        """Items in one place are ordered by artifact id."""
        talk(db, {"b": 1, "B": 1, "a": 1, "x": 0, "y": 2})

        assert db.neighbours() == {"x": ["B"], "B": ["x", "a"], "a": ["B", "b"], "b": ["a", "y"], "y": ["b"]}

    def test_neighbours_skip_retired(self, db: Database) -> None:
        """A retired or purged item is skipped; a revived one is back."""
        talk(db, {"a": 0, "b": 1, "c": 2, "d": 3})
        db.retire("b")
        db.purge("c")
        assert db.neighbours() == {"a": ["d"], "d": ["a"]}
        talk(db, {"b": 1})
        assert db.neighbours() == {"a": ["b"], "b": ["a", "d"], "d": ["b"]}

    def test_neighbours_follow_revisions(self, db: Database) -> None:
        """The current revision's place counts."""
        talk(db, {"a": 0, "b": 1, "c": 2})
        db.add("a", "word", thread="h", position=5)
        assert db.neighbours() == {"b": ["c"], "c": ["b", "a"], "a": ["c"]}
        db.add("c", "word", thread="other", position=2)
        assert db.neighbours() == {"b": ["a"], "a": ["b"], "c": []}

    def test_neighbours_stay_in_thread(self, db: Database) -> None:
        """Nothing of another thread, family or scope is ever a neighbour; names differ by their bytes."""
        for number, thread in enumerate(["h", "H", "h ", "ｈ", "é", "e\u0301", ""]):
            talk(db, {f"{number}": 1}, thread=thread)
        talk(db, {"x": 0}, family="experience")
        talk(db, {"y": 2}, scope_id="S")

        assert db.neighbours() == {str(number): [] for number in range(7)}

    def test_neighbours_without_place(self, db: Database) -> None:
        """An item without thread has no entry; one without position stands nowhere in its thread."""
        talk(db, {"a": 0, "b": 1})
        db.add("free", "word", position=0)
        db.add("floating", "word", thread="h")

        assert db.neighbours() == {"a": ["b"], "b": ["a"], "floating": []}

    def test_neighbours_of_asked_keys(self, db: Database) -> None:
        """Only the keys that were asked get an answer, repeated ones once, and only those of the partition."""
        talk(db, {"a": 0, "b": 1, "c": 2})
        talk(db, {"a": 0, "b": 1}, scope_id="other")
        partition, other = Partition("s", "memory"), Partition("other", "memory")
        with db.snapshot() as snapshot:
            requests = [
                LexicalRequest(partition=asked, query=analyse_query("word"), k=9) for asked in (partition, other)
            ]
            own, foreign = ({hit.artifact_id: hit.key for hit in result.hits} for result in snapshot.lexical(requests))
            asked = (own["b"], own["b"], foreign["a"])
            found = snapshot.neighbours(NeighbourRequest(partition=partition, keys=asked))

            assert found == {own["b"]: (own["a"], own["c"])}
            assert snapshot.neighbours(NeighbourRequest(partition=partition, keys=())) == {}
            assert snapshot.neighbours(NeighbourRequest(partition=Partition("none", "memory"), keys=asked)) == {}
