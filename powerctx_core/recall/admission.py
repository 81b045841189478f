"""Admission: which pool members may compete, under a floor.  Pure.

A floor either counts matched units (the compatible policy) or weighs them (ours).  Units are words of alphabetic
scripts and distinct Han characters; n-grams serve ranking only.
"""

from __future__ import annotations

from math import ceil

from powerctx_core.recall.ranking import Scorer
from powerctx_core.records import NoSettings
from powerctx_core.types import QUERY_TERMS, Admission, AdmissionCounts, AdmissionFloor, Key, Pool, QueryTerms

__all__ = ["FloorAdmission", "required_units"]

_FEW_UNITS = 2


def required_units(units: int, floor: AdmissionFloor) -> int:
    """Return how many of *units* distinct query units a member must hold; 1 for queries of one or two."""
    if units <= _FEW_UNITS:
        return 1
    return max(floor.matched, ceil(floor.coverage * units))


class FloorAdmission:
    """Core's admission rule."""

    def __init__(self, settings: NoSettings | None = None) -> None:
        del settings

    def admit(self, pool: Pool, query: QueryTerms, floor: AdmissionFloor) -> Admission:
        """Return the members that reach *floor*, ranked per channel.

        A lexical member must reach the lexical side of the floor; a vector member the vector side.  A neighbour is
        admitted with a member that brought it.  Pure; linear in the pool.
        """
        shares: dict[Key, float] = {}
        lexical = self._lexical(pool, query, floor, shares)
        vector = self._vector(pool, floor)
        admitted = {key for key, _ in lexical} | {key for key, _ in vector}
        neighbour = [
            (key, 0.0)
            for key in pool.channels.get("neighbour", ())
            if any(source in admitted for source in pool.neighbours.get(key, ()))
        ]
        ranked = {
            name: tuple(members)
            for name, members in (("fts", lexical), ("vector", vector), ("neighbour", neighbour))
            if name in pool.channels
        }
        retrieved: set[Key] = set().union(*pool.channels.values()) if pool.channels else set()
        counts = AdmissionCounts(
            family=pool.family,
            scope_id=pool.scope_id,
            retrieved=len(retrieved),
            admitted=len(admitted | {key for key, _ in neighbour}),
        )
        return Admission(ranked=ranked, counts=counts, shares=shares)

    @staticmethod
    def _lexical(
        pool: Pool, query: QueryTerms, floor: AdmissionFloor, shares: dict[Key, float]
    ) -> list[tuple[Key, float]]:
        members = pool.channels.get("fts", ())
        if not members:
            return []
        scorer = Scorer(pool.statistics)
        least_mass = None if floor.idf_mass is None else floor.idf_mass * scorer.mass
        units = query.units or frozenset(query.terms)
        least_units = required_units(min(len(units), QUERY_TERMS), floor)
        admitted: list[tuple[float, str, Key]] = []
        for key in members:
            candidate = pool.candidates[key]
            score, held = scorer.score(candidate.matched, candidate.length)
            if scorer.mass:
                shares[key] = held / scorer.mass
            if least_mass is not None:
                if held < least_mass or held <= 0.0:
                    continue
            elif len(units & candidate.matched.keys()) < least_units:
                continue
            admitted.append((-score, candidate.address.artifact_id, key))
        admitted.sort()
        return [(key, -score) for score, _, key in admitted]

    @staticmethod
    def _vector(pool: Pool, floor: AdmissionFloor) -> list[tuple[Key, float]]:
        admitted: list[tuple[float, str, Key]] = []
        for key in pool.channels.get("vector", ()):
            candidate = pool.candidates[key]
            cosine = candidate.cosine
            if cosine is None or (floor.cosine is not None and cosine < floor.cosine):
                continue
            # Above the model's noise, so that an unrelated query is answered with nothing.
            relevance = None if pool.profile is None else pool.profile.relevance(cosine)
            if floor.relevance is not None and relevance is not None and relevance <= floor.relevance:
                continue
            admitted.append((-cosine, candidate.address.artifact_id, key))
        admitted.sort()
        return [(key, -score) for score, _, key in admitted]
