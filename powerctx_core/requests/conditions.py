"""Restrictions on what is found, beyond those that a store applies.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import attrs

from powerctx_core.errors import InvalidRequest, shown
from powerctx_core.types import RawCandidate, parse_uri

__all__ = ["FIELDS", "Conditions", "Place", "checked_filter", "place_of"]

FIELDS = ("category", "layer", "origin", "thread", "tags")
"""Fields that a filter may name, beside ``meta.<key>``."""
_META = "meta."
_BOUNDS = ("gte", "lte")
_VALUES_MAX = 64
Scalar = str | int | float | bool


@attrs.frozen
class Place:
    """What a URI names: an artifact, in any revision, and all that lies below it, such as the parts of a document."""

    scope_id: str
    family: str
    artifact_id: str

    def holds(self, scope_id: str, family: str, artifact_id: str) -> bool:
        """Tell whether an artifact is the one that is named, or lies below it."""
        return (scope_id, family) == (self.scope_id, self.family) and (
            artifact_id == self.artifact_id or artifact_id.startswith((f"{self.artifact_id}/", f"{self.artifact_id}#"))
        )


def place_of(field: str, uri: object, scope_id: str) -> Place:
    """Return what a URI names, whole or relative to a scope, whatever its revision.

    A slash at its end says no more than that it has others below.

    Raises:
        InvalidRequest: it is no URI.
    """
    try:
        named = uri.rstrip("/") if isinstance(uri, str) else uri
        return Place(*parse_uri(named, scope_id)[:3])  # type: ignore[arg-type]  # it is looked at there
    except InvalidRequest as error:
        raise InvalidRequest(f"{field}: {error}", field=field) from None


def checked_filter(value: object) -> Mapping[str, Any]:
    """Return a filter: field -> value, list of values, or bounds ``{"gte": …, "lte": …}``.

    Raises:
        InvalidRequest: a field or a value is not one that can be compared.
    """
    if not isinstance(value, Mapping):
        raise InvalidRequest(f"filter must be a mapping from fields to values, not {shown(value)}.", field="filter")
    checked: dict[str, Any] = {}
    for name, wanted in value.items():
        known = isinstance(name, str) and (name in FIELDS or (name.startswith(_META) and len(name) > len(_META)))
        if not known:
            raise InvalidRequest(
                f"filter names {shown(name)}; it can be {', '.join(FIELDS)} or meta.KEY.", field="filter"
            )
        checked[name] = _checked_value(name, wanted)
    return MappingProxyType(checked)


def _checked_value(name: str, wanted: object) -> Any:
    if isinstance(wanted, Mapping):
        if not wanted or set(wanted) - set(_BOUNDS) or not all(map(_orders, wanted.values())):
            raise InvalidRequest(
                f"filter {shown(name)}: bounds are gte and lte, each a string or a number, neither true, false nor "
                "NaN.",
                field="filter",
            )
        return MappingProxyType(dict(wanted))
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        values = tuple(wanted)
        if not values or len(values) > _VALUES_MAX or not all(map(_compares, values)):
            raise InvalidRequest(
                f"filter {shown(name)}: a list has 1 to {_VALUES_MAX} strings or numbers, none of them NaN.",
                field="filter",
            )
        return values
    if not _compares(wanted):
        raise InvalidRequest(
            f"filter {shown(name)} is {shown(wanted)}; it must be a value, a list of values, or gte and lte.",
            field="filter",
        )
    return wanted


def _compares(value: object) -> bool:
    """Tell whether something can equal *value*, which nothing does with NaN."""
    return isinstance(value, str | int | float) and value == value  # noqa: PLR0124 - it is how NaN is told


def _orders(value: object) -> bool:
    return _compares(value) and not isinstance(value, bool)


@attrs.frozen(kw_only=True)
class Conditions:
    """What must hold of each item, where the store has not seen to it.

    Attributes:
        categories: one of these.
        filter: every field of it.
        below: lies at or below this place.
        kind: ``item`` or ``directory``, when one of them is wanted.
    """

    categories: tuple[str, ...] = ()
    filter: Mapping[str, Any] = MappingProxyType({})
    below: Place | None = None
    kind: str | None = None

    def __bool__(self) -> bool:
        return bool(self.categories or self.filter or self.below or self.kind)

    def hold(self, candidate: RawCandidate) -> bool:
        """Tell whether *candidate* meets all of them."""
        address = candidate.address
        return (
            (not self.categories or candidate.category in self.categories)
            and (self.kind is None or candidate.kind == self.kind)
            and (self.below is None or self.below.holds(address.scope_id, address.family, address.artifact_id))
            and all(_meets(_values(candidate, name), wanted) for name, wanted in self.filter.items())
        )


def _values(candidate: RawCandidate, name: str) -> tuple[Any, ...]:
    """Return what a candidate has for a field; several for a list."""
    found = candidate.metadata.get(name.removeprefix(_META)) if name.startswith(_META) else getattr(candidate, name)
    if isinstance(found, list | tuple):
        return tuple(found)
    return () if found is None else (found,)


def _meets(found: Sequence[Any], wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        return any(_within(each, wanted) for each in found)
    allowed = wanted if isinstance(wanted, tuple) else (wanted,)
    # True equals 1 in Python, and does not in anybody's data.
    return any(
        (type(each) is type(value) and each == value) or _numbers(each, value) for each in found for value in allowed
    )


def _numbers(one: object, other: object) -> bool:
    return _is_number(one) and _is_number(other) and one == other


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _within(value: Any, bounds: Mapping[str, Any]) -> bool:
    if not (isinstance(value, str) or _is_number(value)):
        return False
    # What is not known to hold does not hold: NaN is on no side of a bound.
    return all(
        isinstance(value, str) == isinstance(bound, str) and (value >= bound if name == "gte" else value <= bound)
        for name, bound in bounds.items()
    )
