"""The family holds to the contract of families, and cites as its tracker does."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

import powerctx_core as powerctx
from powerctx_core import ConfigError, Item
from powerctx_core.testing import FamilyContract

FAMILY = "notes"
FILE = f"parts.{FAMILY}.file"
FREEZE = {
    "id": "freeze",
    "scope": "project:demo",
    "text": "Nothing is deployed from Friday on.",
    "updated": "2026-01-05T09:00:00Z",
    "revision": 2,
    "url": "https://tracker.example/7",
}


class TestNotes(FamilyContract):
    family_name = FAMILY

    @pytest.fixture
    def seed(self, tmp_path: Path) -> Callable[[Sequence[Item]], Mapping[str, str]]:
        """Write the kit's items as notes, and say where they are."""

        def seed(items: Sequence[Item]) -> Mapping[str, str]:
            notes = [
                {
                    "id": item.artifact_id,
                    "scope": item.scope_id,
                    "text": item.text,
                    "tags": item.tags,
                    "updated": item.updated_at.isoformat(),
                    "url": f"https://tracker.example/{item.artifact_id}",
                }
                for item in items
            ]
            return {FILE: written(tmp_path, notes)}

        return seed


def written(folder: Path, notes: object) -> str:
    """Write a file of notes and return its path."""
    path = folder / "tracker.json"
    path.write_text(json.dumps(notes), encoding="utf-8")
    return str(path)


def asked(path: str) -> str:
    """Return what is prepared from the notes in a file."""
    with powerctx.open("memory://", settings={FILE: path}) as ctx:
        return ctx.prepare("deployed on Friday?", scope_id="project:demo", families=(FAMILY,)).content or ""


def test_cited(tmp_path: Path) -> None:
    """A note is cited with the tracker's revision and its link."""
    content = asked(written(tmp_path, [FREEZE]))

    assert f'"ref":["{FAMILY}","freeze",2],"url":"https://tracker.example/7"' in content


def test_changed_file(tmp_path: Path) -> None:
    """A file that has changed is read again by whoever has it open."""
    path = written(tmp_path, [FREEZE])
    with powerctx.open("memory://", settings={FILE: path}) as ctx:
        before = ctx.find("Friday", scope_id="project:demo", families=(FAMILY,)).hits
        written(tmp_path, [FREEZE, {**FREEZE, "id": "thaw", "text": "On Friday a week later it ends."}])
        os.utime(path, (0, 0))
        after = ctx.find("Friday", scope_id="project:demo", families=(FAMILY,)).hits

    assert [len(before), len(after)] == [1, 2]


@pytest.mark.parametrize("notes", [{}, [{}], [FREEZE, FREEZE], [{**FREEZE, "text": ""}], [{**FREEZE, "tags": "x"}]])
def test_bad_file(tmp_path: Path, notes: object) -> None:
    """A file that holds anything else is an error that names it."""
    path = written(tmp_path, notes)
    if notes == {}:
        Path(path).unlink()

    with pytest.raises(ConfigError, match=r"tracker\.json"):
        asked(path)


def test_setting_to_correct(tmp_path: Path) -> None:
    """Where the file is missing, the error names the setting that leads there."""
    with pytest.raises(ConfigError, match=f"correct it, or {FILE}"):
        asked(str(tmp_path / "none.json"))
