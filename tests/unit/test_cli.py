"""The command line, in process."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from powerctx_core import Context, InvalidRequest, Item, PutResult, StoreError, opening
from powerctx_core.cli import output
from powerctx_core.cli.program import COMMANDS, program

STORE = "sqlite:///t.db"
SCOPE = "project:demo"


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in an empty folder, with no settings of the user."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    for name in ("POWERCTX_STORE", "POWERCTX_PLUGINS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
    """Run ``powerctx``."""
    return CliRunner().invoke(program, list(arguments), input=stdin, prog_name="powerctx")


def stored(*texts: str, scope: str = SCOPE) -> None:
    """Put texts into the store as memories m0, m1, …."""
    lines = [json.dumps({"id": f"m{n}", "text": text}) for n, text in enumerate(texts)]
    result = run("ingest", "-", "--scope", scope, "--store", STORE, stdin="\n".join(lines))
    assert 0 == result.exit_code, result.output


def failed(result: Result, code: int, *parts: str) -> None:
    """Assert exit code, silence on standard output, and exactly one line ``error: …`` that holds *parts*."""
    assert code == result.exit_code, result.output
    assert "" == result.stdout
    assert 1 == result.stderr.count("\n")
    assert result.stderr.startswith("error: ")
    for part in parts:
        assert part in result.stderr


def paths(command: click.Command, name: str) -> list[str]:
    """Return the names of a command and those below it."""
    if not isinstance(command, click.Group):
        return [name]
    return [name, *(f"{name} {each}" for each in command.commands)]


EVERY = [path for name in COMMANDS for path in paths(program.get_command(click.Context(program), name), name)]


@pytest.mark.parametrize("path", EVERY)
def test_help(path: str) -> None:
    """The help of every command says what it does and shows an example of it."""
    result = run(*path.split(), "--help")

    assert 0 == result.exit_code
    assert f"Usage: powerctx {path}" in result.stdout
    assert f"  powerctx {path}" in result.stdout.partition("Example:")[2] or "powerctx config show" in result.stdout
    assert "\b" not in result.stdout


@pytest.mark.parametrize("path", [path for path in EVERY if path not in ("config", "session")])
def test_common_options(path: str) -> None:
    """Every command takes --store, --embedder, --json and --debug."""
    text = run(*path.split(), "--help").stdout

    assert all(f"--{option}" in text for option in ("store URL", "embedder NAME", "json", "debug"))


@pytest.mark.parametrize("path", EVERY)
def test_help_is_complete(path: str) -> None:
    """Every option and argument of a command stands in its help, each option with a sentence."""
    command: click.Command = program
    for name in path.split():
        command = command.get_command(click.Context(command), name)
    text = run(*path.split(), "--help").stdout

    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert all(option in text for option in parameter.opts)
            assert parameter.help.endswith(".")
        else:
            assert parameter.make_metavar(click.Context(command)) in text
    for name in getattr(command, "commands", ()):
        assert f"\n  {name} " in text


def test_group_without_command() -> None:
    """A group alone prints its help, in lines, as bad usage."""
    result = run("config")

    assert (2, "") == (result.exit_code, result.stdout)
    assert result.stderr.startswith("Usage: powerctx config [OPTIONS] COMMAND [ARGS]...\n")
    assert "\n  show " in result.stderr


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_help_lists_all_commands(arguments: tuple[str, ...]) -> None:
    """Without arguments the help is printed, with every command in one line."""
    result = run(*arguments)

    assert 0 == result.exit_code
    for name in COMMANDS:
        assert f"\n  {name} " in result.stdout


def test_version() -> None:
    """--version prints one line."""
    assert run("--version").stdout.startswith("powerctx ")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("frobnicate",), "No such command"),
        (("prepair",), "'prepare'"),
        (("--nope",), "No such option"),
        (("prepare",), "powerctx prepare --help"),
        (("prepare", "x"), "--scope"),
        (("prepare", "x", "--scope", "s", "--max-bytes", "many"), "--max-bytes"),
        (("prepare", "x", "--scope", "s", "--max-bytes", "100"), "512"),
        (("prepare", "x", "--scope", "s", "--max-items", "65"), "64"),
        (("prepare", "   ", "--scope", "s"), "blank"),
        (("prepare", "x" * 9000, "--scope", "s"), "8192"),
        (("prepare", "\udcff", "--scope", "s"), "surrogate"),
        (("prepare", "x", "--scope", ""), "scope_id"),
        (("prepare", "x", "--scope", "s", "--renderer", "nope"), "--renderer"),
        (("prepare", "x", "--scope", "s", "--families", "nope"), "--families"),
        (("prepare", "x", "--scope", "s", "--families", " , "), "families is empty"),
        (("prepare", "x", "--scope", "s", "--policy", "nope"), "policy"),
        (("prepare", "x", "--scope", "s", "--sections", "memory"), "family=entries"),
        (("prepare", "x", "--scope", "s", "--sections", "memory=x"), "family=entries"),
        (("prepare", "x", "--scope", "s", "--sections", " , "), "--sections is empty"),
        (("prepare", "x", "--scope", "s", "--sections", "memory=9"), "it allows 1 to 8"),
        (("prepare", "x", "--scope", "s", "--sections", "memory=1", "--families", "memory"), "exclude each other"),
        (("prepare", "x", "--scope", "s", "--show", "mood"), "confidence, recall_rank"),
        (("prepare", "x", "--scope", "s", "--trim", "age"), "rank or value"),
        (("find", "x", "--scope", "s", "--limit", "0"), "1000"),
        (("find", "x", "--scope", "s", "--since", "soon"), "--since"),
        *(
            (("find", "x", "--scope", "s", "--filter", text), part)
            for text, part in (
                ("{", "--filter is not JSON"),
                ("[" * 20_000, "--filter is nested too deep"),
                ('{"layer": ' + "[" * 500 + "]" * 500 + "}", "filter 'layer'"),
                (f'{{"meta.n": {"9" * 5000}}}', "--filter has a whole number of too many digits"),
                ('{"meta.n": {"gte": NaN}}', "NaN"),
                ('{"meta.n": {"lte": true}}', "bounds are gte and lte"),
                ('{"meta.n": NaN}', "filter 'meta.n' is nan"),
            )
        ),
        (("recall", "x", "--scope", "s", "--quotas", "x" * 60_000 + "=1"), "quotas names 'xxx"),
        (("recall", "x", "--scope", "s", "--quotas", "x" * 60_000), "write bucket=value"),
        (("recall", "x", "--scope", "s", "--quotas", "events=" + "9" * 5000), "which is no number"),
        (("recall", "x", "--scope", "s", "--detail", "\x1b[31m=full"), "detail names '\\x1b[31m'"),
        (("recall", "x", "--scope", "s", "--other-peer-penalty", "\udcff=0.5"), "names '\\udcff'"),
        (("recall", "x", "--scope", "s", "--purpose", "x" * 60_000), "purpose 'xxx"),
        (("read", "http://example.com"), "powerctx://"),
        (("forget", "powerctx://s/memory/x@0"), "revisions count from 1"),
        (("find", "x", "--scope", "s", "--store", ""), "store in flag: is empty"),
        (("find", "x", "--scope", "s", "--embedder", ""), "No embedder '' is installed"),
        (("find", "x", "--scope", "s", "--embedder", "nope"), "installed embedders: hash"),
        (("find", "x", "--scope", "s", "--search-type", "nope"), "auto, fts, vector, hybrid"),
        (("ingest",), "PATH"),
        (("ingest", "nowhere.md"), "does not exist"),
        (("ingest", "-", "--family", "nope"), "--map"),
        (("ingest", "-", "--map", "a"), "conversation=memory"),
        (("ingest", "-", "--map", "a=memory,a=x"), "twice"),
        (("ingest", "-", "--map", "a=nope"), "nope"),
        (("ingest", "-", "--tz", "Mars/Base"), "--tz"),
        (("ingest", "-", "--tz", "+99:99"), "--tz"),
        (("ingest", "-", "--scope", "a\nb"), "control character"),
        (("ingest", "-", "--batch", "0"), "--batch"),
    ],
)
def test_bad_usage(arguments: tuple[str, ...], part: str) -> None:
    """Bad usage is exit code 2 and one line that names the matter."""
    failed(run("--store", "memory://", *arguments), 2, part)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("read", "powerctx://s/memory/none", "--store", "memory://"), "is not stored"),
        (("history", "powerctx://s/memory/none", "--store", "memory://"), "no revisions"),
        (("forget", "powerctx://s/memory/none", "--store", "memory://"), "no revisions"),
        (("prepare", "x", "--scope", "s", "--store", "nope://x"), "nope"),
        (("prepare", "x", "--scope", "s", "--store", "not a url"), "sqlite:///"),
        (("prepare", "x", "--scope", "s", "--store", "memory://x"), "takes no name"),
        (("find", "x", "--scope", "s", "--store", "memory://", "--search-type", "vector"), "embedder"),
        (("embed", "--store", "memory://"), "embedder"),
        (("check", "nope"), "installed"),
    ],
)
def test_failed_runs(arguments: tuple[str, ...], part: str) -> None:
    """A run that fails is exit code 1 and one line."""
    failed(run(*arguments), 1, part)


def test_store_url_shows_no_secret() -> None:
    """A password in the URL of a store is in no message."""
    result = run("prepare", "x", "--scope", "s", "--store", "nope://me:hunter2@host/db")

    failed(result, 1)
    assert "hunter2" not in result.output


def test_bad_settings_file(tmp_path: Path) -> None:
    """A wrong settings file is one line, even with several mistakes, and help goes on without it."""
    (tmp_path / "powerctx.toml").write_text("[recall]\nitem_bytes = 'x'\nfamilies = 3\n")

    failed(run("find", "x", "--scope", "s"), 2, "item_bytes", "families", "powerctx.toml")
    assert 0 == run("--help").exit_code


def test_debug_shows_the_traceback() -> None:
    """With --debug the traceback stands before the line, wherever the option stands."""
    for arguments in (("--debug", "check", "nope"), ("check", "nope", "--debug")):
        result = run(*arguments)
        assert 1 == result.exit_code
        assert "Traceback" in result.stderr
        assert result.stderr.splitlines()[-1].startswith("error: ")


def test_unexpected_error_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect is shown in one line that asks for --debug."""

    def broken(**_: object) -> None:
        raise ZeroDivisionError("a\nb")

    monkeypatch.setattr(opening, "open", broken)
    failed(run("find", "x", "--scope", "s"), 1, "ZeroDivisionError", "--debug")


def test_newer_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a store says when its file is newer than the code reaches the user as one line."""

    def newer(**_: object) -> None:
        raise StoreError("t.db was made by a newer powerctx (schema 9);\nupgrade powerctx-sqlite.")

    monkeypatch.setattr(opening, "open", newer)
    failed(run("prepare", "x", "--scope", "s"), 1, "upgrade powerctx-sqlite")


def test_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends quietly with 130."""

    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(opening, "open", interrupted)
    result = run("find", "x", "--scope", "s")

    assert (130, "") == (result.exit_code, result.output)


def test_prepare() -> None:
    """The content alone is on standard output, one line about it on standard error."""
    stored("We chose SQLite because it is a file.", "The office plant is green.")

    result = run("prepare", "Why SQLite?", "--scope", SCOPE, "--store", STORE)

    assert 0 == result.exit_code
    assert "We chose SQLite" in result.stdout
    assert "plant" not in result.stdout
    assert f"delivered · 1 item · {len(result.stdout.encode())} of 8000 bytes · memory fts\n" == result.stderr


def test_prepare_sections() -> None:
    """--sections and --show give the Markdown form; `default` is the setting, and `none` says what to do."""
    stored("We chose SQLite because it is a file.")
    command = ("prepare", "Why SQLite?", "--scope", SCOPE, "--store", STORE)

    asked = run(*command, "--sections", "memory=2", "--show", "recall_rank")
    default = run(*command, "--sections", "default")
    nothing = run(*command, "--sections", "none")

    assert "## Memory\n- ref: [" in asked.stdout
    assert "  recall_rank: 1\n> We chose SQLite because it is a file.\n" in asked.stdout
    assert default.stdout == asked.stdout.replace("  recall_rank: 1\n", "")
    assert ("", 0) == (nothing.stdout, nothing.exit_code)
    assert "empty (no_content): no section was asked for; name one with --sections.\n" == nothing.stderr


def test_prepare_with_a_frame_above_the_budget() -> None:
    """When what the renderer always writes is too long already, the line says so."""
    scope = "资" * 80
    result = run("ingest", "-", "--scope", scope, "--store", STORE, stdin='{"text":"needle in a haystack"}')
    assert 0 == result.exit_code

    result = run(
        "prepare", "needle", "--scope", scope, "--store", STORE, "--renderer", "flat-xml", "--max-bytes", "512"
    )

    assert ("", 0) == (result.stdout, result.exit_code)
    assert "empty (budget): what the renderer always writes exceeds the budget in bytes; raise it" in result.stderr


def test_uris_of_a_pack() -> None:
    """What a pack cites can be looked up and forgotten as it stands there, with the scope that was searched."""
    stored("first", "second")
    relative = ("memory/m1", "--store", STORE)
    failed(run("history", *relative), 2, "pass that scope too")
    failed(run("forget", *relative), 2, "pass that scope too")
    assert "current" in run("history", *relative, "--scope", SCOPE).stdout
    assert run("forget", *relative, "--scope", SCOPE).stdout == "1 item retired\n"
    failed(run("read", *relative, "--scope", SCOPE), 1, "is not stored")


def test_prepare_split() -> None:
    """--delivery split prints the stable part, says how many items a tool can read, and gives the tool with --json."""
    stored("We chose SQLite because it is a file.")
    command = ("prepare", "Why SQLite?", "--scope", SCOPE, "--store", STORE, "--delivery", "split")

    shown, response = run(*command), json.loads(run(*command, "--json").stdout)

    assert ("", 0) == (shown.stdout, shown.exit_code)
    assert shown.stderr.startswith("delivered · 0 items · 1 item to read by a tool (--json shows it) · 0 of 8000 bytes")
    assert {"schema", "status", "content", "content_bytes", "inject", "tools"} == response.keys()
    assert "We chose SQLite because it is a file." == response["tools"]["items"][0]["abstract"]
    failed(run(*command[:-2], "--inject-max-tokens", "100"), 2, "needs delivery split")


def test_prepare_json() -> None:
    """With --json standard output is exactly the response object."""
    stored("We chose SQLite because it is a file.")

    for query, status in (("SQLite", "ready"), ("zebra", "empty")):
        result = run("prepare", query, "--scope", SCOPE, "--store", STORE, "--json")
        response = json.loads(result.stdout)
        assert {"schema", "status", "content", "content_bytes"} == response.keys()
        assert status == response["status"]
        assert "" == result.stderr


@pytest.mark.parametrize(
    ("query", "scope", "outcome", "hint"),
    [
        ("SQLite", "nowhere", "no_content", "powerctx ingest PATH --scope nowhere"),
        ("SQLite", "nowhere", "no_content", SCOPE),
        ("zebra", SCOPE, "no_match", "other words"),
    ],
)
@pytest.mark.parametrize("command", ["prepare", "find"])
def test_empty(command: str, query: str, scope: str, outcome: str, hint: str) -> None:
    """Nothing to deliver is no error: nothing on standard output, the outcome and the next step on the other."""
    stored("We chose SQLite because it is a file.")

    result = run(command, query, "--scope", scope, "--store", STORE)

    assert (0, "") == (result.exit_code, result.stdout)
    assert outcome in result.stderr
    assert hint in result.stderr


def test_a_scope_with_a_profile_alone() -> None:
    """The line about nothing found says how to ask for what is not found by a query; ingest keeps to its limit."""
    lines = "\n".join(json.dumps({"text": text, "id": text[:5]}) for text in ("Likes tea.", "x" * (1 << 18 | 1)))
    taken = run("ingest", "-", "--scope", SCOPE, "--family", "profile", "--store", STORE, stdin=lines)

    nothing = run("prepare", "tea", "--scope", SCOPE, "--store", STORE)
    found = run("prepare", "tea", "--scope", SCOPE, "--store", STORE, "--sections", "profile=1")

    assert 1 == taken.exit_code
    assert "2" in taken.stderr
    assert "text has 262145 bytes; at most 262144" in taken.stderr
    assert "it holds the families profile: pass --sections profile=1" in nothing.stderr
    assert "> Likes tea." in found.stdout
    assert "profile snapshot" in found.stderr
    failed(run("find", "tea", "--scope", SCOPE, "--store", STORE, "--families", "profile"), 2, "--sections profile=1")


def test_query_from_stdin() -> None:
    """A dash reads the query from standard input."""
    stored("火锅店在北京大学旁边。")

    result = run("prepare", "-", "--scope", SCOPE, "--store", STORE, stdin="北京的火锅\n")

    assert "北京大学" in result.stdout
    failed(run("prepare", "-", "--scope", SCOPE, "--store", STORE, stdin=b"\xff"), 2, "UTF-8")


def test_find() -> None:
    """A table with rank, score, match and URI, or JSON."""
    stored("SQLite is a file.", "SQLite and files and SQLite.")

    table = run("find", "sqlite", "--scope", SCOPE, "--store", STORE).stdout.splitlines()
    entries = json.loads(run("find", "sqlite", "--scope", SCOPE, "--store", STORE, "--json").stdout)["entries"]

    assert ["rank", "score", "match", "uri", "abstract"] == table[0].split()
    assert [entry["uri"] for entry in entries] == [line.split()[3] for line in table[1:]]


def test_life_of_an_item() -> None:
    """Read, history, forget, purge: a retired revision stays readable, a purged one is gone."""
    stored("first")
    stored("second")
    uri = "powerctx://project%3Ademo/memory/m0"

    assert "second\n" == run("read", uri, "--store", STORE).stdout
    assert "first\n" == run("read", f"{uri}@1", "--store", STORE).stdout
    assert "first\n" == run("read", "memory/m0@1", "--scope", "project:demo", "--store", STORE).stdout
    failed(run("read", "memory/m0@1", "--store", STORE), 2, "pass that scope too")
    assert "first" == json.loads(run("read", f"{uri}@1", "--store", STORE, "--json").stdout)["text"]
    states = json.loads(run("history", uri, "--store", STORE, "--json").stdout)
    assert ["superseded", "current"] == [revision["state"] for revision in states]
    assert 3 == len(run("history", uri, "--store", STORE).stdout.splitlines())

    failed(run("forget", uri, f"{uri}x", "--store", STORE), 1, "m0x")
    assert "1 item retired\n" == run("forget", uri, "--store", STORE).stdout
    failed(run("read", uri, "--store", STORE), 1)
    assert "second\n" == run("read", f"{uri}@2", "--store", STORE).stdout
    assert "" == run("prepare", "second", "--scope", SCOPE, "--store", STORE).stdout

    failed(run("forget", uri, "--purge", "--store", STORE), 2, "--yes")
    assert "2 revisions deleted\n" == run("forget", uri, "--purge", "--yes", "--store", STORE).stdout
    failed(run("read", f"{uri}@2", "--store", STORE), 1)


def test_ingest_reports_bad_lines() -> None:
    """A bad line is named by file and number, the rest goes in, the exit code is 1, and counts are exact."""
    Path("x.jsonl").write_text('{"text":"a"}\n{"text":\n{"text":"b"}\n[]\n{"text":"c","time":"never"}\n')

    result = run("ingest", "x.jsonl", "--scope", SCOPE, "--store", STORE)

    assert 1 == result.exit_code
    assert "2 stored, 0 unchanged, 3 bad in 1 scope\n" == result.stdout
    assert ["x.jsonl:2", "x.jsonl:4", "x.jsonl:5"] == [line[:9] for line in result.stderr.splitlines()[:3]]
    assert result.stderr.splitlines()[3].startswith("error: 3 lines or files were not stored")
    again = json.loads(run("ingest", "x.jsonl", "--scope", SCOPE, "--store", STORE, "--json").stdout)
    assert {"stored": 0, "unchanged": 2, "bad": 3} == {key: again[key] for key in ("stored", "unchanged", "bad")}


def test_ingest_names_all_unknown_families() -> None:
    """Families that nobody declares stop the run before its batch, with the option that stores them."""
    lines = ['{"text":"a","family":"conversation"}', '{"text":"b","family":"event"}', '{"text":"c"}']
    Path("x.jsonl").write_text("\n".join(lines))

    result = run("ingest", "x.jsonl", "--scope", SCOPE, "--store", STORE)

    failed(result, 2, "x.jsonl:1", "--family memory", "--map conversation=memory,event=memory", "nothing was stored")
    result = run("ingest", "x.jsonl", "--scope", SCOPE, "--store", STORE, "--map", "conversation=memory,event=memory")
    assert "3 stored, 0 unchanged, 0 bad in 1 scope\n" == result.stdout


def test_ingest_in_batches() -> None:
    """Every batch size stores the same, and running it again changes nothing."""
    Path("x.jsonl").write_text("\n".join(f'{{"text":"item number {n}"}}' for n in range(10)))
    arguments = ("ingest", "x.jsonl", "--scope", SCOPE, "--store", STORE, "--batch")

    assert "10 stored, 0 unchanged, 0 bad in 1 scope\n" == run(*arguments, "3").stdout
    assert "0 stored, 10 unchanged, 0 bad in 1 scope\n" == run(*arguments, "1").stdout


def test_ingest_that_the_store_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the store fails in the middle the counts are printed, the line says what is there, and a rerun completes."""
    Path("x.jsonl").write_text("\n".join(f'{{"text":"item number {n}"}}' for n in range(10)))
    arguments = ("ingest", "x.jsonl", "--scope", SCOPE, "--store", STORE, "--batch", "3")
    put = Context.put

    def full(ctx: Context, items: list[Item], **more: bool) -> list[PutResult]:
        if any("7" in item.text for item in items):
            raise StoreError("the disk is full; make room.")
        return put(ctx, items, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Context, "put", full)
        result = run(*arguments)
        counts = json.loads(run(*arguments, "--json").stdout)
        first = run("ingest", "-", "--scope", SCOPE, "--store", STORE, stdin='{"text":"7"}')

    assert (1, "6 stored, 0 unchanged, 0 bad in 1 scope\n") == (result.exit_code, result.stdout)
    assert (
        "error: the disk is full; make room. 6 items of earlier batches are stored; "
        "then run the same again, which completes it.\n"
    ) == result.stderr
    assert {"stored": 0, "unchanged": 6} == {key: counts[key] for key in ("stored", "unchanged")}
    assert (1, "0 stored, 0 unchanged, 0 bad\n") == (first.exit_code, first.stdout)
    assert "error: the disk is full; make room.\n" == first.stderr
    assert "4 stored, 6 unchanged, 0 bad in 1 scope\n" == run(*arguments).stdout


def test_ingest_tells_equal_texts_apart() -> None:
    """Lines without id that share a text stay several items, and running the same again changes nothing."""
    yes = [json.dumps({"text": "yes", "time": f"2024-01-01T{hour}:00:00"}) for hour in (10, 11)]
    Path("x.jsonl").write_text("\n".join([yes[0], '{"text":"no"}', yes[1], yes[1]]))
    arguments = ("ingest", "x.jsonl", "--scope", SCOPE, "--store", STORE)

    assert "3 stored, 1 unchanged, 0 bad in 1 scope\n" == run(*arguments).stdout
    for batch in ("1", "2", "100"):
        assert "0 stored, 4 unchanged, 0 bad in 1 scope\n" == run(*arguments, "--batch", batch).stdout
    assert 2 == len(json.loads(run("find", "yes", "--scope", SCOPE, "--store", STORE, "--json").stdout)["entries"])


@pytest.mark.parametrize("split", [(), ("--split",)])
@pytest.mark.parametrize("rest", ["", " \n", "---\ntitle: none\n---\n"])
def test_ingest_retires_a_document_that_is_empty_now(split: tuple[str, ...], rest: str) -> None:
    """A document that was emptied leaves retrieval, whole and in parts; one that cannot be read stays as it was."""
    arguments = ("ingest", "a.md", "--scope", SCOPE, "--store", STORE, *split)
    Path("a.md").write_text("# A\nalpha\n# B\nbeta\n# C\ngamma\n")
    run(*arguments)

    Path("a.md").write_bytes(b"\0")
    assert 0 == json.loads(run(*arguments, "--json").stdout)["retired"]
    Path("a.md").write_text(rest)
    assert (3 if split else 1) == json.loads(run(*arguments, "--json").stdout)["retired"]

    assert "no_content" in run("find", "alpha beta gamma", "--scope", SCOPE, "--store", STORE).stderr
    assert 0 == json.loads(run(*arguments, "--json").stdout)["retired"]


def test_documents_need_a_scope() -> None:
    """A document without --scope is bad usage."""
    Path("a.md").write_text("# A")

    failed(run("ingest", "a.md", "--store", STORE), 2, "a.md", "--scope")


def test_ingest_retires_what_a_shorter_document_leaves() -> None:
    """Parts of an earlier, longer version, or of the other form, leave retrieval."""
    uri = "powerctx://project%3Ademo/memory/a.md"
    Path("a.md").write_text("# A\na\n# B\nb\n# C\nc\n# D\nd\n")
    arguments = ("ingest", "a.md", "--scope", SCOPE, "--store", STORE)
    run(*arguments, "--split")
    Path("a.md").write_text("# A\na\n# B\nb\n")

    assert "retired, of earlier versions: 2 items\n" == run(*arguments, "--split").stderr
    failed(run("read", f"{uri}%233", "--store", STORE), 1)
    assert "retired, of earlier versions: 2 items\n" == run(*arguments).stderr
    assert "retired, of earlier versions: 1 item\n" == run(*arguments, "--split").stderr


def test_ingest_of_nothing() -> None:
    """A folder without readable files, and empty input, say so without being an error."""
    Path("empty").mkdir()

    result = run("ingest", "empty", "--scope", SCOPE, "--store", STORE)
    assert 0 == result.exit_code
    assert "nothing to read" in result.stderr
    assert "0 stored, 0 unchanged, 0 bad\n" == run("ingest", "-", "--store", STORE, stdin="").stdout


def test_config() -> None:
    """Every value with its origin; secrets are masked; the path of the file."""
    Path("powerctx.toml").write_text('[parts.acme]\napi_key = "hunter2"\n')

    shown = run("config", "show", "--store", "memory://").stdout
    assert "memory://" in shown
    assert "flag" in shown
    assert "hunter2" not in shown
    assert "flag" == json.loads(run("config", "show", "--json", "--store", "memory://").stdout)["store"]["origin"]
    assert f"{Path.cwd() / 'powerctx.toml'}\n" == run("config", "path").stdout


def test_config_shows_what_is_not_installed() -> None:
    """What names no installed part is noted beside the values, by the name of its setting and where it came from."""
    Path("powerctx.toml").write_text('embedder = "nope"\n[recall]\nfamilies = ["memory", "nope"]\npolicy = "nope"\n')

    shown = run("config", "show", "--json")

    assert 0 == shown.exit_code
    assert '"nope"' == json.loads(shown.stdout)["recall.policy"]["value"]
    for name in ("embedder", "recall.families", "recall.policy"):
        assert f"{name} in {Path.cwd() / 'powerctx.toml'} names the " in shown.stderr
    problems = json.loads(run("doctor", "--store", "memory://", "--json").stdout)["problems"]
    assert shown.stderr.splitlines() == problems


@pytest.mark.parametrize("written", [
    "",
    '[retrieval.bootstrap.slots.listing]\nshare = 0.4\nlifecycles = ["resume"]\n',
    "[retrieval.purposes.support]\nquotas = { events = 6 }\nevents = 0.5\n",
    "[assembly.sections]\nmemory = 3\n",
])  # fmt: skip
def test_config_shows_what_can_be_written(written: str) -> None:
    """What is shown of each setting that has a value is TOML, which gives the same settings when it is the file."""

    def shown() -> dict[str, str]:
        return {name: each["value"] for name, each in json.loads(run("config", "show", "--json").stdout).items()}

    Path("powerctx.toml").write_text(written)
    values = shown()
    absent = {"none", "all installed", values["recall.policy"]}
    lines = [f"{name} = {value}" for name, value in values.items() if value not in absent]
    Path("powerctx.toml").write_text("\n".join(lines))

    assert shown() == values


def test_config_shows_no_secret() -> None:
    """Secrets in tables inside lists and in URLs are masked, in the table and in JSON."""
    Path("powerctx.toml").write_text(
        '[[parts.acme.endpoints]]\nname = "first"\napi_key = "hunter2"\nurl = "http://h/?sig=hunter2"\n'
    )

    for arguments in ((), ("--json",)):
        shown = run("config", "show", *arguments).stdout
        assert "hunter2" not in shown
        assert "first" in shown


@pytest.mark.parametrize("option", [(), ("--debug",)])
def test_errors_show_no_secret_of_the_settings(monkeypatch: pytest.MonkeyPatch, option: tuple[str, ...]) -> None:
    """Whatever a defect quotes, its line and its traceback hold no secret of the settings and no password."""
    Path("powerctx.toml").write_text('[parts.acme]\napi_key = "sk-1234567"\n')

    def broken(**_: object) -> None:
        raise RuntimeError("401 for sk-1234567 at http://u:hun/ter2@h/")

    monkeypatch.setattr(opening, "open", broken)
    result = run("find", "x", "--scope", "s", *option)

    assert "401 for *** at http://***@h/" in result.stderr
    assert "sk-1234567" not in result.output
    assert "hun/ter2" not in result.output


def test_plugins() -> None:
    """The core's own parts are listed and load."""
    report = json.loads(run("plugins", "--json").stdout)

    assert ("core", "ok") == (report[0]["name"], report[0]["state"])
    assert "core" in run("plugins").stdout
    assert 0 == run("check", "core").exit_code


def test_doctor() -> None:
    """A healthy store is exit code 0; one that does not open is a problem, exit code 1, and JSON stays JSON."""
    assert "all is well" in run("doctor", "--store", "memory://").stdout
    Path("bad.db").write_text("no database")

    result = run("doctor", "--store", "sqlite:///bad.db", "--json")

    assert 1 == result.exit_code
    assert 1 == len(json.loads(result.stdout)["problems"])


def test_doctor_with_an_embedder() -> None:
    """Embedder, dimensions and number of vectors are facts; one that is not installed hides none of the others."""
    stored("one thing", "another thing")
    run("embed", "--store", STORE, "--embedder", "hash")

    result = run("doctor", "--store", STORE, "--embedder", "hash", "--json")
    assert 0 == result.exit_code, result.output
    embedder = json.loads(result.stdout)["facts"]["embedder"]
    assert embedder.startswith("hash (")
    assert embedder.endswith(" dimensions), 2 vectors")

    result = run("doctor", "--store", STORE, "--embedder", "nope", "--json")
    report = json.loads(result.stdout)
    assert 1 == result.exit_code
    assert ["embedder in flag names the embedder 'nope', which is not installed; installed: "] == [
        problem.partition("hash")[0] for problem in report["problems"]
    ]
    assert "2 items in 1 scope" == report["facts"]["content"]


def test_embedder() -> None:
    """With an embedder vectors are made on the way in and used on the way out; without one words do."""
    lines = '{"id":"a","text":"We chose SQLite."}\n{"id":"b","text":"The plant is green."}'
    hashed = ("--scope", SCOPE, "--store", STORE, "--embedder", "hash")

    assert 0 == run("ingest", "-", *hashed, stdin=lines).exit_code
    assert '{"embedded": 0, "vectors": 2}\n' == run("embed", *hashed[2:], "--json").stdout

    assert "memory hybrid" in run("prepare", "Why SQLite?", *hashed).stderr
    assert "memory fts" in run("prepare", "Why SQLite?", *hashed[:4]).stderr
    by_vector = json.loads(run("find", "SQLite", *hashed, "--search-type", "vector", "--json").stdout)["entries"]
    assert "powerctx://project%3Ademo/memory/a@1" == by_vector[0]["uri"]
    for search_type in ("auto", "fts", "hybrid"):
        entries = json.loads(run("find", "SQLite", *hashed, "--search-type", search_type, "--json").stdout)["entries"]
        assert "powerctx://project%3Ademo/memory/a@1" == entries[0]["uri"]
    assert "memory hybrid" in run("--embedder", "hash", "prepare", "Why SQLite?", *hashed[:4]).stderr


def test_embed() -> None:
    """What was stored without vectors gets them once; a rebuild makes all anew."""
    lines = "\n".join(f'{{"text":"item number {n}"}}' for n in range(5))
    hashed = ("--store", STORE, "--embedder", "hash")
    run("ingest", "-", "--scope", SCOPE, *hashed, "--no-embed", stdin=lines)

    assert "5 items embedded, 5 vectors in store\n" == run("embed", *hashed).stdout
    assert "0 items embedded, 5 vectors in store\n" == run("embed", *hashed).stdout
    assert '{"embedded": 5, "vectors": 5}\n' == run("embed", "--rebuild", *hashed, "--json").stdout
    failed(run("embed", "--store", STORE), 1, "embedder")


def test_index() -> None:
    """The index can be rebuilt."""
    stored("one", "two")

    assert {"analysed": 2, "items": 2} == json.loads(run("index", "--rebuild", "--store", STORE, "--json").stdout)
    assert ["project:demo", "memory", "2"] == run("index", "--store", STORE).stdout.splitlines()[1].split()


def test_demo(tmp_path: Path) -> None:
    """Three questions are answered with their explanation, and nothing is left behind."""
    result = run("demo")

    assert 0 == result.exit_code, result.stderr
    assert 3 == result.stdout.count("Question ")
    assert 3 == result.stdout.count(" of 8000 bytes, ")
    assert "powerctx ingest" in result.stdout.splitlines()[-2]
    assert [] == [path for path in tmp_path.iterdir() if path.name != "home"]
    answers = json.loads(run("demo", "--json").stdout)
    assert ["delivered"] * 3 == [answer["outcome"] for answer in answers]


def test_demo_in_safe_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the SQLite plugin the demo says what to install."""
    monkeypatch.setenv("POWERCTX_PLUGINS", "")

    failed(run("demo"), 1, "pip install powerctx-sqlite")


def test_control_characters_are_shown() -> None:
    """Text that is printed on one line cannot steer a terminal or add lines."""
    assert "a b \\x1b[31m" == output.plain("a\n b \x1b[31m")


@pytest.mark.parametrize(
    "char",
    ["\u202e", "\u2066", "\u200f", "\u061c", "\u200b", "\ufeff", "\u00ad", "\u2029x", "\U000e0041", "\x9b", "\x7f"],
)
def test_tables_show_format_characters(char: str) -> None:
    """Stored text in a table can neither turn its direction nor hide; joiners stay, which scripts and emoji need."""
    shown = f"left {char}right \U0001f469\u200d\U0001f4bb"
    line = json.dumps({"id": "a", "text": shown, "title": shown, "abstract": shown})
    run("ingest", "-", "--scope", SCOPE, "--store", STORE, stdin=line)

    found = run("find", "left right", "--scope", SCOPE, "--store", STORE).stdout
    history = run("history", "powerctx://project%3Ademo/memory/a", "--store", STORE).stdout

    for text in (found, history, output.plain(shown)):
        assert char not in text
        assert "\U0001f469\u200d\U0001f4bb" in text


def test_what_left_all_out_is_named() -> None:
    """An empty answer says that filters or exclusions left all out, not that it is too weak; without any, neither."""
    stored("walrus one", "walrus two")
    every = ["--exclude-uri", "powerctx://project%3Ademo/memory/m0",
             "--exclude-uri", "powerctx://project%3Ademo/memory/m1"]  # fmt: skip
    place = ("--scope", SCOPE, "--store", STORE)
    no_layer = ("--filter", '{"layer": "L9"}')

    pack = run("recall", "walrus", *place, *no_layer).stderr
    assert pack.startswith("empty (no_match) · the filters left out 2 of what was found; loosen them")
    pack = run("recall", "walrus", *place, *every).stderr
    assert pack.startswith("empty (no_match) · exclusions left out 2 of what was found; loosen them")
    pack = run("recall", "walrus zebra lion tiger", *place, "--score-threshold", "1").stderr
    assert pack.startswith("empty (below_threshold) · what was found is too weak")
    for command in ("find", "search"):
        assert "loosen the filters" in run(command, "walrus", *place, *no_layer).stderr
        assert "use other words" in run(command, "zebra", *place).stderr


def test_table_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A URI is never folded, whatever the width; free text gives way, and markup in it is only text."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    uri = f"powerctx://s/memory/{'x' * 90}@1"
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys, "stdout", Terminal())

    output.table(("rank>", "uri", "abstract"), [(1, uri, "[bold]long[/] \x1b[31m " * 10)])

    line = next(line for line in sys.stdout.getvalue().splitlines() if uri in line)
    assert "[bold]long" in line
    assert "\x1b[31m" not in line


def test_an_empty_answer_names_the_families_that_the_scope_holds(tmp_path: Path) -> None:
    """A scope that holds another family than the one asked for is not called empty without a hint."""
    stored("some text")
    result = run("find", "text", "--scope", SCOPE, "--store", STORE, "--tag", "absent")
    assert "loosen the filters" in result.stderr

    result = run("prepare", "text", "--scope", "elsewhere", "--store", STORE)
    assert f"holds something: {SCOPE}" in result.stderr


def test_a_purged_item_is_named_by_its_uri() -> None:
    """The URI in an error is the one that was asked for, to the last character."""
    stored("some text")
    uri = "powerctx://project%3Ademo/memory/m0@7"

    failed(run("read", uri, "--store", STORE), 1, uri)


HOSTILE: dict[str, tuple[str, str | None]] = {
    "empty": ("", "blank"),
    "blank": (" \t\n\u3000", "blank"),
    "longest": ("word " * 1638 + "wo", None),
    "longest, one word": ("a" * 8192, None),
    "longest, Chinese": ("北京大学火锅店旁边" * 910 + "北京", None),
    "too long": ("a" * 8193, "8192"),
    "too long, Chinese": ("北" * 8193, "8192"),
    "operators": ('"alphabet" NOT soup* NEAR(near miss, 2) {title}: ^x + -y', None),
    "open quote": ('"alphabet', None),
    "SQL": ("'; DROP TABLE revision; -- ' OR '1'='1", None),
    "parameters": ("? ?1 :query @p0 $1 %s %(text)s {0}", None),
    "NUL": ("alpha\0bet soup", None),
    "only NUL": ("\0", None),
    "lone surrogate": ("alphabet \ud800 soup", "surrogate"),
    "bytes of argv": ("alphabet \udcff\udcfe soup", "surrogate"),
    "surrogates of a pair": ("alphabet \ud83d\ude00", "surrogate"),
    "format characters": ("\u202ealphabet\u2066 so\u200bup\ufeff \u2028\u0085", None),
    "only format characters": ("\u200b\u2060\u202e", None),
    "combining": ("e\u0301" * 4096, None),
    "emoji": ("\U0001f469\u200d\U0001f4bb" * 2730, None),
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("command", ["prepare", "find"])
def test_hostile_queries(command: str, kind: str) -> None:
    """Whatever stands in a query, both ways in agree: an answer, or one line that names the field and the limit."""
    query, told = HOSTILE[kind]
    stored("alphabet soup", "北京大学旁边的火锅店", "unrelated")
    arguments = ["--scope", SCOPE, "--store", STORE]
    with opening.open(STORE) as ctx:
        ask = getattr(ctx, command)
        if told is not None:
            with pytest.raises(InvalidRequest, match=told) as caught:
                ask(query, scope_id=SCOPE)
            assert "query" == caught.value.field
            failed(run(command, *arguments, "--", query), 2, told)
            return
        answer = ask(query, scope_id=SCOPE)
    result = run(command, *arguments, "--json", "--", query)
    assert 0 == result.exit_code, result.output
    found = json.loads(result.stdout)
    if command == "prepare":
        assert answer.content == found["content"]
    else:
        assert [hit.address.uri for hit in answer.hits] == [entry["uri"] for entry in found["entries"]]
    assert "" == result.stderr
    assert 0 == run(command, *arguments, "--", query).exit_code


@pytest.mark.parametrize("kind", [kind for kind, (_, told) in HOSTILE.items() if told == "surrogate"])
def test_hostile_queries_on_standard_input(kind: str) -> None:
    """A query on standard input that no UTF-8 is is told where it is none."""
    query, _ = HOSTILE[kind]
    data = query.encode("utf-8", "surrogatepass")

    failed(run("prepare", "-", "--scope", SCOPE, "--store", STORE, stdin=data), 2, "query", "UTF-8")


@pytest.mark.parametrize("char", ["x", "北", "\U0001f600"])
def test_ingest_of_the_largest_item(char: str) -> None:
    """An item of exactly 1 MiB is stored and read whole; one byte more is refused by its size, and the rest goes in."""
    most = 1 << 20
    whole = char * (most // len(char.encode())) + "y" * (most % len(char.encode()))
    Path("x.jsonl").write_text(
        "\n".join(
            json.dumps({"id": name, "text": text})
            for name, text in (("whole", whole), ("more", whole + "z"), ("after", "after it"))
        )
    )
    uri = "powerctx://project%3Ademo/memory"

    result = run("ingest", "x.jsonl", "--scope", SCOPE, "--store", STORE)

    assert (1, "2 stored, 0 unchanged, 1 bad in 1 scope\n") == (result.exit_code, result.stdout)
    assert result.stderr.startswith("x.jsonl:2: ")
    assert "1048576" in result.stderr.splitlines()[0]
    assert len(result.stderr) < 400
    assert most == len(whole.encode())
    assert whole + "\n" == run("read", f"{uri}/whole", "--store", STORE).stdout
    assert 0 == run("read", f"{uri}/after", "--store", STORE).exit_code
    Path("whole.txt").write_text(whole)
    Path("more.txt").write_text(whole + "z")
    documents = run("ingest", "whole.txt", "more.txt", "--scope", SCOPE, "--store", STORE)
    assert (1, "1 stored, 0 unchanged, 1 bad in 1 scope\n") == (documents.exit_code, documents.stdout)
    assert "more.txt: text has 1048577 bytes" in documents.stderr
    assert "--split" in documents.stderr


BAD_LINES: list[tuple[bytes, str]] = [
    (b'{"text": "a"', "is not JSON"),
    (b"[]", "is not a JSON object"),
    (b'"text"', "is not a JSON object"),
    (b"NaN", "NaN is no number"),
    (b'{"text": 7}', "text must be a string"),
    (b'{"text": "a", "tags": "x"}', "tags must be a list"),
    (b'{"text": "a", "position": "first"}', "position"),
    (b'{"text": "a", "position": 1.5}', "position"),
    (b'{"text": "a", "confidence": NaN}', "NaN is no number"),
    (b'{"text": "a", "meta": {"x": -Infinity}}', "Infinity is no number"),
    (b'{"text": "a", "confidence": 1e999}', "confidence"),
    (b'{"text": "a", "meta": {"x": 1e999}}', "meta is not JSON"),
    (b'{"text": "a", "text": "b"}', 'the key "text" stands twice'),
    (b'{"text": "a", "meta": {"x": 1, "y": 2, "x": 3}}', 'the key "x" stands twice'),
    (b'\xef\xbb\xbf{"text": "a"}', "is not JSON"),
    (b'{"text": "a\0b"}', "is not JSON"),
    (b"\0\0\0", "is not JSON"),
    (b'{"text": "\xff\xfe"}', "is not UTF-8"),
    (b'{"text": "\xed\xa0\x80"}', "is not UTF-8"),
    (b'{"text": "a \\ud800 b"}', "surrogate"),
    (b'{"text": "a", "id": "\\udfff"}', "surrogate"),
    (b'{"text": "a", "\\ud800": 1}', "surrogate"),
    (b'{"text": "a", "id": "' + b"x" * 129 + b'"}', "128"),
    (b'{"text": "' + b"x" * ((1 << 20) + 1) + b'"}', "1048576"),
    (b'{"text": "' + b"x" * (20 << 20) + b'"}', "1048576"),
    (b'{"text": "a", "x": "' + b"y" * (20 << 20) + b'"}', "meta"),
    (b"x" * (20 << 20), "is not JSON"),
    (b"[" * 100_000, "is not JSON"),
]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_ingest_of_every_kind_of_bad_line(end: bytes) -> None:
    """Each bad line is one line of its number and reason, however long it is; the others go in; the exit code is 1."""
    pieces = [b'\xef\xbb\xbf{"id": "first", "text": "word"}']
    for n, (line, _) in enumerate(BAD_LINES):
        pieces += [line, json.dumps({"id": f"good{n}", "text": "word"}).encode()]
    Path("x.jsonl").write_bytes(end.join(pieces) + end)

    result = run("ingest", "x.jsonl", "--scope", SCOPE, "--store", STORE)

    reported = result.stderr.splitlines()
    assert len(BAD_LINES) + 1 == len(reported)
    for n, ((_, reason), line) in enumerate(zip(BAD_LINES, reported, strict=False)):
        assert line.startswith(f"x.jsonl:{2 * n + 2}: "), line
        assert reason in line, line
        assert len(line) < 250, line
    assert reported[-1].startswith(f"error: {len(BAD_LINES)} lines or files were not stored")
    good = len(BAD_LINES) + 1
    assert (1, f"{good} stored, 0 unchanged, {len(BAD_LINES)} bad in 1 scope\n") == (result.exit_code, result.stdout)
    assert ["project:demo", "memory", str(good)] == run("index", "--store", STORE).stdout.splitlines()[1].split()


def test_ingest_of_an_unknown_family_among_others() -> None:
    """Lines of a family that nobody declares end the run with exit code 2, its number and the option that maps it."""
    Path("x.jsonl").write_text('{"text":"a"}\n{"text":"b","family":"nobody"}\n')

    failed(run("ingest", "x.jsonl", "--scope", SCOPE, "--store", STORE), 2, "x.jsonl:2", "'nobody'", "--map nobody=")


THIN = ("alpha beta one", "alpha two", "beta three", "gamma four", "delta five")
THIN_QUERY = ("prepare", "alpha beta gamma delta", "--scope", SCOPE, "--store", STORE)
COMPATIBLE = ("--policy", "powercontext.recall.v2")


def test_the_gate_has_words_on_standard_error() -> None:
    """The reason, and the candidates by round where there were several; without a gate nothing."""
    stored(*THIN)

    assert " · gate: sufficient (1 → 5 candidates)\n" in run(*THIN_QUERY, "--gate", "v2").stderr
    assert "gate" not in run(*THIN_QUERY, *COMPATIBLE).stderr
    assert "gate" not in run(*THIN_QUERY, "--gate", "off").stderr
    ours = run(*THIN_QUERY, "--gate", "powercontext.recall-gate.v2", "--policy", "powerctx.recall.v1").stderr
    assert ours.endswith(" · gate: sufficient\n")


def test_an_empty_answer_says_what_the_gate_did() -> None:
    """At the end of its line; the response itself has no word of it."""
    asked = ("prepare", "alpha", "--scope", "nowhere", "--store", "memory://")

    assert run(*asked).stderr.rstrip("\n") + " · gate: no-content\n" == run(*asked, "--gate", "v2").stderr
    assert run(*asked, "--json").output == run(*asked, "--json", "--gate", "v2").output


def test_a_gate_of_a_file() -> None:
    """`--gate FILE` reads a policy for this call; settings name files for all, which are called by their ids."""
    stored(*THIN)
    Path("gates").mkdir()
    Path("gates/strict.toml").write_text('policy_id = "acme.strict"\nmin_candidates = 64\nmax_rounds = 1\n')
    Path("gates/plain").write_text('policy_id = "acme.plain"\nmax_rounds = 0\n')
    asked = (*THIN_QUERY, *COMPATIBLE)

    strict = run(*asked, "--gate", "gates/strict.toml").stderr
    assert " · gate: thin-candidates (1 → 5 candidates)\n" in strict
    assert " · gate: at-max-rounds\n" in run(*asked, "--gate", "./gates/plain").stderr
    failed(run(*asked, "--gate", "acme.strict"), 2, "gate 'acme.strict' is not installed; installed are off, ")
    Path("powerctx.toml").write_text('[recall]\ngate = "acme.plain"\ngate_files = ["gates/plain"]\n')
    assert " · gate: at-max-rounds\n" in run(*asked).stderr
    assert strict == run(*asked, "--gate", "gates/strict.toml").stderr
    assert " · gate: at-max-rounds\n" in run(*asked, "--gate", "gates/../gates/plain").stderr


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (None, ("error: x.toml is not there; correct its path.",)),
        ("max_rounds = ", ("error: x.toml is not valid TOML: ",)),
        ('policy_id = "acme"\nmax_round = 1', ("error: x.toml: max_round is unknown; ", "'max_rounds'? allowed: ")),
        ('policy_id = "v2"', ("error: x.toml: policy_id 'v2' is kept for ", "acme.gate.v1.")),
        (
            'policy_id = "acme"\nmax_rounds = 1\nexpansion_floors = [{ cosine = 0.1 }]',
            ("error: the first expansion floor of gate acme in x.toml and the floor of powerctx.recall.v1 cannot be ",),
        ),
    ],
)
def test_gate_files_that_do_not_fit(text: str | None, parts: tuple[str, ...]) -> None:
    """One line with the file, the key and what is allowed; bad usage."""
    stored(*THIN)
    if text is not None:
        Path("x.toml").write_text(text)

    failed(run(*THIN_QUERY, "--gate", "x.toml"), 2, *parts)


def test_settings_of_gates_that_do_not_fit() -> None:
    """`config show` notes them beside the values; a store does not open with a file that cannot be used."""
    Path("powerctx.toml").write_text('[recall]\ngate = "nope"\n')
    told = f"recall.gate in {Path.cwd() / 'powerctx.toml'}: gate 'nope' is not installed; installed are off, "
    assert told in run("config", "show").stderr
    failed(run(*THIN_QUERY), 2, "gate 'nope' is not installed")

    Path("powerctx.toml").write_text('[recall]\ngate_files = ["x.toml"]\n')
    shown = run("config", "show")
    assert f"{Path.cwd() / 'x.toml'} is not there; correct its path." in shown.stderr
    assert re.search(r'^recall\.gate_files +\["x\.toml"\]', shown.stdout, re.MULTILINE)
    failed(run(*THIN_QUERY), 2, f"{Path.cwd() / 'x.toml'} is not there; correct its path.")


def test_what_a_pack_leaves_out_is_told() -> None:
    """The line about a pack counts what was excluded, also when it was nothing, and names what had no effect."""
    stored("A walrus swims.")
    asked = ("recall", "walrus", "--scope", "project:demo", "--store", STORE)

    assert "excluded" not in run(*asked).stderr
    assert "excluded 0" in run(*asked, "--exclude-uri", "memory/none").stderr
    told = run(*asked, "--exclude-uri", "memory/m0")
    assert "" == told.stdout
    assert "empty (no_match)" in told.stderr
    assert "excluded 1" in told.stderr


def test_recall_offers_what_it_takes() -> None:
    """Options of lists are not offered where they are always refused."""
    offered = run("recall", "--help").stdout

    assert "--limit" in offered
    assert "--level" not in offered
    assert "--target-uri" not in offered
    assert "--level" in run("search", "--help").stdout
