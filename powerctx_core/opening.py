"""Opens a store by URL, with the parts around it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from powerctx_core import config
from powerctx_core.context import (
    Context,
)
from powerctx_core.errors import (
    InvalidRequest,
    shown,
)
from powerctx_core.host import (
    Host,
)

__all__ = ["open"]


def open(
    url: str | None = None,
    *,
    embedder: str | None = None,
    settings: config.Settings | Mapping[str, Any] | None = None,
    plugins: Sequence[str] | None = None,
    extra: Sequence[object] = (),
) -> Context:
    """Open a store by URL.

    Args:
        url: ``sqlite:///notes.db``, ``memory://``, …; by default ``POWERCTX_STORE``, the setting ``store``, or the
            file in the user's data directory.
        embedder: name of an installed embedder, instead of the setting ``embedder``.
        settings: settings, as a value or as a mapping of the same shape as ``powerctx.toml``; by default those of the
            environment and the files.
        plugins: entry-point names of the only plugins to load; ``()`` for core's own parts.
        extra: plugin modules or objects that are not installed.

    Raises:
        ConfigError: a setting is wrong.
        StoreUnavailable: no installed store answers to the URL, or it cannot be opened.
    """
    if url is not None and (not isinstance(url, str) or not url.strip()):
        raise InvalidRequest(
            f"url is {shown(url)}; name a store, such as sqlite:///notes.db, or leave it out.", field="url"
        )
    if isinstance(settings, config.Settings):
        effective = settings
    elif settings is not None:
        effective = config.structure(settings)
    else:
        effective = config.load(flags=None, environ=os.environ, cwd=Path.cwd()).settings
    if embedder is not None:
        effective = attrs.evolve(effective, embedder=embedder)
    host = Host.compose(effective, allow=effective.plugins if plugins is None else plugins, extra=extra)
    chosen = url or effective.store or config.default_store_url()
    try:
        return Context(host, host.open_store(chosen), effective, chosen)
    except BaseException:
        host.close()
        raise
