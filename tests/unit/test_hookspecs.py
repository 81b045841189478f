"""The hook specifications document themselves with examples that run."""

from __future__ import annotations

import doctest
import inspect

import pytest

import powerctx_core
from powerctx_core import hookspecs, records


def test_every_hook_has_an_example_that_runs() -> None:
    """Doctest over the module passes, and every hook's docstring holds an example."""
    result = doctest.testmod(hookspecs)

    assert result.failed == 0
    assert all(">>>" in (inspect.getdoc(getattr(hookspecs, name)) or "") for name in hookspecs.HOOKS)


def test_hooks_and_their_specifications_agree() -> None:
    """Every function that specifies a hook is in the table, and takes no arguments."""
    specified = {name for name in vars(hookspecs) if name.startswith("powerctx_")}

    assert specified == set(hookspecs.HOOKS)
    assert all(not inspect.signature(getattr(hookspecs, name)).parameters for name in specified)


@pytest.mark.parametrize("record", sorted({record.__name__ for record in hookspecs.HOOKS.values()}))
def test_record_types_are_public(record: str) -> None:
    """A plugin imports everything it yields from the package itself."""
    assert getattr(records, record) is getattr(powerctx_core, record)


def test_public_names_exist_and_are_sorted() -> None:
    """``__all__`` names what is there, each once."""
    assert all(hasattr(powerctx_core, name) for name in powerctx_core.__all__)
    assert len(set(powerctx_core.__all__)) == len(powerctx_core.__all__)
