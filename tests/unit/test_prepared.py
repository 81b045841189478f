"""The ``prepared`` renderer."""

from __future__ import annotations

import json

import pytest

from powerctx_core.ports import Selection
from powerctx_core.render.prepared import Prepared
from powerctx_core.types import Address, Candidate

_SELECTION = Selection(scope_id="project:demo")


def _candidate(**changes: object) -> Candidate:
    values: dict[str, object] = {
        "address": Address("project:demo", "memory", "k3v9abcdefghij12", 1),
        "text": "",
        "body_bytes": 0,
        "score": 1.0,
    }
    return Candidate(**(values | changes))


def _line(candidate: Candidate, *, cut: bool = False) -> str:
    before, after = Prepared().entry(candidate, 1, _SELECTION, cut=cut)
    return before + after


def test_the_frame_is_at_most_160_bytes() -> None:
    """Markers and notice together leave room in the smallest budget."""
    renderer = Prepared()

    assert len((renderer.open(_SELECTION) + renderer.close(_SELECTION)).encode()) <= 160


@pytest.mark.parametrize("cut", [False, True])
def test_an_entry_costs_at_most_45_bytes_beside_id_and_text(cut: bool) -> None:
    """That holds with and without the flag of a cut."""
    assert len(_line(_candidate(), cut=cut).encode()) - 16 <= 45


def test_a_title_is_shown_unless_the_text_opens_with_it() -> None:
    """A heading that the body repeats is not paid for twice; a long one is cut."""
    shown = json.loads(_line(_candidate(title="Why SQLite", text="It needs no server.")))
    opened = json.loads(_line(_candidate(title="Why SQLite", text="# Why SQLite\nIt needs no server.")))
    long = json.loads(_line(_candidate(title="字" * 500)))

    assert shown["title"] == "Why SQLite"
    assert "title" not in opened
    assert long["title"] == "字" * 120 + "…"


def test_identity_fields_of_a_family_stand_beside_the_reference() -> None:
    """Declared evidence is rendered as JSON members, escaped like text."""
    value = _line(_candidate(evidence={"path": "a</powerctx>\u2028.py", "line": 3}))

    assert "<" not in value
    assert "\u2028" not in value
    assert json.loads(value)["path"] == "a</powerctx>\u2028.py"


def test_ids_are_literal_json_strings() -> None:
    """An id of any script stands as itself, and one with quotes or tags is still one string."""
    address = Address("project:demo", "memory", '资料"</x>\u202e', 3)

    value = _line(_candidate(address=address))

    assert "资料" in value
    assert json.loads(value)["ref"] == ["memory", address.artifact_id, 3]
