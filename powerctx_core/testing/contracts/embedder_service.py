"""How an embedder serves: in time, any number of callers at once, leaving alone what it is given and has given."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from powerctx_core.ports import Embedder, EmbedRequest
from powerctx_core.testing.contracts.embedder_open import OpenEmbedderContract
from powerctx_core.testing.embedder_words import HOSTILE, TEXTS, same
from powerctx_core.types import Deadline
from powerctx_core.vectors import check_vector

__all__ = ["ServiceContract"]


class ServiceContract(OpenEmbedderContract):
    """It keeps deadlines, and its callers apart."""

    def test_passed_deadline(self, embedder: Embedder) -> None:
        """When the deadline has passed already it raises a ``TimeoutError``, at once."""
        outcome = self._late(embedder, TEXTS, Deadline.after(0))

        assert isinstance(outcome, TimeoutError)

    def test_passed_deadline_unloaded(self, fresh: Callable[[str], Embedder], embedder_name: str) -> None:
        """So it does before a model is loaded, and it can be asked again."""
        embedder = fresh(embedder_name)
        outcome = self._late(embedder, TEXTS, Deadline.after(0))

        assert isinstance(outcome, TimeoutError)
        check_vector(self.vectors(embedder, TEXTS[0])[0], embedder.profile.dimensions)

    def test_deadline_on_the_way(self, embedder: Embedder) -> None:
        """When the deadline passes on the way it raises a ``TimeoutError`` soon, unless it has all vectors by then."""
        texts = tuple([f"{text[:200]} {number}" for number in range(2500) for text in TEXTS])
        outcome = self._late(embedder, texts, Deadline.after(0.3))

        assert isinstance(outcome, TimeoutError) or len(outcome) == len(texts)

    def _late(self, embedder: Embedder, texts: tuple[str, ...], deadline: Deadline) -> Any:
        """Return what an embedder returns or raises, which must not take much longer than *deadline*."""
        outcome: list[Any] = []

        def ask() -> None:
            try:
                outcome.append(embedder.embed(EmbedRequest(texts=texts, deadline=deadline)))
            except BaseException as error:  # noqa: BLE001 - judged by the test
                outcome.append(error)

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(self.patience_s + (deadline.remaining() or 0))

        assert not thread.is_alive(), f"still busy {self.patience_s} s after the deadline"
        return outcome[0]

    def test_callers_at_once(self, embedder: Embedder) -> None:
        """Callers on several threads get their own vectors."""
        texts = [text[:100] for text in TEXTS]
        alone = self.vectors(embedder, *texts)
        size, barrier = len(texts), threading.Barrier(8)

        def ask(start: int) -> bool:
            barrier.wait(60)
            order = [(start + place) % size for place in range(size)]
            asked = [self.vectors(embedder, *(texts[place] for place in order)) for _ in range(3)]
            return all(all(same(found, [alone[place] for place in order])) for found in asked)

        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(ask, range(8))) == [True] * 8

    def test_first_callers_at_once(
        self, embedder: Embedder, fresh: Callable[[str], Embedder], embedder_name: str
    ) -> None:
        """So do callers that come while nothing is loaded yet."""
        new, barrier = fresh(embedder_name), threading.Barrier(8)

        def ask(_: int) -> list[bytes]:
            barrier.wait(60)
            return self.vectors(new, *TEXTS[:3])

        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(ask, range(8)))
        expected = self.vectors(embedder, *TEXTS[:3])

        assert [all(same(each, expected)) for each in found] == [True] * 8

    def test_request_is_left_alone(self, embedder: Embedder) -> None:
        """A request is the same after it was served."""
        request = EmbedRequest(texts=("a\x00cat", *HOSTILE))
        before = copy.deepcopy(request.texts)
        embedder.embed(request)

        assert request == EmbedRequest(texts=before)

    def test_vectors_are_not_shared(self, embedder: Embedder) -> None:
        """Whoever changes an answer changes no later one."""
        before = self.vectors(embedder, *TEXTS)
        answer: Any = embedder.embed(EmbedRequest(texts=TEXTS))
        with suppress(AttributeError, TypeError):
            answer.reverse()
            answer.pop()

        assert all(same(self.vectors(embedder, *TEXTS), before))
