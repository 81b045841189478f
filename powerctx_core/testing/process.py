"""Another process that writes to a store: ``python -m powerctx_core.testing.process JOB``.

JOB is one JSON object:

    url, settings, plugins, extra   how to open the store; see :func:`opened`
    name                            of this writer
    batches, size                   how many batches to write, and how many items are in each beside the shared one
    end                             ``close`` the store, or ``die`` by a signal that cannot be caught

A batch of writer N holds a new revision of the artifact ``shared`` and the artifacts ``N-<batch>-<number>``, each with
the text ``apple N <batch>``.  Once the store has acknowledged a batch, its number is printed on a line of its own.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from powerctx_core.config import structure
from powerctx_core.host import Host
from powerctx_core.ports import Store
from powerctx_core.types import Item

__all__ = ["batch", "main", "opened"]


@contextmanager
def opened(job: Mapping[str, Any]) -> Iterator[Store]:
    """Open the store of a job, as users do; closing it is the caller's.

    Args:
        job: ``url``, ``settings`` as in ``powerctx.toml``, ``plugins`` to load and ``extra``, names of plugin modules.
    """
    extra = [importlib.import_module(name) for name in job["extra"]]
    with Host.compose(structure(job["settings"]), allow=job["plugins"], extra=extra) as host:
        yield host.open_store(job["url"])


def batch(name: str, number: int, size: int) -> list[Item]:
    """Return the items of one batch."""
    text = f"apple {name} {number}"
    own = [Item(scope_id="s", artifact_id=f"{name}-{number}-{n}", text=text) for n in range(size)]
    return [Item(scope_id="s", artifact_id="shared", text=text), *own]


def main(argument: str) -> None:
    """Do the job that *argument* describes."""
    job: dict[str, Any] = json.loads(argument)
    with opened(job) as store:
        write(store, job["name"], job["batches"], job["size"])
        if job["end"] == "die":
            os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
        store.close()


def write(store: Store, name: str, batches: int, size: int) -> None:
    """Write the batches and print the number of each that was acknowledged."""
    for number in range(batches):
        store.catalogue.put(batch(name, number, size))
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
