"""What a host is offered: records with who provides them, and how both are named in messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import attrs

from powerctx_core import builtin
from powerctx_core.discovery import Loaded
from powerctx_core.errors import PluginError, cause

__all__ = ["NOUNS", "PACKAGES", "PART_PACKAGES", "Offer", "broken", "clash"]

NOUNS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "powerctx_families": ("family", "families"),
        "powerctx_admissions": ("admission rule", "admission rules"),
        "powerctx_candidate_providers": ("candidate provider", "candidate providers"),
        "powerctx_renderers": ("renderer", "renderers"),
        "powerctx_stores": ("store", "stores"),
        "powerctx_embedders": ("embedder", "embedders"),
        "powerctx_token_estimators": ("token estimator", "token estimators"),
        "powerctx_sinks": ("sink", "sinks"),
        "powerctx_commands": ("command", "commands"),
    }
)
PACKAGES = (
    ("sqlite", "powerctx-sqlite"),
    ("oceanbase", "powerctx-oceanbase"),
    ("seekdb", "powerctx-oceanbase"),
    ("chroma", "powerctx-chroma"),
    ("oracle", "powerctx-oracle"),
)
"""Start of a URL scheme -> the package that serves it."""
PART_PACKAGES = MappingProxyType(
    {
        ("powerctx_embedders", "local"): "powerctx-local-embed",
        **{
            ("powerctx_token_estimators", f"{name}-exact"): "powerctx-tokenizers"
            for name in ("o200k", "cl100k", "qwen", "llama3", "deepseek")
        },
    }
)
"""Hook and name of a part -> the package that offers it."""


@attrs.frozen
class Offer:
    """A record and who provides it."""

    hook: str
    record: Any
    owner: Loaded

    def __str__(self) -> str:
        return f"{NOUNS[self.hook][0]} {self.record.name!r} of {self.owner.provider}"


def clash(what: str, parts: Sequence[Offer]) -> str:
    """Return the sentence about several parts of one name."""
    owners = " and by ".join(f"{part.owner.provider} (plugin {part.owner.name!r})" for part in parts)
    others = dict.fromkeys(part.owner.name for part in parts if part.owner.plugin is not builtin)
    return (
        f"{what[0].upper()}{what[1:]} is offered by {owners}, so it cannot be used; uninstall "
        f"{' or '.join(map(repr, others))} or leave it out of POWERCTX_PLUGINS."
    )


def broken(
    part: Offer, what: str, error: BaseException, hidden: Iterable[str] = (), *, checked: bool = False
) -> PluginError:
    """Return the error of a part that *what* happened to, without the values in *hidden*.

    It advises to check the plugin, unless that is being done.
    """
    look = "" if checked else f"run `powerctx check {part.owner.name}`, then "
    told = cause(error, hidden)
    return PluginError(
        f"The {part} ({part.hook}) {what}: {told}; {look}upgrade or uninstall {part.owner.distribution}."
    )
