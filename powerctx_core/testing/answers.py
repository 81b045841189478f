"""The types of what a store returns: each is checked once, and told in one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from powerctx_core.ports import FetchRequest, ListingRequest, NeighbourRequest, Snapshot, Store, Unembedded
from powerctx_core.testing.database import Database
from powerctx_core.types import Deadline, LexicalHit, Partition, PutResult, RawCandidate, Revision

__all__ = ["check_answers"]

_SCOPE = "types of answers"
_NAME = (_SCOPE, "memory", "a")


def check_answers(store: Store) -> None:
    """Check that the methods of a store return the types that their ports name.

    Writes one item in a scope of its own, and purges it.

    Raises:
        AssertionError: what does not, what it returned, and what is wanted.
    """
    item = Database.item("a", "apple", scope_id=_SCOPE, thread="t", position=1)
    _many("Catalogue.put", store.catalogue.put([item]), PutResult)
    _many("Catalogue.put", store.catalogue.put([item]), PutResult)
    with store.catalogue.snapshot(Deadline()) as snapshot:
        _check_snapshot(snapshot)
    if store.vectors is not None:
        _number("VectorIndex.count", store.vectors.count())
        _many("VectorIndex.unembedded", store.vectors.unembedded(1), Unembedded)
    done = store.catalogue.reindex()
    _require("Catalogue.reindex", done, isinstance(done, Iterable), "an iterable of int")
    for number in done:
        _number("Catalogue.reindex, each step", number)
    _number("Catalogue.retire", store.catalogue.retire([_NAME]))
    _number("Catalogue.purge", store.catalogue.purge([_NAME]))


def _check_snapshot(snapshot: Snapshot) -> None:
    partition = Partition(*_NAME[:2])
    (result,) = _sequence("Snapshot.lexical", snapshot.lexical([Database.request("apple", _SCOPE)]))
    keys = tuple([hit.key for hit in _many("LexicalResult.hits", result.hits, LexicalHit)])
    _pairs("Snapshot.fetch", snapshot.fetch(FetchRequest(keys=keys)), int, RawCandidate)
    _pairs("Snapshot.neighbours", snapshot.neighbours(NeighbourRequest(partition=partition, keys=keys)), int, tuple)
    revisions = _many("Snapshot.history", snapshot.history(*_NAME), Revision)
    for name, revision in (("get", snapshot.get(revisions[0].address)), ("latest", snapshot.latest(*_NAME))):
        _require(f"Snapshot.{name}", revision, isinstance(revision, Revision), "a Revision")
    _many("Snapshot.listing", snapshot.listing(ListingRequest(partition=partition)), RawCandidate)
    _pairs("Snapshot.partitions", snapshot.partitions(), Partition, int)
    _number("Snapshot.changes", snapshot.changes())


def _require(what: str, answer: object, holds: object, wanted: str) -> None:
    if not holds:
        raise AssertionError(f"{what} has to give {wanted}, and this store gives {_named(answer)}.")


def _named(answer: object) -> str:
    """Return the type of an answer, with that of what it holds where it can be looked into."""
    held = next(iter(answer), None) if isinstance(answer, Sequence | Mapping) else None
    return type(answer).__name__ + ("" if held is None else f" of {type(held).__name__}")


def _number(what: str, answer: object) -> None:
    _require(what, answer, isinstance(answer, int) and not isinstance(answer, bool), "an int")


def _sequence(what: str, answer: Any) -> Sequence[Any]:
    _require(what, answer, isinstance(answer, Sequence), "a sequence, such as a list (no iterator or generator)")
    found: Sequence[Any] = answer
    return found


def _many(what: str, answer: Any, kind: type) -> Sequence[Any]:
    found = _sequence(what, answer)
    wanted = f"a sequence of {kind.__name__}"
    _require(what, answer, all(isinstance(each, kind) for each in found), wanted)
    return found


def _pairs(what: str, answer: Any, key: type, value: type) -> None:
    wanted = f"a mapping of {key.__name__} to {value.__name__}"
    _require(what, answer, isinstance(answer, Mapping), wanted)
    for one, other in answer.items():
        _require(f"{what}, each key", one, isinstance(one, key), wanted)
        _require(f"{what}, each value", other, isinstance(other, value), wanted)
