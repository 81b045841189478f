"""Mappings to values: refuses what a lenient converter would guess.

``"false"`` is not true, ``None`` is not ``"None"``, ``1.9`` is not a whole number, a string is not a list, an unknown
key is an error.  ``cattrs`` is imported at the first conversion.
"""

from __future__ import annotations

import enum
import functools
import math
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from powerctx_core.errors import InvalidRequest, redacted
from powerctx_core.receipt.reading import faults, has_shape
from powerctx_core.toml_file import NotToml, parse_toml
from powerctx_core.wire.texts import RawSecret, RawText, Secret, Unresolved

if TYPE_CHECKING:
    import cattrs

__all__ = [
    "HIDDEN",
    "Mismatch",
    "Problem",
    "convert",
    "structure",
]

T = TypeVar("T")

HIDDEN = "powerctx: not converted"
"""Metadata of a field that a mapping cannot give."""


def structure(cls: type[T], mapping: Any) -> T:
    """Return the request or item that *mapping* (parsed JSON) describes.

    Times are ISO 8601 strings with a zone; lists become tuples.

    Raises:
        InvalidRequest: a field is unknown, missing, of the wrong type or outside its limits; ``error.field`` names it.
    """
    try:
        return convert(cls, mapping)
    except Mismatch as mismatch:
        problem = mismatch.problems[0]
        if isinstance(problem.error, InvalidRequest):
            raise problem.error from None
        place = ".".join(map(str, problem.path)) or cls.__name__
        field = str(problem.path[0]) if problem.path else None
        raise InvalidRequest(f"{place} {problem.sentence}.", field=field) from None


@attrs.frozen(kw_only=True)
class Problem:
    """One thing that is wrong with a mapping.

    Attributes:
        path: keys and positions that lead to it.
        sentence: what is wrong, without the path.
        error: what was raised.
    """

    path: tuple[str | int, ...]
    sentence: str
    error: BaseException


class Mismatch(ValueError):
    """A mapping does not fit a class.

    Attributes:
        problems: at least one, in the order of the class's fields.
    """

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(f"{'.'.join(map(str, p.path))}: {p.sentence}" for p in problems))
        self.problems = problems


class _Unusable(ValueError):
    """A value cannot be used."""


class _Refused(_Unusable):
    """A value has the wrong type."""

    def __init__(self, value: object, expected: str) -> None:
        super().__init__(f"must be {expected}, not {_shown(value)}")


def _shown(value: object) -> str:
    if isinstance(value, Secret | RawSecret):
        return "'***'"
    if isinstance(value, int) and abs(value) >= _WHOLE:
        return "one of more than 64 bits"
    text = redacted(repr(str(value) if isinstance(value, str) else value))
    return text if len(text) <= 60 else text[:56] + " …"


def convert(cls: type[T], mapping: Any) -> T:
    """Return *mapping* as an instance of the attrs class *cls*, strictly.

    Raises:
        Mismatch: it does not fit.
    """
    from cattrs.errors import BaseValidationError  # 40 ms that listing plugins does not need

    try:
        return _converter().structure(mapping, cls)
    except (BaseValidationError, _Unusable) as error:
        raise Mismatch(tuple(_problems(error, ()))) from None


def _problems(error: BaseException, path: tuple[str | int, ...]) -> Iterable[Problem]:
    from cattrs.errors import (
        ClassValidationError,
        ForbiddenExtraKeysError,
        IterableValidationError,
    )

    if isinstance(error, ClassValidationError):
        fields, others = error.group_exceptions()
        for inner, field in fields:
            yield from _problems(inner, (*path, field.name))
        for inner in others:
            yield from _problems(inner, path)
    elif isinstance(error, IterableValidationError):
        for inner, place in error.group_exceptions()[0]:
            yield from _problems(inner, (*path, place.index))
    elif isinstance(error, ForbiddenExtraKeysError):
        allowed = [field.name for field in attrs.fields(error.cl) if field.init and not field.metadata.get(HIDDEN)]
        for key in sorted(error.extra_fields):
            yield Problem(path=(*path, key), sentence=_unknown(key, allowed), error=error)
    elif isinstance(error, KeyError):
        yield Problem(path=path, sentence="is required", error=error)
    else:
        # Validators in the manner of attrs put the message first and the attribute second.
        names = [each.name for each in error.args if isinstance(each, attrs.Attribute)]
        sentence = str(error.args[0] if error.args else type(error).__name__).rstrip(".")
        yield Problem(path=(*path, *names[:1]), sentence=sentence, error=error)


def _unknown(key: str, allowed: list[str]) -> str:
    import difflib  # 7 ms that only an error needs

    close = difflib.get_close_matches(key, allowed, n=1)
    suggestion = f"did you mean {close[0]!r}? " if close else ""
    return f"is unknown; {suggestion}allowed: {', '.join(allowed) or 'none'}"


@functools.cache
def _converter() -> cattrs.Converter:
    import cattrs

    converter = cattrs.Converter(forbid_extra_keys=True)
    whole, number = _scalar(int, "a whole number", _is_whole), _scalar(float, "a number", _is_number)
    converter.register_structure_hook(bool, _scalar(bool, "true or false", lambda value: isinstance(value, bool)))
    converter.register_structure_hook(int, whole)
    converter.register_structure_hook(float, lambda value, cls: float(number(value, cls)))
    converter.register_structure_hook(str, _scalar(str, "a string", lambda value: isinstance(value, str)))
    converter.register_structure_hook(type(None), _scalar(type(None), "null", lambda value: value is None))
    converter.register_structure_hook_func(lambda cls: cls is Any, lambda value, _: _ready(value, object, "a value"))
    # Kept as it is, for whoever knows its type.
    converter.register_structure_hook_func(lambda cls: cls is object, lambda value, _: value)
    converter.register_structure_hook(Path, lambda value, _: Path(_ready(value, str, "a path")))
    converter.register_structure_hook(datetime, _moment)
    converter.register_structure_hook_factory(_is_choice, _choice)
    converter.register_structure_hook_factory(_is_union, _union)
    converter.register_structure_hook_factory(_is_list, _list)
    converter.register_structure_hook_factory(_is_table, _table)
    converter.register_structure_hook_factory(attrs.has, _class)
    return converter


Hook = Callable[[Any, Any], Any]


def _ready(value: Any, wanted: type, expected: str) -> Any:
    """Resolve the string types of this module; anything else is returned as it is."""
    if isinstance(value, Unresolved):
        raise _Unusable(value.problem)
    if isinstance(value, RawText):
        if wanted in (str, object):
            return Secret(value) if isinstance(value, RawSecret) else str(value)
        return _toml(value, expected)
    if wanted is str and not isinstance(value, str):
        raise _Refused(value, expected)
    return value


def _toml(text: RawText, expected: str) -> Any:
    try:
        table = parse_toml(f"value = {text}")
    except NotToml:
        table = {}
    if list(table) != ["value"]:
        raise _Refused(text, expected)
    return table["value"]


def _scalar(cls: type, expected: str, accepts: Callable[[Any], bool]) -> Hook:
    def structure_scalar(value: Any, _: Any) -> Any:
        value = _ready(value, cls, expected)
        if not accepts(value):
            raise _Refused(value, expected)
        return value

    return structure_scalar


_WHOLE = 1 << 63
"""Whole numbers have 64 bits, as in TOML; a longer one has no place in a store."""


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -_WHOLE <= value < _WHOLE


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _moment(value: Any, _: Any) -> datetime:
    expected = "a date and time with a zone, such as 2026-01-31T12:00:00Z"
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(_ready(value, str, expected))
    except _Unusable:
        raise
    except ValueError:
        raise _Refused(value, expected) from None
    if moment.tzinfo is None:
        raise _Refused(value, expected)
    return moment


def _is_choice(cls: Any) -> bool:
    return typing.get_origin(cls) is typing.Literal or (isinstance(cls, type) and issubclass(cls, enum.Enum))


def _choice(cls: Any) -> Hook:
    if isinstance(cls, enum.EnumType):
        members: dict[Any, Any] = {each.value: each for each in cls}  # type: ignore[var-annotated]  # of any kind
    else:
        members = {each: each for each in typing.get_args(cls)}
    kinds = {type(each) for each in members}
    expected = f"one of {', '.join(map(str, members))}"

    def structure_choice(value: Any, _: Any) -> Any:
        value = _ready(value, str if str in kinds else object, expected)
        if not isinstance(value, str | int) or value not in members or type(value) not in kinds:
            raise _Refused(value, expected)
        return members[value]

    return structure_choice


def _is_union(cls: Any) -> bool:
    return typing.get_origin(cls) in (typing.Union, types.UnionType)


def _union(cls: Any, converter: cattrs.Converter) -> Hook:
    # A string comes last, since raw text always is one; "nothing" comes first.
    members = sorted(typing.get_args(cls), key=lambda each: (each is not type(None), each is str))
    hooks = [(each, converter.get_structure_hook(each)) for each in members]

    def structure_union(value: Any, _: Any) -> Any:
        if value is None and type(None) in members:
            return None
        error: Exception | None = None
        for member, hook in hooks:
            if member is type(None):
                continue
            try:
                return hook(value, member)
            except Exception as refused:  # noqa: BLE001 (the reason of one member is raised below)
                # What is wrong inside a list says more than that it is no string.
                if error is None or isinstance(error, _Refused):
                    error = refused
        raise error or _Refused(value, str(cls))

    return structure_union


_LISTS: dict[Any, Callable[[Iterable[Any]], Any]] = {
    tuple: tuple,
    list: list,
    set: set,
    frozenset: frozenset,
    typing.get_origin(typing.Sequence[int]): tuple,
}


def _is_list(cls: Any) -> bool:
    return (typing.get_origin(cls) or cls) in _LISTS


def _list(cls: Any, converter: cattrs.Converter) -> Hook:
    element = (typing.get_args(cls) or (Any,))[0]
    make, hook = _LISTS[typing.get_origin(cls) or cls], converter.get_structure_hook(element)

    def structure_list(value: Any, _: Any) -> Any:
        if isinstance(value, RawText) and not value.lstrip().startswith("["):
            value = [RawText(each.strip()) for each in value.split(",") if each.strip()]
        value = _ready(value, list, "a list")
        if not isinstance(value, list | tuple):
            raise _Refused(value, "a list")
        return make(_each(cls, enumerate(value), lambda each: hook(each, element)))

    return structure_list


def _is_table(cls: Any) -> bool:
    return (typing.get_origin(cls) or cls) in (dict, typing.get_origin(typing.Mapping[str, int]))


def _table(cls: Any, converter: cattrs.Converter) -> Hook:
    element = (typing.get_args(cls) or (str, Any))[1]
    hook = converter.get_structure_hook(element)

    def structure_table(value: Any, _: Any) -> Any:
        value = _ready(value, dict, "a mapping")
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise _Refused(value, "a mapping")
        return dict(zip(value, _each(cls, value.items(), lambda each: hook(each, element)), strict=True))

    return structure_table


def _each(cls: Any, items: Iterable[tuple[Any, Any]], hook: Callable[[Any], Any]) -> list[Any]:
    from cattrs.errors import IterableValidationError, IterableValidationNote

    done, errors = [], []
    for place, item in items:
        try:
            done.append(hook(item))
        except Exception as error:  # noqa: BLE001 (collected: every wrong element is named)
            error.add_note(IterableValidationNote(f"at {place!r}", place, cls))
            errors.append(error)
    if errors:
        raise IterableValidationError(f"in {cls}", errors, cls)
    return done


def _class(cls: Any, converter: cattrs.Converter) -> Hook:
    from cattrs.gen import make_dict_structure_fn, override

    hidden: dict[str, Any] = {
        field.name: override(omit=True) for field in attrs.fields(cls) if field.metadata.get(HIDDEN)
    }
    shaped = has_shape(cls)
    build = make_dict_structure_fn(cls, converter, _cattrs_forbid_extra_keys=True, **hidden)

    def structure_class(value: Any, _: Any) -> Any:
        value = _ready(value, dict, "a mapping")
        if not isinstance(value, Mapping):
            raise _Refused(value, "a mapping")
        if not all(isinstance(key, str) for key in value):
            raise _Unusable(f"has a key that is no string: {_shown(next(k for k in value if not isinstance(k, str)))}")
        built = build(value, cls)
        if shaped and (fault := next(faults(cls, value), None)) is not None:
            field, sentence = fault
            raise _Unusable(sentence, field)
        return built

    return structure_class
