"""``powerctx explain`` and ``powerctx prepare --receipt``, in process."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from powerctx_core.cli import page_file
from powerctx_core.cli.program import program

STORE = "sqlite:///t.db"
LINES = ["alpha beta gamma", "alpha beta " + "long " * 300, "alpha beta", "gamma", "unrelated"]


@pytest.fixture(autouse=True)
def _stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in an empty folder with a few items, and no settings of the user."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    for name in ("POWERCTX_STORE", "POWERCTX_PLUGINS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"id": f"m{n}", "text": text}) for n, text in enumerate(LINES)]
    assert run("ingest", "-", "--scope", "s", stdin="\n".join(lines)).exit_code == 0


def run(command: str, *arguments: str, stdin: str | None = None) -> Result:
    """Run a command on the store."""
    return CliRunner().invoke(program, [command, *arguments, "--store", STORE], input=stdin, prog_name="powerctx")


def test_the_terminal_says_why() -> None:
    """Rounds with pools and verdicts, signals against thresholds, budgets, what was delivered, and what was not."""
    shown = run("explain", "alpha beta gamma delta", "--scope", "s", "--gate", "v2", "--max-bytes", "512", "--trim",
                "value")  # fmt: skip

    assert shown.exit_code == 0, shown.output
    for part in (
        "Round 0, let in: 2 words of the query and 25 % of them, or a cosine of 0.3",
        "retrieved  admitted  rejected",
        "Verdict: ",
        "share of the query's words in the best candidate",
        "Delivered:",
        "powerctx://s/memory/m0@1",
        "too weak: below the floor of every round, or the threshold of the search (below_threshold)",
        "powerctx://s/memory/m3@1",
        "match  share  words",
        "No candidate came from: experience, topic-memory.",
        "Value of each candidate:",
        "relevance x1",
        "Searches: experience fts completed",
        "bytes",
    ):
        assert part in shown.stdout, part
    assert shown.stderr == ""


def test_the_terminal_says_what_came_of_each_verdict() -> None:
    """Whether it was enough, what comes next and why nothing does, how it ended, and which round let an item in."""
    Path("short.toml").write_text('policy_id = "acme.short"\nmax_rounds = 0\n', encoding="utf-8")
    found = {
        name: run("explain", query, "--scope", "s", "--gate", "v2", *options).stdout
        for name, (query, *options) in {
            "more": ("gamma beta delta omega",),
            "none": ("gamma omega psi phi chi", "--policy", "powerctx.recall.v1"),
            "last": ("gamma beta delta omega", "--gate", "short.toml", "--policy", "powercontext.recall.v2"),
            "nothing": ("alpha", "--families", "experience"),
            "enough": ("alpha beta",),
        }.items()
    }

    assert (
        "thin-candidates, too few candidates. Not enough: round 1 lets in more of what was retrieved." in found["more"]
    )
    assert "gate powercontext.recall-gate.v2: sufficient after 2 rounds" in found["more"]
    assert "let in in round  bytes" in found["more"]
    assert "Not enough, but everything that was retrieved is let in." in found["none"]
    assert "at-max-rounds after 1 round" in found["last"]
    assert "Not enough, but the policy has no further round that would let in more." in found["last"]
    assert "Enough: nothing more is let in." in found["enough"]
    assert "let in in round" not in found["enough"]
    assert "no-content, nothing is stored in these scopes. Nothing to let in." in found["nothing"]


def test_what_is_cut_is_said() -> None:
    """An entry that was cut, and one that had no room, are told apart."""
    shown = run("explain", "alpha beta", "--scope", "s", "--max-bytes", "700").stdout

    assert "  cut\n" in shown
    assert run("explain", "alpha beta", "--scope", "s", "--max-items", "1").stdout.count("entry_limit") == 1


def test_the_page(tmp_path: Path) -> None:
    """It is written where it was asked for, and what it holds is said."""
    shown = run("explain", "alpha beta", "--scope", "s", "--html", "why.html")

    assert (shown.exit_code, shown.stdout) == (0, "")
    assert "It holds the query and the delivered text." in shown.stderr
    assert (tmp_path / "why.html").read_text("utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("no/such/folder/why.html", "the folder of no/such/folder/why.html is not there; make it"),
        ("new/", "the folder of new/ is not there; "),
        ("t.db/why.html", "the folder of t.db/why.html is not there; "),
        ("", "it names no file; "),
        (" ", "it names no file; "),
        (".", ". is a folder; "),
        ("t.db", "t.db is there and is no HTML page, so it is left as it is; "),
        ("link", "link is there and is no HTML page, so it is left as it is; "),
        ("notes.txt", "notes.txt is there and is no HTML page, "),
        ("pipe", "pipe is no regular file; "),
        ("a\0b", "is no path of a file."),
        ("x" * 300, "File name too long"),
    ],
)
def test_a_place_where_no_page_can_be(tmp_path: Path, place: str, sentence: str) -> None:
    """One line before anything is asked, no traceback, and nothing is written or lost."""
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "link").symlink_to("t.db")
    os.mkfifo(tmp_path / "pipe")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()}
    shown = run("explain", "alpha", "--scope", "s", "--html", place)

    assert (shown.exit_code, shown.stdout) == (2, "")
    assert shown.stderr.startswith("error: ")
    assert sentence in shown.stderr
    assert "[Errno" not in shown.stderr
    assert shown.stderr.count("\n") == 1
    assert before == {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()}


def test_a_page_takes_the_place_of_a_page(tmp_path: Path) -> None:
    """At once: when writing fails the old one is there, and nothing beside it."""
    page = tmp_path / "why.html"
    page.touch()
    assert run("explain", "alpha", "--scope", "s", "--html", "why.html").exit_code == 0
    first = page.read_bytes()
    assert run("explain", "gamma", "--scope", "s", "--html", "why.html").exit_code == 0
    second = page.read_bytes()
    with pytest.raises(UnicodeEncodeError):
        page_file.write(str(page), "half of it \ud800")

    assert first != second
    assert page.read_bytes() == second
    assert not list(tmp_path.glob(".powerctx-*"))


def test_a_page_on_standard_output(tmp_path: Path) -> None:
    """The page alone, and no file of that name."""
    shown = run("explain", "alpha", "--scope", "s", "--html", "-")

    assert shown.exit_code == 0
    assert shown.stdout.startswith("<!DOCTYPE html>")
    assert shown.stdout.endswith("</html>\n")
    assert not (tmp_path / "-").exists()


def test_json_is_one_value() -> None:
    """Everything that is known, with nothing on standard error."""
    shown = run("explain", "alpha beta", "--scope", "s", "--gate", "v2", "--json")
    form = json.loads(shown.stdout)

    assert shown.stderr == ""
    assert list(form["response"]) == ["schema", "status", "content", "content_bytes"]
    assert form["receipt"]["schema"] == "powercontext.prepared-context-receipt.v2"
    assert {each["fate"] for each in form["candidates"]} >= {"delivered"}
    assert form["rounds"][0]["reason"]


@pytest.mark.parametrize("options", [("--sections", "none"), ("--max-bytes", "512"), ("--max-items", "1")])
@pytest.mark.parametrize("form", [(), ("--json",), ("--html", "why.html")])
def test_every_budget_can_be_shown(options: tuple[str, ...], form: tuple[str, ...]) -> None:
    """What may hold nothing at all is no mistake, in whatever form it is shown."""
    shown = run("explain", "alpha", "--scope", "s", *options, *form)

    assert shown.exit_code == 0, shown.output


@pytest.mark.parametrize(
    ("given", "raised"),
    [
        ("--max-tokens 64", "--max-tokens"),
        ("--max-chars 128", "--max-chars"),
        ("--max-tokens 64 --max-bytes 512", "--max-bytes and --max-tokens"),
    ],
)
def test_a_budget_that_holds_nothing_is_named(given: str, raised: str) -> None:
    """What is to be raised are the sizes that bound this call, and no others."""
    line = json.dumps({"id": "z" * 100, "text": "A zebra of the herd. " * 50})
    assert run("ingest", "-", "--scope", "s", stdin=line).exit_code == 0

    for command in ("prepare", "explain"):
        shown = run(command, "zebra", "--scope", "s", *given.split())
        assert f"empty (budget): nothing fits the budget; raise {raised}.\n" == shown.stderr
        assert shown.exit_code == 0


def test_nothing_found_says_what_to_do() -> None:
    """The line of prepare is there, too."""
    shown = run("explain", "zebra", "--scope", "s")

    assert shown.exit_code == 0
    assert shown.stderr.startswith("empty (no_match): ")
    assert "Round 0" in shown.stdout


def test_a_receipt_is_no_part_of_the_text() -> None:
    """It comes on standard error as one line of JSON; standard output is the text that it is of, to the byte."""
    plain, told = (run("prepare", "alpha beta", "--scope", "s", *more) for more in ((), ("--receipt",)))
    line = next(line for line in told.stderr.splitlines() if line.startswith("{"))
    receipt = json.loads(line)

    assert told.stdout == plain.stdout
    assert receipt["content_digest"] == "sha256:" + hashlib.sha256(told.stdout.encode()).hexdigest()
    assert "alpha" not in line


def test_a_receipt_in_the_response() -> None:
    """With --json it is the fifth key, of the version that was asked for."""
    shown = run("prepare", "alpha", "--scope", "s", "--json", "--receipt", "--receipt-version", "2")

    assert list(json.loads(shown.stdout)) == ["schema", "status", "content", "content_bytes", "receipt"]
    assert json.loads(shown.stdout)["receipt"]["families"] == ["experience", "memory", "topic-memory"]
    wrong = run("prepare", "alpha", "--scope", "s", "--receipt", "--receipt-version", "7")
    assert (wrong.exit_code, "from 1 to 2" in wrong.stderr) == (2, True)
    idle = run("prepare", "alpha", "--scope", "s", "--receipt-version", "2")
    assert (idle.exit_code, "--receipt-version needs --receipt" in idle.stderr) == (2, True)


def test_a_search_is_explained() -> None:
    """Tiers, the threshold, what has no room and what is excluded; options of the other kind are refused by name."""
    asked = ("explain", "alpha beta", "--scope", "s", "--mode", "context", "--max-tokens", "100", "--purpose", "coding",
             "--exclude-uri", "powerctx://s/memory/m2")  # fmt: skip
    shown = run(*asked)

    assert shown.exit_code == 0, shown.output
    for part in ("least match: 0.1", "purpose: coding", "tiers: ", "tokens", "Delivered:", "(excluded)", "render "):
        assert part in shown.stdout, part
    assert json.loads(run(*asked, "--json").stdout)["receipt"]["surface"] == "search"
    assert run(*asked, "--html", "why.html").exit_code == 0
    for wrong, part in (
        (("--mode", "context", "--sections", "memory=2"), "--sections is an option of prepare"),
        (("--purpose", "coding"), "--purpose is an option of search; add --mode context"),
        (("--exclude-uri", "powerctx://s/memory/m2"), "--exclude-uri is an option of search"),
        (("--mode", "list"), "mode is 'list'"),
        (("--mode", "context", "--max-tokens", "1"), "max_tokens"),
    ):
        refused = run("explain", "alpha", "--scope", "s", *wrong)
        assert refused.exit_code == 2, wrong
        assert part in refused.stderr


def test_an_empty_search_says_why() -> None:
    """One line, and the explanation all the same."""
    shown = run("explain", "zebra", "--scope", "s", "--mode", "context")

    assert (shown.exit_code, "empty (no_match)" in shown.stderr) == (0, True)


@pytest.mark.parametrize("command", [("search", "--mode", "context"), ("recall",)])
def test_the_receipt_of_a_search(command: tuple[str, ...]) -> None:
    """One line of JSON on standard error, a key of the response with --json, and never in the text."""
    name, *options = command
    shown = run(name, "alpha beta gamma", "--scope", "s", "--receipt", *options)
    line = next(line for line in shown.stderr.splitlines() if line.startswith("{"))

    assert json.loads(line)["surface"] == "search"
    assert "receipt" not in shown.stdout
    assert "receipt" in json.loads(run(name, "alpha beta", "--scope", "s", "--receipt", "--json", *options).stdout)
    assert "receipt" not in json.loads(run(name, "alpha beta", "--scope", "s", "--json", *options).stdout)
