"""Vectors of stored items: made when items are written, or later for what has none."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, TimeoutError as FutureTimeout
from math import isfinite

import attrs

from powerctx_core.errors import (
    CapabilityError,
    InvalidRequest,
    PluginError,
    PowerctxError,
    cause,
    made_safe,
    safe_message,
    said,
    shown,
)
from powerctx_core.ports import Embedder, EmbedRequest, VectorIndex
from powerctx_core.text.cut import head
from powerctx_core.types import Deadline, EmbeddingProfile, Item, Key, PutResult
from powerctx_core.vectors import check_vector, embedding_text

__all__ = ["Embedding"]

_LOGGER = logging.getLogger("powerctx")
_BATCH = 64


@attrs.frozen
class _Checked:
    """An embedder whose profile was read once, and is one."""

    embedder: Embedder
    profile: EmbeddingProfile

    def embed(self, request: EmbedRequest) -> Sequence[bytes]:
        """Ask the embedder."""
        return self.embedder.embed(request)


class Embedding:
    """An embedder and the index that keeps what it makes.

    Attributes:
        ready: the embedder, when its vectors can be used with those that are stored; else ``None``.  Its profile is the
            one that it had at first, whatever it says later.
        problem: why it is not ready, or ``None`` when it is, or when there is no embedder at all.
    """

    def __init__(
        self,
        embedder: Embedder | None,
        index: VectorIndex | None,
        submit: Callable[[Callable[[], Sequence[bytes]]], Future[Sequence[bytes]]],
        *,
        timeout: float,
        secrets: frozenset[str] = frozenset(),
        title: str = "The embedder",
    ) -> None:
        """Read the profile of the embedder, and tell the index.

        Args:
            embedder: what makes vectors, if anything does.
            index: what keeps them, if the store has one.
            submit: runs a job on a worker.
            timeout: seconds that writing waits for a batch of vectors.
            secrets: what no message may show.
            title: of the embedder and who provides it, for messages.

        Raises:
            PluginError: the profile cannot be read, or holds what no model can have.
        """
        self._embedder = None if embedder is None else _Checked(embedder, _profile(embedder, title, secrets))
        self._index = index
        self._submit = submit
        self._timeout = timeout
        self._secrets = secrets
        self.problem: CapabilityError | None = None
        if self._embedder is not None and index is not None:
            try:
                index.attach(self._embedder.profile)
            except CapabilityError as error:
                # Words go on; whoever asks for vectors is told.
                self.problem = error
                _LOGGER.warning("searching by words alone: %s", error)

    @property
    def ready(self) -> Embedder | None:
        """The embedder, when its vectors can be used."""
        return None if self._index is None or self.problem is not None else self._embedder

    def told(self, message: str) -> str:
        """Return *message* without secrets: an embedder's own words may quote its settings."""
        return safe_message(message, self._secrets)

    def warm(self) -> None:
        """Have the model loaded, if there is one; waits as long as writing waits for vectors."""
        if self.ready is not None:
            try:
                self._ask(self.ready, ("warm",))
            except PowerctxError as error:
                _LOGGER.warning("the embedder could not be warmed up: %s", error)

    def known(self, items: Sequence[Item]) -> Mapping[str, bytes]:
        """Return the vectors that are stored already for the texts of *items*."""
        if self.ready is None or self._index is None:
            return {}
        return self._index.cached([_text(item) for item in items])

    def written(
        self,
        items: Sequence[Item],
        results: Sequence[PutResult],
        known: Mapping[str, bytes],
        wanted: Callable[[str], bool],
    ) -> None:
        """Embed what was just written; a failure is logged; the items are left to their next put, or :meth:`embed_all`.

        What was there already is embedded, too, when *known* has no vector of its text: whoever wrote it was ended, or
        had no embedder.  That costs no statement.  What shares its text with an item that has a vector is not told
        from it here.
        """
        if self.ready is None or self._index is None:
            return
        texts = {
            result.key: text
            for item, result in zip(items, results, strict=True)
            if result.key is not None
            and ((text := _text(item)) not in known or result.outcome != "unchanged")
            and wanted(item.family)
        }
        try:
            self._store(texts, known)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            why = self.told(said(error) if isinstance(error, PowerctxError) else cause(error, self._secrets))
            _LOGGER.warning(
                "Items stored without vectors: %d (%s); `powerctx embed` makes them.", len(texts), why.rstrip(".")
            )

    def embed_all(self, wanted: Callable[[str], bool], *, rebuild: bool) -> Iterator[int]:
        """Embed every current item without a vector whose family is *wanted*, yielding how many are done.

        Raises:
            CapabilityError: there is no embedder, no index, or vectors of another model and *rebuild* is false.
        """
        if self._embedder is None:
            raise CapabilityError(
                "No embedder is open; name one with embedder=…, --embedder or the setting `embedder`, for example "
                "`local` of powerctx-local-embed."
            )
        if self._index is None:
            raise CapabilityError("This store has no vector index; choose one that has, such as sqlite://.")
        if rebuild:
            self._index.clear()
            self._index.attach(self._embedder.profile)
            self.problem = None
        if self.problem is not None:
            raise self.problem
        return self._embed_all(self._index, wanted)

    def _embed_all(self, index: VectorIndex, wanted: Callable[[str], bool]) -> Iterator[int]:
        done, last = 0, 0
        while batch := index.unembedded(_BATCH, last):
            last = batch[-1].key
            texts = {item.key: item.text for item in batch if wanted(item.family)}
            self._store(texts, index.cached(list(texts.values())))
            done += len(texts)
            yield done

    def _store(self, texts: Mapping[Key, str], known: Mapping[str, bytes]) -> None:
        if self._embedder is None or self._index is None or not texts:
            return
        vectors = dict(known)
        missing = [text for text in dict.fromkeys(texts.values()) if text not in vectors]
        dimensions = self._embedder.profile.dimensions
        problems: list[str] = []
        for first in range(0, len(missing), _BATCH):
            batch = tuple(missing[first : first + _BATCH])
            for text, vector in zip(batch, self._ask(self._embedder, batch), strict=True):
                # A vector of zeros says that the model knows nothing of the text: it stays without one.
                if isinstance(vector, bytes) and not any(vector):
                    continue
                try:
                    check_vector(vector, dimensions)
                except InvalidRequest as error:
                    problems.append(str(error))
                else:
                    vectors[text] = vector
        if found := {key: vectors[text] for key, text in texts.items() if text in vectors}:
            self._index.upsert(found)
        if problems:
            # The others are kept: one bad vector must not cost a whole batch.
            _LOGGER.warning("%d texts stay without vectors; the first: %s", len(problems), self.told(problems[0]))

    def _ask(self, embedder: Embedder, texts: tuple[str, ...]) -> Sequence[bytes]:
        """Return the embedder's answer, on a worker so that one that hangs is not waited for without end.

        Raises:
            CapabilityError: it failed, did not answer in time, or gave another number of vectors.
            PowerctxError: what it raised itself of this kind, fit to be shown.
        """
        request = EmbedRequest(texts=texts, deadline=Deadline.after(self._timeout))
        future = self._submit(lambda: embedder.embed(request))
        try:
            made = future.result(self._timeout)
            count = len(made)
        except (FutureTimeout, TimeoutError):
            raise CapabilityError(
                f"The embedder did not answer within {self._timeout:g} s (retrieval.write_embedding_timeout_s)."
            ) from None
        except KeyboardInterrupt:
            raise
        except PowerctxError as error:
            raise made_safe(error, self._secrets)  # noqa: B904 - it is the same error, most often
        except BaseException as error:
            raise CapabilityError(f"The embedder failed: {cause(error, self._secrets)}") from error
        finally:
            future.cancel()  # nobody waits for it any more
        if count != len(texts):
            raise CapabilityError(f"The embedder gave {count} vectors for {len(texts)} texts.")
        return made


def _text(item: Item) -> str:
    return embedding_text(item.title, head(item.text))


def _profile(embedder: Embedder, title: str, secrets: frozenset[str]) -> EmbeddingProfile:
    """Return the profile of an embedder as plain values.

    Raises:
        PluginError: it cannot be read, or holds what no model can have.
    """
    try:
        problem, profile = _checked(embedder.profile)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise PluginError(
            f"{title}: its profile cannot be read: {cause(error, secrets)}; upgrade or uninstall it, or open the "
            "store without an embedder."
        ) from error
    if profile is None:
        raise PluginError(
            f"{title}: its profile {safe_message(problem, secrets)}; upgrade or uninstall it, or open the store "
            "without an embedder."
        )
    return profile


def _checked(given: object) -> tuple[str, EmbeddingProfile | None]:
    """Return what is wrong with a profile, and, when nothing is, the profile as plain values."""
    if not isinstance(given, EmbeddingProfile):
        return f"is {'nothing' if given is None else f'a {type(given).__name__}'}, not an EmbeddingProfile", None
    fingerprint, dimensions, languages = given.fingerprint, given.dimensions, given.languages
    if not isinstance(fingerprint, str) or not fingerprint.strip():
        return f"has the fingerprint {shown(fingerprint)}, not a text that identifies the model", None
    if not isinstance(dimensions, int) or isinstance(dimensions, bool) or dimensions < 1:
        return f"has {shown(dimensions)} dimensions, not a whole number from 1 up", None
    if not isinstance(languages, tuple | list | frozenset | set) or not all(
        isinstance(each, str) and each for each in languages
    ):
        return f"has the languages {shown(languages)}, not a tuple of codes such as ('en', 'de')", None
    numbers = {name: getattr(given, name) for name in ("noise", "match", "weight")}
    for name, value in numbers.items():
        if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value):
            return f"has the {name} {shown(value)}, not a finite number", None
    noise, match, weight = map(float, numbers.values())
    if not -1.0 <= noise < match <= 1.0:
        return f"has noise {noise:g} and match {match:g}; cosines with -1 <= noise < match <= 1 are wanted", None
    if weight < 0.0:
        return f"has the weight {weight:g}, which is below 0", None
    profile = EmbeddingProfile(
        fingerprint=str(fingerprint),
        dimensions=int(dimensions),
        languages=tuple(map(str, languages)),
        noise=noise,
        match=match,
        weight=weight,
    )
    return "", profile
