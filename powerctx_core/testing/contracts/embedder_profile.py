"""What an embedder says of itself, before it is asked for anything, and what it costs and leaves."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from powerctx_core.ports import Embedder, EmbedRequest
from powerctx_core.testing.contract import agree
from powerctx_core.testing.contracts.embedder_open import OpenEmbedderContract
from powerctx_core.testing.embedder_words import ISO_639_1
from powerctx_core.types import Deadline, EmbeddingProfile
from powerctx_core.vectors import check_vector

__all__ = ["ProfileContract"]


class ProfileContract(OpenEmbedderContract):
    """Its profile is cheap, possible and the same for ever; it reaches nobody, and closes as often as it is told."""

    def test_embedder_port(self, embedder: Embedder) -> None:
        """It has the methods of its port, and a profile of the right kind."""
        assert isinstance(embedder, Embedder)
        assert isinstance(embedder.profile, EmbeddingProfile)

    def test_profile_stable(self, embedder: Embedder, fresh: Callable[[str], Embedder], embedder_name: str) -> None:
        """The profile is the same in every instance, whatever was asked in between: stored vectors hang on it."""
        new = fresh(embedder_name)
        before = new.profile
        for deadline in (Deadline(), Deadline.after(0), Deadline()):
            with suppress(TimeoutError):
                new.embed(EmbedRequest(texts=("cat",), deadline=deadline))
            agree("profile after embedding", before, new.profile)
        with ThreadPoolExecutor(4) as threads:
            agree("profile on four threads", [before] * 8, list(threads.map(lambda _: new.profile, range(8))))
        agree("profile of another instance", before, embedder.profile)

    def test_profile_cheap(self, probed: Callable[[str], dict[str, Any]], embedder_name: str) -> None:
        """Making it and reading its profile loads no model: no big file, heavy package, thread, process, connection."""
        agree("what the profile costs", [], probed(embedder_name)["costs"])

    def test_profile_fingerprint(self, embedder: Embedder) -> None:
        """The fingerprint is a name: some printable characters on a line."""
        fingerprint = embedder.profile.fingerprint

        assert fingerprint == fingerprint.strip()
        assert fingerprint.isprintable()
        assert 0 < len(fingerprint) <= 200

    def test_profile_fingerprint_elsewhere(
        self, embedder: Embedder, probed: Callable[[str], dict[str, Any]], embedder_name: str
    ) -> None:
        """The fingerprint is the same in another process."""
        agree("fingerprint elsewhere", embedder.profile.fingerprint, probed(embedder_name)["fingerprint"])

    def test_profile_anchors(self, embedder: Embedder) -> None:
        """The anchors are cosines, noise below match."""
        noise, match = embedder.profile.noise, embedder.profile.match

        assert -1 <= noise < match <= 1, f"your part gives noise {noise} and match {match}"

    def test_profile_weight(self, embedder: Embedder) -> None:
        """The weight is a number from 0 up."""
        assert 0 <= embedder.profile.weight < math.inf

    def test_profile_languages(self, embedder: Embedder) -> None:
        """Languages are ISO 639-1 codes, each once, one at least: for others vectors are not used."""
        languages = embedder.profile.languages

        assert languages
        assert len(set(languages)) == len(languages)
        agree("languages that are no code of ISO 639-1", set(), set(languages) - ISO_639_1)

    def test_no_network(self, probed: Callable[[str], dict[str, Any]], embedder_name: str) -> None:
        """Unless it is remote it reaches nobody beyond this machine, loading its model included."""
        if self.remote:
            pytest.skip("asks a server, as its author declares")
        did = probed(embedder_name)["did"]

        assert [each for each in did if each.startswith(("connected", "asked"))] == []

    def test_closed_twice(self, fresh: Callable[[str], Embedder], embedder_name: str) -> None:
        """It can be closed, when it can be closed at all, used or not, and twice."""
        for used in (False, True):
            embedder: Any = fresh(embedder_name)
            if not callable(getattr(embedder, "close", None)):
                continue
            if used:
                self.vectors(embedder, "cat")
            embedder.close()
            embedder.close()

    def test_others_after_a_close(
        self, embedder: Embedder, fresh: Callable[[str], Embedder], embedder_name: str
    ) -> None:
        """Closing one instance takes nothing from another."""
        other: Any = fresh(embedder_name)
        if callable(getattr(other, "close", None)):
            self.vectors(other, "cat")
            other.close()

        check_vector(self.vectors(embedder, "cat")[0], embedder.profile.dimensions)
