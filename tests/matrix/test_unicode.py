"""Text comes back byte for byte, whatever it holds and however long it is, on every backend."""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from powerctx_core.ports import FetchRequest
from powerctx_core.text.cut import derived_abstract
from powerctx_core.types import ABSTRACT_BYTES, HEAD_BYTES, TEXT_BYTES

pytestmark = pytest.mark.matrix

PIECES = [
    "北京大学", "資料庫", "ラーメン", "か\u3099", "도서관", "\u1100\u1161\u11a8", "क्षि", "שלום",
    "مرحبا", "\u202eabc\u202c",
    "👩\u200d👩\u200d👧\u200d👦", "🇨🇳", "👍🏽", "e\u0301", "é", "\u0301", "\u2028", "\u2029", "\x85",
    "\ufeff", "\ufffe", "\uffff",
    "\x00", "\x01", "\x1a", "\x1b[31m", "\x1f", "\x7f", "\r\n", "\r", "\n", "\t", "\x0b", "\x0c",
    " ", "\u3000", "\u00a0", "\u200b",
    "'", '"', "\\", "\\u0000", "%", "\U0010ffff", "\U00020000", "a",
]  # fmt: skip
TEXT = st.one_of(st.text(max_size=40), st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
BODY = TEXT.filter(lambda text: text and not text.isspace())
NAME = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=24)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(TEXT, children, max_size=3),
    max_leaves=8,
)
FIELDS = st.fixed_dictionaries(
    {"text": BODY},
    optional={
        "title": TEXT,
        "abstract": TEXT,
        "overview": TEXT,
        "category": TEXT,
        "thread": TEXT,
        "origin": TEXT,
        "tags": st.lists(NAME, max_size=4, unique=True).map(tuple),
        "meta": st.dictionaries(TEXT, JSON, max_size=3),
        "confidence": st.floats(0, 1),
        "position": st.integers(0, (1 << 62) - 1),
        "layer": st.sampled_from(["L0", "L1", "L2", "L3"]),
        "kind": st.sampled_from(["item", "directory"]),
    },
)


@given(NAME, NAME, FIELDS)
@example("s", "a", {"text": "\x00", "title": "", "category": "", "thread": "", "meta": {"": "", "\x00": "\x00"}})
@example("s", "a", {"text": "x", "meta": {"n": 2**70, "m": -(2**70), "f": 1e308, "g": 5e-324, "z": -0.0}})
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_round_trip(db, scope_id, name, fields):
    """Every field of an item comes back exactly, as revision and as candidate, and is equal content when put again."""
    item = db.item(name, scope_id=scope_id, created_at=db.at(1), updated_at=db.at(2), event_time=db.at(3), **fields)
    db.purge(name, scope_id=scope_id)
    assert db.put(item, item) == ["created", "unchanged"]
    stored = db.latest(name, scope_id)
    candidate = next(found for found in db.listing(scope_id, limit=10_000) if found.address.artifact_id == name)

    assert stored == item
    assert stored.digest == item.digest
    assert stored.text.encode() == item.text.encode()
    assert (candidate.head, candidate.body_bytes) == (item.text, len(item.text.encode()))
    for (
        field
    ) in "category title tags created_at updated_at event_time thread position confidence layer origin kind".split():
        assert getattr(candidate, field) == getattr(item, field), field
    assert candidate.metadata == item.meta
    assert candidate.abstract == (derived_abstract(item.text) if item.abstract is None else item.abstract)
    assert candidate.overview_bytes == len((item.overview or "").encode())
    assert candidate.length == sum(db.terms(item).values())


@pytest.mark.parametrize("value", ["", " ", " lead", "trail ", "\x00", "\n", "\ufeff"])
def test_awkward_short_text(db, value):
    """Empty, blank and padded values stay what they are, and are different from none."""
    db.add("a", title=value, abstract=value, overview=value, category=value, thread=value, origin=value)
    item = db.latest()

    assert [item.title, item.abstract, item.overview, item.category, item.thread, item.origin] == [value] * 6
    assert db.listing()[0].abstract == value
    assert db.add("a") == "updated"


@pytest.mark.parametrize("unit", ["a", "é", "北", "😀", "word ", "北京大学的火锅。", "\x00", "e\u0301", "\r\n'\"\\"])
def test_largest_text(db, unit):
    """A body of one mebibyte comes back whole; candidates carry its head and its size."""
    text = unit * (TEXT_BYTES // len(unit.encode()))
    text += "x" * (TEXT_BYTES - len(text.encode()))
    db.add("a", text, overview=text)
    item, candidate = db.latest(), db.listing()[0]

    assert (item.text == text, item.overview == text) == (True, True)
    assert (candidate.body_bytes, candidate.overview_bytes) == (TEXT_BYTES, TEXT_BYTES)
    assert len(candidate.head.encode()) <= HEAD_BYTES
    assert len(candidate.abstract.encode()) <= ABSTRACT_BYTES


@pytest.mark.parametrize("unit", ["a", "é", "北", "😀"])
@pytest.mark.parametrize("extra", range(-4, 5))
@pytest.mark.parametrize("lead", range(4))
def test_head(db, unit, extra, lead):
    """A head is the longest prefix of at most 4 096 bytes of whole characters; body_bytes is exact."""
    text = "x" * lead + unit * ((HEAD_BYTES - lead) // len(unit.encode())) + "y" * max(0, extra)
    text = text if extra >= 0 else text[:extra]
    db.add("a", text)
    candidate = db.listing()[0]
    rest = text[len(candidate.head) :]

    assert text.startswith(candidate.head)
    assert candidate.body_bytes == len(text.encode())
    assert len(candidate.head.encode()) <= HEAD_BYTES
    assert not rest or len((candidate.head + rest[0]).encode()) > HEAD_BYTES
    assert db.latest().text == text


@pytest.mark.parametrize(
    ("text", "given", "expected"),
    [
        ("First sentence. Second.", None, "First sentence."),
        ("# 标题\n\n正文。", None, "标题"),
        ("First sentence. Second.", "Given.", "Given."),
        ("First sentence. Second.", "", ""),
    ],
)
def test_abstract(db, text, given, expected):
    """A candidate's abstract is the given one, or is derived; the item keeps only what was given."""
    db.add("a", text, abstract=given)

    assert db.listing()[0].abstract == expected
    assert db.latest().abstract == given


def test_readers_cannot_change(db):
    """What a reader does to metadata that it got reaches neither the store nor other readers."""
    db.add("a", "apple", meta={"list": [1], "inner": {"k": [2]}})
    with db.snapshot() as snapshot:
        revision = snapshot.latest("s", "memory", "a")
        hit = snapshot.lexical([db.request("apple")])[0].hits[0]
        candidate = snapshot.fetch(FetchRequest(keys=(hit.key,)))[hit.key]
        for value in (revision.item.meta, candidate.metadata, db.listing()[0].metadata):
            value["list"].append("changed")
            value["inner"]["k"].clear()
        again = snapshot.latest("s", "memory", "a").item.meta

    assert again == db.latest().meta == db.listing()[0].metadata == {"list": [1], "inner": {"k": [2]}}
    assert db.add("a", "apple", meta={"list": [1], "inner": {"k": [2]}}) == "unchanged"
