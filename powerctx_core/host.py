"""The plugin host: composes installed parts once, makes each when it is first used, and closes what it made.

Every :func:`powerctx_core.open` has its own host; there is no global one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any, Self, cast

import attrs

from powerctx_core import builtin
from powerctx_core.config import Settings
from powerctx_core.discovery import (
    Disabled,
    Failed,
    Loaded,
    discover,
    given,
    registrar,
    take_records,
)
from powerctx_core.errors import (
    CapabilityError,
    InvalidRequest,
    PluginError,
    StoreError,
    StoreUnavailable,
    blanked,
    redacted,
    redacted_url,
    shown,
    url_secrets,
)
from powerctx_core.factories import Factories
from powerctx_core.offers import NOUNS, PACKAGES, PART_PACKAGES, Offer, clash
from powerctx_core.ports import Store
from powerctx_core.records import FamilySpec, StoreSpec
from powerctx_core.types import MEMORIES
from powerctx_core.vetting import OWN_NAME

__all__ = ["Host", "PluginStatus"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


@attrs.frozen(kw_only=True)
class PluginStatus:
    """One row of ``powerctx plugins``.

    Attributes:
        name: of the entry point.
        distribution, version: who provides it; ``(given)`` for a plugin handed to the host.
        state: ``ok``, ``failed``, ``incompatible``, ``disabled``, or ``clash`` when a part of it has the name of
            another's.
        reason: one line; empty when all is well.
        hooks: hook -> names of the parts that it offers.
    """

    name: str
    distribution: str
    version: str
    state: str
    reason: str = ""
    hooks: Mapping[str, tuple[str, ...]] = MappingProxyType({})


class Host:
    """The parts of one deployment.

    All methods may be called from any thread.  Use :meth:`compose` to make one, :meth:`close` (or ``with``) when done.
    """

    def __init__(self, settings: Settings, plugins: Sequence[Loaded | Failed | Disabled]) -> None:
        self.settings = settings
        self._plugins = tuple(plugins)
        offered: dict[tuple[str, str], list[Offer]] = {}
        schemes: dict[str, list[Offer]] = {}
        for plugin in self._plugins:
            if isinstance(plugin, Loaded):
                for hook, records in plugin.records.items():
                    for record in records:
                        part = Offer(hook, record, plugin)
                        offered.setdefault((hook, record.name), []).append(part)
                        for scheme in record.schemes if isinstance(record, StoreSpec) else ():
                            schemes.setdefault(scheme, []).append(part)
        self._offered: Mapping[tuple[str, str], tuple[Offer, ...]] = {k: tuple(v) for k, v in offered.items()}
        self._schemes: Mapping[str, tuple[Offer, ...]] = {k: tuple(v) for k, v in schemes.items()}
        self._clashes = tuple(
            [(f"{NOUNS[hook][0]} {name!r}", parts) for (hook, name), parts in self._offered.items() if len(parts) > 1]
            + [(f"the URL scheme {each!r}", parts) for each, parts in self._schemes.items() if len(parts) > 1]
        )
        self._factories = Factories(settings, self._offered)

    @classmethod
    def compose(
        cls, settings: Settings | None = None, *, allow: Sequence[str] | None = None, extra: Iterable[object] = ()
    ) -> Self:
        """Find, check and register all plugins that may load; a broken one is kept as data and never raises.

        Args:
            settings: defaults when absent.
            allow: entry-point names that may load; ``settings.plugins`` when absent.
            extra: plugin modules or objects that are already imported; they always load.
        """
        settings = Settings() if settings is None else settings
        core = given(builtin, name=OWN_NAME, distribution="powerctx-core", version=_own_version())
        allow = settings.plugins if allow is None else allow
        found = [core, *discover(None if allow is None else [name for name in allow if name != core.name])]
        for plugin in extra:
            if not any(isinstance(each, Loaded) and each.plugin is plugin for each in found):
                found.append(given(plugin))
        manager = registrar()
        return cls(settings, [take_records(manager, each) if isinstance(each, Loaded) else each for each in found])

    def names(self, hook: str) -> tuple[str, ...]:
        """Return the names of the usable parts of *hook*, in order of their plugins."""
        return tuple(name for (of, name), parts in self._offered.items() if of == hook and len(parts) == 1)

    def spec(self, hook: str, name: str, *, field: str | None = None) -> Any:
        """Return the record of a part.

        Args:
            hook: full name of the hook.
            name: of the part.
            field: request field that named it.

        Raises:
            InvalidRequest: no such part, and *field* is given.
            CapabilityError: no such part; the message lists the installed ones.
            PluginError: two plugins offer it.
        """
        return self._part(hook, name, field).record

    def provider(self, hook: str, name: str) -> str:
        """Return distribution and version of a part, for messages.

        Raises:
            CapabilityError, PluginError: as :meth:`spec`.
        """
        return self._part(hook, name).owner.provider

    def own(self, hook: str, name: str) -> bool:
        """Tell whether a part is core's own.

        Raises:
            CapabilityError, PluginError: as :meth:`spec`.
        """
        return self._part(hook, name).owner.plugin is builtin

    def part(self, hook: str, name: str, *, field: str | None = None) -> Any:
        """Return a part, made at its first use with the settings of ``[parts.<name>]``; every caller gets the same.

        Blocks while another thread makes it.  A command is the object that its factory names.

        Raises:
            InvalidRequest, CapabilityError, PluginError: as :meth:`spec`.
            ConfigError: its settings do not fit.
            PluginError: it cannot be imported or made; the message names distribution, hook, part and cause.
        """
        self._factories.check_open()
        if (slot := self._factories.kept(hook, name)) is not None:  # no lock on the way of every request
            return slot.value
        part = self._part(hook, name, field)
        if hook == "powerctx_stores":
            raise CapabilityError(f"A store is opened by its URL; use open_store('{part.record.schemes[0]}://…').")
        return self._factories.once(part, *_given(part))

    def store_for(self, url: str) -> StoreSpec:
        """Return the record of the store that serves *url*, by its scheme.

        Raises:
            StoreUnavailable: no installed store serves it; the message names what does, or what to install.
            PluginError: two plugins serve it.
        """
        return cast("StoreSpec", self._store(url).record)

    def open_store(self, url: str) -> Store:
        """Open the store at *url*; closing it is the caller's, or else :meth:`close` does it.

        Raises:
            StoreUnavailable: with URL (without secrets), distribution, cause and next step.
            PluginError: two plugins serve the scheme.
            ConfigError: the store's settings do not fit.
        """
        self._factories.check_open()
        part = self._store(url)
        try:
            arguments = (url, self.open_store) if part.record.composed else (url,)
            return cast("Store", self._factories.make(part, *arguments))
        except PluginError as error:
            raise StoreUnavailable(f"{redacted_url(url)} cannot be opened. {_without_password(url, str(error))}") from (
                error.__cause__ or error
            )
        except StoreError as error:
            message = _without_password(url, str(error))
            if redacted_url(url) not in message:
                message = f"{redacted_url(url)}: {message}"
            if part.owner.distribution not in message:
                message = f"{message.rstrip('.')} ({part})."
            raise StoreUnavailable(message) from error

    def report(self) -> tuple[PluginStatus, ...]:
        """Return every plugin with its state, core's own first."""
        return tuple(self._status(plugin) for plugin in self._plugins)

    def problems(self) -> tuple[str, ...]:
        """Return one sentence for each clash, and for each setting that belongs to or names no installed part."""
        from powerctx_core.misnamed import misnamed  # only a report needs it

        clashes = [clash(what, parts) for what, parts in self._clashes]
        known = {name for _, name in self._offered}
        unused = [
            f"[parts.{name}] belongs to no part that is loaded; loaded: {', '.join(sorted(known))}."
            for name in self.settings.parts
            if name not in known
        ]
        return (*clashes, *unused, *misnamed(self.settings, self.names, self._buckets()))

    def _buckets(self) -> tuple[str, ...]:
        """Return the buckets that families of plugins add."""
        specs = [self.spec("powerctx_families", name) for name in self.names("powerctx_families")]
        return tuple(spec.bucket for spec in specs if spec.searchable and spec.bucket != MEMORIES)

    def check(self, name: str) -> tuple[PluginStatus, ...]:
        """Load everything of the plugin *name* (entry point or distribution), and make its parts, with their settings.

        A store is made for a URL, so that of a store only factory and settings are loaded.  Blocks as long as the
        factories do.

        Raises:
            CapabilityError: it is not installed or switched off.
            ConfigError: the settings of a part do not fit.
            PluginError: something of it does not load; ``__cause__`` holds the original error with its traceback.
        """
        chosen = [each for each in self._plugins if name in (each.name, each.distribution)]
        if not chosen:
            names = ", ".join(each.name for each in self._plugins)
            raise CapabilityError(f"No plugin {name!r} is installed; installed: {names}.")
        for plugin in chosen:
            if isinstance(plugin, Disabled):
                raise CapabilityError(
                    f"Plugin {name!r} is switched off; run POWERCTX_PLUGINS={plugin.name} powerctx check {plugin.name}."
                )
            if isinstance(plugin, Failed):
                who = f"{plugin.name} ({plugin.provider})" if plugin.provider else plugin.name
                verb = "failed" if plugin.state == "failed" else f"is {plugin.state}"
                raise PluginError(f"{who} {verb}: {plugin.reason}.") from plugin.error
            for hook, records in plugin.records.items():
                for record in records:
                    part = Offer(hook, record, plugin)
                    self._check_part(part)
                    if isinstance(record, FamilySpec) and record.admission not in self.names("powerctx_admissions"):
                        known = ", ".join(self.names("powerctx_admissions"))
                        raise PluginError(
                            f"The {part} names the admission rule {record.admission!r}, which is not installed; "
                            f"installed: {known}."
                        )
            for what, parts in self._clashes:
                if any(part.owner is plugin for part in parts):
                    raise PluginError(clash(what, parts))
        return tuple(self._status(plugin) for plugin in chosen)

    def _check_part(self, part: Offer) -> None:
        if part.hook == "powerctx_stores":
            self._factories.load(part, checked=True)
            self._factories.read_settings(part)
        else:
            self._factories.make(part, *_given(part), checked=True)

    def close(self) -> None:
        """Close every part and store that was made, the last first; errors are logged.  Again is allowed."""
        self._factories.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _part(self, hook: str, name: str, field: str | None = None) -> Offer:
        parts = self._offered.get((hook, name), ())
        noun, plural = NOUNS[hook]
        if len(parts) > 1:
            raise PluginError(clash(f"{noun} {name!r}", parts))
        if parts:
            return parts[0]
        package = PART_PACKAGES.get((hook, name))
        hint = f" Install {package} for it." if package else ""
        message = (
            f"No {noun} {shown(name)} is installed; installed {plural}: {', '.join(self.names(hook)) or 'none'}."
            f"{hint}{self._absent()}"
        )
        raise CapabilityError(message) if field is None else InvalidRequest(f"{field}: {message}", field=field)

    def _store(self, url: str) -> Offer:
        match = _SCHEME.match(url)
        told = redacted_url(url) if match or "@" not in url else "(not shown)"
        if match is None:
            raise StoreUnavailable(f"{told!r} is not a store URL; write one such as sqlite:///notes.db.")
        scheme = match[1].lower()
        parts = self._schemes.get(scheme, ())
        if len(parts) > 1:
            raise PluginError(clash(f"the URL scheme {scheme!r}", parts))
        if parts:
            return self._part("powerctx_stores", parts[0].record.name)
        installed = ", ".join(f"{each}://" for each in self._schemes)
        package = next((package for start, package in PACKAGES if scheme.startswith(start)), None)
        have = {plugin.distribution for plugin in self._plugins}
        advice = f" Install it with: pip install {package}." if package is not None and package not in have else ""
        raise StoreUnavailable(
            f"No installed store serves {scheme}:// ({told}); installed: {installed or 'none'}.{advice}{self._absent()}"
        )

    def _absent(self) -> str:
        """Return what might explain a missing part: plugins that failed or are switched off."""
        sentences = [
            f" Plugin {each.name!r} failed to load: {each.reason}; run `powerctx check {each.name}`."
            for each in self._plugins
            if isinstance(each, Failed)
        ]
        off = [each.name for each in self._plugins if isinstance(each, Disabled)]
        if off:
            sentences.append(f" Switched off by POWERCTX_PLUGINS: {', '.join(off)}.")
        return "".join(sentences)

    def _status(self, plugin: Loaded | Failed | Disabled) -> PluginStatus:
        state, reason, records = plugin.state, plugin.reason, getattr(plugin, "records", {})
        for what, parts in self._clashes:
            if state in ("ok", "clash") and any(part.owner is plugin for part in parts):
                state, reason = "clash", reason or clash(what, parts)
        return PluginStatus(
            name=plugin.name,
            distribution=plugin.distribution,
            version=plugin.version,
            state=state,
            reason=reason,
            hooks=MappingProxyType({hook: tuple(each.name for each in found) for hook, found in records.items()}),
        )


def _given(part: Offer) -> tuple[Any, ...]:
    """Return what the factory of a part that needs no URL takes before the settings."""
    return (part.record,) if part.hook == "powerctx_families" else ()


def _own_version() -> str:
    import importlib.metadata  # as in discovery

    try:
        return importlib.metadata.version("powerctx-core")
    except importlib.metadata.PackageNotFoundError:  # run from a source tree that is not installed
        return ""


def _without_password(url: str, message: str) -> str:
    """Return *message*, which may quote a driver, without the secrets of *url*."""
    return redacted(blanked(message.replace(url, redacted_url(url)), url_secrets(url)))
