"""The one exception tree.

Every message is a single sentence (or a few) that says what was wrong, where, which values are allowed and what to do
next.  Data a program may need stays on the exception as attributes.  Messages never hold secrets: URLs are passed
through :func:`redacted_url` first.
"""

from __future__ import annotations

import re

__all__ = [
    "CapabilityError",
    "ConfigError",
    "InvalidRequest",
    "NotFound",
    "PlanInvariantError",
    "PluginError",
    "PoolInvariantError",
    "PowerctxError",
    "StoreError",
    "StoreUnavailable",
    "redacted",
    "redacted_url",
]


class PowerctxError(Exception):
    """Base of everything this package raises on purpose."""


class InvalidRequest(PowerctxError, ValueError):
    """A request, item or address holds a value that is not allowed.

    Attributes:
        field: name of the offending field, as the caller wrote it.
    """

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class NotFound(PowerctxError, LookupError):
    """An address names nothing that is stored."""


class CapabilityError(PowerctxError):
    """Something was asked for that the installed parts cannot do; the message names what to install or change."""


class ConfigError(PowerctxError, ValueError):
    """A settings file, environment variable or flag holds a bad value."""


class PluginError(PowerctxError):
    """A plugin could not be used; the message names its distribution and version."""


class StoreError(PowerctxError):
    """A store refused or failed an operation; nothing of that operation was kept."""


class StoreUnavailable(StoreError):
    """A store could not be opened or reached; the message names URL (without secrets), cause and next step."""


class PoolInvariantError(PowerctxError):
    """A family returned a pool that breaks its contract; the family's outcome is ``invalid``."""


class PlanInvariantError(PowerctxError):
    """The planner or a renderer broke one of its promises; a wrong pack is never delivered instead."""


# Up to the last "@" before path, query or fragment: a password may hold "@" itself.
_CREDENTIALS = re.compile(r"(?<=://)[^/?#\s]*@")
_SECRET_PARAMETER = re.compile(r"(?i)([?&;][^=&;\s]*(?:pass|token|secret|key|auth|credential)[^=&;\s]*=)[^&;\s]*")


def redacted_url(url: str) -> str:
    """Return *url* with user info and secret-looking query parameters replaced by ``***``."""
    return _SECRET_PARAMETER.sub(r"\1***", _CREDENTIALS.sub("***@", url))


def redacted(message: str) -> str:
    """Return *message* with the secrets of every URL in it replaced by ``***``."""
    return re.sub(r"\S+", lambda word: redacted_url(word[0]) if "://" in word[0] else word[0], message)
