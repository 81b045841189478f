"""A pytest plugin: runs as much of a contract as a fault needs, and writes which tests failed for which fault.

It is loaded before the kit, so that its hypothesis profile holds there: no shrinking, the same examples every time.

Slow tests run only for the faults that have to fail them: that a fault about tags does not break a body of one mebibyte
is no news.  Of a test with parameters those after the first failure are left out.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings

settings.register_profile("bites", phases=[Phase.explicit, Phase.generate], database=None, derandomize=True)
settings.load_profile("bites")

SLOW = {
    "test_agrees_with_the_reference",
    "test_any_query",
    "test_any_text_is_analysed",
    "test_atomicity_of_a_large_batch",
    "test_best_of_a_large_partition",
    "test_close_leaves_nothing",
    "test_cost_of_long_text",
    "test_deadline_on_the_way",
    "test_factories_wait",
    "test_far_deadline",
    "test_few_modules",
    "test_frequencies_of_rare_and_quoted_terms",
    "test_head",
    "test_hostile_queries",
    "test_hostile_queries_statistics",
    "test_hostile_queries_where_ranked",
    "test_hostile_query",
    "test_killed_writers",
    "test_large_batch",
    "test_largest_fields",
    "test_largest_text",
    "test_light",
    "test_long_query",
    "test_long_text",
    "test_many_large_requests",
    "test_many_occurrences",
    "test_many_snapshots",
    "test_nearest_exact",
    "test_nearest_recall",
    "test_no_network",
    "test_no_torn_reads",
    "test_nothing_is_left",
    "test_no_partition_is_left_out",
    "test_no_vector_is_cut",
    "test_nothing_is_cut",
    "test_own_writes",
    "test_passed_deadline",
    "test_processes_lose_nothing",
    "test_profile_cheap",
    "test_profile_fingerprint_elsewhere",
    "test_quoted_terms_first",
    "test_rarest_terms",
    "test_reads_beside_a_process",
    "test_round_trip",
    "test_same_in_another_process",
    "test_same_on_threads",
    "test_search_during_writes_is_never_empty",
    "test_statistics_of_a_large_partition",
    "test_vectors_after_a_kill",
    "test_vectors_as_reference",
    "test_vectors_of_a_process",
    "test_vectors_read_while_written",
    "test_writers_lose_nothing",
}
"""Run only against the faults that have to fail them."""

failed: dict[str, set[str]] = defaultdict(set)
seen: dict[str, set[str]] = defaultdict(set)


def names(item: Any) -> tuple[str, str]:
    """Return the fault and the test that an item runs."""
    return item.cls.fault.name, item.originalname


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Leave out the slow tests that a fault need not fail."""
    items[:] = [item for item in items if names(item)[1] not in SLOW - item.cls.fault.fails]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Take note of what runs."""
    fault, test = names(item)
    seen[fault].add(test)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Leave out the other parameters of what has failed already; skipping a test of a contract would be refused."""
    fault, test = names(pyfuncitem)
    return True if test in failed[fault] else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Take note of failures."""
    report = yield
    if report.failed:
        fault, test = names(item)
        failed[fault].add(test)
    return report


def pytest_sessionfinish() -> None:
    """Write what failed."""
    from kit_fakes.faults import load

    group = os.environ["POWERCTX_BITES"]
    outcome = {
        fault.name: {
            "wrong": fault.wrong,
            "fails": sorted(fault.fails),
            "failed": sorted(failed[fault.name]),
            "ran": len(seen[fault.name]),
        }
        for fault in load(group)
    }
    Path(os.environ["POWERCTX_BITES_REPORT"]).write_text(json.dumps(outcome), encoding="utf-8")
