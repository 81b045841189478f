"""What the entry point names; imports neither numpy nor the model."""

from __future__ import annotations

from collections.abc import Iterator

from powerctx_core import EmbedderSpec, hookimpl
from powerctx_local_embed.settings import LocalSettings

__all__ = ["powerctx_embedders"]


@hookimpl
def powerctx_embedders() -> Iterator[EmbedderSpec]:
    """Offer the embedder of this package."""
    yield EmbedderSpec(
        name="local",
        factory="powerctx_local_embed.embedder:LocalEmbedder",
        settings=LocalSettings,
        about="Universal Sentence Encoder multilingual 3: offline, Chinese, English and across, 512 dimensions",
    )
