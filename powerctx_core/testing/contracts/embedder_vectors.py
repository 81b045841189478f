"""The vectors of an embedder: one for each text, true to it, whoever asks, beside whatever, in whichever process."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest

from powerctx_core.ports import Embedder
from powerctx_core.testing.contract import agree
from powerctx_core.testing.contracts.embedder_open import OpenEmbedderContract
from powerctx_core.testing.embedder_words import HOSTILE, LONG, NOTHING, PAIRS, TEXTS, cosine, same
from powerctx_core.vectors import check_vector

__all__ = ["EmbeddedContract"]


class EmbeddedContract(OpenEmbedderContract):
    """Every text has one vector of unit length, or zeros, and always the same."""

    def check(self, embedder: Embedder, vectors: Sequence[bytes]) -> None:
        """Check that each vector is one that can be stored, or zeros."""
        dimensions = embedder.profile.dimensions
        for vector in vectors:
            if vector != bytes(4 * dimensions):
                check_vector(vector, dimensions)

    def test_dimensions(self, embedder: Embedder) -> None:
        """A vector has as many float32 values as the profile says, for texts with content and without."""
        given = {len(vector) for vector in self.vectors(embedder, *TEXTS, *NOTHING)}

        agree("bytes of a vector", {4 * embedder.profile.dimensions}, given)

    def test_unit_length(self, embedder: Embedder) -> None:
        """A text with content has a finite vector of unit length, as bytes."""
        for vector in self.vectors(embedder, *TEXTS):
            check_vector(vector, embedder.profile.dimensions)

    def test_one_for_each(self, embedder: Embedder) -> None:
        """There are as many vectors as texts, none for none, in batches of any size."""
        texts = [f"{text[:200]} {number}" for number in range(20) for text in TEXTS]
        sizes = [0, 1, 2, 33, 65, 160]

        agree("vectors of so many texts", sizes, [len(self.vectors(embedder, *texts[:size])) for size in sizes])

    def test_in_order(self, embedder: Embedder) -> None:
        """Vectors come in the order of their texts."""
        together = self.vectors(embedder, *TEXTS)
        order = random.Random(3).sample(range(len(TEXTS)), len(TEXTS))  # noqa: S311 - not a secret
        shuffled = self.vectors(embedder, *(TEXTS[place] for place in order))

        assert all(same(shuffled, [together[place] for place in order]))
        assert len(set(together)) == len(TEXTS)

    def test_alone_as_beside_others(self, embedder: Embedder) -> None:
        """A text has the same vector alone and beside others, longer ones too."""
        together = self.vectors(embedder, *TEXTS, "", LONG["sentences"][:20_000])

        assert all(same([self.vectors(embedder, text)[0] for text in TEXTS], together[: len(TEXTS)]))

    def test_same_text_again(self, embedder: Embedder) -> None:
        """The same texts have the same vectors, asked again."""
        assert all(same(self.vectors(embedder, *TEXTS), self.vectors(embedder, *TEXTS)))

    def test_same_in_another_instance(
        self, embedder: Embedder, fresh: Callable[[str], Embedder], embedder_name: str
    ) -> None:
        """Another instance gives the same vectors."""
        assert all(same(self.vectors(embedder, *TEXTS), self.vectors(fresh(embedder_name), *TEXTS)))

    def test_same_in_another_process(
        self, embedder: Embedder, probed: Callable[[str], dict[str, Any]], embedder_name: str
    ) -> None:
        """Another process, where Python hashes otherwise, gives the same vectors."""
        there = [bytes.fromhex(vector) for vector in probed(embedder_name)["vectors"]]

        assert all(same(self.vectors(embedder, *TEXTS), there))

    def test_duplicates(self, embedder: Embedder) -> None:
        """A text that comes several times has its vector each time."""
        one, other = self.vectors(embedder, TEXTS[0], TEXTS[1])

        assert all(same(self.vectors(embedder, *TEXTS[:2], *TEXTS[1::-1], TEXTS[0]), [one, other, other, one, one]))

    def test_no_content(self, embedder: Embedder) -> None:
        """A text without anything has a vector of zeros, alone and beside others."""
        zeros = bytes(4 * embedder.profile.dimensions)

        assert self.vectors(embedder, *NOTHING) == [zeros] * len(NOTHING)
        assert [not any(each) for each in self.vectors(embedder, "", TEXTS[0], " ")] == [True, False, True]

    def test_hostile_texts(self, embedder: Embedder) -> None:
        """Whatever characters a text has, it gets a vector of unit length, or zeros; its neighbours keep theirs."""
        texts = [each for text in HOSTILE for each in (text, TEXTS[1])]
        vectors = self.vectors(embedder, *texts)
        self.check(embedder, vectors)

        assert all(same(vectors[1::2], self.vectors(embedder, TEXTS[1]) * len(HOSTILE)))

    @pytest.mark.parametrize("kind", LONG)
    def test_long_text(self, embedder: Embedder, kind: str) -> None:
        """A text of a mebibyte is embedded: all of it, or what the model reads."""
        self.check(embedder, self.vectors(embedder, LONG[kind]))

    @pytest.mark.parametrize("purpose", ["query", "document"])
    def test_purposes(self, embedder: Embedder, purpose: str) -> None:
        """Queries and documents are embedded, both into vectors of unit length."""
        for vector in self.vectors(embedder, *TEXTS, purpose=purpose):
            check_vector(vector, embedder.profile.dimensions)

    def test_related_above_unrelated(self, embedder: Embedder) -> None:
        """In every language of the profile that the kit speaks, answers are nearer to their questions than others."""
        for language in self._spoken(embedder):
            related, unrelated = self._pairs(embedder, language)
            assert sum(related) / len(related) > sum(unrelated) / len(unrelated), language

    def test_related_above_noise(self, embedder: Embedder) -> None:
        """And the mean cosine of questions with their answers is above the noise anchor, or no vector would count."""
        for language in self._spoken(embedder):
            related, _ = self._pairs(embedder, language)
            assert sum(related) / len(related) > embedder.profile.noise, language

    @staticmethod
    def _spoken(embedder: Embedder) -> list[str]:
        return [language for language in PAIRS if language in embedder.profile.languages]

    def _pairs(self, embedder: Embedder, language: str) -> tuple[list[float], list[float]]:
        """Return the cosines of each question with its answer, and with the others."""
        questions, answers = zip(*PAIRS[language], strict=True)
        asked = self.vectors(embedder, *questions, purpose="query")
        stored = self.vectors(embedder, *answers)
        cosines = {(i, j): cosine(asked[i], stored[j]) for i, j in product(range(len(asked)), repeat=2)}
        return [c for (i, j), c in cosines.items() if i == j], [c for (i, j), c in cosines.items() if i != j]
