"""What tests of parts that hang share."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Opens at the end of the test, for everything that hangs in it."""
    event = threading.Event()
    yield event
    event.set()
