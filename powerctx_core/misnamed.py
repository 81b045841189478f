"""What settings name that is not there: parts, policies, buckets and files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from powerctx_core.errors import ConfigError, InvalidRequest
from powerctx_core.gates import gate_named, installed_gates
from powerctx_core.recall.policy import POLICIES
from powerctx_core.settings import AssemblySettings, Settings
from powerctx_core.types import BUCKETS

__all__ = ["misnamed"]

Names = Callable[[str], tuple[str, ...]]
"""Returns the names of the parts that a hook offers."""


def misnamed(settings: Settings, names: Names, buckets: Sequence[str]) -> Iterator[str]:
    """Give one sentence for each setting that names what is not there.

    Args:
        settings: what is set.
        names: of the parts that are installed.
        buckets: that families of plugins add.
    """
    yield from _parts(settings, names, tuple(dict.fromkeys((*BUCKETS, *buckets))))
    yield from _gates(settings)


def _parts(settings: Settings, names: Names, buckets: tuple[str, ...]) -> Iterator[str]:
    families = names("powerctx_families")
    embedder = () if settings.embedder is None else (settings.embedder,)
    policy = () if settings.recall.policy is None else (settings.recall.policy,)
    default = settings.assembly.sections == AssemblySettings().sections
    sections = () if default else tuple(settings.assembly.sections)
    for setting, noun, given, there in (
        ("embedder", "embedder", embedder, names("powerctx_embedders")),
        ("sinks", "sink", settings.sinks, names("powerctx_sinks")),
        ("tokens.estimator", "estimator", (settings.tokens.estimator,), names("powerctx_token_estimators")),
        ("recall.families", "family", settings.recall.families, families),
        ("recall.policy", "policy", policy, tuple(POLICIES)),
        ("retrieval.vector_weights", "family", tuple(settings.retrieval.vector_weights), families),
        ("assembly.sections", "family", sections, families),
        *(
            (f"retrieval.purposes.{name}.quotas", "bucket", tuple(purpose.quotas), buckets)
            for name, purpose in settings.retrieval.purposes.items()
        ),
    ):
        for name in given:
            if name not in there:
                origin = settings.origins.get(setting)
                where = f" in {origin}" if origin else ""
                known = ", ".join(there) or "none"
                yield f"{setting}{where} names the {noun} {name!r}, which is not installed; installed: {known}."


def _gates(settings: Settings) -> Iterator[str]:
    recall, origin = settings.recall, settings.origins.get("recall.gate")
    try:
        gate_named(recall.gate, installed_gates(recall.gate_files))
    except ConfigError as error:
        yield from str(error).splitlines()
    except InvalidRequest as error:
        yield f"recall.gate{f' in {origin}' if origin else ''}: {error}"
