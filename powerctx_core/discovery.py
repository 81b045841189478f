"""Finds installed plugins, imports the ones that may load, and takes their records; every failure is kept as data.

A plugin that is switched off is not imported.  One that crashes, even by ``sys.exit``, stops nobody else.
"""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs
import pluggy

from powerctx_core import hookspecs
from powerctx_core.errors import PluginError, blanked, redacted
from powerctx_core.hookspecs import API, GROUP, HOOKS
from powerctx_core.ports import Capability
from powerctx_core.records import FamilySpec, StoreSpec
from powerctx_core.types import LAYERS

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "Disabled",
    "Failed",
    "Loaded",
    "cause",
    "check_part",
    "discover",
    "given",
    "registrar",
    "take_records",
]

GROUPS = re.compile(r"powerctx\.v([0-9]+)")
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

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_FACTORY = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
_FIELD = re.compile(r"[a-z][a-z0-9_]{0,63}")
_FLAGS = ("wrapper", "hookwrapper", "tryfirst", "trylast")
_NO_RECORDS: Mapping[str, tuple[Any, ...]] = MappingProxyType({})


@attrs.frozen(kw_only=True)
class _Found:
    """A plugin of an installed distribution.

    Attributes:
        name: of its entry point.
        distribution, version: who provides it.
    """

    name: str
    distribution: str
    version: str

    @property
    def provider(self) -> str:
        """Distribution and version, for messages."""
        return f"{self.distribution} {self.version}".strip()


@attrs.frozen(kw_only=True)
class Loaded(_Found):
    """A plugin that was imported.

    Attributes:
        plugin: the module or object that its entry point names.
        records: hook -> what it offers, once :func:`take_records` has asked.
    """

    plugin: object
    records: Mapping[str, tuple[Any, ...]] = _NO_RECORDS
    state: str = attrs.field(default="ok", init=False)
    reason: str = attrs.field(default="", init=False)


@attrs.frozen(kw_only=True)
class Failed(_Found):
    """A plugin that contributes nothing.

    Attributes:
        state: ``failed``, or ``incompatible`` when it needs another version of this package.
        reason: one line.
        error: what was raised.
    """

    state: str
    reason: str
    error: BaseException


@attrs.frozen(kw_only=True)
class Disabled(_Found):
    """A plugin that the settings do not allow; it was not imported."""

    state: str = attrs.field(default="disabled", init=False)
    reason: str = attrs.field(default="not named in POWERCTX_PLUGINS or the setting 'plugins'", init=False)


def discover(allow: Sequence[str] | None) -> tuple[Loaded | Failed | Disabled, ...]:
    """Look for plugins once and import those that may load, in the order of their distributions' names.

    Args:
        allow: entry-point names that may load; ``None`` allows all, an empty list none.
    """
    found = sorted(_entry_points(), key=lambda each: (each[0].distribution.lower(), each[0].name, each[1].group))
    current = {who.distribution for who, entry in found if entry.group == GROUP}
    plugins: list[Loaded | Failed | Disabled] = []
    for who, entry in found:
        if entry.group != GROUP:
            # A distribution that serves several versions of the interface is used through this one.
            if who.distribution not in current:
                plugins.append(_other_api(who, entry.group))
        elif allow is not None and who.name not in allow:
            plugins.append(Disabled(name=who.name, distribution=who.distribution, version=who.version))
        else:
            plugins.append(_load(who, entry))
    return (*plugins, *_missing(allow or (), [plugin.name for plugin in plugins]))


def _entry_points() -> Iterator[tuple[_Found, EntryPoint]]:
    import importlib.metadata  # 20 ms, most of it for parsing mail

    seen = set()
    for distribution in importlib.metadata.distributions():
        try:
            # Most distributions are ruled out by this text; one that is damaged must not hide the others.
            if "powerctx.v" not in (distribution.read_text("entry_points.txt") or ""):
                continue
            name, version = str(distribution.metadata["Name"] or "unknown"), str(distribution.version or "")
            entries = [each for each in distribution.entry_points if GROUPS.fullmatch(each.group)]
        except Exception:  # noqa: S112 (damaged metadata of anybody)
            continue
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key not in seen:  # the first on the path is the one that is imported
            seen.add(key)
            for entry in entries:
                yield _Found(name=entry.name, distribution=name, version=version), entry


def _other_api(who: _Found, group: str) -> Failed:
    number = group.rpartition("v")[2]
    newer = int(number) > API
    advice = "upgrade powerctx-core" if newer else f"upgrade {who.distribution}"
    reason = f"made for plugin interface {number}, this powerctx-core has {API}; {advice}"
    return _failed(who, PluginError(f"{who.provider} is {reason}."), reason=reason, state="incompatible")


def _load(who: _Found, entry: EntryPoint) -> Loaded | Failed:
    try:
        plugin = entry.load()
    except (Exception, SystemExit) as error:  # whatever a plugin does, the others go on
        return _failed(who, error, reason=f"{entry.value} cannot be imported: {cause(error)}")
    return given(plugin, name=who.name, distribution=who.distribution, version=who.version)


def _missing(allow: Sequence[str], installed: list[str]) -> Iterator[Failed]:
    for name in allow:
        if name not in installed:
            reason = (
                f"named in POWERCTX_PLUGINS but not installed; {_hint(name, installed)}"
                f"installed: {', '.join(installed) or 'none'}"
            )
            who = _Found(name=name, distribution="", version="")
            yield _failed(who, PluginError(f"Plugin {name!r} is {reason}."), reason=reason)


def _hint(name: str, known: list[str]) -> str:
    import difflib  # 7 ms that only an error needs

    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}? " if close else ""


def given(plugin: object, *, name: str = "", distribution: str = "(given)", version: str = "") -> Loaded:
    """Wrap a module or object that is already imported."""
    name = name or getattr(plugin, "__name__", type(plugin).__name__)
    return Loaded(name=name, distribution=distribution, version=version, plugin=plugin)


def _failed(who: _Found, error: BaseException, *, reason: str, state: str = "failed") -> Failed:
    return Failed(
        name=who.name, distribution=who.distribution, version=who.version, state=state, reason=reason, error=error
    )


def cause(error: BaseException, secrets: Iterable[str] = ()) -> str:
    """Return one line that says what was raised, without secrets: those of URLs in it, and the given ones."""
    if isinstance(error, SystemExit):
        return blanked(f"it called sys.exit({error.code!r})", secrets)
    lines = blanked(str(error), secrets).strip().splitlines()
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    text = redacted(text)
    return text if len(text) <= 300 else text[:299] + "…"


class _Invalid(Exception):
    """A plugin breaks a rule."""

    def __init__(self, message: str, state: str = "failed") -> None:
        super().__init__(message)
        self.state = state


def registrar() -> pluggy.PluginManager:
    """Return a fresh manager that knows the hooks and no plugin."""
    manager = pluggy.PluginManager("powerctx")
    manager.add_hookspecs(hookspecs)
    return manager


def take_records(manager: pluggy.PluginManager, loaded: Loaded) -> Loaded | Failed:
    """Check a plugin, register it with *manager* and call its hooks, each alone.

    A plugin that breaks a rule or raises contributes nothing at all.
    """
    registered = None
    try:
        _check_hooks(manager, loaded.plugin)
        # The number keeps two plugins of one name apart.
        registered = manager.register(
            loaded.plugin, f"{loaded.distribution}:{loaded.name}#{len(manager.list_name_plugin())}"
        )
        records = {
            caller.name: _records(caller.name, implementation.function)
            for caller in manager.get_hookcallers(loaded.plugin) or ()
            for implementation in caller.get_hookimpls()
            if implementation.plugin is loaded.plugin and caller.name in HOOKS
        }
    except (Exception, SystemExit) as error:  # whatever a plugin does, the others go on
        if registered is not None:
            manager.unregister(name=registered)
        known = isinstance(error, _Invalid)
        return _failed(
            loaded,
            PluginError(f"{loaded.provider}: {error}.") if known else error,
            reason=str(error) if known else cause(error),
            state=error.state if isinstance(error, _Invalid) else "failed",
        )
    return attrs.evolve(loaded, records=MappingProxyType({hook: records[hook] for hook in HOOKS if hook in records}))


def _check_hooks(manager: pluggy.PluginManager, plugin: object) -> None:
    if inspect.isclass(plugin):
        raise _Invalid(f"its entry point names the class {plugin.__name__}; name a module or an instance")
    if any(each is plugin for _, each in manager.list_name_plugin()):
        raise _Invalid("what its entry point names is loaded already, by another entry point; remove one")
    hooks = 0
    for name in dir(plugin):
        options = manager.parse_hookimpl_opts(plugin, name)
        if options is not None:
            _check_hook(options.get("specname") or name, getattr(plugin, name), options)
            hooks += 1
        elif name in HOOKS and inspect.isroutine(inspect.getattr_static(plugin, name, None)):
            raise _Invalid(f"{name} is not marked; put @hookimpl of powerctx_core above it")
    if not hooks:
        raise _Invalid(f"it offers nothing; mark a function with @hookimpl: {', '.join(HOOKS)}")


def _check_hook(hook: str, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
    if hook not in HOOKS:
        if options.get("optionalhook"):
            return
        raise _Invalid(
            f"{hook} is not a hook of powerctx-core (interface {API}); {_hint(hook, list(HOOKS))}upgrade "
            f"powerctx-core, or use one of {', '.join(HOOKS)}",
            "incompatible",
        )
    flags = [flag for flag in _FLAGS if options.get(flag)]
    if flags:
        raise _Invalid(f"{hook} is marked {' and '.join(flags)}, which is refused: order is the user's, in settings")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise _Invalid(f"{hook} is 'async def'; hooks are plain functions that yield records")
    signature = inspect.signature(function, follow_wrapped=False)
    if any(each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in signature.parameters.values()):
        raise _Invalid(
            f"{hook} takes arguments; expected def {hook}() -> Iterable[{HOOKS[hook].__name__}], "
            f"actual def {hook}{signature}"
        )


def _records(hook: str, function: Any) -> tuple[Any, ...]:
    wanted = HOOKS[hook]
    returned = function()
    if inspect.isawaitable(returned) or hasattr(returned, "__aiter__"):
        if inspect.iscoroutine(returned):
            returned.close()
        raise _Invalid(f"{hook} returned {type(returned).__name__}; hooks are plain functions that yield records")
    if isinstance(returned, str | bytes | Mapping) or not isinstance(returned, Iterable):
        raise _Invalid(f"{hook} returned {_kind(returned)}, not an iterable of {wanted.__name__}; yield each record")
    records = tuple(itertools.islice(returned, RECORD_LIMIT + 1))
    if len(records) > RECORD_LIMIT:
        raise _Invalid(f"{hook} yields more than {RECORD_LIMIT} records")
    for record in records:
        if not isinstance(record, wanted):
            raise _Invalid(f"{hook} yields {_kind(record)}; expected {wanted.__name__}")
        _check_record(hook, record)
    names = [record.name for record in records]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise _Invalid(f"{hook} yields {twice[0]!r} twice; a name is unique per hook")
    return records


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def _check_record(hook: str, record: Any) -> None:
    name = record.name
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > 64:
        raise _Invalid(f"{hook}: name {name!r} is not lower-case words joined by '-', at most 64 characters")
    where = f"{hook} {name!r}"
    factory = record.factory
    if not callable(factory) and not (isinstance(factory, str) and _FACTORY.fullmatch(factory)):
        raise _Invalid(f"{where}: factory {factory!r} is neither callable nor of the form 'package.module:Name'")
    if not _is_frozen(record.settings):
        raise _Invalid(f"{where}: settings {record.settings!r} is not a frozen attrs class; use @attrs.frozen")
    if not isinstance(record.about, str) or len(record.about.splitlines()) > 1:
        raise _Invalid(f"{where}: about is not one line of text")
    if isinstance(record, StoreSpec):
        _check_store(where, record)
    if isinstance(record, FamilySpec):
        _check_family(where, record)


def _is_frozen(cls: object) -> bool:
    if not inspect.isclass(cls) or not attrs.has(cls):
        return False
    try:
        cls.__setattr__(object.__new__(cls), "_", None)
    except attrs.exceptions.FrozenInstanceError:
        return True
    except Exception:  # a class of its own kind
        return False
    return False


def _check_store(where: str, record: StoreSpec) -> None:
    schemes = record.schemes
    if not isinstance(schemes, tuple) or not schemes:
        raise _Invalid(f"{where}: schemes {schemes!r} is not a tuple of at least one URL scheme, such as ('acme',)")
    for scheme in schemes:
        if not isinstance(scheme, str) or not _SCHEME.fullmatch(scheme):
            raise _Invalid(f"{where}: {scheme!r} is not a URL scheme: a lower-case letter, then a-z 0-9 + . -")
    if len(set(schemes)) != len(schemes):
        raise _Invalid(f"{where}: schemes names one twice")
    unknown = [each for each in record.capabilities if not isinstance(each, Capability)]
    if unknown or not isinstance(record.capabilities, frozenset):
        raise _Invalid(f"{where}: capabilities is not a frozenset of Capability: {', '.join(Capability.__members__)}")


def _check_family(where: str, record: FamilySpec) -> None:
    for field in ("ceiling", "pool", "entries"):
        value = getattr(record, field)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise _Invalid(f"{where}: {field} {value!r} is not a whole number from 1 up")
    for field, allowed in (("searched", ("current", "current+references")), ("layer", LAYERS)):
        if getattr(record, field) not in allowed:
            raise _Invalid(f"{where}: {field} {getattr(record, field)!r} is not one of {', '.join(allowed)}")
    if not isinstance(record.identity, tuple) or not all(
        isinstance(each, str) and _FIELD.fullmatch(each) for each in record.identity
    ):
        raise _Invalid(f"{where}: identity is not a tuple of field names: a lower-case letter, then a-z 0-9 _")
    if not isinstance(record.admission, str) or not _NAME.fullmatch(record.admission):
        raise _Invalid(f"{where}: admission {record.admission!r} is not the name of an admission rule")


def check_part(hook: str, value: Any) -> None:
    """Check what a factory returned.

    Raises:
        TypeError: it lacks a method of its port, or is not synchronous.
    """
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise TypeError("its factory is asynchronous; parts are synchronous")
    for name in METHODS.get(hook, ()):
        method = getattr(value, name, None)
        if not callable(method):
            raise TypeError(f"its factory returned {_kind(value)} without the method {name}")
        if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
            raise TypeError(f"{type(value).__name__}.{name} is 'async def'; parts are synchronous")
