"""Vectors beside words: what an embedder may do, and what a call makes of it."""

from __future__ import annotations

import logging
import math
import struct
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import pytest
from sqlalchemy import Engine, event

import powerctx_core as powerctx
from powerctx_core import CapabilityError, EmbedderSpec, EmbeddingProfile, EmbedRequest, Item, hookimpl
from powerctx_core.recall.embedding import QueryEmbeddings, serves
from powerctx_core.types import Deadline
from powerctx_core.workers import Workers

_WORDS = ("sea", "ship", "harbour", "bread", "oven", "flour", "海", "船")
_MEANING = {"sea": 0, "ship": 0, "harbour": 0, "海": 0, "船": 0, "bread": 1, "oven": 1, "flour": 1}


def _unit(values: Sequence[float]) -> bytes:
    norm = math.sqrt(sum(value * value for value in values)) or 1.0
    return struct.pack(f"<{len(values)}f", *(value / norm for value in values))


class Topics:
    """An embedder that knows two topics; it counts what it is asked, and can be told to misbehave."""

    def __init__(self, answer: Any = None, *, fingerprint: str = "topics-1", dimensions: int = 3) -> None:
        self.asked: Counter[str] = Counter()
        self.calls = 0
        self._answer = answer
        self._profile = EmbeddingProfile(
            fingerprint=fingerprint, dimensions=dimensions, languages=("en", "zh"), noise=0.1, match=0.9, weight=0.5
        )

    @property
    def profile(self) -> EmbeddingProfile:
        """The profile."""
        return self._profile

    def embed(self, request: EmbedRequest) -> list[bytes]:
        """Return a vector per text, or what it was told to do."""
        self.calls += 1
        self.asked.update(request.texts)
        if self._answer is not None and request.purpose == "query":
            return self._answer(request)
        return [self._vector(text) for text in request.texts]

    def _vector(self, text: str) -> bytes:
        values = [0.0] * self._profile.dimensions
        for word, topic in _MEANING.items():
            values[topic] += text.lower().count(word)
        if not any(values):
            return bytes(4 * self._profile.dimensions)
        values[-1] = 0.05
        return _unit(values)


@attrs.frozen
class _Keyed:
    """Settings of the part."""

    api_key: str | None = None


class Ended:
    """An index that ends the program, so to speak, where it is to store vectors."""

    def __init__(self, index: Any) -> None:
        self._index = index

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)

    def upsert(self, vectors: Any) -> int:
        """End."""
        raise KeyboardInterrupt


def _plugin(embedder: object) -> object:
    class Plugin:
        @staticmethod
        @hookimpl
        def powerctx_embedders() -> list[EmbedderSpec]:
            return [EmbedderSpec(name="topics", factory=lambda settings: embedder, settings=_Keyed)]

    return Plugin()


_ITEMS = [
    Item(scope_id="s", text="The ship left the harbour.", artifact_id="ship"),
    Item(scope_id="s", text="Flour and an oven make bread.", artifact_id="bread"),
    Item(scope_id="s", text="船在海上。", artifact_id="chuan"),
    Item(scope_id="s", text="Taxes are due in May.", artifact_id="taxes"),
]


def _open(embedder: object, url: str = "memory://", **settings: Any) -> powerctx.Context:
    plugins = [] if url.startswith("memory") else ["sqlite"]
    # Only a test of the limit meets it, however busy the machine is.
    settings["retrieval"] = {"embedding_timeout_s": 60.0, **settings.get("retrieval", {})}
    return powerctx.open(url, settings=settings, plugins=plugins, extra=[_plugin(embedder)], embedder="topics")


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Any) -> str:
    """A fresh store of each kind."""
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'hybrid.db'}"


@pytest.fixture
def topics(url: str) -> Iterator[tuple[powerctx.Context, Topics]]:
    """A context with four items and a good embedder."""
    embedder = Topics()
    with _open(embedder, url) as context:
        context.put(_ITEMS)
        yield context, embedder


def _ids(prepared: powerctx.PreparedContext) -> list[str]:
    return [address.artifact_id for address in prepared.selected]


def test_meaning_finds_what_shares_no_word(topics: tuple[powerctx.Context, Topics]) -> None:
    """A query without a common word delivers items of its topic, across languages, and nothing else."""
    prepared = topics[0].prepare("sea", scope_id="s")

    assert {"ship", "chuan"} == set(_ids(prepared))
    assert ("memory", "hybrid") == prepared.diagnostics.modes[0]
    assert ("none", 1) == (prepared.diagnostics.fallback, prepared.diagnostics.embeddings)


def test_each_distinct_text_is_embedded_once(topics: tuple[powerctx.Context, Topics]) -> None:
    """A call embeds its query once, over any number of scopes; equal texts of items are embedded once for all."""
    context, embedder = topics
    embedder.asked.clear()

    context.prepare("harbour", scope_id="s", references=[f"r{n}" for n in range(20)])
    context.put([Item(scope_id=f"other{n}", text="The ship left the harbour.") for n in range(5)])
    context.put([Item(scope_id="new", text="fresh bread", artifact_id=str(n)) for n in range(5)])

    assert {"harbour": 1, "fresh bread": 1} == dict(embedder.asked)


@pytest.mark.parametrize(
    ("search_type", "mode", "embeddings"), [("fts", "fts", 0), ("vector", "vector", 1), ("hybrid", "hybrid", 1)]
)
def test_the_search_type_decides_what_runs(
    topics: tuple[powerctx.Context, Topics], search_type: str, mode: str, embeddings: int
) -> None:
    """``fts`` asks no embedder, ``vector`` no words, ``hybrid`` both; ``auto`` is hybrid where it can be."""
    found = topics[0].find("ship harbour", scope_id="s", search_type=search_type)

    assert ("memory", mode) == found.diagnostics.modes[0]
    assert embeddings == found.diagnostics.embeddings
    assert all(set(hit.channels) <= {"fts", "vector"} for hit in found.hits)
    assert "ship" in {hit.address.artifact_id for hit in found.hits}


def _boom(request: EmbedRequest) -> list[bytes]:
    raise RuntimeError("secret")


def _exit(request: EmbedRequest) -> list[bytes]:
    raise SystemExit(3)


_BROKEN = {
    "raises": _boom,
    "exits": _exit,
    "too few dimensions": lambda request: [_unit([1.0, 0.0])],
    "NaN": lambda request: [struct.pack("<3f", math.nan, 0.0, 0.0)],
    "infinite": lambda request: [struct.pack("<3f", math.inf, 0.0, 0.0)],
    "not of unit length": lambda request: [struct.pack("<3f", 3.0, 4.0, 0.0)],
    "no vector": lambda request: [],
    "not bytes": lambda request: [[1.0, 0.0, 0.0]],
}


@pytest.mark.parametrize("answer", _BROKEN.values(), ids=_BROKEN)
def test_words_go_on_when_the_embedder_fails(url: str, answer: Any) -> None:
    """The answer is the lexical one, the fallback is recorded, and the embedder is asked once in the call."""
    embedder = Topics(answer)
    with _open(embedder, url) as context:
        context.put(_ITEMS)
        embedder.calls = 0

        prepared = context.prepare("ship in the harbour", scope_id="s", references=["a", "b", "c"])

        assert ["ship"] == _ids(prepared)
        assert "inference_unavailable" == prepared.diagnostics.fallback
        assert {"fts"} == {mode for _, mode in prepared.diagnostics.modes}
        assert 1 == embedder.calls
        with pytest.raises(CapabilityError, match="use auto or fts"):
            context.find("ship", scope_id="s", search_type="hybrid")


def test_what_an_embedder_says_shows_no_secret(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """An error that quotes the part's own settings or a URL's password is blanked, in errors and in the log."""

    def leak(request: EmbedRequest) -> list[bytes]:
        raise RuntimeError("401 for sk-canary-1 at https://u:canary-2@host/v1")

    embedder = Topics(leak)
    with _open(embedder, url, parts={"topics": {"api_key": "sk-canary-1"}}) as context:
        context.put(_ITEMS)
        with pytest.raises(CapabilityError) as query:
            context.find("ship", scope_id="s", search_type="vector")
        embedder.embed = leak
        context.put([Item(scope_id="s", text="another ship")])
        with pytest.raises(CapabilityError) as stored:
            list(context.embed())

    said = f"{query.value} {stored.value} {caplog.text}"
    assert "401 for ***" in said
    assert "canary" not in said


def test_a_slow_embedder_is_waited_for_no_longer_than_its_time(url: str) -> None:
    """Words are delivered, the fallback is a timeout, and closing does not wait for the embedder."""
    gate = threading.Event()

    def slow(request: EmbedRequest) -> list[bytes]:
        gate.wait(30)
        return [_unit([1.0, 0.0, 0.0])]

    embedder = Topics(slow)
    with _open(embedder, url, retrieval={"embedding_timeout_s": 0.02}) as context:
        context.put(_ITEMS)

        prepared = context.prepare("ship in the harbour", scope_id="s", references=["a", "b", "c"])

        assert ["ship"] == _ids(prepared)
        assert "inference_timeout" == prepared.diagnostics.fallback
    gate.set()


def test_a_vector_of_zeros_searches_by_words(topics: tuple[powerctx.Context, Topics]) -> None:
    """A query that the model knows nothing of is no failure, and no search by vector."""
    prepared = topics[0].prepare("taxes", scope_id="s")

    assert ["taxes"] == _ids(prepared)
    assert ("none", ("memory", "fts")) == (prepared.diagnostics.fallback, prepared.diagnostics.modes[0])


def test_a_failure_while_writing_keeps_the_items(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Items are stored without vectors, found by words, and embedded later."""
    embedder = Topics()
    with _open(embedder, url) as context:
        good, embedder.embed = embedder.embed, _boom
        with caplog.at_level(logging.WARNING, "powerctx"):
            results = context.put(_ITEMS)
        assert ["created"] * 4 == [result.outcome for result in results]
        assert "powerctx embed" in caplog.text
        index = context.store.vectors
        assert index is not None
        assert 0 == index.count()
        embedder.embed = good
        assert ["ship"] == _ids(context.prepare("ship harbour", scope_id="s"))
        assert [4] == list(context.embed())
        assert 3 == index.count()
        assert {"ship", "chuan"} == set(_ids(context.prepare("sea", scope_id="s")))


def test_one_bad_vector_does_not_cost_the_others(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """What cannot be embedded stays without a vector and is named; everything else has one."""

    class OneBad(Topics):
        def _vector(self, text: str) -> bytes:
            return struct.pack("<3f", math.nan, 0.0, 0.0) if "ship" in text else super()._vector(text)

    with _open(OneBad(), url) as context:
        context.put(_ITEMS)
        index = context.store.vectors
        assert index is not None
        assert index.count() == 2
        assert list(context.embed()) == [2]
        assert "1 texts stay without vectors" in caplog.text


@pytest.mark.parametrize("answer", [None, [], SystemExit(2), RuntimeError("key=sk-1")], ids=repr)
def test_embedding_what_is_stored_says_why_it_fails(url: str, answer: Any) -> None:
    """An embedder that gives nothing, raises or exits is a capability error of ``embed``."""
    embedder = Topics()
    with _open(embedder, url) as context:
        context.put(_ITEMS, embed=False)

        def embed(request: EmbedRequest) -> Any:
            if isinstance(answer, BaseException):
                raise answer
            return answer

        embedder.embed = embed
        with pytest.raises(CapabilityError, match="The embedder"):
            list(context.embed())


class Mute(BaseException):
    """An error without words that is no ``Exception``."""

    def __str__(self) -> str:
        """Fail."""
        raise SystemExit(2)


@pytest.mark.parametrize(
    ("profile", "says"),
    [
        (None, "is nothing, not an EmbeddingProfile"),
        (
            RuntimeError("no key in https://me:hunter2@host"),
            r"cannot be read: RuntimeError: no key in https://\*\*\*@host",
        ),
        (Mute(), r"cannot be read: Mute \(its text cannot be shown\)"),
        ({"noise": 0.5, "match": 0.5}, "has noise 0.5 and match 0.5; cosines with -1 <= noise < match <= 1"),
        ({"noise": math.nan}, "has the noise nan, not a finite number"),
        ({"dimensions": 0}, "has 0 dimensions, not a whole number from 1 up"),
        ({"dimensions": True}, "has True dimensions"),
        ({"weight": -1.0}, "has the weight -1, which is below 0"),
        ({"languages": "en"}, "has the languages 'en', not a tuple of codes"),
        ({"fingerprint": " "}, "has the fingerprint ' ', not a text that identifies the model"),
    ],
    ids=["none", "raises", "mute", "equal", "nan", "zero", "bool", "weight", "languages", "fingerprint"],
)
def test_a_profile_that_no_model_can_have(profile: Any, says: str) -> None:
    """It is refused when the store is opened, by the name of the embedder and its provider."""

    class Odd(Topics):
        @property
        def profile(self) -> Any:
            """Return, or raise, what is tried."""
            if isinstance(profile, BaseException):
                raise profile
            return profile and attrs.evolve(self._profile, **profile)

    with pytest.raises(powerctx.PluginError, match=rf"^The embedder 'topics' of \(given\): its profile {says}"):
        _open(Odd())


def test_a_profile_is_read_once(url: str) -> None:
    """What an embedder says of itself later changes nothing, and cannot fail a call."""
    embedder = Topics()
    with _open(embedder, url) as context:
        context.put(_ITEMS)
        embedder._profile = None  # type: ignore[assignment]  # as a broken embedder does
        embedder._vector = lambda text: _unit((1.0, 0.0, 0.05))  # type: ignore[method-assign]  # needs the profile
        prepared = context.prepare("harbour", scope_id="s")

    assert "ship" == _ids(prepared)[0]
    assert "none" == prepared.diagnostics.fallback


@pytest.mark.parametrize("made", [0, 2])
def test_a_query_gets_one_vector(url: str, made: int) -> None:
    """Another number of vectors for one text is the embedder's failure; words go on."""
    embedder = Topics(lambda request: [_unit((1.0, 0.0, 0.0))] * made)
    with _open(embedder, url) as context:
        context.put(_ITEMS)
        prepared = context.prepare("ship", scope_id="s")

    assert "ship" == _ids(prepared)[0]
    assert "inference_unavailable" == prepared.diagnostics.fallback


def test_an_embedder_that_hangs_does_not_hold_writing_for_ever(url: str) -> None:
    """``put`` stores the items and gives up on their vectors after ``retrieval.write_embedding_timeout_s``."""
    gate = threading.Event()
    embedder = Topics()
    embedder.embed = lambda request: gate.wait(30)
    with _open(embedder, url, retrieval={"write_embedding_timeout_s": 0.02}) as context:
        assert [result.outcome for result in context.put(_ITEMS)] == ["created"] * 4
    gate.set()


def test_another_model_is_told_in_words(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Words go on with a warning; asking for vectors names both models and the way out; a rebuild settles it."""
    url = f"sqlite:///{tmp_path / 'models.db'}"
    with _open(Topics(), url) as context:
        context.put(_ITEMS)
    with _open(Topics(fingerprint="topics-2", dimensions=4), url) as context:
        assert "searching by words alone" in caplog.text
        prepared = context.prepare("ship harbour", scope_id="s")
        assert (["ship"], "inference_unavailable") == (_ids(prepared), prepared.diagnostics.fallback)
        with pytest.raises(CapabilityError, match=r"topics-1 \(3 dimensions\).*topics-2 \(4 dimensions\).*--rebuild"):
            context.find("ship", scope_id="s", search_type="vector")
        with pytest.raises(CapabilityError, match="--rebuild"):
            context.embed()
        assert [4] == list(context.embed(rebuild=True))
        assert {"ship", "chuan"} == set(_ids(context.prepare("sea", scope_id="s")))


def test_updates_and_retirement_reach_the_vectors_at_once(topics: tuple[powerctx.Context, Topics]) -> None:
    """A changed item is found by its new meaning, a retired one not at all."""
    context, _ = topics

    context.put([Item(scope_id="s", text="The oven is hot.", artifact_id="ship")])
    assert ["chuan"] == _ids(context.prepare("sea", scope_id="s"))
    assert {"bread", "ship"} == set(_ids(context.prepare("flour bread", scope_id="s")))
    context.retire("powerctx://s/memory/chuan")
    assert [] == _ids(context.prepare("sea", scope_id="s"))


def test_putting_again_makes_missing_vectors(topics: tuple[powerctx.Context, Topics]) -> None:
    """What is unchanged and has no vector is embedded when it is put again; what has one is not even asked for."""
    context, embedder = topics
    index = context.store.vectors
    assert index is not None
    late = [Item(scope_id="s", text=f"ship number {n}", artifact_id=f"late{n}") for n in range(3)]
    context.put(late, embed=False)
    embedder.asked.clear()

    assert ["unchanged"] * 7 == [result.outcome for result in context.put([*_ITEMS, *late])]
    # A text of which the model knows nothing has no vector, and is told from one that was missed by asking only.
    assert {*(item.text for item in late), "Taxes are due in May."} == set(embedder.asked)
    assert 6 == index.count()
    embedder.asked.clear()
    context.put([*_ITEMS[:3], *late])
    assert {} == embedder.asked


def test_writing_that_ends_before_its_vectors(url: str) -> None:
    """A batch that was stored and lost its vectors, whatever ended it, gets them from the same put again."""
    embedder = Topics()
    with _open(embedder, url) as context:
        index = context.store.vectors
        assert index is not None
        context.embedding._index = Ended(index)
        with pytest.raises(KeyboardInterrupt):
            context.put(_ITEMS)
        context.embedding._index = index
        assert (4, 0) == (sum(context.partitions().values()), index.count())

        assert ["unchanged"] * 4 == [result.outcome for result in context.put(_ITEMS)]
        assert 3 == index.count()


def test_putting_again_costs_no_statement(tmp_path: Any) -> None:
    """Where nothing is missing, putting again what is there runs as many statements as without its vectors' making."""
    url = f"sqlite:///{tmp_path / 'again.db'}"
    with _open(Topics(), url) as context:
        context.put(_ITEMS[:3])
        run: list[str] = []
        event.listen(Engine, "before_cursor_execute", note := lambda *args: run.append(args[2]))
        try:
            context.embedding.known(_ITEMS[:3])
            context.put(_ITEMS[:3], embed=False)
            apart = list(run)
            run.clear()
            context.put(_ITEMS[:3])
        finally:
            event.remove(Engine, "before_cursor_execute", note)

    assert apart
    assert apart == run


def test_leaving_embedding_for_later(url: str) -> None:
    """``put(embed=False)`` asks no model."""
    embedder = Topics()
    with _open(embedder, url) as context:
        context.put(_ITEMS, embed=False)
        assert 0 == embedder.calls
        assert [] == _ids(context.prepare("sea", scope_id="s"))
        list(context.embed())
        assert 2 == len(_ids(context.prepare("sea", scope_id="s")))


def test_without_an_embedder_vectors_are_refused_and_words_serve() -> None:
    """An explicit wish for vectors names what to open; ``auto`` is words alone."""
    with powerctx.open("memory://", settings={}, plugins=()) as context:
        context.put(_ITEMS)
        assert ("memory", "fts") == context.find("ship", scope_id="s").diagnostics.modes[0]
        with pytest.raises(CapabilityError, match="embedder"):
            context.find("ship", scope_id="s", search_type="vector")
        with pytest.raises(CapabilityError, match="powerctx-local-embed"):
            context.embed()


@pytest.mark.parametrize(
    ("query", "served"),
    [
        ("plain english", True),
        ("中文问题", True),
        ("mixed 中文 and english", True),
        ("日本語のテスト", False),
        ("русский вопрос", False),
        ("한국어", False),
        ("?!", True),
    ],
)
def test_a_model_serves_the_scripts_of_its_languages(query: str, served: bool) -> None:
    """Outside its languages the vector channel has no weight; kana makes Han Japanese."""
    assert served == serves(Topics().profile, query)


def test_an_unserved_query_asks_no_model(topics: tuple[powerctx.Context, Topics]) -> None:
    """The embedder is not even called for a script it was not measured for."""
    context, embedder = topics
    embedder.calls = 0

    assert 0 == context.prepare("русский корабль", scope_id="s").diagnostics.embeddings
    assert 0 == embedder.calls


def test_an_own_weight_of_a_family_is_used(url: str) -> None:
    """``retrieval.vector_weights`` decides how much vectors count beside words."""
    items = [
        Item(scope_id="s", text="bread taxes taxes", artifact_id="words"),
        Item(scope_id="s", text="a ship in harbour", artifact_id="meaning"),
    ]
    first = {}
    for weight in (0.1, 50.0):
        with _open(
            Topics(), url if weight > 1 else "memory://", retrieval={"vector_weights": {"memory": weight}}
        ) as ctx:
            ctx.put(items)
            first[weight] = _ids(ctx.prepare("taxes sea", scope_id="s"))[0]

    assert {0.1: "words", 50.0: "meaning"} == first


def test_a_call_remembers_a_failure_over_texts() -> None:
    """After one failure no further text of the call is sent."""
    workers = Workers(2, "test")
    embedder = Topics(_boom)
    embeddings = QueryEmbeddings(embedder, workers.submit, timeout=5.0, deadline=Deadline())

    assert embeddings("one") is None
    assert embeddings("two") is None
    workers.close()

    assert 1 == embedder.calls
    assert "inference_unavailable" == embeddings.fallback


def test_warming_loads_the_model_once(topics: tuple[powerctx.Context, Topics]) -> None:
    """``warm`` asks the embedder before a turn does, and a model that fails to load leaves the calls to words."""
    context, embedder = topics
    embedder.calls = 0
    context.warm()
    assert embedder.calls == 1

    embedder.embed = _boom
    context.warm()
    assert _ids(context.prepare("ship in the harbour", scope_id="s")) == ["ship"]


def test_a_known_embedder_that_is_not_installed_is_named_with_its_package() -> None:
    """Asking for ``local`` without its package says what to install."""
    with pytest.raises(powerctx.PowerctxError, match="Install powerctx-local-embed"):
        powerctx.open("memory://", settings={}, plugins=(), embedder="local")
