"""The engine is a process: it is killed, shared and left behind by nobody."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from powerctx_core.errors import StoreError
from powerctx_core.types import Deadline
from powerctx_oceanbase.store import open_store

CHILD = """
import sys
from powerctx_core.types import Item
from powerctx_oceanbase.store import open_store
store = open_store(sys.argv[1])
store.catalogue.put([Item(scope_id="s", artifact_id="child", text="apple")])
print("ready", flush=True)
sys.stdin.readline()
store.catalogue.put([Item(scope_id="s", artifact_id="later", text="apple")])
if sys.argv[2] == "close":
    store.close()
"""


MAKER = """
import sys
from powerctx_core.types import Item
from powerctx_oceanbase.store import open_store
print("ready", flush=True)
sys.stdin.readline()
store = open_store(sys.argv[1])
for number in range(3):
    store.catalogue.put([Item(scope_id="s", artifact_id=f"{sys.argv[2]}{number}", text="apple")])
store.close()
"""


@pytest.fixture
def place(tmp_path):
    """A directory for an engine of the test's own."""
    return Path(os.path.realpath(tmp_path)) / "engine"


@pytest.fixture(autouse=True)
def _collected():
    """What the driver leaves to the garbage collector is no matter of the tests that follow."""
    yield
    gc.collect()


def engines(place):
    """Return the processes whose engine is that of a directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if f"--base-dir={place}\0".encode() in command:
            found.append(int(process.name))
    return found


def gone(place, seconds=20):
    """Whether no engine is left, after a while."""
    end = time.monotonic() + seconds
    while engines(place) and time.monotonic() < end:
        time.sleep(0.05)
    return not engines(place)


pytestmark = [
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc"),
    # The driver leaves the socket of an engine that died to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.mark.long
def test_killed_engine(place, ask):
    """The engine is killed during writes and reads: clear errors, nothing acknowledged is lost, and it starts again."""
    url = f"seekdb:///{place}"
    store = open_store(url)
    acknowledged: list[str] = []
    problems: list[BaseException] = []
    stop = threading.Event()

    def work(step):
        number = 0
        while not stop.is_set():
            try:
                step(number)
            except BaseException as error:  # noqa: BLE001 - looked at below
                problems.append(error)
                return
            number += 1

    def write(number):
        name = f"a{number}"
        store.catalogue.put([ask.item(f"apple {number}", name)])
        acknowledged.append(name)

    store.catalogue.put([ask.item("apple", "first")])
    threads = [threading.Thread(target=work, args=(step,)) for step in (write, lambda _: ask.found(store, "apple"))]
    for thread in threads:
        thread.start()
    while len(acknowledged) < 30:
        time.sleep(0.01)
    with store.catalogue.snapshot(Deadline()) as snapshot:
        ask.kill(place)
        with pytest.raises(StoreError) as caught:
            snapshot.changes()
        problems.append(caught.value)
    time.sleep(1)
    stop.set()
    for thread in threads:
        thread.join(60)

    assert not any(thread.is_alive() for thread in threads)
    assert all(isinstance(error, StoreError) for error in problems), problems
    assert all(str(place) in str(error) for error in problems)
    assert any("connection to the engine was lost" in str(error) for error in problems)
    # The same store starts the engine again ...
    assert set(acknowledged) | {"first"} <= ask.found(store, "apple")
    store.close()
    # ... and so does the next one.
    again = open_store(url)
    with again.catalogue.snapshot(Deadline()) as snapshot:
        kept = {name for name in acknowledged if snapshot.latest("s", "memory", name) is not None}
    assert kept == set(acknowledged)
    assert ["created"] == [result.outcome for result in again.catalogue.put([ask.item("pear", "new")])]
    again.close()
    assert gone(place)


@pytest.mark.parametrize("end", ["close", "exit"])
@pytest.mark.long
def test_shared_directory(place, ask, end):
    """Two processes share one engine; it ends after the last of them, whether that closed its store or just ended."""
    url = f"seekdb:///{place}"
    store = open_store(url)
    store.catalogue.put([ask.item("apple", "own")])
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, url, end], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert "ready" == child.stdout.readline().strip()
        assert {"own", "child"} == ask.found(store, "apple")
        assert 1 == len(engines(place))
        store.close()
        assert 1 == len(engines(place))
        child.communicate("\n", timeout=60)

    assert 0 == child.returncode
    assert gone(place)
    store = open_store(url)
    assert {"own", "child", "later"} == ask.found(store, "apple")
    store.close()
    assert gone(place)


@pytest.mark.long
def test_made_by_several(tmp_path, ask, request):
    """Processes that make one directory at the same moment all work, and nothing of any of them is lost."""
    for turn in range(8 if request.config.getoption("--engine", None) else 2):
        place = Path(os.path.realpath(tmp_path)) / f"engine{turn}"
        with ExitStack() as stack:
            makers = [
                stack.enter_context(
                    subprocess.Popen(
                        [sys.executable, "-c", MAKER, f"seekdb:///{place}", name],
                        **dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE),
                        text=True,
                    )
                )
                for name in "abcd"
            ]
            assert {"ready"} == {maker.stdout.readline().strip() for maker in makers}
            for maker in makers:
                maker.stdin.write("\n")
                maker.stdin.flush()
            told = [maker.communicate(timeout=120)[1] for maker in makers]
        assert [0] * 4 == [maker.returncode for maker in makers], told
        store = open_store(f"seekdb:///{place}")
        assert {f"{name}{number}" for name in "abcd" for number in range(3)} == ask.found(store, "apple")
        store.close()
        assert gone(place)


def test_closed_store(place, ask):
    """A closed store says so, and closing it twice does nothing; another one of the same directory goes on."""
    one, other = open_store(f"seekdb:///{place}"), open_store(f"seekdb:///{place}")
    one.catalogue.put([ask.item("apple", "a")])
    other.catalogue.put([ask.item("apple", "b")])
    one.close()
    one.close()

    with pytest.raises(StoreError, match="closed"):
        ask.found(one, "apple")
    assert {"a", "b"} == ask.found(other, "apple")
    other.close()
    assert gone(place)
