"""Limits of requests, and the checks that requests share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from powerctx_core.errors import InvalidRequest, shown
from powerctx_core.types import DELIVERIES, SCOPE_ID_BYTES, SHORT_TEXT_BYTES, check_identifier

__all__ = [
    "CATEGORIES_MAX",
    "DEADLINE_MS",
    "DEFAULT_MAX_BYTES",
    "DEFAULT_MAX_ITEMS",
    "FIND_LIMIT",
    "FIND_LIMIT_MAX",
    "LEVELS",
    "MAX_BYTES",
    "MAX_ITEMS",
    "MAX_REFERENCES",
    "MAX_TOKENS",
    "MIN_BYTES",
    "MIN_TOKENS",
    "ON_FAMILY_ERROR",
    "QUERY_CHARACTERS",
    "RECEIPT_VERSIONS",
    "SEARCH_TYPES",
    "TIME_FIELDS",
    "check_choice",
    "check_delivery",
    "check_flag",
    "check_limits",
    "check_named",
    "check_query",
    "check_share",
    "check_whole",
    "checked_categories",
    "checked_families",
    "checked_names",
    "checked_scopes",
]

QUERY_CHARACTERS = 8192
MAX_REFERENCES = 31
MIN_BYTES, MAX_BYTES, DEFAULT_MAX_BYTES = 512, 32768, 8000
MIN_TOKENS, MAX_TOKENS = 64, 32000
MAX_ITEMS, DEFAULT_MAX_ITEMS = 64, 8
FIND_LIMIT, FIND_LIMIT_MAX = 10, 1000
DEADLINE_MS = (1, 600_000)
ON_FAMILY_ERROR = ("fail", "degrade")
RECEIPT_VERSIONS = (1, 2)
SEARCH_TYPES = ("auto", "fts", "vector", "hybrid")
TIME_FIELDS = ("created", "updated", "event")
LEVELS = ("item", "directory", "all")
CATEGORIES_MAX = 64


def check_whole(field: str, value: object, low: int, high: int, *, optional: bool = True) -> None:
    """Check that *value* is a whole number from *low* to *high*, or absent where that is allowed.

    Raises:
        InvalidRequest: it is not.
    """
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidRequest(f"{field} is {shown(value)}; it must be a whole number from {low} to {high}.", field=field)


def check_query(value: object) -> None:
    """Check that *value* is text to search for: 1..8192 characters, not blank.

    Raises:
        InvalidRequest: it is not.
    """
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


def checked_names(field: str, value: Any, *, limit: int | None = None) -> tuple[str, ...]:
    """Return *value* as a tuple of different strings, at most *limit*.

    Raises:
        InvalidRequest: it is not.
    """
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(name, str) for name in value):
        raise InvalidRequest(f"{field} must be a list of strings.", field=field)
    if limit is not None and len(value) > limit:
        raise InvalidRequest(f"{field} has {len(value)} entries; at most {limit} are allowed.", field=field)
    if len(set(value)) != len(value):
        raise InvalidRequest(f"{field} names something twice.", field=field)
    return tuple(value)


def checked_scopes(scope_id: object, references: Any) -> tuple[str, ...]:
    """Return the scopes of *references* that are not the current one.

    Raises:
        InvalidRequest: it is not.
    """
    check_identifier("scope_id", scope_id, SCOPE_ID_BYTES)
    names = checked_names("references", references, limit=MAX_REFERENCES)
    for name in names:
        check_identifier("references", name, SCOPE_ID_BYTES)
    # The current scope is searched anyway; naming it again must not search it twice.
    return tuple(name for name in names if name != scope_id)


def checked_families(value: Any) -> tuple[str, ...] | None:
    """Return the families that are named, or ``None`` when none are asked for.

    Raises:
        InvalidRequest: it is not.
    """
    if value is None:
        return None
    names = checked_names("families", value)
    if not names:
        raise InvalidRequest("families is empty; name at least one or leave it out.", field="families")
    return names


def check_named(field: str, value: object, *, optional: bool = False) -> None:
    """Check that *value* can be the name of a part.

    Raises:
        InvalidRequest: it is not.
    """
    if value is None and optional:
        return
    if not isinstance(value, str) or not value:
        raise InvalidRequest(f"{field} must be the name of an installed part.", field=field)


def check_choice(field: str, value: object, allowed: Sequence[str]) -> None:
    """Check that *value* is one of *allowed*.

    Raises:
        InvalidRequest: it is not.
    """
    if not isinstance(value, str) or value not in allowed:
        raise InvalidRequest(f"{field} is {shown(value)}; it must be {' or '.join(allowed)}.", field=field)


def check_delivery(delivery: str | None, inject_max_tokens: object) -> None:
    """Check how a pack is delivered, and the budget of its text alone; neither need be given.

    Raises:
        InvalidRequest: there is no such delivery, or the budget is outside its limits, or without a split.
    """
    if delivery is not None:
        check_choice("delivery", delivery, DELIVERIES)
    check_whole("inject_max_tokens", inject_max_tokens, MIN_TOKENS, MAX_TOKENS)
    if inject_max_tokens is not None and delivery != "split":
        raise InvalidRequest(
            "inject_max_tokens needs delivery split; without it max_tokens bounds the text.", field="inject_max_tokens"
        )


def check_flag(field: str, value: object) -> None:
    """Check that *value* is true, false, or absent.

    Raises:
        InvalidRequest: it is not.
    """
    if value is not None and not isinstance(value, bool):
        raise InvalidRequest(f"{field} is {shown(value)}; it must be true or false.", field=field)


def check_share(field: str, value: object, *, optional: bool = True) -> None:
    """Check that *value* is a number from 0 to 1, or absent where that is allowed.

    Raises:
        InvalidRequest: it is not.
    """
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
        raise InvalidRequest(f"{field} is {shown(value)}; it must be a number from 0 to 1.", field=field)


def checked_categories(value: Any) -> tuple[str, ...]:
    """Return *value* as a tuple of different categories.

    Raises:
        InvalidRequest: it is not.
    """
    names = checked_names("categories", value, limit=CATEGORIES_MAX)
    for name in names:
        check_identifier("categories", name, SHORT_TEXT_BYTES)
    return names


def check_limits(deadline_ms: object, on_family_error: object) -> None:
    """Check how a call is bounded, and what it does when a family fails.

    Raises:
        InvalidRequest: either is outside its limits.
    """
    check_whole("deadline_ms", deadline_ms, *DEADLINE_MS)
    if on_family_error is not None:
        check_choice("on_family_error", on_family_error, ON_FAMILY_ERROR)
