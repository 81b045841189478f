"""The gate policies that a call can name: the shipped ones, and those of the files that the settings name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import attrs

from powerctx_core.errors import ConfigError, InvalidRequest, shown
from powerctx_core.recall.gate import OFF, SHIPPED, GatePolicy
from powerctx_core.toml_file import expanded, read_toml
from powerctx_core.wire.strict import Mismatch, Problem, convert

__all__ = ["Gates", "gate_named", "installed_gates", "is_path", "read_gate"]

_RESERVED = re.compile(r"(powerctx|powercontext)\..*|v[0-9]+")


def is_path(name: str) -> bool:
    """Tell the path of a policy file, which ends in ``.toml`` or holds a separator, from an id, which never does."""
    return name.endswith(".toml") or "/" in name or os.sep in name


def read_gate(file: Path) -> GatePolicy:
    """Return the gate policy of a TOML file; its keys are the fields of :class:`GatePolicy`.

    Raises:
        ConfigError: it cannot be read, or a value does not fit; one line for each, with file, key and what is allowed.
    """
    table = read_toml(file)
    try:
        policy = convert(GatePolicy, table)
    except Mismatch as mismatch:
        raise ConfigError("\n".join(f"{file}: {_sentence(each)}." for each in mismatch.problems)) from None
    if policy.policy_id in SHIPPED or _RESERVED.fullmatch(policy.policy_id):
        raise ConfigError(
            f"{file}: policy_id {policy.policy_id!r} is kept for policies that come with powerctx, as are v1, v2 … "
            "and all that begin with powerctx. or powercontext.; choose another, such as acme.gate.v1."
        )
    return policy


def _sentence(problem: Problem) -> str:
    place = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in problem.path).removeprefix(".")
    if not isinstance(problem.error, InvalidRequest):
        return f"{place} {problem.sentence}" if place else f"the policy {problem.sentence}"
    # Its message begins with the name of the field.
    return f"{place}: {problem.sentence}" if place else problem.sentence


@attrs.frozen(eq=False)
class Gates(Mapping[str, GatePolicy]):
    """Id or alias -> gate policy."""

    _policies: Mapping[str, GatePolicy]
    _files: Mapping[str, Path]

    def __getitem__(self, name: str) -> GatePolicy:
        """Return the policy of that id or alias."""
        return self._policies[name]

    def __iter__(self) -> Iterator[str]:
        """Give every id and alias."""
        return iter(self._policies)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._policies)

    def place(self, policy: GatePolicy) -> str:
        """Return the file that *policy* is from, or nothing for a shipped one."""
        return str(self._files.get(policy.policy_id, ""))


def installed_gates(files: Iterable[Path]) -> Gates:
    """Return id or alias -> gate policy, the shipped ones first.

    Raises:
        ConfigError: as :func:`read_gate`; or two files have one id.
    """
    found = dict(SHIPPED)
    places: dict[str, Path] = {}
    for file in files:
        policy = read_gate(expanded(file))
        known = places.setdefault(policy.policy_id, file)
        if expanded(known).resolve() != expanded(file).resolve():
            raise ConfigError(f"{file}: policy_id {policy.policy_id!r} is that of {known}, too; rename one of them.")
        found[policy.policy_id] = policy
    return Gates(found, places)


def gate_named(name: str, gates: Mapping[str, GatePolicy]) -> GatePolicy | None:
    """Return the gate policy of that id or alias, ``None`` for ``off``.

    Raises:
        InvalidRequest: there is none; the message lists what there is.
    """
    if name == OFF:
        return None
    if name in gates:
        return gates[name]
    hint = " A policy file is named by the setting recall.gate_files, and called by its id." if is_path(name) else ""
    raise InvalidRequest(
        f"gate {shown(name)} is not installed; installed are {OFF}, {', '.join(gates)}.{hint}", field="gate"
    )
