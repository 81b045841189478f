"""The query's vector: made once a call, beside the lexical work, and never waited for beyond its time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, TimeoutError as FutureTimeout
from functools import partial
from typing import Protocol

from powerctx_core.errors import CapabilityError, cause, redacted
from powerctx_core.ports import Embedder, EmbedRequest
from powerctx_core.types import Deadline, EmbeddingProfile
from powerctx_core.vectors import check_vector

__all__ = ["QueryEmbeddings", "serves"]

_ALPHABETS = (
    ("zh", "\u4e00", "\u9fff"),
    ("ja", "\u3041", "\u30ff"),
    ("ko", "\uac00", "\ud7a3"),
    ("th", "\u0e00", "\u0e7f"),
    ("ru", "\u0400", "\u04ff"),
    ("ar", "\u0600", "\u06ff"),
    ("el", "\u0370", "\u03ff"),
    ("he", "\u0590", "\u05ff"),
    ("hi", "\u0900", "\u097f"),
)
_LATIN = frozenset({"de", "en", "es", "fr", "it", "nl", "pl", "pt", "tr"})


def serves(profile: EmbeddingProfile, query: str) -> bool:
    """Tell whether the model was measured to serve the scripts of *query*.

    Latin letters are served by a model of any language written in them.  Kana makes Han Japanese.
    """
    if query.isascii():
        return bool(_LATIN & set(profile.languages))
    found = {name for name, first, last in _ALPHABETS if any(first <= char <= last for char in query)}
    if "ja" in found:
        found.discard("zh")
    if not found:
        return bool(_LATIN & set(profile.languages))
    return found <= set(profile.languages)


_TIMED_OUT = "the embedder did not answer in time"


class _Submit(Protocol):
    """How to run a job; see :meth:`powerctx_core.workers.Workers.submit`."""

    def __call__(self, job: Callable[[], bytes | None], until: Deadline) -> Future[bytes | None]:
        """Run *job* on a worker, unless it has not begun by *until*."""


class QueryEmbeddings:
    """Vectors of one call's texts; each distinct text is embedded once.

    After a failure or a timeout the embedder is not asked again in this call.

    Attributes:
        fallback: ``none``, ``inference_unavailable`` or ``inference_timeout``.
        made: how many texts were sent to the embedder.
    """

    def __init__(
        self,
        embedder: Embedder | None,
        submit: _Submit,
        *,
        timeout: float,
        deadline: Deadline,
        told: Callable[[str], str] = redacted,
    ) -> None:
        self._embedder = embedder
        self._told = told
        self._submit = submit
        left = deadline.remaining()
        self._hurried = left is not None and left < timeout
        self._wait = deadline if self._hurried else Deadline.after(timeout)
        self._pending: dict[str, Future[bytes | None]] = {}
        self._lock = threading.Lock()
        self.fallback = "none"
        self.reason: str | None = None
        self.made = 0

    @property
    def profile(self) -> EmbeddingProfile | None:
        """The embedder's profile, or ``None`` without one."""
        return None if self._embedder is None else self._embedder.profile

    @property
    def late(self) -> bool:
        """Whether the call's deadline, and not the embedder's own time, ended the wait for a vector."""
        return self._hurried and self.fallback == "inference_timeout"

    def start(self, text: str) -> None:
        """Begin to embed *text* on a worker; returns at once."""
        embedder = self._embedder
        with self._lock:
            if embedder is None or self.fallback != "none" or text in self._pending:
                return
            request = EmbedRequest(texts=(text,), purpose="query", deadline=self._wait)
            self.made += 1
            self._pending[text] = self._submit(partial(_vector, embedder, request), self._wait)

    def __call__(self, text: str) -> bytes | None:
        """Return the vector of *text*, or ``None`` when there is none in time."""
        self.start(text)
        with self._lock:
            future = self._pending.get(text)
            if future is None or self.fallback != "none":
                return None
        try:
            return future.result(self._wait.remaining())
        except (FutureTimeout, TimeoutError, CancelledError):
            future.cancel()
            self._fail("inference_timeout", _TIMED_OUT)
        except KeyboardInterrupt:
            raise
        except SystemExit:
            self._fail("inference_unavailable", "the embedder tried to exit")
        except BaseException as error:  # noqa: BLE001 - whatever a model does, words still find
            self._fail("inference_unavailable", cause(error))
        return None

    def settle(self) -> None:
        """Note that a vector which is still awaited has not come when its time is over: nobody may have done so."""
        with self._lock:
            waiting = any(not future.done() for future in self._pending.values())
        if waiting and self._wait.passed:
            self._fail("inference_timeout", _TIMED_OUT)

    def unavailable(self, reason: str) -> None:
        """Note that there are no vectors in this call, and why."""
        self._fail("inference_unavailable", reason)

    def _fail(self, fallback: str, reason: str) -> None:
        with self._lock:
            if self.fallback == "none":
                self.fallback = fallback
                self.reason = self._told(reason)


def _vector(embedder: Embedder, request: EmbedRequest) -> bytes | None:
    """Return the vector of the one text of *request*; ``None`` when the model knows nothing of it and gives zeros.

    Raises:
        CapabilityError: it gave another number of vectors.
        InvalidRequest: it is no vector.
    """
    made = embedder.embed(request)
    if len(made) != 1:
        raise CapabilityError(f"the embedder gave {len(made)} vectors for 1 text")
    vector = made[0]
    if isinstance(vector, bytes) and not any(vector):
        return None
    check_vector(vector, embedder.profile.dimensions)
    return vector
