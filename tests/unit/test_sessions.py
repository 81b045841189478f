"""Sessions as callers use them, in Python and on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import powerctx_core as powerctx
from powerctx_core import CapabilityError, InvalidRequest, Item, NotFound, PowerctxError, StoreSpec, hookimpl
from powerctx_core.cli.program import program

TALK = {"session_id": "s1", "scope_id": "project:demo"}


def test_an_id_belongs_to_one_scope() -> None:
    """The same id in another scope is another session, which is not there."""
    with powerctx.open("memory://", plugins=()) as ctx:
        ctx.sessions.add_message("s1", "user", "hello", scope_id="a")

        assert ctx.sessions.show("s1", scope_id="a").turns == 1
        with pytest.raises(NotFound, match="'s1' of scope 'b' has no log"):
            ctx.sessions.show("s1", scope_id="b")


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("role", {"role": "narrator"}),
        ("role", {"role": None}),
        ("text", {"text": " \n"}),
        ("text", {"text": 7}),
        ("text", {"text": "资" * (1 << 19)}),
        ("text", {"text": "a\ud800"}),
        ("turn_id", {"turn_id": ""}),
        ("turn_id", {"turn_id": "x" * 129}),
        ("session_id", {"session_id": "资" * 43}),
        ("session_id", {"session_id": "a\x00"}),
        ("scope_id", {"scope_id": ""}),
    ],
)
def test_wrong_arguments_are_named(field: str, wrong: dict[str, Any]) -> None:
    """What is outside its limits is one sentence that names the argument, and nothing is written."""
    with powerctx.open("memory://", plugins=()) as ctx:
        with pytest.raises(InvalidRequest, match=field) as caught:
            ctx.sessions.add_message(**{**TALK, "role": "user", "text": "hello", **wrong})

        assert caught.value.field == field
        with pytest.raises(NotFound):
            ctx.sessions.show(**TALK)


class _Bare:
    """A store without sessions."""

    def __init__(self, url: str, settings: object) -> None:
        del url, settings
        inner = powerctx.MemoryStore("memory://", powerctx.NoSettings())
        self.catalogue, self.vectors, self.status, self.close = inner.catalogue, None, inner.status, inner.close


class Plugin:
    @hookimpl
    def powerctx_stores(self):
        """Offer it."""
        yield StoreSpec(name="bare", schemes=("bare",), factory=_Bare)


def test_a_store_without_sessions_says_so() -> None:
    """Every call is a CapabilityError with what to do."""
    with powerctx.open("bare://", plugins=(), extra=[Plugin()]) as ctx:
        for call in (
            lambda: ctx.sessions.add_message(role="user", text="t", **TALK),
            lambda: ctx.sessions.set_overview(text="t", **TALK),
            lambda: ctx.sessions.add_abstract(text="t", **TALK),
            lambda: ctx.sessions.show(**TALK),
        ):
            with pytest.raises(CapabilityError, match="sessions need a store that keeps them"):
                call()


def test_a_closed_context_is_refused() -> None:
    """After close nothing is written."""
    ctx = powerctx.open("memory://", plugins=())
    ctx.close()

    with pytest.raises(PowerctxError, match="closed"):
        ctx.sessions.add_message(role="user", text="t", **TALK)


def run(*arguments: str, stdin: str | None = None) -> Result:
    """Run ``powerctx session`` on a file in the current folder."""
    words = ["session", *arguments, "--scope", "project:demo", "--store", "sqlite:///t.db"]
    return CliRunner().invoke(program, words, input=stdin, prog_name="powerctx")


@pytest.fixture
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


@pytest.mark.usefixtures("_alone")
def test_command_line() -> None:
    """What is added is shown, as lines and as JSON."""
    assert run("add-message", "s1", "Which store?").output == "1 turn\n"
    assert run("add-message", "s1", "-", "--role", "assistant", stdin="SQLite\x1b[31m.\n").output == "1 turn\n"
    assert run("add-message", "s1", "And now?", "--turn-id", "t2", "--json").output == '{"turns": 2}\n'
    assert run("set-overview", "s1", "Stores").output == "overview set\n"
    assert run("add-abstract", "s1", "A choice").output == "abstract added\n"

    assert run("show", "s1").output.splitlines() == [
        "2 turns, 3 messages",
        "overview: Stores",
        "abstract: A choice",
        "turn  role       text",
        "   1  user       Which store?",
        "   1  assistant  SQLite\\x1b[31m.",
        "   2  user       And now?",
    ]
    shown = json.loads(run("show", "s1", "--json").output)
    assert (shown["turns"], shown["count"], shown["overview"]) == (2, 3, "Stores")
    assert [message["turn_id"] for message in shown["messages"]] == [None, None, "t2"]


@pytest.mark.usefixtures("_alone")
def test_command_line_errors() -> None:
    """An unknown session and a wrong role are one line each."""
    missing = run("show", "nobody")
    wrong = run("add-message", "s1", "t", "--role", "narrator")

    assert (missing.exit_code, missing.stderr.count("\n")) == (1, 1)
    assert "has no log" in missing.stderr
    assert (wrong.exit_code, wrong.stderr.count("\n")) == (2, 1)
    assert "user, assistant, system, tool" in wrong.stderr


def test_sessions_are_no_knowledge(tmp_path: Path) -> None:
    """What is said in a session is not found, and a purge of items leaves sessions alone."""
    with powerctx.open(f"sqlite:///{tmp_path}/t.db") as ctx:
        ctx.sessions.add_message(role="user", text="the walrus protocol", **TALK)
        ctx.put([Item(scope_id="project:demo", text="walrus", artifact_id="w")])
        ctx.purge("powerctx://project%3Ademo/memory/w")

        assert ctx.find("walrus", scope_id="project:demo").hits == ()
        assert ctx.sessions.show(**TALK).count == 1
