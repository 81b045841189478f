"""Items check themselves, never change, and know their content."""

import unicodedata
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType

import attrs
import pytest
from hypothesis import given, settings, strategies as st

from powerctx_core.errors import InvalidRequest
from powerctx_core.types import Filters, Item, derived_artifact_id

TEXT = st.characters(exclude_categories=["Cc", "Cs"])
DAY = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
WIDE = "é"  # two bytes, so that a limit in characters would be seen


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("scope_id", "s" * 256),
        ("scope_id", WIDE * 128),
        ("artifact_id", WIDE * 64),
        ("artifact_id", "/.."),
        ("family", "a" * 64),
        ("family", "a-1-b"),
        ("text", WIDE * (1 << 19)),
        ("text", "\x00"),
        ("overview", WIDE * (1 << 19)),
        ("title", WIDE * 2048),
        ("category", WIDE * 2048),
        ("origin", WIDE * 2048),
        ("thread", WIDE * 2048),
        ("abstract", WIDE * 2048),
        ("title", ""),
        ("tags", tuple(str(number) for number in range(64))),
        ("tags", (WIDE * 64,)),
        ("position", 0),
        ("position", (1 << 62) - 1),
        ("confidence", 0),
        ("confidence", 1),
        ("confidence", 0.5),
        ("layer", "L0"),
        ("layer", "L3"),
        ("kind", "directory"),
        ("event_time", DAY),
        ("meta", {"a": [1, 2.5, None, True, "北京", {"b": {}}]}),
    ],
)
def test_edge(field: str, value: object) -> None:
    """A value at the very edge of its limit is kept as it is."""
    item = attrs.evolve(Item(scope_id="s", text="t"), **{field: value})

    assert getattr(item, field) == value


def deep(levels: int) -> dict[str, object]:
    """Make metadata of so many levels."""
    value: dict[str, object] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def test_deep_meta() -> None:
    """Metadata may be nested 64 deep."""
    assert Item(scope_id="s", text="t", meta=deep(64)).meta == deep(64)


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("scope_id", "", "must not be empty"),
        ("scope_id", "s" * 257, "257 bytes; at most 256"),
        ("scope_id", WIDE * 128 + "s", "257 bytes; at most 256"),
        ("scope_id", "a\x1fb", "control character"),
        ("scope_id", "a\x85b", "control character"),
        ("scope_id", "a\ud800", "lone surrogate at character 1"),
        ("scope_id", None, "must be a string, not NoneType"),
        ("scope_id", 7, "must be a string, not int"),
        ("artifact_id", "", "must not be empty"),
        ("artifact_id", WIDE * 64 + "a", "129 bytes; at most 128"),
        ("artifact_id", "a\x00", "control character"),
        ("family", "", "lower-case words joined by '-'"),
        ("family", "a" * 65, "at most 64 characters"),
        ("family", "Memory", "lower-case"),
        ("family", "a--b", "lower-case"),
        ("family", "-a", "lower-case"),
        ("family", "a_b", "lower-case"),
        ("family", "a\n", "lower-case"),
        ("family", "记忆", "lower-case"),
        ("family", None, "lower-case"),
        ("text", "", "must not be blank"),
        ("text", " \n\t\u3000\u2028", "must not be blank"),
        ("text", None, "must be a string, not NoneType"),
        ("text", b"t", "must be a string, not bytes"),
        ("text", WIDE * (1 << 19) + "t", "1048577 bytes; at most 1048576"),
        ("text", "a\udfff", "lone surrogate at character 1"),
        ("overview", WIDE * (1 << 19) + "t", "1048577 bytes; at most 1048576"),
        *(
            (field, value, says)
            for field in ("title", "category", "origin", "thread", "abstract")
            for value, says in [
                (WIDE * 2048 + "t", "4097 bytes; at most 4096"),
                (7, "must be a string, not int"),
                ("\ud800", "lone surrogate"),
            ]
        ),
        ("tags", tuple(str(number) for number in range(65)), "65 entries; at most 64"),
        ("tags", (WIDE * 64 + "t",), "129 bytes; at most 128"),
        ("tags", ("",), "must not be empty"),
        ("tags", ("a\n",), "control character"),
        ("tags", "abc", "must be a list of strings"),
        ("tags", {"a"}, "must be a list of strings"),
        ("tags", None, "must be a list of strings"),
        ("tags", (1,), "must be a string, not int"),
        ("position", -1, "whole number from 0"),
        ("position", 1 << 62, "whole number from 0"),
        ("position", 1.0, "whole number from 0"),
        ("position", True, "whole number from 0"),
        ("confidence", -0.01, "number from 0 to 1"),
        ("confidence", 1.01, "number from 0 to 1"),
        ("confidence", float("nan"), "number from 0 to 1"),
        ("confidence", True, "number from 0 to 1"),
        ("confidence", "0.5", "number from 0 to 1"),
        ("layer", "L4", "L0, L1, L2, L3"),
        ("layer", "l0", "L0, L1, L2, L3"),
        ("kind", "folder", "item, directory"),
        *(
            (field, value, says)
            for field in ("created_at", "updated_at", "event_time")
            for value, says in [
                (datetime(2026, 1, 1), "has no time zone; add one"),  # noqa: DTZ001 - that is the point
                ("2026-01-01T00:00:00Z", "must be a datetime, not str"),
                (DAY.date(), "must be a datetime, not date"),
                (datetime.min.replace(tzinfo=timezone(timedelta(hours=1))), "out of range"),
                (datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))), "out of range"),
            ]
        ),
        ("meta", [1], "must be a JSON object, not list"),
        ("meta", None, "must be a JSON object, not NoneType"),
        ("meta", {"a": DAY}, "is not JSON"),
        ("meta", {"a": float("nan")}, "is not JSON"),
        ("meta", {"a": float("inf")}, "is not JSON"),
        ("meta", {("a",): 1}, "keys must be strings"),
        ("meta", {1: "a", "1": "b"}, "keys must be strings"),
        ("meta", {"a": [{"b": {None: 1}}]}, "keys must be strings"),
        ("meta", {"a": "\ud800"}, "lone surrogate"),
        ("meta", {"a": "x" * (1 << 20)}, "at most 1048576"),
        ("meta", deep(65), "at most 64 levels"),
        ("meta", deep(500), "at most 64 levels"),
        ("meta", deep(5000), "is not JSON"),
        ("meta", {"a": 10**5000}, "is not JSON"),
    ],
)
def test_beyond(field: str, value: object, says: str) -> None:
    """One step beyond a limit is refused by a message that names the field and what is allowed."""
    with pytest.raises(InvalidRequest) as raised:
        attrs.evolve(Item(scope_id="s", text="t"), **{field: value})

    assert raised.value.field == field
    assert field in str(raised.value)
    assert says in str(raised.value)


def test_circular_meta() -> None:
    """Metadata that holds itself is refused."""
    meta: dict[str, object] = {}
    meta["self"] = meta
    with pytest.raises(InvalidRequest, match="meta is not JSON"):
        Item(scope_id="s", text="t", meta=meta)


def test_utc() -> None:
    """Times are kept in UTC, with their microseconds."""
    tokyo = DAY.astimezone(timezone(timedelta(hours=9)))
    item = Item(scope_id="s", text="t", created_at=tokyo, updated_at=tokyo, event_time=tokyo)

    assert {str(item.created_at), str(item.updated_at), str(item.event_time)} == {"2026-01-02 03:04:05.000006+00:00"}


def test_caller_changes() -> None:
    """What the caller does later to the lists and dicts that it gave has no effect."""
    tags, inner = ["a", "b"], ["x"]
    meta = {"list": inner}
    item = Item(scope_id="s", text="t", tags=tags, meta=meta)
    digest = item.digest
    tags.append("c")
    inner.append("y")
    meta["new"] = []

    assert (item.tags, item.meta, item.digest) == (("a", "b"), {"list": ["x"]}, digest)


def test_frozen() -> None:
    """An item, its metadata and its tags cannot be changed."""
    item = Item(scope_id="s", text="t", tags=["a"], meta={"a": 1})
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        item.text = "other"
    with pytest.raises(TypeError):
        item.meta["a"] = 2

    assert isinstance(item.tags, tuple)
    assert isinstance(item.meta, MappingProxyType)


def test_repeated_tags() -> None:
    """A tag given twice counts once, in the place of its first."""
    item = Item(scope_id="s", text="t", tags=["b", "a", "b"] * 30)

    assert item.tags == ("b", "a")


BASE = Item(scope_id="s", text="t", artifact_id="a", title="T", tags=("a", "b"), thread="h", position=1, meta={"k": 1})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("text", "t "),
        ("text", "T"),
        ("title", None),
        ("title", ""),
        ("abstract", ""),
        ("abstract", "t"),
        ("overview", "t"),
        ("category", "events"),
        ("tags", ("b", "a")),
        ("tags", ()),
        ("tags", ("a,b",)),
        ("thread", None),
        ("position", 2),
        ("position", None),
        ("event_time", DAY),
        ("confidence", 0.0),
        ("layer", "L1"),
        ("kind", "directory"),
        ("meta", {"k": 2}),
        ("meta", {"k": "1"}),
        ("meta", {}),
    ],
)
def test_digest_covers(field: str, value: object) -> None:
    """Any change of content is another digest."""
    assert attrs.evolve(BASE, **{field: value}).digest != BASE.digest


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("scope_id", "other"),
        ("family", "experience"),
        ("artifact_id", "b"),
        ("created_at", DAY),
        ("updated_at", DAY),
        ("origin", "importer"),
    ],
)
def test_digest_ignores(field: str, value: object) -> None:
    """Identity, times of storage and origin are not content."""
    assert attrs.evolve(BASE, **{field: value}).digest == BASE.digest


def test_digest_equal_content() -> None:
    """The same moment in another zone, 1 and 1.0, and another order of metadata are the same content."""
    zone = timezone(timedelta(hours=-5))
    one = attrs.evolve(BASE, event_time=DAY, confidence=1, meta={"a": 1, "b": {"c": 1, "d": 2}})
    other = attrs.evolve(BASE, event_time=DAY.astimezone(zone), confidence=1.0, meta={"b": {"d": 2, "c": 1}, "a": 1})

    assert one.digest == other.digest


def test_digest_moves_no_text_between_fields() -> None:
    """The same words in other fields are another digest."""
    texts = [
        Item(scope_id="s", text="a", title="b"),
        Item(scope_id="s", text="b", title="a"),
        Item(scope_id="s", text="a", abstract="b"),
        Item(scope_id="s", text="a", overview="b"),
        Item(scope_id="s", text="a", category="b"),
        Item(scope_id="s", text="a", tags=("b",)),
        Item(scope_id="s", text="a", thread="b"),
        Item(scope_id="s", text="a", layer=None, meta={"b": None}),
    ]

    assert len({item.digest for item in texts}) == len(texts)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (Item(scope_id="project:demo", text="We chose SQLite."), "lvu7ewlowb6ul26i"),
        (Item(scope_id="project:demo", text="火锅", family="experience", thread="t1", position=3), "w6n6pfxiqe27mk4u"),
    ],
)
def test_derived_id(item: Item, expected: str) -> None:
    """A derived id never changes between versions: stored artifacts are found again by it."""
    assert derived_artifact_id(item) == expected


@pytest.mark.parametrize(
    ("field", "value", "same"),
    [
        ("scope_id", "other", False),
        ("family", "experience", False),
        ("thread", None, False),
        ("position", 2, False),
        ("text", "t2", False),
        ("title", "other", True),
        ("tags", (), True),
        ("meta", {}, True),
        ("created_at", DAY, True),
    ],
)
def test_derived_id_covers(field: str, value: object, same: bool) -> None:
    """A derived id comes from scope, family, thread, position and text alone."""
    assert (derived_artifact_id(attrs.evolve(BASE, **{field: value})) == derived_artifact_id(BASE)) is same


@given(st.text(TEXT, min_size=1).filter(lambda text: not text.isspace()))
@settings(max_examples=100, deadline=None)
def test_unicode_forms_differ(text: str) -> None:
    """Texts that differ only in Unicode normal form are different content with different derived ids."""
    composed, decomposed = (Item(scope_id="s", text=unicodedata.normalize(form, text)) for form in ("NFC", "NFD"))
    same = composed.text == decomposed.text

    assert (composed.digest == decomposed.digest) is same
    assert (derived_artifact_id(composed) == derived_artifact_id(decomposed)) is same


def test_filters_truth() -> None:
    """Filters are true when they filter."""
    assert not Filters()
    assert not Filters(time_field="event")
    assert all([Filters(tags=("a",)), Filters(since=DAY), Filters(until=DAY), Filters(category="")])
