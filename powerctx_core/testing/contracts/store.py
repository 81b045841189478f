"""What every contract of a store starts from: a fresh store behind a URL, opened as users open it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import ModuleType
from typing import Any, ClassVar

import hypothesis
import pytest

from powerctx_core.config import structure
from powerctx_core.errors import PowerctxError
from powerctx_core.host import Host
from powerctx_core.ports import Capability, Store
from powerctx_core.testing.contract import Contract
from powerctx_core.testing.database import Database
from powerctx_core.testing.plugin import LEFT_OUT, PROFILE

__all__ = ["StoreContract"]

LEGEND = (
    "Where a message does not say which is which, the left side is what the store gave, and the right side what the "
    "contract expects."
)


class StoreContract(Contract):
    """The part of a store's contracts that opens it.

    A subclass must give the fixture ``store_url``.

    Attributes:
        settings: as in ``powerctx.toml``, for every host of the tests.
        plugins: entry-point names of the only plugins to load; ``None`` loads all that are installed.
        extra: plugin modules or objects that are not installed; only modules reach other processes.
    """

    guide = "docs/plugins/store.md#when-a-test-fails"

    settings: ClassVar[Mapping[str, Any]] = {}
    plugins: ClassVar[tuple[str, ...] | None] = None
    extra: ClassVar[tuple[object, ...]] = ()

    @pytest.fixture(autouse=True)
    def _legend(self, request: pytest.FixtureRequest) -> None:
        """Have a failure say which side of a comparison is the store's."""
        request.node.add_report_section("setup", "note", LEGEND)

    @pytest.fixture
    def restless(self) -> Iterator[None]:
        """Let threads take turns a thousand times as often, so that a missing lock shows."""
        interval = sys.getswitchinterval()
        sys.setswitchinterval(5e-6)
        yield
        sys.setswitchinterval(interval)

    @pytest.fixture
    def store_url(self) -> str:
        """Give the URL of a store that does not exist yet; the same URL is the same store where it is durable.

        What it keeps in files lies below pytest's ``tmp_path``, or the kit cannot see what is made there.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a fixture store_url that returns a fresh store's URL")

    @pytest.fixture
    def host(self) -> Iterator[Host]:
        """Give a fresh host."""
        with Host.compose(structure(self.settings), allow=self.plugins, extra=self.extra) as host:
            yield host

    @pytest.fixture
    def open_again(self, host: Host, store_url: str) -> Iterator[Callable[[], Store]]:
        """Give a function that opens the test's store, beside what is open already."""
        opened: list[Store] = []

        def open_again() -> Store:
            opened.append(host.open_store(store_url))
            return opened[-1]

        yield open_again
        for store in reversed(opened):
            # That closing works is the duty of tests of its own.
            with suppress(PowerctxError):
                store.close()

    @pytest.fixture
    def store(self, open_again: Callable[[], Store]) -> Store:
        """Give a fresh store, closed at the end."""
        return open_again()

    @pytest.fixture
    def reopen(self, store: Store, open_again: Callable[[], Store]) -> Callable[[], Store]:
        """Give a function that closes the store and opens it again; only for tests that need durability."""
        opened = [store]

        def reopen() -> Store:
            opened[-1].close()
            opened.append(open_again())
            return opened[-1]

        return reopen

    @pytest.fixture
    def db(self, store: Store) -> Database:
        """Give a fresh store with words for it."""
        return Database(store)

    @pytest.fixture
    def start_process(self, store_url: str, request: pytest.FixtureRequest) -> Callable[..., subprocess.Popen[str]]:
        """Give a function that runs Python in another process, which is killed at the end.

        It takes the interpreter's arguments, and fields of the job that the program gets as its only argument, in JSON,
        beside how to open the store; see :func:`powerctx_core.testing.process.opened`.
        """
        opening = {
            "url": store_url,
            "settings": self.settings,
            "plugins": self.plugins,
            "extra": [plugin.__name__ for plugin in self.extra if isinstance(plugin, ModuleType)],
        }
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

        def start(*program: str, **job: object) -> subprocess.Popen[str]:
            process = subprocess.Popen(  # noqa: S603 - this very Python, and a program of the kit
                [sys.executable, *program, json.dumps({**opening, **job})],
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
            )

            def finish() -> None:
                process.kill()
                process.communicate()

            request.addfinalizer(finish)
            return process

        return start

    @pytest.fixture
    def examples(self, request: pytest.FixtureRequest) -> Callable[[int], hypothesis.settings]:
        """Give a function that makes settings for so many seeded examples, or times ``--conformance-examples``."""
        factor: int = request.config.getoption("conformance_examples")

        def examples(few: int) -> hypothesis.settings:
            return hypothesis.settings(
                max_examples=few * factor,
                derandomize=True,
                deadline=None,
                suppress_health_check=list(hypothesis.HealthCheck),
            )

        return examples

    def test_says_what_it_can(
        self, host: Host, store_url: str, request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
    ) -> None:
        """The record's capabilities and the declared lacks name every capability once."""
        can = host.store_for(store_url).capabilities
        record_property(PROFILE, self._profile(can, request.config.stash[LEFT_OUT].get(type(self), [])))
        both = ", ".join(each for each in Capability if each in can and each in self.lacks)
        neither = ", ".join(each for each in Capability if each not in can and each not in self.lacks)

        assert not both, (
            f"the record promises {both}, and lacks of {type(self).__name__} says that it is missing; take what the "
            "store can do out of lacks, and what it cannot out of the record's capabilities"
        )
        assert not neither, (
            f"neither the record nor lacks of {type(self).__name__} names {neither}; add what the store can do to the "
            "record's capabilities, and what it cannot to lacks, as not_yet('why') or cannot('why')"
        )
        assert can == set(Capability) - set(self.lacks)

    def _profile(self, can: frozenset[Capability], left_out: list[str]) -> str:
        lines = [f"{type(self).__name__}: full {', '.join(each for each in Capability if each in can)}"]
        lines += [f"  {lack.kind} {capability}: {lack.reason}" for capability, lack in self.lacks.items()]
        lines += [f"  left out: {', '.join(dict.fromkeys(left_out))}"] if left_out else []
        lines += [f"  waived {name}: {reason}" for name, reason in self.waivers.items()]
        return "\n".join(lines)
