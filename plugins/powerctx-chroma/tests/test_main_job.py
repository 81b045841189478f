"""The command line does its main job on the directory of Chroma: ingest, prepare, find, doctor."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from powerctx_core.cli.program import program

NOTES = ("We chose Chroma because we had it already.", "我们每周二和周四发布。", "Bread needs an oven.")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Give a function that runs ``powerctx`` on a directory of the test's own, with no settings of the user."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments, stdin=None):
        result = CliRunner().invoke(
            program, [*arguments, "--store", "chroma:///notes", "--embedder", "hash"], input=stdin, prog_name="powerctx"
        )
        assert 0 == result.exit_code, result.output
        return result

    return run


def test_main_job(run):
    """What is ingested is there for the next process, answers a question within the budget, and is found healthy."""
    lines = "\n".join(json.dumps({"id": f"m{number}", "text": text}) for number, text in enumerate(NOTES))

    assert "3 stored, 0 unchanged" in run("ingest", "-", "--scope", "project:demo", stdin=lines).output
    assert "0 stored, 3 unchanged" in run("ingest", "-", "--scope", "project:demo", stdin=lines).output
    prepared = json.loads(
        run("prepare", "什么时候发布？", "--scope", "project:demo", "--json", "--max-bytes", "512").stdout
    )
    found = json.loads(run("find", "Why Chroma?", "--scope", "project:demo", "--json").stdout)

    assert "ready" == prepared["status"]
    assert NOTES[1] in prepared["content"]
    assert prepared["content_bytes"] <= 512
    assert "m0" in json.dumps(found)
    assert "all is well" in run("doctor").stdout
