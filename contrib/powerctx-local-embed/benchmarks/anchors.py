"""Measures the anchors of the embedder's profile: ``python benchmarks/anchors.py --data DIR``.

``noise`` is the 95th percentile of the cosines of unrelated pairs, ``match`` the median of those of relevant pairs (a
query and its gold).  Unrelated are a query and an item of sets with different subjects; of the percentiles of all such
pairs of sets the median is taken.  Items of the query's own scope, and everyday talk of other people, share topics:
half of the relevant pairs lie below the 95th percentile of those, so that they give no scale; they are printed for
comparison.  In ``match`` every set weighs the same.

The last table is for data that was not measured: anchors of all that is not in one part, and how they fit that part.
Nominal are .05 of its unrelated pairs above ``noise``, and half of its relevant pairs above ``match``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

import numpy as np
from labelled import Floats, Scope, arguments, scopes

PAIRS = 20_000
"""Drawn from every set, and from every pair of sets."""


SUBJECTS = {
    "locomo": "everyday talk",
    "madial_en": "everyday talk",
    "madial_zh": "everyday talk",
    "across": "everyday talk",
    "cmrc_zh": "encyclopedia",
    "precisionmem_en": "ways of working",
}


def same_subject(one: Scope, other: Scope) -> bool:
    """Whether two scopes are about the same kind of things."""
    return SUBJECTS[one.set_name] == SUBJECTS[other.set_name]


def own(scope: Scope) -> tuple[Floats, Floats, Floats]:
    """Return cosines inside a scope: of relevant pairs, of each query with its best gold, of all other pairs."""
    every = scope.query_vectors @ scope.item_vectors.T
    relevant = np.zeros(every.shape, bool)
    for query, places in enumerate(scope.gold):
        relevant[query, list(places)] = True
    best = np.where(relevant, every, -1).max(axis=1)
    return every[relevant], best, every[~relevant]


def noise(pairs: Iterable[tuple[Scope, Scope]], rng: np.random.Generator) -> list[Floats]:
    """Return cosines of unrelated pairs, so many for every pair of sets."""
    drawn: dict[tuple[str, str], list[Floats]] = defaultdict(list)
    for asked, stored in pairs:
        if not same_subject(asked, stored):
            drawn[asked.set_name, stored.set_name].append((asked.query_vectors @ stored.item_vectors.T).ravel())
    return [rng.choice(np.concatenate(cosines), PAIRS) for cosines in drawn.values()]


def match(measured: Iterable[Scope], rng: np.random.Generator) -> Floats:
    """Return cosines of relevant pairs, drawn alike from every set."""
    drawn: dict[str, list[Floats]] = defaultdict(list)
    for scope in measured:
        drawn[scope.set_name].append(own(scope)[0])
    return np.concatenate([rng.choice(np.concatenate(cosines), PAIRS) for cosines in drawn.values()])


def anchors(measured: list[Scope], rng: np.random.Generator) -> tuple[float, float]:
    """Return noise and match of some scopes."""
    plain = [scope for scope in measured if scope.set_name != "across"]
    unrelated = noise([(one, other) for one in plain for other in plain], rng)
    percentiles = [float(np.percentile(cosines, 95)) for cosines in unrelated]
    return float(np.median(percentiles)), float(np.median(match(measured, rng)))


def print_sets(measured: list[Scope]) -> None:
    """Print what each set gives by itself."""
    print("set           relevant: 5th, median, 95th   best gold: median   others of the scope: median, 95th")
    for name in dict.fromkeys(scope.set_name for scope in measured):
        kinds = zip(*(own(scope) for scope in measured if scope.set_name == name), strict=True)
        relevant, best, others = (np.concatenate(kind) for kind in kinds)
        low, middle, high = np.percentile(relevant, [5, 50, 95])
        print(f"{name:<11}{low:>16.3f}{middle:>8.3f}{high:>8.3f}{np.median(best):>20.3f}", end="")
        print(f"{np.median(others):>27.3f}{np.percentile(others, 95):>7.3f}")


def print_unrelated(measured: list[Scope]) -> None:
    """Print the 95th percentile of unrelated pairs for queries of one set and items of another."""
    names = list(dict.fromkeys(scope.set_name for scope in measured if scope.set_name != "across"))
    print(f"\n{'unrelated pairs: 95th':<30}" + "".join(f"{f'items {name}':>18}" for name in names))
    for asked in names:
        print(f"{f'queries {asked}':<30}", end="")
        for stored in names:
            pairs = [
                (one, two) for one in measured for two in measured if (one.set_name, two.set_name) == (asked, stored)
            ]
            unrelated = noise(pairs, np.random.default_rng(1))
            cell = f"{np.percentile(unrelated[0], 95):.3f}" if unrelated else "–"
            print(f"{cell:>18}", end="")
        print()


def print_held_out(measured: list[Scope], rng: np.random.Generator) -> None:
    """Print how anchors carry over to parts that had no share in them."""
    parts: dict[str, Callable[[Scope], bool]] = {
        name: lambda scope, name=name: scope.name == name
        for name in (scope.name for scope in measured if scope.set_name == "locomo")
    }
    parts["locomo"] = lambda scope: scope.set_name == "locomo"
    parts["madial, both and across"] = lambda scope: scope.set_name.startswith(("madial", "across"))
    parts["cmrc_zh"] = lambda scope: scope.set_name == "cmrc_zh"
    parts["precisionmem_en"] = lambda scope: scope.set_name == "precisionmem_en"
    print(f"\n{'held out':<30}{'noise':>7}{'match':>7}{'its unrelated above':>21}{'its relevant above':>20}")
    for name, inside in parts.items():
        low, high = anchors([scope for scope in measured if not inside(scope)], rng)
        plain = [scope for scope in measured if scope.set_name != "across"]
        unrelated = np.concatenate(noise([(a, b) for a in plain for b in plain if inside(a) != inside(b)], rng))
        relevant = match([scope for scope in measured if inside(scope)], rng)
        print(f"{name:<30}{low:>7.3f}{high:>7.3f}{(unrelated > low).mean():>21.3f}{(relevant > high).mean():>20.3f}")


def main() -> None:
    """Print everything."""
    measured = list(scopes(arguments(__doc__ or "")))
    print_sets(measured)
    print_unrelated(measured)
    low, high = anchors(measured, np.random.default_rng(2))
    print(f"\npooled: noise {low:.3f}, match {high:.3f}")
    print_held_out(measured, np.random.default_rng(3))


if __name__ == "__main__":
    main()
