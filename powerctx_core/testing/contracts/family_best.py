"""What a family chooses where more fits than is wanted; judged by its own counts, which have to be right first."""

from __future__ import annotations

import attrs

from powerctx_core.recall.ranking import Scorer
from powerctx_core.testing.contracts.family_open import OpenFamilyContract
from powerctx_core.testing.question import NEAR, Question, names, words

__all__ = ["BestContract"]


class BestContract(OpenFamilyContract):
    """Of more than is wanted the best are given.

    Scores are computed from the occurrences, lengths, statistics and cosines that the family tells: a failure says
    nothing until the tests of these pass, which come before.
    """

    def test_best_by_words(self, ask: Question) -> None:
        """Of more than *k* the best are given: none left out is twice as good, by core's BM25, as one that is given.

        Any formula of relevance passes that; which of nearly equal ones is the best is the family's own affair.
        """
        for request, pool in ask.every():
            score = Scorer(pool.statistics).score
            scores = {
                pool.candidates[key].address.artifact_id: score(
                    pool.candidates[key].matched, pool.candidates[key].length
                )[0]
                for key in pool.channels.get("fts", ())
            }
            for k in (1, 2):
                given = names(ask.answer(attrs.evolve(request, k=k)), "fts")
                worst = min((scores.get(name, 0.0) for name in given), default=0.0)
                better = {name: scores[name] for name in scores.keys() - given if scores[name] > 2 * worst}
                assert not given or better == {}, (
                    f"for {request.query[:60]!r} and k={k} your part gives {given}, whose worst has the score {worst}, "
                    f"and leaves out {better}; scores are computed from what your part counts, so that "
                    "test_occurrences, test_length and test_statistics have to pass first"
                )

    def test_best_by_vector(self, ask: Question) -> None:
        """So it is by vector: no cosine of what is left out is above one of what is given."""
        for item in ask.items:
            whole = ask.pool(words(item), item.scope_id, weights={"vector": 1.0})
            cosines = {
                each.address.artifact_id: each.cosine for each in whole.candidates.values() if each.cosine is not None
            }
            for k in (1, 2):
                given = names(ask.pool(words(item), item.scope_id, k=k, weights={"vector": 1.0}), "vector")
                worst = min((cosines.get(name, -1.0) for name in given), default=1.0)
                better = {name: cosines[name] for name in cosines.keys() - given if cosines[name] > worst + NEAR}
                assert better == {}, (
                    f"for {item.text[:60]!r} and k={k} your part gives {given}, whose worst has the cosine {worst}, "
                    f"and leaves out {better}; test_cosines has to pass first"
                )
