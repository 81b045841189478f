"""The search in numpy, against plain arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from powerctx_sqlite import resident, signs
from powerctx_sqlite.resident import Held, Residents
from powerctx_sqlite.signs import Exact, Signs

KEYS = st.integers(0, 60).map(lambda n: 3 << 32 | n << 5 | n % 7)
DIMENSIONS = st.sampled_from([1, 7, 8, 63, 64, 65, 100, 512])


def units(rng, count, dimensions):
    """Return rows of unit length."""
    rows = rng.standard_normal((count, dimensions)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def halves(rows):
    """Return rows as they are stored."""
    return signs.stacked(signs.encoded([row.tobytes() for row in rows], rows.shape[1]), rows.shape[1])


def test_decoding():
    """Every finite float16 is decoded as numpy does it, zeros, subnormals and signs included."""
    every = np.arange(1 << 16, dtype=np.uint16)
    finite = every[np.isfinite(every.view(np.float16))]
    found = signs._decoded(finite.view(np.int16).reshape(1, -1))[0]

    assert np.array_equal(finite.view(np.float16).astype(np.float32), found)
    assert np.array_equal(np.signbit(finite.view(np.float16)), np.signbit(found))


@pytest.mark.parametrize("dimensions", [7, 64, 384, 512])
def test_equal_rows_have_equal_cosines(dimensions):
    """A row has the same cosine, to the bit, wherever it stands, whatever is beside it, and through bytes again."""
    rng = np.random.default_rng(1)
    rows, query = units(rng, 5000, dimensions), units(rng, 1, dimensions)[0]
    rows[::7] = rows[0]
    stored = halves(rows)
    found = signs.cosines(stored, query)

    assert 1 == len(set(found[::7].tolist()))
    assert found[0] == signs.cosines(stored[14:15], query)[0]
    for offset in range(1, 16):
        moved = np.frombuffer(bytes(offset * 4) + query.tobytes(), np.float32, offset=offset * 4)
        assert found[0] == signs.cosines(stored[:1], moved)[0]
    again = signs.encoded([signs.float32_bytes(stored[0].tobytes())], dimensions)
    assert [stored[0].tobytes()] == again


@settings(deadline=None, max_examples=150)
@given(st.lists(st.integers(-3, 3), max_size=40), st.integers(1, 50), st.randoms(use_true_random=False))
def test_best(scores, k, rng):
    """The best are those of a stable sort by score and key."""
    keys = rng.sample(range(1000), len(scores))
    found = signs.best(np.array(scores, np.float32), np.array(keys, np.int64), k)

    assert sorted(range(len(scores)), key=lambda n: (-scores[n], keys[n]))[:k] == found.tolist()


@settings(deadline=None, max_examples=150)
@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 50), st.randoms(use_true_random=False))
def test_smallest(distances, count, rng):
    """The nearest by signs are those of a stable sort by distance and key."""
    keys = rng.sample(range(1000), len(distances))
    found = signs._smallest(np.array(distances, np.uint16), np.array(keys, np.int64), count)

    assert set(sorted(range(len(distances)), key=lambda n: (distances[n], keys[n]))[:count]) == set(found.tolist())


@settings(deadline=None, max_examples=60)
@given(DIMENSIONS, st.integers(1, 200), st.integers(0, 2**32 - 1))
def test_signs_are_compared(dimensions, count, seed):
    """Distances count the differing signs, and sums add the values where the sign is set, in any dimensions."""
    rng = np.random.default_rng(seed)
    rows, query = halves(units(rng, count, dimensions)), units(rng, 1, dimensions)[0]
    held = Signs.of(rows)
    seen = rows.view(np.float16).astype(np.float32) > held.centre
    wanted = query > held.centre

    distances = signs._distances(held.words, signs._signs(query - held.centre))
    assert (seen != wanted).sum(axis=1).tolist() == distances.tolist()
    assert np.allclose((seen * query).sum(axis=1), signs._sums(held.words, query), atol=1e-4)


@settings(deadline=None, max_examples=60)
@given(st.data(), st.sampled_from([Exact, Signs]), st.integers(0, 2**32 - 1))
def test_near(data, kind, seed):
    """Both ways find exactly the best among so few rows, masked or not; exact ones with their cosines."""
    rng = np.random.default_rng(seed)
    count = data.draw(st.integers(1, 250))
    values, query = units(rng, count, 40), units(rng, 1, 40)[0]
    values[rng.integers(0, count, count // 3)] = values[0]
    rows, keys = halves(values), rng.permutation(count).astype(np.int64)
    held = Exact(rows) if kind is Exact else Signs.of(rows)
    mask = (
        np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
        if data.draw(st.booleans())
        else None
    )
    k = data.draw(st.integers(1, 300))
    places, scores = held.near(query, keys, mask, k)
    true = signs.cosines(rows, query)
    wanted = [n for n in range(count) if mask is None or mask[n]]
    best = sorted(wanted, key=lambda n: (-true[n], keys[n]))[:k]

    if kind is Exact:
        assert best == places.tolist()
        assert true[best].tolist() == scores.tolist()
    else:
        assert set(best) <= set(places.tolist()) <= set(wanted)


def test_recall():
    """Of vectors that cluster nearly all of the best are found by signs, also when all point roughly one way."""
    rng = np.random.default_rng(3)
    centres = units(rng, 300, 256)
    values = (
        centres[rng.integers(0, 300, 30_000)] + 0.7 * rng.standard_normal((30_000, 256)).astype(np.float32) / 256**0.5
    )
    for shift in (0.0, 3.0):
        moved = values + shift * units(rng, 1, 256)
        moved /= np.linalg.norm(moved, axis=1, keepdims=True)
        moved = moved.astype(np.float32)
        held, keys = Signs.of(halves(moved)), np.arange(30_000)
        shares = []
        for query in moved[:40]:
            places, _ = held.near(query, keys, None, 64)
            shares.append(len(set(np.argsort(-(moved @ query))[:64]) & set(places.tolist())) / 64)
        assert np.mean(shares) >= 0.98


@settings(deadline=None, max_examples=40)
@given(st.data(), st.integers(0, 30), st.integers(0, 2**32 - 1))
def test_changes(data, exact, seed):
    """A state that was changed step by step, over the limit and back, holds what one that is loaded anew holds."""
    rng = np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resident, "EXACT", exact)
        states = _changed(data, rng)

    # Older states are as they were, although newer ones share their memory.
    for state, content in states:
        query = units(rng, 1, 24)[0]
        keys, cosines = state.near(query, 100, None, removed=False)
        assert set(content) == set(keys.tolist())
        if cosines is not None and content:
            alone = [signs.cosines(content[key].reshape(1, -1), query)[0] for key in keys.tolist()]
            assert alone == cosines.tolist()
        allowed = np.array([key for key in content if key >> 5 & 1], np.int64)
        assert set(allowed.tolist()) == set(state.near(query, 100, allowed, removed=False)[0].tolist())
        if content:
            whole = np.array(list(content.values()))
            true = signs.best(signs.cosines(whole, query), np.array(list(content), np.int64), 5)
            assert {list(content)[place] for place in true.tolist()} <= set(keys.tolist())


def _changed(data, rng):
    """Return states, each made from the one before, with what they must hold."""
    held = Held.of(1, 1, [])
    stored: dict[int, np.ndarray] = {}
    states = []
    for step in range(data.draw(st.integers(1, 8))):
        keys = data.draw(st.lists(KEYS, max_size=25, unique=True))
        removed = sorted(data.draw(st.sets(KEYS, max_size=25)) - set(keys))
        rows = halves(units(rng, len(keys), 24)) if keys else np.empty((0, 24), np.int16)
        stored |= dict(zip(keys, rows, strict=True))
        for key in removed:
            stored.pop(key, None)
        held = held.changed(step + 2, np.array(keys, np.int64), rows, np.array(removed, np.int64))
        if not held.fitting:
            batch = (np.array(list(stored), np.int64), np.array(list(stored.values())))
            held = Held.of(step + 2, 1, [batch] if stored else [])
        states.append((held, dict(stored)))
    return states


def test_least_recently_used_are_dropped():
    """Partitions in memory stay within their bytes; the one in use stays whatever its size."""
    rows = halves(units(np.random.default_rng(0), 100, 64))
    loads = []

    def load(number):
        def loaded(old):
            loads.append((number, old is not None))
            return Held.of(5, 1, [(np.arange(100), rows)])

        return loaded

    residents = Residents(2 * (100 * 64 * 2 + 800))
    for number in (1, 2, 1, 3, 1, 2):
        assert 5 == residents.held(number, 5, load(number)).stamp
    assert [(1, False), (2, False), (3, False), (2, False)] == loads
    assert residents.nbytes() <= 2 * (100 * 64 * 2 + 800)
    small = Residents(10)
    small.held(1, 5, load(1))
    small.held(1, 5, load(1))
    assert (1, False) == loads[-1]
    assert 5 == len(loads)
    small.held(1, 6, load(1))
    assert (1, True) == loads[-1]
