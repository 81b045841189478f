"""Every promise of the page names a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "promises.md"

pytestmark = pytest.mark.docs


def test_every_promise_has_a_test() -> None:
    """Each row ends with tests, all of which are there."""
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    promises = [line for line in rows if not line.startswith("| promise |")]
    named = [re.findall(r"`([\w/.]+\.py)::(test_\w+)`", line) for line in promises]
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for tests in named for path, _ in tests}

    assert promises
    assert [] == [line for line, tests in zip(promises, named, strict=True) if not tests]
    assert [] == [
        (path, test)
        for tests in named
        for path, test in tests
        if not re.search(rf"^ *def {test}\(", texts[path], re.MULTILINE)
    ]
