"""What the entry point names; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator

from powerctx_core import CommandSpec, hookimpl

__all__ = ["powerctx_commands"]


@hookimpl
def powerctx_commands() -> Iterator[CommandSpec]:
    """Offer ``powerctx eval``."""
    yield CommandSpec(
        name="eval",
        factory="powerctx_eval.cli:evaluate",
        about="Measure evidence within budgets, speed and embedders; write reports.",
    )
