"""Listings: order, limits, prefixes and every filter."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from powerctx_core.ports import FetchRequest, JoinedListings, ListingRequest
from powerctx_core.testing.contracts.store import StoreContract
from powerctx_core.testing.database import Database
from powerctx_core.types import Filters, Partition

__all__ = ["ListingContract"]

FIELDS = {"created": "created_at", "updated": "updated_at", "event": "event_time"}
WINDOWS = {
    (1, 3): "21",
    (None, 1): "0",
    (3, None): "3",
    (1, 1): "",
    (2, 1): "",
    (None, None): "3210",
    (0, 4): "3210",
}
"""Microseconds of begin and end -> who is in the window, most recent first."""
EXTREMES = [
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(1583, 2, 3, 4, 5, 6, 7, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(2038, 1, 19, 3, 14, 8, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
]


class ListingContract(StoreContract):
    """Listings and filters: what is recent, in a window, tagged, of a category, below a prefix; ties by code point."""

    def test_order_by_time(self, db: Database) -> None:
        """The most recent come first, by the time that the filters name; ties by artifact id."""
        times = {"a": (1, 3, 2), "c": (2, 2, 2), "b": (2, 2, 1), "B": (2, 2, 1)}
        for name, (created, updated, event) in times.items():
            db.add(name, created_at=db.at(created), updated_at=db.at(updated), event_time=db.at(event))

        assert db.listed(time_field="created") == ["B", "b", "c", "a"]
        assert db.listed() == ["a", "B", "b", "c"]
        assert db.listed(time_field="event") == ["a", "c", "B", "b"]

    def test_ties_by_code_point(self, db: Database) -> None:
        """Ties are ordered by code point, whatever a locale says."""
        names = ["a b", *"a B Z z é e\u0301 ö ~ 0 10 9 a-b a/b 北 \U0001f600 \uff41".split()]
        for name in names:
            db.add(name, updated_at=db.at(1))

        assert db.listed() == sorted(names)

    def test_without_event_time(self, db: Database) -> None:
        """Items without the time come last; a window leaves them out."""
        db.add("a")
        db.add("b", event_time=db.at(1))
        db.add("c")

        assert db.listed(time_field="event") == ["b", "a", "c"]
        assert db.listed(time_field="event", since=db.at(-9e9)) == ["b"]
        assert db.listed(time_field="event", until=db.at(9e9)) == ["b"]

    def test_listing_limit(self, db: Database) -> None:
        """At most so many."""
        for number in range(5):
            db.add(str(number), updated_at=db.at(number))

        assert [db.listed(limit=limit) for limit in (0, 1, 4, 5, 10**9)] == [
            [],
            ["4"],
            ["4", "3", "2", "1"],
            ["4", "3", "2", "1", "0"],
            ["4", "3", "2", "1", "0"],
        ]
        assert db.listed(limit=2, until=db.at(2)) == ["1", "0"]

    def test_nothing_is_cut(self, db: Database) -> None:
        """What holds of a few holds of more than a thousand: all are listed, found, fetched and counted."""
        count = 1100
        db.put(*(db.item(f"{number:04}", "t", updated_at=db.at(-number)) for number in range(count)))
        names = [f"{number:04}" for number in range(count)]
        with db.snapshot() as snapshot:
            result = snapshot.lexical([db.request("t", k=2 * count)])[0]
            keys = tuple([hit.key for hit in result.hits])
            fetched = snapshot.fetch(FetchRequest(keys=keys, terms=result.terms))

        assert db.listed(limit=2 * count) == names
        assert db.listed(limit=count - 1) == names[:-1]
        assert sorted(hit.artifact_id for hit in result.hits) == names
        assert list(fetched) == list(keys)
        assert (result.statistics.items, dict(result.statistics.document_frequency)) == (count, {"t": count})

    def test_no_partition_is_left_out(self, db: Database) -> None:
        """Hundreds of partitions are all told."""
        scopes = [f"scope-{number}" for number in range(250)]
        db.put(*(db.item(scope_id=scope) for scope in scopes))

        assert db.partitions() == {Partition(scope, "memory"): 1 for scope in scopes}

    def test_partitions_of_a_scope(self, db: Database) -> None:
        """Of a named scope exactly its own partitions are told, with what is current; a strange one has none."""
        scopes = ("s", "S", "s ", "s/x", "s%", "é", "e\u0301", "北")
        db.put(*(db.item(f"{n}", scope_id=scope) for place, scope in enumerate(scopes) for n in range(place + 1)))
        db.put(db.item("x", scope_id="s", family="experience"), db.item("gone", scope_id="s", family="skill"))
        db.retire("gone", family="skill")
        wanted = {scope: {Partition(scope, "memory"): place + 1} for place, scope in enumerate(scopes)}
        wanted["s"][Partition("s", "experience")] = 1

        assert {scope: dict(db.partitions(scope)) for scope in scopes} == wanted
        assert [db.partitions(scope) for scope in ("", "s_", "_", "%", "nowhere")] == [{}] * 5
        assert db.partitions() == {name: n for each in wanted.values() for name, n in each.items()}

    def test_listings_at_once(self, db: Database) -> None:
        """A view that gives several listings with one read gives each as it is alone, in the order asked."""
        for family, count in {"memory": 4, "experience": 2}.items():
            db.put(
                *(db.item(f"{n}", family=family, updated_at=db.at(n % 2), tags=("x",) * (n % 2)) for n in range(count))
            )
        names = ("experience", "skill", "memory", "memory")
        with db.snapshot() as snapshot:
            if not isinstance(snapshot, JoinedListings):  # which is up to the store
                return
            for limit in (0, 1, 3, 100):
                for filters in (Filters(), Filters(tags=("x",))):
                    asked = [
                        ListingRequest(partition=Partition("s", name), limit=limit, filters=filters) for name in names
                    ]
                    assert list(snapshot.listings(asked)) == [snapshot.listing(each) for each in asked]
            assert list(snapshot.listings([])) == []

    def test_listing_shows_current(self, db: Database) -> None:
        """The newest revision is listed, once, with its own time."""
        db.add("a", "1", updated_at=db.at(9))
        db.add("b", "1", updated_at=db.at(5))
        db.add("a", "2", updated_at=db.at(1))

        assert [
            (candidate.address.artifact_id, candidate.address.revision, candidate.head) for candidate in db.listing()
        ] == [
            ("b", 1, "1"),
            ("a", 2, "2"),
        ]

    def test_window(self, db: Database) -> None:
        """A window is half-open and exact to the microsecond, and looks at the time that it names alone."""
        for number in range(4):
            times: dict[str, Any] = dict.fromkeys(FIELDS.values(), db.at(number * 1e-6))
            db.add(str(number), **times)
        for field in FIELDS:
            found = {
                (since, until): "".join(
                    db.listed(
                        time_field=field,
                        since=None if since is None else db.at(since * 1e-6),
                        until=None if until is None else db.at(until * 1e-6),
                    )
                )
                for since, until in WINDOWS
            }

            assert found == WINDOWS, field
        for name, field in FIELDS.items():
            times = {**dict.fromkeys(FIELDS.values(), db.at(9)), field: db.at(1)}
            db.add(name, scope_id="each", **times)
        for name in FIELDS:
            assert db.listed("each", time_field=name, until=db.at(2)) == [name]
            assert db.found("t", "each", time_field=name, until=db.at(2)) == {name}

    def test_time_zones(self, db: Database) -> None:
        """Moments are compared, not the way that they are written."""
        moment = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
        db.add("a", updated_at=moment.astimezone(timezone(timedelta(hours=14))))
        db.add("b", updated_at=moment.astimezone(timezone(timedelta(hours=-12))) + timedelta(microseconds=1))
        local = moment.astimezone(timezone(timedelta(hours=5, minutes=45)))

        assert db.listed() == ["b", "a"]
        assert db.listed(since=local, until=local + timedelta(microseconds=1)) == ["a"]
        assert str(db.current("a").updated_at) == "2026-03-29 01:30:00+00:00"
        assert db.found("t", since=local, until=local + timedelta(microseconds=1)) == {"a"}

    def test_extreme_times(self, db: Database) -> None:
        """The first and the last microsecond of the calendar are kept exactly and are found in a window."""
        for number, moment in enumerate(EXTREMES):
            scope = f"{number}"
            db.add("x", scope_id=scope, created_at=moment, updated_at=moment, event_time=moment)
            item = db.current("x", scope)

            assert (item.created_at, item.updated_at, item.event_time) == (moment, moment, moment)
            assert db.listed(scope, time_field="event", since=moment) == ["x"], moment
            assert db.listed(scope, time_field="event", until=moment) == [], moment
            assert db.listing(scope)[0].event_time == moment

    def test_tags_filter(self, db: Database) -> None:
        """An item passes when it has all the tags, exactly as they are written."""
        db.add("a", tags=("x", "y"))
        db.add("b", tags=("x", "X", "x y", "y,x"))
        db.add("c")
        wanted: dict[tuple[str, ...], str] = {
            (): "abc",
            ("x",): "ab",
            ("y",): "a",
            ("X",): "b",
            ("x", "y"): "a",
            ("y", "x"): "a",
            ("x", "x"): "ab",
            ("x y",): "b",
            ("y,x",): "b",
            (",",): "",
            ("%",): "",
            ("_",): "",
            ("x ",): "",
            ("é",): "",
        }

        assert {tags: "".join(sorted(db.listed(tags=tags))) for tags in wanted} == wanted

    def test_many_tags(self, db: Database) -> None:
        """All 64 tags of 128 bytes are kept in their order and can be asked for together."""
        tags = tuple(f"{number:02}" + "标" * 42 for number in range(64))
        db.add("a", tags=tags)
        db.add("b", tags=tags[1:])

        assert db.current().tags == tags
        assert db.listed(tags=tags) == ["a"]
        assert db.found("t", tags=tags) == {"a"}

    def test_category_filter(self, db: Database) -> None:
        """A category filter is exact; the empty category is one."""
        for name, category in {"a": "events", "b": "Events", "c": "events ", "d": None, "e": "", "f": "事件"}.items():
            db.add(name, category=category)

        assert [db.listed(category=category) for category in ("events", "Events", "", "事件", "event", "%")] == [
            ["a"],
            ["b"],
            ["e"],
            ["f"],
            [],
            [],
        ]

    def test_filters_together(self, db: Database) -> None:
        """Every filter has to be passed."""
        db.add("a", category="c", tags=("x",), updated_at=db.at(1))
        db.add("b", category="c", tags=("x",), updated_at=db.at(3))
        db.add("c", category="d", tags=("x",), updated_at=db.at(1))
        db.add("d", category="c", tags=("y",), updated_at=db.at(1))
        filters: dict[str, Any] = {"category": "c", "tags": ("x",), "since": db.at(0), "until": db.at(2)}

        assert db.listed(**filters) == ["a"]
        assert db.found("t", **filters) == {"a"}

    def test_filters_see_the_newest(self, db: Database) -> None:
        """Filters look at the current revision alone."""
        db.add(text="1", category="old", tags=("old",), event_time=db.at(1))
        db.add(text="1", category="new", tags=("new",), event_time=db.at(2))

        assert (db.listed(category="old"), db.listed(tags=("old",)), db.listed(time_field="event", until=db.at(2))) == (
            [],
            [],
            [],
        )
        assert (db.listed(category="new"), db.found("1", tags=("new",))) == (["a"], {"a"})

    def test_id_prefix(self, db: Database) -> None:
        """A prefix finds the artifact of that id and those below it; nothing in it is a pattern."""
        names = "docs docs/a docs/b/c docs0 docs2/a Docs/a docs/ doc d_cs/a d%/a docs\u0301/a".split()
        for name in names:
            db.add(name, updated_at=db.at(1))
        wanted = {
            "docs": ["docs", "docs/", "docs/a", "docs/b/c"],
            "docs/b": ["docs/b/c"],
            "docs/": ["docs/"],
            "d_cs": ["d_cs/a"],
            "d%": ["d%/a"],
            "%": [],
            "docs\u0301": ["docs\u0301/a"],
            "nothing": [],
        }

        assert {prefix: db.listed(prefix=prefix) for prefix in wanted} == wanted
        assert db.listed(prefix="docs", limit=2) == ["docs", "docs/"]
