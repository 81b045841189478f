"""Text that is more than text: raw, secret, or a reference that could not be resolved."""

from __future__ import annotations

__all__ = ["RawSecret", "RawText", "Secret", "Unresolved"]


class RawText(str):
    """Text of an environment variable: taken as it is where a string is wanted, else read as a TOML value."""

    __slots__ = ()


class Secret(str):
    """A string whose ``repr`` does not show it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


class RawSecret(RawText):
    """Raw text that becomes a :class:`Secret` where a string is wanted."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


class Unresolved(str):
    """A reference that could not be resolved; an error only if something needs the value."""

    __slots__ = ("problem",)

    problem: str
