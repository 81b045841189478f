"""Text comes back byte for byte, whatever it holds and however long it is."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

import hypothesis
from hypothesis import strategies as st

from powerctx_core.ports import FetchRequest
from powerctx_core.testing.contract import agree
from powerctx_core.testing.contracts.store import StoreContract
from powerctx_core.testing.database import Database
from powerctx_core.text.cut import derived_abstract
from powerctx_core.types import ABSTRACT_BYTES, HEAD_BYTES, META_DEPTH, SHORT_TEXT_BYTES, TEXT_BYTES, Item

__all__ = ["UnicodeContract"]

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

TEXTS = ("text", "title", "abstract", "overview", "category", "thread", "origin")
CORNERS: list[tuple[str, str, dict[str, Any]]] = [
    ("s", "a", {"text": "\x00", "title": "", "category": "", "thread": "", "meta": {"": "", "\x00": "\x00"}}),
    ("s", "a", {"text": "x", "meta": {"n": 2**70, "m": -(2**70), "f": 1e308, "g": 5e-324, "z": -0.0}}),
    (
        "s",
        "a",
        dict.fromkeys(TEXTS, "".join(PIECES)),
    ),
    ("s", "a", {"text": "x", "meta": {piece: [piece] for piece in PIECES}}),
]
WRITTEN = (*TEXTS, "tags", "meta")
SHOWN = {**{field: field for field in WRITTEN if field != "overview"}, "text": "head", "meta": "metadata"}
"""Field of an item -> field of a candidate that shows it."""
KEPT = "category title tags created_at updated_at event_time thread position confidence layer origin kind".split()
AWKWARD = ["", " ", " lead", "trail ", "\x00", "\n", "\ufeff"]
UNITS = ["a", "é", "北", "😀", "word ", "北京大学的火锅。", "\x00", "e\u0301", "\r\n'\"\\"]
WHITE = [
    " ", "  ", "\t", "\n", "\r\n", "\r", "\n\n", "\x0b", "\x0c", "\x1f", "\x85", "\u00a0", "\u2003", "\u2028", "\u2029",
    "\u200b", "\u3000", "\ufeff", "\x00",
]  # fmt: skip
"""What is taken for a blank, a line end or an end of text somewhere."""
PADDED = [text for white in WHITE for text in (f"{white}apple", f"apple{white}", f"apple red{white}red")]
HEADS = [
    "x" * lead + unit * ((HEAD_BYTES - lead) // len(unit.encode())) + rest * extra
    for unit in ("a", "é", "北", "😀")
    for rest in ("y", unit)
    for extra in range(5)
    for lead in range(4)
]
ABSTRACTS = [
    ("First sentence. Second.", None, "First sentence."),
    ("# 标题\n\n正文。", None, "标题"),
    ("First sentence. Second.", "Given.", "Given."),
    ("First sentence. Second.", "", ""),
]


def longest_head(text: str) -> str:
    """Return the longest prefix of whole characters that a candidate may carry."""
    return text.encode()[:HEAD_BYTES].decode(errors="ignore")


def is_name(text: str) -> bool:
    """Tell whether a text may be a tag, which has no control characters."""
    return all(unicodedata.category(char) != "Cc" for char in text)


def check_texts(method: str, item: Item, given: object, fields: Mapping[str, str]) -> None:
    """Check fields of what a method gives: name in the item -> name there."""
    __tracebackhide__ = True  # the author shall see the line of the contract
    for field, shown in fields.items():
        agree(f"{field} of an item, as {method} gives it", getattr(item, field), getattr(given, shown, None))


class UnicodeContract(StoreContract):
    """Text comes back byte for byte, whatever it holds and however long it is."""

    def test_white_space_stays(self, db: Database) -> None:
        """White space, line ends and NUL stay in every text, before, in and behind it, in whatever way it is read."""
        items = [
            db.item(
                f"{number}",
                tags=(value,) if is_name(value) else (),
                meta={value: [value]},
                **dict.fromkeys(TEXTS, value),
            )
            for number, value in enumerate(PADDED)
        ]
        addresses = [result.address for result in db.catalogue.put(items)]
        listing = {each.address: each for each in db.listing(limit=10_000)}
        with db.snapshot() as snapshot:
            hits = snapshot.lexical([db.request("apple", k=10_000)])[0].hits
            keys = tuple([hit.key for hit in hits])
            fetched = {each.address: each for each in snapshot.fetch(FetchRequest(keys=keys)).values()}
            for item, address in zip(items, addresses, strict=True):
                artifact = (address.scope_id, address.family, address.artifact_id)
                revisions = {
                    "get()": snapshot.get(address),
                    "latest()": snapshot.latest(*artifact),
                    "history()": next(iter(snapshot.history(*artifact)), None),
                }
                for method, revision in revisions.items():
                    check_texts(method, item, revision and revision.item, {field: field for field in WRITTEN})
                check_texts("listing()", item, listing.get(address), SHOWN)
                check_texts("fetch()", item, fetched.get(address), SHOWN)

    def test_round_trip(self, db: Database, examples: Callable[[int], hypothesis.settings]) -> None:
        """Every field of an item comes back exactly, as revision and as candidate, and equal content when put again."""

        def check(scope_id: str, name: str, fields: dict[str, Any]) -> None:
            times: dict[str, Any] = {"created_at": db.at(1), "updated_at": db.at(2), "event_time": db.at(3)}
            item = db.item(name, scope_id=scope_id, **times, **fields)
            db.purge(name, scope_id=scope_id)
            db.put(item)
            stored = db.current(name, scope_id)
            candidate = next(found for found in db.listing(scope_id, limit=10_000) if found.address.artifact_id == name)

            assert stored == item
            assert stored.digest == item.digest
            assert stored.text.encode() == item.text.encode()
            assert (candidate.head, candidate.body_bytes) == (item.text, len(item.text.encode()))
            for field in KEPT:
                assert getattr(candidate, field) == getattr(item, field), field
            assert candidate.metadata == item.meta
            assert candidate.abstract == (derived_abstract(item.text) if item.abstract is None else item.abstract)
            assert candidate.overview_bytes == len((item.overview or "").encode())
            assert db.put(item) == ["unchanged"]

        for corner in CORNERS:
            check(*corner)
        hypothesis.given(NAME, NAME, FIELDS)(examples(40)(check))()

    def test_any_text_is_analysed(self, db: Database, examples: Callable[[int], hypothesis.settings]) -> None:
        """Whatever a text holds, the index knows its words as the analysis gives them."""

        @hypothesis.given(BODY)
        @examples(30)
        def check(text: str) -> None:
            db.add("a", text)
            db.check_members(text, [db.item("a", text)])

        check()

    def test_awkward_short_text(self, db: Database) -> None:
        """Empty, blank and padded values stay what they are, and are different from none."""
        fields = ("title", "abstract", "overview", "category", "thread", "origin")
        for number, value in enumerate(AWKWARD):
            scope = f"{number}"
            db.add("a", scope_id=scope, **dict.fromkeys(fields, value))
            item = db.current("a", scope)

            assert [getattr(item, field) for field in fields] == [value] * 6
            assert db.listing(scope)[0].abstract == value
            assert db.add("a", scope_id=scope) == "updated", ascii(value)

    def test_largest_text(self, db: Database) -> None:
        """A body of one mebibyte comes back whole; candidates carry its head and its size."""
        for number, unit in enumerate(UNITS):
            scope, shown = f"{number}", ascii(unit)
            text = unit * (TEXT_BYTES // len(unit.encode()))
            text += "x" * (TEXT_BYTES - len(text.encode()))
            db.add("a", text, overview=text, scope_id=scope)
            item, candidate = db.current("a", scope), db.listing(scope)[0]

            assert (item.text == text, item.overview == text) == (True, True), shown
            assert (candidate.body_bytes, candidate.overview_bytes) == (TEXT_BYTES, TEXT_BYTES), shown
            assert len(candidate.head.encode()) <= HEAD_BYTES, shown
            assert len((candidate.abstract or "").encode()) <= ABSTRACT_BYTES, shown

    def test_largest_fields(self, db: Database) -> None:
        """The longest short texts, the largest and the deepest metadata come back whole."""
        fields = dict.fromkeys(("title", "abstract", "category", "thread", "origin"), "北" * (SHORT_TEXT_BYTES // 3))
        deep: dict[str, Any] = {}
        for _ in range(META_DEPTH - 2):
            deep = {"k": deep}
        meta = {"deep": deep, "large": "😀" * ((TEXT_BYTES - 1000) // 4)}
        db.add("a", meta=meta, **fields)
        item = db.current()

        assert {field: getattr(item, field) == value for field, value in fields.items()} == dict.fromkeys(fields, True)
        assert item.meta["deep"] == deep
        assert item.meta["large"] == meta["large"]

    def test_head(self, db: Database) -> None:
        """A head is the longest prefix of at most 4 096 bytes of whole characters; body_bytes is exact."""
        texts = [*HEADS, *(text[:-cut] for text in HEADS for cut in range(1, 5))]
        names = {f"{number:04}": text for number, text in enumerate(dict.fromkeys(texts))}
        db.put(*(db.item(name, text) for name, text in names.items()))
        found = {candidate.address.artifact_id: candidate for candidate in db.listing(limit=10_000)}
        wrong = [name for name, text in names.items() if found[name].head != longest_head(text)]

        assert wrong == [], ascii(names[wrong[0]][-8:])
        assert {name: found[name].body_bytes for name in names} == {
            name: len(text.encode()) for name, text in names.items()
        }

    def test_abstract(self, db: Database) -> None:
        """A candidate's abstract is the given one, or is derived; the item keeps only what was given."""
        for number, (text, given, expected) in enumerate(ABSTRACTS):
            scope = f"{number}"
            db.add("a", text, abstract=given, scope_id=scope)

            assert db.listing(scope)[0].abstract == expected
            assert db.current("a", scope).abstract == given
