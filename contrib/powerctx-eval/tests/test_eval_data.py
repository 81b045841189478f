"""Sets are read where they lie."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from powerctx_core import InvalidRequest
from powerctx_eval.ask import chosen
from powerctx_eval.data import SETS, data_folder, load
from powerctx_eval.stores import filled, opened


def test_items_keep_time_thread_place_and_marks(data: Path) -> None:
    """``session`` is the thread of its conversation, the order of the file the position, times are UTC."""
    found = load(data, "tiny")
    items = {entry.item.artifact_id: entry for entry in found.items}

    assert datetime(2023, 5, 8, 13, 56, tzinfo=UTC) == items["c/1"].item.event_time
    assert [("c/s1", 0), ("c/s1", 1), ("c/s2", 0), ("c/s1", 2)] == [
        (entry.item.thread, entry.item.position) for entry in found.items[:4]
    ]
    assert (None, None, None) == (
        items["d/1"].item.thread,
        items["d/1"].item.position,
        items["d/1"].item.event_time,
    )
    assert ("domain:code", "pinned") == items["d/1"].item.tags
    assert ["d/2"] == [name for name, entry in items.items() if entry.retired]
    assert {"tiny/c", "tiny/d"} == found.scope_ids


def test_labels_of_queries_are_kept(data: Path) -> None:
    """Gold, ``only``, ``must_not``, filters and traps come from the file."""
    queries = {query.id: query for query in load(data, "tiny").queries}

    assert frozenset({"c/3", "c/4"}) == queries["q2"].gold
    assert queries["q4"].adversarial
    assert (frozenset({"d/1"}), frozenset({"d/2"})) == (queries["q5"].only, queries["q5"].must_not)
    assert ("domain:code", "domain:writing") == queries["q6"].tags


def test_labels_can_be_scopes_of_their_own(data: Path) -> None:
    """The first label is asked, the others are referred to, and nothing is left to filter."""
    found = load(data, "tiny", filtered_by="scopes")
    queries = {query.id: query for query in found.queries}

    assert "tiny/d/domain:code" == found.items[4].item.scope_id
    assert ("tiny/d/domain:code", ("tiny/d/domain:writing",), ()) == (
        queries["q6"].scope_id,
        queries["q6"].references,
        queries["q6"].tags,
    )


def test_a_sample_is_drawn_by_its_seed_and_keeps_the_order(data: Path) -> None:
    """Equal seeds draw equal queries; blank ones cannot be asked and are counted."""
    found = load(data, "tiny")
    everything, blank = chosen(found, None, 1)

    assert (6, 1) == (len(everything), blank)
    assert chosen(found, 3, 1) == chosen(found, 3, 1)
    drawn = [query.id for query in chosen(found, 3, 1)[0]]
    assert sorted(drawn) == drawn
    assert any(chosen(found, 3, seed) != chosen(found, 3, 1) for seed in range(9))


def test_absent_data_is_said_in_one_sentence(tmp_path: Path) -> None:
    """The sentence names the folder and both ways to name another."""
    with pytest.raises(InvalidRequest) as caught:
        data_folder(tmp_path / "nowhere")

    expected = (
        f"the evaluation data is not at {tmp_path}/nowhere; name its folder with --data DIR or POWERCTX_EVAL_DATA."
    )
    assert expected == str(caught.value)


def test_the_folder_is_given_or_in_the_environment_or_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The option beats the variable, which beats ``../shared/data``."""
    for name in ("option", "variable", "shared/data", "here"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    environ = {"POWERCTX_EVAL_DATA": str(tmp_path / "variable")}

    assert tmp_path / "option" == data_folder(tmp_path / "option", environ)
    assert tmp_path / "variable" == data_folder(None, environ)
    assert Path("../shared/data") == data_folder(None, {})


@pytest.mark.parametrize(
    ("items", "queries", "sentence"),
    [
        ([{"id": "a", "scope": "c", "text": "x"}] * 2, [], "has the id 'a' twice"),
        ([], [{"id": "q", "scope": "c", "text": "x", "gold": ["nothing"]}], "wants 'nothing', which is not there"),
        ([{"id": "a", "scope": "c"}], [], "has no 'text' that is a string"),
        ([{"id": "a", "scope": "c", "text": "x", "time": "yesterday"}], [], "items.jsonl:1"),
        ([["a"]], [], "is not a JSON object"),
        ([], [{"id": "q", "scope": "c", "text": "x", "gold": "c/1"}], "'gold' is not a list of strings"),
    ],
)
def test_lines_that_are_not_of_the_form_are_refused(
    write: Callable[..., Path], items: list[object], queries: list[object], sentence: str
) -> None:
    """A set that would give wrong figures is refused, with the place."""
    folder = write("bad", items, queries)

    with pytest.raises(InvalidRequest, match=sentence):
        load(folder, "bad")


def test_an_unknown_set_is_answered_with_what_is_there(data: Path) -> None:
    """The message lists the sets of the folder."""
    with pytest.raises(InvalidRequest, match="sets there: tiny"):
        load(data, "huge")


def test_a_store_is_left_as_it_was(data: Path) -> None:
    """Nothing of the set stays, and a store that holds its scopes is refused."""
    found = load(data, "tiny")
    with opened("memory") as ctx:
        with filled(ctx, found) as held:
            assert len(found.items) == len(held.items)
            assert 1 == len(held.retired)
            with pytest.raises(InvalidRequest, match="name an empty store"), filled(ctx, found):
                pass

        assert not {scope for scope, count in ctx.partitions().items() if count}


@pytest.mark.data
def test_every_real_set_can_be_read(evaluation_data: Path) -> None:
    """All six are of the form, and gold lies in the query's scope."""
    for name in SETS:
        found = load(evaluation_data, name)
        scopes = {entry.item.artifact_id: entry.item.scope_id for entry in found.items}

        assert {
            query.scope_id for query in found.queries for gold in query.gold if scopes[gold] != query.scope_id
        } == set()
