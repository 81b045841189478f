"""Places that are no good: locked files, full disks, network file systems, what may not be written, the future."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from powerctx_core.errors import StoreError, StoreUnavailable
from powerctx_core.text.terms import analysis_version
from powerctx_core.types import Deadline
from powerctx_sqlite import location
from powerctx_sqlite.store import open_store

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

# Holds a lock until it is told to end.
HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in sys.argv[2:]:
    connection.execute(statement)
print("held", flush=True)
sys.stdin.readline()
"""

# Reads and writes as a user who may only read, and tells what came of it.
READER = """
import json, os, sys
from powerctx_core.errors import StoreError
from powerctx_core.types import Deadline, Item
from powerctx_sqlite.store import open_store
memory = open_store("sqlite://")  # Whatever is imported late is imported by the user who may.
memory.catalogue.put([Item(scope_id="s", text="alpha")])
memory.check(Deadline())
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
told = {}
store = open_store(f"sqlite:///{sys.argv[1]}")
with store.catalogue.snapshot(Deadline()) as snapshot:
    told["text"] = snapshot.latest("s", "memory", "x").item.text
try:
    store.catalogue.put([Item(scope_id="s", text="beta")])
except StoreError as error:
    told["refused"] = str(error)
told["problems"] = store.check(Deadline()).problems
told["access"] = store.status().facts["access"]
print(json.dumps(told))
"""

# Writes until there is no room, makes some, and goes on.
FILLER = """
import os, resource, signal, subprocess, sys
from pathlib import Path
from powerctx_core.errors import StoreError
from powerctx_core.types import Deadline, Item
from powerctx_sqlite.store import open_store
how, folder = sys.argv[1], Path(sys.argv[2])
if how == "disk":
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "powerctx", str(folder)], check=True)
    (folder / "ballast").write_bytes(bytes(2 << 20))
else:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
url = f"sqlite:///{folder}/notes.db"
store = open_store(url)
acknowledged, messages = [], []

def write(start, count):
    for batch in range(start, start + count):
        names = [f"a{batch}-{n}" for n in range(20)]
        items = [Item(scope_id="s", artifact_id=name, text=f"alpha {name} " + name * 900) for name in names]
        try:
            store.catalogue.put(items)
        except StoreError as error:
            messages.append(str(error))
            return
        acknowledged.extend(names)

def check():
    with store.catalogue.snapshot(Deadline()) as snapshot:
        assert sum(snapshot.partitions().values()) == len(acknowledged)
        for name in acknowledged:
            assert snapshot.latest("s", "memory", name).item.text.startswith(f"alpha {name} ")
    problems = [problem for problem in store.check(Deadline()).problems if "MiB are free" not in problem]
    assert problems == [], problems

write(0, 1000)
assert acknowledged and messages, (acknowledged, messages)
check()
first = len(acknowledged)
write(2000, 1)  # still full: told again, nothing lost
assert len(messages) == 2, messages
assert len(acknowledged) == first
if how == "disk":
    (folder / "ballast").unlink()
else:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
write(3000, 3)
assert len(messages) == 2, messages
assert len(acknowledged) == first + 60
check()
store.close()
store = open_store(url)
check()
store.close()
print("\\n".join(messages))
"""


@pytest.fixture
def filled(opened, ask, path):
    """A store with one item, closed."""
    store = opened()
    store.catalogue.put([ask.item("alpha", artifact_id="x")])
    store.close()
    return path


@pytest.fixture
def holding():
    """A function that has another process run statements on a file and hold what they lock."""
    started = []

    def hold(path, *statements):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(path), *statements],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        assert "held\n" == process.stdout.readline()
        return process

    yield hold
    for process in started:
        if process.returncode is None:
            process.communicate("\n")


WRITE = "INSERT INTO meta VALUES ('note', 'x')"
EXCLUSIVE = {
    "WAL": ("PRAGMA locking_mode = EXCLUSIVE", "BEGIN IMMEDIATE", WRITE),
    "DELETE": ("BEGIN EXCLUSIVE", WRITE),
}


# What is committed of a file with an empty log can be read without locks by who asks for reading only.
@pytest.mark.parametrize(("journal", "parameters"), [("WAL", ""), ("DELETE", ""), ("DELETE", "&mode=ro")])
def test_locked_against_readers(filled, opened, ask, holding, journal, parameters):  # noqa: PLR0917 - fixtures
    """A file that another process holds for itself is told as such after the time to wait, and used when it is free."""
    with sqlite3.connect(filled) as plain:
        plain.execute(f"PRAGMA journal_mode = {journal}")
    plain.close()
    holder = holding(filled, *EXCLUSIVE[journal])
    short = f"?busy_timeout_ms=50{parameters}"

    with pytest.raises(StoreError, match=r"another process is writing, or holds the file locked.*busy_timeout_ms"):
        ask.found(opened(short), "alpha")

    holder.communicate("\n")
    assert {"x"} == ask.found(opened(short), "alpha")


def test_locked_while_open(opened, ask, path, holding):
    """Readers of a store do not wait for a writer of another process; a write says that it waited in vain."""
    store = opened("?busy_timeout_ms=50")
    store.catalogue.put([ask.item("alpha", artifact_id="x")])
    holder = holding(path, "BEGIN EXCLUSIVE", WRITE)

    assert {"x"} == ask.found(store, "alpha")
    with pytest.raises(StoreError, match=r"holds the file locked.*Nothing of this batch was kept"):
        store.catalogue.put([ask.item("beta")])

    holder.communicate("\n")
    store.catalogue.put([ask.item("beta", artifact_id="y")])
    assert {"y"} == ask.found(store, "beta")


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("server:/export {} nfs4 rw,relatime 0 0", "nfs4"),
        ("server:/export {} nfs rw 0 0", "nfs"),
        ("//pc/share {} cifs rw 0 0", "cifs"),
        ("user@host: {} fuse.sshfs rw 0 0", "fuse.sshfs"),
        ("lustre@tcp:/x {} lustre rw 0 0", "lustre"),
    ],
)
@pytest.mark.parametrize("name", ["plain", "with space", "tab\tand\nline", "back\\slash 040", "büro"])
def test_network_file_systems(tmp_path, monkeypatch, ask, line, kind, name):  # noqa: PLR0917 - fixtures
    """What the system's table of mounts calls a network file system is refused by its type, unless it is allowed."""
    place = tmp_path / name
    place.mkdir()
    quoted = str(place).replace("\\", "\\134").replace(" ", "\\040").replace("\t", "\\011").replace("\n", "\\012")
    table = tmp_path / "mounts"
    table.write_text(f"/dev/sda / ext4 rw 0 0\n{line.format(quoted)}\ntmpfs {quoted}/local tmpfs rw 0 0\n")
    monkeypatch.setattr(location, "MOUNTS", table)
    url = f"{place}/notes.db".replace("%", "%25").replace("\n", "%0A").replace("?", "%3F")

    with pytest.raises(StoreUnavailable, match=rf"network file system \({kind}\).*network=allow"):
        open_store(f"sqlite:///{url}")
    store = open_store(f"sqlite:///{url}?network=allow")
    store.catalogue.put([ask.item("alpha", artifact_id="x")])
    store.close()
    (place / "local").mkdir()
    # A local file system inside of it, a folder beside it of which its name is the start, and a link to it.
    open_store(f"sqlite:///{url.replace('/notes.db', '/local/notes.db')}").close()
    (tmp_path / f"{name}2").mkdir()
    open_store(f"sqlite:///{url.replace('/notes.db', '2/notes.db')}").close()
    (tmp_path / "link").symlink_to(place)
    with pytest.raises(StoreUnavailable, match=rf"network file system \({kind}\)"):
        open_store(f"sqlite:///{tmp_path}/link/notes.db")


def test_without_a_table_of_mounts(opened, monkeypatch, tmp_path):
    """Where the system has no such table, nothing is refused."""
    monkeypatch.setattr(location, "MOUNTS", tmp_path / "nowhere")

    opened()


@pytest.mark.skipif(os.name == "nt", reason="needs permissions of POSIX")
@pytest.mark.parametrize(("file_mode", "folder_mode"), [(0o444, 0o755), (0o644, 0o555), (0o444, 0o555)])
def test_read_only(ask, file_mode, folder_mode):
    """A file, or a folder, that may not be written is read; writes and the status say what to make writable."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "notes.db"
        store = open_store(f"sqlite:///{path}")
        store.catalogue.put([ask.item("alpha", artifact_id="x")])
        store.close()
        path.chmod(file_mode)
        folder.chmod(folder_mode)
        try:
            result = subprocess.run(
                [sys.executable, "-c", READER, str(path)], capture_output=True, text=True, env=ENVIRONMENT, check=False
            )
            left = [file.name for file in folder.iterdir()]
        finally:
            folder.chmod(0o755)

    assert "" == result.stderr
    told = json.loads(result.stdout)
    assert ("alpha", "read only") == (told["text"], told["access"])
    assert "read-only here" in told["refused"]
    (problem,) = told["problems"]
    assert "make both writable, or add ?mode=ro" in problem
    assert ["notes.db"] == left


def mount_command():
    """Return what must stand before a command that may mount, or ``None`` where nobody may."""
    namespace = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        command = [*namespace, "mount", "-t", "tmpfs", "-o", "size=1m", "powerctx", folder]
        return namespace if subprocess.run(command, capture_output=True, check=False).returncode == 0 else None


@pytest.mark.skipif(os.name == "nt", reason="needs mounts, or limits of POSIX")
@pytest.mark.parametrize("how", ["limit", "disk"])
def test_full_disk(tmp_path, how):
    """A full disk ends a write with one sentence; all that was acknowledged is there; with room, writing goes on."""
    prefix = mount_command() if how == "disk" else []
    if prefix is None:
        # Nobody may mount here: the limit on a file's size, which the other case has, is all there is.
        how, prefix = "limit", []

    result = subprocess.run(
        [*prefix, sys.executable, "-c", FILLER, how, str(tmp_path)],
        capture_output=True, text=True, env=ENVIRONMENT, check=False, timeout=100,
    )  # fmt: skip

    assert 0 == result.returncode, result.stderr[-2000:]
    for message in result.stdout.splitlines():
        assert "Nothing of this batch was kept." in message
        assert "free" in message


def test_future_analysis(filled, opened, ask, path):
    """A small file of a newer analysis is analysed anew at open, and answers as if it always had been of this one."""
    before = ask.lexical(opened(), "alpha")
    with sqlite3.connect(path) as plain:
        plain.execute("UPDATE meta SET value = 'terms-99.0+snowball-9' WHERE name = 'analysis_version'")
        plain.execute("UPDATE analysis SET terms = ' futureword ', length = 7")
        plain.execute("UPDATE partition SET total_length = 7")
    plain.close()
    kept = path.read_bytes()

    problems = opened(inspect=True).check(Deadline()).problems
    assert [True] == ["terms-99.0+snowball-9" in problem and "index --rebuild" in problem for problem in problems]
    assert kept == path.read_bytes()
    large = opened(reanalyse_at_most=0)
    with pytest.raises(StoreError, match=r"terms-99\.0.*index --rebuild"):
        ask.found(large, "alpha")
    store = opened()
    after = ask.lexical(store, "alpha")

    assert (before.statistics, before.hits) == (after.statistics, after.hits)
    assert set() == ask.found(store, "futureword")
    assert analysis_version() == store.status().facts["analysis"]
    assert () == store.check(Deadline()).problems
