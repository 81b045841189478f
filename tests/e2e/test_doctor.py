"""``powerctx doctor``: names every broken store in one line that says what to do, and never changes a byte."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner, Result

import powerctx_core
from powerctx_core.cli.program import program
from powerctx_sqlite import location

FACTS = {
    "store", "location", "permissions", "size", "log size", "access", "free space", "schema", "analysis", "items",
    "partitions", "store id", "changes", "vectors", "sqlite", "pages checked", "items checked", "vectors checked",
    "content", "embedder",
}  # fmt: skip
PAGE = 4096


class Usage(NamedTuple):
    """What ``shutil.disk_usage`` returns."""

    total: int
    used: int
    free: int


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in order, with vectors."""
    path = tmp_path_factory.mktemp("good") / "notes.db"
    lines = "\n".join(json.dumps({"id": f"i{n}", "text": f"word{n} 火锅 and {'more ' * (n % 99)}"}) for n in range(300))
    arguments = ["ingest", "-", "--scope", "s", "--store", f"sqlite:///{path}", "--embedder", "hash"]
    assert 0 == CliRunner().invoke(program, arguments, input=lines, prog_name="powerctx").exit_code
    return path


@pytest.fixture
def path(tmp_path: Path, good: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, without settings of the user."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    for name in ("POWERCTX_STORE", "POWERCTX_PLUGINS"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "place").mkdir()
    monkeypatch.chdir(tmp_path / "place")
    return Path(shutil.copyfile(good, tmp_path / "place" / "notes.db"))


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return all files of a folder."""
    return {
        str(file.relative_to(folder)): (file.read_bytes(), file.stat().st_mtime_ns)
        for file in folder.rglob("*")
        if file.is_file()
    }


def doctor(store: str, *options: str) -> Result:
    """Run ``powerctx doctor``, and assert that neither form of it changes anything."""
    before = contents(Path.cwd().parent)
    for form in ((), ("--json",)):
        result = CliRunner().invoke(program, ["doctor", "--store", store, *options, *form], prog_name="powerctx")
        assert "Traceback" not in result.output
        assert "unexpected" not in result.output
        assert before == contents(Path.cwd().parent)
    return result


def problems(store: str, *options: str) -> list[str]:
    """Return what ``doctor`` calls problems; each is one line with a next step."""
    result = doctor(store, *options)
    found: list[str] = json.loads(result.stdout)["problems"]
    assert bool(found) == bool(result.exit_code)
    plain = CliRunner().invoke(program, ["doctor", "--store", store, *options], prog_name="powerctx")
    assert len(found) == plain.stdout.count("\nproblem: ")
    for problem in found:
        assert "\n" not in problem
        assert problem.endswith(".")
    return found


def test_all_is_well(path: Path) -> None:
    """Every fact is there, in text and in JSON, and nothing is wrong."""
    result = doctor("sqlite:///notes.db", "--embedder", "hash")
    report = json.loads(result.stdout)

    assert (0, []) == (result.exit_code, report["problems"])
    assert {"facts", "problems"} == report.keys()
    # How the file is journalled is not asked of a file that is read without locks.
    assert report["facts"].keys() - {"journal"} == FACTS
    assert "all, with 300 revisions" == report["facts"]["items checked"]
    assert "read and write" == report["facts"]["access"]
    assert "300 of hash-64-v1 (64 dimensions)" == report["facts"]["vectors"]


def test_nothing_there(path: Path) -> None:
    """A store that was not made yet is no problem and is not made."""
    result = doctor("sqlite:///other.db")

    assert 0 == result.exit_code
    assert "not created yet" in json.loads(result.stdout)["facts"]["state"]
    assert not Path("other.db").exists()


def _execute(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as plain:
        for statement in statements:
            plain.execute(statement)
    plain.close()


def _overwrite(path: Path, object_name: str) -> None:
    """Fill the first leaf of a table or index with noise."""
    content = bytearray(path.read_bytes())
    plain = sqlite3.connect(path)
    ((page,),) = plain.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (object_name,))
    plain.close()
    while content[(start := (page - 1) * PAGE)] in (2, 5):  # interior pages, of indexes and tables
        cell = start + int.from_bytes(content[start + 12 : start + 14])
        page = int.from_bytes(content[cell : cell + 4])
    content[start : start + PAGE] = b"\x5a" * PAGE
    path.write_bytes(content)


def _header(path: Path, at: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "newer schema": (lambda path: _execute(path, "UPDATE alembic_version SET version_num = '9999'"), "Upgrade the "),
    "older schema": (
        lambda path: _execute(path, "UPDATE alembic_version SET version_num = '0001'"),
        "any other command, such as `powerctx index`, brings it to",
    ),
    "newer analysis": (
        lambda path: _execute(path, "UPDATE meta SET value = 'terms-99' WHERE name = 'analysis_version'"),
        "run `powerctx index --rebuild`",
    ),
    "no schema": (lambda path: _execute(path, "DELETE FROM alembic_version"), "restore a backup"),
    "no table": (lambda path: _execute(path, "DROP TABLE partition"), "restore a backup"),
    "no index": (lambda path: _execute(path, "DROP TABLE lexical"), "restore a backup"),
    "something else": (lambda path: (path.unlink(), _execute(path, "CREATE TABLE t (x)")), "choose another path"),
    "no database": (lambda path: path.write_bytes(b"no database " * 900), "choose another path"),
    "directory": (lambda path: (path.unlink(), path.mkdir()), "name a file in it"),
    "cut": (lambda path: os.truncate(path, path.stat().st_size // 2), "restore a backup"),
    "header": (lambda path: _header(path, 0, b"SQLite format 4\0"), "choose another path"),
    "header of the pages": (lambda path: _header(path, 100, b"\xee" * 12), "restore a backup"),
    "table": (lambda path: _overwrite(path, "revision"), "restore a backup"),
    "table of terms": (lambda path: _overwrite(path, "analysis"), "restore a backup"),
    "index": (lambda path: _overwrite(path, "revision_current"), "restore a backup"),
    "index that no read needs": (lambda path: _overwrite(path, "vector_text"), "restore a backup"),
    "full text": (lambda path: _overwrite(path, "lexical_data"), "restore a backup"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken(path: Path, kind: str) -> None:
    """Each kind of broken file is one problem that says what to do."""
    harm, told = BROKEN[kind]
    harm(path)

    found = problems("sqlite:///notes.db")

    assert any(told in problem for problem in found), found
    assert len(found) == 1, found


def test_what_single_reads_cannot_see(path: Path) -> None:
    """A changed letter inside a text is found, with the item's name."""
    content = path.read_bytes()
    at = content.rindex("word77 火锅 and".encode())
    _header(path, at, b"word78")

    (problem,) = problems("sqlite:///notes.db")

    assert "'i77' in 's'" in problem


@pytest.mark.parametrize(
    ("store", "told"),
    [
        ("sqlite:///nowhere/notes.db", "create it, or choose another path"),
        ("sqlite:///notes.db?mode=rw", "the parameter mode takes ro alone"),
        ("sqlite:///notes.db?mode=memory", "a store in memory is sqlite://"),
        ("sqlite:///notes.db/more.db", "a part of this path is a file"),
        (f"sqlite:///{'n' * 300}", "has 300 bytes, and may have 247 here"),
        (f"sqlite:///{'n' * 248}", "has 248 bytes, and may have 247 here"),
        (f"sqlite:///{'n' * 300}/notes.db", "choose a shorter one"),
        ("nope:///notes.db", "nope"),
    ],
)
def test_no_store(path: Path, store: str, told: str) -> None:
    """A URL that cannot be a store is a problem."""
    (problem,) = problems(store)

    assert told in problem


def test_network_file_system(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file on a network file system is a problem, unless it is allowed."""
    table = tmp_path / "mounts"
    table.write_text(f"server:/x {path.parent} nfs4 rw 0 0\n")
    monkeypatch.setattr(location, "MOUNTS", table)

    (problem,) = problems("sqlite:///notes.db")

    assert "network=allow" in problem
    assert [] == problems("sqlite:///notes.db?network=allow")


def test_little_room(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is nearly full is a problem, told once."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1 << 30, (1 << 30) - (5 << 20), 5 << 20))

    (problem,) = problems("sqlite:///notes.db")

    assert "Only 5 MiB are free" in problem


@pytest.mark.skipif(os.name == "nt", reason="needs permissions of POSIX")
@pytest.mark.parametrize(("file_mode", "folder_mode"), [(0o444, 0o755), (0o644, 0o555)])
def test_read_only(path: Path, file_mode: int, folder_mode: int) -> None:
    """A store that this user cannot write is a problem, unless reading only is what was asked for."""
    path.chmod(file_mode)
    path.parent.chmod(folder_mode)
    # Whoever is not root has to get to the file, and to the packages, which may lie in a private folder.
    places = [path, Path(sys.prefix, "lib"), Path(sys.base_prefix, "lib"), Path(powerctx_core.__file__)]
    folders = dict.fromkeys(folder for place in places for folder in place.resolve().parents)
    opened = [folder for folder in folders if folder.stat().st_mode & 0o005 != 0o005]
    modes = {folder: folder.stat().st_mode for folder in opened}
    for folder, mode in modes.items():
        folder.chmod(mode | 0o055)
    problems("sqlite:///notes.db")  # Whatever is imported late is imported by the user who may.
    CliRunner().invoke(program, ["doctor", "--store", "sqlite:///no/where.db"], prog_name="powerctx")
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        found = problems("sqlite:///notes.db")
        chosen = problems("sqlite:///notes.db?mode=ro")
    finally:
        if root:
            os.seteuid(0)
        path.parent.chmod(0o755)
        for folder, mode in modes.items():
            folder.chmod(mode)

    assert ["make both writable, or add ?mode=ro" in problem for problem in found] == [True]
    assert [] == chosen


@pytest.fixture
def killed(path: Path) -> Path:
    """The store with a log that a killed process left, which holds what is in no file yet."""
    code = (
        "import os, signal, sys, powerctx_core as p\n"
        "ctx = p.open('sqlite:///notes.db')\n"
        "ctx.put([p.Item(scope_id='s', artifact_id=f'k{n}', text='kept in the log') for n in range(9)])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert -signal.SIGKILL == subprocess.run([sys.executable, "-c", code], check=False).returncode
    assert path.with_name("notes.db-wal").stat().st_size
    return path


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a signal that cannot be caught")
def test_log_that_was_left(killed: Path) -> None:
    """What stands in the log of a killed process is read with the rest, and the log stays as it is."""
    result = doctor("sqlite:///notes.db")
    report = json.loads(result.stdout)

    assert [] == report["problems"]
    assert "309 items in 1 scope" == report["facts"]["content"]
    assert "309" == report["facts"]["items"]


def test_locked(path: Path) -> None:
    """A file that another connection holds for itself is a problem, after the time to wait."""
    _execute(path, "PRAGMA journal_mode = DELETE")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    holder.execute("INSERT INTO meta VALUES ('note', 'x')")

    (problem,) = problems("sqlite:///notes.db?busy_timeout_ms=20")

    assert "holds the file locked" in problem
    holder.execute("ROLLBACK")
    holder.close()
    assert [] == problems("sqlite:///notes.db")


def test_embedder_of_another_model(path: Path) -> None:
    """Vectors of another model than the one in force are a problem with the command that makes them anew."""
    _execute(path, "UPDATE embedding_profile SET fingerprint = 'other/1', dimensions = 64")

    (problem,) = problems("sqlite:///notes.db", "--embedder", "hash")

    assert "embed --rebuild" in problem
