"""Errors of the store that is open: whatever it raises names it, and shows none of its secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Self, TypeVar

import attrs

from powerctx_core.config import Settings
from powerctx_core.errors import PowerctxError, StoreError, cause, made_safe, url_secrets
from powerctx_core.host import Host
from powerctx_core.secrecy import secrets

__all__ = ["Blame"]

_T = TypeVar("_T")


@attrs.frozen
class Blame:
    """How failures of one store are told.

    Attributes:
        title: the store and who provides it.
        hidden: what no message may show: secrets of its settings and of the URL.
    """

    title: str
    hidden: frozenset[str]

    @classmethod
    def of(cls, host: Host, settings: Settings, url: str) -> Self:
        """Return that of the store that serves *url*."""
        name = host.store_for(url).name
        state = frozenset[str]() if settings.state is None else frozenset(url_secrets(settings.state))
        title = f"store {name!r} of {host.provider('powerctx_stores', name)}"
        return cls(title, secrets(settings, name) | frozenset(url_secrets(url)) | state)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Turn what is raised in the block into an error of this package, without secrets.

        Raises:
            PowerctxError: what was raised, made safe.
            StoreError: anything else was raised; Ctrl-C goes through.
        """
        try:
            yield
        except KeyboardInterrupt:
            raise
        except PowerctxError as error:
            raise made_safe(error, self.hidden)  # noqa: B904 - it is the same error, most often
        except BaseException as error:
            raise self.error(error) from error

    def each(self, values: Callable[[], Iterable[_T]]) -> Iterator[_T]:
        """Return *values*, made now, and taken one by one, as in such a block."""
        with self():
            return self._taken(iter(values()))

    def _taken(self, iterator: Iterator[_T]) -> Iterator[_T]:
        while True:
            with self():
                try:
                    value = next(iterator)
                except StopIteration:
                    return
            yield value

    def error(self, error: BaseException) -> StoreError:
        """Return the error to raise for what is none of this package."""
        told = cause(error, self.hidden)
        return StoreError(f"The {self.title} failed: {told}; see `powerctx doctor`, or ask its author.")
