"""Trimming by value: the order in which candidates compete when more than rank decides.  Pure, no clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from math import log1p

import attrs

from powerctx_core.assemble.layers import layer_of
from powerctx_core.assemble.redundancy import redundant
from powerctx_core.settings import TrimSettings
from powerctx_core.types import LAYERS, Candidate, ItemValue, Trimming

__all__ = ["by_value"]

_NO_CONFIDENCE = 0.5
Artifact = tuple[str, str, str]


def by_value(
    candidates: Sequence[Candidate],
    uses: Mapping[Artifact, int],
    layers: Mapping[str, str],
    settings: TrimSettings,
) -> tuple[list[Candidate], Trimming]:
    """Return the candidates, the most valuable first, and what each is worth.

    A candidate with nearly the text of one of more value comes behind all others.  Equal values keep their order.  Time
    counts from the newest candidate, not from now, so that the same state gives the same text.

    Args:
        candidates: in the order of recall.
        uses: (scope id, family, artifact id) -> how often it was used.
        layers: family -> layer of its items that declare none.
        settings: weights, half-life, and how much alike texts are redundant.
    """
    weights = {name: float(getattr(settings, name)) for name in _SHARES}
    values = _values(candidates, uses, layers, settings, weights)
    places = sorted(range(len(candidates)), key=lambda place: (-values[place].total, place))
    alike = redundant([candidates[place].text for place in places], settings.redundancy)
    for place, other in zip(places, alike, strict=True):
        if other is not None:
            values[place] = attrs.evolve(values[place], redundant_with=candidates[places[other]].address)
    places.sort(key=lambda place: values[place].redundant_with is not None)
    trimming = Trimming(weights=tuple(weights.items()), values=tuple(values[place] for place in places))
    return [candidates[place] for place in places], trimming


_SHARES = ("relevance", "use", "confidence", "layer", "recency")


def _values(
    candidates: Sequence[Candidate],
    uses: Mapping[Artifact, int],
    layers: Mapping[str, str],
    settings: TrimSettings,
    weights: Mapping[str, float],
) -> list[ItemValue]:
    best = max((candidate.score for candidate in candidates), default=0.0) or 1.0
    most = max(uses.values(), default=0) or 1
    newest = max((time for candidate in candidates if (time := _time(candidate)) is not None), default=None)
    half_life = timedelta(days=settings.half_life_days)
    values = []
    for candidate in candidates:
        address = candidate.address
        raw = candidate.hit.candidate if candidate.hit is not None else None
        confidence = None if raw is None else raw.confidence
        layer = layer_of(candidate, layers)
        count = uses.get((address.scope_id, address.family, address.artifact_id), 0)
        value = ItemValue(
            address=address,
            total=0.0,
            relevance=candidate.score / best,
            use=log1p(count) / log1p(most),
            confidence=_NO_CONFIDENCE if confidence is None else float(confidence),
            layer=LAYERS.index(layer) / (len(LAYERS) - 1),
            recency=_recency(_time(candidate), newest, half_life),
        )
        total = sum(weight * getattr(value, name) for name, weight in weights.items()) / sum(weights.values())
        values.append(attrs.evolve(value, total=total))
    return values


def _time(candidate: Candidate) -> datetime | None:
    if candidate.hit is None:
        return None
    raw = candidate.hit.candidate
    return raw.event_time or raw.updated_at


def _recency(time: datetime | None, newest: datetime | None, half_life: timedelta) -> float:
    if time is None or newest is None:
        return 0.0
    return float(0.5 ** ((newest - time) / half_life))
