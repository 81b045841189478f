"""Embedders: vectors that are true to their text, whoever asks, beside whatever, in whichever process."""

from __future__ import annotations

import copy
import json
import math
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import product
from types import ModuleType
from typing import Any, ClassVar

import pytest

from powerctx_core.config import structure
from powerctx_core.host import Host
from powerctx_core.ports import Embedder, EmbedRequest
from powerctx_core.testing.contract import Contract
from powerctx_core.testing.embedder_words import HOSTILE, ISO_639_1, LONG, NOTHING, PAIRS, PROGRAM, TEXTS, cosine, same
from powerctx_core.types import Deadline, EmbeddingProfile
from powerctx_core.vectors import check_vector

__all__ = ["EmbedderContract"]


class EmbedderContract(Contract):
    """What every embedder must hold to.

    The subclass gives the fixture :meth:`embedder_name`.  The embedder is made once for all tests of a class, as
    models are slow to load, and anew where a test is about that.

    Attributes:
        settings: as in ``powerctx.toml``.
        plugins: entry-point names of the only plugins to load; ``None`` loads all that are installed.
        extra: plugin modules that are not installed.
        remote: the embedder asks a server; without it, it must not reach beyond this machine.
        patience_s: how long an answer may take after its deadline has passed.
    """

    settings: ClassVar[Mapping[str, Any]] = {}
    plugins: ClassVar[tuple[str, ...] | None] = None
    extra: ClassVar[tuple[object, ...]] = ()
    remote: ClassVar[bool] = False
    patience_s: ClassVar[float] = 5.0

    @pytest.fixture
    def embedder_name(self) -> str:
        """Give the name of the installed embedder under test."""
        raise NotImplementedError(f"{type(self).__name__} needs a fixture embedder_name that returns a part's name")

    @pytest.fixture(scope="class")
    @classmethod
    def fresh(cls) -> Iterator[Callable[[str], Embedder]]:
        """Give a function that makes an embedder as users do, in a host of its own."""
        hosts: list[Host] = []

        def make(name: str) -> Embedder:
            hosts.append(Host.compose(structure(cls.settings), allow=cls.plugins, extra=cls.extra))
            made: Embedder = hosts[-1].part("powerctx_embedders", name)
            return made

        yield make
        for host in hosts:
            host.close()

    @pytest.fixture(scope="class")
    @classmethod
    def shared(cls, fresh: Callable[[str], Embedder]) -> Callable[[str], Embedder]:
        """Give a function that makes each embedder once."""
        made: dict[str, Embedder] = {}

        def make(name: str) -> Embedder:
            if name not in made:
                made[name] = fresh(name)
            return made[name]

        return make

    @pytest.fixture
    def embedder(self, shared: Callable[[str], Embedder], embedder_name: str) -> Embedder:
        """Give the embedder."""
        return shared(embedder_name)

    @pytest.fixture(scope="class")
    @classmethod
    def probed(cls) -> Callable[[str], dict[str, Any]]:
        """Give a function that watches an embedder in a process of its own, once."""
        seen: dict[str, dict[str, Any]] = {}

        def run(name: str) -> dict[str, Any]:
            if name not in seen:
                seen[name] = cls._probe(name)
            return seen[name]

        return run

    @classmethod
    def _probe(cls, name: str) -> dict[str, Any]:
        if any(not isinstance(plugin, ModuleType) for plugin in cls.extra):
            pytest.skip("an embedder of a plugin that is no module cannot be made in another process")
        job = {
            "name": name,
            "settings": cls.settings,
            "plugins": cls.plugins,
            "extra": [getattr(plugin, "__name__", "") for plugin in cls.extra],
            "texts": TEXTS,
        }
        done = subprocess.run(  # noqa: S603 - this program
            [sys.executable, "-c", PROGRAM, json.dumps(job)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "7"},
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )

        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    @staticmethod
    def vectors(embedder: Embedder, *texts: str, **fields: Any) -> list[bytes]:
        """Embed texts."""
        return list(embedder.embed(EmbedRequest(texts=texts, **fields)))

    def check(self, embedder: Embedder, vectors: Sequence[bytes]) -> None:
        """Check that each vector is one that can be stored, or zeros."""
        dimensions = embedder.profile.dimensions
        for vector in vectors:
            if vector != bytes(4 * dimensions):
                check_vector(vector, dimensions)

    def test_embedder_port(self, embedder: Embedder) -> None:
        """It has the methods of its port, and a profile of the right kind."""
        assert isinstance(embedder, Embedder)
        assert isinstance(embedder.profile, EmbeddingProfile)

    def test_profile_stable(self, embedder: Embedder, fresh: Callable[[str], Embedder], embedder_name: str) -> None:
        """The profile is the same before and after embedding, and in every instance: stored vectors hang on it."""
        new = fresh(embedder_name)
        before = new.profile
        self.vectors(embedder, "cat")

        assert (new.profile, embedder.profile) == (before, before)

    def test_profile_cheap(self, probed: Callable[[str], dict[str, Any]], embedder_name: str) -> None:
        """Making it and reading its profile loads no model: no big file, heavy package, thread, process, connection."""
        assert probed(embedder_name)["costs"] == []

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
        assert probed(embedder_name)["fingerprint"] == embedder.profile.fingerprint

    def test_profile_anchors(self, embedder: Embedder) -> None:
        """The anchors are cosines, noise below match."""
        assert -1 <= embedder.profile.noise < embedder.profile.match <= 1

    def test_profile_weight(self, embedder: Embedder) -> None:
        """The weight is a number from 0 up."""
        assert 0 <= embedder.profile.weight < math.inf

    def test_profile_languages(self, embedder: Embedder) -> None:
        """Languages are ISO 639-1 codes, each once, one at least: for others vectors are not used."""
        languages = embedder.profile.languages

        assert languages
        assert len(set(languages)) == len(languages)
        assert set(languages) - ISO_639_1 == set()

    def test_dimensions(self, embedder: Embedder) -> None:
        """A vector has as many float32 values as the profile says, for texts with content and without."""
        assert {len(vector) for vector in self.vectors(embedder, *TEXTS, *NOTHING)} == {4 * embedder.profile.dimensions}

    def test_unit_length(self, embedder: Embedder) -> None:
        """A text with content has a finite vector of unit length, as bytes."""
        for vector in self.vectors(embedder, *TEXTS):
            check_vector(vector, embedder.profile.dimensions)

    def test_one_for_each(self, embedder: Embedder) -> None:
        """There are as many vectors as texts, none for none, in batches of any size."""
        texts = [f"{text[:200]} {number}" for number in range(20) for text in TEXTS]

        assert [len(self.vectors(embedder, *texts[:size])) for size in (0, 1, 2, 33, 65, 160)] == [0, 1, 2, 33, 65, 160]

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

    def test_no_network(self, probed: Callable[[str], dict[str, Any]], embedder_name: str) -> None:
        """Unless it is remote it reaches nobody beyond this machine, loading its model included."""
        if self.remote:
            pytest.skip("asks a server, as its author declares")
        did = probed(embedder_name)["did"]

        assert [each for each in did if each.startswith(("connected", "asked"))] == []
