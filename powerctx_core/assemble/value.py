"""Trimming by value: the order in which candidates compete when more than rank decides.  Pure, no clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from math import log1p

import attrs

from powerctx_core.assemble.layers import layer_of
from powerctx_core.assemble.redundancy import redundant
from powerctx_core.settings import TrimSettings
from powerctx_core.types import LAYERS, Hit, ItemValue, Trimming

__all__ = ["by_value"]

_NO_CONFIDENCE = 0.5
Artifact = tuple[str, str, str]


def by_value(
    hits: Sequence[Hit],
    uses: Mapping[Artifact, int],
    layers: Mapping[str, str],
    settings: TrimSettings,
) -> tuple[list[Hit], Trimming]:
    """Return the hits, the most valuable first, and what each is worth.

    One with nearly the text of one of more value comes behind all others.  Equal values keep their order.  Time
    counts from the newest hit, not from now, so that the same state gives the same text.

    Args:
        hits: in the order of recall.
        uses: (scope id, family, artifact id) -> how often it was used.
        layers: family -> layer of its items that declare none.
        settings: weights, half-life, and how much alike texts are redundant.
    """
    weights = {name: float(getattr(settings, name)) for name in _SHARES}
    values = _values(hits, uses, layers, settings, weights)
    places = sorted(range(len(hits)), key=lambda place: (-values[place].total, place))
    alike = redundant([hits[place].text for place in places], settings.redundancy)
    for place, other in zip(places, alike, strict=True):
        if other is not None:
            values[place] = attrs.evolve(values[place], redundant_with=hits[places[other]].address)
    places.sort(key=lambda place: values[place].redundant_with is not None)
    trimming = Trimming(weights=tuple(weights.items()), values=tuple(values[place] for place in places))
    return [hits[place] for place in places], trimming


_SHARES = ("relevance", "use", "confidence", "layer", "recency")


def _values(
    hits: Sequence[Hit],
    uses: Mapping[Artifact, int],
    layers: Mapping[str, str],
    settings: TrimSettings,
    weights: Mapping[str, float],
) -> list[ItemValue]:
    best = max((hit.score for hit in hits), default=0.0) or 1.0
    most = max(uses.values(), default=0) or 1
    newest = max((time for hit in hits if (time := _time(hit)) is not None), default=None)
    half_life = timedelta(days=settings.half_life_days)
    values = []
    for hit in hits:
        address, confidence = hit.address, hit.candidate.confidence
        layer = layer_of(hit, layers)
        count = uses.get((address.scope_id, address.family, address.artifact_id), 0)
        value = ItemValue(
            address=address,
            total=0.0,
            relevance=hit.score / best,
            use=log1p(count) / log1p(most),
            confidence=_NO_CONFIDENCE if confidence is None else float(confidence),
            layer=LAYERS.index(layer) / (len(LAYERS) - 1),
            recency=_recency(_time(hit), newest, half_life),
        )
        total = sum(weight * getattr(value, name) for name, weight in weights.items()) / sum(weights.values())
        values.append(attrs.evolve(value, total=total))
    return values


def _time(hit: Hit) -> datetime | None:
    return hit.candidate.event_time or hit.candidate.updated_at


def _recency(time: datetime | None, newest: datetime | None, half_life: timedelta) -> float:
    if time is None or newest is None:
        return 0.0
    return float(0.5 ** ((newest - time) / half_life))
