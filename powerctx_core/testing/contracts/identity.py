"""Identity compares bytes: what differs in any byte is something else, on every backend."""

from __future__ import annotations

from typing import Any

from powerctx_core.testing.contracts.store import StoreContract
from powerctx_core.testing.database import Database
from powerctx_core.types import Address, Partition

__all__ = ["IdentityContract"]

PAIRS = [
    ("a", "A"),
    ("ß", "ẞ"),
    ("ß", "ss"),
    ("i", "ı"),
    ("İ", "i\u0307"),
    ("é", "e\u0301"),
    ("é", "e"),
    ("ä", "ae"),
    ("Å", "\u212b"),
    ("a", "a "),
    ("a", " a"),
    ("a", "a\u00a0"),
    ("a", "a\u200b"),
    ("a", "a\u00ad"),
    ("a", "ａ"),
    ("1", "１"),
    ("ｶ", "カ"),
    ("か", "カ"),
    ("か\u3099", "が"),
    ("가", "\u1100\u1161"),
    ("資料", "资料"),
    ("ﬁ", "fi"),
    ("👩", "👩\u200d"),
    ("👍", "👍🏽"),
    ("😀", "😃"),
    ("a", "a/"),
    ("a", "a%"),
    ("a_", "ab"),
    ("1", "01"),
    ("1", "1.0"),
    ("null", "NULL"),
    ("a'b", "a''b"),
    ("a\\", "a\\\\"),
]
LEFT = list(dict.fromkeys(left for left, _ in PAIRS))
NAMES = {name: f"n{number}" for number, name in enumerate(dict.fromkeys(name for pair in PAIRS for name in pair))}
"""Every name, and a plain one for it."""
TWINS = [*PAIRS, *((right, left) for left, right in PAIRS)]


class IdentityContract(StoreContract):
    """Identity compares bytes: what differs in any byte is something else."""

    def test_scopes_find_their_own(self, db: Database) -> None:
        """Scopes whose ids look alike share nothing that is found, listed, read or counted."""
        db.put(*(db.item(own, f"apple {own}", scope_id=name) for name, own in NAMES.items()))

        assert db.partitions() == {Partition(name, "memory"): 1 for name in NAMES}
        for scope, own in NAMES.items():
            assert db.found("apple", scope) == {own}, ascii(scope)
            assert [found.address for found in db.listing(scope)] == [Address(scope, "memory", own, 1)], ascii(scope)
            assert db.lexical("apple", scope).statistics.document_frequency == {"appl": 1}, ascii(scope)
        for scope, twin in TWINS:
            assert db.latest(NAMES[twin], scope) is None, (ascii(scope), ascii(twin))
            assert db.history(NAMES[twin], scope) == [], (ascii(scope), ascii(twin))

    def test_scopes_delete_their_own(self, db: Database) -> None:
        """What is retired or purged in one scope stays in those whose ids look alike."""
        db.put(*(db.item("a", "apple", scope_id=name) for name in NAMES))
        gone = [name for name in NAMES if name not in LEFT]
        for number, scope in enumerate(gone):
            assert (db.purge if number % 2 else db.retire)("a", scope_id=scope) == 1, ascii(scope)

        assert db.partitions() == {Partition(name, "memory"): 1 for name in LEFT}
        assert [name for name in LEFT if db.latest("a", name) is None] == []

    def test_artifacts_have_their_own_revisions(self, db: Database) -> None:
        """Artifacts whose ids look alike have each their own revisions, and are retired and purged alone."""
        assert set(db.put(*(db.item(name, "1") for name in NAMES))) == {"created"}
        assert set(db.put(*(db.item(name, "2") for name in LEFT))) == {"updated"}
        assert {name: len(db.history(name)) for name in NAMES} == {name: 1 + (name in LEFT) for name in NAMES}
        assert sorted(db.listed()) == sorted(NAMES)
        assert [name for name in NAMES if db.current(name).artifact_id != name] == []
        rest = sorted(set(NAMES) - set(LEFT))
        assert {name: db.retire(name) for name in LEFT} == dict.fromkeys(LEFT, 1)
        assert sorted(db.listed()) == rest
        assert {name: db.purge(name) for name in LEFT} == dict.fromkeys(LEFT, 2)
        assert sorted(db.listed()) == rest

    def test_threads_categories_and_tags(self, db: Database) -> None:
        """Threads, categories and tags that look alike are different."""
        for position in (0, 1):
            fields: dict[str, dict[str, Any]] = {
                name: {"thread": name, "position": position, "category": name, "tags": (name,)} for name in NAMES
            }
            db.put(*(db.item(f"{own}-{position}", "word", **fields[name]) for name, own in NAMES.items()))
        found = db.neighbours()
        for name, own in NAMES.items():
            both = [f"{own}-0", f"{own}-1"]

            assert [found[both[0]], found[both[1]]] == [[both[1]], [both[0]]], ascii(name)
            assert sorted(db.listed(category=name)) == both, ascii(name)
            assert sorted(db.listed(tags=(name,))) == both, ascii(name)
            assert db.found("word", tags=(name,)) == db.found("word", category=name) == set(both), ascii(name)

    def test_families(self, db: Database) -> None:
        """Families share nothing."""
        for left, right in [("a1", "a-1"), ("memory", "memory-x"), ("a", "aa"), ("1", "01")]:
            db.add("l", "apple", family=left)
            db.add("r", "apple", family=right)

            assert (db.found("apple", family=left), db.found("apple", family=right)) == ({"l"}, {"r"}), left
            assert db.latest("l", family=right) is None, left
            assert db.retire("l", family=right) == 0, left

    def test_separators(self, db: Database) -> None:
        """No sign inside an id can be taken for what parts scope, family and id."""
        names = [
            ("a", "memory", "b/c"),
            ("a/memory", "b", "c"),
            ("a", "memory", "memory/b"),
            ("a:memory", "memory", "b"),
        ]
        for scope, family, name in names:
            db.add(name, scope_id=scope, family=family)

        assert sorted(db.listed("a", "memory")) == ["b/c", "memory/b"]
        assert db.listed("a/memory", "b") == ["c"]
        assert db.listed("a:memory", "memory") == ["b"]

    def test_longest_ids(self, db: Database) -> None:
        """Ids of the full length that differ in their last byte are different, and are given back whole."""
        scopes = ["é" * 127 + "xx", "é" * 127 + "xy"]
        names = ["北" * 42 + "xx", "北" * 42 + "xy"]
        family = "f" * 64
        for scope in scopes:
            for name in names:
                db.add(name, "t", scope_id=scope, family=family, thread=scope * 16, updated_at=db.at(1))

        assert db.partitions() == {Partition(scope, family): 2 for scope in scopes}
        assert [db.listed(scope, family) for scope in scopes] == [names, names]
        assert db.current(names[1], scopes[1], family).thread == scopes[1] * 16
