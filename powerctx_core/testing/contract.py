"""What all contracts share: no overriding, declared lacks, reasoned waivers, and one way to say who gave what."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Literal

import attrs

from powerctx_core.ports import Capability

__all__ = ["Contract", "Lack", "agree", "cannot", "check_declared", "contract_tests", "is_kit", "not_yet"]

_KIT = "powerctx_core.testing."
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 200


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


def agree(what: str, expected: object, given: object) -> None:
    """Fail unless *given*, which the part under test gives, is what the kit expects; the message says which is which.

    Args:
        what: whose value it is, as a noun: ``"length of a member"``.
        expected: what the kit counts or computes.
        given: what the part gives.
    """
    __tracebackhide__ = True  # the author shall see the line of the contract
    assert expected == given, f"{what}: your part gives {_SHORT.repr(given)}; the kit expects {_SHORT.repr(expected)}"


class Contract:
    """Base of every contract.

    Attributes:
        lacks: capabilities that the part does not have; tests that need one are left out.
        waivers: test name -> reason why it fails for now.  The test runs and must fail; once it passes, the waiver is
            refused.  A waiver is for what the test says, not for a set-up that fails.
        guide: page of the documentation that says what each failure means.
    """

    lacks: ClassVar[Mapping[Capability, Lack]] = {}
    waivers: ClassVar[Mapping[str, str]] = {}
    guide: ClassVar[str] = "docs/plugins/README.md#test-it"

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        check_declared(cls)


def is_kit(module: str) -> bool:
    """Tell whether *module* is one of the kit's."""
    return module.startswith(_KIT)


def _kit_bases(cls: type) -> Iterator[type]:
    return (base for base in cls.__mro__ if is_kit(base.__module__))


def contract_tests(cls: type) -> Mapping[str, Callable[..., Any]]:
    """Return the tests that a class has from the kit, by name, most basic first: the order in which they run."""
    return {
        name: value for base in reversed([*_kit_bases(cls)]) for name, value in vars(base).items() if name[:4] == "test"
    }


def check_declared(cls: type[Contract]) -> None:
    """Check what an author's subclass declares, and that the tests of its contract are still the kit's.

    Raises:
        TypeError: it replaces or removes a test, waives what is not there or without a reason, or lacks something
            without a reason.
    """
    _refuse_clashes(cls)
    if is_kit(cls.__module__):
        return
    tests = contract_tests(cls)
    own = {name for base in cls.__mro__ if not is_kit(base.__module__) for name in vars(base)}
    foreign = {name for name, value in tests.items() if not is_kit(getattr(value, "__module__", None) or "")}
    if overridden := sorted((tests.keys() & own) | foreign):
        raise TypeError(
            f"{cls.__name__} overrides {', '.join(overridden)} of the contract; a contract test that fails for a "
            f"known reason is waived instead: waivers = {{{overridden[0]!r}: 'reason'}}."
        )
    if unknown := sorted(set(cls.waivers) - set(tests)):
        raise TypeError(f"{cls.__name__} waives {', '.join(unknown)}, which the contract does not have; remove it.")
    if bare := sorted(name for name, reason in cls.waivers.items() if not str(reason).strip()):
        raise TypeError(f"{cls.__name__} waives {', '.join(bare)} without a reason; say why, or remove it.")
    if wrong := [name for name, lack in cls.lacks.items() if not isinstance(lack, Lack)]:
        raise TypeError(f"{cls.__name__}.lacks: {wrong[0]} is not given as not_yet('why') or cannot('why').")


def _refuse_clashes(cls: type[Contract]) -> None:
    """Refuse two contracts with a test of one name: one of them would never run."""
    owners: dict[str, type] = {}
    for base in _kit_bases(cls):
        for name in vars(base):
            if name.startswith("test"):
                owner = owners.setdefault(name, base)
                if owner is not base:
                    raise TypeError(
                        f"{cls.__name__} inherits {name} from {owner.__name__} and {base.__name__}; make a subclass of "
                        "each."
                    )
