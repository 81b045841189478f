"""The store: writes go to the log and to core's store in memory, reads are answered by the latter alone."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import attrs

from powerctx_acme_log.log import Log
from powerctx_acme_log.settings import LogSettings
from powerctx_core import (
    Deadline,
    Item,
    MemoryStore,
    NoSettings,
    PutResult,
    Snapshot,
    StoreError,
    StoreStatus,
    StoreUnavailable,
    derived_artifact_id,
    redacted_url,
)
from powerctx_core.wire import structure, to_json

__all__ = ["LogStore"]

_START = "acme-log:///"
Artifact = tuple[str, str, str]


class LogStore:
    """A :class:`powerctx_core.Store` in one file.

    Args:
        url: ``acme-log:///notes.log``, or ``acme-log:////srv/notes.log`` for an absolute path.
        settings: of the part.

    Raises:
        StoreUnavailable: the URL names no file, or the file is there and cannot be opened, is in use, or is damaged.
    """

    vectors = None

    def __init__(self, url: str, settings: LogSettings) -> None:
        place = url[len(_START) :]
        if not url.lower().startswith(_START) or not place or "?" in place:
            raise StoreUnavailable(f"{redacted_url(url)} names no file; write {_START}notes.log.")
        self._location = f"{_START}{place}"
        log = Log(Path(place), sync=settings.sync)
        try:
            self.catalogue = LogCatalogue(log)
            self.usage = LogUsage(self.catalogue)
        except BaseException:
            log.close()
            raise

    def status(self) -> StoreStatus:
        """Say where the file is and how much it holds."""
        try:
            with self.catalogue.snapshot(Deadline()) as snapshot:
                items = sum(snapshot.partitions().values())
        except StoreError as error:
            return StoreStatus(location=self._location, facts={}, problems=(str(error),))
        return StoreStatus(location=self._location, facts={"items": str(items)})

    def close(self) -> None:
        """Close the file; again is allowed."""
        self.catalogue.close()


class LogCatalogue:
    """A :class:`powerctx_core.Catalogue`.  A write is in the file before anybody can read it."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._open = True
        memory = MemoryStore("memory://", NoSettings())
        self._memory, self._usage = memory.catalogue, memory.usage
        number = 0
        for entry in log.read():
            self._memory.put([structure(Item, fields) for fields in entry.get("put", ())])
            self._memory.retire([tuple(each) for each in entry.get("retire", ())])
            self._usage.add([tuple(each) for each in entry.get("use", ())])
            number = entry["change"]
        # A purge takes lines out of the file, so that a replay makes fewer changes than there were.
        self._earlier = number - self._counted()

    def snapshot(self, deadline: Deadline) -> AbstractContextManager[Snapshot]:
        """Open a read view."""
        self._check_open()
        return _numbered(self._memory.snapshot(deadline), self._earlier)

    def put(self, items: Sequence[Item]) -> Sequence[PutResult]:
        """Store items: one line of the log."""
        with self._lock:
            self._check_open()
            stamped = self._stamped(items)
            if not all(self._is_current(item) for item in stamped):
                self._append(put=[to_json(item) for item in stamped])
            return self._memory.put(stamped)

    def retire(self, artifacts: Sequence[Artifact]) -> int:
        """Take artifacts out of retrieval."""
        with self._lock:
            self._check_open()
            with self._memory.snapshot(Deadline()) as snapshot:
                current = [each for each in artifacts if snapshot.latest(*each) is not None]
            if current:
                self._append(retire=current)
            return self._memory.retire(current)

    def purge(self, artifacts: Sequence[Artifact]) -> int:
        """Delete artifacts, also from every earlier line of the log."""
        with self._lock:
            self._check_open()
            with self._memory.snapshot(Deadline()) as snapshot:
                gone = {each for each in artifacts if snapshot.history(*each)}
            if gone:
                entries = [_without(entry, gone) for entry in self._log.read()]
                self._log.replace([*entries, {"change": self._next()}])
            return self._memory.purge([*gone])

    def use(self, artifacts: Sequence[Artifact]) -> int:
        """Count one more use of what is stored."""
        with self._lock:
            self._check_open()
            with self._memory.snapshot(Deadline()) as snapshot:
                stored = [each for each in artifacts if snapshot.history(*each)]
            if stored:
                self._append(use=stored)
            return self._usage.add(stored)

    def uses(self, artifacts: Sequence[Artifact], deadline: Deadline) -> Mapping[Artifact, int]:
        """Return how often artifacts were used."""
        self._check_open()
        return self._usage.counts(artifacts, deadline)

    def reindex(self, *, limit: int | None = None) -> Iterable[int]:
        """Do nothing: the analysis is made at every opening."""
        self._check_open()
        return self._memory.reindex(limit=limit)

    def close(self) -> None:
        """Close the file; again is allowed."""
        with self._lock:
            self._open = False
            self._log.close()
            self._memory.close()

    def _check_open(self) -> None:
        if not self._open:
            raise StoreError(f"{self._log.path} is closed; open it again.")

    def _counted(self) -> int:
        with self._memory.snapshot(Deadline()) as snapshot:
            return snapshot.changes()

    def _next(self) -> int:
        return self._earlier + self._counted() + 1

    def _append(self, **what: Any) -> None:
        self._log.append({"change": self._next(), **what})

    def _stamped(self, items: Sequence[Item]) -> list[Item]:
        """Give every item its id and its times, which memory would choose: a replay has to choose the same."""
        now = datetime.now(UTC)
        known: set[Artifact] = set()
        stamped = []
        with self._memory.snapshot(Deadline()) as snapshot:
            for item in items:
                artifact = (item.scope_id, item.family, item.artifact_id or derived_artifact_id(item))
                # Later revisions keep the time of the first one.
                created = None if artifact in known or snapshot.history(*artifact) else now
                stamped.append(
                    attrs.evolve(
                        item,
                        artifact_id=artifact[2],
                        created_at=item.created_at or created,
                        updated_at=item.updated_at or now,
                    )
                )
                known.add(artifact)
        return stamped

    def _is_current(self, item: Item) -> bool:
        with self._memory.snapshot(Deadline()) as snapshot:
            latest = snapshot.latest(item.scope_id, item.family, item.artifact_id or "")
        return latest is not None and latest.item.digest == item.digest


class LogUsage:
    """A :class:`powerctx_core.Usage`: one line of the log for each call that counts something."""

    def __init__(self, catalogue: LogCatalogue) -> None:
        self.add, self.counts = catalogue.use, catalogue.uses


class _Numbered:
    """A snapshot whose counter goes on from what was counted before the file was opened."""

    def __init__(self, snapshot: Snapshot, earlier: int) -> None:
        self._snapshot = snapshot
        self._earlier = earlier

    def __getattr__(self, name: str) -> Any:
        return getattr(self._snapshot, name)

    def changes(self) -> int:
        return self._earlier + self._snapshot.changes()


@contextmanager
def _numbered(opened: AbstractContextManager[Snapshot], earlier: int) -> Iterator[Snapshot]:
    with opened as snapshot:
        yield cast("Snapshot", _Numbered(snapshot, earlier))


def _without(entry: Mapping[str, Any], gone: Collection[Artifact]) -> dict[str, Any]:
    """Return a line of the log without what concerns some artifacts."""
    kept = dict(entry)
    if "put" in entry:
        named = [(each["scope_id"], each["family"], each["artifact_id"]) for each in entry["put"]]
        kept["put"] = [each for each, artifact in zip(entry["put"], named, strict=True) if artifact not in gone]
    for word in ("retire", "use"):
        if word in entry:
            kept[word] = [each for each in entry[word] if tuple(each) not in gone]
    return kept
