"""The kit's pytest plugin: leaves out what a part lacks, expects waived tests to fail, prints the profile.

Load it by ``pytest_plugins = ["powerctx_core.testing.plugin"]`` in ``conftest.py``.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from powerctx_core.testing.contract import Contract

__all__ = ["LEFT_OUT", "PROFILE"]

PROFILE = "powerctx-profile"
"""Property of a test report that holds one paragraph of the profile."""
LEFT_OUT = pytest.StashKey[dict[type, list[str]]]()
"""Contract subclass -> names of the tests that its lacks leave out."""


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
        name = getattr(item, "originalname", item.name)
        if {capability for marker in item.iter_markers("needs") for capability in marker.args} & set(cls.lacks):
            left_out.append(item)
            config.stash[LEFT_OUT].setdefault(cls, []).append(name)
            continue
        if name in cls.waivers:
            item.add_marker(pytest.mark.xfail(reason=cls.waivers[name], strict=True))
        kept.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what each part under test can do."""
    reports = [report for found in terminalreporter.stats.values() for report in found]
    profiles = sorted({text for report in reports for text in _profiles(getattr(report, "user_properties", ()))})
    if profiles:
        terminalreporter.section("conformance")
        for profile in profiles:
            terminalreporter.write_line(profile)


def _profiles(properties: Iterable[tuple[str, object]]) -> Iterable[str]:
    return (str(value) for name, value in properties if name == PROFILE)
