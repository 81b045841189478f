"""Settings of the embedder, ``[parts.local]``."""

from __future__ import annotations

import attrs

__all__ = ["LocalSettings"]


@attrs.frozen(kw_only=True)
class LocalSettings:
    """How texts are embedded.

    Attributes:
        max_pieces: so many pieces of a text are read and the rest is not; 2048 are some 2 500 Chinese characters or
            7 500 English ones, and take 0.1 s.  Part of the fingerprint: another value needs new vectors.
        blas_threads: threads of numpy's BLAS while a text is embedded, for the whole process; 0 leaves them alone.
            One is the fastest on a machine with other work.  The last bits of a vector depend on the number of threads
            on some processors.
    """

    max_pieces: int = attrs.field(default=2048)
    blas_threads: int = attrs.field(default=1)

    @max_pieces.validator
    def _check_max_pieces(self, attribute: attrs.Attribute[int], value: int) -> None:
        if value < 1:
            raise ValueError(f"must be at least 1, not {value}", attribute)

    @blas_threads.validator
    def _check_blas_threads(self, attribute: attrs.Attribute[int], value: int) -> None:
        if value < 0:
            raise ValueError(f"must be at least 0, not {value}", attribute)
