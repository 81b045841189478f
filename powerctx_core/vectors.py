"""What every vector index does alike: the text that is embedded, and the vectors and models that are refused."""

from __future__ import annotations

import hashlib
import struct

from powerctx_core.errors import CapabilityError, InvalidRequest
from powerctx_core.types import EmbeddingProfile

__all__ = [
    "COSINE_DIGITS",
    "check_profile",
    "check_vector",
    "embedding_text",
    "half_precision",
    "text_hash",
    "unattached",
]

COSINE_DIGITS = 6
"""Decimal places of a cosine.  What lies behind them depends on the order in which an engine adds up; rounded before
they are compared, cosines are tied in all stores or in none.
"""
_TOLERANCE = 2e-3
"""Of the squared length; float16 keeps it within a tenth of that."""


def embedding_text(title: str | None, head: str) -> str:
    """Return what is embedded of a revision: its title, if any, and the first 4096 bytes of its body."""
    return f"{title}\n{head}" if title else head


def text_hash(text: str) -> bytes:
    """Return 16 bytes by which a text is recognised that was embedded before."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def check_vector(vector: object, dimensions: int) -> None:
    """Refuse what is not a unit-length vector of *dimensions* float32 values.

    Raises:
        InvalidRequest: another type or length, NaN or infinity in it, zeros only, or not of unit length.
    """
    if not isinstance(vector, bytes):
        raise InvalidRequest(f"A vector must be float32 bytes, not {type(vector).__name__}.", field="vector")
    if len(vector) != dimensions * 4:
        raise InvalidRequest(
            f"A vector has {len(vector)} bytes; {dimensions} dimensions of float32 have {dimensions * 4}.",
            field="vector",
        )
    if not any(vector):
        raise InvalidRequest(
            "A vector of zeros says that the model knows nothing of its text: leave it out.", field="vector"
        )
    length = sum(value * value for value in memoryview(vector).cast("f"))
    # NaN and infinity fail this comparison too.
    if not abs(length - 1.0) <= _TOLERANCE:
        raise InvalidRequest(f"A vector must have unit length; its square is {length:g}.", field="vector")


def half_precision(vector: bytes) -> bytes:
    """Return a vector of float32 values with each rounded to the nearest float16, as stores keep them."""
    values = memoryview(vector).cast("f")
    halves = struct.unpack(f"<{len(values)}e", struct.pack(f"<{len(values)}e", *values))
    return struct.pack(f"<{len(values)}f", *halves)


def check_profile(fingerprint: str, dimensions: int, count: int, profile: EmbeddingProfile) -> None:
    """Refuse to use *profile* with *count* stored vectors of the model *fingerprint*, unless it is the same.

    Raises:
        CapabilityError: it is another model.
    """
    if (fingerprint, dimensions) != (profile.fingerprint, profile.dimensions):
        raise CapabilityError(
            f"The {count} stored vectors are of the model {fingerprint} ({dimensions} dimensions), the embedder's are "
            f"of {profile.fingerprint} ({profile.dimensions} dimensions): run `powerctx embed --rebuild` to make all "
            "vectors anew, or open the store with the model that made them."
        )


def unattached() -> CapabilityError:
    """Return the error of an index that was not told the model."""
    return CapabilityError("No embedding model was named: open the store with an embedder, which attaches its profile.")
