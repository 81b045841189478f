"""How far token estimates are from exact counts, and the prices that come nearest."""

from __future__ import annotations

import random
import sysconfig
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from powerctx_core import InvalidRequest
from powerctx_core.host import Host
from powerctx_core.text.tokens import Features, features
from powerctx_eval.data import load
from powerctx_eval.environment import environment
from powerctx_eval.progress import Started, quiet
from powerctx_eval.reports import TOKENS

__all__ = ["fitted", "groups", "measure"]

PACK = (200, 3000)
TEXTS = 400
NEAR, FAR, UNDER = 0.15, 0.25, 0.10
AIM = 1.03
"""Prices aim a little above the count: a budget that is missed costs more than one that is not filled."""
ROUNDS = 40
EMOJI = ("😀", "😂", "👍🏽", "👩\u200d👩\u200d👧\u200d👦", "🇨🇳", "❤️", "✅", "🎉", "🚀", "🔥", "🙏", "👀", "💡", "⚠️")
PAIRS = (("seed", "cl100k-exact"), ("o200k", "o200k-exact"), ("qwen", "qwen-exact"), ("deepseek", "deepseek-exact"))

Floats = NDArray[np.float64]


def groups(
    folder: Path, sets: Sequence[str], *, texts: Mapping[str, Path] | None = None, seed: int = 7
) -> dict[str, tuple[str, ...]]:
    """Return named groups of texts of the lengths that packs have.

    Args:
        folder: of the sets, see :func:`powerctx_eval.data.data_folder`.
        sets: their names; each gives packs of its items, single items, and packs of its JSON lines.
        texts: name -> folder whose ``.txt``, ``.md``, ``.po`` and ``.py`` files are a further group.
        seed: of everything random.
    """
    draw = random.Random(seed)  # noqa: S311 - a sample, not a secret
    found: dict[str, Sequence[str]] = {}
    for name in sets:
        items = [each.item.text for each in load(folder, name).items]
        found[name] = _packs(items, draw)
        found[f"{name}, single"] = items
        lines = (folder / name / "items.jsonl").read_text(encoding="utf-8").splitlines()
        found[f"{name}, JSON"] = _packs(lines, draw)
    found["python source"] = _pieces(sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")))
    found["numbers"] = [
        " ".join(str(draw.randrange(10 ** draw.randint(1, 9))) for _ in range(160)) for _ in range(TEXTS // 4)
    ]
    found["identifiers"] = [
        "\n".join(str(uuid.UUID(int=draw.getrandbits(128))) for _ in range(15)) for _ in range(TEXTS // 4)
    ]
    found["emoji"] = [
        " ".join(draw.choice(EMOJI) + draw.choice(("", "", " done")) for _ in range(40)) for _ in range(TEXTS // 4)
    ]
    for name, place in (texts or {}).items():
        files = sorted(path for path in place.rglob("*") if path.suffix in (".txt", ".md", ".po", ".py"))
        if not files:
            raise InvalidRequest(f"{name}: no .txt, .md, .po or .py file in {place}.", field="texts")
        found[name] = _pieces(files)
    return {name: tuple(_some(given, draw)) for name, given in found.items()}


def _packs(texts: Sequence[str], draw: random.Random) -> list[str]:
    """Join texts in random order to packs of a random length."""
    packs, current, goal = [], "", draw.randint(*PACK)
    for text in draw.sample(texts, len(texts)):
        current += f"{text}\n"
        if len(current) >= goal:
            packs.append(current[: 2 * PACK[1]])
            current, goal = "", draw.randint(*PACK)
    return packs or [current]


def _pieces(files: Sequence[Path]) -> list[str]:
    """Return pieces of the first 10 000 characters of files."""
    size = 2500
    pieces = []
    for path in files:
        text = path.read_text(encoding="utf-8", errors="replace")[:10_000]
        pieces += [text[at : at + size] for at in range(0, len(text), size) if len(text) - at > PACK[0]]
    return pieces


def _some(texts: Sequence[str], draw: random.Random) -> list[str]:
    kept = [text for text in texts if text.strip()]
    return draw.sample(kept, TEXTS) if len(kept) > TEXTS else kept


@attrs.frozen(eq=False)
class _Counted:
    """The features and exact counts of one group."""

    features: Floats
    exact: Floats


def _shares(cost: Floats, exact: Floats) -> dict[str, float]:
    """Return the mean relative error, and how many texts lie within or below bounds."""
    error = cost / exact - 1
    return {
        "mean": round(float(error.mean()), 3),
        "within_15": round(float(np.mean(np.abs(error) <= NEAR)), 3),
        "within_25": round(float(np.mean(np.abs(error) <= FAR)), 3),
        "under_by_10": round(float(np.mean(error < -UNDER)), 3),
    }


def measure(
    folder: Path,
    sets: Sequence[str],
    *,
    pairs: Sequence[tuple[str, str]] = PAIRS,
    texts: Mapping[str, Path] | None = None,
    seed: int = 7,
    fit: bool = False,
    started: Started = quiet,
) -> dict[str, Any]:
    """Compare estimators with exact counters and return the report, a JSON value.

    Args:
        folder: of the sets.
        sets: their names.
        pairs: (estimator, exact counter), names of installed parts.
        texts: further groups, see :func:`groups`.
        seed: of the samples.
        fit: also return the prices that come nearest to each counter.
        started: shows progress.

    Raises:
        CapabilityError: a part is not installed.
    """
    begun = time.perf_counter()
    texts_of = groups(folder, sets, texts=texts, seed=seed)
    rows: list[dict[str, Any]] = []
    prices: dict[str, dict[str, float]] = {}
    with Host.compose() as host:
        parts = [[host.part("powerctx_token_estimators", name) for name in pair] for pair in pairs]
        tick = started("tokens", len(pairs) * len(texts_of))
        for pair, (estimator, counter) in zip(pairs, parts, strict=True):
            counted = []
            for group, given in texts_of.items():
                exact = np.array([counter.cost(text) for text in given])
                estimate = np.array([estimator.cost(text) for text in given])
                rows.append(
                    {"estimator": pair[0], "counter": pair[1], "group": group, "texts": len(given)}
                    | _shares(estimate, exact)
                )
                if fit:
                    counted.append(_Counted(np.array([features(text) for text in given], dtype=float), exact))
                tick(1)
            if fit:
                prices[pair[1]] = fitted(counted)
    return {
        "schema": TOKENS,
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(
            ["powerctx eval tokens", f"--sets {','.join(sets)} --seed {seed}"]
            + [f"--text {name}={path}" for name, path in (texts or {}).items()]
            + (["--fit"] if fit else [])
        ),
        "environment": environment(),
        "seed": seed,
        "groups": rows,
        "prices": prices,
        "timing": {"seconds": time.perf_counter() - begun},
    }


def fitted(counted: Sequence[_Counted]) -> dict[str, float]:
    """Return the non-negative prices with the least mean absolute relative error, every group counting the same."""
    matrix = np.concatenate([group.features / group.exact[:, None] for group in counted])
    share = np.concatenate([np.full(len(group.exact), 1 / len(group.exact)) for group in counted])
    weights = share.copy()
    prices = np.zeros(matrix.shape[1])
    for _ in range(ROUNDS):
        root = np.sqrt(weights)
        prices = _non_negative(matrix * root[:, None], AIM * root)
        weights = share / np.maximum(np.abs(matrix @ prices - AIM), 0.02)
    return {name: round(float(price), 2) for name, price in zip(Features._fields, prices, strict=True)}


def _non_negative(matrix: Floats, target: Floats) -> Floats:
    """Return least squares without negative coefficients: those that come out below zero are set to it and left out."""
    prices = np.zeros(matrix.shape[1])
    active = np.flatnonzero(matrix.any(axis=0))
    while active.size:
        found = np.linalg.lstsq(matrix[:, active], target, rcond=None)[0]
        if (found >= 0).all():
            prices[active] = found
            break
        active = active[found >= 0]
    return prices
