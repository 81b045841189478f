"""What a family finds: everything that it holds, in the asked scope only, and always the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs

from powerctx_core.recall.checks import SNAPSHOT, accepts
from powerctx_core.testing.contract import agree
from powerctx_core.testing.contracts.family_open import OpenFamilyContract
from powerctx_core.testing.question import BOTH, Question, filters_for, names, told, words
from powerctx_core.testing.seeded import MISSING
from powerctx_core.types import Address, Filters, Item

__all__ = ["FoundContract"]

FILTERED = ("tags", "category", "since", "until", "event", "created")


class FoundContract(OpenFamilyContract):
    """Everything is found, nothing of others, and no more than is wanted."""

    def test_pool(self, ask: Question) -> None:
        """A pool answers its request: partition, details of every member, known channels, declared evidence."""
        for request, pool in ask.every():
            assert ask.check(pool, request) == pool
            assert set(pool.channels) <= ({"fts", "vector", "neighbour"} if ask.spec.searchable else {SNAPSHOT})

    def test_asked_scope_only(self, ask: Question) -> None:
        """Members are those of the asked scope, also for the words of another one."""
        for scope in ask.scopes:
            own = {item.artifact_id for item in ask.items if item.scope_id == scope}
            for item in ask.items:
                pool = ask.pool(words(item), scope, weights=BOTH)
                scopes = {candidate.address.scope_id for candidate in pool.candidates.values()}
                agree(f"other scopes among the members for {scope!r}", set(), scopes - {scope})
                agree(f"members for {scope!r} that lie in another scope", set(), names(pool) - own)

    def test_unknown_scope(self, ask: Question) -> None:
        """A scope that nobody knows is an empty one, and its statistics are zero."""
        pool = ask.pool(ask.all(), "project:nobody-knows")
        statistics = pool.statistics

        agree("members in an unknown scope", {}, dict(pool.candidates))
        agree("channels with members in an unknown scope", [], [name for name, keys in pool.channels.items() if keys])
        counts = (statistics.items, statistics.mean_length, dict(statistics.document_frequency))
        agree("items, mean length and frequencies of an unknown scope", (0, 0, {}), counts)

    def test_scopes_that_look_alike(self, ask: Question) -> None:
        """A scope that differs from one that holds something in case or blanks, or as a pattern or path, is another."""
        for item in ask.items:
            for scope in _alike(item.scope_id):
                if scope not in ask.scopes:
                    pool = ask.pool(words(item), scope, weights=BOTH)
                    agree(f"members in {scope!r}, where nothing was stored", {}, dict(pool.candidates))

    def test_own_family_only(self, ask: Question) -> None:
        """What is stored for another family is not found."""
        query = ask.all()
        before = told(ask.pool(query))
        ask.ctx.put([Item(scope_id=ask.scope, family="kit-beside", artifact_id="theirs", text=query)])

        agree("answer after something was stored for another family", before, told(ask.pool(query)))

    def test_finds(self, ask: Question) -> None:
        """Everything is found by its own words."""
        for item in ask.items:
            found = names(ask.pool(words(item), item.scope_id))
            assert item.artifact_id in found, f"{item.artifact_id} is not found by its own words {words(item)!r}"

    def test_finds_no_other_words(self, ask: Question) -> None:
        """Words that nothing holds find nothing by words."""
        agree(f"members found by {MISSING!r}, which nothing holds", set(), names(ask.pool(MISSING), "fts"))

    def test_asked_channels_only(self, ask: Question) -> None:
        """A channel without a weight is not searched."""
        for channel, other in (("fts", "vector"), ("vector", "fts")):
            assert not ask.pool(ask.all(), weights={channel: 1.0}).channels.get(other)

    def test_at_most_k(self, ask: Question) -> None:
        """A channel has no more members than were asked for."""
        for k in (1, 2, 3):
            pool = ask.pool(ask.all(), k=k, weights=BOTH)
            beyond = {name: len(keys) for name, keys in pool.channels.items() if len(keys) > k}
            agree(f"channels with more members than k={k}, and how many they have", {}, beyond)
            most = k * len(pool.channels)
            assert len(pool.candidates) <= most, (
                f"members for k={k}: your part gives {len(pool.candidates)}; the kit expects {most} at most, {k} for "
                f"each of {sorted(pool.channels)}"
            )

    def test_filters(self, ask: Question) -> None:
        """A filter leaves exactly the members that pass it."""
        pool = ask.pool(ask.all(), weights=BOTH)
        for filters in [filters for field in FILTERED for filters in filters_for(field, pool.candidates.values())]:
            passing = {each.address for each in pool.candidates.values() if accepts(filters, each)}
            filtered = ask.pool(ask.all(), weights=BOTH, filters=filters)
            agree(f"members under {filters}", passing, {each.address for each in filtered.candidates.values()})

    def test_filters_keep_statistics(self, ask: Question) -> None:
        """A filter restricts members, never the statistics, by which only what is searched is ranked."""
        whole = ask.pool(ask.all())
        filtered = ask.pool(ask.all(), filters=Filters(tags=("release", "nobody-has-this")))

        agree("members under a tag that nobody has", {}, dict(filtered.candidates))
        if ask.spec.searchable:
            agree("statistics under a filter", whole.statistics, filtered.statistics)

    def test_neighbours(self, ask: Question) -> None:
        """Neighbours are brought by members of the same thread, which the pool names."""
        pool = ask.pool(words(ask.items[1]), neighbours=3)
        found = {key for name in ("fts", "vector") for key in pool.channels.get(name, ())}
        brought = set(pool.channels.get("neighbour", ()))

        assert brought <= set(pool.neighbours)
        for key in brought:
            threads = {pool.candidates[member].thread for member in pool.neighbours[key]}
            assert set(pool.neighbours[key]) <= found
            assert threads == {pool.candidates[key].thread}

    def test_same_again(self, ask: Question) -> None:
        """The same question has the same answer, in the same order."""
        first = [told(pool) for _, pool in ask.every()]

        assert [told(pool) for _, pool in ask.every()] == first

    def test_same_on_threads(self, ask: Question) -> None:
        """So it has when several threads ask at once, for different scopes."""
        requests = [request for request, _ in ask.every()]
        alone = [told(ask.answer(request)) for request in requests]
        with ThreadPoolExecutor(4) as threads:
            together = list(threads.map(lambda request: told(ask.answer(request)), requests * 3))

        assert together == alone * 3

    def test_follows_changes(
        self,
        ask: Question,
        seed: Callable[[Sequence[Item]], Mapping[str, Any]] | None,
        seeded: Mapping[str, Any],
    ) -> None:
        """What is new, changed or gone since the last answer is so in the next one: nothing is kept for ever.

        Where the evidence cannot be changed while the family is open, the author waives this and says so.
        """
        old, gone, *others = ask.items
        changed = attrs.evolve(old, text="The quagga was painted blue in spring.")
        new = attrs.evolve(old, artifact_id="kit-new", text="An okapi came by at noon.", thread=None, position=None)
        asked = [(new.text, old.scope_id), (changed.text, old.scope_id), (words(gone), gone.scope_id)]
        for query, scope in asked:
            ask.pool(query, scope)
        if seed is None:
            ask.ctx.put([changed, new])
            ask.ctx.retire(Address(gone.scope_id, gone.family, str(gone.artifact_id), 1))
        else:
            again = seed([changed, new, *others])
            agree("settings of a second seed(), which the open family cannot see", dict(seeded), dict(again))
        added, renewed, left = (ask.pool(query, scope) for query, scope in asked)
        heads = {each.address.artifact_id: each.head for each in renewed.candidates.values()}

        assert "kit-new" in names(added), "an item that was added is not found"
        agree("text of an item that was changed", changed.text, heads.get(str(old.artifact_id)))
        assert gone.artifact_id not in names(left), "an item that is gone is found"


def _alike(scope: str) -> Iterator[str]:
    """Give scopes that are another one, and that somebody might take for *scope*."""
    yield from (scope.upper(), scope.lower(), scope.swapcase(), scope.title())
    yield from (f" {scope}", f"{scope} ", f"{scope}\u3000", f"{scope}\u0301", f"{scope}/", f"{scope}:")
    yield from ("%", "*", "_" * len(scope), f"{scope[:-1]}%", f"{scope[:-1]}_", f"{scope[:-1]}*", f"{scope[:-1]}?")
    yield from (f"./{scope}", f"x/../{scope}", f"/{scope}")
    yield "".join(chr(ord(each) + 0xFEE0) if "!" <= each <= "~" else each for each in scope)  # the same letters, wide
