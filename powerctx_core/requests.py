"""Requests and responses of the public calls.

A request checks itself when it is made; every entry point (Python, command line, HTTP) builds these same objects, so
there is one validator.  Responses are frozen values; :mod:`powerctx_core.wire` gives their serialised form.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import attrs

from powerctx_core.errors import InvalidRequest, shown
from powerctx_core.types import (
    DELIVERIES,
    SCOPE_ID_BYTES,
    SHORT_TEXT_BYTES,
    SHOWN,
    TAG_BYTES,
    TAG_COUNT,
    TRIMS,
    Address,
    AdmissionCounts,
    Filters,
    Hit,
    RecallEffort,
    Section,
    ToolList,
    Trimming,
    check_identifier,
    sections_of,
)

__all__ = [
    "DEADLINE_MS",
    "DEFAULT_MAX_BYTES",
    "DEFAULT_MAX_ITEMS",
    "MAX_BYTES",
    "MAX_ITEMS",
    "MAX_REFERENCES",
    "MIN_BYTES",
    "ON_FAMILY_ERROR",
    "PREPARED_SCHEMA",
    "QUERY_CHARACTERS",
    "Diagnostics",
    "FindRequest",
    "Found",
    "PrepareRequest",
    "PreparedContext",
    "SelectedItem",
]

QUERY_CHARACTERS = 8192
MAX_REFERENCES = 31
MIN_BYTES, MAX_BYTES, DEFAULT_MAX_BYTES = 512, 32768, 8000
MIN_TOKENS, MAX_TOKENS = 64, 32000
MAX_ITEMS, DEFAULT_MAX_ITEMS = 64, 8
FIND_LIMIT, FIND_LIMIT_MAX = 10, 1000
PREPARED_SCHEMA = "powercontext.prepared-context.v1"
DEADLINE_MS = (1, 600_000)
ON_FAMILY_ERROR = ("fail", "degrade")
SEARCH_TYPES = ("auto", "fts", "vector", "hybrid")
TIME_FIELDS = ("created", "updated", "event")


def _whole(field: str, value: object, low: int, high: int, *, optional: bool = True) -> None:
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidRequest(f"{field} is {shown(value)}; it must be a whole number from {low} to {high}.", field=field)


def _query(value: object) -> None:
    if not isinstance(value, str):
        raise InvalidRequest(f"query must be a string, not {type(value).__name__}.", field="query")
    if len(value) > QUERY_CHARACTERS:
        raise InvalidRequest(
            f"query has {len(value)} characters; at most {QUERY_CHARACTERS} are allowed.", field="query"
        )
    if not value.strip():
        raise InvalidRequest("query must not be blank.", field="query")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise InvalidRequest(
                f"query holds a lone surrogate at character {error.start}, which is not text; remove it.",
                field="query",
            ) from None


def _names(field: str, value: Any, *, limit: int | None = None) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(name, str) for name in value):
        raise InvalidRequest(f"{field} must be a list of strings.", field=field)
    if limit is not None and len(value) > limit:
        raise InvalidRequest(f"{field} has {len(value)} entries; at most {limit} are allowed.", field=field)
    if len(set(value)) != len(value):
        raise InvalidRequest(f"{field} names something twice.", field=field)
    return tuple(value)


def _scopes(scope_id: object, references: Any) -> tuple[str, ...]:
    check_identifier("scope_id", scope_id, SCOPE_ID_BYTES)
    names = _names("references", references, limit=MAX_REFERENCES)
    for name in names:
        check_identifier("references", name, SCOPE_ID_BYTES)
    # The current scope is searched anyway; naming it again must not search it twice.
    return tuple(name for name in names if name != scope_id)


def _families(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    names = _names("families", value)
    if not names:
        raise InvalidRequest("families is empty; name at least one or leave it out.", field="families")
    return names


def _named(field: str, value: object, *, optional: bool = False) -> None:
    if value is None and optional:
        return
    if not isinstance(value, str) or not value:
        raise InvalidRequest(f"{field} must be the name of an installed part.", field=field)


def _choice(field: str, value: object, allowed: Sequence[str]) -> None:
    if not isinstance(value, str) or value not in allowed:
        raise InvalidRequest(f"{field} is {shown(value)}; it must be {' or '.join(allowed)}.", field=field)


def _limits(request: PrepareRequest | FindRequest) -> None:
    _whole("deadline_ms", request.deadline_ms, *DEADLINE_MS)
    if request.on_family_error is not None:
        _choice("on_family_error", request.on_family_error, ON_FAMILY_ERROR)


@attrs.define(frozen=True, kw_only=True, slots=False)
class PrepareRequest:
    """Ask for prepared context.

    Args:
        query: 1..8192 characters, not blank.
        scope_id: current scope.
        references: at most 31 further scopes to read.
        families: kinds of evidence; the setting ``recall.families`` when absent.
        sections: instead of *families*, the parts of the pack in their order, each a family with the most entries of
            it; ``"default"`` takes those of the setting ``assembly.sections``, and none at all are an empty answer.
        show: what to show of each entry, where it is known: ``confidence``, ``recall_rank``.
        renderer: name of an installed renderer; ``sections`` for a pack of sections, else ``prepared``, when absent.
        max_bytes: 512..32768 UTF-8 bytes; 8000 when no size budget is given.
        max_tokens, max_chars: further size budgets; every given one holds.
        max_items: 1..64 entries, 8 when absent; with sections their sum, within the setting ``assembly.max_entries``.
        trim: what decides who stays when not all fits: ``rank``, or ``value``, which weighs use, confidence, layer and
            age, too, and takes near repetitions last (settings ``trim.*``).
        delivery: ``inject`` puts everything into the text; ``split`` puts only what is stable there (layers L2 and L3)
            and lists the rest in ``tools``, to be read on demand.  The size budgets hold for both together.
        inject_max_tokens: 64..32000, a further budget of the text alone, when delivery is split.
        policy: id of an installed recall policy; the setting ``recall.policy`` when absent.
        gate: ``off``, or a gate policy (``v2``): judges whether what was found is enough, and admits more of it within
            the same budgets if not.
        deadline_ms: 1..600000 milliseconds from the call, after which it goes on with what has arrived and names in
            ``diagnostics.late`` what has not; the setting ``recall.deadline_ms`` when absent, else as long as it takes.
        on_family_error: ``fail`` raises when a family fails, ``degrade`` goes on without it and names it in
            ``diagnostics.failed``; the setting ``recall.on_family_error`` when absent.

    Raises:
        InvalidRequest: a field is outside its limits; ``error.field`` names it.
    """

    query: str
    scope_id: str
    references: tuple[str, ...] = ()
    families: tuple[str, ...] | None = None
    sections: tuple[Section, ...] | str | None = None
    show: tuple[str, ...] = ()
    renderer: str = attrs.field(
        default=attrs.Factory(lambda self: "prepared" if self.sections is None else "sections", takes_self=True)
    )
    max_bytes: int | None = None
    max_tokens: int | None = None
    max_chars: int | None = None
    max_items: int | None = None
    trim: str = "rank"
    delivery: str = "inject"
    inject_max_tokens: int | None = None
    policy: str | None = None
    gate: str = "off"
    deadline_ms: int | None = None
    on_family_error: str | None = None

    def __attrs_post_init__(self) -> None:
        _query(self.query)
        object.__setattr__(self, "references", _scopes(self.scope_id, self.references))
        object.__setattr__(self, "families", _families(self.families))
        self._check_sections()
        _named("renderer", self.renderer)
        _named("policy", self.policy, optional=True)
        _named("gate", self.gate)
        _whole("max_bytes", self.max_bytes, MIN_BYTES, MAX_BYTES)
        _whole("max_tokens", self.max_tokens, MIN_TOKENS, MAX_TOKENS)
        _whole("max_chars", self.max_chars, MIN_BYTES // 4, MAX_BYTES)
        _whole("max_items", self.max_items, 1, MAX_ITEMS)
        _choice("trim", self.trim, TRIMS)
        _choice("delivery", self.delivery, DELIVERIES)
        _whole("inject_max_tokens", self.inject_max_tokens, MIN_TOKENS, MAX_TOKENS)
        if self.inject_max_tokens is not None and self.delivery != "split":
            raise InvalidRequest(
                "inject_max_tokens needs delivery split; without it max_tokens bounds the text.",
                field="inject_max_tokens",
            )
        _limits(self)
        if self.max_bytes is None and self.max_tokens is None and self.max_chars is None:
            object.__setattr__(self, "max_bytes", DEFAULT_MAX_BYTES)

    def _check_sections(self) -> None:
        object.__setattr__(self, "sections", sections_of(self.sections))
        if self.sections is not None and self.families is not None:
            raise InvalidRequest("families and sections exclude each other; sections name families.", field="families")
        object.__setattr__(self, "show", _names("show", self.show))
        if unknown := [name for name in self.show if name not in SHOWN]:
            raise InvalidRequest(f"show names {shown(unknown[0])}; it can be {', '.join(SHOWN)}.", field="show")


@attrs.define(frozen=True, kw_only=True, slots=False)
class FindRequest:
    """Ask for related items, as a flat list without bodies.

    Args:
        limit: 1..1000 entries.
        tags: all of them must be present.
        since, until: aware datetimes, ``since <= t < until`` on *time_field* (``created``, ``updated``, ``event``).
        category: only this category.
        search_type: ``auto`` (vectors when an embedder is open and serves the query), ``fts``, ``vector`` or
            ``hybrid``; the setting ``retrieval.default_search_type`` when absent.
        deadline_ms, on_family_error: as of :class:`PrepareRequest`.

    Raises:
        InvalidRequest: a field is outside its limits; ``error.field`` names it.
    """

    query: str
    scope_id: str
    references: tuple[str, ...] = ()
    families: tuple[str, ...] | None = None
    limit: int = FIND_LIMIT
    tags: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    time_field: str = "updated"
    category: str | None = None
    search_type: str | None = None
    policy: str | None = None
    deadline_ms: int | None = None
    on_family_error: str | None = None

    def __attrs_post_init__(self) -> None:
        _query(self.query)
        object.__setattr__(self, "references", _scopes(self.scope_id, self.references))
        object.__setattr__(self, "families", _families(self.families))
        if self.search_type is not None and self.search_type not in SEARCH_TYPES:
            raise InvalidRequest(
                f"search_type {self.search_type!r} is not one of {', '.join(SEARCH_TYPES)}.", field="search_type"
            )
        _whole("limit", self.limit, 1, FIND_LIMIT_MAX, optional=False)
        object.__setattr__(self, "tags", _names("tags", self.tags, limit=TAG_COUNT))
        for tag in self.tags:
            check_identifier("tags", tag, TAG_BYTES)
        for field in ("since", "until"):
            value = getattr(self, field)
            if value is not None and (not isinstance(value, datetime) or value.utcoffset() is None):
                raise InvalidRequest(f"{field} must be a date and time with a zone.", field=field)
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise InvalidRequest("since must be before until.", field="since")
        if self.time_field not in TIME_FIELDS:
            raise InvalidRequest(
                f"time_field {self.time_field!r} is not one of {', '.join(TIME_FIELDS)}.", field="time_field"
            )
        if self.category is not None:
            check_identifier("category", self.category, SHORT_TEXT_BYTES)
        _named("policy", self.policy, optional=True)
        _limits(self)

    @property
    def filters(self) -> Filters:
        """The restrictions that the store applies."""
        return Filters(
            tags=self.tags, since=self.since, until=self.until, time_field=self.time_field, category=self.category
        )


@attrs.frozen(kw_only=True)
class SelectedItem:
    """One delivered entry.

    Attributes:
        rendered_bytes: UTF-8 bytes of its piece of the content.
        truncated: its body was cut; of a listed one, its abstract.
        part: ``inject`` when it stands in the text, ``tools`` when it is listed.
    """

    address: Address
    rendered_bytes: int
    truncated: bool
    part: str = "inject"


@attrs.frozen(kw_only=True)
class Diagnostics:
    """What happened, without any stored text.

    Attributes:
        outcome: ``delivered``, ``no_content``, ``no_match``, ``below_threshold``, ``budget``, ``deadline`` (nothing is
            delivered, and something was late) or ``source_error`` (nothing is delivered, and a family failed).
        partial: something is missing, since it did not answer in time or failed: *late* and *failed* name it.
        late: families, ``family:channel`` where only a channel is missing, ``renderer:name``, and ``usage``.
        failed: family -> why the call went on without it: ``invalid`` when it broke the contract of a pool, else the
            name of what it raised.
        request_id: for correlation in logs.
        policy: recall policy in force.
        fallback: ``none``, ``inference_unavailable`` or ``inference_timeout``: why words alone had to do.
        embeddings: texts that were embedded.
        modes: family -> what ran (``fts``, ``vector``, ``hybrid``, ``none``), over its scopes.
        counts: members before and after admission, per family and scope.
        terms_used, terms_total: query terms used by retrieval, and distinct ones in the query.
        omitted: reason -> number of candidates that were not delivered.
        frame_over: units of the budgets that the text around the entries (the frame, which is always included) exceeds
            alone, so that nothing can be delivered.
        trimming: what each candidate was worth, when a request is trimmed by value.
        effort: what the gate judged and did, when it is on.
        items: every delivered entry.
    """

    outcome: str
    request_id: str
    policy: str
    partial: bool = False
    late: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    fallback: str = "none"
    embeddings: int = 0
    modes: tuple[tuple[str, str], ...] = ()
    counts: tuple[AdmissionCounts, ...] = ()
    terms_used: int = 0
    terms_total: int = 0
    omitted: tuple[tuple[str, int], ...] = ()
    frame_over: tuple[str, ...] = ()
    trimming: Trimming | None = None
    effort: RecallEffort | None = None
    items: tuple[SelectedItem, ...] = ()


@attrs.frozen(kw_only=True)
class PreparedContext:
    """The answer of ``prepare``; its serialised form has exactly the keys schema, status, content, content_bytes.

    When delivery is split there are two more, inject and tools.

    Attributes:
        status: ``ready`` (non-blank content) or ``empty`` (content ``None``, 0 bytes).
        content: text to give to the model, as it is; the stable part when delivery is split.
        content_bytes: its exact UTF-8 length.
        tools: what the agent can read on demand; ``None`` unless delivery is split.
    """

    status: str
    content: str | None
    content_bytes: int
    diagnostics: Diagnostics = attrs.field(repr=False)
    schema: str = PREPARED_SCHEMA
    tools: ToolList | None = None

    @property
    def inject(self) -> str | None:
        """The stable part when delivery is split: what *content* holds."""
        return None if self.tools is None else self.content

    @property
    def selected(self) -> tuple[Address, ...]:
        """Addresses in the order delivered; of a split delivery those in the text first, then those that are listed."""
        return tuple(item.address for item in self.diagnostics.items)


@attrs.frozen(kw_only=True)
class Found:
    """The answer of ``find``: hits, best first."""

    hits: tuple[Hit, ...]
    diagnostics: Diagnostics = attrs.field(repr=False)
