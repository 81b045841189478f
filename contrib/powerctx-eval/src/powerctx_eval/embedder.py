"""Anchors, speed and dense recall of one embedder."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from powerctx_core import EmbedRequest, InvalidRequest
from powerctx_eval.ask import chosen
from powerctx_eval.bootstrap import mean_interval
from powerctx_eval.data import EvalItem, EvalQuery, EvalSet, load
from powerctx_eval.environment import embedder_facts, environment
from powerctx_eval.metrics import recall
from powerctx_eval.progress import Started, Tick, quiet
from powerctx_eval.reports import EMBEDDER
from powerctx_eval.stores import opened

__all__ = ["Cosines", "anchors", "measure"]

BATCH = 64
K = 10
NOISE = 0.95
RESAMPLES = 2000

Floats = NDArray[np.float32]


@attrs.frozen(kw_only=True, eq=False)
class Cosines:
    """Cosines of pairs of a query and an item of its scope, in random order."""

    unrelated: NDArray[np.float64]
    relevant: NDArray[np.float64]

    def first(self, unrelated: int, relevant: int) -> Cosines:
        """Return that many of each."""
        return Cosines(unrelated=self.unrelated[:unrelated], relevant=self.relevant[:relevant])


def anchors(cosines: Cosines) -> dict[str, Any]:
    """Return ``noise`` (95th percentile of unrelated pairs), ``match`` (median of relevant ones) and more of both."""
    noise, match = float(np.quantile(cosines.unrelated, NOISE)), float(np.median(cosines.relevant))
    return {
        "noise": round(noise, 4),
        "match": round(match, 4),
        "above_noise": round(float(np.mean(cosines.relevant > noise)), 4),
        "unrelated_p50": round(float(np.median(cosines.unrelated)), 4),
        "relevant_p5": round(float(np.quantile(cosines.relevant, 0.05)), 4),
        "unrelated_pairs": len(cosines.unrelated),
        "relevant_pairs": len(cosines.relevant),
    }


def measure(
    name: str,
    folder: Path,
    sets: Sequence[str],
    *,
    pairs: int = 20_000,
    limit: int | None = None,
    seed: int = 7,
    extra: Sequence[object] = (),
    started: Started = quiet,
) -> dict[str, Any]:
    """Measure embedder *name* on *sets* and return the report, a JSON value.

    Args:
        name: of an installed embedder.
        folder: of the sets, see :func:`powerctx_eval.data.data_folder`.
        sets: their names.
        pairs: unrelated pairs drawn from each set.
        limit: queries of each set at most, drawn by *seed*.
        seed: of everything that is drawn.
        extra: plugins that are not installed.
        started: told of every step.

    Raises:
        InvalidRequest: the embedder or a set is not there, or a set has no pairs.
    """
    begun = time.perf_counter()
    rows: list[dict[str, Any]] = []
    taken: list[Cosines] = []
    embedded: list[tuple[EvalSet, _Embedded]] = []
    with opened("memory", extra=extra) as ctx:
        part = ctx.host.part("powerctx_embedders", name)
        for found in [load(folder, each) for each in sets]:
            queries = [each for each in chosen(found, limit, seed)[0] if each.gold and not each.adversarial]
            tick = started(f"{found.name} {name}", len(found.items) + len(queries))
            row, cosines, held = _set(part, found, queries, pairs=pairs, seed=seed, tick=tick)
            rows.append(row)
            taken.append(cosines)
            embedded.append((found, held))
        facts = embedder_facts(part)
    # As many pairs of every set, so that a large one does not decide alone.
    least = [min(len(getattr(each, kind)) for each in taken) for kind in ("unrelated", "relevant")]
    even = [each.first(*least) for each in taken]
    pooled = Cosines(
        unrelated=np.concatenate([each.unrelated for each in even]),
        relevant=np.concatenate([each.relevant for each in even]),
    )
    return {
        "schema": EMBEDDER,
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(
            ["powerctx eval embedder", name, f"--sets {','.join(sets)} --pairs {pairs} --seed {seed}"]
            + ([f"--limit {limit}"] if limit else [])
        ),
        "environment": environment(),
        "embedder": name,
        "profile": facts,
        "seed": seed,
        "sets": rows,
        "pooled": {
            "set": "pooled",
            **anchors(pooled),
            **_across(embedded, pairs, seed),
            "timing": {
                key: round(float(np.mean([row["timing"][key] for row in rows])), 3)
                for key in ("ms_per_document", "ms_per_query")
            },
        },
        "timing": {"seconds": time.perf_counter() - begun},
    }


@attrs.frozen(kw_only=True, eq=False)
class _Embedded:
    """A set and its vectors, row by row.

    Attributes:
        members: scope -> rows of its items.
    """

    items: Sequence[EvalItem]
    queries: Sequence[EvalQuery]
    documents: Floats
    asked: Floats
    members: Mapping[str, Sequence[int]]


def _set(
    part: Any, found: EvalSet, queries: Sequence[EvalQuery], *, pairs: int, seed: int, tick: Tick
) -> tuple[dict[str, Any], Cosines, _Embedded]:
    if not queries or not found.items:
        raise InvalidRequest(f"set {found.name!r} has no queries with gold to measure.", field="sets")
    documents, per_document = _vectors(part, [entry.item.text for entry in found.items], "document", BATCH, tick)
    asked, per_query = _vectors(part, [query.text for query in queries], "query", 1, tick)
    members: defaultdict[str, list[int]] = defaultdict(list)
    for place, entry in enumerate(found.items):
        members[entry.item.scope_id].append(place)
    held = _Embedded(items=found.items, queries=queries, documents=documents, asked=asked, members=members)
    cosines = _cosines(held, pairs, random.Random(f"{seed}:{found.name}"))  # noqa: S311 (no secret)
    if not cosines.unrelated.size or not cosines.relevant.size:
        raise InvalidRequest(f"set {found.name!r} has no pairs of queries and items to measure.", field="sets")
    row = {
        "set": found.name,
        "digest": found.digest,
        "items": len(found.items),
        "queries": len(queries),
        **anchors(cosines),
        "without_vector": sum(not row.any() for matrix in (documents, asked) for row in matrix),
        f"recall@{K}": mean_interval(_recalls(held), count=RESAMPLES, seed=seed).as_json(),
        "timing": {"ms_per_document": round(per_document, 3), "ms_per_query": round(per_query, 3)},
    }
    return row, cosines, held


def _across(embedded: Sequence[tuple[EvalSet, _Embedded]], pairs: int, seed: int) -> dict[str, Any]:
    """Return ``noise`` over sets of different subjects, or nothing when there are none.

    Items of a query's own scope share its people and topics, so they are no measure of noise.  For every ordered pair
    of sets with different subjects the 95th percentile is taken, and of these the median.
    """
    rng = np.random.default_rng(seed)
    found = {}
    for one, asking in embedded:
        for other, asked in embedded:
            if one.subject != other.subject:
                drawn = np.stack(
                    [rng.integers(len(asking.queries), size=pairs), rng.integers(len(asked.items), size=pairs)], axis=1
                )
                both = attrs.evolve(asking, items=asked.items, documents=asked.documents)
                found[f"{one.name} → {other.name}"] = round(float(np.quantile(_of(both, drawn), NOISE)), 4)
    return {"noise": round(float(np.median(list(found.values()))), 4), "unrelated_p95": found} if found else {}


def _vectors(part: Any, texts: Sequence[str], purpose: str, batch: int, tick: Tick) -> tuple[Floats, float]:
    """Return a matrix of vectors, and milliseconds a text; the model is loaded before the clock starts."""
    part.embed(EmbedRequest(texts=tuple(texts[:1]), purpose=purpose))
    rows: list[Floats] = []
    seconds = 0.0
    for start in range(0, len(texts), batch):
        some = tuple(texts[start : start + batch])
        begun = time.perf_counter()
        vectors = part.embed(EmbedRequest(texts=some, purpose=purpose))
        seconds += time.perf_counter() - begun
        rows += [np.frombuffer(vector, dtype="<f4") for vector in vectors]
        tick(len(some))
    return np.stack(rows), seconds * 1000 / len(texts)


def _cosines(held: _Embedded, pairs: int, rng: random.Random) -> Cosines:
    """Draw pairs; a text without a vector gives none."""
    ids = [entry.item.artifact_id for entry in held.items]
    places = {ident: place for place, ident in enumerate(ids)}
    relevant = [(row, places[ident]) for row, query in enumerate(held.queries) for ident in sorted(query.gold)]
    rng.shuffle(relevant)
    unrelated = []
    for _ in range(pairs):
        row = rng.randrange(len(held.queries))
        if scope := held.members.get(held.queries[row].scope_id):
            place = rng.choice(scope)
            if ids[place] not in held.queries[row].gold:
                unrelated.append((row, place))
    return Cosines(unrelated=_of(held, unrelated), relevant=_of(held, relevant))


def _of(held: _Embedded, pairs: Sequence[tuple[int, int]] | NDArray[Any]) -> NDArray[np.float64]:
    has, can = np.any(held.documents != 0, axis=1), np.any(held.asked != 0, axis=1)
    rows = np.array(pairs, dtype=int).reshape(-1, 2)
    rows = rows[can[rows[:, 0]] & has[rows[:, 1]]]
    found: NDArray[np.float64] = np.einsum(
        "ij,ij->i", held.asked[rows[:, 0]], held.documents[rows[:, 1]], dtype=np.float64
    )
    return found


def _recalls(held: _Embedded) -> list[float]:
    """Return recall@10 of every query by cosine alone, among what its scope holds and is not retired."""
    current = {
        scope: np.array([place for place in places if not held.items[place].retired], dtype=int)
        for scope, places in held.members.items()
    }
    found = []
    for row, query in enumerate(held.queries):
        places = current.get(query.scope_id, np.empty(0, dtype=int))
        scores = held.documents[places] @ held.asked[row]
        best = places[np.argsort(-scores, kind="stable")[:K]]
        found.append(recall([held.items[place].item.artifact_id or "" for place in best], query.gold, K))
    return found
