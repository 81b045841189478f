"""Recall policies: what is admitted, how channels are fused, and how far a family reaches.

A policy is in force on every call.  It is frozen and versioned; its digest is recorded beside its id, so that two
deployments can tell whether they mean the same thing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import attrs

from powerctx_core.canonical import sha256_of
from powerctx_core.errors import InvalidRequest, shown
from powerctx_core.types import AdmissionFloor

__all__ = ["COMPATIBLE", "POLICIES", "POWERCTX", "RecallPolicy", "check_descending", "policy_named"]

FUSIONS = ("rrf", "score")


def check_descending(floors: Sequence[AdmissionFloor], names: Sequence[str], *, field: str) -> None:
    """Check that each floor asks for no more than the one before it.

    Args:
        floors: in the order of rounds.
        names: what to call each in the message.
        field: of the request or policy, for the error.

    Raises:
        InvalidRequest: one asks for more, or is of another kind.
    """
    for place in range(1, len(floors)):
        above, floor = floors[place - 1 : place + 1]
        if (name := _asking_more(floor, above)) is None:
            continue
        one, other = names[place], names[place - 1]
        asked, before = getattr(floor, name), getattr(above, name)
        if name == "idf_mass" and (asked is None or before is None):
            raise InvalidRequest(
                f"{one} and {other} cannot be compared: name idf_mass in both of them, or in neither.", field=field
            )
        limit = "none" if before is None else f"{before:g}"
        raise InvalidRequest(
            f"{name} is {asked:g} in {one} and {limit} in {other}; a later round must not ask for more.", field=field
        )


def _asking_more(floor: AdmissionFloor, above: AdmissionFloor) -> str | None:
    """Return a field in which *floor* asks for more than *above*, or cannot be compared with it."""
    if (floor.idf_mass is None) != (above.idf_mass is None):
        return "idf_mass"
    for name in ("coverage", "matched", "cosine", "idf_mass", "relevance"):
        asked, before = getattr(floor, name), getattr(above, name)
        if asked is not None and (before is None or asked > before):
            return name
    return None


@attrs.define(frozen=True, kw_only=True, slots=False)
class RecallPolicy:
    """How pools become candidates.

    Attributes:
        floor: round-0 floor.
        expansion_floors: floors of the rounds that a gate may add.
        fusion: ``rrf`` or ``score``.
        weights: channel -> weight.
        neighbour_weight: share of a member's score that its thread neighbours get; 0 asks for none.
        neighbour_members: how many ranked members bring neighbours.
        ceiling: candidates per searchable family over all scopes; ``None`` takes each family's own.
        pool: members per channel; ``None`` takes each family's own.
        wide_pool: members per channel when more than 16 items may be delivered.
        entry_limit: entries over all families; ``None`` leaves it to ``max_items``.
        interleaved: deliver scopes and families in turn by rank instead of by fused score.

    Raises:
        InvalidRequest: the floors do not descend, or the fusion is none.
    """

    policy_id: str
    floor: AdmissionFloor
    expansion_floors: tuple[AdmissionFloor, ...] = attrs.field()
    fusion: str = attrs.field()
    weights: Mapping[str, float] = attrs.field(factory=lambda: MappingProxyType({"fts": 1.0, "vector": 1.0}))
    neighbour_weight: float = 0.0
    neighbour_members: int = 32
    ceiling: int | None = None
    pool: int | None = None
    wide_pool: int | None = None
    entry_limit: int | None = None
    interleaved: bool = False

    @expansion_floors.validator
    def _check_floors(self, attribute: attrs.Attribute[Any], value: tuple[AdmissionFloor, ...]) -> None:
        names = ["floor", *(f"expansion_floors[{place}]" for place in range(len(value)))]
        check_descending([self.floor, *value], names, field=attribute.name)

    @fusion.validator
    def _check_fusion(self, attribute: attrs.Attribute[str], value: str) -> None:
        if value not in FUSIONS:
            raise InvalidRequest(f"fusion is {value!r}; it can be {' or '.join(FUSIONS)}.", field=attribute.name)

    @property
    def appends(self) -> bool:
        """What a further round adds stands behind all that is there; else its order is that of all, as by rank."""
        return self.fusion == "score"

    @cached_property
    def digest(self) -> str:
        """``sha256:`` of the policy's fields as canonical JSON."""
        return sha256_of(self)

    def pool_size(self, own: int, max_items: int) -> int:
        """Return the pool size per channel of a family whose own is *own*."""
        if self.pool is None:
            return own
        if self.wide_pool is not None and max_items > 16:
            return self.wide_pool
        return self.pool


COMPATIBLE = RecallPolicy(
    policy_id="powercontext.recall.v2",
    floor=AdmissionFloor(coverage=0.25, matched=2, cosine=0.30),
    expansion_floors=(AdmissionFloor(cosine=0.15), AdmissionFloor(cosine=0.10)),
    fusion="rrf",
    entry_limit=8,
    interleaved=True,
)
"""The source system's rules, kept bit for bit."""

POWERCTX = RecallPolicy(
    policy_id="powerctx.recall.v1",
    floor=AdmissionFloor(idf_mass=0.20, relevance=0.0),
    expansion_floors=(AdmissionFloor(idf_mass=0.10), AdmissionFloor(idf_mass=0.0)),
    fusion="score",
    neighbour_weight=0.3,
    ceiling=64,
    pool=64,
    wide_pool=128,
)
"""Our own rules and the default."""

POLICIES: Mapping[str, RecallPolicy] = MappingProxyType({policy.policy_id: policy for policy in (POWERCTX, COMPATIBLE)})


def policy_named(policy_id: str) -> RecallPolicy:
    """Return the policy of that id.

    Raises:
        InvalidRequest: there is none; the message lists what there is.
    """
    try:
        return POLICIES[policy_id]
    except KeyError:
        raise InvalidRequest(
            f"policy {shown(policy_id)} is not installed; installed are {', '.join(POLICIES)}.", field="policy"
        ) from None
