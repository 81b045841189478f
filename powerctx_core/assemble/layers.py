"""Which layer a candidate belongs to: L0 raw records, L1 facts, L2 scenes and topics, L3 profiles and principles."""

from __future__ import annotations

from collections.abc import Mapping

from powerctx_core.types import LAYERS, Hit

__all__ = ["STABLE", "layer_of"]

STABLE = frozenset({"L2", "L3"})
"""Layers that change seldom, whatever the conversation is about."""


def layer_of(hit: Hit, layers: Mapping[str, str]) -> str:
    """Return the item's own layer, or that of its family in *layers*."""
    return hit.candidate.layer or layers.get(hit.address.family, LAYERS[0])
