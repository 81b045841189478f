"""Reading files into items."""

from __future__ import annotations

import io
import json
import os
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from powerctx_core import InvalidRequest, Item, derived_artifact_id
from powerctx_core.ingest import BadLine, Reader, UnknownFamily, document_id, find_sources, split_text

SCOPE = "project:demo"


def read(text: str | bytes, **options: object) -> list[Item | BadLine]:
    """Read JSON lines from memory."""
    data = text.encode() if isinstance(text, str) else text
    options.setdefault("scope_id", SCOPE)
    return list(Reader(**options).records(io.BytesIO(data), "x.jsonl"))


def one(**record: object) -> Item | BadLine:
    """Read one record."""
    (entry,) = read(json.dumps(record))
    return entry


def ingest(*paths: Path, **options: object) -> list[Item | BadLine]:
    """Read files."""
    reader = Reader(scope_id=SCOPE, **options)
    listing = find_sources([str(path) for path in paths])
    return [*listing.bad, *(entry for source in listing.sources for entry in reader.read(source))]


@pytest.mark.parametrize("split", [False, True])
def test_the_limit_of_a_family(split: bool) -> None:
    """A text that is too long for its family is a bad line of its own; parts that are not are taken."""
    lines = [{"text": "x" * 3000, "family": family, "id": family} for family in ("profile", "memory")]
    text = "\n".join(json.dumps(line) for line in lines)

    found = read(text, text_bytes={"profile": 2500}, split=split)

    bad = [entry for entry in found if isinstance(entry, BadLine)]
    assert split == (not bad)
    assert all("text has 3000 bytes; at most 2500 UTF-8 bytes are allowed" in str(each) for each in bad)
    assert {"memory"} == {entry.family for entry in found if isinstance(entry, Item)} - (
        {"profile"} if split else set()
    )


def test_short_keys() -> None:
    """The short keys stand for fields, a thread gets positions in file order, unknown keys go to meta."""
    lines = [
        {"id": "a", "scope": "s", "time": "2023-05-08T13:56:00", "session": "t", "text": "one", "lang": "en"},
        {"id": 7, "conversation": "t", "scope": "s", "text": "two", "tags": ["x"], "title": None, "time": "2024-02-29"},
        {"scope": "s", "text": "three", "thread": "other", "meta": {"a": 1}, "b": 2},
        {"scope": "s", "text": "four", "thread": "t", "position": 9},
    ]

    items = read("\n".join(map(json.dumps, lines)))

    assert ["a", "7", None, None] == [item.artifact_id for item in items]
    assert [("t", 0), ("t", 1), ("other", 0), ("t", 9)] == [(item.thread, item.position) for item in items]
    assert datetime(2023, 5, 8, 13, 56, tzinfo=UTC) == items[0].event_time
    assert datetime(2024, 2, 29, tzinfo=UTC) == items[1].event_time
    assert {"lang": "en"} == dict(items[0].meta)
    assert ("x",) == items[1].tags
    assert {"a": 1, "b": 2} == dict(items[2].meta)


def test_two_keys_for_one_field() -> None:
    """The plainer key wins and the other one is kept in meta, in either order."""
    first = one(text="x", id="short", artifact_id="long", session="s", conversation="c")
    second = one(text="x", artifact_id="long", conversation="c", session="s", id="short")

    assert ("long", "s") == (first.artifact_id, first.thread) == (second.artifact_id, second.thread)
    assert {"id": "short", "conversation": "c"} == dict(first.meta) == dict(second.meta)


def test_scope_is_for_lines_without_one() -> None:
    """A line's own scope wins over the given one; without any the line is bad."""
    assert ["own", SCOPE] == [item.scope_id for item in read('{"text":"a","scope":"own"}\n{"text":"a"}')]
    (bad,) = read('{"text":"a"}', scope_id=None)
    assert "--scope" in str(bad)


def test_family() -> None:
    """The given family overrides, renaming applies, and a family that is not declared is told apart."""
    line = '{"text":"a","family":"event"}'

    assert "event" == read(line)[0].family
    assert "memory" == read(line, family="memory")[0].family
    assert "memory" == read(line, renamed={"event": "memory"}, families=frozenset({"memory"}))[0].family
    (bad,) = read(line, families=frozenset({"memory"}))
    assert isinstance(bad, UnknownFamily)
    assert "event" == bad.family


def test_zone_of_times_without_one() -> None:
    """A time without zone is in the given zone; one with a zone keeps it."""
    zone = timezone(timedelta(hours=8))
    lines = '{"text":"a","time":"2024-01-01T08:00:00"}\n{"text":"a","time":"2024-01-01T08:00:00Z"}'

    assert [0, 8] == [item.event_time.hour for item in read(lines, zone=zone)]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "is not JSON"),
        ('{"text": "a"', "is not JSON"),
        ("[1]", "is not a JSON object"),
        ("null", "is not a JSON object"),
        ('"text"', "is not a JSON object"),
        ("{}", 'has no "text"'),
        ('{"text": null}', 'has no "text"'),
        ('{"text": 1}', "text must be a string"),
        ('{"text": " \\n"}', "text must not be blank"),
        ('{"text": "a", "time": "yesterday"}', 'time "yesterday" is not a date'),
        ('{"text": "a", "time": 1700000000}', "is not a date"),
        ('{"text": "a", "event_time": "2024-13-01"}', "event_time"),
        ('{"text": "a", "time": "0001-01-01T00:00:00+10:00"}', "out of range"),
        ('{"text": "a", "tags": "x"}', "tags must be a list"),
        ('{"text": "a", "tags": [["x"]]}', "tags must be a list"),
        ('{"text": "a", "meta": []}', "meta must be a JSON object"),
        ('{"text": "a", "meta": {"x": NaN}}', "NaN is no number of JSON"),
        ('{"text": "a", "meta": {"x": 1e999}}', "meta is not JSON"),
        ('{"text": "a", "text": "b"}', 'the key "text" stands twice in one object'),
        ('{"text": "a", "meta": [{"x": 1, "x": 1}]}', 'the key "x" stands twice'),
        (b'{"text": "a\0"}', "is not JSON"),
        ('{"text": "a", "confidence": 2}', "confidence"),
        ('{"text": "a", "position": -1}', "position"),
        ('{"text": "a", "layer": "L9"}', "layer"),
        ('{"text": "a", "family": 5}', "family"),
        ('{"text": "a", "scope": []}', "scope_id must be a string"),
        ('{"text": "a", "scope": ["x"], "thread": "t"}', "scope_id must be a string"),
        ('{"text": "a", "id": true}', "artifact_id must be a string"),
        ('{"text": "a", "id": "\\u0007"}', "control character"),
        ('{"text": "\\ud800"}', "surrogate"),
        ('{"text": "a", "x": "\\ud800"}', "surrogate"),
        ('{"text": "a", "x": ' + "9" * 5000 + "}", "is not JSON that can be read"),
        ('{"text": "a", "x": ' + "[" * 100_000 + "}", "is not JSON"),
        (json.dumps({"text": "a" * ((1 << 20) + 1)}), "1048576"),
        (json.dumps({"text": "a", "id": "é" * 65}), "128"),
        (json.dumps({"text": "a", "tags": ["a" + str(n) for n in range(65)]}), "64"),
        (b'{"text": "\xff"}', "is not UTF-8"),
    ],
)
def test_bad_lines(line: str | bytes, reason: str) -> None:
    """Every kind of bad line is reported with its number and one sentence; what is around it goes in."""
    data = line.encode() if isinstance(line, str) else line

    before, bad, after = read(b'{"text": "before"}\n' + data + b'\n{"text": "after"}\n')

    assert (("before", "after")) == (before.text, after.text)
    assert isinstance(bad, BadLine)
    assert str(bad).startswith("x.jsonl:2: ")
    assert reason in bad.reason
    assert "\n" not in str(bad)


def test_a_bad_line_keeps_its_place() -> None:
    """Correcting a bad line of a thread later does not move the lines behind it."""
    lines = ['{"text":"a","session":"s"}', '{"text":" ","session":"s"}', '{"text":"c","session":"s"}']

    entries = read("\n".join(lines))

    assert [0, 2] == [entry.position for entry in entries if isinstance(entry, Item)]


def test_equal_texts_are_told_apart() -> None:
    """Records without id that share a text but not their content stay several items, with the same ids every time."""
    yes = [json.dumps({"text": "yes", "time": f"2024-01-01T{hour}:00:00"}) for hour in (10, 11, 12)]
    lines = "\n".join([yes[0], '{"text":"no"}', yes[1], yes[0], yes[1], yes[2], '{"id":"own","text":"yes"}'])

    items = read(lines)

    derived = derived_artifact_id(items[0])
    assert [None, None, f"{derived}-2", None, f"{derived}-2", f"{derived}-3", "own"] == [
        item.artifact_id for item in items
    ]
    assert items == read(lines)


def test_equal_texts_of_several_files(tmp_path: Path) -> None:
    """Equal texts of two files of a run are told apart too; those of two scopes or threads are so anyway."""
    for hour in (10, 11):
        (tmp_path / f"{hour}.jsonl").write_text(f'{{"text":"yes","time":"2024-01-01T{hour}:00:00"}}')

    first, second = ingest(tmp_path)

    assert (None, f"{derived_artifact_id(first)}-2") == (first.artifact_id, second.artifact_id)
    other = read('{"text":"a","scope":"x"}\n{"text":"a","scope":"y","title":"t"}\n{"text":"a","session":"s"}')
    assert [None, None, None] == [item.artifact_id for item in other]


def test_equal_long_texts_are_told_apart() -> None:
    """Long records without id that share their text keep their own parts when they are split."""
    lines = "\n".join(json.dumps({"text": "word " * 2000, "time": f"2024-01-01T{hour}:00:00"}) for hour in (10, 11, 10))

    parts = read(lines, split=True)

    threads = list(dict.fromkeys(part.thread for part in parts))
    assert [threads[0], f"{threads[0]}-2"] == threads
    assert {10} == {part.event_time.hour for part in parts if part.thread == threads[0]}
    assert parts == read(lines, split=True)


def test_line_ends_and_marks() -> None:
    """A byte order mark, CRLF, blank lines and a missing last line end are fine; U+2028 does not end a line."""
    data = b'\xef\xbb\xbf{"text":"a"}\r\n\r\n   \n{"text":"b\xe2\x80\xa8c"}'

    assert ["a", "b\u2028c"] == [item.text for item in read(data)]


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x01\x02\n{}",
        '{"text":"a"}'.encode("utf-16"),
        '{"text":"a"}\n{"text":"b"}'.encode("utf-16-le"),
        '{"text":"a"}'.encode("utf-32-be"),
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    ],
)
def test_binary_records(data: bytes) -> None:
    """A file that is no text is refused as a whole, from a file as from a pipe."""
    (bad,) = (
        read(data)
        if b"PNG" not in data
        else Reader(scope_id=SCOPE).records(io.BufferedReader(io.BytesIO(data)), "x.jsonl")
    )

    assert bad.line is None
    assert "binary" in bad.reason


def test_json_that_is_not_lines(tmp_path: Path) -> None:
    """A pretty-printed or single-array file is refused once, not once a line."""
    for text in ("[\n{}\n]", '{\n "text": "a"\n}', '[{"text": "a"}]'):
        (tmp_path / "x.json").write_text(text)
        (bad,) = ingest(tmp_path / "x.json")
        assert "jq" in str(bad)


def test_markdown(tmp_path: Path) -> None:
    """The title is the first heading outside code, the id is the path, line ends are normalised."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.md").write_bytes(b"\xef\xbb\xbf```\n# no\n```\r\n## Yes: it ##\r\ntext\r\n")
    (tmp_path / "sub" / "b.md").write_text("Title\n=====\nbody")
    (tmp_path / "sub" / "c.md").write_text("---\ntitle: From Front\ntags: [x]\n---\nbody")
    (tmp_path / "sub" / "d.txt").write_text("plain")

    a, b, c, d = ingest(tmp_path)

    assert ["a.md", "sub/b.md", "sub/c.md", "sub/d.txt"] == [item.artifact_id for item in (a, b, c, d)]
    assert ["Yes: it", "Title", "From Front", "d"] == [item.title for item in (a, b, c, d)]
    assert "```\n# no\n```\n## Yes: it ##\ntext\n" == a.text
    assert "body" == c.text


def test_walk(tmp_path: Path) -> None:
    """Hidden and unknown files are passed over and counted, link loops end, dead links and binary files are named."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x.md").write_text("hidden")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x.md").write_text("x")
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b" / "up").symlink_to(tmp_path)
    (tmp_path / "dead.md").symlink_to("nowhere")
    (tmp_path / "p.png").write_bytes(b"")
    (tmp_path / "Makefile").write_text("x")
    (tmp_path / "n.txt").write_bytes(b"a\0b")
    os.mkfifo(tmp_path / "pipe.md")

    listing = find_sources([str(tmp_path)])
    reader = Reader(scope_id=SCOPE)
    entries = [entry for source in listing.sources for entry in reader.read(source)]

    assert ["b/x.md"] == [entry.artifact_id for entry in entries if isinstance(entry, Item)]
    assert {".png": 1, "no ending": 1, "no regular file": 1} == dict(listing.skipped)
    assert ["link to nothing"] == [bad.reason[5:20] for bad in listing.bad]
    assert ["n.txt"] == [Path(entry.source).name for entry in entries if isinstance(entry, BadLine)]


def test_a_pipe_is_not_opened(tmp_path: Path) -> None:
    """Something named that is no regular file is reported at once; reading it could wait forever."""
    os.mkfifo(tmp_path / "pipe.jsonl")

    for path in (tmp_path / "pipe.jsonl", Path(os.devnull)):
        (bad,) = ingest(path)
        assert f"{path}: is no regular file; pipe it into `powerctx ingest -` instead." == str(bad)


def test_paths_that_collide(tmp_path: Path) -> None:
    """Two files that would get one id are an error, the same file named twice is read once."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "README.md").write_text(name)

    entries = ingest(tmp_path / "a", tmp_path / "b", tmp_path / "a" / "README.md")

    assert ["BadLine", "Item"] == [type(entry).__name__ for entry in entries]
    assert "same id 'README.md'" in str(entries[0])


def test_missing_path() -> None:
    """A path that does not exist, or is empty, is bad usage."""
    for path in ("/nowhere/x.md", ""):
        with pytest.raises(InvalidRequest, match="does not exist"):
            find_sources([path])


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that may not be read is reported, the others go in."""
    for name in ("a.md", "b.md", "c.jsonl"):
        (tmp_path / name).write_text('{"text": "x"}')
    opened = Path.open

    def refuse(path: Path, *more: object, **options: object) -> object:
        if path.name != "b.md":
            raise PermissionError(13, "Permission denied")
        return opened(path, *more, **options)

    monkeypatch.setattr(Path, "open", refuse)
    entries = ingest(tmp_path)

    assert ["BadLine", "Item", "BadLine"] == [type(entry).__name__ for entry in entries]
    assert "Permission denied" in str(entries[0])


def test_empty_and_long_documents(tmp_path: Path) -> None:
    """An empty file is passed over, one over the limit is reported unless it is split."""
    (tmp_path / "a.md").write_text("")
    (tmp_path / "b.txt").write_text("word " * 250_000)
    reader = Reader(scope_id=SCOPE)

    entries = [entry for source in find_sources([str(tmp_path)]).sources for entry in reader.read(source)]

    assert 1 == reader.empty
    assert ["--split" in str(entry) for entry in entries] == [True]
    parts = ingest(tmp_path, split=True)
    assert len(parts) > 300
    assert all(len(part.text.encode()) <= 4096 for part in parts)


def test_split_documents(tmp_path: Path) -> None:
    """Parts of a document are a thread in order, with the headings above them as title."""
    (tmp_path / "a.md").write_text("# A\n\nintro\n\n## One\n\nx\n\n### Deep\n## Two\ny\n")

    parts = ingest(tmp_path, split=True)

    assert [("a.md#1", "a.md", 0), ("a.md#2", "a.md", 1), ("a.md#3", "a.md", 2)] == [
        (part.artifact_id, part.thread, part.position) for part in parts
    ]
    assert ["A", "A > One", "A > Two"] == [part.title for part in parts]
    assert "### Deep\n## Two\ny" == parts[2].text


def test_split_records() -> None:
    """With splitting a long record, even over the limit, becomes parts; short ones stay as they are."""
    long = json.dumps({"id": "long", "text": "sentence one. " * 100_000, "session": "s"})

    entries = read(f'{{"id":"short","text":"a"}}\n{long}', split=True)

    assert ("short", None) == (entries[0].artifact_id, entries[0].thread)
    assert ("long#1", "long", 0) == (entries[1].artifact_id, entries[1].thread, entries[1].position)
    assert not [entry for entry in entries if isinstance(entry, BadLine)]


@given(st.text(st.sampled_from("ab 中é#`~-=\n\t\u200d🇩🇪"), max_size=3000).map(lambda text: text * 4), st.booleans())
def test_split_loses_nothing(text: str, markdown: bool) -> None:
    """Parts hold all characters but white space, in order, within the limit."""
    parts = [part for _, part in split_text(text, markdown=markdown)]

    assert "".join(text.split()) == "".join("".join(parts).split())
    assert all(len(part.encode()) <= 4096 and part.strip() for part in parts)


@given(st.text(max_size=400))
def test_document_ids(relative: str) -> None:
    """Every path gives an id that an item accepts, with room for a part's number."""
    if relative.strip():
        Item(scope_id="s", text="x", artifact_id=f"{document_id(relative)}#999999")


def test_long_ids_differ() -> None:
    """Two long paths that share their beginning get different ids."""
    first, second = (document_id("d/" * 100 + name) for name in ("a.md", "b.md"))

    assert first != second
    assert first.startswith("d/d/")


KEYS = st.sampled_from(
    "text id scope time session conversation thread position tags meta family kind title confidence layer x".split()
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["2024-01-01"])
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)


@given(st.dictionaries(KEYS, VALUES), st.booleans())
def test_any_record_is_an_item_or_a_bad_line(record: dict[str, object], split: bool) -> None:
    """Whatever JSON stands on a line, nothing is raised: it is an item or a bad line with a reason."""
    for entry in read(json.dumps({"text": "x"} | record), split=split):
        assert isinstance(entry, Item) or entry.reason


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes(data: bytes, split: bool) -> None:
    """Whatever bytes a file holds, nothing is raised."""
    for entry in read(data, split=split):
        assert isinstance(entry, Item | BadLine)
