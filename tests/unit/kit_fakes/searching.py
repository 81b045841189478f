"""Families whose engine admits, and does so wrongly, or at a price."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import attrs

from kit_fakes.faults import declare
from powerctx_core import FamilySpec, Searched
from powerctx_core.families import StoredFamily
from powerctx_core.recall.admission import FloorAdmission

__all__ = ["Engine", "broken"]


class Engine:
    """A good one: the stored family behind a threshold of its own."""

    def __init__(self, spec: FamilySpec, settings: object = None) -> None:
        self._stored = StoredFamily(spec)

    def search(self, request: Any, floor: Any, call: Any) -> Searched:
        """Return what reaches the floor."""
        if request.vector is not None:
            call = attrs.evolve(call, embed=lambda _: request.vector)
        pool = self._stored.retrieve(request, attrs.evolve(call, offer=lambda _: None))
        ranked = FloorAdmission().admit(pool, request.terms, floor).ranked
        channels = {name: tuple(key for key, _ in members) for name, members in ranked.items()}
        kept = {key for keys in channels.values() for key in keys}
        candidates = {key: each for key, each in pool.candidates.items() if key in kept}
        neighbours = {
            key: tuple(by for by in sources if by in kept) for key, sources in pool.neighbours.items() if key in kept
        }
        admitted = attrs.evolve(pool, channels=channels, candidates=candidates, neighbours=neighbours)
        return Searched(pool=admitted, retrieved=len(pool.candidates))


def broken(*fails: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the decorated function as a fault: it gets the honest search, request, floor and call."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        name = f"broken-{function.__name__.replace('_', '-')}"

        def search(self: Any, request: Any, floor: Any, call: Any) -> Any:
            return function(partial(Engine.search, self), request, floor, call)

        record = FamilySpec(name=name, factory=type("Broken", (Engine,), {"search": search}), about="broken")
        declared = {"plugins": ("broken",), "family_name": name}
        declare(function, fails, "family:FamilyContract", record=record, fields=lambda: declared)
        return function

    return decorate


@broken("test_lower_floors_admit_more")
def forgets_the_first_round(honest, request, floor, call):
    """The second round finds nothing of what the first one did."""
    found = honest(request, floor, call)
    if floor.idf_mass != 0.1:
        return found
    return attrs.evolve(
        found, pool=attrs.evolve(found.pool, channels=dict.fromkeys(found.pool.channels, ()), candidates={})
    )


@broken("test_rounds_cost_little")
def embeds_every_round(honest, request, floor, call):
    """The query is embedded anew for each search."""
    return attrs.evolve(honest(request, floor, call), embeddings=1)


@broken("test_rounds_cost_little")
def has_core_embed_every_round(honest, request, floor, call):
    """The query is embedded anew for each search, by core."""
    call.embed(request.query + " again")
    return honest(request, floor, call)


@broken("test_rounds_cost_little")
def rewrites_the_query(honest, request, floor, call):
    """Three texts are generated for each search."""
    return attrs.evolve(honest(request, floor, call), generation_calls=3)


@broken("test_delivered", "test_others_unharmed", "test_searched", "test_writes_nothing")
def counts_what_it_left(honest, request, floor, call):
    """What was weighed is counted without what was let in."""
    found = honest(request, floor, call)
    return attrs.evolve(found, retrieved=found.retrieved - len(found.pool.candidates))


@broken(
    "test_asked_scope_only",
    "test_delivered",
    "test_others_unharmed",
    "test_pool",
    "test_searched",
    "test_sizes",
    "test_statistics",
    "test_writes_nothing",
)
def searches_everything(honest, request, floor, call):
    """Members of another scope are let in."""
    found = honest(request, floor, call)
    moved = {
        key: attrs.evolve(each, address=attrs.evolve(each.address, scope_id="project:elsewhere"))
        for key, each in found.pool.candidates.items()
    }
    return attrs.evolve(found, pool=attrs.evolve(found.pool, candidates=moved))
