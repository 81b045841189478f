"""What a family whose engine admits says of each round; one with ``retrieve`` has nothing to show here."""

from __future__ import annotations

from powerctx_core.recall.checks import check_searched
from powerctx_core.testing.contracts.family_open import OpenFamilyContract
from powerctx_core.testing.question import BOTH, Question

__all__ = ["SearchedContract"]


class SearchedContract(OpenFamilyContract):
    """A lower floor is another search of the engine: it lets in more, and costs little."""

    def test_searched(self, ask: Question) -> None:
        """Every answer is a ``Searched`` with a pool that answers the request, and numbers that can be."""
        for request, _ in ask.every():
            for found, _ in ask.rounds(request):
                check_searched(found, request, ask.spec.identity)

    def test_lower_floors_admit_more(self, ask: Question) -> None:
        """What a floor lets in, a lower one lets in, too, as long as a channel has room for it."""
        for request, _ in ask.every():
            before = frozenset[str]()
            for found, _ in ask.rounds(request):
                pool = found.pool
                now = frozenset(each.address.uri for each in pool.candidates.values())
                full = any(len(keys) >= request.k for keys in pool.channels.values())
                assert full or before <= now, f"a lower floor lost {', '.join(sorted(before - now))}"
                before = now

    def test_rounds_cost_little(self, ask: Question) -> None:
        """A further round embeds at most one text, none when it is given the query's vector, and generates at most one.

        Texts embedded are counted as the family says, and at ``call.embed``.
        """
        for scope in ask.scopes:
            request = ask.request(ask.all(scope), scope, weights=BOTH)
            rounds = [*ask.rounds(request)]
            given = any(found.pool.query_vector is not None for found, _ in rounds[:1])
            for found, embedded in rounds[1:]:
                embeddings = found.embeddings + embedded
                assert embeddings <= (0 if given else 1), f"your part embeds {embeddings} texts in a further round"
                assert found.generation_calls <= 1, f"your part generates {found.generation_calls} texts in a round"
