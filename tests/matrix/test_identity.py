"""Identity compares bytes: what differs in any byte is something else, on every backend."""

import pytest

from powerctx_core.types import Address, Partition

pytestmark = pytest.mark.matrix

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
IDS = [f"{left}-{right}" for left, right in PAIRS]
pairs = pytest.mark.parametrize(("left", "right"), PAIRS, ids=IDS)


@pairs
def test_scopes(db, left, right):
    """Scopes whose ids look alike share nothing."""
    db.add("l", "apple left", scope_id=left)
    db.add("r", "apple right", scope_id=right)

    assert db.partitions() == {Partition(left, "memory"): 1, Partition(right, "memory"): 1}
    for scope, own, other in [(left, "l", "r"), (right, "r", "l")]:
        assert db.found("apple", scope) == {own}
        assert db.listed(scope) == [own]
        assert db.latest(other, scope) is None
        assert db.lexical("apple", scope).statistics.document_frequency == {"appl": 1}
        assert db.listing(scope)[0].address == Address(scope, "memory", own, 1)
    assert db.retire("l", scope_id=right) == 0
    assert db.purge("l", scope_id=right) == 0
    assert db.purge("r", scope_id=right) == 1
    assert db.found("apple", left) == {"l"}


@pairs
def test_artifacts(db, left, right):
    """Artifacts whose ids look alike have each their own revisions."""
    assert db.put(db.item(left, "1"), db.item(right, "1"), db.item(left, "2")) == ["created", "created", "updated"]
    assert (len(db.history(left)), len(db.history(right))) == (2, 1)
    assert set(db.listed()) == {left, right}
    assert db.retire(left) == 1
    assert db.listed() == [right]
    assert db.purge(left) == 2
    assert db.listed() == [right]
    assert db.latest(right).artifact_id == right


@pairs
def test_threads_categories_and_tags(db, left, right):
    """Threads, categories and tags that look alike are different."""
    for name, value, position in [("l", left, 0), ("l2", left, 2), ("r", right, 1)]:
        db.add(name, "word", thread=value, position=position, category=value, tags=(value,))

    assert db.neighbours() == {"l": ["l2"], "l2": ["l"], "r": []}
    assert (set(db.listed(category=left)), db.listed(category=right)) == ({"l", "l2"}, ["r"])
    assert (set(db.listed(tags=(left,))), db.listed(tags=(right,))) == ({"l", "l2"}, ["r"])
    assert db.found("word", tags=(right,)) == {"r"}


@pytest.mark.parametrize(("left", "right"), [("a1", "a-1"), ("memory", "memory-x"), ("a", "aa"), ("1", "01")])
def test_families(db, left, right):
    """Families share nothing."""
    db.add("l", "apple", family=left)
    db.add("r", "apple", family=right)

    assert (db.found("apple", family=left), db.found("apple", family=right)) == ({"l"}, {"r"})
    assert db.latest("l", family=right) is None
    assert db.retire("l", family=right) == 0


def test_separators(db):
    """No sign inside an id can be taken for what parts scope, family and id."""
    names = [("a", "memory", "b/c"), ("a/memory", "b", "c"), ("a", "memory", "memory/b"), ("a:memory", "memory", "b")]
    for scope, family, name in names:
        db.add(name, scope_id=scope, family=family)

    assert {name: db.listed(scope, family) for scope, family, name in names} == {
        name: [name] if name not in {"b/c", "memory/b"} else db.listed("a", "memory") for _, _, name in names
    }
    assert set(db.listed("a", "memory")) == {"b/c", "memory/b"}


def test_longest(db):
    """Ids of the full length that differ in their last byte are different, and are given back whole."""
    scopes = ["é" * 127 + "xx", "é" * 127 + "xy"]
    names = ["北" * 42 + "xx", "北" * 42 + "xy"]
    family = "f" * 64
    for scope in scopes:
        for name in names:
            db.add(name, "t", scope_id=scope, family=family, thread=scope * 16, updated_at=db.at(1))

    assert db.partitions() == {Partition(scope, family): 2 for scope in scopes}
    assert [db.listed(scope, family) for scope in scopes] == [names, names]
    assert db.latest(names[1], scopes[1], family).thread == scopes[1] * 16
