"""What hooks yield: one frozen record type for each hook.

A record names a part and says how to make it.  ``factory`` is a callable or ``"package.module:Name"``, which is
imported when the part is first used, so that listing plugins costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from powerctx_core.ports import Capability
from powerctx_core.types import TEXT_BYTES

__all__ = [
    "AdmissionSpec",
    "CommandSpec",
    "EmbedderSpec",
    "Factory",
    "FamilySpec",
    "NoSettings",
    "ProviderSpec",
    "RendererSpec",
    "SinkSpec",
    "StoreSpec",
    "TokenEstimatorSpec",
]

Factory = str | Callable[..., Any]


@attrs.frozen
class NoSettings:
    """The settings of a part that has none."""


@attrs.frozen(kw_only=True)
class _Spec:
    """What every record holds.

    Attributes:
        name: kebab-case, unique per hook.
        factory: makes the part; see the subclass for its arguments.
        settings: frozen attrs class of the part's settings, read from ``[parts.<name>]``.
        about: one line for ``powerctx plugins``.
    """

    name: str
    factory: Factory
    settings: type = NoSettings
    about: str = ""


@attrs.frozen(kw_only=True)
class FamilySpec(_Spec):
    """A kind of evidence.  ``factory(spec, settings)`` returns a :class:`powerctx_core.ports.Family`.

    Attributes:
        title: for headings.
        identity: names of the family's own identity fields beside the address.
        searchable: found by a query.  One that is not gives its most recent items instead, *pool* of each scope, and
            only where a section asks for it; nothing of it is weighed against the query.
        searched: ``current`` or ``current+references``.
        ceiling: candidates over all scopes under the compatible policy.
        pool: pool size per channel under the compatible policy.
        entries: entries delivered under the compatible policy.
        section_range: fewest and most entries that a section of it may ask for; ``None`` when it has no sections.
        layer: layer of items that declare none.
        bucket: of the search surface, that its items count for; its own name when absent.
        tiers: most that the search surface shows of an item unless it is asked for more: ``abstract``, ``overview`` or
            ``full``.
        text_bytes: longest text of an item, 1 to 1 MiB of UTF-8.
        admission: name of an :class:`AdmissionSpec`.
        vectors: its items are embedded and searched by vector; the setting ``retrieval.vector_weights`` overrules it.
    """

    title: str = ""
    identity: tuple[str, ...] = ()
    searchable: bool = True
    searched: str = "current+references"
    ceiling: int = 8
    pool: int = 32
    entries: int = 8
    section_range: tuple[int, int] | None = (1, 8)
    layer: str = "L1"
    bucket: str = attrs.field(default=attrs.Factory(lambda self: self.name, takes_self=True))
    tiers: str = "full"
    text_bytes: int = TEXT_BYTES
    admission: str = "floor"
    vectors: bool = True


@attrs.frozen(kw_only=True)
class AdmissionSpec(_Spec):
    """An admission rule.  ``factory(settings)`` returns a :class:`powerctx_core.ports.AdmissionRule`."""


@attrs.frozen(kw_only=True)
class ProviderSpec(_Spec):
    """A source of candidates.  ``factory(settings)`` returns a :class:`powerctx_core.ports.Provider`."""


@attrs.frozen(kw_only=True)
class RendererSpec(_Spec):
    """A text form.  ``factory(settings)`` returns a :class:`powerctx_core.ports.Renderer`.

    Attributes:
        shows: what it can show of an entry when a request wants it: ``confidence``, ``recall_rank``, ``score``.
    """

    shows: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class StoreSpec(_Spec):
    """A backend.  ``factory(url, settings)`` returns a :class:`powerctx_core.ports.Store`.

    Attributes:
        schemes: URL schemes that choose it, unique over all stores.
        capabilities: what it can do.
        example: a URL for help texts.
        composed: it is made of another store and parts of its own: the call is ``factory(url, open_store, settings)``,
            where ``open_store(url)`` opens a store as the host does.  Closing that is the duty of what is returned.
    """

    schemes: tuple[str, ...]
    capabilities: frozenset[Capability] = frozenset()
    example: str = ""
    composed: bool = False


@attrs.frozen(kw_only=True)
class EmbedderSpec(_Spec):
    """A source of vectors.  ``factory(settings)`` returns a :class:`powerctx_core.ports.Embedder`."""


@attrs.frozen(kw_only=True)
class TokenEstimatorSpec(_Spec):
    """A token price list.  ``factory(settings)`` returns a :class:`powerctx_core.ports.TokenEstimator`.

    Attributes:
        exact: counts as the model's own tokenizer does.
    """

    exact: bool = False


@attrs.frozen(kw_only=True)
class SinkSpec(_Spec):
    """An observer.  ``factory(settings)`` returns a :class:`powerctx_core.ports.Sink`."""


@attrs.frozen(kw_only=True)
class CommandSpec(_Spec):
    """A command or group of the ``powerctx`` program.  ``factory`` is (or names) the ``click.Command`` itself."""
