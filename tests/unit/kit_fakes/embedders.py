"""Embedders that mix up, forget, or keep others waiting."""

from __future__ import annotations

import itertools
import os
import random
import socket
import threading
import time
from array import array
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import attrs

from kit_fakes.faults import declare
from powerctx_core import EmbedderSpec
from powerctx_core.hash_embed import HashEmbedder, HashSettings
from powerctx_core.ports import EmbedRequest
from powerctx_core.types import Deadline

__all__: list[str] = []


def fields(name: str) -> dict[str, Any]:
    """Return what the subclass of the contract declares."""
    import pytest

    return {
        "plugins": ("broken",),
        "patience_s": 2.0,
        "embedder_name": pytest.fixture(lambda self: f"broken-{name}"),
    }


class Whole(HashEmbedder):
    """An honest embedder, of which the faults are made."""

    def __init__(self, settings: Any = None) -> None:
        super().__init__(HashSettings())


def broken(*fails: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the decorated function as a fault: it gets the embedder, its honest method and the request."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        def embed(self: Any, request: EmbedRequest) -> Any:
            return function(self, partial(Whole.embed, self), request)

        return offered(function, fails, {"embed": embed})

    return decorate


def profiled(*fails: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the decorated function as a fault: it gets the embedder and its honest profile."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        honest = HashEmbedder.profile.fget
        assert honest is not None
        return offered(function, fails, {"profile": property(lambda self: function(self, honest(self)))})

    return decorate


def offered(function: Callable[..., Any], fails: tuple[str, ...], changes: dict[str, Any]) -> Callable[..., Any]:
    """Declare the fault of an embedder with *changes*."""
    name = function.__name__.replace("_", "-")
    record = EmbedderSpec(name=f"broken-{name}", factory=type("Broken", (Whole,), changes), about="broken")
    declare(function, fails, "embedder:EmbedderContract", record=record, fields=partial(fields, name))
    return function


@broken("test_alone_as_beside_others", "test_callers_at_once", "test_in_order")
def sorts_texts(embedder, honest, request):
    """Vectors come in the order of the alphabet."""
    texts = request.texts
    return honest(
        request if len(set(texts)) < max(8, len(texts)) else attrs.evolve(request, texts=tuple(sorted(texts)))
    )


@broken(
    "test_hostile_texts",
    "test_others_after_a_close",
    "test_passed_deadline_unloaded",
    "test_purposes",
    "test_unit_length",
)
def does_not_normalise(embedder, honest, request):
    """Vectors are not of unit length."""
    return [array("f", (2 * value for value in array("f", vector))).tobytes() for vector in honest(request)]


@broken("test_alone_as_beside_others", "test_hostile_texts", "test_no_content")
def pads_batches(embedder, honest, request):
    """A text beside a long one has another vector."""
    longest = max(map(len, request.texts), default=0)
    return honest(attrs.evolve(request, texts=tuple(f"{t} pad" if len(t) * 9 < longest else t for t in request.texts)))


@broken("test_callers_at_once", "test_same_in_another_instance", "test_same_text_again", "test_vectors_are_not_shared")
def is_random(embedder, honest, request):
    """Who asks for the same again gets other vectors."""
    last, embedder.last = getattr(embedder, "last", None), request.texts
    if last != request.texts or len(last) < 8:
        return honest(request)
    return [
        array("f", random.sample(list(array("f", vector)), len(vector) // 4)).tobytes() for vector in honest(request)
    ]


@broken("test_one_for_each")
def stops_at_sixty_four(embedder, honest, request):
    """A batch has at most 64 texts."""
    return honest(request)[:64]


@broken("test_duplicates", "test_hostile_texts")
def drops_duplicates(embedder, honest, request):
    """A text that comes twice has one vector."""
    return honest(attrs.evolve(request, texts=tuple(dict.fromkeys(request.texts))))


@broken("test_dimensions", "test_hostile_texts", "test_no_content")
def one_more_value(embedder, honest, request):
    """A vector of zeros has one more than the profile says."""
    return [vector if any(vector) else vector + bytes(4) for vector in honest(request)]


@broken("test_hostile_texts", "test_one_for_each")
def gives_two_for_one(embedder, honest, request):
    """A text that comes alone has two vectors."""
    return honest(request) * (2 if len(request.texts) == 1 else 1)


COUNT = itertools.count()


@profiled("test_profile_stable")
def profile_counts(embedder, profile):
    """The fingerprint changes whenever it is asked."""
    return attrs.evolve(profile, fingerprint=f"model-{next(COUNT)}")


def noted(*fails: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the decorated function as a fault of the profile, which knows the last request, ``embedder.asked``."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        honest = HashEmbedder.profile.fget
        assert honest is not None

        def embed(self: Any, request: EmbedRequest) -> Any:
            self.asked = request
            return Whole.embed(self, request)

        profile = property(lambda self: function(getattr(self, "asked", None), honest(self)))
        return offered(function, fails, {"profile": profile, "embed": embed})

    return decorate


@noted("test_profile_stable")
def profile_of_the_loaded(asked, profile):
    """The fingerprint becomes another one when the model is loaded."""
    return attrs.evolve(profile, fingerprint="model" if asked is None else "model-1.1")


@noted("test_profile_stable")
def profile_raises_when_late(asked, profile):
    """The profile cannot be read once a deadline has passed."""
    if asked is not None and asked.deadline.passed:
        raise RuntimeError("model is gone")
    return profile


@profiled("test_profile_fingerprint_elsewhere")
def profile_of_a_process(embedder, profile):
    """The fingerprint is that of the process."""
    return attrs.evolve(profile, fingerprint=f"model-{os.getpid()}")


@profiled("test_profile_fingerprint")
def profile_has_lines(embedder, profile):
    """The fingerprint ends in a newline."""
    return attrs.evolve(profile, fingerprint=profile.fingerprint + "\n")


@profiled("test_profile_languages")
def profile_has_names(embedder, profile):
    """Languages are named, not coded."""
    return attrs.evolve(profile, languages=("English",))


@profiled("test_related_above_noise")
def noise_is_high(embedder, profile):
    """The anchors are those of another model."""
    return attrs.evolve(profile, noise=0.97, match=0.99)


@broken("test_no_content")
def nothing_is_something(embedder, honest, request):
    """A text without anything has the vector of a word."""
    return honest(attrs.evolve(request, texts=tuple(text if text.strip() else "nothing" for text in request.texts)))


@broken("test_hostile_texts", "test_request_is_left_alone")
def fears_nul(embedder, honest, request):
    """NUL is an error."""
    if any("\0" in text for text in request.texts):
        raise ValueError("embedded null byte")
    return honest(request)


@broken("test_long_text")
def refuses_long_texts(embedder, honest, request):
    """A text that is longer than the model reads is refused."""
    if any(len(text) > 100_000 for text in request.texts):
        raise ValueError("maximum context length is 8192 tokens")
    return honest(request)


@broken("test_purposes", "test_related_above_noise", "test_related_above_unrelated")
def knows_documents(embedder, honest, request):
    """Queries are refused."""
    if request.purpose != "document":
        raise ValueError("unknown purpose")
    return honest(request)


@broken("test_passed_deadline", "test_passed_deadline_unloaded")
def ignores_deadlines(embedder, honest, request):
    """Deadlines are not looked at."""
    return honest(attrs.evolve(request, deadline=Deadline(), texts=request.texts[:1000]))


@broken("test_deadline_on_the_way")
def looks_once(embedder, honest, request):
    """The deadline is looked at once, before all."""
    if len(request.texts) > 1000:
        time.sleep(4)
    return honest(request)


@broken("test_callers_at_once")
def shares_its_state(embedder, honest, request):
    """The texts of a call are kept where another call finds them."""
    embedder.texts = request.texts
    if len(request.texts) > 1:
        time.sleep(0.001)
    return honest(attrs.evolve(request, texts=embedder.texts))


@broken("test_first_callers_at_once")
def loads_twice(embedder, honest, request):
    """Who asks while the model is loaded is refused."""
    if not hasattr(embedder, "loaded"):
        if hasattr(embedder, "loading"):
            raise RuntimeError("model is not loaded")
        embedder.loading = True
        time.sleep(0.05)
        embedder.loaded = True
    return honest(request)


@broken("test_request_is_left_alone")
def cleans_what_is_given(embedder, honest, request):
    """The texts of a request are cleaned where they are."""
    object.__setattr__(request, "texts", tuple(text.replace("\0", " ") for text in request.texts))
    return honest(request)


@broken("test_vectors_are_not_shared")
def gives_its_cache(embedder, honest, request):
    """The cached list itself is given out."""
    cache = embedder.__dict__.setdefault("cache", {})
    if request.deadline.passed:
        return honest(request)
    if request.texts not in cache:
        cache[request.texts] = honest(request)
    return cache[request.texts]


@profiled("test_embedder_port")
def profile_is_something_else(embedder, profile):
    """The profile is an object of its own kind."""
    return SimpleNamespace(**{field.name: getattr(profile, field.name) for field in attrs.fields(type(profile))})


@profiled("test_profile_cheap")
def profile_loads_the_model(embedder, profile):
    """Reading the profile starts the threads of the model."""
    if threading.active_count() < 2:
        threading.Thread(target=time.sleep, args=(3,), daemon=True).start()
    return profile


@profiled("test_profile_anchors")
def profile_is_unmeasured(embedder, profile):
    """The anchors say nothing."""
    object.__setattr__(profile, "noise", 0.0)
    object.__setattr__(profile, "match", 0.0)
    return profile


@profiled("test_profile_weight")
def profile_weighs_nothing(embedder, profile):
    """The weight is below zero."""
    object.__setattr__(profile, "weight", -1.0)
    return profile


@broken("test_same_in_another_process")
def hashes_as_python(embedder, honest, request):
    """Vectors hang on Python's own hash of a string."""
    turn = hash("turn") % 64 * 4
    return [vector[turn:] + vector[:turn] for vector in honest(request)]


@broken("test_no_network")
def asks_the_hub(embedder, honest, request):
    """The first call asks a server whether the model is the newest."""
    if not hasattr(embedder, "asked"):
        embedder.asked = True
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection, suppress(OSError):
            connection.connect(("192.0.2.1", 443))
    return honest(request)


def closes_once(embedder):
    """A second close is an error."""
    if hasattr(embedder, "closed"):
        raise RuntimeError("closed already")
    embedder.closed = True


offered(closes_once, ("test_closed_twice",), {"close": closes_once})
