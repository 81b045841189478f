"""The packaged sample: notes of one invented software project, in English and Chinese.

``items.jsonl`` holds what the engineers of *Kittiwake*, a made-up cold-chain monitor, wrote down between January 2025
and May 2026: decisions and the ones they replaced, incidents, runbooks, chats, preferences. Every line is one item as
``powerctx ingest`` reads it, all in the scope ``project:kittiwake``; turns of a conversation share a ``thread`` and
stand in their order. ``questions.jsonl`` holds twenty questions with the ids of all items that answer them (``gold``);
those with ``"demo": true`` are the ones ``powerctx demo`` asks.

Project, people, companies and events are fictitious.
"""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable

__all__ = ["SCOPE", "items", "questions"]

SCOPE = "project:kittiwake"
"""The scope of every item and question of the sample."""


def items() -> Traversable:
    """Return the resource ``items.jsonl``: one JSON object per line, UTF-8, keys as ``powerctx ingest`` takes them."""
    return files(__name__) / "items.jsonl"


def questions() -> Traversable:
    """Return the resource ``questions.jsonl``: one JSON object per line, UTF-8.

    Keys: ``id``, ``scope``, ``text``, ``lang``, ``gold`` (ids of all items that answer), ``note`` and, for three of the
    questions, ``demo``.
    """
    return files(__name__) / "questions.jsonl"
