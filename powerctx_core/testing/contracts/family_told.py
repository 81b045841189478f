"""What a family says of its members: counts, cosines, sizes, addresses and times, all of them true."""

from __future__ import annotations

from powerctx_core.testing.contract import agree
from powerctx_core.testing.contracts.family_open import OpenFamilyContract
from powerctx_core.testing.question import BOTH, NEAR, Question, words
from powerctx_core.types import QUERY_TERMS, Address, Deadline

__all__ = ["ToldContract"]


class ToldContract(OpenFamilyContract):
    """What is told of members and of the partition is what the kit counts in the items that it has put there."""

    def test_sizes(self, ask: Question) -> None:
        """``head`` begins the body: at most 4096 bytes, cut between characters; ``body_bytes`` is its size."""
        for _, pool in ask.every():
            ask.check_texts(pool)

    def test_addresses(self, ask: Question) -> None:
        """Every address can be written as a URI and read back."""
        for _, pool in ask.every():
            for candidate in pool.candidates.values():
                assert Address.parse(candidate.address.uri) == candidate.address

    def test_times(self, ask: Question) -> None:
        """Times have a zone, or clocks could not compare them."""
        for _, pool in ask.every():
            for each in pool.candidates.values():
                times = (each.created_at, each.updated_at, each.event_time)
                assert [time for time in times if time is not None and time.utcoffset() is None] == []

    def test_terms(self, ask: Question) -> None:
        """The used terms are those of the query, at most 64; members found by words hold one of them."""
        for request, pool in ask.every():
            assert len(pool.terms) <= QUERY_TERMS
            assert set(pool.terms) <= set(request.terms.terms)
            for key in pool.channels.get("fts", ()):
                assert pool.candidates[key].matched
                assert set(pool.candidates[key].matched) <= set(pool.terms)

    def test_occurrences(self, ask: Question) -> None:
        """Each member says truly how often it holds each used term of the query: title, body, category and tags."""
        for request, pool in ask.every():
            if "fts" not in pool.channels:
                continue
            used = set(pool.terms or request.terms.terms)
            for candidate in pool.candidates.values():
                if (terms := ask.analysed(candidate)) is not None:
                    expected = {term: n for term, n in terms.items() if term in used}
                    agree(f"occurrences in {candidate.address.uri}", expected, dict(candidate.matched))

    def test_length(self, ask: Question) -> None:
        """Each member says truly how many terms it has, all occurrences counted."""
        for _, pool in ask.every():
            if "fts" not in pool.channels:
                continue
            for candidate in pool.candidates.values():
                if (terms := ask.analysed(candidate)) is not None:
                    agree(f"terms of {candidate.address.uri}", sum(terms.values()), candidate.length)

    def test_statistics(self, ask: Question) -> None:
        """Statistics count the items of the partition, filters aside: exactly, or no less than was found.

        An engine that gives nothing but its results may count those: then nothing is above what there is.
        """
        answers = list(ask.every())
        held = ask.held(pool for _, pool in answers)
        for request, pool in answers:
            if "fts" not in pool.channels:
                continue
            texts = held[request.partition.scope_id]
            lengths = [sum(terms.values()) for terms in texts]
            statistics, frequency = pool.statistics, pool.statistics.document_frequency
            asked = {*request.terms.terms, *frequency}
            there = {term: n for term in asked if (n := sum(term in terms for terms in texts))}
            found: dict[str, int] = {}
            for candidate in pool.candidates.values():
                for term in candidate.matched:
                    found[term] = found.get(term, 0) + 1
            _between("items in the statistics", len(pool.candidates), statistics.items, len(texts))
            _between("mean length in the statistics", min(lengths), statistics.mean_length, max(lengths))
            for term in found.keys() | frequency.keys():
                _between(f"items that hold {term!r}", found.get(term, 0), frequency.get(term, 0), there.get(term, 0))
            if statistics.items == len(texts):
                mean = sum(lengths) / len(lengths)
                _between("mean length in the statistics", 0.99 * mean, statistics.mean_length, 1.01 * mean)
                used = {term: n for term, n in there.items() if term in (pool.terms or request.terms.terms)}
                agree("items that hold a term", used, {term: frequency.get(term) for term in used})

    def test_vectors(self, ask: Question) -> None:
        """Members found by vector have a cosine, and nothing has one outside -1..1."""
        for _, pool in ask.every():
            cosines = {key: each.cosine for key, each in pool.candidates.items() if each.cosine is not None}
            assert [cosine for cosine in cosines.values() if not -1.000001 <= cosine <= 1.000001] == []
            assert set(pool.channels.get("vector", ())) <= set(cosines)
            assert not cosines or (pool.query_vector is not None and pool.profile is not None)

    def test_cosines(self, ask: Question) -> None:
        """A cosine is that of the member's own text with the query.

        It is computed anew where core has embedded the texts.  Of an engine with vectors of its own nothing can be
        said but that an item is nearer to its own words than others are, on the average.
        """
        own: list[float] = []
        others: list[float] = []
        for item in ask.items:
            pool = ask.pool(words(item), item.scope_id, weights=BOTH)
            expected = ask.cosines(pool)
            for each in pool.candidates.values():
                if each.cosine is None:
                    continue
                (own if each.address.artifact_id == item.artifact_id else others).append(each.cosine)
                if expected is not None:
                    near = expected.get(each.address.artifact_id)
                    assert near is not None, f"{each.address.uri}: your part gives what the kit has not put there"
                    assert abs(near - each.cosine) <= NEAR, (
                        f"{each.address.uri}: your part gives the cosine {each.cosine}; the kit computes {near}"
                    )
        if own and others:
            assert sum(own) / len(own) > sum(others) / len(others)

    def test_late(self, ask: Question) -> None:
        """No channel is late while there is time: without a deadline, and a minute before it."""
        for request, pool in ask.every():
            agree("channels that are late without a deadline", frozenset(), pool.late)
            early = ask.answer(request, deadline=Deadline.after(60.0))
            agree("channels that are late a minute before the deadline", frozenset(), early.late)


def _between(what: str, least: float, given: float, most: float) -> None:
    __tracebackhide__ = True  # the author shall see the line of the contract
    assert least <= given <= most, f"{what}: your part gives {given}; the kit counts from {least} to {most}"
