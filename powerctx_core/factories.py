"""Makes parts from the records that a host was offered, each when it is first used, and closes what it made."""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from powerctx_core.config import Settings, part_settings
from powerctx_core.errors import (
    CapabilityError,
    ConfigError,
    InvalidRequest,
    PluginError,
    PowerctxError,
    StoreError,
    cause,
    made_safe,
)
from powerctx_core.observers import within
from powerctx_core.offers import Offer, broken
from powerctx_core.secrecy import secrets
from powerctx_core.vetting import check_part

__all__ = ["Factories"]

_LOGGER = logging.getLogger(__name__)
_CLOSING_S = 1.0


class _Slot:
    """Where a part is kept once it is made; its lock lets one thread make it."""

    __slots__ = ("lock", "made", "value")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.made = False
        self.value: Any = None


class Factories:
    """The parts of one host that were made.  Thread-safe."""

    def __init__(self, settings: Settings, offered: Mapping[tuple[str, str], Sequence[Offer]]) -> None:
        self._settings = settings
        self._offered = offered
        self._lock = threading.Lock()
        self._slots: dict[tuple[str, str], _Slot] = {}
        self._made: list[tuple[Offer, Any]] = []
        self._closed = False

    def check_open(self) -> None:
        """Refuse to go on after :meth:`close`.

        Raises:
            PowerctxError: this was closed.
        """
        if self._closed:
            raise PowerctxError("This host is closed; open a new one.")

    def kept(self, hook: str, name: str) -> _Slot | None:
        """Return the slot of a part that is made, without a lock, or ``None``."""
        slot = self._slots.get((hook, name))
        return slot if slot is not None and slot.made else None

    def once(self, offer: Offer, *arguments: Any) -> Any:
        """Return the part of *offer*, made now if it is not yet; blocks while another thread makes it.

        Raises:
            ConfigError, PluginError: as :meth:`make`.
        """
        with self._lock:
            slot = self._slots.setdefault((offer.hook, offer.record.name), _Slot())
        with slot.lock:
            if not slot.made:
                slot.value = self.make(offer, *arguments)
                slot.made = True
        return slot.value

    def make(self, offer: Offer, *arguments: Any, checked: bool = False) -> Any:
        """Make the part of *offer* anew; a command is the object that its factory names.

        Args:
            offer: what to make.
            arguments: what the factory takes before the settings.
            checked: the plugin is being checked, so that no error need advise it.

        Raises:
            ConfigError: its settings do not fit.
            PluginError: it cannot be imported or made; the message names distribution, hook, part and cause.
            PowerctxError: another error of this tree that the factory raised itself, without secrets.
        """
        factory = self.load(offer, checked=checked)
        if offer.hook == "powerctx_commands":
            return factory
        settings = self.read_settings(offer)
        hidden = secrets(self._settings, offer.record.name)
        try:
            value = factory(*arguments, settings)
            self._check(offer, value)
        except KeyboardInterrupt:
            raise
        except (PluginError, ConfigError, CapabilityError, StoreError) as error:
            raise made_safe(error, hidden, offer)  # noqa: B904 - it is the same error, most often
        except BaseException as error:
            if isinstance(error, InvalidRequest) and offer.hook == "powerctx_stores":  # the URL is the caller's
                raise made_safe(error, hidden)  # noqa: B904 - it is the same error, most often
            raise broken(offer, "could not be made", error, hidden, checked=checked) from error
        with self._lock:
            if not self._closed:
                self._made.append((offer, value))
                return value
        self._close(offer, value)
        raise PowerctxError("This host was closed meanwhile; open a new one.")

    def load(self, offer: Offer, *, checked: bool = False) -> Any:
        """Return the factory that a record names, imported if need be.

        Raises:
            PluginError: it cannot be imported, or is not callable; the advice is to check the plugin, unless *checked*.
        """
        factory = offer.record.factory
        if not isinstance(factory, str):
            return factory
        module, _, name = factory.partition(":")
        try:
            found = getattr(importlib.import_module(module), name)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise broken(offer, f"could not be loaded from {factory}", error, checked=checked) from error
        if not callable(found):
            raise PluginError(f"The {offer} ({offer.hook}): {factory} is not callable; correct its record.")
        return found

    def read_settings(self, offer: Offer) -> Any:
        """Return the settings of ``[parts.<name>]`` in the class of the record.

        Raises:
            ConfigError: they do not fit.
            PluginError: reading them fails otherwise.
        """
        record = offer.record
        foreign = {
            field.name
            for (hook, name), offers in self._offered.items()
            for other in offers
            if name == record.name and hook != offer.hook
            for field in attrs.fields(other.record.settings)
        }
        hidden = secrets(self._settings, record.name)
        try:
            return part_settings(record.settings, self._settings, record.name, frozenset(foreign))
        except (ConfigError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise broken(offer, "has settings that cannot be read", error, hidden) from error

    def close(self) -> None:
        """Close every part and store that was made, the last first; errors are logged.  Again is allowed."""
        with self._lock:
            self._closed = True
            made, self._made = self._made, []
        for offer, value in reversed(made):
            self._close(offer, value)

    def _check(self, offer: Offer, value: Any) -> None:
        try:
            check_part(offer.hook, value)
        except BaseException:
            self._close(offer, value)
            raise

    def _close(self, offer: Offer, value: Any) -> None:
        # The close of a renderer ends a text.
        if offer.hook == "powerctx_renderers" or not callable(getattr(value, "close", None)):
            return
        try:
            if offer.hook != "powerctx_sinks":
                value.close()
            elif not within(_CLOSING_S, value.close):  # an observer never delays anybody, at the end neither
                _LOGGER.warning("Closing the %s takes longer than %g s; it is left alone.", offer, _CLOSING_S)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - what is left is closed too
            hidden = secrets(self._settings, offer.record.name)
            _LOGGER.error("Closing the %s failed: %s", offer, cause(error, hidden))  # noqa: TRY400 - it may hold secrets
