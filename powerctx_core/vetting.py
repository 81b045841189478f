"""What must hold of hooks, records and parts, whoever made them; every break is one sentence for the author."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import attrs
import pluggy

from powerctx_core.hookspecs import API, HOOKS
from powerctx_core.ports import Capability
from powerctx_core.records import FamilySpec, RendererSpec, StoreSpec
from powerctx_core.types import LAYERS, SECTION_LIMIT, SHOWN, TEXT_BYTES, TIERS

__all__ = ["METHODS", "OWN_NAME", "Invalid", "check_hooks", "check_part", "hint", "name_problem", "records_of"]

OWN_NAME = "core"
"""Of the core's own parts among the plugins."""
RECORD_LIMIT = 1000
"""Records that one hook may yield; more is a generator that does not end."""

METHODS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "powerctx_families": ("retrieve",),
        "powerctx_admissions": ("admit",),
        "powerctx_candidate_providers": ("candidates",),
        "powerctx_renderers": ("open", "entry", "escape", "close"),
        "powerctx_stores": ("status", "close"),
        "powerctx_embedders": ("embed",),
        "powerctx_token_estimators": ("cost",),
        "powerctx_sinks": ("observe",),
    }
)
"""Hook -> the methods that a part of it must have."""

ATTRIBUTES: Mapping[str, tuple[str, ...]] = MappingProxyType({"powerctx_stores": ("catalogue", "vectors")})
"""Hook -> the attributes that a part of it must have."""

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_FACTORY = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
_FIELD = re.compile(r"[a-z][a-z0-9_]{0,63}")
_TAKEN = frozenset({"cut", "ref", "text", "title", *SHOWN})
"""Members of a rendered entry, which no identity field may shadow."""
_FLAGS = ("wrapper", "hookwrapper", "tryfirst", "trylast")


class Invalid(Exception):
    """A plugin breaks a rule."""

    def __init__(self, message: str, state: str = "failed") -> None:
        super().__init__(message)
        self.state = state


def hint(name: str, known: list[str]) -> str:
    """Return a question that names the nearest of *known*, or nothing."""
    import difflib  # 7 ms that only an error needs

    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}? " if close else ""


def name_problem(name: str) -> str:
    """Return why a plugin cannot have the entry point *name*, by which settings switch it on and off, or nothing."""
    if name == OWN_NAME:
        return f"its entry point is called {name!r}, which is the core's own; its author must rename it"
    if not _NAME.fullmatch(name) or len(name) > 64:
        return f"its entry point {name!r} is not lower-case words joined by '-', at most 64 characters"
    return ""


def check_hooks(manager: pluggy.PluginManager, plugin: object) -> None:
    """Check what a plugin marks as hooks, before any is called.

    Raises:
        Invalid: it marks nothing, or something that is no hook, takes arguments or asks for an order.
    """
    if inspect.isclass(plugin):
        raise Invalid(f"its entry point names the class {plugin.__name__}; name a module or an instance")
    if any(each is plugin for _, each in manager.list_name_plugin()):
        raise Invalid("what its entry point names is loaded already, by another entry point; remove one")
    hooks = 0
    for name in dir(plugin):
        options = manager.parse_hookimpl_opts(plugin, name)
        if options is not None:
            _check_hook(options.get("specname") or name, getattr(plugin, name), options)
            hooks += 1
        elif name in HOOKS and inspect.isroutine(inspect.getattr_static(plugin, name, None)):
            raise Invalid(f"{name} is not marked; put @hookimpl of powerctx_core above it")
    if not hooks:
        raise Invalid(f"it offers nothing; mark a function with @hookimpl: {', '.join(HOOKS)}")


def _check_hook(hook: str, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
    if hook not in HOOKS:
        if options.get("optionalhook"):
            return
        raise Invalid(
            f"{hook} is not a hook of powerctx-core (interface {API}); {hint(hook, list(HOOKS))}upgrade "
            f"powerctx-core, or use one of {', '.join(HOOKS)}",
            "incompatible",
        )
    flags = [flag for flag in _FLAGS if options.get(flag)]
    if flags:
        raise Invalid(f"{hook} is marked {' and '.join(flags)}, which is refused: order is the user's, in settings")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise Invalid(f"{hook} is 'async def'; hooks are plain functions that yield records")
    signature = inspect.signature(function, follow_wrapped=False)
    if any(each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in signature.parameters.values()):
        raise Invalid(
            f"{hook} takes arguments; expected def {hook}() -> Iterable[{HOOKS[hook].__name__}], "
            f"actual def {hook}{signature}"
        )


def records_of(hook: str, function: Any) -> tuple[Any, ...]:
    """Call a hook and return its records.

    Raises:
        Invalid: what it gives is not an iterable of right records.
    """
    wanted = HOOKS[hook]
    returned = function()
    if inspect.isawaitable(returned) or hasattr(returned, "__aiter__"):
        if inspect.iscoroutine(returned):
            returned.close()
        raise Invalid(f"{hook} returned {type(returned).__name__}; hooks are plain functions that yield records")
    if isinstance(returned, str | bytes | Mapping) or not isinstance(returned, Iterable):
        raise Invalid(f"{hook} returned {_kind(returned)}, not an iterable of {wanted.__name__}; yield each record")
    records = tuple(itertools.islice(returned, RECORD_LIMIT + 1))
    if len(records) > RECORD_LIMIT:
        raise Invalid(f"{hook} yields more than {RECORD_LIMIT} records")
    for record in records:
        if not isinstance(record, wanted):
            raise Invalid(f"{hook} yields {_kind(record)}; expected {wanted.__name__}")
        _check_record(hook, record)
    names = [record.name for record in records]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise Invalid(f"{hook} yields {twice[0]!r} twice; a name is unique per hook")
    return records


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def _check_record(hook: str, record: Any) -> None:
    name = record.name
    if type(name) is not str or not _NAME.fullmatch(name) or len(name) > 64:
        raise Invalid(f"{hook}: name {name!r} is not lower-case words joined by '-', at most 64 characters")
    where = f"{hook} {name!r}"
    factory = record.factory
    if not callable(factory) and not (isinstance(factory, str) and _FACTORY.fullmatch(factory)):
        raise Invalid(f"{where}: factory {factory!r} is neither callable nor of the form 'package.module:Name'")
    if not _is_frozen(record.settings):
        raise Invalid(f"{where}: settings {record.settings!r} is not a frozen attrs class; use @attrs.frozen")
    if not isinstance(record.about, str) or len(record.about.splitlines()) > 1:
        raise Invalid(f"{where}: about is not one line of text")
    if isinstance(record, StoreSpec):
        _check_store(where, record)
    if isinstance(record, FamilySpec):
        _check_family(where, record)
    if isinstance(record, RendererSpec):
        _check_renderer(where, record)


def _is_frozen(cls: object) -> bool:
    if not inspect.isclass(cls) or not attrs.has(cls):
        return False
    try:
        cls.__setattr__(object.__new__(cls), "_", None)
    except attrs.exceptions.FrozenInstanceError:
        return True
    except Exception:  # noqa: BLE001 - a class of its own kind
        return False
    return False


def _check_store(where: str, record: StoreSpec) -> None:
    schemes = record.schemes
    if not isinstance(schemes, tuple) or not schemes:
        raise Invalid(f"{where}: schemes {schemes!r} is not a tuple of at least one URL scheme, such as ('acme',)")
    for scheme in schemes:
        if not isinstance(scheme, str) or not _SCHEME.fullmatch(scheme):
            raise Invalid(f"{where}: {scheme!r} is not a URL scheme: a lower-case letter, then a-z 0-9 + . -")
    if len(set(schemes)) != len(schemes):
        raise Invalid(f"{where}: schemes names one twice")
    unknown = [each for each in record.capabilities if not isinstance(each, Capability)]
    if unknown or not isinstance(record.capabilities, frozenset):
        raise Invalid(f"{where}: capabilities is not a frozenset of Capability: {', '.join(Capability.__members__)}")


def _check_family(where: str, record: FamilySpec) -> None:
    for field in ("ceiling", "pool", "entries"):
        value = getattr(record, field)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise Invalid(f"{where}: {field} {value!r} is not a whole number from 1 up")
    if not isinstance(record.title, str):
        raise Invalid(f"{where}: title {record.title!r} is not text")
    _check_section_range(where, record.section_range)
    size = record.text_bytes
    if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= TEXT_BYTES:
        raise Invalid(f"{where}: text_bytes {size!r} is not a whole number from 1 to {TEXT_BYTES}")
    for field, allowed in (("searched", ("current", "current+references")), ("layer", LAYERS), ("tiers", TIERS)):
        if getattr(record, field) not in allowed:
            raise Invalid(f"{where}: {field} {getattr(record, field)!r} is not one of {', '.join(allowed)}")
    if not isinstance(record.identity, tuple) or not all(
        isinstance(each, str) and _FIELD.fullmatch(each) for each in record.identity
    ):
        raise Invalid(f"{where}: identity is not a tuple of field names: a lower-case letter, then a-z 0-9 _")
    if taken := sorted(set(record.identity) & _TAKEN):
        raise Invalid(f"{where}: identity names {', '.join(taken)}, which every citation has already; use another name")
    if type(record.bucket) is not str or not _NAME.fullmatch(record.bucket):
        raise Invalid(f"{where}: bucket {record.bucket!r} is not lower-case words joined by '-'")
    if type(record.admission) is not str or not _NAME.fullmatch(record.admission):
        raise Invalid(f"{where}: admission {record.admission!r} is not the name of an admission rule")


def _check_section_range(where: str, value: object) -> None:
    if value is None:
        return
    if isinstance(value, tuple) and all(isinstance(each, int) and not isinstance(each, bool) for each in value):
        match value:
            case (low, high) if 1 <= low <= high <= SECTION_LIMIT:
                return
    raise Invalid(
        f"{where}: section_range {value!r} is neither None nor a fewest and a most entries from 1 to {SECTION_LIMIT}"
    )


def _check_renderer(where: str, record: RendererSpec) -> None:
    if not isinstance(record.shows, tuple) or not set(record.shows) <= set(SHOWN):
        raise Invalid(f"{where}: shows {record.shows!r} is not a tuple of {', '.join(SHOWN)}")


def check_part(hook: str, value: Any) -> None:
    """Check what a factory returned.

    Raises:
        TypeError: it lacks a method or an attribute of its port, or is not synchronous.
    """
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise TypeError("its factory is asynchronous; parts are synchronous")
    names = METHODS.get(hook, ())
    if hook == "powerctx_families" and hasattr(value, "search"):
        if hasattr(value, "retrieve"):
            raise TypeError(
                f"its factory returned {_kind(value)} with both retrieve and search; a family whose engine admits has "
                "search alone"
            )
        names = ("search",)
    for name in names:
        method = getattr(value, name, None)
        if not callable(method):
            raise TypeError(f"its factory returned {_kind(value)} without the method {name}")
        if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
            raise TypeError(f"{type(value).__name__}.{name} is 'async def'; parts are synchronous")
    for name in ATTRIBUTES.get(hook, ()):
        try:
            getattr(value, name)
        except AttributeError:
            raise TypeError(f"its factory returned {_kind(value)} without the attribute {name}") from None
