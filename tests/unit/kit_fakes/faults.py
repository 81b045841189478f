"""The table of faults, and the subclasses of the contracts that run against them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import attrs

__all__ = ["FAULTS", "GROUPS", "Fault", "declare", "load", "resolved", "subclasses"]

GROUPS = (
    "writing",
    "identity",
    "lexical",
    "listing",
    "neighbours",
    "texts",
    "snapshots",
    "durable",
    "vectors",
    "vector_life",
    "embedders",
    "tokens",
    "usage",
    "ledgers",
    "sessions",
    "families",
    "searching",
    "answers",
    "providers",
    "packages",
)
"""The modules that hold faults."""
FAULTS: dict[tuple[str, str], Fault] = {}
"""Every fault that was declared so far, by group and name."""


@attrs.frozen(kw_only=True)
class Fault:
    """One bug of a third party's part.

    Attributes:
        contract: ``module:Class`` in ``powerctx_core.testing.contracts``; imported only where it runs, since the
            processes that a contract starts load the plugin, too.
        fails: names of the tests of the contract that have to fail; all others have to pass.
        wrong: what is wrong, in one line.
        record: what the plugin offers, if it offers anything.
        fields: gives what the subclass of the contract declares, fixtures too.
    """

    name: str
    group: str
    contract: str
    fails: frozenset[str]
    wrong: str
    record: Any = None
    fields: Callable[[], Mapping[str, Any]] = dict


def declare(broken: Callable[..., Any], fails: tuple[str, ...], contract: str, **fields: Any) -> Fault:
    """Declare the fault that *broken* is, named after it and told by its docstring."""
    name = broken.__name__.replace("_", "-").lower()
    group = broken.__module__.rpartition(".")[2]
    wrong = (inspect.getdoc(broken) or "").partition("\n")[0]
    if (group, name) in FAULTS or not wrong or not fails:
        raise ValueError(f"{name} is declared already, has no docstring, or names no test")
    fault = Fault(name=name, group=group, contract=contract, fails=frozenset(fails), wrong=wrong, **fields)
    FAULTS[group, name] = fault
    return fault


def load(*groups: str) -> list[Fault]:
    """Return the faults of *groups*, or all."""
    for group in groups or GROUPS:
        import_module(f"kit_fakes.{group}")
    return [fault for fault in FAULTS.values() if not groups or fault.group in groups]


def resolved(fault: Fault) -> type:
    """Return the contract that a fault runs against."""
    module, _, name = fault.contract.partition(":")
    contract: type = getattr(import_module(f"powerctx_core.testing.contracts.{module}"), name)
    return contract


def subclass(fault: Fault) -> type:
    """Make the subclass that an author would write."""
    declared = {"__doc__": fault.wrong, "__module__": "broken", "fault": fault, **fault.fields()}
    return type(f"Test_{fault.name}", (resolved(fault),), declared)


def subclasses(group: str) -> dict[str, type]:
    """Make the subclass for each fault of a group."""
    return {f"Test_{fault.name}": subclass(fault) for fault in load(group)}
