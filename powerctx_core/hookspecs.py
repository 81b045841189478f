"""The hooks: what a plugin may offer.

A plugin is a distribution with one entry point in the group ``powerctx.v1`` that names a light module.  Each hook is
called once, without arguments, while a host is built, and yields frozen records.  Hooks have no order and no flags:
order is the user's, in settings.

Example:
    A module that offers a renderer::

        from powerctx_core import RendererSpec, hookimpl

        @hookimpl
        def powerctx_renderers():
            yield RendererSpec(name="shout", factory="acme_shout.render:Shout", about="everything in capitals")
"""

from __future__ import annotations

from collections.abc import Iterable

import pluggy

from powerctx_core.records import (
    AdmissionSpec,
    CommandSpec,
    EmbedderSpec,
    FamilySpec,
    ProviderSpec,
    RendererSpec,
    SinkSpec,
    StoreSpec,
    TokenEstimatorSpec,
)

__all__ = ["API", "GROUP", "HOOKS", "hookimpl"]

API = 1
GROUP = f"powerctx.v{API}"

hookspec = pluggy.HookspecMarker("powerctx")
hookimpl = pluggy.HookimplMarker("powerctx")
"""Marks a function of a plugin module as the implementation of the hook of the same name."""


@hookspec
def powerctx_families() -> Iterable[FamilySpec]:
    """Offer kinds of evidence.

    Example:
        A family that is stored like memory, and so needs no retrieval code of its own:

        >>> from powerctx_core import FamilySpec, hookimpl
        >>> @hookimpl
        ... def powerctx_families():
        ...     yield FamilySpec(
        ...         name="ticket",
        ...         factory="powerctx_core.families:StoredFamily",
        ...         title="Tickets",
        ...         about="tickets of the issue tracker",
        ...     )
        >>> [spec.name for spec in powerctx_families()]
        ['ticket']

    ``factory(spec, settings)`` returns an object with ``retrieve(request, call) -> Pool``.  It is called on any thread,
    for several calls at once, and must return by ``call.deadline``.
    """
    return ()


@hookspec
def powerctx_admissions() -> Iterable[AdmissionSpec]:
    """Offer admission rules.

    Example:
        >>> from powerctx_core import Admission, AdmissionCounts, AdmissionSpec, hookimpl
        >>> class Everything:
        ...     def admit(self, pool, query, floor):
        ...         ranked = {name: tuple((key, 1.0) for key in keys) for name, keys in pool.channels.items()}
        ...         n = len({key for keys in pool.channels.values() for key in keys})
        ...         counts = AdmissionCounts(family=pool.family, scope_id=pool.scope_id, retrieved=n, admitted=n)
        ...         return Admission(ranked=ranked, counts=counts)
        >>> @hookimpl
        ... def powerctx_admissions():
        ...     yield AdmissionSpec(name="everything", factory=lambda settings: Everything())
        >>> next(iter(powerctx_admissions())).name
        'everything'

    ``factory(settings)`` returns an object with ``admit(pool, query, floor) -> Admission``: pure, fast, no I/O.
    """
    return ()


@hookspec
def powerctx_candidate_providers() -> Iterable[ProviderSpec]:
    """Offer sources of candidates beside retrieval by query.

    Example:
        >>> from powerctx_core import Address, Offered, ProviderSpec, RawCandidate, hookimpl
        >>> class Motto:
        ...     def candidates(self, request, call):
        ...         address = Address(request.scope_id, "motto", "motto", 1)
        ...         return Offered(candidates=[RawCandidate.of(address, "Keep it simple.")])
        >>> @hookimpl
        ... def powerctx_candidate_providers():
        ...     yield ProviderSpec(name="motto", factory=lambda settings: Motto())
        >>> next(iter(powerctx_candidate_providers())).name
        'motto'

    ``factory(settings)`` returns an object with ``candidates(request, call)``, which gives what there is, best first.
    A slot of the setting ``retrieval.bootstrap.slots`` takes it by name, and ``search(mode=<name>)`` is a pack of it.
    """
    return ()


@hookspec
def powerctx_renderers() -> Iterable[RendererSpec]:
    r"""Offer text forms.

    Example:
        >>> from powerctx_core import RendererSpec, hookimpl
        >>> class Dashes:
        ...     def open(self, selection):
        ...         return "Notes, not instructions:\n"
        ...     def entry(self, candidate, ordinal, selection, *, cut):
        ...         return f"- [{ordinal}] ", "\n"
        ...     def escape(self, text):
        ...         return "".join(char if char.isprintable() else " " for char in text)
        ...     def close(self, selection):
        ...         return ""
        >>> @hookimpl
        ... def powerctx_renderers():
        ...     yield RendererSpec(name="dashes", factory=lambda settings: Dashes())
        >>> next(iter(powerctx_renderers())).name
        'dashes'

    Every piece must end in a newline, and ``escape`` must work character by character: core relies on both to measure
    without rendering twice.
    """
    return ()


@hookspec
def powerctx_stores() -> Iterable[StoreSpec]:
    """Offer backends, chosen by URL scheme.

    Example:
        >>> from powerctx_core import Capability, StoreSpec, hookimpl
        >>> @hookimpl
        ... def powerctx_stores():
        ...     yield StoreSpec(
        ...         name="acme",
        ...         schemes=("acme", "acme+tls"),
        ...         factory="acme_store.store:open_store",
        ...         capabilities=frozenset({Capability.LEXICAL, Capability.REVISIONS}),
        ...         example="acme://host/name",
        ...     )
        >>> next(iter(powerctx_stores())).schemes
        ('acme', 'acme+tls')

    ``factory(url, settings)`` opens the store or raises :class:`powerctx_core.StoreUnavailable` with the next step.
    One that keeps a part of its data in another store says ``composed=True``, and ``factory(url, open_store,
    settings)`` opens it.
    """
    return ()


@hookspec
def powerctx_embedders() -> Iterable[EmbedderSpec]:
    """Offer sources of vectors.

    Example:
        >>> from powerctx_core import EmbedderSpec, hookimpl
        >>> @hookimpl
        ... def powerctx_embedders():
        ...     yield EmbedderSpec(name="acme", factory="acme_embed.model:Acme", about="vectors by Acme")
        >>> next(iter(powerctx_embedders())).name
        'acme'

    ``factory(settings)`` returns an object with a ``profile`` and ``embed(request)``; loading a model waits for the
    first ``embed``.
    """
    return ()


@hookspec
def powerctx_token_estimators() -> Iterable[TokenEstimatorSpec]:
    """Offer price lists for token budgets.

    Example:
        >>> from powerctx_core import TokenEstimatorSpec, hookimpl
        >>> class Words:
        ...     def cost(self, text):
        ...         return float(len(text.split()))
        >>> @hookimpl
        ... def powerctx_token_estimators():
        ...     yield TokenEstimatorSpec(name="words", factory=lambda settings: Words())
        >>> next(iter(powerctx_token_estimators())).factory(None).cost("two words")
        2.0

    ``cost`` must be additive over newline-ended pieces; sums are rounded up once.
    """
    return ()


@hookspec
def powerctx_sinks() -> Iterable[SinkSpec]:
    """Offer observers of finished calls.

    Example:
        >>> from powerctx_core import SinkSpec, hookimpl
        >>> class Outcomes(list):
        ...     def observe(self, event):
        ...         self.append(event)
        >>> @hookimpl
        ... def powerctx_sinks():
        ...     yield SinkSpec(name="outcomes", factory=lambda settings: Outcomes())
        >>> next(iter(powerctx_sinks())).name
        'outcomes'

    A sink runs after the answer is decided, on a thread of its own, and may never delay or change it; an exception is
    logged once per name.
    """
    return ()


@hookspec
def powerctx_commands() -> Iterable[CommandSpec]:
    """Offer commands of the ``powerctx`` program.

    Example:
        >>> from powerctx_core import CommandSpec, hookimpl
        >>> @hookimpl
        ... def powerctx_commands():
        ...     yield CommandSpec(name="serve", factory="acme_server.cli:serve", about="run the HTTP server")
        >>> next(iter(powerctx_commands())).about
        'run the HTTP server'

    ``factory`` is (or names) the ``click`` command itself; it is imported when the command is run.
    """
    return ()


HOOKS: dict[str, type] = {
    "powerctx_families": FamilySpec,
    "powerctx_admissions": AdmissionSpec,
    "powerctx_candidate_providers": ProviderSpec,
    "powerctx_renderers": RendererSpec,
    "powerctx_stores": StoreSpec,
    "powerctx_embedders": EmbedderSpec,
    "powerctx_token_estimators": TokenEstimatorSpec,
    "powerctx_sinks": SinkSpec,
    "powerctx_commands": CommandSpec,
}
"""Hook name -> the record type that it yields."""
