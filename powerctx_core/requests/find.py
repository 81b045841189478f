"""The request of ``find``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import attrs

from powerctx_core.errors import InvalidRequest, shown
from powerctx_core.requests.checks import (
    FIND_LIMIT,
    FIND_LIMIT_MAX,
    LEVELS,
    SEARCH_TYPES,
    TIME_FIELDS,
    check_choice,
    check_limits,
    check_named,
    check_query,
    check_share,
    check_whole,
    checked_categories,
    checked_families,
    checked_names,
    checked_scopes,
)
from powerctx_core.requests.conditions import Conditions, checked_filter, place_of
from powerctx_core.types import (
    TAG_BYTES,
    TAG_COUNT,
    Filters,
    check_identifier,
)

__all__ = ["FindRequest"]


@attrs.define(frozen=True, kw_only=True, slots=False)
class FindRequest:
    """Ask for related items, as a flat list without bodies.

    Args:
        limit: 1..1000 entries.
        tags: all of them must be present.
        since, until: aware datetimes, ``since <= t < until`` on *time_field* (``created``, ``updated``, ``event``).
        categories: only these, any when empty.
        filter: field -> value, list of values, or bounds ``{"gte": …, "lte": …}``; all must hold.  Fields are
            category, layer, origin, thread, tags and ``meta.<key>``.  What a store cannot apply is applied to its pool.
        score_threshold: least ``match`` of a hit, 0..1.
        target_uri: only what lies at or below it.
        level: ``item``, ``directory`` or ``all``.
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
    categories: tuple[str, ...] = ()
    filter: Mapping[str, Any] = attrs.field(factory=dict)
    score_threshold: float | None = None
    target_uri: str | None = None
    level: str = "all"
    search_type: str | None = None
    policy: str | None = None
    deadline_ms: int | None = None
    on_family_error: str | None = None

    def __attrs_post_init__(self) -> None:
        check_query(self.query)
        object.__setattr__(self, "references", checked_scopes(self.scope_id, self.references))
        object.__setattr__(self, "families", checked_families(self.families))
        if self.search_type is not None and self.search_type not in SEARCH_TYPES:
            raise InvalidRequest(
                f"search_type {shown(self.search_type)} is not one of {', '.join(SEARCH_TYPES)}.", field="search_type"
            )
        check_whole("limit", self.limit, 1, FIND_LIMIT_MAX, optional=False)
        object.__setattr__(self, "tags", checked_names("tags", self.tags, limit=TAG_COUNT))
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
                f"time_field {shown(self.time_field)} is not one of {', '.join(TIME_FIELDS)}.", field="time_field"
            )
        object.__setattr__(self, "categories", checked_categories(self.categories))
        object.__setattr__(self, "filter", checked_filter(self.filter))
        check_share("score_threshold", self.score_threshold)
        check_choice("level", self.level, LEVELS)
        if self.target_uri is not None:
            self._check_target()
        check_named("policy", self.policy, optional=True)
        check_limits(self.deadline_ms, self.on_family_error)

    def _check_target(self) -> None:
        place = place_of("target_uri", self.target_uri, self.scope_id)
        if place.scope_id not in (self.scope_id, *self.references):
            raise InvalidRequest(
                f"target_uri lies in scope {shown(place.scope_id)}, which is not searched; name that scope.",
                field="target_uri",
            )

    @property
    def filters(self) -> Filters:
        """The restrictions that the store applies."""
        return Filters(
            tags=self.tags,
            since=self.since,
            until=self.until,
            time_field=self.time_field,
            category=self.categories[0] if len(self.categories) == 1 else None,
        )

    @property
    def conditions(self) -> Conditions:
        """The restrictions that are left to be applied to the pool."""
        return Conditions(
            categories=self.categories if len(self.categories) > 1 else (),
            filter=self.filter,
            below=None if self.target_uri is None else place_of("target_uri", self.target_uri, self.scope_id),
            kind=None if self.level == "all" else self.level,
        )
