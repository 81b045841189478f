"""A tiny set of our own, in the form of the labelled data."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

ITEMS: Sequence[Mapping[str, Any]] = (
    {"id": "c/1", "scope": "c", "session": "s1", "time": "2023-05-08T13:56:00", "text": "Mina adopted a grey cat."},
    {"id": "c/2", "scope": "c", "session": "s1", "time": "2023-05-08T13:57:00", "text": "The cat is called Pixel."},
    {"id": "c/3", "scope": "c", "session": "s2", "time": "2023-06-01", "text": "Paul moved to Lisbon in spring."},
    {"id": "c/4", "scope": "c", "session": "s1", "time": None, "text": "Lisbon has steep streets and old trams."},
    {"id": "d/1", "scope": "d", "text": "数据库迁移在周五晚上进行。", "pinned": True, "scopes": ["domain:code"]},
    {"id": "d/2", "scope": "d", "text": "迁移以前在周一进行。", "superseded_by": "d/1", "scopes": ["domain:code"]},
    {"id": "d/3", "scope": "d", "text": "晚上写第三章。", "scopes": ["domain:writing"]},
)
QUERIES: Sequence[Mapping[str, Any]] = (
    {"id": "q1", "scope": "c", "text": "Which cat did Mina adopt?", "gold": ["c/1"], "category": "one"},
    {"id": "q2", "scope": "c", "text": "Where is Lisbon, and who moved there?", "gold": ["c/3", "c/4"]},
    {"id": "q3", "scope": "c", "text": "zebra giraffe", "gold": ["c/2"]},
    {"id": "q4", "scope": "c", "text": "Did Mina adopt a dog?", "gold": ["c/1"], "answerable": False},
    {"id": "q5", "scope": "d", "text": "迁移在什么时候？", "gold": ["d/1"], "only": ["d/1"], "must_not": ["d/2"],
     "filter_scope": ["domain:code"]},
    {"id": "q6", "scope": "d", "text": "晚上", "gold": [], "only": ["d/1"], "must_not": ["d/3"],
     "filter_scope": ["domain:code", "domain:writing"]},
    {"id": "q7", "scope": "d", "text": "  ", "gold": ["d/1"]},
)  # fmt: skip


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a set and return the folder of the sets: ``write(name, items, queries)``."""

    def make(name: str, items: Sequence[Any] = ITEMS, queries: Sequence[Any] = QUERIES) -> Path:
        (tmp_path / "data" / name).mkdir(parents=True)
        for file, records in (("items", items), ("queries", queries)):
            lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
            (tmp_path / "data" / name / f"{file}.jsonl").write_text(lines, encoding="utf-8")
        return tmp_path / "data"

    return make


@pytest.fixture
def data(write: Callable[..., Path]) -> Path:
    """A folder with the set ``tiny``."""
    return write("tiny")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", "data: runs on the labelled sets, which are no part of the repository")
