"""The parts that need no database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from powerctx_core.ports import FetchRequest
from powerctx_core.text.terms import encode
from powerctx_sqlalchemy.occurrences import Wanted
from powerctx_sqlalchemy.rows import analysed, joined_tags, microseconds, moment, split_tags
from powerctx_sqlalchemy.snapshot import EmptySnapshot
from powerctx_sqlalchemy.tables import LENGTH_BITS, block, length_class, typical_length


@pytest.mark.parametrize("others", [0, 100])
def test_occurrences(others):
    """Terms are counted whole and never as parts of others, for few terms and for many."""
    found = analysed(None, "alpha beta alpha 数据 alphabet beta alpha gamma", None, ())
    wanted = Wanted(["alpha", "beta", "数据", "gam", "gamma", "missing", *(f"other{n}" for n in range(others))])

    matched = wanted.counted(found.terms, found.repeats)

    assert {"alpha": 3, "beta": 2, "数据": 1, "gamma": 1} == matched
    assert found.length >= 8
    assert {} == Wanted([]).counted(found.terms, found.repeats)
    assert f" {encode('beta')} " in found.terms


def test_nothing_to_analyse():
    """An item without a letter or digit has no terms."""
    found = analysed(None, "…", None, ())

    assert 0 == found.length
    assert {} == Wanted(["alpha"]).counted(found.terms, found.repeats)


@pytest.mark.parametrize("tags", [(), ("a",), ("a", "b,c", ' "', "\\", "ü")])
def test_tags(tags):
    """Tags come back as they were."""
    assert tags == split_tags(joined_tags(tags))


@pytest.mark.parametrize(
    "value",
    [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC) + timedelta(microseconds=1),
    ],
)
def test_times(value):
    """Any moment comes back to the microsecond."""
    assert value == moment(microseconds(value))


def test_blocks():
    """The ids of two partitions never meet."""
    assert block(1)[1] + 1 == block(2)[0]
    assert block((1 << 31) - 1)[1] < 1 << 63


def test_length_classes():
    """Lengths have few classes, in their order, each with a length that is near all of its own."""
    classes = [length_class(length) for length in range(10_000)]

    assert classes == sorted(classes)
    assert {*classes} == {*range(1 << LENGTH_BITS)} - {*range(length_class(5) + 1, length_class(6))}
    for length in range(4, 800):
        assert abs(typical_length(classes[length]) / length - 1) < 0.1


def test_empty_snapshot():
    """Where nothing was stored nothing is found."""
    snapshot = EmptySnapshot()

    assert (0, {}, {}) == (snapshot.changes(), snapshot.partitions(), snapshot.fetch(FetchRequest(keys=(1,))))
