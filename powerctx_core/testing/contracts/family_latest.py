"""What a family that is not searched gives: its most recent items; one that is searched has nothing to show here."""

from __future__ import annotations

from powerctx_core.recall.checks import SNAPSHOT
from powerctx_core.testing.contract import agree
from powerctx_core.testing.contracts.family_open import OpenFamilyContract
from powerctx_core.testing.question import Question, told, words
from powerctx_core.testing.seeded import MISSING

__all__ = ["LatestContract"]


class LatestContract(OpenFamilyContract):
    """Nobody weighs it against the query: how recent it is decides."""

    def test_most_recent(self, ask: Question) -> None:
        """Of more than *k* the most recent are given: none left out was updated after one that is given."""
        for scope in () if ask.spec.searchable else ask.scopes:
            whole = ask.pool(words(ask.items[0]), scope)
            for k in (1, 2, 3):
                given = ask.pool(words(ask.items[0]), scope, k=k)
                agree(f"mode of {scope!r}", SNAPSHOT, given.mode)
                agree(f"members of {scope!r} for k={k}", min(k, len(whole.candidates)), len(given.candidates))
                kept = {each.address for each in given.candidates.values()}
                oldest = min(each.updated_at for each in given.candidates.values())
                newer = [
                    each.address.uri
                    for each in whole.candidates.values()
                    if each.address not in kept and each.updated_at > oldest
                ]
                agree(f"members of {scope!r} that were updated later and are left out for k={k}", [], newer)

    def test_whatever_is_asked(self, ask: Question) -> None:
        """The query changes nothing of it."""
        for scope in () if ask.spec.searchable else ask.scopes:
            first, *others = [told(ask.pool(query, scope)) for query in (MISSING, *map(words, ask.items))]
            for other in others:
                agree(f"answer for another query of {scope!r}", first, other)
