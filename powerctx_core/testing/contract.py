"""What all contracts share: no overriding, declared lacks, reasoned waivers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import attrs

from powerctx_core.ports import Capability

__all__ = ["Contract", "Lack", "cannot", "not_yet"]

_KIT = "powerctx_core.testing."


@attrs.frozen
class Lack:
    """Why a part does not have a capability: it is not built yet, or the part's nature rules it out."""

    kind: Literal["not-yet", "cannot"]
    reason: str = attrs.field(validator=attrs.validators.min_len(1))


def not_yet(reason: str) -> Lack:
    """Declare that a capability is missing today and planned; *reason* is printed."""
    return Lack("not-yet", reason)


def cannot(reason: str) -> Lack:
    """Declare that a capability contradicts the nature of the part; *reason* is printed."""
    return Lack("cannot", reason)


class Contract:
    """Base of every contract.

    Attributes:
        lacks: capabilities that the part does not have; tests that need one are left out.
        waivers: test name -> reason why it fails for now.  The test runs and must fail; once it passes, the waiver is
            refused.
    """

    lacks: ClassVar[Mapping[Capability, Lack]] = {}
    waivers: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        _refuse_clashes(cls)
        if cls.__module__.startswith(_KIT):
            return
        tests = {name for base in cls.__mro__ if base.__module__.startswith(_KIT) for name in vars(base)}
        tests = {name for name in tests if name.startswith("test")}
        own = {name for base in cls.__mro__ if not base.__module__.startswith(_KIT) for name in vars(base)}
        if overridden := sorted(tests & own):
            raise TypeError(
                f"{cls.__name__} overrides {', '.join(overridden)} of the contract; a contract test that fails for a "
                f"known reason is waived instead: waivers = {{{overridden[0]!r}: 'reason'}}."
            )
        if unknown := sorted(set(cls.waivers) - tests):
            raise TypeError(f"{cls.__name__} waives {', '.join(unknown)}, which the contract does not have; remove it.")
        if bare := sorted(name for name, reason in cls.waivers.items() if not str(reason).strip()):
            raise TypeError(f"{cls.__name__} waives {', '.join(bare)} without a reason; say why, or remove it.")
        if wrong := [name for name, lack in cls.lacks.items() if not isinstance(lack, Lack)]:
            raise TypeError(f"{cls.__name__}.lacks: {wrong[0]} is not given as not_yet('why') or cannot('why').")


def _refuse_clashes(cls: type[Contract]) -> None:
    """Refuse two contracts with a test of one name: one of them would never run."""
    owners: dict[str, type] = {}
    for base in cls.__mro__:
        for name in vars(base):
            if name.startswith("test") and base.__module__.startswith(_KIT):
                owner = owners.setdefault(name, base)
                if owner is not base:
                    raise TypeError(
                        f"{cls.__name__} inherits {name} from {owner.__name__} and {base.__name__}; make a subclass of "
                        "each."
                    )
