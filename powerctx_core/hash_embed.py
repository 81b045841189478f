"""An embedder without a model, for tests: texts that share terms are near each other."""

from __future__ import annotations

import math
import sys
from array import array
from hashlib import blake2b
from typing import Final

import attrs

from powerctx_core.ports import EmbedRequest
from powerctx_core.text.terms import analyse
from powerctx_core.types import EmbeddingProfile

__all__ = ["HashEmbedder", "HashSettings"]

_LANGUAGES: Final = tuple(
    "ar bg cs da de el en es fa fi fr he hi hu id it ja ko nl no pl pt ro ru sv th tr uk vi zh".split()
)
_PLACES: Final = 4
"""So many dimensions take part in a term; with one, two terms in every hundred cancel each other out."""


@attrs.frozen(kw_only=True)
class HashSettings:
    """Settings of the embedder, ``[parts.hash]``.

    Attributes:
        dimensions: length of a vector; fewer than 16 are mostly noise.
    """

    dimensions: int = attrs.field(default=64)

    @dimensions.validator
    def _check(self, attribute: attrs.Attribute[int], value: int) -> None:
        if not 2 <= value <= 65_536:
            raise ValueError(f"must be from 2 to 65536, not {value}", attribute)


class HashEmbedder:
    """Hashes the terms of a text (:func:`powerctx_core.text.terms.analyse`) into a few dimensions.

    Pure Python, no state: the same bytes on every machine, safe to call from any thread.  It knows words, not meanings,
    so it finds no paraphrase and nothing in another language.
    """

    def __init__(self, settings: HashSettings) -> None:
        self._dimensions = settings.dimensions

    @property
    def profile(self) -> EmbeddingProfile:
        """The profile; its anchors are rough: in 64 dimensions unrelated texts reach 0.3, half of the terms 0.5."""
        return EmbeddingProfile(
            fingerprint=f"hash-{self._dimensions}-v1",
            dimensions=self._dimensions,
            languages=_LANGUAGES,
            noise=0.3,
            match=0.5,
        )

    def embed(self, request: EmbedRequest) -> list[bytes]:
        """Return one unit-length vector a text, in order, as little-endian float32 bytes; zeros without a term.

        Raises:
            TimeoutError: the deadline passed.
        """
        vectors: list[bytes] = []
        for text in request.texts:
            if request.deadline.passed:
                done = f"{len(vectors)} of {len(request.texts)} texts"
                raise TimeoutError(f"The embedder 'hash' had done {done} when the deadline passed.")
            vectors.append(self._vector(text))
        return vectors

    def _vector(self, text: str) -> bytes:
        sums = [0.0] * self._dimensions
        for term, occurrences in analyse(text).items():
            weight = math.sqrt(occurrences)
            digest = blake2b(term.encode("utf-8", "surrogatepass"), digest_size=4 * _PLACES).digest()
            for start in range(0, len(digest), 4):
                number = int.from_bytes(digest[start : start + 4], "little")
                sums[(number >> 1) % self._dimensions] += weight if number & 1 else -weight
        length = math.sqrt(math.fsum(value * value for value in sums))
        vector = array("f", (value / length for value in sums) if length else sums)
        if sys.byteorder == "big":
            vector.byteswap()
        return vector.tobytes()
