"""The program as a process: exit codes, streams, signals, plugins."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

FAMILIES = "conversation,event,passage,preference,entity,open_question,decision,code".split(",")
Run = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment without settings of the user."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("POWERCTX_", "XDG_"))}
    return kept | {"HOME": str(tmp_path / "home"), "POWERCTX_STORE": "sqlite:///t.db", "NO_COLOR": "1"}


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let programs that are started here take SIGINT, which whoever runs the tests in the background may ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def run(tmp_path: Path, environment: dict[str, str]) -> Run:
    """Run ``powerctx`` in an empty folder."""

    def call(*arguments: str | bytes, stdin: bytes = b"", **variables: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "powerctx_core.cli", *arguments],
            input=stdin,
            capture_output=True,
            env=environment | variables,
            cwd=tmp_path,
            timeout=60,
            check=False,
        )

    return call


@pytest.fixture
def plugin(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """Install a plugin with the given source; returns the variables that make it visible."""

    def install(source: str) -> dict[str, str]:
        place = tmp_path / "site"
        info = place / "acme-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[powerctx.v1]\nacme = acme\n")
        (place / "acme.py").write_text(source)
        return {"PYTHONPATH": os.pathsep.join(filter(None, [str(place), os.environ.get("PYTHONPATH")]))}

    return install


def test_ingest_prepare_find(run: Run) -> None:
    """From JSON lines on standard input to context, in Chinese, through pipes whose encoding is ASCII."""
    ascii_only = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
    lines = '{"id":"a","text":"我们选择 SQLite，因为它只是一个文件。"}\n'.encode()

    first = run("ingest", "-", "--scope", "s", stdin=lines, **ascii_only)
    prepared = run("prepare", "-", "--scope", "s", stdin="为什么选择 SQLite".encode(), **ascii_only)
    found = run("find", "SQLite", "--scope", "s", **ascii_only)

    assert (0, b"1 stored, 0 unchanged, 0 bad in 1 scope\n") == (first.returncode, first.stdout)
    assert "我们选择".encode() in prepared.stdout
    assert prepared.stderr.startswith(b"delivered")
    assert b"powerctx://s/memory/a@1" in found.stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("frob",), 2),
        (("prepare", b"\xff\xfe", "--scope", "s"), 2),
        (("find", b"alpha\xed\xa0\x80bet", "--scope", "s"), 2),
        (("prepare", "x", "--scope", b"\xff"), 2),
        (("ingest", b"no\xffwhere.md", "--scope", "s"), 2),
        (("read", "powerctx://s/memory/x"), 1),
        (("prepare", "x", "--scope", "s", "--store", "nope://x"), 1),
        (("prepare", "x", "--scope", "s", "--store", "sqlite:////proc/nope/x.db"), 1),
    ],
)
def test_errors(run: Run, arguments: tuple[str | bytes, ...], code: int) -> None:
    """Each failure is one line on standard error without traceback, also for arguments that are not UTF-8."""
    result = run(*arguments)

    assert code == result.returncode, result.stderr
    assert b"" == result.stdout
    assert 1 == result.stderr.count(b"\n")
    assert result.stderr.startswith(b"error: ")
    assert b"Traceback" not in result.stderr


def test_file_names_that_are_not_text(run: Run, tmp_path: Path) -> None:
    """A file whose name is not UTF-8 is stored under an id that is."""
    folder = os.fsencode(tmp_path / "d")
    Path(tmp_path / "d").mkdir()
    try:
        Path(os.fsdecode(folder + b"/n\xffme.md")).write_text("# Odd")
    except OSError:
        pytest.skip("this file system allows no such names")

    assert b"1 stored" in run("ingest", "d", "--scope", "s").stdout
    (entry,) = json.loads(run("find", "odd", "--scope", "s", "--json").stdout)["entries"]
    assert entry["uri"].startswith("powerctx://s/memory/n_me.md~")


def test_a_reader_that_goes_away(run: Run, tmp_path: Path, environment: dict[str, str]) -> None:
    """A closed pipe ends the program quietly."""
    lines = "\n".join(f'{{"text":"word {n} of many, so that a pipe overflows"}}' for n in range(1000))
    run("ingest", "-", "--scope", "s", stdin=lines.encode())
    command = [sys.executable, "-m", "powerctx_core.cli", "find", "word", "--scope", "s", "--limit", "1000"]

    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=tmp_path
    ) as process:
        process.stdout.close()
        assert b"" == process.stderr.read()

    assert 141 == process.returncode


@pytest.mark.skipif(sys.platform == "win32", reason="descriptors are closed by a POSIX shell")
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_closed_streams(run: Run, tmp_path: Path, environment: dict[str, str], closed: str) -> None:
    """A standard stream that the caller closed is no error, and nothing is written into the store's file instead."""
    run("ingest", "-", "--scope", "s", stdin=b'{"text":"kept"}')
    command = f'"{sys.executable}" -m powerctx_core.cli'

    for arguments in ("find kept --scope s", "prepare kept --scope s --json", "config", "prepare - --scope s"):
        result = subprocess.run(
            ["sh", "-c", f"{command} {arguments} {closed}"],
            capture_output=True, env=environment, cwd=tmp_path, timeout=60, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert (2 if arguments in {"config", "prepare - --scope s"} else 0) == result.returncode, result.stderr
        assert b"unexpected" not in result.stderr
        assert b"Traceback" not in result.stderr

    assert b"kept" in run("prepare", "kept", "--scope", "s").stdout


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such pipes")
def test_a_pipe_does_not_hang(run: Run, tmp_path: Path) -> None:
    """A pipe among the paths is reported and the rest goes in."""
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "a.md").write_text("# A")

    result = run("ingest", "pipe.jsonl", "a.md", "--scope", "s")

    assert (1, b"1 stored, 0 unchanged, 1 bad in 1 scope\n") == (result.returncode, result.stdout)
    assert result.stderr.startswith(b"pipe.jsonl: is no regular file; ")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT to send")
@pytest.mark.usefixtures("interruptible")
def test_interrupt_while_starting(tmp_path: Path, environment: dict[str, str]) -> None:
    """Ctrl-C while the program is still being imported ends as quietly."""
    (tmp_path / "probe.py").write_text(
        "import os, signal, sys\nfrom powerctx_core.cli import main\n"
        "class Interrupting:\n    def find_spec(self, name, *more):\n"
        "        if name == sys.argv[1]:\n            os.kill(os.getpid(), signal.SIGINT)\n"
        "name = sys.argv[1]\nsys.meta_path.insert(0, Interrupting())\n"
        "sys.argv[1:] = [name, '--scope', 's']\nmain()\n"
    )

    for module in ("click", "powerctx_core.cli.output", "powerctx_core.cli.program"):
        result = subprocess.run(
            [sys.executable, "probe.py", module],
            capture_output=True, env=environment, cwd=tmp_path, timeout=60, check=False,
        )  # fmt: skip
        assert (130, b"", b"") == (result.returncode, result.stdout, result.stderr)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT to send")
@pytest.mark.usefixtures("interruptible")
def test_interrupt(run: Run, tmp_path: Path, environment: dict[str, str]) -> None:
    """Ctrl-C while reading ends quietly with 130; the store stays usable."""
    command = [sys.executable, "-m", "powerctx_core.cli", "ingest", "-", "--scope", "s", "--batch", "1"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=tmp_path
    ) as process:
        process.stdin.write(b'{"text":"kept"}\n')
        process.stdin.flush()
        deadline = time.monotonic() + 30
        while b"kept" not in run("prepare", "kept", "--scope", "s").stdout and time.monotonic() < deadline:
            pass
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)

    assert (130, b"", b"") == (process.returncode, output, errors)
    assert b"kept" in run("prepare", "kept", "--scope", "s").stdout


def test_click_is_missing(run: Run, tmp_path: Path) -> None:
    """Without click the program says in one line what to install."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "click.py").write_text("raise ModuleNotFoundError('no click', name='click')")

    result = run("--help", PYTHONPATH=os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")]))

    assert (1, b"") == (result.returncode, result.stdout)
    assert b'pip install "powerctx-core[cli]"' in result.stderr
    assert 1 == result.stderr.count(b"\n")


def test_help_imports_nothing_heavy(run: Run, tmp_path: Path) -> None:
    """The help needs no engine, no store, no rich and no text analysis."""
    (tmp_path / "probe.py").write_text(
        "import sys\nfrom powerctx_core.cli.program import program\n"
        "try:\n    program.main(['--help'], prog_name='powerctx')\nexcept SystemExit:\n    pass\n"
        "heavy = {'rich', 'sqlalchemy', 'Stemmer', 'regex', 'opencc', 'alembic', 'powerctx_core.engine'}\n"
        "sys.stderr.write(' '.join(sorted(heavy & set(sys.modules))))\n"
    )

    result = subprocess.run(
        [sys.executable, str(tmp_path / "probe.py")], capture_output=True, check=True, cwd=tmp_path, env=os.environ
    )

    assert b"" == result.stderr


def test_command_of_a_plugin(run: Run, plugin: Callable[[str], dict[str, str]]) -> None:
    """It is in the help by its record, imported only when it runs, and its failure to load is one line."""
    variables = plugin(
        "from powerctx_core import CommandSpec, hookimpl\n"
        "@hookimpl\n"
        "def powerctx_commands():\n"
        "    yield CommandSpec(name='greet', factory='acme_greet:greet', about='say \\x1b hello')\n"
        "    yield CommandSpec(name='lost', factory='acme_nowhere:lost', about='cannot be loaded')\n"
        "    yield CommandSpec(name='odd', factory=dict, about='is no command')\n"
    )
    site = Path(variables["PYTHONPATH"].partition(os.pathsep)[0])
    (site / "acme_greet.py").write_text(
        "import click\nprint('imported')\n@click.command\ndef greet():\n    click.echo('hello')\n"
    )

    text = run("--help", **variables).stdout
    greeting = run("greet", **variables)
    lost = run("lost", **variables)
    odd = run("odd", **variables)

    assert b"greet" in text
    assert b"say \\x1b hello" in text
    assert b"imported" not in text
    assert (0, b"imported\nhello\n") == (greeting.returncode, greeting.stdout)
    for result in (lost, odd):
        assert 1 == result.returncode
        assert result.stderr.startswith(b"error: ")
        assert b"acme" in result.stderr
        assert 1 == result.stderr.count(b"\n")


@pytest.mark.parametrize("source", ["import sys; sys.exit(3)", "1 / 0", "import nowhere", "syntax error"])
def test_broken_plugin(run: Run, plugin: Callable[[str], dict[str, str]], source: str) -> None:
    """It breaks no command; it is named by plugins and doctor, and check shows the whole traceback."""
    variables = plugin(source)

    listed = run("plugins", "--json", **variables)
    checked = run("check", "acme", **variables)

    assert 0 == run("--help", **variables).returncode
    assert ["failed"] == [each["state"] for each in json.loads(listed.stdout) if each["name"] == "acme"]
    assert 1 == checked.returncode
    assert b"Traceback" in checked.stderr
    assert checked.stderr.splitlines()[-1].startswith(b"error: ")
    assert b"powerctx check acme" in run("doctor", "--store", "memory://", **variables).stdout
    assert 0 == run("prepare", "x", "--scope", "s", "--store", "memory://", **variables).returncode


def test_disabled_plugin_is_not_imported(run: Run, plugin: Callable[[str], dict[str, str]]) -> None:
    """Safe mode imports no plugin, whatever it would do."""
    variables = plugin("import os; os._exit(9)") | {"POWERCTX_PLUGINS": ""}

    assert 0 == run("plugins", **variables).returncode
    assert 0 == run("--help", **variables).returncode


def test_evaluation_data(run: Run, evaluation_data: Path) -> None:
    """The documented line stores the conversations, twice with the same result."""
    items = str(evaluation_data / "locomo" / "items.jsonl")
    mapping = ",".join(f"{family}=memory" for family in FAMILIES)

    first = run("ingest", items, "--map", mapping)
    again = run("ingest", items, "--map", mapping)

    assert b"2760 stored, 0 unchanged, 0 bad in 5 scopes\n" == first.stdout
    assert b"0 stored, 2760 unchanged, 0 bad in 5 scopes\n" == again.stdout
