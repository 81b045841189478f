"""What plugins and programs build on is recorded in ``tests/api_v1.txt``: a change there is seen, and is deliberate.

``python tests/docs/test_api.py --write`` records the present state.
"""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

import attrs
import pytest

import powerctx_core
from powerctx_core import hookspecs, ports

FILE = Path(__file__).resolve().parents[1] / "api_v1.txt"
COMMAND = "python tests/docs/test_api.py --write"

pytestmark = pytest.mark.docs


class _Text:
    """Shows an annotation as it is written, without quotes."""

    def __init__(self, text: object) -> None:
        self._text = text if isinstance(text, str) else inspect.formatannotation(text)

    def __repr__(self) -> str:
        return self._text


def _signature(function: Any) -> str:
    signature = inspect.signature(function)
    empty = inspect.Signature.empty
    parameters = [
        each if each.annotation is empty else each.replace(annotation=_Text(each.annotation))
        for each in signature.parameters.values()
    ]
    returned = signature.return_annotation
    return str(
        signature.replace(parameters=parameters, return_annotation=empty if returned is empty else _Text(returned))
    )


def _default(field: attrs.Attribute[Any]) -> str:
    default: Any = field.default
    if default is attrs.NOTHING:
        return "required"
    if isinstance(default, attrs.Factory):
        default = default.factory
        return f"made by {_name(default)}"
    if inspect.isroutine(default) or inspect.isclass(default):
        return _name(default)
    return repr(default)


def _name(value: Any) -> str:
    name: str = value.__name__
    return "a function" if name == "<lambda>" else name


def _members(cls: type) -> Iterator[str]:
    """Give the public methods and properties of a class, in the order of its source; inherited ones are its bases'."""
    for name, value in vars(cls).items():
        if name.startswith("_"):
            continue
        if isinstance(value, property):
            yield f"  {name}: {_Text(inspect.signature(value.fget).return_annotation)}"
        elif isinstance(value, classmethod | staticmethod):
            yield f"  {type(value).__name__} {name}{_signature(value.__func__)}"
        elif inspect.isfunction(value):
            kind = "async " if inspect.iscoroutinefunction(value) else ""
            yield f"  {kind}{name}{_signature(value)}"


def _described(name: str, value: Any) -> Iterator[str]:
    if not inspect.isclass(value):
        yield f"{name}{_signature(value)}" if inspect.isroutine(value) else f"{name}: {type(value).__name__}"
    elif value.__name__ != name:
        yield f"{name} = {value.__name__}"
    elif issubclass(value, Enum):
        yield f"{name} (choice)"
        yield from (f"  {each.name} = {each.value!r}" for each in value)
    elif attrs.has(value):
        yield f"{name} (value)"
        # As written: the types on the fields are replaced by the objects when values of the class are converted.
        written = {key: text for base in reversed(value.__mro__) for key, text in inspect.get_annotations(base).items()}
        for field in attrs.fields(value):
            yield f"  {field.name}: {_Text(written[field.name])} = {_default(field)}"
        yield from _members(value)
    elif Protocol in value.__bases__:
        yield f"{name} (port)"
        yield from _members(value)
    elif issubclass(value, Exception):
        yield f"{name}({', '.join(base.__name__ for base in value.__bases__)})"
    else:
        yield f"{name}{_signature(value)}"
        yield from _members(value)


def recorded() -> str:
    """Return the interface as text: hooks, then every public name with its fields or methods."""
    lines = [f"powerctx plugin interface {hookspecs.API}; written by `{COMMAND}`.", "", "# Hooks", ""]
    lines += [f"{hook}{_signature(getattr(hookspecs, hook))}" for hook in hookspecs.HOOKS]
    lines += ["", "# Public names of powerctx_core"]
    for name in sorted(powerctx_core.__all__):
        lines += ["", *_described(name, getattr(powerctx_core, name))]
    lines += ["", "# Further names of powerctx_core.ports"]
    for name in sorted(set(ports.__all__) - set(powerctx_core.__all__)):
        lines += ["", *_described(name, getattr(ports, name))]
    return "\n".join(lines) + "\n"


def test_the_interface_is_as_recorded() -> None:
    """Hooks, records, ports and public names are those of the file, which only one command rewrites."""
    known = FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else []
    change = difflib.unified_diff(known, recorded().splitlines(), "recorded", "now", n=2, lineterm="")

    if shown := "\n".join(change):
        pytest.fail(
            f"The public interface changed:\n\n{shown}\n\nIf that is meant, run\n\n    {COMMAND}\n\n"
            "and name the change in CHANGELOG.md, under Unreleased, in one line for users.",
            pytrace=False,
        )


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        FILE.write_text(recorded(), encoding="utf-8")
    else:
        sys.stdout.write(recorded())
