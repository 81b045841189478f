"""Finds installed plugins, imports the ones that may load, and takes their records; every failure is kept as data.

A plugin that is switched off is not imported.  One that crashes, even by ``sys.exit`` or by what is no ``Exception``,
stops nobody else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs
import pluggy

from powerctx_core import hookspecs
from powerctx_core.errors import PluginError, cause, safe_message
from powerctx_core.hookspecs import API, GROUP, HOOKS
from powerctx_core.vetting import Invalid, check_hooks, hint, name_problem, records_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "Disabled",
    "Failed",
    "Loaded",
    "cause",
    "discover",
    "given",
    "registrar",
    "take_records",
]

GROUPS = re.compile(r"powerctx\.v([0-9]{1,6})")
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
        elif problem := name_problem(who.name):
            plugins.append(_failed(who, PluginError(f"{who.provider}: {problem}."), reason=problem))
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
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a plugin does, the others go on
        return _failed(who, error, reason=f"{entry.value} cannot be imported: {cause(error)}")
    return given(plugin, name=who.name, distribution=who.distribution, version=who.version)


def _missing(allow: Sequence[str], installed: list[str]) -> Iterator[Failed]:
    for name in allow:
        if name not in installed:
            reason = (
                f"named in POWERCTX_PLUGINS but not installed; {hint(name, installed)}"
                f"installed: {', '.join(installed) or 'none'}"
            )
            who = _Found(name=name, distribution="", version="")
            yield _failed(who, PluginError(f"Plugin {name!r} is {reason}."), reason=reason)


def given(plugin: object, *, name: str = "", distribution: str = "(given)", version: str = "") -> Loaded:
    """Wrap a module or object that is already imported."""
    name = name or getattr(plugin, "__name__", type(plugin).__name__)
    return Loaded(name=name, distribution=distribution, version=version, plugin=plugin)


def _failed(who: _Found, error: BaseException, *, reason: str, state: str = "failed") -> Failed:
    return Failed(
        name=who.name, distribution=who.distribution, version=who.version, state=state, reason=reason, error=error
    )


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
        check_hooks(manager, loaded.plugin)
        # The number keeps two plugins of one name apart.
        registered = manager.register(
            loaded.plugin, f"{loaded.distribution}:{loaded.name}#{len(manager.list_name_plugin())}"
        )
        records = {
            caller.name: records_of(caller.name, implementation.function)
            for caller in manager.get_hookcallers(loaded.plugin) or ()
            for implementation in caller.get_hookimpls()
            if implementation.plugin is loaded.plugin and caller.name in HOOKS
        }
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a plugin does, the others go on
        if registered is not None:
            manager.unregister(name=registered)
        if type(error) is Invalid:
            reason = safe_message(str(error))
            return _failed(loaded, PluginError(f"{loaded.provider}: {reason}."), reason=reason, state=error.state)
        return _failed(loaded, error, reason=cause(error))
    return attrs.evolve(loaded, records=MappingProxyType({hook: records[hook] for hook in HOOKS if hook in records}))
