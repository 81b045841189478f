"""What every contract of a family starts from: an open context whose family holds the items of the kit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pytest

from powerctx_core.context import Context
from powerctx_core.opening import open as open_context
from powerctx_core.testing.contract import Contract
from powerctx_core.testing.question import Beside, Question
from powerctx_core.testing.seeded import evidence
from powerctx_core.types import Item

__all__ = ["OpenFamilyContract"]

PATIENT = "retrieval.embedding_timeout_s"
"""Vectors are waited for: on a busy machine they would come too late once, and another time not."""


class OpenFamilyContract(Contract):
    """The part of a family's contracts that opens it; the attributes are explained at ``FamilyContract``."""

    guide = "docs/plugins/family.md#when-a-test-fails"

    family_name: ClassVar[str] = ""
    extra: ClassVar[Sequence[object]] = ()
    plugins: ClassVar[tuple[str, ...] | None] = None
    settings: ClassVar[Mapping[str, Any]] = {}
    embedder: ClassVar[str | None] = "hash"
    patience_s: ClassVar[float] = 0.5

    @pytest.fixture
    def items(self) -> Sequence[Item]:
        """Give what the family holds, with the ids by which it is cited; by default the kit's seeded evidence.

        Who gives another one: at least four items in two scopes, which share no id but a few words.
        """
        return evidence(self.family_name)

    @pytest.fixture
    def seed(self) -> Callable[[Sequence[Item]], Mapping[str, Any]] | None:
        """Give a function that puts items where the family looks, and returns settings; by default the store is it.

        A family need not keep every field of an item, but scope, id and text.
        """
        return None

    @pytest.fixture
    def store_url(self) -> str:
        """Give the URL of a store for everything that is kept in one."""
        return "memory://"

    @pytest.fixture
    def seeded(
        self, items: Sequence[Item], seed: Callable[[Sequence[Item]], Mapping[str, Any]] | None
    ) -> Mapping[str, Any]:
        """Put the items where the family looks, unless that is the store, and give the settings that lead there."""
        return {} if seed is None else seed(items)

    @pytest.fixture
    def ctx(
        self,
        items: Sequence[Item],
        seed: Callable[[Sequence[Item]], Mapping[str, Any]] | None,
        seeded: Mapping[str, Any],
        store_url: str,
    ) -> Iterator[Context]:
        """Give an open context whose family holds the items."""
        if not self.family_name:
            raise NotImplementedError(f"{type(self).__name__} needs the class attribute family_name")
        settings = {PATIENT: 60.0, **self.settings, **seeded}
        extra = (*self.extra, Beside())
        with open_context(
            store_url, embedder=self.embedder, settings=settings, plugins=self.plugins, extra=extra
        ) as ctx:
            if seed is None:
                ctx.put(items)
            yield ctx

    @pytest.fixture
    def ask(self, ctx: Context, items: Sequence[Item]) -> Question:
        """Give somebody who asks the family."""
        return Question(ctx, self.family_name, items)
