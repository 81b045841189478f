"""The kit's pytest plugin: leaves out what a part lacks, expects waived tests to fail, says where to begin to mend.

Load it by ``pytest_plugins = ["powerctx_core.testing.plugin"]`` in ``conftest.py``.

A test of a contract passes, fails, or is waived.  What would hide one fails the run, wherever it comes from: a class
that replaces tests behind the contract's back, a mark or a fixture that skips or expects failure, a waiver of a test
whose set-up fails.  Who leaves tests out on the command line, by a ``conftest.py`` that deselects, or in a module that
skips itself as a whole, is not held up: pytest's own summary says so.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Generator, Iterable
from typing import Any

import pytest

from powerctx_core.testing.contract import Contract, check_declared, contract_tests, is_kit

__all__ = ["LEFT_OUT", "PROFILE"]

PROFILE = "powerctx-profile"
"""Property of a test report that holds one paragraph of the profile."""
LEFT_OUT = pytest.StashKey[dict[type, list[str]]]()
"""Contract subclass -> names of the tests that its lacks leave out."""
_FAILED = "powerctx-failed"
"""Property of a failed report: class, place in its contract, test, what it asks for, page that explains it."""
_WAIVED = "powerctx-waived"
"""Property of a waived report: class, and a line about the waiver."""
_NEVER = "a test of a contract is never left out by a mark or a fixture; if the part lacks a capability, declare it in \
lacks; if the test fails for a known reason, waive it: waivers = {{{name!r}: 'reason'}}"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--conformance-examples``."""
    parser.addoption(
        "--conformance-examples",
        type=int,
        default=1,
        metavar="N",
        help="conformance kit: try N times as many seeded examples",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers."""
    config.addinivalue_line("markers", "conformance: a test of a contract of the conformance kit")
    config.addinivalue_line("markers", "needs(capability, ...): a contract test that asks for capabilities")
    config.stash[LEFT_OUT] = {}


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> None:
    """Refuse a class whose declarations, or tests, are not those it may have: it may have avoided to be checked."""
    if inspect.isclass(obj) and issubclass(obj, Contract):
        try:
            check_declared(obj)
        except TypeError as error:
            raise collector.CollectError(str(error)) from None


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what a part lacks; expect what it waives to fail."""
    kept, left_out = [], []
    for item in items:
        cls = getattr(item, "cls", None)
        if cls is None or not issubclass(cls, Contract):
            kept.append(item)
            continue
        item.add_marker(pytest.mark.conformance)
        name = _name(item)
        if _needs(item) & set(cls.lacks):
            left_out.append(item)
            config.stash[LEFT_OUT].setdefault(cls, []).append(name)
            continue
        if name in cls.waivers:
            item.add_marker(pytest.mark.xfail(reason=cls.waivers[name], strict=True), append=False)
        kept.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def _name(item: pytest.Item) -> str:
    return str(getattr(item, "originalname", item.name))


def _needs(item: Any) -> set[object]:
    """Return the capabilities that the contract itself says a test needs."""
    test = contract_tests(item.cls).get(_name(item))
    marks = getattr(test, "pytestmark", ())
    return {capability for mark in marks if mark.name == "needs" for capability in mark.args}


@pytest.hookimpl(wrapper=True, tryfirst=True)  # after what marks make of an outcome
def pytest_runtest_makereport(item: Any, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Fail what hides a test of a contract; say of a failure what the contract asks for."""
    report = yield
    cls = getattr(item, "cls", None)
    if cls is None or not issubclass(cls, Contract) or _name(item) not in contract_tests(cls):
        return report
    name = _name(item)
    if hidden := _hidden(item, call, report):
        report.outcome = "failed"
        report.longrepr = _shown(item, f"{cls.__name__}.{name} {hidden}.")
        vars(report).pop("wasxfail", None)
    if report.failed:
        _explain(report, item, name)
    elif hasattr(report, "wasxfail"):
        report.user_properties.append((_WAIVED, [item.parent.nodeid, f"  waived {name}: {cls.waivers[name]}"]))
    return report


def _hidden(item: Any, call: pytest.CallInfo[None], report: Any) -> str:
    """Return how an outcome hides that a test of a contract did not run, or failed; or nothing."""
    name = _name(item)
    never = _NEVER.format(name=name)
    if hasattr(report, "wasxfail"):
        if name not in item.cls.waivers:
            return f"is expected to fail ({report.wasxfail.removeprefix('reason: ') or 'without a reason'}): {never}"
        if call.when != "call" and call.excinfo is not None:
            return f"is waived, but its {call.when} fails, so that nothing was tested: {call.excinfo.exconly()}"
        return ""
    if report.skipped and not _skips_itself(call):
        reason = "" if call.excinfo is None else str(call.excinfo.value)
        return f"was skipped ({reason or 'without a reason'}): {never}"
    return ""


def _skips_itself(call: pytest.CallInfo[None]) -> bool:
    """Tell whether it is the kit that has skipped a test, and no mark or fixture of the author."""
    frames = (
        [] if call.excinfo is None else [entry.frame.f_globals.get("__name__", "") for entry in call.excinfo.traceback]
    )
    outside = [name for name in frames if name.partition(".")[0] not in ("_pytest", "pluggy", "pytest")]
    return bool(outside) and is_kit(outside[-1])


def _shown(item: pytest.Item, message: str) -> Any:
    try:
        pytest.fail(message, pytrace=False)
    except pytest.fail.Exception:
        return item.repr_failure(pytest.ExceptionInfo.from_current())


def _explain(report: pytest.TestReport, item: Any, name: str) -> None:
    tests, guide = contract_tests(item.cls), item.cls.guide
    asked = " ".join((inspect.getdoc(tests[name]) or "").split("\n\n")[0].split())
    report.sections.append(("conformance", f"{name}: {asked}\nWhat its failure means: {guide}"))
    report.user_properties.append((_FAILED, [item.parent.nodeid, list(tests).index(name), name, asked, guide]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what each part under test can do, what is waived, and which failure of each class is the most basic."""
    reports = [report for found in terminalreporter.stats.values() for report in found]
    found: dict[str, list[Any]] = defaultdict(list)
    for report in reports:
        for name, value in getattr(report, "user_properties", ()):
            found[name].append(value)
    lines = sorted(set(map(str, found[PROFILE])))
    lines += _waived(found[_WAIVED], "\n".join(lines).splitlines())
    lines += _first(found[_FAILED])
    if lines:
        terminalreporter.section("conformance")
        for line in lines:
            terminalreporter.write_line(line)


def _waived(waived: Iterable[tuple[str, str]], printed: list[str]) -> list[str]:
    """Return a paragraph for each class that waives something its profile does not say already."""
    by_class: dict[str, list[str]] = defaultdict(list)
    for cls, line in waived:
        if line not in printed and line not in by_class[cls]:
            by_class[cls].append(line)
    return ["\n".join([f"{cls}:", *sorted(lines)]) for cls, lines in sorted(by_class.items()) if lines]


def _first(failed: Iterable[tuple[str, int, str, str, str]]) -> list[str]:
    """Return a paragraph for each class with failures: the first in the order of its contract, most basic first."""
    by_class: dict[str, set[tuple[int, str, str, str]]] = defaultdict(set)
    for cls, place, name, asked, guide in failed:
        by_class[cls].add((place, name, asked, guide))
    lines = []
    for cls, tests in sorted(by_class.items()):
        _, name, asked, guide = min(tests)
        others = f", it may be the cause of {len(tests) - 1} more" if len(tests) > 1 else ""
        lines.append(f"{cls}: mend {name} first{others}\n  {asked}\n  What its failure means: {guide}")
    return lines
