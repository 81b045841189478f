"""Core's candidate providers: what the slots of the bootstrap manifest are filled with.

None searches, embeds or calls a model: each makes at most one listing a family.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import attrs

from powerctx_core.ports import Call, JoinedListings, ListingRequest, Offered, ProviderRequest, Snapshot
from powerctx_core.records import NoSettings
from powerctx_core.text.cut import ELLIPSIS, cut_to_bytes, derived_abstract
from powerctx_core.types import Address, Filters, Partition, RawCandidate

__all__ = [
    "NOTES",
    "EventSettings",
    "Guide",
    "LatestProfile",
    "ListingSettings",
    "RecentEvents",
    "RecentItems",
    "SessionLog",
    "note",
]

GUIDE = (
    "What is known here, as of now. A uri names an item: read it to see all of it. detail says how much stands here: "
    "abstract, a summary; overview, an outline; cut, the beginning; nothing, all. Search for what is not shown."
)
"""How to use a pack; at most 447 bytes, so that it stands for itself."""
NOTES = "bootstrap"
"""Family of what is shown and kept nowhere."""
_TOKENS_A_LINE = 16
"""Fewer than any listed item takes."""
_LINE_BYTES = 200
_PEERS = 4
"""How many times the events that are wanted are looked through for those of the actor."""


def note(scope_id: str, name: str, text: str) -> RawCandidate:
    """Return a candidate that is a text alone."""
    return RawCandidate.of(Address(scope_id, NOTES, name, 1), text, kind="note")


class LatestProfile:
    """Who or what the scope is about."""

    def __init__(self, settings: NoSettings | None = None) -> None:
        del settings

    def candidates(self, request: ProviderRequest, call: Call) -> Offered:
        """Return the latest profile."""
        if not request.counts().get("profile"):
            return Offered()
        partition = Partition(request.scope_id, "profile")
        return Offered(candidates=call.catalogue.listing(ListingRequest(partition=partition, limit=1)))


@attrs.frozen(kw_only=True)
class EventSettings:
    """What counts as recent.

    Attributes:
        days: how far back events are looked for, 1..3650.
        limit: how many there are at most, 1..50.
        others: share of them, 0..1, that may be of others than the actor, where one is named.
    """

    days: int = attrs.field(default=14, validator=[attrs.validators.ge(1), attrs.validators.le(3650)])
    limit: int = attrs.field(default=10, validator=[attrs.validators.ge(1), attrs.validators.le(50)])
    others: float = attrs.field(default=0.2, validator=[attrs.validators.ge(0.0), attrs.validators.le(1.0)])


class RecentEvents:
    """What is going on."""

    def __init__(self, settings: EventSettings | None = None) -> None:
        self.settings = settings or EventSettings()

    def candidates(self, request: ProviderRequest, call: Call) -> Offered:
        """Return the events of the last days, newest first."""
        if not request.counts().get("memory"):
            return Offered()
        limit = self.settings.limit
        filters = Filters(category="events", since=request.now - timedelta(days=self.settings.days))
        listing = ListingRequest(
            partition=Partition(request.scope_id, "memory"),
            limit=limit if request.actor is None else _PEERS * limit,
            filters=filters,
        )
        found = call.catalogue.listing(listing)
        return Offered(candidates=found if request.actor is None else self._mixed(found, request))

    def _mixed(self, found: tuple[RawCandidate, ...], request: ProviderRequest) -> list[RawCandidate]:
        """Return events of the actor and of nobody, and of others as many as their share, or as there is place for."""
        limit = self.settings.limit
        own = [place for place, each in enumerate(found) if each.origin in (None, request.actor)]
        others = [place for place, each in enumerate(found) if each.origin not in (None, request.actor)]
        if request.peer_scope == "actor":
            others = []
        allowed = max(round(self.settings.others * limit), limit - len(own))
        taken = others[:allowed]
        return [found[place] for place in sorted([*own[: limit - len(taken)], *taken])]


class SessionLog:
    """Where the session stopped."""

    def __init__(self, settings: NoSettings | None = None) -> None:
        del settings

    def candidates(self, request: ProviderRequest, call: Call) -> Offered:
        """Return the overview of the session, and the abstracts of its parts, newest first."""
        del call
        session = request.session()
        if session is None:
            return Offered()
        texts = [*([("overview", session.overview)] if session.overview else [])]
        texts += [(f"part-{number}", text) for number, text in enumerate(session.abstracts, 1)][::-1]
        return Offered(candidates=[note(request.scope_id, name, text) for name, text in texts])


@attrs.frozen(kw_only=True)
class ListingSettings:
    """What is listed.

    Attributes:
        families: kinds of evidence; each costs one listing.
        limit: how many items there are at most, 1..1000.
    """

    families: tuple[str, ...] = ("memory", "resource", "skill")
    limit: int = attrs.field(default=50, validator=[attrs.validators.ge(1), attrs.validators.le(1000)])


class RecentItems:
    """What else there is."""

    def __init__(self, settings: ListingSettings | None = None) -> None:
        self.settings = settings or ListingSettings()

    def candidates(self, request: ProviderRequest, call: Call) -> Offered:
        """Return items by name and a line, the most recently updated first."""
        counts = request.counts()
        among = {name: counts[name] for name in self.settings.families if counts.get(name)}
        limit = min(self.settings.limit, request.max_tokens // _TOKENS_A_LINE)
        asked = [ListingRequest(partition=Partition(request.scope_id, name), limit=limit) for name in among]
        found = [each for listed in _listings(call.catalogue, asked) for each in listed]
        found.sort(key=lambda each: each.updated_at, reverse=True)
        return Offered(candidates=[_line(each) for each in found[:limit]], detail="abstract", among=among)


def _listings(view: Snapshot, asked: Sequence[ListingRequest]) -> Sequence[tuple[RawCandidate, ...]]:
    """Return what is asked for, with one read where the view can do that."""
    if len(asked) > 1 and isinstance(view, JoinedListings):
        return view.listings(asked)
    return [view.listing(each) for each in asked]


def _line(candidate: RawCandidate) -> RawCandidate:
    """Return the candidate with an abstract of one line."""
    text = " ".join((candidate.abstract or derived_abstract(candidate.head)).split())
    short = cut_to_bytes(text, _LINE_BYTES, sentences=False)
    line = short if short == text else f"{short}{ELLIPSIS}"
    return candidate if line == candidate.abstract else attrs.evolve(candidate, abstract=line)


class Guide:
    """How to use what is shown."""

    def __init__(self, settings: NoSettings | None = None) -> None:
        del settings

    def candidates(self, request: ProviderRequest, call: Call) -> Offered:
        """Return the same text each time."""
        del call
        return Offered(candidates=[note(request.scope_id, "guide", GUIDE)], whole=True)
