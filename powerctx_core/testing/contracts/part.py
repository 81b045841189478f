"""What the contracts of parts start from that are made by a factory and keep nothing but themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import pytest

from powerctx_core.config import structure
from powerctx_core.host import Host
from powerctx_core.testing.contract import Contract

__all__ = ["PartContract"]


class PartContract(Contract):
    """The fixtures that make a part as users do: once for all tests of a class, as models are slow to load, or anew.

    Attributes:
        hook: that offers the part.
        settings: as in ``powerctx.toml``.
        plugins: entry-point names of the only plugins to load; ``None`` loads all that are installed.
        extra: plugin modules or objects that are not installed; only modules reach other processes.
    """

    hook: ClassVar[str] = ""
    settings: ClassVar[Mapping[str, Any]] = {}
    plugins: ClassVar[tuple[str, ...] | None] = None
    extra: ClassVar[tuple[object, ...]] = ()

    @pytest.fixture(scope="class")
    @classmethod
    def fresh(cls) -> Iterator[Callable[[str], Any]]:
        """Give a function that makes a part by its name, in a host of its own."""
        hosts: list[Host] = []

        def make(name: str) -> Any:
            hosts.append(Host.compose(structure(cls.settings), allow=cls.plugins, extra=cls.extra))
            return hosts[-1].part(cls.hook, name)

        yield make
        for host in hosts:
            host.close()

    @pytest.fixture(scope="class")
    @classmethod
    def shared(cls, fresh: Callable[[str], Any]) -> Callable[[str], Any]:
        """Give a function that makes each part once."""
        made: dict[str, Any] = {}

        def make(name: str) -> Any:
            if name not in made:
                made[name] = fresh(name)
            return made[name]

        return make
