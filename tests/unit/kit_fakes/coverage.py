"""Prints, as JSON, which tests of which contract no fault fails."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from kit_fakes.faults import load, resolved
from powerctx_core.testing import Contract, contracts

__all__ = ["unfailed"]


def below(contract: type) -> Iterator[type]:
    """Give every subclass of a contract."""
    for each in contract.__subclasses__():
        yield each
        yield from below(each)


def unfailed() -> dict[str, list[str]]:
    """Return the tests that no fault fails, by the contract that defines them."""
    for module in iter_modules(contracts.__path__):
        import_module(f"{contracts.__name__}.{module.name}")
    failed: dict[type, set[str]] = defaultdict(set)
    for fault in load():
        for base in resolved(fault).__mro__:
            failed[base] |= fault.fails & vars(base).keys()
    return {
        each.__name__: left
        for each in dict.fromkeys(below(Contract))
        if (left := sorted(name for name in vars(each) if name.startswith("test") and name not in failed[each]))
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(unfailed()))
