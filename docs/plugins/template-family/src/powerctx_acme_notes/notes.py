"""The file of notes, read into core's store in memory: that is what makes them searchable."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import attrs

from powerctx_core import ConfigError, InvalidRequest, Item, MemoryStore, NoSettings, RawCandidate

__all__ = ["Notes"]


@attrs.frozen
class Notes:
    """All notes of one state of the file.

    Attributes:
        store: holds them by scope.
        identity: scope and id of a note -> its revision and its evidence.
    """

    store: MemoryStore
    identity: Mapping[tuple[str, str], tuple[int, Mapping[str, str]]]

    @classmethod
    def read(cls, path: Path, family: str) -> Notes:
        """Read the file.

        Args:
            path: the file.
            family: the name of the family, which its items and its table of settings bear.

        Raises:
            ConfigError: it is not there, is no JSON, or a note lacks something.
        """
        store, identity = MemoryStore("memory://", NoSettings()), {}
        try:
            notes = json.loads(path.read_text(encoding="utf-8"))
            store.catalogue.put([_item(note, family) for note in notes])
            for note in notes:
                evidence = {"url": str(note["url"])} if "url" in note else {}
                identity[note["scope"], note["id"]] = (int(note.get("revision", 1)), evidence)
        except (OSError, ValueError, KeyError, TypeError, InvalidRequest) as error:
            raise ConfigError(
                f"{path} cannot be read as notes: {error!r}; correct it, or parts.{family}.file."
            ) from error
        if len(identity) < len(notes):
            raise ConfigError(f"{path} holds two notes of one scope and id; an id names one note.")
        return cls(store, identity)

    def cited(self, candidate: RawCandidate) -> RawCandidate:
        """Return a member with the revision that the tracker counts, and with its link."""
        address = candidate.address
        revision, evidence = self.identity[address.scope_id, address.artifact_id]
        return attrs.evolve(candidate, address=attrs.evolve(address, revision=revision), evidence=dict(evidence))


def _item(note: Mapping[str, Any], family: str) -> Item:
    updated = datetime.fromisoformat(note["updated"])
    return Item(
        scope_id=note["scope"],
        family=family,
        artifact_id=note["id"],
        title=note.get("title"),
        text=note["text"],
        tags=note.get("tags", ()),
        created_at=updated,
        updated_at=updated,
    )
