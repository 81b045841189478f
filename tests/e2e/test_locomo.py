"""The main job on labelled data: a set goes in by the command line, and its questions are answered within budget.

The data is read from ``../shared/data`` beside the repository, or from ``POWERCTX_EVAL_DATA``.  It is not part of the
repository, so the test is skipped where it is absent, and fails where ``CI`` is set.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

import powerctx_core as powerctx

_MAPPING = "conversation=memory,event=memory,passage=memory,preference=memory,entity=memory,open_question=memory"


@pytest.fixture(scope="module")
def data(evaluation_data: Path) -> Path:
    """The folder of LoCoMo."""
    return evaluation_data / "locomo"


@pytest.fixture(scope="module")
def store(data: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a store into which the command line has put all items."""
    url = f"sqlite:///{tmp_path_factory.mktemp('locomo') / 'locomo.db'}"
    command = [sys.executable, "-m", "powerctx_core.cli", "ingest", str(data / "items.jsonl"), "--map", _MAPPING]
    done = subprocess.run([*command, "--store", url, "--json"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["stored"] == 2760
    return url


@pytest.fixture
def statements() -> Iterator[list[str]]:
    """Every statement that SQLAlchemy sends meanwhile; BEGIN and ROLLBACK are the driver's."""
    seen: list[str] = []

    def note(_conn: object, _cursor: object, statement: str, *_more: object) -> None:
        seen.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    yield seen
    event.remove(Engine, "before_cursor_execute", note)


def test_evidence_within_budget_by_words_alone(data: Path, store: str, statements: list[str]) -> None:
    """No answer is over budget, evidence in 8 items is at least 0.58, and a call reads with at most 5 statements."""
    shares = []
    path = Path(store.removeprefix("sqlite:///"))
    with powerctx.open(store, settings={}) as ctx:
        before = path.read_bytes()
        for line in (data / "queries.jsonl").read_text(encoding="utf-8").splitlines():
            query = json.loads(line)
            statements.clear()
            prepared = ctx.prepare(query["text"], scope_id=query["scope"])
            assert len(statements) <= 5
            assert all(statement.lstrip().startswith(("SELECT", "WITH")) for statement in statements)
            assert len((prepared.content or "").encode()) == prepared.content_bytes <= 8000
            cited = {json.loads(entry)["ref"][1] for entry in (prepared.content or "").splitlines()[2:-1]}
            assert cited == {address.artifact_id for address in prepared.selected}
            assert len(cited) <= 8
            if query.get("answerable") is not False and query["gold"]:
                shares.append(len(cited & set(query["gold"])) / len(query["gold"]))
        assert path.read_bytes() == before

    assert len(shares) > 700
    assert sum(shares) / len(shares) >= 0.58


def test_filled_budget_by_words_alone(data: Path, store: str) -> None:
    """With up to 64 items in 8 000 bytes, evidence is at least 0.74."""
    shares = []
    with powerctx.open(store, settings={}) as ctx:
        for line in (data / "queries.jsonl").read_text(encoding="utf-8").splitlines():
            query = json.loads(line)
            if query.get("answerable") is False or not query["gold"]:
                continue
            prepared = ctx.prepare(query["text"], scope_id=query["scope"], max_items=64)
            assert prepared.content_bytes <= 8000
            delivered = {address.artifact_id for address in prepared.selected}
            shares.append(len(delivered & set(query["gold"])) / len(query["gold"]))

    assert sum(shares) / len(shares) >= 0.74


def test_ingesting_again_changes_nothing(data: Path, store: str) -> None:
    """Running the same command a second time finds everything unchanged."""
    command = [sys.executable, "-m", "powerctx_core.cli", "ingest", str(data / "items.jsonl"), "--map", _MAPPING]
    done = subprocess.run([*command, "--store", store, "--json"], capture_output=True, text=True, check=True)

    report = json.loads(done.stdout)
    assert (report["stored"], report["unchanged"]) == (0, 2760)
