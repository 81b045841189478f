"""The family: asks core to search the notes, and cites what it finds."""

from __future__ import annotations

import threading
from pathlib import Path

import attrs

from powerctx_acme_notes.notes import Notes
from powerctx_acme_notes.settings import NotesSettings
from powerctx_core import Call, FamilySpec, Pool, RetrievalRequest
from powerctx_core.families import StoredFamily

__all__ = ["NotesFamily"]


class NotesFamily:
    """Finds notes by words.  Thread-safe; reads the file when it is first asked, and again when it has changed."""

    def __init__(self, spec: FamilySpec, settings: NotesSettings) -> None:
        self.spec = spec
        self._search = StoredFamily(spec)
        self._path = Path(settings.file).expanduser()
        self._lock = threading.Lock()
        self._notes: Notes | None = None
        self._seen: tuple[int, int] | None = None

    def retrieve(self, request: RetrievalRequest, call: Call) -> Pool:
        """Return the notes of one scope that hold words of the query.

        Raises:
            TimeoutError: the deadline has passed; the engine then goes on without the notes.
            ConfigError: the file cannot be read.
        """
        if call.deadline.passed:
            raise TimeoutError("no time is left to look for notes")
        notes = self._current()
        with notes.store.catalogue.snapshot(call.deadline) as snapshot:
            pool = self._search.retrieve(request, attrs.evolve(call, catalogue=snapshot, vectors=None))
        return attrs.evolve(pool, candidates={key: notes.cited(each) for key, each in pool.candidates.items()})

    def _current(self) -> Notes:
        with self._lock:
            seen = self._version()
            if self._notes is None or seen != self._seen:
                self._notes, self._seen = Notes.read(self._path, self.spec.name), seen
            return self._notes

    def _version(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:  # reading says why
            return None
        return found.st_mtime_ns, found.st_size
