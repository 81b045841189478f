"""Labelled sets as the benchmarks read them: ``DIR/<set>/items.jsonl`` and ``queries.jsonl``; licences vary."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from powerctx_core import EmbedRequest
from powerctx_local_embed.embedder import LocalEmbedder
from powerctx_local_embed.settings import LocalSettings

Row = dict[str, Any]
Floats = NDArray[np.float32]
SETS = ("locomo", "madial_en", "madial_zh", "cmrc_zh", "precisionmem_en")


class Scope(NamedTuple):
    """One scope of one set: items, answerable queries with gold in it, and their vectors."""

    name: str
    set_name: str
    items: list[Row]
    queries: list[Row]
    item_vectors: Floats
    query_vectors: Floats
    gold: list[frozenset[int]]


def arguments(about: str) -> argparse.Namespace:
    """Parse ``--data DIR`` and ``--limit N``; end the program when the data is absent."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the labelled sets")
    parser.add_argument("--limit", type=int, default=400, help="queries of cmrc_zh (default: %(default)s)")
    options = parser.parse_args()
    missing = [name for name in SETS if not (options.data / name / "items.jsonl").is_file()]
    if missing:
        sys.exit(f"{options.data} has no {', '.join(missing)}; give the folder of the labelled sets with --data.")
    return options


def rows(path: Path) -> list[Row]:
    """Return the lines of a JSONL file."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def embedded(texts: list[str], embedder: LocalEmbedder) -> Floats:
    """Return one row a text."""
    vectors = [np.frombuffer(vector, "<f4") for vector in embedder.embed(EmbedRequest(texts=tuple(texts)))]
    return np.stack(vectors).astype(np.float32)


def scopes(options: argparse.Namespace) -> Iterator[Scope]:
    """Yield every scope of every set, and MADial's questions in one language over its items in the other."""
    embedder = LocalEmbedder(LocalSettings())
    found: dict[str, Scope] = {}
    for set_name in SETS:
        items = rows(options.data / set_name / "items.jsonl")
        queries = rows(options.data / set_name / "queries.jsonl")
        queries = [query for query in queries if query["gold"] and query.get("answerable", True)]
        if set_name == "cmrc_zh":
            queries = queries[:: max(1, len(queries) // options.limit)]
        for name in sorted({item["scope"] for item in items}):
            inside = [item for item in items if item["scope"] == name]
            asked = [query for query in queries if query["scope"] == name]
            if not asked:
                continue
            scope = found[set_name] = Scope(
                f"{set_name}/{name}",
                set_name,
                inside,
                asked,
                embedded([item["text"] for item in inside], embedder),
                embedded([query["text"] for query in asked], embedder),
                _gold(inside, asked),
            )
            yield scope
    for asked_in, stored_in in (("madial_zh", "madial_en"), ("madial_en", "madial_zh")):
        yield _across(found[asked_in], found[stored_in])


def _gold(items: list[Row], queries: list[Row]) -> list[frozenset[int]]:
    places = {item["id"]: place for place, item in enumerate(items)}
    return [frozenset(places[name] for name in query["gold"] if name in places) for query in queries]


def _across(asked: Scope, stored: Scope) -> Scope:
    gold = _gold(stored.items, asked.queries)
    kept = [place for place, places in enumerate(gold) if places]
    name = f"across/{asked.set_name[-2:]}-{stored.set_name[-2:]}"
    return Scope(
        name,
        "across",
        stored.items,
        [asked.queries[place] for place in kept],
        stored.item_vectors,
        asked.query_vectors[kept],
        [gold[place] for place in kept],
    )
