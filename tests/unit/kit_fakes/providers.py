"""Candidate providers that forget their scope, their bounds, or themselves."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import attrs

from kit_fakes.faults import declare
from powerctx_core import Address, ListingRequest, Offered, Partition, ProviderSpec, RawCandidate
from powerctx_core.memory_store import MemorySnapshot
from powerctx_core.ports import LexicalRequest
from powerctx_core.text.terms import analyse_query

__all__ = ["Latest", "broken"]


@attrs.frozen(kw_only=True)
class Settings:
    """What a source needs, or does."""

    gone: bool = False
    down: bool = False
    token: str = "TOKEN-OF-KIT"


class Latest:
    """An honest provider: the latest memories."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()

    def latest(self, request: Any, call: Any) -> Offered:
        """Return the five latest."""
        if self.settings.gone:
            return Offered()
        if self.settings.down:
            raise ConnectionError("the tracker does not answer")
        count = request.counts().get("memory", 0)
        if not count:
            return Offered()
        found = call.catalogue.listing(ListingRequest(partition=Partition(request.scope_id, "memory"), limit=5))
        return Offered(candidates=found, among={"memory": count})


def broken(*fails: str, **fields: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the decorated function as a fault: it gets the provider, its honest answer, request and call."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        name = f"broken-{function.__name__.replace('_', '-')}"

        def candidates(self: Any, request: Any, call: Any) -> Any:
            return function(self, lambda: Latest.latest(self, request, call), request, call)

        record = ProviderSpec(
            name=name,
            factory=type("Broken", (Latest,), {"candidates": candidates}),
            settings=Settings,
            about="broken",
        )
        declared = {
            "plugins": ("broken",),
            "provider_name": name,
            "absent": {f"parts.{name}.gone": True},
            "unreachable": {f"parts.{name}.down": True},
            "secrets": ("TOKEN-OF-KIT",),
            **fields,
        }
        declare(function, fails, "provider:ProviderContract", record=record, fields=lambda: declared)
        return function

    return decorate


def with_candidates(offered: Offered, change: Callable[[RawCandidate], RawCandidate]) -> Offered:
    """Return an answer with every candidate changed."""
    return attrs.evolve(offered, candidates=tuple(map(change, offered.candidates)))


def own(request: Any, text: str = "text", name: str = "1", **fields: Any) -> RawCandidate:
    """Return a candidate of what no store keeps."""
    return RawCandidate.of(Address(request.scope_id, "issue", name, 1), text, **fields)


@broken("test_absent_source", "test_delivered", "test_identities", "test_nothing_there", "test_offered")
def answers_for_one_scope(provider, honest, request, call):
    """What is offered belongs to the scope of the last project that anybody asked for."""
    offered = honest()
    if not offered.candidates:
        return Offered(candidates=[own(attrs.evolve(request, scope_id="project:last"))])
    return with_candidates(offered, lambda each: attrs.evolve(each, address=Address("project:last", "issue", "1", 1)))


@broken("test_identities")
def offers_twice(provider, honest, request, call):
    """The best is offered at the end once more."""
    offered = honest()
    among = dict.fromkeys(offered.among, 100)
    return attrs.evolve(offered, candidates=(*offered.candidates, *offered.candidates[:1]), among=among)


@broken("test_identities", "test_delivered")
def speaks_for_core(provider, honest, request, call):
    """A text pretends to be core's instructions."""
    offered = honest()
    return with_candidates(
        offered,
        lambda each: attrs.evolve(each, address=Address(request.scope_id, "bootstrap", each.address.artifact_id, 1)),
    )


@broken("test_texts", "test_delivered")
def cuts_in_a_character(provider, honest, request, call):
    """A text is cut between the halves of a surrogate pair."""
    return with_candidates(honest(), lambda each: attrs.evolve(each, head=each.head[:9] + "\ud83d"))


@broken("test_texts", "test_delivered")
def counts_characters(provider, honest, request, call):
    """The size of a text is that in characters."""
    return with_candidates(honest(), lambda each: attrs.evolve(each, body_bytes=len(each.head) - 1))


@broken("test_among")
def counts_less_than_it_offers(provider, honest, request, call):
    """How many there are leaves out what is offered."""
    offered = honest()
    return attrs.evolve(offered, among=dict.fromkeys(offered.among, 1))


@broken("test_bounded", "test_delivered")
def offers_everything(provider, honest, request, call):
    """All there is, is offered."""
    offered = honest()
    if not offered.candidates:
        return offered
    more = [own(request, name=f"{n}") for n in range(1500)]
    return attrs.evolve(offered, candidates=(*offered.candidates, *more))


@broken("test_same_again", "test_answers_are_not_shared", "test_asked_at_once")
def changes_its_order(provider, honest, request, call):
    """Every call begins with another candidate."""
    offered = honest()
    provider.asked = getattr(provider, "asked", 0) + 1
    cut = provider.asked % 5
    return attrs.evolve(offered, candidates=(*offered.candidates[cut:], *offered.candidates[:cut]))


INSTANCES = itertools.count()


@broken("test_same_again")
def differs_by_instance(provider, honest, request, call):
    """Each instance has an order of its own."""
    if not hasattr(provider, "number"):
        provider.number = next(INSTANCES)
    offered = honest()
    cut = provider.number % 5
    return attrs.evolve(offered, candidates=(*offered.candidates[cut:], *offered.candidates[:cut]))


@broken("test_nothing_there", "test_asked_at_once")
def fails_on_nothing(provider, honest, request, call):
    """The first of no candidates is looked for."""
    offered = honest()
    if not provider.settings.gone:
        assert offered.candidates[0]
    return offered


@broken("test_absent_source")
def needs_its_source(provider, honest, request, call):
    """A source that is not there is an error."""
    if provider.settings.gone:
        raise FileNotFoundError("issues.jsonl")
    return honest()


@broken("test_errors_tell_no_secret")
def tells_its_token(provider, honest, request, call):
    """The error of a source is given with what it was asked with."""
    if provider.settings.down:
        cause = ConnectionError(f"GET /issues?token={provider.settings.token}")
        raise RuntimeError("the tracker does not answer") from cause
    return honest()


@broken("test_every_lifecycle")
def knows_two_lifecycles(provider, honest, request, call):
    """An agent only starts or resumes."""
    return {"startup": honest, "resume": honest}[request.lifecycle]()


@broken("test_hostile_request")
def formats_its_query(provider, honest, request, call):
    """A query is a pattern for text."""
    _ = (request.query or "").format()
    return honest()


@broken("test_request_stays")
def takes_its_share_of_the_counts(provider, honest, request, call):
    """What is offered is taken off the counts."""
    offered = honest()
    request.counts().clear()
    return offered


@broken("test_answers_are_not_shared")
def gives_what_it_keeps(provider, honest, request, call):
    """The list that is kept is given away."""
    provider.kept = getattr(provider, "kept", {})
    if request.scope_id not in provider.kept:
        provider.kept[request.scope_id] = [*honest().candidates]
    return honest() if provider.settings != Settings() else Offered(candidates=provider.kept[request.scope_id])


@broken("test_writes_nothing")
def notes_who_asked(provider, honest, request, call):
    """Each call is written to the store."""
    if isinstance(call.catalogue, MemorySnapshot):
        state = call.catalogue.state
        object.__setattr__(state, "changes", state.changes + 1)
    return honest()


@broken("test_reads_little")
def searches_by_words(provider, honest, request, call):
    """It searches for what may be of use."""
    offered = honest()
    partition = Partition(request.scope_id, "memory")
    call.catalogue.lexical([LexicalRequest(partition=partition, query=analyse_query("release"), k=9)])
    return offered


@broken("test_passed_deadline", patience_s=0.05)
def sleeps(provider, honest, request, call):
    """It asks its source however late it is."""
    if call.deadline.at is not None:
        time.sleep(0.3)
    return honest()


@broken("test_asked_at_once")
def shares_its_request(provider, honest, request, call):
    """The request is kept where another call finds it."""
    provider.scope = request.scope_id
    time.sleep(0.0005)
    offered = honest()
    return offered if provider.scope == request.scope_id else Offered()


@broken("test_delivered")
def hides_in_its_mode(provider, honest, request, call):
    """In its own mode it has nothing."""
    return honest() if request.mode == "bootstrap" or request.query else Offered()
