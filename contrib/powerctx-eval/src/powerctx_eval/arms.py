"""The axes of a run: what is varied, and which answers are compared."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import attrs

from powerctx_core import InvalidRequest, redacted_url
from powerctx_eval.data import SETS

__all__ = ["AXES", "PRESETS", "Arm", "Budget", "Plan", "budget"]

AXES = ("store", "embedder", "policy", "gate", "budget")
_UNITS = {"bytes": "max_bytes", "tokens": "max_tokens", "chars": "max_chars", "items": "max_items"}


@attrs.frozen
class Budget:
    """What one answer may use.

    Attributes:
        name: as written, such as ``bytes=8000,items=8``.
        limits: parameter of ``prepare`` -> value.
    """

    name: str
    limits: tuple[tuple[str, int], ...]

    @property
    def parameters(self) -> dict[str, Any]:
        """The limits as keywords of ``prepare``."""
        return dict(self.limits)


def budget(text: str) -> Budget:
    """Return the budget that *text* spells: ``bytes=``, ``tokens=``, ``chars=`` and ``items=``, joined by commas.

    Raises:
        InvalidRequest: it spells none.
    """
    limits: dict[str, int] = {}
    for part in text.split(","):
        unit, _, number = (piece.strip() for piece in part.partition("="))
        if unit not in _UNITS or not (number.isascii() and number.isdigit()) or _UNITS[unit] in limits:
            raise InvalidRequest(
                f"budget {text!r} is not of the form bytes=8000,items=8; units are {', '.join(_UNITS)}, once each.",
                field="budget",
            )
        limits[_UNITS[unit]] = int(number)
    name = ",".join(f"{unit}={limits[field]}" for unit, field in _UNITS.items() if field in limits)
    return Budget(name, tuple(limits.items()))


@attrs.frozen(kw_only=True)
class Arm:
    """One way to answer: a value of every axis."""

    store: str
    embedder: str
    policy: str
    gate: str
    budget: Budget

    def as_json(self) -> dict[str, str]:
        """Return axis -> value; a store without its secrets."""
        return {axis: self.value(axis) for axis in AXES}

    def value(self, axis: str) -> str:
        """Return the name of the arm's value of *axis*."""
        value = getattr(self, axis)
        return value.name if isinstance(value, Budget) else redacted_url(value) if axis == "store" else str(value)


@attrs.frozen(kw_only=True)
class Plan:
    """What a run does.

    Attributes:
        stores: ``memory``, ``sqlite`` (a temporary file) or URLs of stores.
        embedders: ``none`` or names of installed embedders.
        gates: ``off``, ids or aliases of gate policies, or paths of policy files.
        control: a value of one axis; arms that have another there are compared with the arm that has this one and
            agrees in all else.  The first policy when empty.
        limit: queries of each set at most, drawn by *seed*; ``None`` for all.
        resamples: of the bootstrap.
        filtered_by: see :func:`powerctx_eval.data.load`.
    """

    sets: tuple[str, ...] = SETS
    budgets: tuple[Budget, ...] = (budget("bytes=8000,items=8"), budget("bytes=8000,items=64"))
    policies: tuple[str, ...] = ("powercontext.recall.v2", "powerctx.recall.v1")
    stores: tuple[str, ...] = ("sqlite",)
    embedders: tuple[str, ...] = ("none",)
    gates: tuple[str, ...] = ("off",)
    control: str = ""
    limit: int | None = None
    seed: int = 7
    resamples: int = 2000
    filtered_by: str = "tags"

    def __attrs_post_init__(self) -> None:
        for field in ("sets", "budgets", "policies", "stores", "embedders", "gates"):
            values = getattr(self, field)
            if not values or len(set(values)) != len(values):
                raise InvalidRequest(f"{field} must name something, and nothing twice.", field=field)

    def command(self) -> str:
        """Return the command line of this plan: a preset where one says most of it."""
        fields = {field.name: getattr(self, field.name) for field in attrs.fields(Plan)}
        candidates = [_words(name, fields) for name in (None, *PRESETS)]
        return min(candidates, key=len)

    def arms(self) -> Iterator[Arm]:
        """Yield every combination."""
        for store, embedder, policy, gate, limits in product(
            self.stores, self.embedders, self.policies, self.gates, self.budgets
        ):
            yield Arm(store=store, embedder=embedder, policy=policy, gate=gate, budget=limits)

    def pairs(self) -> list[tuple[Arm, Arm]]:
        """Return (control, treatment) of everything that is compared.

        Raises:
            InvalidRequest: the control is a value of no axis, or of several.
        """
        arms = [*self.arms()]
        wanted = self.control or self.policies[0]
        axes = [axis for axis in AXES if any(_means(arm, axis, wanted) for arm in arms)]
        if len(axes) != 1:
            known = ", ".join(dict.fromkeys(arm.value(axis) for axis in AXES for arm in arms))
            where = "several axes" if axes else "no axis"
            raise InvalidRequest(
                f"control {wanted!r} is the value of {where}; it can be one of {known}.",
                field="control",
            )
        axis = axes[0]
        controls = {_others(arm, axis): arm for arm in arms if _means(arm, axis, wanted)}
        return [(controls[_others(arm, axis)], arm) for arm in arms if not _means(arm, axis, wanted)]


_OPTIONS = {
    "sets": "--sets", "budgets": "--budget", "policies": "--policy", "stores": "--store", "embedders": "--embedder",
    "gates": "--gate", "control": "--control", "limit": "--limit", "seed": "--seed", "resamples": "--resamples",
    "filtered_by": "--filter-as",
}  # fmt: skip


def _words(preset: str | None, fields: Mapping[str, Any]) -> str:
    """Return the command that starts from *preset* and says what differs."""
    start = attrs.evolve(Plan(), **PRESETS.get(preset or "", {}))
    words = ["powerctx eval run", *(["--preset", preset] if preset else [])]
    for name, value in fields.items():
        if value == getattr(start, name):
            continue
        if value is None:  # a preset's limit cannot be taken back
            return " ".join(words) + " " * 9999
        for each in (",".join(value),) if name == "sets" else value if isinstance(value, tuple) else (value,):
            shown = each.name if isinstance(each, Budget) else redacted_url(each) if name == "stores" else str(each)
            words += [_OPTIONS[name], shlex.quote(shown)]
    return " ".join(words)


def _means(arm: Arm, axis: str, value: str) -> bool:
    return value in (arm.value(axis), arm.store if axis == "store" else "")


def _others(arm: Arm, axis: str) -> tuple[Any, ...]:
    return tuple(getattr(arm, each) for each in AXES if each != axis)


def _budgets(*texts: str) -> tuple[Budget, ...]:
    return tuple(budget(text) for text in texts)


PRESETS: Mapping[str, Mapping[str, Any]] = {
    "docs": {
        "budgets": _budgets("bytes=8000,items=8", "bytes=8000,items=64"),
        "embedders": ("none", "local"),
        "limit": 250,
    },
    "gate": {
        "budgets": _budgets("bytes=8000,items=8"),
        "embedders": ("none", "local"),
        "gates": ("off", "v2"),
        "control": "off",
        "limit": 250,
    },
    "quick": {"budgets": _budgets("bytes=8000,items=8", "bytes=8000,items=64"), "limit": 100, "stores": ("memory",)},
}  # fmt: skip
"""Name -> fields of :class:`Plan`.  ``docs`` and ``gate`` make the figures of the documentation."""


def budgets(texts: Sequence[str]) -> tuple[Budget, ...]:
    """Return the budgets that are spelled."""
    return _budgets(*texts)
