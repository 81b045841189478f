"""Admission: which pool members may compete, under a floor.  Pure.

A floor either counts matched units (the compatible policy) or weighs them (ours).  Units are words of alphabetic
scripts and distinct Han characters; n-grams serve ranking only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from math import ceil, isfinite
from operator import itemgetter
from types import MappingProxyType

from powerctx_core.errors import PoolInvariantError
from powerctx_core.ports import AdmissionRule
from powerctx_core.recall.checks import check_admission
from powerctx_core.recall.ranking import Scorer
from powerctx_core.records import NoSettings
from powerctx_core.types import QUERY_TERMS, Admission, AdmissionCounts, AdmissionFloor, Key, Pool, QueryTerms

__all__ = ["FloorAdmission", "admitting", "required_units"]

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
        return _Measured(pool, query).admit(floor)


def admitting(rule: AdmissionRule, pool: Pool, query: QueryTerms) -> Callable[[AdmissionFloor], Admission]:
    """Return what *rule* admits of a pool at any floor, checked; core's own measures the pool once for all of them.

    What is returned raises PoolInvariantError when the admission is none of *pool*, and whatever the rule raises.
    """
    if type(rule) is FloorAdmission:
        return _Measured(pool, query).admit  # in order and of the pool as it is made
    return lambda floor: check_admission(pool, rule.admit(pool, query, floor))


class _Measured:
    """A pool whose members are scored and in order, so that a floor only sorts out."""

    def __init__(self, pool: Pool, query: QueryTerms) -> None:
        self._pool = pool
        self._query = query
        self._scorer = Scorer(pool.statistics)
        self._retrieved = len(set().union(*pool.channels.values())) if pool.channels else 0

    def admit(self, floor: AdmissionFloor) -> Admission:
        """Return what *floor* lets in."""
        pool = self._pool
        lexical = self._lexical(floor)
        vector = self._vector(floor)
        admitted = {key for key, _ in lexical}
        admitted.update(key for key, _ in vector)
        neighbour = [
            (key, 0.0)
            for key in pool.channels.get("neighbour", ())
            if any(source in admitted for source in pool.neighbours.get(key, ()))
        ]
        admitted.update(key for key, _ in neighbour)
        ranked = {
            name: tuple(members)
            for name, members in (("fts", lexical), ("vector", vector), ("neighbour", neighbour))
            if name in pool.channels
        }
        counts = AdmissionCounts(
            family=pool.family, scope_id=pool.scope_id, retrieved=self._retrieved, admitted=len(admitted)
        )
        return Admission(ranked=ranked, counts=counts, shares=self._shares)

    @cached_property
    def _scored(self) -> list[tuple[float, str, Key, float]]:
        """The lexical members, best first: score below 0, artifact id, key, idf mass held."""
        score, candidates = self._scorer.score, self._pool.candidates
        members = []
        for key in self._pool.channels.get("fts", ()):
            candidate = candidates[key]
            found, held = score(candidate.matched, candidate.length)
            members.append((-found, candidate.address.artifact_id, key, held))
        if not isfinite(sum([score for score, _, _, _ in members])):
            raise PoolInvariantError(
                "admission gives 'fts' a score that is not finite, of the counts and lengths there."
            )
        members.sort()
        return members

    @cached_property
    def _shares(self) -> Mapping[Key, float]:
        mass = self._scorer.mass
        return MappingProxyType({key: held / mass for _, _, key, held in self._scored} if mass else {})

    @cached_property
    def _units(self) -> Mapping[Key, int]:
        """How many of the query's units each lexical member holds."""
        units, candidates = self._query.units or frozenset(self._query.terms), self._pool.candidates
        return {key: len(units & candidates[key].matched.keys()) for _, _, key, _ in self._scored}

    def _lexical(self, floor: AdmissionFloor) -> list[tuple[Key, float]]:
        if floor.idf_mass is not None:
            least = floor.idf_mass * self._scorer.mass
            return [(key, -score) for score, _, key, held in self._scored if held >= least and held > 0.0]
        units = self._units
        required = required_units(min(len(self._query.units or self._query.terms), QUERY_TERMS), floor)
        return [(key, -score) for score, _, key, _ in self._scored if units[key] >= required]

    @cached_property
    def _near(self) -> list[tuple[float, str, Key, float | None]]:
        """The vector members, nearest first: cosine, artifact id, key, relevance."""
        candidates, profile = self._pool.candidates, self._pool.profile
        members = []
        for key in self._pool.channels.get("vector", ()):
            candidate = candidates[key]
            cosine = candidate.cosine
            if cosine is not None:
                relevance = None if profile is None else profile.relevance(cosine)
                members.append((-cosine, candidate.address.artifact_id, key, relevance))
        members.sort(key=itemgetter(0, 1, 2))
        return members

    def _vector(self, floor: AdmissionFloor) -> list[tuple[Key, float]]:
        least, above = floor.cosine, floor.relevance
        return [
            (key, -cosine)
            for cosine, _, key, relevance in self._near
            # Above the model's noise, so that an unrelated query is answered with nothing.
            if (least is None or -cosine >= least) and (above is None or relevance is None or relevance > above)
        ]
