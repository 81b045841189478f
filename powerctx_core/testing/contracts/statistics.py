"""Statistics of a partition: numbers, lengths and frequencies, right after whatever was written."""

from __future__ import annotations

from powerctx_core.testing.contracts.lexical import FILTERS, LARGE, fill_filtered, large, word
from powerctx_core.testing.contracts.store import StoreContract
from powerctx_core.testing.database import Database
from powerctx_core.types import Item

__all__ = ["StatisticsContract"]


class StatisticsContract(StoreContract):
    """Statistics are those of an analysis of all that the partition holds now."""

    def test_statistics_follow(self, db: Database) -> None:
        """Number, mean length and document frequencies are right after every kind of write."""
        held: dict[str, Item] = {}
        steps: list[tuple[str, str, str]] = [
            ("put", "a", "apple 北京大学"),
            ("put", "b", "apple apple pear"),
            ("put", "a", "pear"),
            ("put", "a", "pear"),
            ("retire", "b", ""),
            ("put", "c", "a long text about apple trees in 北京"),
            ("put", "b", "apple apple pear"),
            ("purge", "c", ""),
            ("put", "c", "..."),
            ("put", "a", "apple 北京大学"),
            ("retire", "a", ""),
            ("purge", "a", ""),
            ("retire", "b", ""),
            ("retire", "c", ""),
        ]
        for kind, name, text in steps:
            if kind == "put":
                db.add(name, text)
                held[name] = db.item(name, text)
            else:
                (db.retire if kind == "retire" else db.purge)(name)
                held.pop(name, None)
            db.check_statistics("apple pear 北京 missing", list(held.values()))
        for batch in ["a 1", "b 1 2", "a 2 3", "b 4", "a 1"], ["a apple", "c apple"]:
            db.put(*(db.item(text[0], text[2:]) for text in batch))
        db.check_statistics("1 2 3 4 apple", [db.item("a", "apple"), db.item("b", "4"), db.item("c", "apple")])

    def test_occurrences_follow(self, db: Database) -> None:
        """Occurrences and lengths are those of the current revision after an update, a retirement and a revival."""
        for text in ("apple pear", "apple apple 北京大学", "pear"):
            db.add("a", text)
            db.check_members("apple pear 北京", [db.item("a", text)])
        db.retire("a")
        db.check_members("apple pear 北京", [])
        db.add("a", "apple pear pear")
        db.check_members("apple pear 北京", [db.item("a", "apple pear pear")])
        db.purge("a")
        db.add("a", "pear")
        db.check_members("apple pear 北京", [db.item("a", "pear")])

    def test_nothing_matched_is_not_nothing_stored(self, db: Database) -> None:
        """A partition that shares no word with the query still tells how much it holds; an empty one tells that."""
        db.put(db.item("a", "..."), db.item("b", "pear pear"), db.item("a", "apple", scope_id="retired"))
        db.retire("a", scope_id="retired")
        results = [db.lexical("nothing like it", scope) for scope in ("s", "retired", "never")]

        assert [result.hits for result in results] == [(), (), ()]
        assert [(result.statistics.items, result.statistics.mean_length) for result in results] == [
            (2, 1),
            (0, 0),
            (0, 0),
        ]

    def test_filters_keep_statistics(self, db: Database) -> None:
        """Filters change neither the statistics nor which terms are used."""
        fill_filtered(db)
        whole = db.lexical("apple")
        results = [db.lexical("apple", **some) for some in FILTERS]

        assert [result.statistics for result in results] == [whole.statistics] * len(FILTERS)
        assert [result.terms for result in results] == [whole.terms] * len(FILTERS)

    def test_other_partitions_do_not_count(self, db: Database) -> None:
        """Statistics are those of the partition alone, for each request of a call."""
        db.add("a", "apple")
        for number in range(5):
            db.add(str(number), "apple pear", scope_id="other")
            db.add(str(number), "apple pear", family="experience")

        db.check_statistics("apple pear", [db.item("a", "apple")])
        requests = [db.request("apple"), db.request("apple", "nowhere"), db.request("pear", "other"), db.request("?!")]
        with db.snapshot() as snapshot:
            results = snapshot.lexical(requests)
        assert [(result.statistics.items, dict(result.statistics.document_frequency)) for result in results] == [
            (1, {"appl": 1}),
            (0, {}),
            (5, {"pear": 5}),
            (1, {}),
        ]

    def test_frequencies_of_rare_and_quoted_terms(self, db: Database) -> None:
        """The frequencies given are those of the terms used: the rarest, or quoted."""
        db.put(*(db.item(str(n), " ".join(word(k) for k in range(n, 100))) for n in range(100)))
        rare = db.lexical(" ".join(word(k) for k in range(100))).statistics.document_frequency
        quoted = db.lexical(" ".join(word(k) for k in range(99)) + f' "{word(99)}"').statistics.document_frequency

        assert dict(rare) == {word(k): k + 1 for k in range(64)}
        assert quoted[word(99)] == 100

    def test_statistics_of_a_large_partition(self, db: Database) -> None:
        """What a store leaves out of a large partition's members is counted all the same, also right after writes."""
        items = large(db)
        rare = sorted(f"{n:04}" for n in range(0, LARGE, 300))
        result = db.lexical("common", k=50)

        assert dict(result.statistics.document_frequency) == {"common": LARGE}
        assert result.statistics.mean_length == sum(sum(db.terms(item).values()) for item in items) / LARGE
        db.retire(*rare[1:])
        result = db.lexical("rare common", k=50)
        assert dict(result.statistics.document_frequency) == {"rare": 1, "common": LARGE - 9}
        assert result.statistics.items == LARGE - 9
        db.put(*(db.item(name, "rare again") for name in rare[1:]))
        assert dict(db.lexical("rare").statistics.document_frequency) == {"rare": 10}
