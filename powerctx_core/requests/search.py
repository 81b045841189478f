"""The request of ``search``, and the defaults of ``recall``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

import attrs

from powerctx_core.errors import CapabilityError, InvalidRequest, shown
from powerctx_core.requests.checks import (
    FIND_LIMIT,
    FIND_LIMIT_MAX,
    MAX_TOKENS,
    MIN_TOKENS,
    check_choice,
    check_delivery,
    check_flag,
    check_named,
    check_share,
    check_whole,
    checked_names,
)
from powerctx_core.requests.conditions import Place, place_of
from powerctx_core.requests.find import FindRequest
from powerctx_core.types import (
    DETAIL_CHOICES,
    LIFECYCLES,
    QUOTA_MAX,
    SHORT_TEXT_BYTES,
    SHOWN,
    TRIMS,
    SessionKey,
    check_identifier,
)

__all__ = ["SEARCH_MODES", "SearchRequest", "recall_parameters"]

SEARCH_MODES = ("list", "context", "bootstrap")
"""Modes that are built in; each candidate provider has one of its own name."""
DEFAULT_MAX_TOKENS = 1600
DEFAULT_THRESHOLD = 0.1
DEFAULT_RENDERER = "flat-xml"
DEDUP_TURNS_MAX = 100
EXCLUDED_MAX = 200
BULLETS_MAX = 20
TURN_MAX = 1_000_000
EXPANSIONS = ("auto", "off")
PEER_SCOPES = ("all", "actor")

_ASSEMBLY = (
    *("max_tokens", "quotas", "purpose", "detail", "dedup_turns", "exclude_uris", "turn", "renderer", "envelope"),
    *("delivery", "inject_max_tokens"),
    *("show", "trim", "gate", "actor", "peer_scope", "other_peer_penalty", "rewrite", "rewrite_max_bullets"),
    *("include_receipt", "receipt_version", "bootstrap_exclude"),
)
_LISTING = ("target_uri", "level")
_OFFERED = (
    *("scope_id", "mode", "lifecycle", "session_id", "turn", "dedup_turns", "max_tokens", "exclude_uris", "actor"),
    *("peer_scope", "renderer", "envelope", "deadline_ms", "on_family_error", "include_receipt", "receipt_version"),
)
"""Parameters of a pack of what providers offer."""


@attrs.define(frozen=True, kw_only=True, slots=False)
class SearchRequest:
    """Ask for related items: as a list, or as a pack that can be used as it is.

    A parameter that is ``None`` was not given.

    Args:
        query, scope_id, references, families, categories, tags, since, until, time_field, filter, search_type, policy,
            deadline_ms, on_family_error: as of :class:`FindRequest`.
        mode: ``list``, what ``find`` gives; ``context``, a pack of entries, text and figures inside *max_tokens*;
            ``bootstrap``, a pack of what an agent should know when it starts, without a query; or the name of a
            candidate provider, for a pack of what it offers.
        limit: 1..1000 entries; 10 in a list, in a pack none but the ceilings of candidates.
        score_threshold: least ``match`` of an entry, 0..1; none in a list, 0.1 in a pack.
        target_uri, level: as of :class:`FindRequest`, lists alone.
        image: bytes or URL of an image to search by, with an embedder that takes images.
        session_id: the session, of this scope; see :class:`powerctx_core.types.Session`.
        query_expansion: ``auto`` asks the configured generator for further queries; ``off`` does not.
        max_tokens: 64..32000, of the whole text; 1600.  Of a split delivery, of text and list together.
        delivery: ``inject`` puts everything into the text; ``split`` puts only what is stable there (layers L2 and L3)
            and lists the rest in ``tools``, a line each, to be read on demand.
        inject_max_tokens: 64..32000, a further budget of the text alone, when delivery is split.
        quotas: bucket -> entries, 0..1000; switches sampling by buckets on, and *limit* off.
        purpose: a purpose of the settings, ``chat`` or ``coding``: quotas, and the share of the budget for events.
        detail: what every entry shows at most, or exactly: ``auto`` begins wide and goes deep where there is room,
            ``abstract``, ``overview`` and ``full`` pin it; or a mapping of buckets to these, which alone raises
            resources and skills above their abstract.
        dedup_turns: 0..100; with a session, what was delivered in this many user turns before is left out.
        turn: 0..1000000, a number that grows by one with every turn, for clients that record no messages.
        exclude_uris: at most 200, whole or relative to *scope_id*; a URI excludes every revision, and what lies below
            it.
        renderer: name of an installed text form; ``flat-xml``.
        envelope: false leaves the envelope around the text to the caller.
        show: what to show of each entry beside its identity, such as ``score``.
        trim: ``rank`` or ``value``, as of :class:`PrepareRequest`.
        gate: as of :class:`PrepareRequest`; a pack of what is good enough, or of what a lower floor admits beside it.
        actor: who asks; items of another origin stand behind, by *other_peer_penalty*.
        peer_scope: ``all``, or ``actor`` for items of the actor and of nobody.
        other_peer_penalty: 0..1, subtracted from the order of items of others, or bucket -> penalty; 0.1 for events
            and entities, 0.02 else.
        lifecycle: why an agent asks what it should know: ``startup``, ``resume``, ``compact`` or ``clear``; startup.
        bootstrap_exclude: with a session, what was delivered in mode ``bootstrap`` the last time is left out.
        rewrite: ``false``, ``auto`` or ``true``; the last needs a generator.
        rewrite_max_bullets: 1..20.
        include_receipt: say in the answer's ``receipt`` what it was made of and why; false is as if it were not given.
        receipt_version: 2, the only one that tells of searches.

    Raises:
        InvalidRequest: a field is outside its limits or has no meaning in the mode; ``error.field`` names it.
        CapabilityError: an image or a rewrite is asked for, which no installed part can do.
    """

    query: str | None = None
    scope_id: str
    mode: str = "list"
    references: tuple[str, ...] = ()
    families: tuple[str, ...] | None = None
    categories: tuple[str, ...] = ()
    limit: int | None = None
    score_threshold: float | None = None
    tags: tuple[str, ...] = ()
    filter: Mapping[str, Any] = attrs.field(factory=dict)
    since: datetime | None = None
    until: datetime | None = None
    time_field: str = "updated"
    search_type: str | None = None
    target_uri: str | None = None
    level: str | None = None
    image: str | bytes | None = None
    policy: str | None = None
    session_id: str | None = None
    query_expansion: str = "auto"
    max_tokens: int | None = None
    delivery: str | None = None
    inject_max_tokens: int | None = None
    quotas: Mapping[str, int] | None = None
    purpose: str | None = None
    detail: str | Mapping[str, str] | None = None
    dedup_turns: int | None = None
    turn: int | None = None
    exclude_uris: tuple[str, ...] | None = None
    renderer: str | None = None
    envelope: bool | None = None
    show: tuple[str, ...] | None = None
    trim: str | None = None
    gate: str | None = None
    actor: str | None = None
    peer_scope: str | None = None
    other_peer_penalty: float | Mapping[str, float] | None = None
    lifecycle: str | None = None
    bootstrap_exclude: bool | None = None
    rewrite: bool | str | None = None
    rewrite_max_bullets: int | None = None
    deadline_ms: int | None = None
    on_family_error: str | None = None
    include_receipt: bool | None = None
    receipt_version: int | None = None

    def __attrs_post_init__(self) -> None:
        check_named("mode", self.mode)
        check_flag("include_receipt", self.include_receipt)
        object.__setattr__(self, "include_receipt", self.include_receipt or None)
        self._check_mode()
        # Every field that both have is checked there, in the same words.
        for name in ("references", "families", "categories", "tags", "filter"):
            object.__setattr__(self, name, getattr(self.retrieval, name))
        if self.session_id is not None:
            SessionKey(self.scope_id, self.session_id)
        check_choice("query_expansion", self.query_expansion, EXPANSIONS)
        self._check_assembly()
        self._check_peers()
        if self.receipt_version is not None and (type(self.receipt_version) is not int or self.receipt_version != 2):
            raise InvalidRequest(
                f"receipt_version is {shown(self.receipt_version)}; receipts of a search are of version 2 alone: leave "
                "it out.",
                field="receipt_version",
            )
        self._check_models()

    def _check_mode(self) -> None:
        """Refuse what has no meaning in the mode."""
        if self.offered:
            allowed = _OFFERED if self.mode == "bootstrap" else (*_OFFERED, "query")
            for field in attrs.fields(SearchRequest):
                # The one default that is made is an empty mapping.
                default = {} if field.name == "filter" else field.default
                if field.name not in allowed and getattr(self, field.name) != default:
                    raise InvalidRequest(
                        f"{field.name} has no meaning in mode {self.mode}; leave it out.", field=field.name
                    )
            return
        if self.query is None:
            raise InvalidRequest(f"query is missing: mode {self.mode} needs one.", field="query")
        if self.lifecycle is not None:
            raise InvalidRequest(
                f"lifecycle has no meaning in mode {self.mode}; it is for mode bootstrap.", field="lifecycle"
            )
        for name in _ASSEMBLY if self.mode == "list" else _LISTING:
            if getattr(self, name) is not None:
                other = "context" if self.mode == "list" else "list"
                raise InvalidRequest(f"{name} has no meaning in mode {self.mode}; it is for mode {other}.", field=name)

    @property
    def offered(self) -> bool:
        """Whether providers are asked, instead of a search."""
        return self.mode not in ("list", "context")

    @property
    def retrieval(self) -> FindRequest:
        """What is to be found, as ``find`` is asked for it."""
        return FindRequest(
            # What has no query is checked in the same words.
            query=self.mode if self.query is None else self.query,
            scope_id=self.scope_id,
            references=self.references,
            families=self.families,
            limit=FIND_LIMIT if self.limit is None else self.limit,
            tags=self.tags,
            since=self.since,
            until=self.until,
            time_field=self.time_field,
            categories=self.categories,
            filter=self.filter,
            score_threshold=self.score_threshold,
            target_uri=self.target_uri,
            level="all" if self.level is None else self.level,
            search_type=self.search_type,
            policy=self.policy,
            deadline_ms=self.deadline_ms,
            on_family_error=self.on_family_error,
        )

    @property
    def excluded(self) -> tuple[Place, ...]:
        """What *exclude_uris* names."""
        return tuple(place_of("exclude_uris", uri, self.scope_id) for uri in self.exclude_uris or ())

    def _check_assembly(self) -> None:
        check_whole("limit", self.limit, 1, FIND_LIMIT_MAX)
        check_whole("max_tokens", self.max_tokens, MIN_TOKENS, MAX_TOKENS)
        check_delivery(self.delivery, self.inject_max_tokens)
        check_whole("dedup_turns", self.dedup_turns, 0, DEDUP_TURNS_MAX)
        check_whole("turn", self.turn, 0, TURN_MAX)
        if self.session_id is None:
            for name in ("dedup_turns", "turn", "bootstrap_exclude"):
                if getattr(self, name):
                    raise InvalidRequest(f"{name} has no meaning without a session; pass session_id too.", field=name)
        check_named("purpose", self.purpose, optional=True)
        check_named("renderer", self.renderer, optional=True)
        self._map("quotas", lambda field, value: check_whole(field, value, 0, QUOTA_MAX, optional=False))
        if isinstance(self.detail, Mapping):
            self._map("detail", lambda field, value: check_choice(field, value, DETAIL_CHOICES))
        elif self.detail is not None:
            check_choice("detail", self.detail, DETAIL_CHOICES)
        if self.lifecycle is not None:
            check_choice("lifecycle", self.lifecycle, LIFECYCLES)
        check_flag("envelope", self.envelope)
        check_flag("bootstrap_exclude", self.bootstrap_exclude)
        if self.trim is not None:
            check_choice("trim", self.trim, TRIMS)
        check_named("gate", self.gate, optional=True)
        for name, most in (("show", None), ("exclude_uris", EXCLUDED_MAX)):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, checked_names(name, getattr(self, name), limit=most))
        if unknown := [name for name in self.show or () if name not in SHOWN]:
            raise InvalidRequest(f"show names {shown(unknown[0])}; it can be {', '.join(SHOWN)}.", field="show")
        _ = self.excluded

    def _check_peers(self) -> None:
        if self.actor is not None:
            check_identifier("actor", self.actor, SHORT_TEXT_BYTES)
        if self.peer_scope is not None:
            check_choice("peer_scope", self.peer_scope, PEER_SCOPES)
            if self.peer_scope == "actor" and self.actor is None:
                raise InvalidRequest("peer_scope actor needs an actor.", field="peer_scope")
        if isinstance(self.other_peer_penalty, Mapping):
            self._map("other_peer_penalty", lambda field, value: check_share(field, value, optional=False))
        else:
            check_share("other_peer_penalty", self.other_peer_penalty)

    def _check_models(self) -> None:
        check_whole("rewrite_max_bullets", self.rewrite_max_bullets, 1, BULLETS_MAX)
        if self.rewrite is not None and not isinstance(self.rewrite, bool) and self.rewrite != "auto":
            raise InvalidRequest(f"rewrite is {shown(self.rewrite)}; it must be true, false or auto.", field="rewrite")
        if self.rewrite is True:
            raise CapabilityError("rewrite needs a generator, and none is installed; leave it out, or let it be auto.")
        if self.image is not None:
            raise CapabilityError("image needs an embedder that takes images, and none is installed; leave it out.")

    def _map(self, field: str, check: Callable[[str, Any], None]) -> None:
        """Check a mapping of buckets, and keep a copy that nobody can change."""
        value = getattr(self, field)
        if value is None:
            return
        if not isinstance(value, Mapping) or not all(isinstance(bucket, str) for bucket in value):
            raise InvalidRequest(f"{field} must be a mapping from buckets, not {shown(value)}.", field=field)
        for bucket, each in value.items():
            try:
                check(field, each)
            except InvalidRequest as error:
                raise InvalidRequest(
                    f"{field}: {shown(bucket)}: {str(error).removeprefix(f'{field} ')}", field=field
                ) from None
        object.__setattr__(self, field, MappingProxyType(dict(value)))


_RECALL: Mapping[str, Any] = MappingProxyType({"mode": "context", "purpose": "coding", "score_threshold": 0.35})
_RECALL_DEDUP_TURNS = 5

_ALIASES: Mapping[str, tuple[str, Callable[[Any], Any]]] = MappingProxyType(
    {
        "max_chars": ("max_tokens", lambda value: min(max(value // 4, MIN_TOKENS), MAX_TOKENS)),
        "min_score": ("score_threshold", lambda value: value),
        "render": ("detail", lambda value: "full" if value else "abstract"),
    }
)
"""Parameters of an earlier interface -> what they are called now, and how a value is turned into one of it."""
_ALIAS_TYPES: Mapping[str, type | tuple[type, ...]] = {"max_chars": int, "min_score": (int, float), "render": bool}


def recall_parameters(given: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the parameters of ``search`` that those of ``recall`` stand for, and which aliases were used.

    ``recall`` has no parameter of its own: it is ``search`` with other defaults.

    Raises:
        InvalidRequest: the value of an alias is of the wrong type, or *mode* is another than context.
    """
    parameters = {name: value for name, value in given.items() if name not in _ALIASES and value is not None}
    if parameters.get("mode", "context") != "context":
        raise InvalidRequest("recall has the mode context alone; search has the others.", field="mode")
    used = tuple(name for name in _ALIASES if given.get(name) is not None)
    for alias in used:
        name, converted = _ALIASES[alias]
        value, wanted = given[alias], _ALIAS_TYPES[alias]
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
            raise InvalidRequest(f"{alias} is {shown(value)}, of the wrong type; use {name} instead.", field=alias)
        parameters.setdefault(name, converted(value))
    if used:
        names = ", ".join(f"{alias} ({_ALIASES[alias][0]})" for alias in used)
        warnings.warn(f"recall: {names} will be gone; use the names in parentheses.", DeprecationWarning, stacklevel=4)
    dedup = {} if parameters.get("session_id") is None else {"dedup_turns": _RECALL_DEDUP_TURNS}
    return {**_RECALL, **dedup, **parameters}, used
