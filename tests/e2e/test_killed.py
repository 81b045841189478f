"""``powerctx ingest`` ended by ``kill -9``, at seeded moments: whole batches, a store in order, the same end."""

from __future__ import annotations

import fcntl
import json
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from powerctx_core import Context, Deadline, opening
from powerctx_core.cli.program import program

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a signal that cannot be caught")

BATCH, LINES, OLD = 8, 80, 32
LOG_BYTES = 500_000
"""What the log of a whole run comes to, nearly."""
QUERIES = ("word7 word19", "word55 word101 word3", "北京的火锅店 word12", "fresh0042", "nothing of it")
WORDS = [f"word{n}" for n in range(150)] + ["北京大学", "火锅店", "Häuser", "資料庫"]
TABLES = {
    "revision": "id, artifact_id, number, current, digest, title, tags, meta, thread, position, head, rest, overview",
    "analysis": "id, artifact_id, length, threaded, repeats, terms",
    "partition": "id, scope_id, family, item_count, total_length, next_sequence",
    "vector": "id, text_hash, embedding",
}


def lines(seed: int, numbers: range, mark: str) -> list[dict[str, object]]:
    """Return records; their texts hold more than a pipe, so that who feeds them waits for who reads them."""
    chance = random.Random(seed)
    return [
        {
            "id": f"i{n}",
            "text": f"{mark}{n:04} {' '.join(chance.choices(WORDS, k=50))}",
            "tags": [mark],
            "session": f"t{n % 7}",
            "position": n,
        }
        for n in numbers
    ]


def run(folder: Path, *arguments: str, stdin: bytes | None = None) -> str:
    """Run ``powerctx`` on the store of *folder*, in this process."""
    store = ("--store", f"sqlite:///{folder}/t.db", "--embedder", "hash")
    result = CliRunner().invoke(program, [*arguments, *store], input=stdin, prog_name="powerctx")
    assert 0 == result.exit_code, result.output
    return result.stdout


def opened(folder: Path, **own: bool) -> Context:
    """Open the store of *folder*."""
    # A busy machine is no reason to search by words alone: both stores are asked the same way.
    patient = {"embedding_timeout_s": 60.0}
    settings = {"embedder": "hash", "parts": {"sqlite": own}, "retrieval": patient}
    return opening.open(f"sqlite:///{folder}/t.db", settings=settings)


def content(folder: Path) -> dict[str, list[object]]:
    """Return all that the store holds but times and counters, and what it prepares."""
    connection = sqlite3.connect(folder / "t.db")
    held = {
        name: connection.execute(f"SELECT {columns} FROM {name} ORDER BY id").fetchall()
        for name, columns in TABLES.items()
    }
    connection.close()
    with opened(folder) as ctx:
        held["prepared"] = [ctx.prepare(query, scope_id="s").content for query in QUERIES]
        held["found"] = [[hit.address.uri for hit in ctx.find(query, scope_id="s").hits] for query in QUERIES]
    return held


def check_order(folder: Path) -> int:
    """Assert that the store holds a prefix of the batches, and nothing by halves; return how many items of them."""
    with opened(folder, inspect=True) as ctx:
        assert () == ctx.store.check(Deadline()).problems
        items, vectors = sum(ctx.partitions().values()), ctx.store.vectors.count()
    connection = sqlite3.connect(folder / "t.db")
    fresh = connection.execute("SELECT artifact_id FROM revision WHERE current = 1 AND tags LIKE '%fresh%'").fetchall()
    connection.close()
    count = len(fresh)
    assert {f"i{n}" for n in range(count)} == {name for (name,) in fresh}
    assert 0 == count % BATCH
    assert max(OLD, count) == items
    # The vectors of a batch are written after it, all or none.
    assert vectors in {items, items - BATCH}
    return count


def kill_while_running(folder: Path, data: bytes, part: float, kind: str, duration: float) -> bool:
    """Run the program, kill it after a part of its input, log or time, and return whether that ended it."""
    command = [sys.executable, "-m", "powerctx_core.cli", "ingest", "-", "--scope", "s", "--batch", str(BATCH)]
    command += ["--store", f"sqlite:///{folder}/t.db", "--embedder", "hash", "--no-progress"]
    log = folder / "t.db-wal"
    file = folder / "new.jsonl"
    file.write_bytes(data)
    with file.open("rb") as whole:
        source = subprocess.PIPE if kind == "fed" else whole
        process = subprocess.Popen(command, stdin=source, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    started = time.monotonic()
    if process.stdin is not None:
        # What is written has been read, nearly: the pipe is made small.
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            fcntl.fcntl(process.stdin.fileno(), fcntl.F_SETPIPE_SZ, 4096)
        process.stdin.write(data[: int(part * len(data))])
        process.stdin.flush()
    while kind != "fed" and process.poll() is None:
        try:
            size = log.stat().st_size
        except FileNotFoundError:
            size = 0
        if size > part * LOG_BYTES if kind == "log" else time.monotonic() - started > part * duration:
            break
        time.sleep(0.001)  # between two looks: the program needs the processor
    process.kill()
    if process.stdin is not None:
        process.stdin.close()
    return process.wait() != 0


@pytest.mark.timeout(600)  # 20 s of a processor, which other tests share
@pytest.mark.parametrize("kills", [6, pytest.param(20, marks=pytest.mark.long)])
def test_killed_at_any_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: int) -> None:
    """After each kill the store opens, holds whole batches, and the same run again leads to the same store."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    first = tmp_path / "first"
    first.mkdir()
    old = "\n".join(map(json.dumps, lines(1, range(OLD), "former"))).encode()
    data = "\n".join(map(json.dumps, lines(2, range(LINES), "fresh"))).encode()
    again = ("ingest", "-", "--scope", "s", "--batch", str(BATCH), "--no-progress")
    run(first, *again, stdin=old)
    whole = tmp_path / "whole"
    shutil.copytree(first, whole)
    started = time.monotonic()
    command = [sys.executable, "-m", "powerctx_core.cli", *again, "--store", f"sqlite:///{whole}/t.db"]
    subprocess.run([*command, "--embedder", "hash"], input=data, check=True, capture_output=True)
    duration = time.monotonic() - started
    expected = content(whole)
    chance = random.Random(20)

    for n in range(kills):
        folder = tmp_path / f"{n}"
        shutil.copytree(first, folder)
        if not kill_while_running(folder, data, chance.random(), ("fed", "log", "time")[n % 3], duration):
            duration *= 0.8  # the first run took longer than those that follow
        stored = check_order(folder)
        told = run(folder, *again, stdin=data)
        assert f"{LINES - stored} stored, {stored} unchanged, 0 bad in 1 scope\n" == told
        # Without another word: the batch whose vectors were not written any more is embedded by the same run.
        assert expected == content(folder)
        shutil.rmtree(folder)
