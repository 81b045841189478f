"""Makes, uses and closes the parts of a plugin, and tells what is left of each: threads, sockets, open files.

Run in a process of its own, so that only the plugin can have left it: ``main`` reads a JSON task from the arguments
and prints a JSON list of sentences.
"""

from __future__ import annotations

import gc
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from powerctx_core.config import Settings, structure
from powerctx_core.errors import PowerctxError
from powerctx_core.host import Host
from powerctx_core.memory_store import MemoryStore
from powerctx_core.ports import Call, EmbedRequest, LexicalRequest, RetrievalRequest, SearchingFamily, Selection, Store
from powerctx_core.records import NoSettings, StoreSpec
from powerctx_core.text.terms import analyse_query
from powerctx_core.types import AdmissionFloor, Deadline, Item, LexicalStatistics, Partition, Pool

__all__ = ["leftovers", "main", "make"]

_PATIENCE_S = 2.0
_SCOPE = "project:kit"
_WORDS = "Why did we choose SQLite?"


def main() -> None:
    """Carry out the task in ``sys.argv[1]``."""
    task = json.loads(sys.argv[1])
    print(json.dumps(list(leftovers(**task))))  # noqa: T201 - the answer of this process


def make(host: Host, hook: str, record: Any) -> Any:
    """Make a part; a store is opened at its example URL."""
    return host.open_store(record.example) if isinstance(record, StoreSpec) else host.part(hook, record.name)


def leftovers(names: list[str], settings: Mapping[str, Any], parts: list[tuple[str, str]]) -> Iterable[str]:
    """Give a sentence for everything that is left of a part after its host was closed.

    Args:
        names: plugins to load.
        settings: as in ``powerctx.toml``.
        parts: hook and name of each part.
    """
    analyse_query(_WORDS)  # what core itself keeps open is none of theirs
    effective = structure(settings)
    for hook, name in parts:
        before = _held()
        _once(effective, names, hook, name)
        yield from (f"{hook} {name!r} leaves {each}" for each in _left(before))


def _once(settings: Settings, names: list[str], hook: str, name: str) -> None:
    with Host.compose(settings, allow=names) as host:
        part = make(host, hook, host.spec(hook, name))
        try:
            if hook in _USES:
                _USES[hook](part, name)
        except (PowerctxError, OSError):
            pass  # that it works is what other contracts ask; here it matters what it leaves


def _held() -> dict[str, str]:
    """Return what this process holds: an id that is used once -> what it is."""
    held = {f"thread {thread.ident}": f"the thread {thread.name!r}" for thread in threading.enumerate()}
    folder = Path("/proc/self/fd")
    for link in folder.iterdir() if folder.is_dir() else ():  # elsewhere only threads are seen
        try:
            target = str(link.readlink())
        except OSError:  # the one that was open to list the others
            continue
        if target.startswith(("/", "socket:")) and not target.startswith(("/dev/", "/proc/")):
            held[f"{link.name} {target}"] = f"{target} open" if target.startswith("/") else "a socket"
    return held


def _left(before: Mapping[str, str]) -> list[str]:
    until = time.monotonic() + _PATIENCE_S
    while True:
        gc.collect()
        left = [what for each, what in _held().items() if each not in before]
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.02)  # threads that were told to end


def _use_store(store: Store, _: str) -> None:
    store.catalogue.put([Item(scope_id=_SCOPE, text="We chose SQLite because it is one file.")])
    request = LexicalRequest(partition=Partition(_SCOPE, "memory"), query=analyse_query(_WORDS), k=8)
    with store.catalogue.snapshot(Deadline()) as snapshot:
        snapshot.lexical([request])
    store.status()


def _use_family(family: Any, name: str) -> None:
    store = MemoryStore("memory://", NoSettings())
    request = RetrievalRequest(query=_WORDS, terms=analyse_query(_WORDS), partition=Partition(_SCOPE, name), k=8)
    with store.catalogue.snapshot(Deadline()) as snapshot:
        call = Call(deadline=Deadline.after(10.0), catalogue=snapshot)
        if isinstance(family, SearchingFamily):
            family.search(request, AdmissionFloor(), call)
        else:
            family.retrieve(request, call)
    store.close()


def _use_admission(rule: Any, _: str) -> None:
    statistics = LexicalStatistics(items=0, mean_length=0.0, document_frequency={})
    pool = Pool(family="memory", scope_id=_SCOPE, channels={}, candidates={}, statistics=statistics, mode="none")
    rule.admit(pool, analyse_query(_WORDS), AdmissionFloor())


def _use_renderer(renderer: Any, _: str) -> None:
    selection = Selection(scope_id=_SCOPE)
    renderer.open(selection)
    renderer.escape(_WORDS)
    renderer.close(selection)


_USES: Mapping[str, Callable[[Any, str], object]] = {
    "powerctx_stores": _use_store,
    "powerctx_families": _use_family,
    "powerctx_admissions": _use_admission,
    "powerctx_renderers": _use_renderer,
    "powerctx_embedders": lambda embedder, _: embedder.embed(EmbedRequest(texts=(_WORDS,))),
    "powerctx_token_estimators": lambda estimator, _: estimator.cost(_WORDS),
}
