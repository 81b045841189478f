"""What a request for a pack means: its parameters with the defaults of purpose, families and settings.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from powerctx_core.assemble.layers import STABLE, layer_of
from powerctx_core.errors import InvalidRequest, shown
from powerctx_core.records import FamilySpec
from powerctx_core.requests.conditions import Place
from powerctx_core.requests.search import DEFAULT_MAX_TOKENS, DEFAULT_THRESHOLD, SearchRequest
from powerctx_core.types import BUCKETS, CATEGORIES, MEMORIES, PURPOSES, Address, Hit, Purpose, RawCandidate

__all__ = ["Wants", "wants_of"]

_DETAILS = ("uri", "abstract", "overview", "full")
_EVENTS = "events"
_PENALTIES: Mapping[str, float] = {"events": 0.1, "entities": 0.1}
_PENALTY = 0.02


@attrs.frozen(kw_only=True)
class Wants:
    """The parameters of one pack.

    Attributes:
        specs: family -> its record.
        quotas: bucket -> entries; empty without sampling.
        shares: bucket -> share of the budget that it may use before the others had their turn.
        ignored: parameters without effect.
    """

    request: SearchRequest
    specs: Mapping[str, FamilySpec]
    max_tokens: int
    threshold: float
    limit: int | None
    quotas: Mapping[str, int]
    shares: Mapping[str, float]
    dedup_turns: int
    ignored: tuple[str, ...]
    excluded: tuple[Place, ...]

    def bucket(self, candidate: RawCandidate) -> str:
        """Return what a candidate counts for.

        A directory takes no place of what it holds, so it counts for none of the categories.
        """
        spec = self.specs[candidate.address.family]
        if spec.name == "memory" and candidate.category in CATEGORIES and candidate.kind != "directory":
            return str(candidate.category)
        return spec.bucket

    def admits(self, bucket: str) -> bool:
        """Tell whether quotas leave any place to a bucket."""
        return not self.quotas or (any(self.quotas.values()) and self.quotas.get(bucket, 1) > 0)

    def detail(self, candidate: RawCandidate, bucket: str) -> tuple[str, bool]:
        """Return the most that is shown of a candidate, and whether it is exactly that.

        A directory shows its overview whatever its family's items show, since that is what it is stored for.
        """
        asked = self.request.detail
        given = asked.get(bucket, "auto") if isinstance(asked, Mapping) else asked or "auto"
        ceiling = self.specs[candidate.address.family].tiers
        if candidate.kind == "directory":
            ceiling = "overview"
        elif isinstance(asked, Mapping) and given != "auto":
            ceiling = given
        return (ceiling, False) if given == "auto" else (_lower(ceiling, given), True)

    def origin(self, candidate: RawCandidate) -> str:
        """Return whose an item is: ``actor``, ``self`` when it is nobody's, or ``other``."""
        if candidate.origin is None:
            return "self"
        return "actor" if candidate.origin == self.request.actor else "other"

    def penalty(self, candidate: RawCandidate) -> float:
        """Return what is subtracted from the order of an item of somebody else; without an actor nobody is else."""
        if self.request.actor is None or self.origin(candidate) != "other":
            return 0.0
        given = self.request.other_peer_penalty
        bucket = self.bucket(candidate)
        if isinstance(given, Mapping):
            return given.get(bucket, _PENALTIES.get(bucket, _PENALTY))
        return _PENALTIES.get(bucket, _PENALTY) if given is None else given

    def lists(self, hit: Hit) -> bool:
        """Tell whether a candidate is listed to be read, and does not stand in the text."""
        if self.request.delivery != "split":
            return False
        family = hit.address.family
        return layer_of(hit, {family: self.specs[family].layer}) not in STABLE

    def excludes(self, address: Address) -> bool:
        """Tell whether an artifact is excluded."""
        return any(place.holds(*address.artifact) for place in self.excluded)


def _lower(one: str, other: str) -> str:
    return min(one, other, key=_DETAILS.index)


def wants_of(
    request: SearchRequest, specs: Sequence[FamilySpec], configured: Mapping[str, Purpose], every: Sequence[str]
) -> Wants:
    """Return what *request* wants.

    Args:
        request: for a pack.
        specs: the families that are searched.
        configured: purposes of the settings.
        every: buckets of all installed families.

    Raises:
        InvalidRequest: it names a purpose or a bucket that is not there.
    """
    purposes = {**PURPOSES, **configured}
    purpose = Purpose()
    if request.purpose is not None:
        if request.purpose not in purposes:
            raise InvalidRequest(
                f"purpose {shown(request.purpose)} is not known; known are {', '.join(purposes)} (the setting "
                "retrieval.purposes adds others).",
                field="purpose",
            )
        purpose = purposes[request.purpose]
    own = tuple(dict.fromkeys((*BUCKETS, *(bucket for bucket in every if bucket != MEMORIES))))
    _check_buckets("quotas", request.quotas, own)
    _check_buckets("quotas", purpose.quotas, own, f"the setting retrieval.purposes.{request.purpose}")
    for field in ("detail", "other_peer_penalty"):
        _check_buckets(field, getattr(request, field), (*own, MEMORIES))
    quotas = {**purpose.quotas, **(request.quotas or {})}
    ignored = []
    if quotas and request.limit is not None:
        whose = "quotas" if request.quotas else f"the quotas of purpose {request.purpose}"
        ignored.append(f"limit: {whose} say how many entries there are")
    return Wants(
        request=request,
        specs={spec.name: spec for spec in specs},
        max_tokens=request.max_tokens or DEFAULT_MAX_TOKENS,
        threshold=DEFAULT_THRESHOLD if request.score_threshold is None else request.score_threshold,
        limit=None if quotas else request.limit,
        quotas=quotas,
        shares={_EVENTS: purpose.events} if purpose.events < 1.0 else {},
        dedup_turns=0 if request.session_id is None else request.dedup_turns or 0,
        ignored=tuple(ignored),
        excluded=request.excluded,
    )


def _check_buckets(field: str, given: object, allowed: Sequence[str], where: str | None = None) -> None:
    if not isinstance(given, Mapping):
        return
    for bucket in given:
        if bucket not in allowed:
            why = (
                ", and memories without a category have no quota: they take the places that others leave"
                if field == "quotas" and bucket in ("memory", MEMORIES)
                else ""
            )
            named = f"{where or field} names {shown(bucket)}"
            raise InvalidRequest(f"{named}{why}; it can be {', '.join(allowed)}.", field=field)
