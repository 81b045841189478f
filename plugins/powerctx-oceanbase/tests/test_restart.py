"""After a start the engine makes the index of vectors anew that was never rebuilt: calls go on meanwhile.

``--vectors=30000`` takes as many as make the engine need half a minute.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

import powerctx_core as powerctx

DEADLINE_MS = 1000
SETTINGS = {"retrieval": {"embedding_timeout_s": 60.0}, "parts": {"hash": {"dimensions": 384}}}


def written(number):
    """Return a text of some words, of which one is its own."""
    rng = random.Random(number)
    return " ".join([f"own{number}", *(f"word{rng.randrange(400)}" for _ in range(20))])


@pytest.mark.long
def test_first_prepare_after_a_restart(tmp_path, request):
    """The first call after a restart answers in its time with what it has, and says so; once warm it is whole."""
    count = request.config.getoption("--vectors")
    url = f"seekdb:///{Path(os.path.realpath(tmp_path)) / 'engine'}?exact_below=0"
    with powerctx.open(url, settings=SETTINGS, embedder="hash") as context:
        for first in range(0, count, 1500):
            numbers = range(first, min(first + 1500, count))
            context.put([powerctx.Item(scope_id="s", artifact_id=f"a{n}", text=written(n)) for n in numbers])
        assert count == context.store.vectors.count()

    with powerctx.open(url, settings=SETTINGS, embedder="hash") as context:
        begun = time.monotonic()
        cold, partial = 0, 0
        while not cold or context.store.status().problems:
            start = time.monotonic()
            prepared = context.prepare(written(cold), scope_id="s", families=["memory"], deadline_ms=DEADLINE_MS)
            taken = time.monotonic() - start
            told = prepared.diagnostics
            assert taken < DEADLINE_MS / 1000 + 1
            assert f"a{cold}" in {address.artifact_id for address in prepared.selected}
            # Words are there in any case; vectors are, or it is said that they are not.
            assert (told.partial, told.late, told.modes) in (
                (False, (), (("memory", "hybrid"),)),
                (True, ("memory:neighbour", "memory:vector"), (("memory", "fts"),)),
            )
            cold, partial = cold + 1, partial + told.partial
        warm = context.prepare(written(7), scope_id="s", families=["memory"]).diagnostics
        seconds = time.monotonic() - begun
        print(f"{count} vectors: warm after {seconds:.1f} s; {cold} calls before, {partial} partial")  # noqa: T201 - for -s

    assert (False, (), (("memory", "hybrid"),)) == (warm.partial, warm.late, warm.modes)
